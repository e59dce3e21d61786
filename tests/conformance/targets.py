"""What is tested: one BMC of each profile, in the smallest fleet that has it."""

from collections.abc import Iterator
from dataclasses import dataclass

from bmcsim.fleet import config as fleet_config
from bmcsim.fleet.build import Builder
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Hasher
from bmcsim.tree import profile as profiles

PASSWORD = "P"


@dataclass(frozen=True, slots=True)
class Target:
    """A BMC of a profile: its address, its administrator, and the arguments of the `bmcsim serve` that has it."""

    profile: str
    address: str
    user: str
    password: str
    arguments: tuple[str, ...]


def discover() -> dict[str, Target]:
    """A target for each profile that comes with bmcsim, by name.

    A DPU is found beside the first host that has it. Raises LookupError for a profile that no machine has.
    """
    found: dict[str, Target] = {}
    for name in profiles.names():
        head = profiles.load(name).head
        if head.kind == "dpu":
            continue
        dpus = fleet_config.HARDWARE.get(name, fleet_config.Hardware()).dpus
        if dpus is None:
            dpus = 1 if head.dpu else 0
        passwords = ("--host-password", PASSWORD, "--dpu-password", PASSWORD)
        arguments = ("--hosts", "1", "--dpus", str(dpus), "--profile", name, *passwords, "--time-scale", "60")
        for bmc in _fleet(name, dpus):
            own = bmc.tree.head
            account = own.accounts[0]
            password = account.password if own.behaviour.ignores_pinned_password else PASSWORD
            found.setdefault(own.profile, Target(own.profile, bmc.address, account.user, password, arguments))
    if homeless := sorted(set(profiles.names()) - found.keys()):
        raise LookupError(f"no machine has the profile {', '.join(homeless)}; a host names its DPUs with dpu: NAME")
    return {name: found[name] for name in sorted(found)}


def _fleet(profile: str, dpus: int) -> Iterator[Bmc]:
    fleet = Fleet()
    for _ in Builder(fleet_config.default(1, dpus, profile, PASSWORD, PASSWORD), Hasher(), 0.0).populate(fleet):
        pass
    yield from fleet
