"""All BMCs of a process, and which of them a request is for."""

from collections.abc import Container, Iterator

from bmcsim.core.errors import RedfishError
from bmcsim.fleet.forwarded import MalformedForwarded, forwarded_host, normalise_host
from bmcsim.machine.bmc import Bmc


class DuplicateBmc(Exception):
    """Two BMCs would have the same id, address or MAC; the text names them."""


class Absent(Exception):
    """The request may be for a BMC that is not there yet; its connection closes without an answer."""


class Fleet:
    """The registry.

    ready: turns true when every configured BMC is in it. version: changes whenever routing might. elsewhere: addresses
    of BMCs of the same fleet that other processes have.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, Bmc] = {}
        self._by_address: dict[str, Bmc] = {}
        self._by_mac: dict[int, Bmc] = {}
        self.version = 0
        self.expected = 0
        self.ready = False
        self.elsewhere: Container[str] = ()

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Bmc]:
        return iter(self._by_id.values())

    def add(self, bmc: Bmc) -> None:
        """Add a BMC. Raises DuplicateBmc, and then nothing was added."""
        mac = bmc.identity.bmc_mac
        for what, other in (
            (f"the id {bmc.id}", self._by_id.get(bmc.id)),
            (f"the address {bmc.address}", self._by_address.get(bmc.address)),
            (f"the MAC {mac:012X}", self._by_mac.get(mac)),
        ):
            if other is not None:
                raise DuplicateBmc(f"{bmc.id} and {other.id} both have {what}")
        self._by_id[bmc.id] = self._by_address[bmc.address] = self._by_mac[mac] = bmc
        self.version += 1

    def by_id(self, id_: str) -> Bmc | None:
        """The BMC with an id."""
        return self._by_id.get(id_)

    def by_address(self, address: str) -> Bmc | None:
        """The BMC with an address."""
        return self._by_address.get(address)

    def by_mac(self, mac: int) -> Bmc | None:
        """The BMC whose management interface has a MAC."""
        return self._by_mac.get(mac)

    def by_serial(self, serial: str) -> Bmc | None:
        """The BMC with a serial number: a scan, for tools and not for requests."""
        return next((bmc for bmc in self if bmc.identity.serial == serial), None)

    def route(self, forwarded: bytes, host: bytes, dialled: str) -> Bmc:
        """The BMC of a request: by Forwarded, else Host, else the address that was dialled, else the only one.

        A Forwarded host is final: it never falls through to another BMC. Raises RedfishError 400 for a malformed
        Forwarded field, 421 for a BMC that another process has and 404 for a request that names no BMC, and Absent
        while the fleet is not complete.
        """
        if forwarded:
            try:
                wanted = forwarded_host(forwarded.decode("latin-1"))
            except MalformedForwarded as error:
                raise RedfishError(400, "HeaderInvalid", "Forwarded") from error
            if wanted is not None:
                bmc = self._by_address.get(wanted) or self._by_address.get(normalise_host(wanted))
                if bmc is None:
                    raise self._no_route(f"Forwarded host={wanted}", wanted)
                return bmc
        named = host.decode("latin-1")
        bmc = self._by_address.get(named.partition(":")[0])
        if bmc is None and named:
            bmc = self._by_address.get(normalise_host(named))
            if bmc is None and self.elsewhere and normalise_host(named) in self.elsewhere:
                raise self._no_route(f"Host {named}", named)
        if bmc is None:
            bmc = self._by_address.get(dialled)
        if bmc is not None:
            return bmc
        if len(self._by_id) == 1 and self.ready and not self.elsewhere:
            return next(iter(self._by_id.values()))
        raise self._no_route(f"Host {named or '(none)'}, dialled address {dialled}")

    def names(self, bmc: Bmc, forwarded: bytes, host: bytes) -> bool:
        """Whether the header fields alone lead to a BMC, whatever address was dialled."""
        try:
            return self.route(forwarded, host, "") is bmc
        except (RedfishError, Absent):
            return False

    def _no_route(self, tried: str, named: str = "") -> Exception:
        if not self.ready:
            return Absent(tried)
        if normalise_host(named) in self.elsewhere:
            return RedfishError(421, "ResourceNotFound", "BMC", f"{tried}, which another process of this fleet has")
        return RedfishError(404, "ResourceNotFound", "BMC", tried)
