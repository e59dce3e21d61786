"""Public bug reports about power and reset (kind K3): the right behaviour, named after the report's row."""

import orjson
import pytest

from bmcsim.machine.fault_rules import from_json
from bmcsim.machine.faults import Rules
from bmcsim.tree.profile import VendorMessage, names
from tests.conftest import Client, make_client, message_ids, profiles_where, tree_of
from tests.unit.redfish.conftest import dpu_with

every_profile = pytest.mark.parametrize("profile", names())
every_system_that_shuts_down = pytest.mark.parametrize(
    "profile",
    profiles_where(
        lambda tree: any(
            action.name == "ComputerSystem.Reset" and "GracefulShutdown" in action.parameters["ResetType"].values
            for action in tree.actions.values()
        )
    ),
)


def system_of(client: Client) -> str:
    """The URI of a client's system."""
    return client.bmc.tree.head.roles.system


def reset(client: Client, type_: str) -> int:
    """ComputerSystem.Reset; its status."""
    return client.request("POST", f"{system_of(client)}/Actions/ComputerSystem.Reset", {"ResetType": type_}).status


def power(client: Client) -> str:
    """PowerState of the system."""
    return str(client.get(system_of(client))["PowerState"])


@every_profile
def test_e07_what_can_be_done_is_advertised_with_target_and_values(profile: str) -> None:
    """Managers offer Manager.Reset with target and values; no action is there that is not served."""
    client = make_client(profile)
    actions = client.get(client.bmc.tree.head.roles.manager)["Actions"]
    offered = actions["#Manager.Reset"]
    assert "GracefulRestart" in offered["ResetType@Redfish.AllowableValues"]
    assert client.request("POST", offered["target"], {"ResetType": "GracefulRestart"}).status == 204
    client.advance(200)
    for uri in client.bmc.tree.nodes:
        shown = client.get(uri).get("Actions", {})
        assert {} not in shown.values()
        for action in [*(one for name, one in shown.items() if name != "Oem"), *shown.get("Oem", {}).values()]:
            assert action["target"] in client.bmc.tree.actions


@every_system_that_shuts_down
def test_e08_force_acts_at_once_and_graceful_waits_for_the_system(profile: str) -> None:
    """ForceOff is off at once; GracefulShutdown takes as long as the system does, for ever if it ignores the wish."""
    client = make_client(profile)
    reset(client, "ForceOff")
    assert power(client) == "Off"
    client = make_client(profile)
    reset(client, "GracefulShutdown")
    assert power(client) == "PoweringOff"
    client.advance(100)
    assert power(client) == "Off"
    client = make_client(profile)
    ignoring = from_json({"id": "deaf", "action": "IgnoreShutdown"})
    client.bmc.become(client.clock.now(), faults=Rules.of([ignoring]))
    assert reset(client, "GracefulShutdown") == 204
    client.advance(10_000)
    assert power(client) == "On"
    assert reset(client, "ForceOff") == 204
    assert power(client) == "Off"


@pytest.mark.parametrize("method", ["POST", "GET"])
@every_profile
def test_e10_a_chassis_that_is_not_there_is_not_reset(profile: str, method: str) -> None:
    """Chassis.Reset of a chassis that does not exist is 404, and nothing happens to the one that does."""
    client = make_client(profile)
    before = client.bmc.state
    for chassis in ("nope", "System.Embedded.2", ""):
        target = f"/redfish/v1/Chassis/{chassis}/Actions/Chassis.Reset"
        response = client.request(method, target, {"ResetType": "PowerCycle"} if method == "POST" else None)
        assert (response.status, message_ids(response)) == (404, ["ResourceMissingAtURI"])
    assert client.bmc.state is before


@pytest.mark.parametrize("status", [409, 400])
def test_c07_a_reset_that_does_not_fit_is_refused_in_the_words_of_redfish(status: int) -> None:
    """A reset of a system that is off: 409, or 400 where the profile says so, with an extended error."""
    client = dpu_with(reset_conflict=status)
    reset(client, "ForceOff")
    target = f"{system_of(client)}/Actions/ComputerSystem.Reset"
    response = client.request("POST", target, {"ResetType": "ForceRestart"})
    assert (response.status, message_ids(response)) == (status, ["ResourceInUse"])
    assert power(client) == "Off"


def test_c07_a_vendor_says_it_in_its_own_words() -> None:
    """An iLO answers 400 with InvalidOperationForSystemState of its own registry."""
    own = VendorMessage("iLO.2.23.InvalidOperationForSystemState", "Power is off.", "Warning", "Check the power state.")
    client = dpu_with(reset_conflict=400, reset_conflict_message=own)
    reset(client, "ForceOff")
    target = f"{system_of(client)}/Actions/ComputerSystem.Reset"
    response = client.request("POST", target, {"ResetType": "ForceRestart"})
    error = orjson.loads(response.body)["error"]
    assert (response.status, error["code"]) == (400, own.id)
    assert error["@Message.ExtendedInfo"][0]["MessageId"] == own.id
    assert error["@Message.ExtendedInfo"][0]["RelatedProperties"] == ["#/ResetType"]


@every_profile
def test_c08_a_value_outside_the_list_is_refused_by_name_for_every_action(profile: str) -> None:
    """Whatever lists its allowable values refuses any other one with 400, names it, and does nothing."""
    client = make_client(profile)
    before = client.bmc.state
    tried = 0
    for target, action in tree_of(profile).actions.items():
        for name, facts in action.parameters.items():
            if facts.values is None:
                continue
            required = {other: "x" for other, one in action.parameters.items() if one.required and other != name}
            value = "Nope" if facts.type == "string" else ["Nope"]
            response = client.request("POST", target, {**required, name: value})
            first = orjson.loads(response.body)["error"]["@Message.ExtendedInfo"][0]
            assert response.status == 400, target
            if not required:
                assert first["MessageId"].endswith(".ActionParameterValueNotInList")
                assert first["MessageArgs"][:2] == ["Nope", name]
            tried += 1
    assert tried >= 5
    assert client.bmc.state is before
