"""Messages and error objects."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

import bmcsim
from bmcsim.core.errors import RedfishError
from bmcsim.redfish.messages import MESSAGES, REGISTRY, error_response, errors_response, message


def raised() -> Iterator[tuple[str, str, int]]:
    """(place, key, number of arguments) of every message that the code sends with a literal key."""
    for path in sorted(Path(bmcsim.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            first = {"RedfishError": 1, "message": 0}.get(node.func.id)
            if first is None or any(isinstance(one, ast.Starred) for one in node.args):
                continue
            key = node.args[first]
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield f"{path.name}:{node.lineno}", key.value, len(node.args) - first - 1


def test_every_message_that_the_code_sends_is_in_the_table_with_its_arguments() -> None:
    sent = list(raised())
    assert len(sent) > 20
    for place, key, count in sent:
        assert key in MESSAGES, place
        assert len(set(re.findall(r"%\d", MESSAGES[key][1]))) == count, place


@pytest.mark.parametrize("key", MESSAGES)
def test_every_message_has_a_severity_and_a_resolution(key: str) -> None:
    severity, text, resolution = MESSAGES[key]
    assert severity in ("OK", "Warning", "Critical")
    assert text.endswith(".")
    assert resolution.endswith(".")
    assert "%" not in resolution


@pytest.mark.parametrize(
    ("key", "severity"),
    [("ActionParameterMissing", "Critical"), ("PropertyMissing", "Warning"), ("PasswordChangeRequired", "Critical")],
)
def test_severities_are_those_of_the_base_registry(key: str, severity: str) -> None:
    assert MESSAGES[key][0] == severity


def test_a_message_object() -> None:
    assert message("PropertyValueNotInList", "a", "b", related="Boot/b") == {
        "@odata.type": "#Message.v1_2_1.Message",
        "MessageId": f"{REGISTRY}.PropertyValueNotInList",
        "Message": "'a' is not one of the values that the property b accepts.",
        "MessageArgs": ["a", "b"],
        "MessageSeverity": "Warning",
        "Resolution": "Choose an accepted value.",
        "RelatedProperties": ["#/Boot/b"],
    }
    assert "RelatedProperties" not in message("EmptyJSON")


def test_what_a_client_sent_is_not_expanded_again() -> None:
    assert message("PropertyValueNotInList", "%2", "%1")["Message"].startswith("'%2' is not one of the values")


def test_the_error_object_of_one_message_is_the_message() -> None:
    response = error_response(RedfishError(404, "ResourceMissingAtURI", "/x", headers=b"A: b\r\n"))
    error = orjson.loads(response.body)["error"]
    (info,) = error["@Message.ExtendedInfo"]
    assert (error["code"], error["message"]) == (info["MessageId"], info["Message"])
    assert info["MessageId"] == f"{REGISTRY}.ResourceMissingAtURI"
    assert response.status == 404
    assert response.head.endswith(b"A: b\r\n")
    assert response.head.startswith(b"Content-Type: application/json; charset=utf-8\r\nOData-Version: 4.0\r\n")


def test_the_error_object_of_several_messages_is_general() -> None:
    response = errors_response(400, [message("PropertyUnknown", "a"), message("PropertyUnknown", "b")])
    error = orjson.loads(response.body)["error"]
    assert error["code"] == f"{REGISTRY}.GeneralError"
    assert [one["MessageArgs"] for one in error["@Message.ExtendedInfo"]] == [["a"], ["b"]]
