"""Parameters of actions: numbers, objects, arrays, and the ActionInfo that tells of them (DSP0266 7.11, 9.8.3)."""

import re
from typing import Any

import orjson
import pytest

from tests.conftest import Client, header, make_client, message_ids
from tests.unit.redfish.conftest import MANAGER, SYSTEM, dpu_with

TARGET = SYSTEM + "/Actions/ComputerSystem.Reset"
INFO = SYSTEM + "/ResetActionInfo"
FACTS: dict[str, Any] = {
    "ResetType": {"values": ["On", "ForceRestart"], "required": True},
    "Delay": {"type": "number", "min": 1, "max": 60.5},
    "Count": {"type": "integer", "max": 3},
    "Reason": {"pattern": "[a-z]+", "max_length": 5},
    "Tags": {"type": "strings", "max_items": 2, "values": ["a", "b"]},
    "Share": {
        "type": "object",
        "properties": {"Target": {"values": ["BIOS"], "required": True}, "Port": {"type": "integer", "min": 1}},
    },
    "Steps": {"type": "objects", "properties": {"Name": {"required": True}}},
    "Anything": {"type": "object"},
}


@pytest.fixture
def client() -> Client:
    """A BlueField-3 whose reset takes parameters of all kinds."""
    return dpu_with(resources={SYSTEM: {"actions": {"ComputerSystem.Reset": FACTS}}})


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"Delay": 1, "Count": -5},
        {"Delay": 60.5, "Reason": "abc"},
        {"Tags": ["a", "b"]},
        {"Share": {"Target": "BIOS", "Port": 1, "@odata.type": "x"}},
        {"Steps": [{"Name": "x"}, {"Name": "y"}]},
        {"Steps": [], "Tags": [], "Anything": {"a": {"b": 1}}},
    ],
)
def test_what_a_parameter_takes(client: Client, more: dict[str, Any]) -> None:
    assert client.request("POST", TARGET, {"ResetType": "ForceRestart", **more}).status == 204


ACTION = "ComputerSystem.Reset"


@pytest.mark.parametrize(
    ("more", "key", "arguments"),
    [
        ({"Delay": 0.5}, "ActionParameterValueOutOfRange", ["0.5", "Delay", ACTION]),
        ({"Delay": 61}, "ActionParameterValueOutOfRange", ["61", "Delay", ACTION]),
        ({"Delay": True}, "ActionParameterValueTypeError", ["true", "Delay", ACTION]),
        ({"Count": 1.5}, "ActionParameterValueTypeError", ["1.5", "Count", ACTION]),
        ({"Count": 4}, "ActionParameterValueOutOfRange", ["4", "Count", ACTION]),
        ({"Reason": "A"}, "ActionParameterValueFormatError", ["A", "Reason", ACTION]),
        ({"Reason": "abcdef"}, "ActionParameterValueError", ["Reason", ACTION]),
        ({"Tags": "a"}, "ActionParameterValueTypeError", ["a", "Tags", ACTION]),
        ({"Tags": ["a", None]}, "ActionParameterValueTypeError", ['["a",null]', "Tags", ACTION]),
        ({"Tags": ["a", "c"]}, "ActionParameterValueNotInList", ["c", "Tags", ACTION]),
        ({"Tags": ["a", "a", "a"]}, "ActionParameterValueError", ["Tags", ACTION]),
        ({"Share": "x"}, "ActionParameterValueTypeError", ["x", "Share", ACTION]),
        ({"Share": {}}, "ActionParameterMissing", [ACTION, "Share/Target"]),
        ({"Share": {"Target": "BIOS", "Nope": 1}}, "ActionParameterUnknown", [ACTION, "Share/Nope"]),
        ({"Share": {"Target": "x"}}, "ActionParameterValueNotInList", ["x", "Share/Target", ACTION]),
        ({"Share": {"Target": "BIOS", "Port": 0}}, "ActionParameterValueOutOfRange", ["0", "Share/Port", ACTION]),
        ({"Steps": [{"Name": "x"}, {}]}, "ActionParameterMissing", [ACTION, "Steps/1/Name"]),
        ({"Steps": [5]}, "ActionParameterValueTypeError", ["[5]", "Steps", ACTION]),
        ({"Steps": [{"Name": "x"}] * 65}, "ActionParameterValueError", ["Steps", ACTION]),
    ],
)
def test_what_it_does_not_take(client: Client, more: dict[str, Any], key: str, arguments: list[str]) -> None:
    before = client.bmc.state
    response = client.request("POST", TARGET, {"ResetType": "ForceRestart", **more})
    assert (response.status, message_ids(response), client.bmc.state) == (400, [key], before)
    one = orjson.loads(response.body)["error"]["@Message.ExtendedInfo"][0]
    assert one["MessageArgs"] == arguments
    assert one["RelatedProperties"][0].removeprefix("#/") in arguments


@pytest.mark.parametrize(
    ("body", "status"), [(b"", 204), (b"{}", 204), (b"null", 400), (b"[]", 400), (b'"x"', 400), (b"5", 400)]
)
def test_the_body_of_an_action_is_an_object_or_nothing(dpu: Client, body: bytes, status: int) -> None:
    response = dpu.request("POST", MANAGER + "/Actions/Manager.Reset", body)
    assert response.status == status
    assert status == 204 or message_ids(response) == ["MalformedJSON"]


# ActionInfo


def test_action_info_says_all_that_is_checked(client: Client) -> None:
    shown = {one["Name"]: one for one in client.get(INFO)["Parameters"]}
    assert list(shown) == list(FACTS)
    assert shown["ResetType"] == {
        "Name": "ResetType",
        "Required": True,
        "DataType": "String",
        "AllowableValues": ["On", "ForceRestart"],
    }
    assert (shown["Delay"]["MinimumValue"], shown["Delay"]["MaximumValue"]) == (1, 60.5)
    assert (shown["Reason"]["AllowablePattern"], shown["Tags"]["ArraySizeMaximum"]) == ("[a-z]+", 2)
    types = {name: one["DataType"] for name, one in shown.items()}
    assert types == {
        "ResetType": "String",
        "Delay": "Number",
        "Count": "Number",
        "Reason": "String",
        "Tags": "StringArray",
        "Share": "Object",
        "Steps": "ObjectArray",
        "Anything": "Object",
    }


@pytest.mark.parametrize("profile", ["bluefield3", "dell_poweredge_r750"])
def test_both_ways_to_learn_the_values_agree_with_each_other_and_with_what_is_done(profile: str) -> None:
    client = make_client(profile)
    found = 0
    for uri in client.bmc.tree.nodes:
        actions = client.get(uri).get("Actions", {})
        for entry in (*actions.values(), *actions.get("Oem", {}).values()):
            if (info := entry.get("@Redfish.ActionInfo")) is None:
                continue
            found += 1
            for one in client.get(info)["Parameters"]:
                name = one["Name"]
                assert one.get("AllowableValues") == entry.get(f"{name}@Redfish.AllowableValues")
                wrong = client.request("POST", entry["target"], {name: "Nope"})
                assert (wrong.status, message_ids(wrong)) == (400, ["ActionParameterValueNotInList"])
                if one["Required"]:
                    missing = client.request("POST", entry["target"], {})
                    assert message_ids(missing) == ["ActionParameterMissing"]
    assert found == (3 if profile == "bluefield3" else 0)


def test_action_info_is_a_resource_like_others(dpu: Client) -> None:
    response = dpu.request("GET", INFO)
    assert (response.status, header(response, "Allow")) == (200, "GET, HEAD")
    assert re.search(r"ActionInfo", header(response, "Link") or "")
    assert dpu.request("PATCH", INFO, {"Name": "x"}).status == 405
