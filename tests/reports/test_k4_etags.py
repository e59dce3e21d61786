"""Reports of kind K4: entity tags and conditional requests."""

import gzip

import orjson
import pytest

from tests.conftest import Client, header, make_client, message_ids, profiles_where, tree_of, with_facts, with_faults
from tests.unit.redfish.conftest import as_edge

PROFILES = profiles_where(lambda tree: any(action.name == "ComputerSystem.Reset" for action in tree.actions.values()))
SYSTEM = {name: tree_of(name).head.roles.system for name in PROFILES}
CHANGE = b'{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"}}'


@pytest.fixture(params=PROFILES)
def profile(request: pytest.FixtureRequest) -> str:
    """Each profile in turn."""
    return str(request.param)


@pytest.fixture
def client(profile: str) -> Client:
    """A BMC of the profile."""
    return make_client(profile)


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


def test_c13_quirk_the_tag_of_a_compressed_answer_is_weak_and_good_for_nothing(profile: str, client: Client) -> None:
    """The identity form keeps its strong tag, which If-Match takes; the weak one of the gzip form is 412."""
    with_faults(client, "weak_etag")
    path, fields = SYSTEM[profile], {"authorization": client.authorization, "accept_encoding": b"gzip"}
    answer = as_edge(client, "GET", path, **fields)
    weak, strong = header(answer, "ETag") or "", header(client.request("GET", path), "ETag") or ""
    assert header(answer, "Content-Encoding") == "gzip"
    assert weak == f"W/{strong}"
    assert orjson.loads(gzip.decompress(answer.body))["@odata.etag"] == strong
    assert as_edge(client, "GET", path, if_none_match=weak.encode(), **fields).status == 304
    assert write(client, path, CHANGE, weak) == 412
    assert write(client, path, CHANGE, strong) < 300


def test_c15_quirk_a_client_that_sends_an_empty_tag_back_is_refused(profile: str, client: Client) -> None:
    with_faults(client, "empty_etag")
    path = SYSTEM[profile]
    etag = header(client.request("GET", path), "ETag")
    assert etag == '""'
    assert write(client, path, CHANGE, etag) == 412
    assert write(client, path, CHANGE, None) < 300


def test_c15_no_tag_is_ever_empty(client: Client) -> None:
    for path in client.bmc.tree.nodes:
        etag = header(client.request("GET", path), "ETag") or ""
        assert len(etag) > 2, path


def test_c16_the_tag_in_the_body_is_that_of_the_header(client: Client) -> None:
    for path in client.bmc.tree.nodes:
        response = client.request("GET", path)
        assert orjson.loads(response.body)["@odata.etag"] == header(response, "ETag"), path


@pytest.mark.parametrize("lenient", [False, True])
def test_c16_a_tag_without_its_quotes_is_taken_by_a_lenient_bmc_alone(
    profile: str, client: Client, lenient: bool
) -> None:
    """With quotes it is always taken (RFC 9110 8.8.3); a wrong one never is, with and without."""
    with_facts(client, unquoted_if_match=lenient)
    path, changes = SYSTEM[profile], (CHANGE, CHANGE.replace(b"Once", b"Disabled"))
    for quoted, change in zip((True, False), changes, strict=True):
        etag = header(client.request("GET", path), "ETag") or ""
        sent = etag if quoted else etag.strip('"')
        assert write(client, path, change, sent.replace(sent[3], "~")) == 412
        assert write(client, path, change, sent) == (204 if quoted or lenient else 412)


def test_c18_quirk_an_action_with_if_match_is_refused_and_works_without(profile: str, client: Client) -> None:
    with_faults(client, "if_match_refused")
    target, wanted = f"{SYSTEM[profile]}/Actions/ComputerSystem.Reset", {"ResetType": "ForceRestart"}
    etag = (header(client.request("GET", SYSTEM[profile]), "ETag") or "").encode()
    for sent in (etag, b"*"):
        refused = client.request("POST", target, wanted, if_match=sent)
        assert (refused.status, message_ids(refused)) == (412, ["PreconditionFailed"])
    assert client.request("POST", target, wanted).status == 204


def test_c18_if_match_of_an_action_is_about_its_resource(profile: str, client: Client) -> None:
    target, wanted = f"{SYSTEM[profile]}/Actions/ComputerSystem.Reset", {"ResetType": "ForceRestart"}
    before = client.bmc.state
    refused = client.request("POST", target, wanted, if_match=b'"x"')
    assert (refused.status, message_ids(refused), client.bmc.state) == (412, ["PreconditionFailed"], before)
    for sent in ((header(client.request("GET", SYSTEM[profile]), "ETag") or "").encode(), b"*"):
        assert client.request("POST", target, wanted, if_match=sent).status == 204


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
