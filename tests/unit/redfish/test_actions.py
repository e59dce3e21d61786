"""Redfish actions."""

from typing import Any

import orjson
import pytest

from bmcsim.machine.actions import DropSessions, Happened, Happening
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.power import Power
from bmcsim.redfish.actions import HANDLERS
from tests.conftest import Client, header, message_ids
from tests.unit.redfish.conftest import MANAGER, SYSTEM, dpu_with

RESET = SYSTEM + "/Actions/ComputerSystem.Reset"
MANAGER_RESET = MANAGER + "/Actions/Manager.Reset"


@pytest.mark.parametrize("profile", ["dpu", "host"])
def test_every_action_that_a_resource_advertises_has_a_handler(profile: str, request: pytest.FixtureRequest) -> None:
    client: Client = request.getfixturevalue(profile)
    targets = []
    for path in client.bmc.tree.nodes:
        shown = client.get(path).get("Actions", {})
        oem = {f"Oem.{name.removeprefix('#')}": action for name, action in shown.pop("Oem", {}).items()}
        for name, action in {**shown, **oem}.items():
            assert name.removeprefix("#") in HANDLERS
            assert client.request("GET", action["target"]).status == 405
            targets.append(action["target"])
    of_members = {target: action for target, action in client.bmc.tree.actions.items() if "/*/" in target}
    assert all(action.name in HANDLERS for action in of_members.values())
    assert sorted(targets) == sorted(client.bmc.tree.actions.keys() - of_members)


def test_an_action_answers_204_and_what_it_sets_in_motion(dpu: Client) -> None:
    response = dpu.request("POST", RESET, {"ResetType": "GracefulShutdown"})
    assert (response.status, response.body) == (204, b"")
    assert list(response.actions) == []
    assert dpu.bmc.state.timers == {"power": 0.0}
    assert header(response, "OData-Version") == "4.0"


def test_an_action_tells_what_happened_and_whose_sessions_end(dpu: Client) -> None:
    response = dpu.request("POST", RESET, {"ResetType": "ForceOff"})
    assert list(response.actions) == [Happened(Happening.SYSTEM_POWERED_OFF)]
    response = dpu.request("POST", MANAGER_RESET)
    assert list(response.actions) == [Happened(Happening.BMC_RESETTING), DropSessions()]


@pytest.mark.parametrize("path", [RESET, RESET + "/"])
def test_an_allowed_value_of_each_kind_is_carried_out(dpu: Client, path: str) -> None:
    assert dpu.request("POST", path, {"ResetType": "ForceOff"}).status == 204
    assert dpu.get(SYSTEM)["PowerState"] == "Off"
    assert dpu.request("POST", path, {"ResetType": "On", "@odata.type": "x", "A@b": 1}).status == 204
    assert dpu.get(SYSTEM)["PowerState"] == "PoweringOn"


REFUSED = [
    ({}, "ActionParameterMissing", ["ComputerSystem.Reset", "ResetType"]),
    ({"@odata.type": "x"}, "ActionParameterMissing", ["ComputerSystem.Reset", "ResetType"]),
    ({"resettype": "On"}, "ActionParameterUnknown", ["ComputerSystem.Reset", "resettype"]),
    ({"ResetType": "On", "Nope": 1}, "ActionParameterUnknown", ["ComputerSystem.Reset", "Nope"]),
    ({"ResetType": 5}, "ActionParameterValueTypeError", ["5", "ResetType", "ComputerSystem.Reset"]),
    ({"ResetType": True}, "ActionParameterValueTypeError", ["true", "ResetType", "ComputerSystem.Reset"]),
    ({"ResetType": None}, "ActionParameterValueTypeError", ["null", "ResetType", "ComputerSystem.Reset"]),
    ({"ResetType": ["On"]}, "ActionParameterValueTypeError", ['["On"]', "ResetType", "ComputerSystem.Reset"]),
    ({"ResetType": "Suspend"}, "ActionParameterValueNotInList", ["Suspend", "ResetType", "ComputerSystem.Reset"]),
    ({"ResetType": "on"}, "ActionParameterValueNotInList", ["on", "ResetType", "ComputerSystem.Reset"]),
    ({"ResetType": "(timer)"}, "ActionParameterValueNotInList", ["(timer)", "ResetType", "ComputerSystem.Reset"]),
    ({"ResetType": "x" * 99}, "ActionParameterValueNotInList", ["x" * 64, "ResetType", "ComputerSystem.Reset"]),
    (b"[]", "MalformedJSON", []),
    (b"nonsense", "MalformedJSON", []),
]


@pytest.mark.parametrize(("body", "key", "arguments"), REFUSED)
def test_parameters_that_are_refused_set_nothing_in_motion(
    dpu: Client, body: Any, key: str, arguments: list[str]
) -> None:
    response = dpu.request("POST", RESET, body)
    assert (response.status, message_ids(response), list(response.actions)) == (400, [key], [])
    assert orjson.loads(response.body)["error"]["@Message.ExtendedInfo"][0]["MessageArgs"] == arguments
    assert (dpu.bmc.power, len(dpu.driver)) == (Power.RUNNING, 0)


@pytest.mark.parametrize("depth", [100, 300, 1000])
def test_a_deeply_nested_parameter_is_an_error_of_the_client(dpu: Client, depth: int) -> None:
    assert dpu.request("POST", RESET, b'{"ResetType":' + b"[" * depth + b"]" * depth + b"}").status == 400


def test_a_body_is_not_needed_where_no_parameter_is(dpu: Client) -> None:
    assert dpu.request("POST", MANAGER_RESET).status == 204
    assert dpu.bmc.state.service is Service.RESETTING


def test_without_a_body_a_needed_parameter_is_missing(dpu: Client) -> None:
    response = dpu.request("POST", RESET)
    assert (response.status, message_ids(response)) == (400, ["ActionParameterMissing"])


@pytest.mark.parametrize("media", [b"text/plain", b"", b"application/x-www-form-urlencoded"])
@pytest.mark.parametrize("path", [RESET, MANAGER_RESET])
def test_a_body_of_another_media_type_is_not_read(dpu: Client, path: str, media: bytes) -> None:
    response = dpu.request("POST", path, b'{"ResetType": "ForceRestart"}', content_type=media)
    assert (response.status, message_ids(response)) == (415, ["UnrecognizedRequestBody"])
    assert dpu.bmc.state.service is Service.UP
    assert dpu.bmc.power is Power.RUNNING


@pytest.mark.parametrize(
    ("power", "reset"),
    [
        (Power.RUNNING, "On"),
        (Power.OFF, "ForceOff"),
        (Power.OFF, "GracefulRestart"),
        (Power.OFF, "Nmi"),
        (Power.CYCLING, "On"),
    ],
)
@pytest.mark.parametrize("status", [409, 400])
def test_a_reset_that_the_power_state_does_not_allow_is_a_conflict(power: Power, reset: str, status: int) -> None:
    client = dpu_with(reset_conflict=status)
    client.bmc.become(client.clock.now(), power=power)
    response = client.request("POST", RESET, {"ResetType": reset})
    assert (response.status, message_ids(response)) == (status, ["ResourceInUse"])
    assert client.bmc.power is power


@pytest.mark.parametrize("method", ["GET", "HEAD", "PATCH", "PUT", "DELETE"])
def test_an_action_takes_nothing_but_post(dpu: Client, method: str) -> None:
    response = dpu.request(method, RESET)
    assert (response.status, header(response, "Allow")) == (405, "POST")
    options = dpu.request("OPTIONS", RESET)
    assert (options.status, header(options, "Allow")) == (204, "POST")


@pytest.mark.parametrize(
    "path",
    [
        SYSTEM + "/Actions/ComputerSystem.Nope",
        SYSTEM + "/Actions",
        "/redfish/v1/Systems/Nope/Actions/ComputerSystem.Reset",
    ],
)
def test_an_action_that_is_not_there(dpu: Client, path: str) -> None:
    response = dpu.request("POST", path, {"ResetType": "On"})
    assert (response.status, message_ids(response)) == (404, ["ResourceMissingAtURI"])


def test_parameters_have_a_limit(host: Client) -> None:
    insert = next(path for path in host.bmc.tree.actions if path.endswith("VirtualMedia.InsertMedia"))
    update = "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate"
    for path, body in (
        (insert, {"Image": "http://a.example/" + "x" * 2000}),
        (update, {"ImageURI": "http://a.example/" + "x" * 2000}),
        (update, {"ImageURI": "http://a.example/x", "Targets": ["x"] * 1000}),
    ):
        refused = host.request("POST", path, body)
        assert (refused.status, message_ids(refused)) == (400, ["ActionParameterValueError"])
        assert len(refused.body) < 1000


@pytest.mark.parametrize(
    ("power", "reset", "after"),
    [
        (Power.RUNNING, "On", Power.RUNNING),
        (Power.BOOTING, "ForceOn", Power.BOOTING),
        (Power.RESTARTING, "On", Power.RESTARTING),
        (Power.OFF, "ForceOff", Power.OFF),
        (Power.OFF, "GracefulShutdown", Power.OFF),
        (Power.OFF, "ForceRestart", Power.POWERING_ON),
        (Power.OFF, "GracefulRestart", Power.POWERING_ON),
    ],
)
def test_a_reset_leads_where_its_type_says(dpu: Client, power: Power, reset: str, after: Power) -> None:
    """DSP0268, ResetType: what PowerState is after it, from whatever state it began."""
    dpu.bmc.become(dpu.clock.now(), power=power)
    response = dpu.request("POST", RESET, {"ResetType": reset})
    assert (response.status, dpu.bmc.power) == (204, after)
    dpu.advance(1000)
    assert dpu.get(SYSTEM)["PowerState"] == ("Off" if after is Power.OFF else "On")


@pytest.mark.parametrize(
    ("power", "reset"),
    [(Power.OFF, "Nmi"), (Power.CYCLING, "On"), (Power.POWERING_OFF, "On"), (Power.CYCLING, "ForceOff")],
)
def test_a_reset_that_leads_nowhere_is_a_conflict(dpu: Client, power: Power, reset: str) -> None:
    dpu.bmc.become(dpu.clock.now(), power=power)
    response = dpu.request("POST", RESET, {"ResetType": reset})
    assert (response.status, message_ids(response), dpu.bmc.power) == (409, ["ResourceInUse"], power)
