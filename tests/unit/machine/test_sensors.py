"""What sensors show: in their range, alike for every reader of a second, and moved by what they measure."""

from pathlib import Path
from typing import Any, get_args

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.core.clock import Moment
from bmcsim.machine import sensors
from bmcsim.machine.holes import bind
from bmcsim.machine.power import Power
from bmcsim.machine.sensors import COOLING, FULL, IDLE, WARMING, heat, judged, load
from bmcsim.machine.state import State, decode
from bmcsim.tree.compile import compile_tree
from bmcsim.tree.profile import load as load_profile
from bmcsim.tree.source import ProfileError
from bmcsim.tree.template import Binding, Follows, Hole, Limits, Reading, TemplateError
from tests.conftest import Client, make_client
from tests.unit.tree.conftest import TINY

START = 1_767_225_600
NOW = Moment(12.5, START + 12.5)
SENSORS = "/redfish/v1/Chassis/Card1/Sensors"
REPORT = "/redfish/v1/TelemetryService/MetricReports/PlatformEnvironmentMetrics"
DAY = range(START, START + 86_400, 60)


def reading(name: str = "reading", filter_: str = "", **facts: Any) -> Binding:
    """The binding of a hole that shows a reading between 20 and 30."""
    return bind(Hole(name, filter_, Reading(**{"minimum": 20.0, "maximum": 30.0, **facts})))


def at(client: Client, binding: Binding, wall: float) -> Any:
    """What a reading shows at a time."""
    return orjson.loads(binding.function(client.bmc, Moment(0.0, wall), None))


def series(client: Client, binding: Binding, times: Any) -> list[float]:
    """What a reading shows at some times."""
    return [at(client, binding, float(time)) for time in times]


def state(power: Power = Power.RUNNING, *, started: float = START, stopped: float = 0.0) -> State:
    """A state that matters to sensors."""
    return State(make_client("bluefield3").bmc.accounts, power=power, system_started=started, system_stopped=stopped)


def correlation(first: list[float], second: list[float]) -> float:
    """Pearson's, -1 to 1."""
    a, b = (sum(numbers) / len(numbers) for numbers in (first, second))
    shared = sum((x - a) * (y - b) for x, y in zip(first, second, strict=True))
    spreads = sum((x - a) ** 2 for x in first) * sum((y - b) ** 2 for y in second)
    return float(shared / spreads**0.5)


# load and heat


def test_the_load_moves_slowly_between_idle_and_full() -> None:
    loads = [load(state(), 5, second) for second in range(START, START + 86_400)]
    assert IDLE <= min(loads) < 80 and 180 < max(loads) <= FULL
    assert max(abs(now - before) for now, before in zip(loads[1:], loads, strict=False)) <= 16


def test_the_curve_is_closed() -> None:
    around = 8 << 14
    assert [load(state(), 5, second + around) for second in DAY] == [load(state(), 5, second) for second in DAY]


def test_machines_whose_numbers_follow_each_other_are_busy_at_other_times() -> None:
    curves = {tuple(load(state(), seed, second) for second in DAY) for seed in range(2**41, 2**41 + 200)}
    assert len(curves) == 200


@pytest.mark.parametrize(
    ("power", "expected"),
    [
        (Power.OFF, 0),
        (Power.CYCLING, 0),
        (Power.POWERING_ON, IDLE),
        (Power.BOOTING, IDLE),
        (Power.RESTARTING, IDLE),
        (Power.POWERING_OFF, IDLE),
    ],
)
def test_what_runs_no_operating_system_is_idle_and_what_is_off_does_nothing(power: Power, expected: int) -> None:
    assert load(state(power), 5, START + 60) == expected


def test_heat_is_the_load_of_the_last_minutes() -> None:
    for second in DAY:
        loads = [load(state(), 5, second - 8 * places) for places in range(37)]
        assert heat(state(), 5, second) == sum(loads) // 37


def test_what_is_off_cools_down() -> None:
    stopped = START + 1000
    warm = heat(state(), 5, stopped)
    off = [heat(state(Power.OFF, stopped=stopped), 5, stopped + seconds) for seconds in range(0, 7200, 60)]
    assert off[0] == warm
    assert off == sorted(off, reverse=True)
    assert off[int(COOLING) // 60] == pytest.approx(warm / 2.718, abs=1)
    assert off[-1] == 0


def test_what_was_never_on_is_cold() -> None:
    assert heat(state(Power.OFF), 5, START + 1000) == 0


def test_what_starts_again_warms_up_from_where_it_was() -> None:
    stopped, started = START + 1000, START + 1600
    cold = heat(state(Power.OFF, stopped=stopped), 5, started)
    powering_on = state(Power.POWERING_ON, stopped=stopped)
    assert heat(powering_on, 5, started) == cold
    on = state(started=started, stopped=stopped)
    assert heat(on, 5, started) == cold
    for second in range(started + int(WARMING), started + 7200, 60):
        assert heat(on, 5, second) == heat(state(), 5, second)
    half = started + int(WARMING) // 2
    assert heat(on, 5, half) == pytest.approx((cold + heat(state(), 5, half)) / 2, abs=1)


def test_a_second_that_is_older_than_the_state_harms_nothing() -> None:
    on, off = state(started=START + 9, stopped=START + 5), state(Power.OFF, stopped=START + 5)
    assert all(0 <= heat(one, 5, START) <= FULL for one in (on, off))


def test_a_bmc_knows_when_its_system_was_switched_off(dpu: Client) -> None:
    assert dpu.bmc.state.system_stopped == 0
    dpu.advance(100)
    dpu.request("POST", "/redfish/v1/Systems/Bluefield/Actions/ComputerSystem.Reset", {"ResetType": "ForceOff"})
    assert dpu.bmc.state.system_stopped == dpu.clock.now().wall


# readings


@st.composite
def ranges(draw: st.DrawFn) -> dict[str, Any]:
    """Facts of a reading that a profile may state: min <= max, step > 0, the grid no larger than a few thousand."""
    decimals = draw(st.integers(0, 3))
    minimum = draw(st.integers(-5000, 5000))
    width = draw(st.integers(0, 3000))
    step = draw(st.integers(1, 500))
    scale = 10**decimals
    return {"minimum": minimum / scale, "maximum": (minimum + width) / scale, "step": step / scale}


FOLLOWS: tuple[Follows, ...] = get_args(Follows)


@settings(deadline=None)
@given(
    ranges(),
    st.sampled_from(FOLLOWS),
    st.sampled_from(list(Power)),
    st.integers(0, 100),
    st.floats(0, 1e6),
    st.lists(st.floats(0, 1e6), min_size=1, max_size=20),
)
def test_readings_stay_in_their_range_and_on_the_grid(
    facts: dict[str, Any], follows: Follows, power: Power, index: int, stopped: float, times: list[float]
) -> None:
    client, binding = make_client("bluefield3"), reading(**facts, follows=follows, index=index)
    client.bmc.become(NOW, power=power, system_stopped=stopped, system_started=500_000.0)
    for wall in times:
        shown = at(client, binding, wall)
        steps = (shown - facts["minimum"]) / facts["step"]
        assert facts["minimum"] - 1e-9 <= shown <= facts["maximum"] + 1e-9
        assert abs(steps - round(steps)) < 1e-6


@pytest.mark.parametrize("follows", FOLLOWS)
def test_a_reading_changes_over_time_but_within_a_second_never(dpu: Client, follows: Follows) -> None:
    binding = reading(follows=follows)
    shown = {second: {at(dpu, binding, second + part) for part in (0.0, 0.3, 0.999)} for second in range(60)}
    assert all(len(values) == 1 for values in shown.values())
    assert len(set.union(*shown.values())) > 3


def test_all_holes_of_a_sensor_agree_with_the_metric_report(host: Client) -> None:
    sensors.set_reading(host.bmc, "/redfish/v1/Chassis/System.Embedded.1/Sensors/Temp_4", 71.5, host.clock.now())
    for seconds in (0, 0.4, 31, 4000):
        host.advance(seconds)
        values = host.get(REPORT)["MetricValues"]
        assert len(values) == len(host.bmc.tree.readings)
        for value in values:
            assert float(value["MetricValue"]) == host.get(value["MetricProperty"])["Reading"]


@pytest.mark.parametrize("profile", ["bluefield3", "dell_poweredge_r750"])
def test_the_metric_report_of_a_system_that_is_off_has_what_its_sensors_have(profile: str) -> None:
    client = make_client(profile)
    client.bmc.become(client.clock.now(), power=Power.OFF)
    values = client.get(REPORT)["MetricValues"]
    dead = [value for value in values if value["MetricValue"] is None]
    assert 0 < len(dead) < len(values)
    for value in values:
        reading = client.get(value["MetricProperty"])["Reading"]
        assert reading is None if value in dead else float(value["MetricValue"]) == reading


@pytest.mark.parametrize("profile", ["bluefield3", "dell_poweredge_r750"])
def test_a_metric_report_and_its_definition_name_each_other_and_all_sensors(profile: str) -> None:
    client = make_client(profile)
    service = client.get("/redfish/v1/TelemetryService")
    (report,) = client.get(service["MetricReports"]["@odata.id"])["Members"]
    (definition,) = client.get(service["MetricReportDefinitions"]["@odata.id"])["Members"]
    shown, told = client.get(report["@odata.id"]), client.get(definition["@odata.id"])
    assert (shown["MetricReportDefinition"], told["MetricReport"]) == (definition, report)
    assert told["MetricProperties"] == [value["MetricProperty"] for value in shown["MetricValues"]]
    assert set(told["MetricProperties"]) == set(client.bmc.tree.readings)


def test_no_two_sensors_move_alike() -> None:
    first, second = make_client("bluefield3"), make_client("bluefield3", index=1)
    shown = {
        tuple(series(client, reading(follows=follows, index=index), range(20)))
        for client in (first, second)
        for index in range(20)
        for follows in FOLLOWS
    }
    assert len(shown) == 160


def test_a_reading_that_follows_nothing_wanders_within_a_fraction_of_its_range(dpu: Client) -> None:
    shown = series(dpu, reading(), range(START, START + 600))
    assert 0 < max(shown) - min(shown) <= 2


def test_the_levels_of_a_fleet_cover_the_range() -> None:
    clients = [make_client("bluefield3", index=index) for index in range(60)]
    shown = [at(client, reading(), 0.0) for client in clients]
    assert min(shown) < 23 < 27 < max(shown)


def test_a_nominal_reading_stays_about_the_middle() -> None:
    clients = [make_client("bluefield3", index=index) for index in range(60)]
    shown = [
        at(client, reading(follows="nominal"), START + 60.0 * minute) for minute in range(60) for client in clients
    ]
    assert 23.5 < min(shown) < max(shown) < 26.5


@pytest.mark.parametrize(("follows", "cause"), [("load", load), ("heat", heat)])
def test_a_reading_follows_its_cause(dpu: Client, follows: Follows, cause: Any) -> None:
    causes = [cause(dpu.bmc.state, dpu.bmc.identity.bmc_mac, second) for second in DAY]
    shown = series(dpu, reading(follows=follows), DAY)
    assert correlation(shown, causes) > 0.95
    assert max(shown) - min(shown) > 4


def test_fans_follow_temperatures_and_temperatures_the_load_with_a_lag(dpu: Client) -> None:
    temperature, fan, power = (
        series(dpu, reading(follows=follows, index=index), DAY)
        for index, follows in enumerate(("heat", "heat", "load"))
    )
    assert correlation(temperature, fan) > 0.9
    lagged = [correlation(power[: len(power) - minutes], temperature[minutes:]) for minutes in range(8)]
    assert lagged.index(max(lagged)) in (2, 3)


def test_the_same_machine_boots_at_less_power_than_it_runs(dpu: Client) -> None:
    binding = reading(follows="load", powered=True)
    running = series(dpu, binding, DAY)
    dpu.bmc.become(NOW, power=Power.BOOTING)
    booting = series(dpu, binding, DAY)
    assert max(booting) - min(booting) < 1
    assert max(booting) <= sorted(running)[len(running) // 4]


@pytest.mark.parametrize("power", [Power.OFF, Power.CYCLING])
@pytest.mark.parametrize(
    ("name", "filter_", "powered", "dead"),
    [
        ("reading", "", True, None),
        ("reading", "text", True, None),
        ("reading.state", "", True, "UnavailableOffline"),
        ("reading.state", "", False, "Enabled"),
        ("reading.status", "", True, {"State": "UnavailableOffline", "Health": "OK"}),
        ("reading.status", "", False, {"State": "Enabled", "Health": "OK"}),
    ],
)
def test_a_sensor_of_what_is_switched_off_has_no_reading(
    dpu: Client, power: Power, name: str, filter_: str, powered: bool, dead: Any
) -> None:
    binding = reading(name, filter_, powered=powered)
    assert at(dpu, binding, 1.0) not in (None, "UnavailableOffline")
    dpu.bmc.become(NOW, power=power)
    assert at(dpu, binding, 1.0) == dead


def test_a_sensor_with_power_of_its_own_reads_on(dpu: Client) -> None:
    before = at(dpu, reading(), 1.0)
    dpu.bmc.become(NOW, power=Power.OFF)
    assert at(dpu, reading(), 1.0) == before


def test_the_text_form_shows_the_same_value(dpu: Client) -> None:
    shown = at(dpu, reading(filter_="text"), 1.0)
    assert isinstance(shown, str)
    assert float(shown) == at(dpu, reading(), 1.0)


@pytest.mark.parametrize(
    ("name", "filter_"), [("reading", "nope"), ("reading.state", "text"), ("reading.status", "text")]
)
def test_a_reading_has_no_other_form(name: str, filter_: str) -> None:
    with pytest.raises(TemplateError, match="a reading has no form"):
        reading(name, filter_)


@pytest.mark.parametrize("name", ["reading", "reading.state", "reading.status"])
def test_a_reading_counts_for_the_entity_tag(name: str) -> None:
    binding = reading(name)
    assert (binding.volatile, binding.counts) == (True, True)


# thresholds, and readings that were set by hand

LIMITS = Limits(lower_critical=10, lower_caution=22, upper_caution=28, upper_critical=40)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (-1, "Critical"),
        (10, "Critical"),
        (10.1, "Warning"),
        (22, "Warning"),
        (22.1, "OK"),
        (27.9, "OK"),
        (28, "Warning"),
        (39.9, "Warning"),
        (40, "Critical"),
        (1e9, "Critical"),
    ],
)
def test_a_value_that_reaches_a_threshold_has_crossed_it(dpu: Client, value: float, expected: str) -> None:
    assert judged(LIMITS, value) == expected
    dpu.bmc.become(NOW, readings={"/x": value})
    status = at(dpu, reading("reading.status", uri="/x", limits=LIMITS), NOW.wall)
    assert status == {"State": "Enabled", "Health": expected}


def test_without_thresholds_everything_is_fine() -> None:
    assert {judged(Limits(), value) for value in (-1e300, 0.0, 1e300)} == {"OK"}


def test_a_range_that_crosses_thresholds_does_so_by_itself(dpu: Client) -> None:
    limits = Limits(upper_caution=24.0, upper_critical=26.0)
    values = series(dpu, reading(follows="heat", limits=limits), DAY)
    status = reading("reading.status", follows="heat", limits=limits)
    healths = [at(dpu, status, float(second))["Health"] for second in DAY]
    assert healths == [judged(limits, value) for value in values]
    assert set(healths) == {"OK", "Warning", "Critical"}


def test_a_reading_that_was_set_crosses_thresholds_on_purpose(dpu: Client) -> None:
    sensor, other = f"{SENSORS}/Temp_1", f"{SENSORS}/Temp_2"
    before, beside = dpu.get(sensor), dpu.get(other)
    steps = [(37.9, "OK"), (38.0, "Warning"), (40.0, "Critical"), (500.0, "Critical")]
    tags = set()
    for value, expected in steps:
        sensors.set_reading(dpu.bmc, sensor, value, dpu.clock.now())
        shown = dpu.get(sensor)
        assert (shown["Reading"], shown["Status"]) == (value, {"State": "Enabled", "Health": expected})
        tags.add(shown["@odata.etag"])
    assert len(tags) == len(steps)
    assert dpu.get(other) == beside
    sensors.set_reading(dpu.bmc, sensor, None, dpu.clock.now())
    assert dpu.get(sensor) == before
    assert dpu.bmc.state.readings == {}


def test_a_reading_that_was_set_has_the_precision_of_its_sensor(dpu: Client) -> None:
    for sensor, expected in ((f"{SENSORS}/Temp_1", 12.3), (f"{SENSORS}/Fan_1", 12)):
        sensors.set_reading(dpu.bmc, sensor, 12.345, dpu.clock.now())
        assert dpu.get(sensor)["Reading"] == expected


def test_what_is_off_reads_nothing_whatever_was_set(dpu: Client) -> None:
    sensor = f"{SENSORS}/Fan_1"
    sensors.set_reading(dpu.bmc, sensor, 3.0, dpu.clock.now())
    assert dpu.get(sensor)["Status"] == {"State": "Enabled", "Health": "Critical"}
    dpu.bmc.become(dpu.clock.now(), power=Power.OFF)
    shown = dpu.get(sensor)
    assert (shown["Reading"], shown["Status"]) == (None, {"State": "UnavailableOffline", "Health": "OK"})


def test_a_reading_that_was_set_is_durable(dpu: Client) -> None:
    sensors.set_reading(dpu.bmc, f"{SENSORS}/Temp_1", 39, dpu.clock.now())
    assert dpu.bmc.uncommitted is not None
    assert decode(dpu.bmc.encode()).state.readings == {f"{SENSORS}/Temp_1": 39.0}


@pytest.mark.parametrize(
    ("uri", "value", "error"),
    [
        ("/redfish/v1/Chassis/Card1", 1.0, KeyError),
        (f"{SENSORS}/Temp_1", float("nan"), ValueError),
        (f"{SENSORS}/Temp_1", float("inf"), ValueError),
    ],
)
def test_only_sensors_are_set_and_only_to_numbers(dpu: Client, uri: str, value: float, error: type[Exception]) -> None:
    with pytest.raises(error):
        sensors.set_reading(dpu.bmc, uri, value, dpu.clock.now())
    assert dpu.bmc.uncommitted is None


@pytest.mark.parametrize("profile", ["bluefield3", "dell_poweredge_r750"])
def test_the_thresholds_of_a_profile_are_those_that_its_sensors_show(profile: str) -> None:
    tree = make_client(profile).bmc.tree
    kinds = {"Temp": (38.0, 40.0), "Power": (700.0, float("inf"))}
    for uri, facts in tree.readings.items():
        upper = kinds.get(uri.rpartition("/")[2].partition("_")[0], (float("inf"), float("inf")))
        assert (facts.limits.upper_caution, facts.limits.upper_critical) == upper
        assert {judged(facts.limits, bound) for bound in (facts.minimum, facts.maximum)} == {"OK"}


def limits_of(folder: Path, thresholds: str) -> Limits:
    """The limits of a sensor with these Thresholds in its profile."""
    path = folder / "own.yaml"
    path.write_text(f"{TINY}    Thresholds: {thresholds}\n")
    return compile_tree(load_profile(str(path)), bind).readings["/redfish/v1/Chassis/1/Sensors/Temp1"].limits


def test_of_two_critical_thresholds_the_inner_one_counts(tmp_path: Path) -> None:
    upper, lower = (
        "UpperFatal: {Reading: 9}, UpperCritical: {Reading: 8}",
        "LowerCritical: {Reading: 2}, LowerFatal: {Reading: 1}",
    )
    assert limits_of(tmp_path, f"{{{upper}, {lower}}}") == Limits(lower_critical=2, upper_critical=8)
    assert limits_of(tmp_path, "{LowerCaution: {Reading: 3}, UpperCaution: {Reading: 7.5}}") == Limits(
        lower_caution=3, upper_caution=7.5
    )
    assert limits_of(tmp_path, "{}") == Limits()


@pytest.mark.parametrize("threshold", ["{Reading: high}", "{Reading: null}", "{}", "7"])
def test_a_threshold_is_a_number(tmp_path: Path, threshold: str) -> None:
    with pytest.raises(ProfileError, match=r"UpperCaution\.Reading must be a number"):
        limits_of(tmp_path, f"{{UpperCaution: {threshold}}}")
