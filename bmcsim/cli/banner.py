"""What `bmcsim serve` says once its BMCs are there."""

import sys
import time
from collections import Counter

import click

from bmcsim.edges.http import listen
from bmcsim.fleet.durability import Restorer
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.shards import Shard
from bmcsim.machine.bmc import Bmc


class Banner:
    """What is said once every BMC is there, and, where they lease their addresses, once each has one."""

    def __init__(
        self, bmcs: Fleet, served: listen.Listen, port: int, with_tls: bool, started: float, shard: Shard | None
    ) -> None:
        """started: monotonic time."""
        self._bmcs, self._served, self._port, self._with_tls, self._started = bmcs, served, port, with_tls, started
        self._who = f"shard {shard}: " if shard is not None else ""

    def say(self) -> None:
        """Every BMC is there."""
        bmcs = self._bmcs
        some = [bmc.address for bmc in bmcs if bmc.address]
        where = f"{some[0]} to {some[-1]}" if some and not bmcs.leased else f"{len(some)} of them with an address"
        said = [f"{self._who}{len(bmcs)} BMCs ready after {self._seconds:.1f} s, {where}, port {self._port}"]
        said += [f"  {line}" for line in credentials(bmcs)]
        if some:
            said.append(self._try(some[0]))
        _say(said)

    def say_complete(self) -> None:
        """Every BMC has an address."""
        bmcs = self._bmcs
        _say([f"all {len(bmcs)} BMCs have an address after {self._seconds:.1f} s", self._try(next(iter(bmcs)).address)])

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _try(self, address: str) -> str:
        scheme, insecure = ("https", "-k ") if self._with_tls else ("http", "")
        network = self._served.network
        if self._served.loopback and network.num_addresses > 1 and address.startswith("127."):
            return f"Try: curl {insecure}{scheme}://{address}:{self._port}/redfish/v1/"
        here = str(network.network_address) if network.num_addresses == 1 else "127.0.0.1"
        forwarded = f"-H 'Forwarded: host={address}'"
        return f"Try: curl {insecure}{forwarded} {scheme}://{here}:{self._port}/redfish/v1/"


def _say(lines: list[str]) -> None:
    click.echo("\n".join(lines))
    # At once: other shards say theirs.
    sys.stdout.flush()


def credentials(bmcs: Fleet) -> list[str]:
    """One line per kind of hardware and of password, with how many there are where a kind has several.

    A password that the user chose is not repeated.
    """
    lines = Counter((bmc.tree.head.title, credential(bmc)) for bmc in bmcs)
    kinds = Counter(title for title, _ in lines)
    return [
        f"{title}{f' ({count} of them)' if several > 1 else ''}: {what}"
        for title, several in kinds.items()
        for (of, what), count in lines.most_common()
        if of == title
    ]


def credential(bmc: Bmc) -> str:
    head = bmc.tree.head
    factory = head.accounts[0]
    account = bmc.accounts.get(factory.id)
    if account is not None and account.digest == account.factory:
        change = "" if account.exempt else ", to be changed first"
        return f"{factory.user} / {factory.password} (factory password{change})"
    first = bmc.shared.accounts.get(factory.id)
    given = account is not None and first is not None and account.digest == first.digest
    return f"{factory.user} / the password that {'you gave' if given else 'it was changed to'}"


def report(restorer: Restorer) -> None:
    """Say what a start with a state directory found; the store itself says what it set aside."""
    if restorer.left:
        click.echo(
            f"warning: kept for BMCs that the fleet does not have now: the state of {_some(restorer.left)}",
            err=True,
        )


def _some(ids: list[str]) -> str:
    """A list of ids that fits a line."""
    return ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
