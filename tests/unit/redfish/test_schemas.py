"""Schema files: who may read them, in which form, and that nothing else is read."""

import gzip
from pathlib import Path

import pytest

from bmcsim.machine import holes
from bmcsim.redfish.exchange import Response
from bmcsim.tree.compile import compile_tree
from bmcsim.tree.profile import load
from tests.conftest import Client, basic, header, message_ids
from tests.unit.tree.test_schema_files import write

FILE = "/redfish/v1/schemas/NvidiaManager_v1.xml"


def test_a_vendor_s_file_is_read_as_xml(dpu: Client) -> None:
    response = dpu.request("GET", FILE)
    assert response.status == 200
    assert header(response, "Content-Type") == "application/xml; charset=utf-8"
    assert response.body == dpu.bmc.tree.files[FILE].content
    assert dpu.request("HEAD", FILE).status == 200
    assert dpu.request("GET", FILE + "/").body == response.body


def test_a_json_schema_is_read_as_json(dpu: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = compile_tree(load("bluefield3"), holes.bind, schemas=write(tmp_path, "Chassis.json"))
    monkeypatch.setattr(dpu.bmc.tree, "files", tree.files)
    response = dpu.request("GET", "/redfish/v1/schemas/Chassis.json")
    assert header(response, "Content-Type") == "application/json; charset=utf-8"
    assert response.body == (tmp_path / "Chassis.json").read_bytes()


def test_it_is_compressed_for_who_wants_it(host: Client) -> None:
    uri = "/redfish/v1/schemas/DellSystem_v1.xml"
    response = host.request("GET", uri, gzip=True)
    assert header(response, "Content-Encoding") == "gzip"
    assert gzip.decompress(response.body) == host.bmc.tree.files[uri].content


def refused(response: Response) -> tuple[int, list[str]]:
    """Status and messages."""
    return response.status, message_ids(response)


def test_it_is_read_by_users_who_may_log_in_only(dpu: Client) -> None:
    assert dpu.request("GET", FILE, authorization=b"").status == 401
    dpu.request("POST", "/redfish/v1/AccountService/Roles", {"RoleId": "None", "AssignedPrivileges": ["ConfigureSelf"]})
    account = {"UserName": "nobody", "Password": "Secret-123", "RoleId": "None"}
    assert dpu.request("POST", "/redfish/v1/AccountService/Accounts", account).status == 201
    dpu.authorization = basic("nobody", "Secret-123")
    assert refused(dpu.request("GET", FILE)) == (403, ["InsufficientPrivilege"])
    assert dpu.request("GET", "/redfish/v1/$metadata").status == 200


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
def test_it_is_not_written(dpu: Client, method: str) -> None:
    response = dpu.request(method, FILE, {})
    assert response.status == 405
    assert header(response, "Allow") == "GET, HEAD"


def test_who_wants_something_else_gets_nothing(dpu: Client) -> None:
    assert dpu.request("GET", FILE, accept=b"application/json").status == 406


@pytest.mark.parametrize(
    "name",
    ["", "/", "/Chassis.json", "/../schemas/NvidiaManager_v1.xml", "/%2e%2e/x", "//etc/passwd", "/NvidiaManager_v1"],
)
def test_nothing_else_is_there(dpu: Client, name: str) -> None:
    assert refused(dpu.request("GET", f"/redfish/v1/schemas{name}")) == (404, ["ResourceMissingAtURI"])
