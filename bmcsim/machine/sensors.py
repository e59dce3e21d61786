"""What the sensors of a BMC show: a pure function of the BMC, the sensor, the second and the state.

Rule 1: nothing is kept. All machines walk the same closed curve of load, each from a place of its own, so what a
    machine does at any second is one look-up, and costs nothing while nobody asks.
Rule 2: power and current follow the load; temperatures and fans follow the heat, which is the load of the last minutes.
Rule 3: a system that does not run its operating system has the load IDLE. One that is off has none and cools down; it
    warms up again from where it was when it starts.
Rule 4: a reading is a level of the sensor's own, plus what it follows, plus noise that changes once a second. The
    shares of the range that these have are in _SHARES; together they never leave it.
Rule 5: a reading that was set by hand wins, inside or outside of the range. What is off reads nothing all the same.
"""

from collections.abc import Callable
from functools import lru_cache
from math import exp, isfinite
from random import Random
from typing import Any, NamedTuple

from bmcsim.core.clock import Moment
from bmcsim.machine.actions import Action
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.power import Power
from bmcsim.machine.state import State
from bmcsim.tree.template import Follows, HoleFunction, Limits, Reading

FULL = 255
"""Load and heat are integers from 0 to FULL."""

SENSOR_EVENTS = "SensorEvent.1.1"
"""The registry of messages about thresholds."""

IDLE = 20
"""The load of a system that is on and runs nothing."""

COOLING = 600.0
"""Seconds in which a system that is off loses all but a third of its heat."""

WARMING = 600.0
"""Seconds after a start until the heat is that of the load again."""

_STRIDE = 3  # bits of the seconds that a machine stays at one place of the curve
_PLACES = 1 << 14
_MASK = _PLACES - 1
_LAG = 300 >> _STRIDE
# Seconds between two machines whose MACs follow each other: the golden section of the curve keeps all of them apart.
_APART = 81_007


def _octave(places: int) -> list[float]:
    """A smooth closed curve within 0 to 1 that has another height every `places` places."""
    random = Random(places)
    heights = [random.random() for _ in range(_PLACES // places)]
    eased = [part * part * (3 - 2 * part) for part in (step / places for step in range(places))]
    return [
        low + (high - low) * part
        for low, high in zip(heights, [*heights[1:], heights[0]], strict=True)
        for part in eased
    ]


def _loads() -> bytes:
    """The load at each place of the curve."""
    slow, quick = _octave(64), _octave(16)
    return bytes([round(IDLE + (FULL - IDLE) * (0.7 * a + 0.3 * b)) for a, b in zip(slow, quick, strict=True)])


def _averages(loads: bytes) -> bytes:
    """The average of the load over the _LAG places up to each place."""
    total = sum(loads[-_LAG:])
    averages = bytearray()
    for place, load in enumerate(loads):
        total += load - loads[place - _LAG]
        averages.append(total // _LAG)
    return bytes(averages)


_LOAD = _loads()
_HEAT = _averages(_LOAD)


def _place(seed: int, second: int) -> int:
    """Where on the curve a BMC is. second: since the epoch."""
    return (seed * _APART + second >> _STRIDE) & _MASK


def load(state: State, seed: int, second: int) -> int:
    """How busy a system is, 0 to FULL. second: since the epoch."""
    if state.power is Power.RUNNING:
        return _LOAD[_place(seed, second)]
    return 0 if state.power.dead else IDLE


def heat(state: State, seed: int, second: int) -> int:
    """How warm a system is above its surroundings, 0 to FULL. second: since the epoch."""
    running = _HEAT[_place(seed, second)]
    stopped, started = state.system_stopped, state.system_started
    cools = state.power.dead or started < stopped
    if not cools and (not stopped or second - started >= WARMING):
        return running
    left = _HEAT[_place(seed, int(stopped))] * exp(min(0.0, stopped - (second if cools else started)) / COOLING)
    return int(left if cools else left + (running - left) * max(0.0, second - started) / WARMING)


class _Shares(NamedTuple):
    """Sixteenths of a sensor's range. below, above: never shown. What none of them has is for the sensor's own level.

    swing: what the reading follows from no load to full load. noise: what changes from second to second.
    """

    below: int = 0
    swing: int = 0
    noise: int = 1
    above: int = 0


_SHARES: dict[Follows, _Shares] = {
    "nothing": _Shares(noise=2),
    "load": _Shares(swing=11),
    "heat": _Shares(swing=11),
    "nominal": _Shares(below=6, noise=2, above=6),
}


def _decimals(reading: Reading) -> int:
    return max(len(f"{number:.6f}".rstrip("0").partition(".")[2]) for number in (reading.minimum, reading.step))


@lru_cache
def _grid(minimum: float, maximum: float, step: float, decimals: int) -> tuple[bytes, ...]:
    """Every value that a reading can take, encoded; sensors of the same range share it."""
    steps = int((maximum - minimum) / step + 1e-9)
    return tuple([b"%.*f" % (decimals, minimum + number * step) for number in range(steps + 1)])


def value(reading: Reading) -> HoleFunction:
    """The reading, or null."""
    decimals = _decimals(reading)
    grid = _grid(reading.minimum, reading.maximum, reading.step, decimals)
    below, swing, noise, above = [len(grid) * share // 16 for share in _SHARES[reading.follows]]
    levels, jitters = len(grid) - below - swing - noise - above, noise + 1
    uri, powered, index = reading.uri, reading.powered, reading.index
    warms = reading.follows == "heat"
    curve, activity = (_HEAT, heat) if warms else (_LOAD, load)

    def shown(bmc: Bmc, moment: Moment, _item: Any) -> bytes:
        """The hash of a tuple of integers is the same in every process, unlike that of a text.

        The test that comes first is for the common case, in which `activity` is what the curve says.
        """
        seed, second = bmc.steady, int(moment.wall)
        if seed is not None and not (warms and second - bmc.started < WARMING):
            active = curve[(seed * _APART + second >> _STRIDE) & _MASK]
        else:
            state, seed = bmc.state, bmc.identity.seed
            if powered and state.power.dead:
                return b"null"
            if (by_hand := state.readings.get(uri)) is not None:
                return b"%.*f" % (decimals, by_hand)
            active = activity(state, seed, second)
        level = below + hash((seed, index)) % levels + active * swing // FULL
        return grid[level + hash((seed, index, second)) % jitters]

    return shown


def text(reading: Reading) -> HoleFunction:
    """The reading as a text, or null."""
    number = value(reading)

    def shown(bmc: Bmc, moment: Moment, item: Any) -> bytes:
        now = number(bmc, moment, item)
        return now if now == b"null" else b'"%s"' % now

    return shown


def state(reading: Reading) -> HoleFunction:
    """Status.State."""
    if not reading.powered:
        return lambda _bmc, _moment, _item: b'"Enabled"'
    return lambda bmc, _moment, _item: b'"UnavailableOffline"' if bmc.state.power.dead else b'"Enabled"'


def status(reading: Reading) -> HoleFunction:
    """Status, with State and with the Health of where the reading is between the thresholds."""
    number, limits, powered = value(reading), reading.limits, reading.powered
    safe = {judged(limits, bound) for bound in (reading.minimum, reading.maximum)} == {"OK"}

    def shown(bmc: Bmc, moment: Moment, item: Any) -> bytes:
        if safe and (bmc.steady is not None or (not powered and not bmc.state.readings)):
            return b'{"State":"Enabled","Health":"OK"}'
        now = number(bmc, moment, item)
        if now == b"null":
            return b'{"State":"UnavailableOffline","Health":"OK"}'
        return b'{"State":"Enabled","Health":"%b"}' % judged(limits, float(now)).encode()

    return shown


def judged(limits: Limits, value: float) -> str:
    """The Health that a value has; one that reaches a threshold has crossed it."""
    if not limits.lower_critical < value < limits.upper_critical:
        return "Critical"
    return "OK" if limits.lower_caution < value < limits.upper_caution else "Warning"


def set_reading(bmc: Bmc, uri: str, by_hand: float | None, moment: Moment) -> list[Action]:
    """Make a sensor read something, whatever its thresholds say of it; None: what it measures.

    Raises KeyError for what is no sensor, and ValueError for what is no number.
    """
    reading, shown = bmc.tree.readings[uri], bmc.state.readings
    if by_hand is not None and not isfinite(by_hand):
        raise ValueError(f"{by_hand} is no reading")
    before = _measured(bmc, reading, moment)
    others = {sensor: number for sensor, number in shown.items() if sensor != uri}
    bmc.become(moment, readings=others if by_hand is None else {**others, uri: float(by_hand)})
    after = _measured(bmc, reading, moment)
    if before is None or after is None:
        return []
    return _crossing(bmc, reading, before, after, moment)


def _measured(bmc: Bmc, reading: Reading, moment: Moment) -> float | None:
    now = value(reading)(bmc, moment, None)
    return None if now == b"null" else float(now)


class _Crossed(NamedTuple):
    """A message of the SensorEvent registry. sensor, reading, units and the threshold are its arguments."""

    key: str
    text: str
    severity: str


_CAUTION_ABOVE = _Crossed("ReadingAboveUpperCautionThreshold", "%1 reads %2%3, above caution threshold %4.", "Warning")
_CAUTION_BELOW = _Crossed("ReadingBelowLowerCautionThreshold", "%1 reads %2%3, below caution threshold %4.", "Warning")
_CRITICAL_ABOVE = _Crossed(
    "ReadingAboveUpperCriticalThreshold", "%1 reads %2%3, above critical threshold %4.", "Critical"
)
_CRITICAL_BELOW = _Crossed(
    "ReadingBelowLowerCriticalThreshold", "%1 reads %2%3, below critical threshold %4.", "Critical"
)
_NORMAL = _Crossed("SensorReadingNormalRange", "%1 reads %2%3, which is normal again.", "OK")


def _crossing(bmc: Bmc, reading: Reading, before: float, after: float, moment: Moment) -> list[Action]:
    """What subscribers are told when a reading moves into another of the ranges that its thresholds make."""
    (crossed, threshold), (was, _) = _range(reading.limits, after), _range(reading.limits, before)
    if crossed is was:
        return []
    facts = bmc.tree.nodes[reading.uri].template
    args = [str(facts["Name"]), f"{after:g}", str(facts.get("ReadingUnits", ""))]
    if threshold is not None:
        args.append(f"{threshold:g}")
    id_ = f"{SENSOR_EVENTS}.{crossed.key}"
    return bmc.event("Alert", id_, crossed.text, reading.uri, moment, args=tuple(args), severity=crossed.severity)


def _range(limits: Limits, value: float) -> tuple[_Crossed, float | None]:
    """The range that a value is in, and the threshold that it has crossed."""
    if value >= limits.upper_critical:
        return _CRITICAL_ABOVE, limits.upper_critical
    if value <= limits.lower_critical:
        return _CRITICAL_BELOW, limits.lower_critical
    if value >= limits.upper_caution:
        return _CAUTION_ABOVE, limits.upper_caution
    if value <= limits.lower_caution:
        return _CAUTION_BELOW, limits.lower_caution
    return _NORMAL, None


FORMS: dict[tuple[str, str], Callable[[Reading], HoleFunction]] = {
    ("reading", ""): value,
    ("reading", "text"): text,
    ("reading.state", ""): state,
    ("reading.status", ""): status,
}
"""(name, filter) of a hole that shows something of a reading -> what makes its function."""
