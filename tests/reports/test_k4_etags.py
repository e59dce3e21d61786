"""Reports of kind K4: entity tags and conditional requests."""

import gzip

import orjson
import pytest

from tests.conftest import Client, header
from tests.unit.redfish.conftest import as_edge

SYSTEM = {"bluefield3": "/redfish/v1/Systems/Bluefield", "dell_poweredge_r750": "/redfish/v1/Systems/System.Embedded.1"}
PROFILES = list(SYSTEM)
CHANGE = b'{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"}}'


@pytest.fixture(params=PROFILES)
def profile(request: pytest.FixtureRequest) -> str:
    """Each profile in turn."""
    return str(request.param)


@pytest.fixture
def client(profile: str, dpu: Client, host: Client) -> Client:
    """A BMC of the profile."""
    return dpu if profile == "bluefield3" else host


def write(client: Client, path: str, body: bytes, etag: str | None) -> int:
    """The status of a PATCH with If-Match."""
    fields = {"authorization": client.authorization, "content_type": b"application/json"}
    return as_edge(client, "PATCH", path, body, if_match=(etag or "").encode(), **fields).status


def test_c13_the_tag_of_a_compressed_answer_is_good_for_if_match(profile: str, client: Client) -> None:
    fields = {"authorization": client.authorization, "accept_encoding": b"gzip, deflate"}
    answer = as_edge(client, "GET", SYSTEM[profile], **fields)
    etag = header(answer, "ETag") or ""
    assert header(answer, "Content-Encoding") == "gzip"
    assert etag.startswith('"')
    assert orjson.loads(gzip.decompress(answer.body))["@odata.etag"] == etag
    assert etag != header(client.request("GET", SYSTEM[profile]), "ETag")
    assert write(client, SYSTEM[profile], CHANGE, etag) < 300
    assert write(client, SYSTEM[profile], CHANGE.replace(b"Once", b"Disabled"), etag) == 412


def test_c15_no_tag_is_ever_empty(client: Client) -> None:
    for path in client.bmc.tree.nodes:
        etag = header(client.request("GET", path), "ETag") or ""
        assert len(etag) > 2, path


def test_c16_the_tag_in_the_body_is_that_of_the_header(client: Client) -> None:
    for path in client.bmc.tree.nodes:
        response = client.request("GET", path)
        assert orjson.loads(response.body)["@odata.etag"] == header(response, "ETag"), path


def test_c18_an_action_minds_no_if_match(profile: str, client: Client) -> None:
    target = f"{SYSTEM[profile]}/Actions/ComputerSystem.Reset"
    assert client.request("POST", target, {"ResetType": "ForceRestart"}, if_match=b'"x"').status == 204


def test_e12_a_clock_changes_no_tag(client: Client) -> None:
    paths = [
        path for path, node in client.bmc.tree.nodes.items() if "${time.now}" in orjson.dumps(node.template).decode()
    ]
    assert "/redfish/v1/TaskService" in paths
    for path in paths:
        if "MetricReports" in path:
            continue  # its readings change too
        before = client.request("GET", path)
        client.advance(2)
        after = client.request("GET", path)
        assert before.body != after.body
        assert header(before, "ETag") == header(after, "ETag"), path


def test_e14_an_account_has_a_tag_that_a_patch_honours(profile: str, client: Client) -> None:
    uri = client.get("/redfish/v1/AccountService/Accounts")["Members"][0]["@odata.id"]
    etag = header(client.request("GET", uri), "ETag")
    assert etag
    assert write(client, uri, b'{"Enabled":true}', '"other"') == 412
    assert write(client, uri, b'{"Enabled":true}', etag) < 300
