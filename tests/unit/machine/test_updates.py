"""Updates of firmware: tasks that change versions, in any order with resets, power cycles and deletions."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.machine import firmware, power, tasks, updates
from bmcsim.machine.actions import CancelTimer, Happened, Happening, SetTimer
from bmcsim.machine.state import State, decode, shifted
from bmcsim.machine.tasks import KEPT, Task, TaskState
from tests.conftest import Client, make_client, tree_of

DELL, DPU = tree_of("dell_poweredge_r750"), tree_of("bluefield3")
ORDER = list(TaskState)
START = make_client("dell_poweredge_r750").bmc.state


def task(id_: str = "1", **facts: Any) -> Task:
    """An update of the BIOS that takes 100 s."""
    return Task(id_, "Firmware Update", "/x", 0.0, 100.0, **{"changes": {"uefi": "2"}, **facts})


def after(state: State, *facts: Task) -> State:
    """A state in which tasks were asked for at hardware time 0."""
    for one in facts:
        state = updates.ordered(state, one, 0.0)[0]
    return state


def test_an_update_begins_at_once_and_the_next_one_waits_for_it() -> None:
    state, actions = updates.ordered(START, task(), 5.0)
    assert (actions, state.tasks[0].started, state.tasks_made) == ([SetTimer("update:1", 100.0)], 5.0, 1)
    state, actions = updates.ordered(state, task("2"), 6.0)
    assert (actions, state.tasks[1].started) == ([], None)
    state, actions = updates.timer(state, DELL, "1", 105.0, 1.0)
    assert actions == [Happened(Happening.FIRMWARE_UPDATED), SetTimer("update:2", 100.0)]
    assert [(one.end, one.started) for one in state.tasks] == [("Completed", 5.0), (None, 105.0)]


def test_an_update_that_is_held_waits_for_its_command() -> None:
    state, actions = updates.ordered(START, task(held=True), 0.0)
    assert (actions, updates.timer(state, DELL, "2", 0.0, 0.0)) == ([], (state, []))
    state, actions = updates.ordered(state, task("2"), 1.0)
    assert actions == [SetTimer("update:2", 100.0)]
    state, actions = updates.released(state, 2.0)
    assert (actions, state.tasks[0].held, state.tasks[0].started) == ([], False, None)
    assert updates.timer(state, DELL, "2", 101.0, 0.0)[1][-1] == SetTimer("update:1", 100.0)


@pytest.mark.parametrize(
    ("changes", "on_reset", "now", "staged"),
    [
        ({"uefi": "2"}, False, {}, {"uefi": "2"}),
        ({"drivers": "2"}, False, {"drivers": "2"}, {}),
        ({"drivers": "2"}, True, {}, {"drivers": "2"}),
        ({"drivers": "2", "bmc": "3"}, False, {"drivers": "2"}, {"bmc": "3"}),
        ({"drivers": "21.03.10"}, False, {}, {}),
        ({}, False, {}, {}),
    ],
)
def test_at_its_end_a_version_counts_or_waits(changes: Any, on_reset: bool, now: Any, staged: Any) -> None:
    state = updates.timer(after(START, task(changes=changes, on_reset=on_reset)), DELL, "1", 100.0, 7.0)[0]
    assert (state.firmware, state.staged_firmware) == (now, staged)
    assert (state.tasks[0].end, state.tasks[0].ended, state.tasks[0].reached) == ("Completed", 7.0, 100)


def test_an_update_that_counts_at_once_replaces_what_waited() -> None:
    state = msgspec.structs.replace(START, staged_firmware={"drivers": "2", "uefi": "3"})
    state = updates.timer(after(state, task(changes={"drivers": "4"})), DELL, "1", 100.0, 0.0)[0]
    assert (state.firmware, state.staged_firmware) == ({"drivers": "4"}, {"uefi": "3"})


def test_a_failing_update_changes_nothing() -> None:
    state, actions = updates.ordered(START, task(fails_at=40.0), 0.0)
    assert actions == [SetTimer("update:1", 40.0)]
    state, actions = updates.timer(state, DELL, "1", 40.0, 0.0)
    assert Happened(Happening.UPDATE_FAILED) in actions
    assert (state.tasks[0].end, state.tasks[0].reached, state.firmware, state.staged_firmware) == (
        "Exception", 40, {}, {},
    )  # fmt: skip


def test_a_cancelled_update_changes_nothing_and_makes_room() -> None:
    state = after(START, task(), task("2"))
    state, actions = updates.cancelled(state, "1", 30.0, 9.0)
    assert actions == [CancelTimer("update:1"), SetTimer("update:2", 100.0)]
    assert (state.tasks[0].end, state.tasks[0].reached, state.tasks[0].ended) == ("Cancelled", 30, 9.0)
    assert updates.cancelled(state, "1", 31.0, 10.0) == (state, [])
    assert updates.cancelled(state, "nope", 31.0, 10.0) == (state, [])
    assert updates.timer(state, DELL, "1", 100.0, 0.0) == (state, [])


def test_a_forgotten_task_is_gone_whether_it_had_ended_or_not() -> None:
    state = after(START, task(), task("2"))
    state, actions = updates.forgotten(state, "1", 30.0, 0.0)
    assert [one.id for one in state.tasks] == ["2"]
    assert CancelTimer("update:1") in actions
    state = updates.timer(state, DELL, "2", 130.0, 0.0)[0]
    state, actions = updates.forgotten(state, "2", 140.0, 0.0)
    assert (state.tasks, actions, state.staged_firmware, state.tasks_made) == ((), [], {"uefi": "2"}, 2)


def test_a_reset_of_the_bmc_ends_updates_where_the_profile_says_so() -> None:
    state = after(START, task(changes={"cec": "2"}), task("2", changes={"bmc": "2"}))
    failed, actions = updates.happened(state, DPU, Happening.BMC_RESETTING, 50.0, 0.0)
    assert [(one.end, one.aborted, one.reached) for one in failed.tasks] == [
        ("Exception", True, 50),
        ("Exception", True, 0),
    ]
    assert actions.count(Happened(Happening.UPDATE_FAILED)) == 2
    assert [one for one in actions if isinstance(one, SetTimer)] == []
    assert updates.happened(state, DELL, Happening.BMC_RESETTING, 50.0, 0.0) == (state, [])
    assert updates.happened(START, DPU, Happening.BMC_RESETTING, 50.0, 0.0) == (START, [])


@pytest.mark.parametrize("what", list(Happening))
def test_what_happens_applies_what_waited_for_it(what: Happening) -> None:
    staged = {"uefi": "2", "bmc": "3", "cpld": "4"}
    state = msgspec.structs.replace(START, staged_firmware=staged)
    applied = firmware.due(DELL.components, staged, what)
    new, actions = updates.happened(state, DELL, what, 0.0, 0.0)
    assert (new.firmware, new.staged_firmware | applied, actions) == (applied, staged, [])


def test_the_name_of_a_timer_leads_back_to_its_task() -> None:
    assert updates.task_of(updates.timer_of(task("JID_7"))) == "JID_7"
    assert updates.task_of("power") == ""


# any order of events


def pushes(client: Client, changes: dict[str, str], **facts: Any) -> None:
    """An update, as the protocol asks for it."""
    moment, state = client.clock.now(), client.bmc.state
    if tasks.is_full(state.tasks):
        return
    one = Task(str(state.tasks_made), "u", "/x", moment.wall, 20.0, changes=changes, **facts)
    client.driver.execute(client.bmc, client.bmc.update(updates.ordered(state, one, moment.hardware), moment))


def resets(client: Client, event: power.Event) -> None:
    """A command to the system, where its state allows it."""
    with suppress(power.Refused):
        client.driver.execute(client.bmc, client.bmc.reset_system(event, client.clock.now()))


def deletes(client: Client, step: Callable[..., updates.Step], which: int) -> None:
    """The end of one of the tasks."""
    moment, every = client.clock.now(), client.bmc.state.tasks
    if every:
        id_ = every[which % len(every)].id
        actions = client.bmc.update(step(client.bmc.state, id_, moment.hardware, moment.wall), moment)
        client.driver.execute(client.bmc, actions)


def restarts(client: Client) -> None:
    """The process dies and comes back, just after a change: the time since the last one would be lost."""
    client.bmc.become(client.clock.now())
    state = decode(client.bmc.encode()).state
    client.bmc.restore(shifted(state, client.clock.now().hardware))
    client.driver.sync(client.bmc)


VERSIONS = st.sampled_from(["2", "3"])
FACTS = st.fixed_dictionaries(
    {}, optional={"on_reset": st.booleans(), "held": st.booleans(), "fails_at": st.none() | st.floats(0, 100)}
)
COMMON = [
    st.builds(lambda event: lambda client: resets(client, event), st.sampled_from(
        [power.Event.POWER_CYCLE, power.Event.FORCE_RESTART, power.Event.FORCE_OFF, power.Event.ON]
    )),
    st.just(lambda client: client.driver.execute(client.bmc, client.bmc.reset_bmc(client.clock.now()))),
    st.builds(lambda step, which: lambda client: deletes(client, step, which),
              st.sampled_from([updates.cancelled, updates.forgotten]), st.integers(0, 9)),
    st.just(lambda client: client.driver.execute(client.bmc, client.bmc.update(
        updates.released(client.bmc.state, client.clock.now().hardware), client.clock.now()))),
    st.just(restarts),
    st.builds(lambda seconds: lambda client: client.advance(seconds), st.floats(0, 120)),
]  # fmt: skip


def events(components: list[str]) -> st.SearchStrategy[list[Callable[[Client], None]]]:
    """Any sequence of what can happen to a BMC."""
    changes = st.dictionaries(st.sampled_from(components), VERSIONS, max_size=2)
    push = st.builds(lambda changes, facts: lambda client: pushes(client, changes, **facts), changes, FACTS)
    return st.lists(st.one_of(push, *COMMON), max_size=12)


class Watch:
    """What a client saw of a BMC so far."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.seen: dict[str, tuple[int, int]] = {}
        self.happened: list[Happening] = []
        react = client.bmc.react

        def watched(happened: Happened, moment: Any) -> Any:
            self.happened.append(happened.what)
            return react(happened, moment)

        # A class of its own, since a Bmc has no room for attributes.
        client.bmc.__class__ = type(
            "Watched", (client.bmc.__class__,), {"__slots__": (), "react": staticmethod(watched)}
        )

    def look(self, before: dict[str, str]) -> None:
        """Nothing went back, and no version changed without what it needs."""
        bmc, moment = self.client.bmc, self.client.clock.now()
        for one in bmc.state.tasks:
            view = bmc.shown_task(one, moment)
            now = (ORDER.index(view.state), view.percent)
            earlier = self.seen.get(one.id, (0, 0))
            assert now[1] >= earlier[1]
            assert now[0] >= earlier[0]
            assert earlier[0] < ORDER.index(TaskState.COMPLETED) or now == earlier
            self.seen[one.id] = now
        components = bmc.tree.components
        for name in {*before, *bmc.state.firmware}:
            if before.get(name) == bmc.state.firmware.get(name):
                continue
            needed = firmware.AT[components[name].applies]
            ended = Happening.FIRMWARE_UPDATED if components[name].applies == "immediate" else needed
            assert {needed, ended} & set(self.happened), (name, self.happened)
        assert len(bmc.state.tasks) <= KEPT
        running = [one for one in tasks.unfinished(bmc.state.tasks) if one.started is not None]
        assert len(running) <= 1
        assert {timer for timer in bmc.state.timers if timer.startswith("update:")} == {
            updates.timer_of(one) for one in running
        }
        self.happened.clear()


@settings(deadline=None, max_examples=150)
@given(events(["bmc", "uefi", "cpld", "drivers"]))
def test_whatever_happens_to_a_dell(sequence: list[Callable[[Client], None]]) -> None:
    watched("dell_poweredge_r750", sequence)


@settings(deadline=None, max_examples=150)
@given(events(["bmc", "cec", "nic", "uefi", "os"]))
def test_whatever_happens_to_a_bluefield(sequence: list[Callable[[Client], None]]) -> None:
    watched("bluefield3", sequence)


def watched(profile: str, sequence: list[Callable[[Client], None]]) -> None:
    """Let things happen, and look after each."""
    client = make_client(profile)
    watch = Watch(client)
    for event in sequence:
        before = client.bmc.state.firmware
        event(client)
        watch.look(before)


def test_there_is_an_end_to_everything() -> None:
    """Updates that were let go all end, whatever waited for what."""
    client = make_client("dell_poweredge_r750")
    for number in range(5):
        pushes(client, {"uefi": str(number)}, fails_at=50.0 if number == 2 else None)
    client.advance(20 * 4 + 10)
    ends = [one.end for one in client.bmc.state.tasks]
    assert ends == ["Completed", "Completed", "Exception", "Completed", "Completed"]
    assert (client.bmc.state.staged_firmware, client.bmc.state.timers) == ({"uefi": "4"}, {})


def test_an_update_goes_on_after_a_restart_of_the_process() -> None:
    client = make_client("dell_poweredge_r750")
    pushes(client, {"uefi": "2"})
    client.advance(8)
    client.bmc.become(client.clock.now(), resets=1)
    other = make_client("dell_poweredge_r750")
    other.advance(1000)
    other.bmc.restore(shifted(decode(client.bmc.encode()).state, other.clock.now().hardware))
    other.driver.sync(other.bmc)
    (one,) = other.bmc.state.tasks
    assert tasks.percent(one, other.clock.now().hardware) == 40
    other.advance(11.9)
    assert other.bmc.state.tasks[0].end is None
    other.advance(0.1)
    assert other.bmc.state.tasks[0].end is TaskState.COMPLETED


def test_the_steps_change_nothing_but_their_fields() -> None:
    begun = after(START, task())
    for new in (
        updates.timer(begun, DELL, "1", 100.0, 0.0)[0],
        updates.forgotten(begun, "1", 1.0, 0.0)[0],
        updates.released(after(START, task(held=True)), 1.0)[0],
    ):
        same = {name: getattr(START, name) for name in updates.FIELDS}
        assert msgspec.structs.replace(new, **same) == START
