"""BMCs that are named as hosts are."""

import pytest

from bmcsim.core.errors import RedfishError
from bmcsim.fleet.config import parse
from bmcsim.fleet.registry import Absent, Fleet
from bmcsim.fleet.tables import ConfigError
from bmcsim.machine.credentials import Hasher
from bmcsim.testing.build import CachingBuilder

MACHINES = "[machines.{name}]\nhost_count = 2\ndpu_per_host_count = 1\n"


def made(name: str = "host", domain: str = "bmc.example") -> Fleet:
    fleet = Fleet()
    config = parse(f'[bmcsim]\ndomain = "{domain}"\n' + MACHINES.format(name=name), "fleet.toml")
    for _ in CachingBuilder(config, Hasher(b"k" * 32), 0.0).populate(fleet):
        pass
    return fleet


@pytest.mark.parametrize(
    "name", ["host-0-dpu-0", "host-0-dpu-0.bmc.example", "HOST-0-DPU-0.BMC.example.", "host-0-dpu-0.bmc.example:1266"]
)
def test_a_bmc_is_found_by_its_name(name: str) -> None:
    fleet = made()
    for forwarded, host in ((b"", name.encode()), (f'host="{name}"'.encode(), b"127.64.0.2")):
        assert fleet.route(forwarded, host, "127.64.0.2").id == "host-0-dpu-0"
        assert fleet.route(forwarded, host, "").id == "host-0-dpu-0"


def test_ids_with_capitals_have_names_too() -> None:
    fleet = made('"Rack.A"')
    for name in (b"Rack.A-1", b"rack.a-1", b"RACK.A-1.bmc.example"):
        assert fleet.route(b"", name, "192.0.2.1").id == "Rack.A-1"
    bmc = fleet.by_id("Rack.A-1")
    assert bmc is not None
    fleet.remove(bmc)
    with pytest.raises(RedfishError):
        fleet.route(b"", b"rack.a-1", "192.0.2.1")


def test_other_names_are_no_bmc() -> None:
    fleet = made()
    assert fleet.route(b"", b"host-7.bmc.example", "127.64.0.2").id == "host-0"
    for name in (b"host-7.bmc.example", b"host-0.other.example", b"bmc.example", b"."):
        with pytest.raises(RedfishError):
            fleet.route(b"", name, "192.0.2.1")
        with pytest.raises(RedfishError):
            fleet.route(b"host=" + name, b"127.64.0.2", "127.64.0.2")


def test_a_bmc_without_an_address_is_not_reached_by_its_name() -> None:
    fleet = made()
    bmc = fleet.by_id("host-0")
    assert bmc is not None
    fleet.unbind(bmc)
    with pytest.raises(Absent):
        fleet.route(b"", b"host-0.bmc.example", "127.64.0.3")


@pytest.mark.parametrize("domain", ["-x", "a..b", "a b", "x" * 200])
def test_a_domain_is_checked(domain: str) -> None:
    with pytest.raises(ConfigError, match=r"bmcsim\.domain: must be a domain"):
        made(domain=domain)
