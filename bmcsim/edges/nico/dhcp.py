"""NICo's API as the DHCP server of the fleet.

Rule 1: a DISCOVER becomes one DiscoverDhcp; its answer is an ACK at once, with a lease for ever.
Rule 2: a REQUEST, of a client that had a lease when the process ended, asks in the same way: ACK if the address is the
        same, else NAK.
Rule 3: at most one call of an interface is under way or waits. What a client says meanwhile takes the place of what it
        said before; the answer is to that.
Rule 4: a call that fails is as good as no answer. The client says it again in its own time.
Rule 5: what NICo refuses for good, or answers without an address, is a NAK to a DISCOVER, which is repeated as late as
        without one. No client loses an address by it.
Rule 6: RELEASE and DECLINE are not for NICo, which has no such calls for a fleet; what waits is forgotten with them.
"""

import asyncio
from collections.abc import Callable
from ipaddress import AddressValueError, IPv4Address, IPv4Network

from bmcsim.edges.nico import forge_pb2 as forge
from bmcsim.edges.nico.calls import DISCOVER_DHCP, CallFailed
from bmcsim.edges.nico.channel import Api
from bmcsim.machine.dhcp.messages import Ask, Interface, Kind, Lease, Reply
from bmcsim.machine.identity import mac_colons

Heard = Callable[[int, Reply], bool]
"""Takes the reply to the client of a MAC; False where nobody waits for it."""


class InvalidRecord(Exception):
    """NICo's answer gives no lease; the text says why."""


class Counts:
    """answered: clients that got a reply. failed: calls without an answer. invalid: answers that give no lease.
    unwanted: answers that nobody waited for any more."""

    __slots__ = ("answered", "failed", "invalid", "unwanted")

    def __init__(self) -> None:
        self.answered = self.failed = self.invalid = self.unwanted = 0


class NicoDhcp:
    """A back end of `fleet.leases`. window: how many calls are under way at once. last_error: '' for none so far."""

    def __init__(self, api: Api, heard: Heard, concurrency: int) -> None:
        self._api, self._heard = api, heard
        self.window = concurrency
        self.counts = Counts()
        self.last_error = ""
        self._waiting: dict[int, tuple[Interface, Ask]] = {}
        self._asking: dict[int, tuple[Interface, Ask]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many interfaces wait for an answer."""
        return len(self._waiting) + len(self._asking)

    def send(self, interface: Interface, ask: Ask) -> None:
        """Ask for what a client wants, some time. Never raises."""
        mac = interface.mac
        if ask.kind not in (Kind.DISCOVER, Kind.REQUEST):
            self._waiting.pop(mac, None)
            self._asking.pop(mac, None)
        elif mac in self._asking:
            self._asking[mac] = interface, ask
        else:
            self._waiting[mac] = interface, ask
            if len(self._tasks) < self.window:
                task = asyncio.get_running_loop().create_task(self._work())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Forget everything that waits."""
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(self) -> None:
        """Ask for whoever waits longest, until nobody waits."""
        while self._waiting:
            mac = next(iter(self._waiting))
            self._asking[mac] = self._waiting.pop(mac)
            try:
                await self._acquire(mac, self._asking[mac][0])
            finally:
                self._asking.pop(mac, None)

    async def _acquire(self, mac: int, interface: Interface) -> None:
        try:
            lease = lease_of(await self._api.call(DISCOVER_DHCP, discovery_of(interface)))
        except CallFailed as error:
            self.counts.failed += 1
            self.last_error = str(error)
            if not error.transient:
                self._refuse(mac, str(error))
            return
        except InvalidRecord as error:
            self.counts.invalid += 1
            self.last_error = f"invalid record: {error}"
            self._refuse(mac, self.last_error)
            return
        ask = self._wanted(mac)
        if ask is not None and self._heard(mac, reply_to(ask, lease)):
            self.counts.answered += 1
        else:
            self.counts.unwanted += 1

    def _wanted(self, mac: int) -> Ask | None:
        """What a client said last, None if it wants nothing any more. The call for it is over."""
        _, ask = self._asking.pop(mac, (None, None))
        return ask

    def _refuse(self, mac: int, why: str) -> None:
        ask = self._wanted(mac)
        if ask is not None and ask.kind is Kind.DISCOVER:
            self._heard(mac, Reply(Kind.NAK, ask.xid, rapid=True, text=why))


def discovery_of(interface: Interface) -> forge.DhcpDiscovery:
    """What NICo is asked."""
    return forge.DhcpDiscovery(
        mac_address=mac_colons(interface.mac),
        relay_address=interface.relay,
        vendor_string=interface.vendor_class or None,
    )


def reply_to(ask: Ask, lease: Lease) -> Reply:
    """What a client hears when it has said something and NICo has a lease for it."""
    if ask.kind is Kind.DISCOVER:
        return Reply(Kind.ACK, ask.xid, lease, rapid=True)
    if lease.address == (ask.requested or ask.client):
        return Reply(Kind.ACK, ask.xid, lease)
    return Reply(Kind.NAK, ask.xid, text=f"the address is {lease.address} now")


def lease_of(record: forge.DhcpRecord) -> Lease:
    """What NICo's record gives; what is not as it should be is left out. Raises InvalidRecord without an address."""
    id_, address = record.machine_interface_id.value, _ipv4(record.address)
    if not id_:
        raise InvalidRecord("it has no machine_interface_id")
    if not address:
        raise InvalidRecord(f"{record.address[:100]!r} is no IPv4 address")
    host_name, _, domain = record.fqdn.rstrip(".").partition(".")
    return Lease(
        address,
        prefix=_prefix_length(record.prefix),
        gateway=_ipv4(record.gateway),
        ntp_servers=tuple([server for server in map(_ipv4, record.ntp_servers) if server]),
        host_name=host_name,
        domain=domain,
        mtu=max(0, record.mtu),
        interface_id=id_,
    )


def _ipv4(text: str) -> str:
    """A usable IPv4 address as it is written shortest, '' for anything else."""
    try:
        address = IPv4Address(text)
    except AddressValueError:
        return ""
    return "" if address.is_unspecified or address.is_multicast else str(address)


def _prefix_length(text: str) -> int:
    """24 of '10.1.2.0/24', 0 for anything else."""
    try:
        return IPv4Network(text, strict=False).prefixlen if "/" in text else 0
    except ValueError:
        return 0
