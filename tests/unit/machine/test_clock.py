"""The clock of a BMC."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.machine import clock
from bmcsim.machine.resources import timestamp
from tests.conftest import Client, make_client
from tests.unit.redfish.conftest import dpu_with

PROTOCOL = "/redfish/v1/Managers/Bluefield_BMC/NetworkProtocol"
DAY = 86400.0


@given(st.integers(-14 * 60, 14 * 60))
def test_an_offset_is_read_as_it_was_written(minutes: int) -> None:
    assert clock.offset_of(clock.offset_text(minutes)) == minutes


@pytest.mark.parametrize("text", ["", "Z", "UTC", "5:00", "+5:00", "+05:60", "+15:00", "-14:01", "05:00", "+05:00 "])
def test_what_is_no_offset(text: str) -> None:
    assert clock.offset_of(text) is None


@pytest.mark.parametrize(
    ("name", "minutes"),
    [
        ("UTC", 0),
        ("GMT", 0),
        ("Etc/UTC", 0),
        ("CST6CDT", -360),
        ("EST5EDT", -300),
        ("EST5", -300),
        ("Etc/GMT-2", 120),
        ("Europe/Berlin", None),
        ("CST13CDT", None),
        ("CST", None),
        ("", None),
        ("utc", None),
    ],
)
def test_the_offset_of_a_zone(name: str, minutes: int | None) -> None:
    assert clock.zone_offset(name) == minutes


@given(st.integers(0, 2**33), st.integers(-14 * 60, 14 * 60))
def test_local_time_is_the_same_instant(second: int, offset: int) -> None:
    shown = timestamp(second, offset)[1:-1].decode()
    assert shown.endswith(clock.offset_text(offset))
    assert clock_seconds(shown) == second


def clock_seconds(text: str) -> float:
    """The instant that a text names, in seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def test_a_clock_that_nobody_set_is_right(dpu: Client) -> None:
    assert dpu.bmc.wall(dpu.clock.now()) == dpu.clock.now().wall
    dpu.advance(1e6)
    assert dpu.bmc.wall(dpu.clock.now()) == dpu.clock.now().wall


def test_a_clock_goes_on_from_where_it_was_set(dpu: Client) -> None:
    dpu.bmc.set_clock(-3600.0, dpu.clock.now())
    dpu.advance(5 * DAY)
    assert dpu.bmc.wall(dpu.clock.now()) == dpu.clock.now().wall - 3600


def test_a_clock_drifts_from_the_start_of_its_bmc_and_from_when_it_was_set() -> None:
    client = dpu_with(clock_drift=10.0)
    now = client.clock.now
    assert client.bmc.wall(now()) == now().wall
    client.advance(DAY)
    assert client.bmc.wall(now()) - now().wall == pytest.approx(10)
    client.bmc.set_clock(100.0, now())
    client.advance(DAY / 2)
    assert client.bmc.wall(now()) - now().wall == pytest.approx(105)
    client.driver.execute(client.bmc, client.bmc.reset_bmc(now()))
    client.advance(200)
    assert client.bmc.wall(now()) - now().wall == pytest.approx(100, abs=0.1)


def test_the_clock_of_fast_hardware_runs_with_real_time() -> None:
    client = make_client("bluefield3", time_scale=1000.0)
    client.bmc.set_clock(50.0, client.clock.now())
    client.advance(100)
    assert client.bmc.wall(client.clock.now()) == client.clock.now().wall + 50


@pytest.mark.parametrize(
    ("ntp", "follows"),
    [
        ({"ProtocolEnabled": True, "NTPServers": ["192.0.2.1"]}, True),
        ({"ProtocolEnabled": True, "NTPServers": []}, False),
        ({"ProtocolEnabled": True, "NTPServers": [""]}, False),
        ({"ProtocolEnabled": False, "NTPServers": ["192.0.2.1"]}, False),
    ],
)
def test_a_time_server_sets_the_clock_right(ntp: dict[str, object], follows: bool) -> None:
    client = dpu_with(clock_drift=10.0)
    client.bmc.set_clock(500.0, client.clock.now())
    client.bmc.change(client.bmc.tree.nodes[PROTOCOL], {"NTP": ntp}, client.clock.now())
    client.advance(DAY)
    assert client.bmc.follows_time_server is follows
    ahead = client.bmc.wall(client.clock.now()) - client.clock.now().wall
    assert ahead == pytest.approx(0 if follows else 510)
