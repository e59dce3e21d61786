import asyncio
from collections.abc import Iterable
from typing import Any

import grpc
import pytest

from bmcsim.edges.nico import common_pb2 as common
from bmcsim.edges.nico import forge_pb2 as forge
from bmcsim.edges.nico.calls import ADD_MACHINE
from bmcsim.edges.nico.channel import Api
from bmcsim.edges.nico.inventory import Record, rack_record
from bmcsim.edges.nico.registration import NotRegistered, Registration
from tests.nico_api import FakeApi, Refusal, api_at, running

PROFILE = "GB200_NVL72R1_C2G4_WIWYNN"


def machines(count: int) -> list[Record]:
    return [Record(f"host-{n}", ADD_MACHINE, forge.ExpectedMachine(bmc_mac_address=f"mac-{n}")) for n in range(count)]


class Story:
    """A registration whose pauses pass at once: what it said and how long it waited."""

    def __init__(self, api: Api, *, strict: bool = False) -> None:
        self.said: list[str] = []
        self.slept: list[float] = []
        self.registration = Registration(
            api, random=lambda: 1.0, say=self.said.append, strict=strict, sleep=self._sleep
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def run(self, devices: Iterable[Record], racks: Iterable[Record] = ()) -> dict[str, int]:
        await self.registration.run(racks, devices)
        return {standing.value: count for standing, count in self.registration.standings.items() if count}


def failing(*codes: grpc.StatusCode, of: str = "mac-0") -> Any:
    """Fails the calls for one machine, one after the other, with these codes."""
    left = list(codes)

    async def before(method: str, request: Any) -> None:
        if getattr(request, "bmc_mac_address", "") == of and left:
            raise Refusal(left.pop(0), "because")

    return before


async def test_all_of_a_fleet() -> None:
    async with running() as fake, api_at(fake) as api:
        story = Story(api)
        racks = [rack_record("rack-1", PROFILE)]
        assert await story.run(machines(30), racks) == {"registered": 31}
        assert story.registration.status() == {"registered": 30, "already_present": 0, "failed_identifiers": []}
        assert fake.asked[0][1] == "AddExpectedRack"
        assert (story.slept, story.said) == ([], ["NICo: 31 registered, 0 present already"])


async def test_what_is_there_already_is_fine() -> None:
    async with running() as fake, api_at(fake) as api:
        await Story(api).run(machines(3), [rack_record("rack-1", PROFILE)])
        story = Story(api)
        assert await story.run(machines(5), [rack_record("rack-1", PROFILE)]) == {"present": 4, "registered": 2}
        assert story.registration.status() == {"registered": 2, "already_present": 3, "failed_identifiers": []}


async def test_a_rack_with_another_profile_is_a_conflict() -> None:
    async with running() as fake, api_at(fake) as api:
        fake.racks["rack-1"] = forge.ExpectedRack(rack_profile_id=common.RackProfileId(id="OTHER"))
        story = Story(api)
        assert await story.run(machines(1), [rack_record("rack-1", PROFILE)]) == {"refused": 1, "registered": 1}
        assert story.registration.refused == {
            "rack-1": "is there with the profile OTHER, not GB200_NVL72R1_C2G4_WIWYNN"
        }
        assert "rack-1 (is there with" in story.said[-1]


@pytest.mark.parametrize(
    "code", ["UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN", "ABORTED", "CANCELLED", "RESOURCE_EXHAUSTED"]
)
async def test_what_fails_for_now_is_tried_again(code: str) -> None:
    async with running() as fake, api_at(fake) as api:
        fake.before = failing(*[grpc.StatusCode[code]] * 8)
        story = Story(api)
        assert await story.run(machines(20)) == {"registered": 20}
        assert story.slept == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
        assert story.said[0].startswith(f"warning: NICo: 1 of the fleet not registered yet ({code}: because)")
        assert len(story.said) == 2
        assert story.registration.status()["failed_identifiers"] == []


@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "PERMISSION_DENIED", "UNIMPLEMENTED", "UNAUTHENTICATED"])
async def test_what_is_refused_is_named_and_the_others_go_on(code: str) -> None:
    async with running() as fake, api_at(fake) as api:
        fake.before = failing(grpc.StatusCode[code])
        story = Story(api)
        assert await story.run(machines(20)) == {"registered": 19, "refused": 1}
        assert story.registration.status()["failed_identifiers"] == ["host-0"]
        assert story.said == [f"NICo: 19 registered, 0 present already; 1 refused: host-0 ({code}: because)"]
        assert fake.count("AddExpectedMachine") == 20


async def test_a_server_that_is_down_is_not_asked_for_everything() -> None:
    async with running() as fake, api_at(fake) as api:

        async def down(method: str, request: Any) -> None:
            if len(story.slept) < 3:
                raise Refusal(grpc.StatusCode.UNAVAILABLE)

        fake.before = down
        story = Story(api)
        assert await story.run(machines(500)) == {"registered": 500}
        assert len(story.slept) == 3
        assert fake.count("AddExpectedMachine") <= 500 + 3 * (16 + 8)


async def test_a_server_that_wants_no_other_attempt_gets_the_longest_pause() -> None:
    async with running() as fake, api_at(fake) as api:
        refused = False

        async def stop(method: str, request: Any) -> None:
            nonlocal refused
            if not refused:
                refused = True
                raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "no", "-1")

        fake.before = stop
        story = Story(api)
        assert await story.run(machines(3)) == {"registered": 3}
        assert story.slept == [30.0]


async def test_at_most_eight_are_in_flight() -> None:
    async with running() as fake, api_at(fake) as api:
        inside = most = 0

        async def slow(method: str, request: Any) -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.01)
            inside -= 1

        fake.before = slow
        assert await Story(api).run(machines(60)) == {"registered": 60}
        assert most == 8


async def test_status_meanwhile() -> None:
    async with running() as fake, api_at(fake) as api:
        fake.before = failing(grpc.StatusCode.UNAVAILABLE)
        story = Story(api)
        seen = []

        async def look(seconds: float) -> None:
            seen.append(story.registration.status())

        story.registration._sleep = look
        await story.run(machines(3))
        assert seen == [{"registered": 2, "already_present": 0, "failed_identifiers": ["host-0"]}]


async def test_strict_names_all_that_is_refused() -> None:
    async with running() as fake, api_at(fake) as api:
        fake.before = failing(grpc.StatusCode.INVALID_ARGUMENT)
        with pytest.raises(
            NotRegistered, match=r"1 refused by NICo: host-0 \(INVALID_ARGUMENT: because\).*all: host-0$"
        ):
            await Story(api, strict=True).run(machines(3))
        assert len(fake.expected) == 2


async def test_strict_gives_up_after_thirty_rounds() -> None:
    async with running() as fake, api_at(fake) as api:
        fake.before = failing(*[grpc.StatusCode.INTERNAL] * 40)
        story = Story(api, strict=True)
        with pytest.raises(NotRegistered, match=r"30 rounds.*host-0 \(INTERNAL"):
            await story.run(machines(3))
        assert len(story.slept) == 29
        fake.before = failing(*[grpc.StatusCode.INTERNAL] * 40)
        assert (await Story(api).run(machines(3)))["present"] == 2


def test_a_fake_counts_the_busiest_second() -> None:
    fake = FakeApi()
    fake.asked = [(when, "x") for when in (0.0, 0.5, 0.9, 1.0, 1.4, 3.0)]
    assert fake.busiest_second() == 4
