import asyncio
from typing import Any

import grpc
import pytest

from bmcsim.edges.nico import common_pb2 as common
from bmcsim.edges.nico import forge_pb2 as forge
from bmcsim.edges.nico.dhcp import InvalidRecord, NicoDhcp, lease_of
from bmcsim.machine.dhcp.messages import Ask, Interface, Kind, Lease, Port, Reply, Segment
from tests.nico_api import Refusal, api_at, is_in, running, until

MAC = 0x02000000000A
RELAYS = {Port.BMC: "10.1.0.1", Port.OOB: "10.2.0.1", Port.NVOS: "10.2.0.1", Port.NIC: "10.3.0.1"}


class Fleet:
    """Whoever hears the replies. waits: whether somebody waits for them."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, Reply]] = []
        self.waits = True

    def __call__(self, mac: int, reply: Reply) -> bool:
        self.heard.append((mac, reply))
        return self.waits


def interface(mac: int = MAC, port: Port = Port.BMC, vendor_class: str = "") -> Interface:
    return Interface("host-0", port, mac, Segment.BMC, vendor_class, RELAYS[port])


DISCOVER = Ask(Kind.DISCOVER, 7)


async def test_a_discover_is_answered_by_a_rapid_ack() -> None:
    async with running() as fake, api_at(fake) as api:
        asked = []

        async def note(method: str, request: Any) -> None:
            asked.append(request)

        fake.before, fleet = note, Fleet()
        dhcp = NicoDhcp(api, fleet, 8)
        dhcp.send(interface(vendor_class="iDRAC"), DISCOVER)
        await until(lambda: fleet.heard)
        lease = Lease(
            "10.1.0.10",
            prefix=16,
            gateway="10.1.0.1",
            ntp_servers=("10.9.9.9",),
            host_name="h-02000000000a",
            domain="example.org",
            mtu=9000,
            interface_id="00000000-0000-4000-8000-02000000000A",
        )
        assert fleet.heard == [(MAC, Reply(Kind.ACK, 7, lease, rapid=True))]
        assert lease.expires() == float("inf")
        assert asked == [
            forge.DhcpDiscovery(mac_address="02:00:00:00:00:0A", relay_address="10.1.0.1", vendor_string="iDRAC")
        ]
        assert (dhcp.counts.answered, len(dhcp)) == (1, 0)
        await dhcp.close()


async def test_without_a_vendor_class_there_is_no_vendor_string() -> None:
    async with running() as fake, api_at(fake) as api:
        asked = []

        async def note(method: str, request: Any) -> None:
            asked.append(request)

        fake.before, fleet = note, Fleet()
        NicoDhcp(api, fleet, 8).send(interface(), DISCOVER)
        await until(lambda: fleet.heard)
        assert not asked[0].HasField("vendor_string")


@pytest.mark.parametrize("port", list(RELAYS))
async def test_each_interface_asks_through_its_own_relay(port: Port) -> None:
    async with running() as fake, api_at(fake) as api:
        fake.kinds["02:00:00:00:00:0A"] = {"10.1.0.1": "BMC", "10.2.0.1": "UNDERLAY", "10.3.0.1": "HOST_INBAND"}[
            RELAYS[port]
        ]
        fleet = Fleet()
        NicoDhcp(api, fleet, 8).send(interface(port=port), DISCOVER)
        await until(lambda: fleet.heard)
        lease = fleet.heard[0][1].lease
        assert lease is not None
        assert is_in(lease.address, RELAYS[port])


@pytest.mark.parametrize(("address", "kind"), [("10.1.0.10", Kind.ACK), ("10.1.0.99", Kind.NAK)])
async def test_a_client_that_had_an_address_keeps_it_if_it_is_the_same(address: str, kind: Kind) -> None:
    async with running() as fake, api_at(fake) as api:
        fleet = Fleet()
        NicoDhcp(api, fleet, 8).send(interface(), Ask(Kind.REQUEST, 9, requested=address))
        await until(lambda: fleet.heard)
        (reply,) = [reply for _, reply in fleet.heard]
        assert (reply.kind, reply.xid, reply.rapid) == (kind, 9, False)
        assert (reply.lease is not None) is (kind is Kind.ACK)


async def test_a_refusal_for_now_is_silence() -> None:
    async with running() as fake, api_at(fake) as api:

        async def refuse(method: str, request: Any) -> None:
            raise Refusal(grpc.StatusCode.INTERNAL, "oh")

        fake.before, fleet = refuse, Fleet()
        dhcp = NicoDhcp(api, fleet, 8)
        dhcp.send(interface(), DISCOVER)
        await until(lambda: dhcp.counts.failed)
        assert (fleet.heard, dhcp.last_error, len(dhcp)) == ([], "INTERNAL: oh", 0)


async def test_a_refusal_for_good_is_said_to_a_discover_and_no_address_is_lost_by_it() -> None:
    async with running() as fake, api_at(fake) as api:
        fake.kinds["02:00:00:00:00:0A"] = "UNDERLAY"
        fleet = Fleet()
        dhcp = NicoDhcp(api, fleet, 8)
        dhcp.send(interface(), Ask(Kind.REQUEST, 9, requested="10.1.0.10"))
        await until(lambda: dhcp.counts.failed == 1)
        assert fleet.heard == []
        dhcp.send(interface(), DISCOVER)
        await until(lambda: fleet.heard)
        text = "INVALID_ARGUMENT: 02:00:00:00:00:0A may not be on a segment of type BMC"
        assert fleet.heard == [(MAC, Reply(Kind.NAK, 7, rapid=True, text=text))]
        assert dhcp.last_error == text


async def test_one_call_of_an_interface_and_the_answer_is_to_what_it_said_last() -> None:
    async with running() as fake, api_at(fake) as api:
        go = asyncio.Event()

        async def hold(method: str, request: Any) -> None:
            await go.wait()

        fake.before, fleet = hold, Fleet()
        dhcp = NicoDhcp(api, fleet, 8)
        for xid in (7, 7, 8):
            dhcp.send(interface(), Ask(Kind.DISCOVER, xid))
            await until(lambda: fake.asked)
        assert (len(fake.asked), len(dhcp)) == (1, 1)
        go.set()
        await until(lambda: fleet.heard)
        assert [reply.xid for _, reply in fleet.heard] == [8]
        assert len(fake.asked) == 1


async def test_a_client_that_left_hears_nothing() -> None:
    async with running() as fake, api_at(fake) as api:
        go = asyncio.Event()

        async def hold(method: str, request: Any) -> None:
            await go.wait()

        fake.before, fleet = hold, Fleet()
        dhcp = NicoDhcp(api, fleet, 1)
        dhcp.send(interface(), DISCOVER)
        dhcp.send(interface(MAC + 1), DISCOVER)
        await until(lambda: fake.asked)
        for mac in (MAC, MAC + 1):
            dhcp.send(interface(mac), Ask(Kind.RELEASE, 7))
        go.set()
        await until(lambda: dhcp.counts.unwanted)
        assert (fleet.heard, len(dhcp), len(fake.asked)) == ([], 0, 1)


async def test_never_more_calls_at_once_than_the_window() -> None:
    async with running() as fake, api_at(fake) as api:
        inside = most = 0

        async def slow(method: str, request: Any) -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.005)
            inside -= 1

        fake.before, fleet = slow, Fleet()
        dhcp = NicoDhcp(api, fleet, 5)
        for number in range(100):
            dhcp.send(interface(MAC + number), DISCOVER)
        await until(lambda: len(fleet.heard) == 100)
        assert (most, dhcp.window) == (5, 5)
        assert [mac for mac, _ in fleet.heard][:5] != []
        assert len({reply.lease.address for _, reply in fleet.heard if reply.lease is not None}) == 100


async def test_closing_forgets_what_waits() -> None:
    async with running() as fake, api_at(fake) as api:

        async def hold(method: str, request: Any) -> None:
            await asyncio.sleep(30)

        fake.before, fleet = hold, Fleet()
        dhcp = NicoDhcp(api, fleet, 2)
        for number in range(10):
            dhcp.send(interface(MAC + number), DISCOVER)
        await until(lambda: fake.asked)
        await dhcp.close()
        assert (fleet.heard, len(dhcp)) == ([], 0)


def record(**changed: Any) -> forge.DhcpRecord:
    given = {"machine_interface_id": common.MachineInterfaceId(value="id"), "address": "10.0.0.5", **changed}
    return forge.DhcpRecord(**given)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"machine_interface_id": None}, "machine_interface_id"),
        ({"address": ""}, "no IPv4 address"),
        ({"address": "fd00::5"}, "no IPv4 address"),
        ({"address": "0.0.0.0"}, "no IPv4 address"),
        ({"address": "10.0.0.5/24"}, "no IPv4 address"),
    ],
)
def test_records_that_give_no_lease(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRecord, match=why):
        lease_of(record(**changed))


def test_what_is_not_as_it_should_be_is_left_out() -> None:
    bare = Lease("10.0.0.5", interface_id="id")
    assert lease_of(record()) == bare
    odd = record(gateway="fd00::1", prefix="10.0.0.0", mtu=-1, ntp_servers=["ntp.example.org", "fd00::1"])
    assert lease_of(odd) == bare
    assert lease_of(record(prefix="10.0.0.7/24")).prefix == 24
    assert lease_of(record(prefix="fd00::/64")).prefix == 0
    assert lease_of(record(fqdn="alone")).host_name == "alone"


async def test_an_answer_without_a_lease_is_said_to_a_discover() -> None:
    async with running() as fake, api_at(fake) as api:
        fake.addresses["02:00:00:00:00:0A"] = "fd00::1"
        fleet = Fleet()
        dhcp = NicoDhcp(api, fleet, 8)
        dhcp.send(interface(), DISCOVER)
        await until(lambda: fleet.heard)
        assert (dhcp.counts.invalid, fleet.heard[0][1].kind) == (1, Kind.NAK)
        assert dhcp.last_error == "invalid record: 'fd00::1' is no IPv4 address"
