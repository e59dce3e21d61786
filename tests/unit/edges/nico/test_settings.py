import asyncio
from typing import Any

import grpc

from bmcsim.edges.nico import forge_pb2 as forge
from bmcsim.edges.nico.calls import SET_CONFIG
from bmcsim.edges.nico.settings import Cleanup, clear_proxy, desired_firmware, persist, proxy_request
from bmcsim.fleet.desired import Desired
from tests.nico_api import Refusal, api_at, running


async def at_once(seconds: float) -> None:
    pass


def refusing(*codes: str) -> Any:
    left = list(codes)

    async def before(method: str, request: Any) -> None:
        if left:
            raise Refusal(grpc.StatusCode[left.pop(0)])

    return before


async def test_the_proxy_is_set_and_taken_back() -> None:
    async with running() as fake, api_at(fake) as api:
        fake.before = refusing("UNAVAILABLE", "INTERNAL")
        await persist(api, SET_CONFIG, proxy_request("bmcsim.example:1266"), lambda: 0.0, at_once)
        assert fake.settings == {forge.ConfigSetting.BMC_PROXY: "bmcsim.example:1266"}
        assert await clear_proxy(api, 5.0) == ""
        assert fake.settings == {forge.ConfigSetting.BMC_PROXY: ""}
        fake.before = refusing("PERMISSION_DENIED")
        assert await clear_proxy(api, 5.0) == "PERMISSION_DENIED"


async def test_desired_firmware() -> None:
    async with running() as fake, api_at(fake) as api:
        entry = forge.DesiredFirmwareVersionEntry(vendor="nvidia", model="BlueField 3", component_versions={"bmc": "1"})
        fake.firmware = [entry]
        fake.before = refusing("UNAVAILABLE")
        assert await desired_firmware(api, lambda: 0.0, at_once) == [Desired("nvidia", "BlueField 3", {"bmc": "1"})]


async def test_machines_are_deleted_as_far_as_time_allows() -> None:
    async with running() as fake, api_at(fake) as api:
        cleanup = Cleanup(api, [f"mac-{n}" for n in range(20)], at_once)
        await cleanup.run(5.0)
        assert cleanup.left == 0
        assert sorted(one.host_query for one in fake.deleted) == sorted(f"mac-{n}" for n in range(20))
        one = fake.deleted[0]
        assert (one.delete_interfaces, one.delete_bmc_interfaces, one.delete_bmc_credentials) == (True, True, False)

        async def hold(method: str, request: Any) -> None:
            await asyncio.sleep(30)

        fake.before = hold
        late = Cleanup(api, ["a", "b"], at_once)
        await late.run(0.1)
        assert late.left == 2


async def test_a_machine_that_nico_does_not_know_is_gone_and_one_that_fails_is_left() -> None:
    async with running() as fake, api_at(fake) as api:

        async def before(method: str, request: Any) -> None:
            codes = {"gone": grpc.StatusCode.NOT_FOUND, "kept": grpc.StatusCode.FAILED_PRECONDITION}
            if request.host_query in codes:
                raise Refusal(codes[request.host_query])

        fake.before = before
        cleanup = Cleanup(api, ["gone", "kept", "there"], at_once)
        await cleanup.run(5.0)
        assert (cleanup.left, cleanup.failed) == (1, {"kept": "FAILED_PRECONDITION"})
