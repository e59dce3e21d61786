"""The durable state of a BMC as a row: written, read, and moved to another time line."""

from enum import Enum
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.core.clock import ManualClock
from bmcsim.fleet.driver import Driver
from bmcsim.machine import bmc_reset, power
from bmcsim.machine.actions import Happening
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.credentials import Accounts
from bmcsim.machine.fault_rules import from_json
from bmcsim.machine.faults import NO_RULES, Rules
from bmcsim.machine.power import Power
from bmcsim.machine.state import Row, State, decode, encode, shifted
from tests.conftest import make_client

TIMES = st.floats(0, 1e9)
TEXT = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
RULES = [
    NO_RULES,
    Rules.of([]),
    Rules.of([from_json({"id": "slow", "selector": {"OdataId": "/redfish/v1/*"}, "action": "Close"})]),
    Rules.of([from_json({"id": "off", "action": {"IgnorePowerOn": {"count": 2}}})]),
]


PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: st.integers(-(2**31), 2**31),
    float: TIMES,
    bool: st.booleans(),
    bytes: st.binary(max_size=32),
    type(None): st.none(),
    Any: JSON,
}


def any_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type that a state may have somewhere."""
    if hint in PLAIN:
        return PLAIN[hint]
    arguments = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return st.one_of([any_of(argument) for argument in arguments])
    if get_origin(hint) is Literal:
        return st.sampled_from(arguments)
    if get_origin(hint) is tuple and arguments[-1] is not ...:
        return st.tuples(*[any_of(argument) for argument in arguments])
    if get_origin(hint) is tuple:
        return st.lists(any_of(arguments[0]), max_size=2).map(tuple)
    if get_origin(hint) is dict:
        return st.dictionaries(any_of(arguments[0]), any_of(arguments[1]), max_size=2)
    return st.sampled_from(hint) if issubclass(hint, Enum) else any_struct(hint)


def any_struct(type_: Any, **facts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values of a struct. facts: those of its fields for which not just any value of their type will do."""
    hints = get_type_hints(type_)
    return st.builds(type_, **{name: facts.get(name, any_of(hints[name])) for name in type_.__struct_fields__})


STATES = any_struct(State, faults=st.sampled_from(RULES))


@settings(deadline=None)
@given(st.integers(0, 2**48 - 1), TEXT, STATES)
def test_a_row_is_read_as_it_was_written(mac: int, profile: str, state: State) -> None:
    row = Row(mac, profile, state)
    read = decode(encode(row))
    assert read == row
    assert encode(read) == encode(row)


@settings(deadline=None)
@given(STATES)
def test_what_was_read_has_the_types_that_the_machines_compare_by_identity(state: State) -> None:
    read = decode(encode(Row(1, "x", state))).state
    assert read.power is state.power
    assert read.service is state.service
    assert [one.at for one in read.staged] == [one.at for one in state.staged]
    assert all(one.at is None or isinstance(one.at, Happening) for one in read.staged)
    assert all(isinstance(entries, tuple) for entries in read.logs.values())


def test_what_is_as_in_the_beginning_takes_no_room() -> None:
    client = make_client("bluefield3")
    untouched = encode(Row(1, "bluefield3", client.bmc.state))
    empty = encode(Row(1, "bluefield3", State(Accounts(()))))
    assert len(untouched) < 250
    assert len(empty) < 40


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x93\x01\xa1x", b"\x93\x01\xa1x\x80", b"\x93\x01\xa1x\xc0", b"{}"])
def test_what_is_no_row_is_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(data)


@settings(deadline=None)
@given(STATES, st.integers(0))
def test_a_row_that_was_cut_off_is_refused(state: State, cut: int) -> None:
    data = encode(Row(1, "x", state))
    with pytest.raises(msgspec.DecodeError):
        decode(data[: cut % len(data)])


@pytest.mark.parametrize("fact", [{"power": "Humming"}, {"service": "Away"}, {"staged": [{"at": "Never"}]}])
def test_a_state_that_no_machine_has_is_refused(fact: dict[str, object]) -> None:
    data = msgspec.msgpack.encode([1, "x", {"accounts": {"accounts": []}, **fact}])
    with pytest.raises(msgspec.ValidationError):
        decode(data)


# time lines


@settings(deadline=None)
@given(STATES, TIMES)
def test_a_shifted_state_stands_now_and_has_as_much_of_its_timers_left(state: State, now: float) -> None:
    moved = shifted(state, now)
    assert moved.at == now
    assert moved.timers.keys() == state.timers.keys()
    for name, deadline in state.timers.items():
        assert moved.timers[name] - now == pytest.approx(deadline - state.at, abs=1e-6)
    for task, before in zip(moved.tasks, state.tasks, strict=True):
        if task.started is not None and before.started is not None:
            assert task.started - now == pytest.approx(before.started - state.at, abs=1e-6)
        assert (task.started is None) == (before.started is None)
        assert msgspec.structs.replace(task, started=before.started, held=before.held) == before
    assert msgspec.structs.replace(moved, at=state.at, timers=state.timers, tasks=state.tasks) == state


@settings(deadline=None)
@given(STATES, TIMES)
def test_a_state_that_is_shifted_where_it_is_stays_what_it_is(state: State, now: float) -> None:
    moved = shifted(state, now)
    assert shifted(moved, now) == moved
    assert dict(shifted(moved, state.at).timers) == pytest.approx(state.timers, abs=1e-6)


def test_a_transition_goes_on_after_a_restart_with_the_time_it_had_left() -> None:
    """The row is of the moment of the last change; the new process has a time line of its own."""
    before = make_client("bluefield3")
    before.advance(1000)
    before.request("POST", "/redfish/v1/Managers/Bluefield_BMC/Actions/Manager.Reset")
    before.advance(30)
    before.driver.execute(before.bmc, before.bmc.reset_system(power.Event.POWER_CYCLE, before.clock.now()))
    row = decode(before.bmc.encode())

    after = make_client("bluefield3")
    after.advance(7)
    after.bmc.restore(shifted(row.state, after.clock.now().hardware))
    after.driver.sync(after.bmc)
    assert (row.mac, row.profile) == (after.bmc.identity.bmc_mac, "bluefield3")
    assert (after.bmc.power, after.bmc.state.service) == (Power.CYCLING, Service.RESETTING)
    left = [after.bmc.remaining(timer, after.clock.now()) for timer in (bmc_reset.TIMER, power.TIMER)]
    assert left == [60, 5]
    after.advance(5)
    assert (after.bmc.power, after.bmc.state.service) == (Power.POWERING_ON, Service.RESETTING)
    after.advance(54.999)
    assert after.bmc.state.service is Service.RESETTING
    after.advance(0.001)
    assert after.bmc.state.service is Service.UP
    after.advance(300)
    assert after.bmc.power is Power.RUNNING
    assert len(after.driver) == 0


def test_a_restored_timer_that_is_overdue_fires_at_once() -> None:
    client = make_client("bluefield3")
    client.bmc.restore(msgspec.structs.replace(client.bmc.state, power=Power.CYCLING, timers={power.TIMER: -3.0}))
    woken: list[float] = []
    driver = Driver(ManualClock(), woken.append)
    driver.sync(client.bmc)
    assert woken == [0]
    assert driver.run_due() == 1
    assert client.bmc.power is Power.POWERING_ON
