"""Roles: the predefined ones, and others that come and go."""

from typing import Any

import orjson
import pytest

from bmcsim.redfish.roles import ROLE_LIMIT
from tests.conftest import Client, basic, header, message_ids
from tests.unit.redfish.conftest import ACCOUNTS, ROLES, SYSTEM, as_edge, login

PREDEFINED = {
    "Administrator": {"Login", "ConfigureManager", "ConfigureUsers", "ConfigureComponents", "ConfigureSelf"},
    "Operator": {"Login", "ConfigureComponents", "ConfigureSelf"},
    "ReadOnly": {"Login", "ConfigureSelf"},
}
AUDITOR = {"RoleId": "Auditor", "AssignedPrivileges": ["Login"], "OemPrivileges": ["OemAudit"]}


def add(client: Client, **facts: Any) -> str:
    """The URI of a new role: AUDITOR with other facts."""
    response = client.request("POST", ROLES, {**AUDITOR, **facts})
    assert response.status == 201, response.body
    return header(response, "Location") or ""


def test_the_predefined_roles_are_there_with_their_privileges(dpu: Client) -> None:
    assert [one["@odata.id"] for one in dpu.get(ROLES)["Members"]] == [f"{ROLES}/{role}" for role in PREDEFINED]
    for role, privileges in PREDEFINED.items():
        body = dpu.get(f"{ROLES}/{role}")
        assert (body["Id"], body["RoleId"], body["IsPredefined"]) == (role, role, True)
        assert set(body["AssignedPrivileges"]) == privileges
        assert body["OemPrivileges"] == []


@pytest.mark.parametrize("role", PREDEFINED)
def test_a_predefined_role_stays_as_it_is(dpu: Client, role: str) -> None:
    uri = f"{ROLES}/{role}"
    before = dpu.get(uri)
    for change in ({"AssignedPrivileges": ["Login"]}, {"OemPrivileges": ["x"]}):
        response = dpu.request("PATCH", uri, change)
        assert (response.status, message_ids(response)) == (400, ["PropertyNotWritable"])
    response = dpu.request("DELETE", uri)
    assert (response.status, message_ids(response)) == (403, ["ResourceCannotBeDeleted"])
    assert dpu.get(uri) == before


@pytest.mark.parametrize("path", [ROLES, ROLES + "/", ROLES + "/Members"])
def test_a_new_role_is_answered_with_itself(dpu: Client, path: str) -> None:
    response = dpu.request("POST", path, AUDITOR)
    assert (response.status, header(response, "Location")) == (201, f"{ROLES}/Auditor")
    body = orjson.loads(response.body)
    assert body == dpu.get(f"{ROLES}/Auditor")
    assert {**AUDITOR, "Id": "Auditor", "IsPredefined": False}.items() <= body.items()
    assert dpu.get(ROLES)["Members@odata.count"] == 4


def test_a_role_is_changed_and_its_accounts_with_it_at_once(dpu: Client) -> None:
    uri = add(dpu)
    dpu.request("POST", ACCOUNTS, {"UserName": "ann", "Password": "Secret-1", "RoleId": "Auditor"})
    fields = {"authorization": basic("ann", "Secret-1")}
    boot = {"Boot": {"BootSourceOverrideEnabled": "Once"}}
    assert dpu.request("GET", SYSTEM, **fields).status == 200
    assert dpu.request("PATCH", SYSTEM, boot, **fields).status == 403
    response = dpu.request("PATCH", uri, {"AssignedPrivileges": ["Login", "Login", "ConfigureComponents"]})
    after = dpu.get(uri)
    assert (response.status, header(response, "ETag")) == (204, after["@odata.etag"])
    assert after["AssignedPrivileges"] == ["Login", "ConfigureComponents"]
    assert after["OemPrivileges"] == ["OemAudit"]
    assert dpu.request("PATCH", SYSTEM, boot, **fields).status == 204
    assert dpu.request("PATCH", uri, {"AssignedPrivileges": ["ConfigureSelf"]}).status == 204
    assert dpu.request("GET", SYSTEM, **fields).status == 403


def test_a_remembered_header_is_forgotten_when_its_role_changes(dpu: Client) -> None:
    uri = add(dpu, AssignedPrivileges=["Login", "ConfigureManager", "ConfigureComponents"])
    dpu.request("POST", ACCOUNTS, {"UserName": "ann", "Password": "Secret-1", "RoleId": "Auditor"})
    mine = basic("ann", "Secret-1")
    assert [as_edge(dpu, "GET", SYSTEM, authorization=mine).status for _ in range(2)] == [200, 200]
    assert dpu.bmc.basic_header == mine
    by_root, _ = login(dpu)
    body = {"AssignedPrivileges": ["ConfigureSelf"]}
    assert dpu.request("PATCH", uri, body, authorization=b"", token=by_root).status == 204
    assert as_edge(dpu, "GET", SYSTEM, authorization=mine).status == 403


def test_a_role_that_somebody_has_cannot_go(dpu: Client) -> None:
    uri = add(dpu)
    dpu.request("POST", ACCOUNTS, {"UserName": "ann", "Password": "Secret-1", "RoleId": "Auditor"})
    response = dpu.request("DELETE", uri)
    assert (response.status, message_ids(response)) == (409, ["ResourceInUse"])
    assert dpu.request("PATCH", f"{ACCOUNTS}/ann", {"RoleId": "ReadOnly"}).status == 204
    assert dpu.request("DELETE", uri).status == 204
    assert dpu.request("GET", uri).status == 404
    assert dpu.request("PATCH", f"{ACCOUNTS}/ann", {"RoleId": "Auditor"}).status == 400


@pytest.mark.parametrize(
    ("facts", "keys"),
    [
        ({"RoleId": ...}, ["PropertyMissing"]),
        ({"AssignedPrivileges": ...}, ["PropertyMissing"]),
        ({"RoleId": 5}, ["PropertyValueTypeError"]),
        ({"RoleId": "a b"}, ["PropertyValueFormatError"]),
        ({"RoleId": ""}, ["PropertyValueFormatError"]),
        ({"RoleId": "a" * 65}, ["PropertyValueFormatError"]),
        ({"RoleId": "ReadOnly"}, ["ResourceAlreadyExists"]),
        ({"AssignedPrivileges": ["NoAuth"]}, ["PropertyValueNotInList"]),
        ({"AssignedPrivileges": "Login"}, ["PropertyValueTypeError"]),
        ({"OemPrivileges": [1]}, ["PropertyValueTypeError"]),
        ({"IsPredefined": True}, ["PropertyNotWritable"]),
        ({"Nope": 1}, ["PropertyUnknown"]),
    ],
)
def test_a_role_that_cannot_be_is_not_created(dpu: Client, facts: dict[str, Any], keys: list[str]) -> None:
    body = {name: value for name, value in {**AUDITOR, **facts}.items() if value is not ...}
    response = dpu.request("POST", ROLES, body)
    assert (response.status, message_ids(response)) == (400, keys)
    assert dpu.get(ROLES)["Members@odata.count"] == 3


def test_a_role_exists_once_and_there_is_a_limit(dpu: Client) -> None:
    add(dpu)
    response = dpu.request("POST", ROLES, AUDITOR)
    assert (response.status, message_ids(response)) == (400, ["ResourceAlreadyExists"])
    for number in range(ROLE_LIMIT - 4):
        add(dpu, RoleId=f"Role-{number}")
    response = dpu.request("POST", ROLES, {**AUDITOR, "RoleId": "OneMore"})
    assert (response.status, message_ids(response)) == (400, ["CreateLimitReachedForResource"])
