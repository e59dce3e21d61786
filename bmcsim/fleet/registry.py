"""All BMCs of a process, and which of them a request is for."""

from collections.abc import Callable, Container, Iterator

from bmcsim.core.errors import RedfishError
from bmcsim.fleet.forwarded import MalformedForwarded, forwarded_host, normalise_host
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.slaac import Slaac

_MOST_LEFT = 65_536


class DuplicateBmc(Exception):
    """Two BMCs would have the same id, address or MAC; the text names them."""


class Absent(Exception):
    """The request may be for a BMC that is not there yet; its connection closes without an answer."""


class Misdirected(RedfishError):
    """421: another process of the fleet has the BMC with this address."""

    def __init__(self, address: str, tried: str) -> None:
        super().__init__(421, "ResourceNotFound", "BMC", f"{tried}, which another process of this fleet has")
        self.address = address


class Fleet:
    """The registry.

    ready: turns true when every configured BMC is in it. version: changes whenever routing might. elsewhere: addresses
    of BMCs of the same fleet that other processes have. slaac: how BMCs have IPv6 addresses, None where they have none.
    vacated: told of each address that a BMC had and has no more. leased: whether BMCs get their addresses at run time.
    promised: addresses of BMCs that are about to be added. domain: BMCs are also called ID.DOMAIN; '' for by id alone.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, Bmc] = {}
        self._by_address: dict[str, Bmc] = {}
        self._by_mac: dict[int, Bmc] = {}
        self.version = 0
        self.expected = 0
        self.ready = False
        self.elsewhere: Container[str] = ()
        self.slaac: Slaac | None = None
        self.vacated: Callable[[str], None] | None = None
        self.leased = False
        self.promised: frozenset[str] = frozenset()
        self.domain = ""
        # Ids that are not in lower case, by what a name of a host makes of them.
        self._folded: dict[str, Bmc] = {}
        # Addresses that BMCs had and none has any more, the one that was left last at the end.
        self._left: dict[str, None] = {}
        # Planned address -> the BMC that moved away from it, and the other way round by id; '' for one without.
        self._kept: dict[str, Bmc] = {}
        self._homes: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Bmc]:
        return iter(self._by_id.values())

    def add(self, bmc: Bmc) -> None:
        """Add a BMC. Raises DuplicateBmc, and then nothing was added."""
        mac = bmc.identity.bmc_mac
        for what, other in (
            (f"the id {bmc.id}", self._by_id.get(bmc.id)),
            (f"the address {bmc.address}", self._by_address.get(bmc.address) if bmc.address else None),
            (f"the MAC {mac:012X}", self._by_mac.get(mac)),
        ):
            if other is not None:
                raise DuplicateBmc(f"{bmc.id} and {other.id} both have {what}")
        self._by_id[bmc.id] = self._by_mac[mac] = bmc
        if (folded := bmc.id.lower()) != bmc.id:
            self._folded.setdefault(folded, bmc)
        if bmc.address:
            self._by_address[bmc.address] = bmc
            self._left.pop(bmc.address, None)
        self.version += 1

    def remove(self, bmc: Bmc) -> None:
        """A BMC is not there any more, and nobody answers at its address."""
        del self._by_id[bmc.id], self._by_mac[bmc.identity.bmc_mac]
        if self._folded.get(folded := bmc.id.lower()) is bmc:
            del self._folded[folded]
        home = self._homes.pop(bmc.id, None)
        if home:
            del self._kept[home]
            self._leave(home)
        self.unbind(bmc)
        self.version += 1

    def by_id(self, id_: str) -> Bmc | None:
        """The BMC with an id."""
        return self._by_id.get(id_)

    def bind(self, bmc: Bmc, address: str) -> None:
        """A BMC has an IPv4 address, and no longer the one that it had. Raises DuplicateBmc; then nothing changed."""
        other = self._by_address.get(address)
        if other is bmc:
            return
        if other is not None:
            raise DuplicateBmc(f"{bmc.id} and {other.id} both have the address {address}")
        self.unbind(bmc)
        self._by_address[address] = bmc
        self._left.pop(address, None)
        bmc.address = address
        self.version += 1

    def unbind(self, bmc: Bmc) -> None:
        """A BMC has no IPv4 address any more."""
        if not bmc.address:
            return
        left, bmc.address = bmc.address, ""
        del self._by_address[left]
        self.version += 1
        self._leave(left)
        if self.vacated is not None:
            self.vacated(left)

    def _leave(self, address: str) -> None:
        self._left[address] = None
        if len(self._left) > _MOST_LEFT:
            del self._left[next(iter(self._left))]

    def move(self, bmc: Bmc, address: str) -> None:
        """A BMC of a pool has another address than the planned one, which is kept for it. Raises as `bind`."""
        home = self._homes.get(bmc.id, bmc.address)
        self.bind(bmc, address)
        if home == address:
            self._homes.pop(bmc.id, None)
            self._kept.pop(home, None)
        else:
            self._keep(bmc, home)

    def _keep(self, bmc: Bmc, home: str) -> None:
        self._homes[bmc.id] = home
        if home:
            self._kept[home] = bmc

    def leave_home(self, bmc: Bmc) -> None:
        """A BMC of a pool has no address for now, and its planned one is kept for it."""
        self._keep(bmc, bmc.address)
        self.unbind(bmc)

    def go_home(self, bmc: Bmc) -> None:
        """A BMC of a pool has its planned address again, or none where the pool was too small."""
        home = self._homes.pop(bmc.id, None)
        if home:
            del self._kept[home]
            self.bind(bmc, home)
        elif home is not None:
            self.unbind(bmc)

    def taken(self, address: str, mac: int) -> bool:
        """Whether the BMC with a MAC cannot have an address because another one has it, or is to have it.

        Other processes know nothing of what changes in this one; where there are any, it can have none but its own.
        """
        holder = self._by_address.get(address) or self._kept.get(address)
        if holder is None:
            return bool(self.elsewhere) or address in self.promised
        return holder.identity.bmc_mac != mac

    def is_vacant(self, address: str) -> bool:
        """Whether an address is kept for a BMC that is elsewhere, or not there yet, or was one's once: nobody answers
        there."""
        if address in self._by_address:
            return False
        return address in self._kept or address in self._left or address in self.promised

    @property
    def homeless(self) -> int:
        """How many BMCs have no IPv4 address."""
        return len(self._by_id) - len(self._by_address)

    @property
    def _settled(self) -> bool:
        """Whether an address without a BMC will not be that of one. A 404 would tell NICo that there is another
        machine."""
        return self.ready and not (self.leased and self.homeless)

    def by_address(self, address: str) -> Bmc | None:
        """The BMC with an IPv4 or IPv6 address."""
        bmc = self._by_address.get(address)
        if bmc is None and self.slaac is not None and ":" in address and (mac := self.slaac.mac(address)) is not None:
            return self._by_mac.get(mac)
        return bmc

    def by_name(self, name: str) -> Bmc | None:
        """The BMC with a name of a host, in lower case and without a final dot: its id, or ID.DOMAIN."""
        if self.domain:
            name = name.removesuffix(f".{self.domain}")
        return self._by_id.get(name) or self._folded.get(name)

    def _named(self, host: str, tried: str) -> Bmc | None:
        """The BMC with a normalised host. Raises Absent for one that cannot be reached, since it has no address."""
        bmc = self.by_address(host)
        if bmc is None and (bmc := self.by_name(host)) is not None and not bmc.address:
            raise Absent(tried)
        return bmc

    def by_mac(self, mac: int) -> Bmc | None:
        """The BMC whose management interface has a MAC."""
        return self._by_mac.get(mac)

    def by_serial(self, serial: str) -> Bmc | None:
        """The BMC with a serial number: a scan, for tools and not for requests."""
        return next((bmc for bmc in self if bmc.identity.serial == serial), None)

    def route(self, forwarded: bytes, host: bytes, dialled: str) -> Bmc:
        """The BMC of a request: by Forwarded, else Host, else the address that was dialled, else the only one. Both
        name it by an address, or by the name of a host.

        A Forwarded host is final: it never falls through to another BMC. Raises RedfishError 400 for a malformed
        Forwarded field, Misdirected for a BMC that another process has, RedfishError 404 for a request that names no
        BMC, and Absent while a BMC is missing, or has no address yet, or has moved away from there.
        """
        if forwarded:
            try:
                wanted = forwarded_host(forwarded.decode("latin-1"))
            except MalformedForwarded as error:
                raise RedfishError(400, "HeaderInvalid", "Forwarded") from error
            if wanted is not None:
                bmc = self._by_address.get(wanted)
                if bmc is None:
                    bmc = self._named(normalise_host(wanted), f"Forwarded host={wanted}")
                if bmc is None:
                    raise self._no_route(f"Forwarded host={wanted}", wanted)
                return bmc
        named = host.decode("latin-1")
        bmc = self._by_address.get(named.partition(":")[0])
        if bmc is None and named:
            bmc = self._named(normalise_host(named), f"Host {named}")
            if bmc is None and self.elsewhere and normalise_host(named) in self.elsewhere:
                raise self._no_route(f"Host {named}", named)
            if bmc is None and self.is_vacant(normalise_host(named)):
                raise Absent(f"Host {named}")
        if bmc is None:
            bmc = self.by_address(dialled)
        if bmc is not None:
            return bmc
        if self.is_vacant(dialled):
            raise Absent(f"dialled address {dialled}")
        if len(self._by_id) == 1 and self._settled and not self.elsewhere:
            return next(iter(self._by_id.values()))
        raise self._no_route(f"Host {named or '(none)'}, dialled address {dialled}")

    def names(self, bmc: Bmc, forwarded: bytes, host: bytes) -> bool:
        """Whether the header fields alone lead to a BMC, whatever address was dialled."""
        try:
            return self.route(forwarded, host, "") is bmc
        except (RedfishError, Absent):
            return False

    def _no_route(self, tried: str, named: str = "") -> Exception:
        if not self._settled or self.is_vacant(normalise_host(named)):
            return Absent(tried)
        if (address := normalise_host(named)) in self.elsewhere:
            return Misdirected(address, tried)
        return RedfishError(404, "ResourceNotFound", "BMC", tried)
