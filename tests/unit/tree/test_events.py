"""What a profile says about events: what is taken, and what `bmcsim profile check` finds."""

import pytest

from bmcsim.machine import holes
from bmcsim.tree.compile import compile_tree
from bmcsim.tree.profile import load
from bmcsim.tree.source import ProfileError
from tests.unit.tree.conftest import TINY, Write
from tests.unit.tree.test_check import found

KIND = "{on: SystemPoweredOff, id: ResourceEvent.1.4.ResourcePoweredOff, message: off}"
SERVICE = f"""
  /redfish/v1/EventService:
    type: EventService.v1_10_0
    ServerSentEventUri: /redfish/v1/SSE
    RegistryPrefixes: [ResourceEvent]
    events: [{KIND}]
"""


def test_a_service_says_what_is_told_and_where_the_stream_is(write: Write) -> None:
    path = write(TINY + SERVICE)
    assert found(path) == []
    tree = compile_tree(load(path), holes.bind)
    assert (tree.event_stream, [kind.on for kind in tree.events]) == ("/redfish/v1/SSE", ["SystemPoweredOff"])


def test_without_a_service_there_is_no_stream(write: Write) -> None:
    tree = compile_tree(load(write(TINY)), holes.bind)
    assert (tree.event_stream, tree.events) == ("", [])


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("on: SystemPoweredOff", "on: Nope", "events: on: Nope never happens; known: SystemPoweredOn"),
        ("[ResourceEvent]", "[Base]", "RegistryPrefixes lacks the registry of ResourceEvent.1.4.ResourcePoweredOff"),
        ("message: off}", "message: off, origin: /redfish/v1/No}", "origin: /redfish/v1/No is not system, manager or"),
        ("message: off}", "message: off, origin: hose}", "origin: hose is not system, manager or a resource"),
    ],
)
def test_what_is_wrong_is_found(write: Write, old: str, new: str, problem: str) -> None:
    (only,) = found(write(TINY + SERVICE.replace(old, new)))
    assert problem in only


def test_the_service_is_where_the_state_machines_look_for_it(write: Write) -> None:
    path = write(TINY + SERVICE.replace("/redfish/v1/EventService:", "/redfish/v1/Events:"))
    with pytest.raises(ProfileError, match="and that is /redfish/v1/EventService"):
        compile_tree(load(path), holes.bind)


@pytest.mark.parametrize("fact", ["type: Nope", "severity: Bad", "colour: red"])
def test_an_event_is_described_with_what_there_is(write: Write, fact: str) -> None:
    with pytest.raises(ProfileError, match="events"):
        load(write(TINY + SERVICE.replace("message: off}", f"message: off, {fact}}}")))
