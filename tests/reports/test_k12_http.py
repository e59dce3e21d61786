"""Public bug reports about HTTP: quirks, and what only shows on a connection.

tests/reports/test_reports.py has what BMCs do by default.
"""

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from bmcsim.cli.process import limits
from bmcsim.edges.http.context import Limits
from bmcsim.fleet.build import Builder
from bmcsim.fleet.config import parse
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.tables import ConfigError
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.credentials import Hasher
from bmcsim.redfish.exchange import DROP, Head, Request, Response
from bmcsim.redfish.service import JSON_LIMIT, BodyPlan, admit
from bmcsim.redfish.updates import DEFAULT_LIMIT
from bmcsim.tree.profile import names
from tests.conftest import PASSWORD, Client, header, make_client, message_ids, with_facts, with_faults
from tests.unit.edges.conftest import CLOSE, FIRST, SYSTEM, Server, get, send, serving

SESSIONS = "/redfish/v1/SessionService/Sessions"
MIB = 1024 * 1024

every_profile = pytest.mark.parametrize("profile", names())


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A real listener with two BlueFields behind it."""
    async with serving(None) as made:
        yield made


# redirects and slashes


@every_profile
@pytest.mark.parametrize(("preset", "status"), [("session_redirect", 308), ("session_redirect_301", 301)])
def test_c34_quirk_a_login_without_the_slash_is_redirected(profile: str, preset: str, status: int) -> None:
    """Nobody is logged in by it; at the form with a slash it works, and reads are answered at both."""
    client = with_faults(make_client(profile), preset)
    login = {"UserName": "root", "Password": PASSWORD}
    redirect = client.request("POST", SESSIONS, login, authorization=b"")
    assert (redirect.status, header(redirect, "Location")) == (status, SESSIONS + "/")
    assert header(redirect, "X-Auth-Token") is None
    assert client.get(SESSIONS)["Members"] == []
    assert client.request("POST", SESSIONS + "/", login, authorization=b"").status == 201
    assert len(client.get(SESSIONS)["Members"]) == 1


@every_profile
def test_c35_quirk_the_root_without_its_slash_is_redirected_with_its_method(profile: str) -> None:
    """308, so that a method is kept, and an absolute path; every other URI is as before."""
    client = with_faults(make_client(profile), "root_redirect")
    redirect = client.request("GET", "/redfish/v1", authorization=b"")
    assert (redirect.status, header(redirect, "Location")) == (308, "/redfish/v1/")
    assert client.request("GET", "/redfish/v1/", authorization=b"").status == 200
    assert client.request("GET", "/redfish/v1/Chassis").status == 200


@every_profile
def test_e32_every_resource_is_the_same_with_a_slash_and_without(profile: str) -> None:
    client = make_client(profile)
    for uri in client.bmc.tree.nodes:
        assert client.request("GET", uri + "/") == client.request("GET", uri), uri
    for uri in ("/redfish/v1/$metadata", "/redfish/v1/odata"):
        assert client.request("GET", uri + "/") == client.request("GET", uri), uri
        assert client.request("GET", uri).status == 200


# bodies


async def test_e33_a_length_is_that_of_the_body_and_head_is_get_without_it(server: Server) -> None:
    """On one connection, so that a wrong length would show in the next answer; no field of another hop is there."""
    connection = await server.connect()
    uris = list(make_client("bluefield3").bmc.tree.nodes)
    for uri in uris:
        connection.writer.write(get(uri) + get(uri, method="HEAD"))
        answer, head = await connection.answer(), await connection.answer("HEAD")
        assert (answer.status, head.head) == (200, answer.head), uri
        assert orjson.loads(answer.body)["@odata.id"].rstrip("/") == uri
        assert int(answer.fields["content-length"]) == len(answer.body)
        assert not {"transfer-encoding", "connection", "keep-alive"} & answer.fields.keys()


@pytest.mark.parametrize("body", [b"", b"not json", b"[]", b'"text"', b"null"])
async def test_e33_a_body_that_is_no_object_is_400_and_the_connection_goes_on(server: Server, body: bytes) -> None:
    connection = await server.connect()
    for _ in range(2):
        connection.writer.write(send("PATCH", SYSTEM, body))
        answer = await connection.answer()
        assert answer.status == 400
        (info,) = orjson.loads(answer.body)["error"]["@Message.ExtendedInfo"]
        assert info["MessageId"].endswith(".MalformedJSON")


async def test_e36_an_answer_without_content_has_no_length_and_nothing_follows_it(server: Server) -> None:
    """204 of a PATCH and 304 of a GET, each with another answer right behind it."""
    connection = await server.connect()
    connection.writer.write(send("PATCH", "/redfish/v1/SessionService", b'{"SessionTimeout":60}'))
    written = await connection.answer()
    connection.writer.write(get(SYSTEM))
    etag = (await connection.answer()).fields["etag"]
    connection.writer.write(get(SYSTEM, f"If-None-Match: {etag}") + get("/redfish", auth=False))
    unchanged, last = await connection.answer(), await connection.answer()
    assert (written.status, unchanged.status, last.status) == (204, 304, 200)
    for answer in (written, unchanged):
        assert not {"content-length", "transfer-encoding"} & answer.fields.keys()
    assert orjson.loads(last.body) == {"v1": "/redfish/v1/"}


def admitted(client: Client, path: str, length: int | None, **fields: bytes) -> Response | BodyPlan:
    """What is decided about a POST of so many bytes, before one of them came."""
    head = Head(authorization=client.authorization, **fields)
    return admit(client.bmc, Request("POST", path, client.clock.now(), head), length)


@every_profile
def test_e34_a_body_that_is_too_large_is_413_before_it_is_read(profile: str) -> None:
    """JSON has a limit, an image that of the update service; without a length it is for who reads to count."""
    client = make_client(profile)
    action = f"{client.bmc.tree.head.roles.manager}/Actions/Manager.Reset"
    limit = client.get("/redfish/v1/UpdateService").get("MaxImageSizeBytes") or DEFAULT_LIMIT
    assert limit >= 30 * MIB
    raw = [uri for uri, kind in client.bmc.tree.updates.uploads.items() if kind == "raw"]
    cases = [(action, JSON_LIMIT, b"application/json"), *((uri, limit, b"application/octet-stream") for uri in raw)]
    for path, most, media in cases:
        assert admitted(client, path, most, content_type=media) == admitted(client, path, None, content_type=media)
        refused = admitted(client, path, most + 1, content_type=media)
        assert isinstance(refused, Response)
        assert (refused.status, message_ids(refused)) == (413, ["PayloadTooLarge"])


# connections


async def test_c36_a_client_may_close_and_is_told_that_the_bmc_does(server: Server) -> None:
    connection = await server.connect()
    connection.writer.write(get(SYSTEM))
    assert "connection" not in (await connection.answer()).fields
    connection.writer.write(get(SYSTEM, CLOSE) + get(SYSTEM))
    assert (await connection.answer()).fields["connection"] == "close"
    assert await connection.closed()


@pytest.mark.parametrize("slow", [False, True])
async def test_c36_a_connection_takes_so_many_requests(server: Server, slow: bool) -> None:
    """The last answer says that the connection closes, and it does; the next connection counts from the beginning."""
    server.context.limits = Limits(requests=3, linger_seconds=0.1)
    change = send("PATCH", "/redfish/v1/SessionService", b'{"SessionTimeout":60}', chunked=slow)
    for _ in range(2):
        connection = await server.connect()
        seen = []
        for request in (get(SYSTEM), get(SYSTEM), change):
            connection.writer.write(request)
            answer = await connection.answer()
            seen.append((answer.status, answer.fields.get("connection")))
        assert seen == [(200, None), (200, None), (204, "close")]
        assert await connection.closed()


async def test_c36_what_is_sent_beyond_the_last_request_is_not_answered(server: Server) -> None:
    server.context.limits = Limits(requests=2, linger_seconds=0.1)
    answers = await server.exchange(get(SYSTEM) * 4)
    assert [answer.fields.get("connection") for answer in answers] == [None, "close"]


async def test_c36_an_idle_connection_closes_after_the_time_that_was_chosen(server: Server) -> None:
    """Counted from the last request, without a word."""
    server.context.limits = Limits(idle_seconds=5)
    connection = await server.connect()
    for seconds in (0, 4):
        server.clock.advance(seconds)
        connection.writer.write(get(SYSTEM))
        await connection.answer()
        (served,) = server.listener.server.server_state.connections
        served.sweep(server.clock.now().mono + 4)
    assert not connection.reader.at_eof()
    connection.writer.write(get(SYSTEM))
    await connection.answer()
    served.sweep(server.clock.now().mono + 6)
    assert await connection.closed()
    assert [answer.status for answer in await server.exchange(get(SYSTEM, CLOSE), FIRST)] == [200]


def test_c36_a_fleet_file_chooses_both() -> None:
    machines = "\n[machines.a]\nhost_count = 1"
    chosen = limits(parse(f'[bmcsim]\nidle_close = "5s"\nconnection_requests = 100{machines}', "fleet.toml"))
    assert (chosen.idle_seconds, chosen.requests) == (5, 100)
    assert limits(parse(machines, "fleet.toml")) == Limits()


def assert_refused(line: str, right: str) -> None:
    """A line of the table [bmcsim] is an error that says what would be right."""
    with pytest.raises(ConfigError) as caught:
        parse(f"[bmcsim]\n{line}\n[machines.a]\nhost_count = 1", "fleet.toml")
    assert f"fleet.toml: {right}" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ('idle_close = "0s"', "bmcsim.idle_close: must be a duration of at least 1s"),
        ("idle_close = 5", "bmcsim.idle_close: must be a duration such as '5s'"),
        ("connection_requests = 0", "bmcsim.connection_requests: must be a whole number from 1"),
    ],
)
def test_c36_a_wrong_choice_is_named_with_what_would_be_right(line: str, right: str) -> None:
    assert_refused(line, right)


def test_c36_quirk_one_request_in_ten_finds_its_connection_closed() -> None:
    client = with_faults(make_client("bluefield3"), "drops_connections")
    dropped = sum(client.request("GET", SYSTEM).delivery == DROP for _ in range(500))
    assert 25 < dropped < 100


# action bodies


NONE: tuple[Any, bytes] = (b"", b"")
TYPED: tuple[Any, bytes] = (b"", b"application/json")
EMPTY: tuple[Any, bytes] = ({}, b"application/json")
XML: tuple[Any, bytes] = (b"<reset/>", b"application/xml")
GIVEN: tuple[Any, bytes] = ({"ResetType": "GracefulRestart"}, b"application/json")


@every_profile
@pytest.mark.parametrize(
    ("strictness", "statuses"),
    [
        ("optional", {"none": 204, "typed": 204, "empty": 204, "xml": 415, "given": 204}),
        ("required", {"none": 400, "typed": 400, "empty": 204, "xml": 415, "given": 204}),
        ("typed", {"none": 415, "typed": 204, "empty": 204, "xml": 415, "given": 204}),
        ("forbidden", {"none": 204, "typed": 204, "empty": 400, "xml": 415, "given": 204}),
    ],
)
def test_c38_how_strict_a_vendor_is_about_the_body_of_an_action(
    profile: str, strictness: str, statuses: dict[str, int]
) -> None:
    """What is refused is not done, and has a message; by default both no body and an empty object are fine."""
    for name, (body, media) in {"none": NONE, "typed": TYPED, "empty": EMPTY, "xml": XML, "given": GIVEN}.items():
        client = make_client(profile)
        if strictness != "optional":
            with_facts(client, action_body=strictness)
        target = f"{client.bmc.tree.head.roles.manager}/Actions/Manager.Reset"
        response = client.request("POST", target, body, content_type=media)
        assert response.status == statuses[name], name
        assert (client.bmc.state.service is Service.RESETTING) == (response.status == 204)
        assert response.status == 204 or message_ids(response)


def test_c38_reset_bios_is_such_an_action() -> None:
    target = "/redfish/v1/Systems/System.Embedded.1/Bios/Actions/Bios.ResetBios"
    for strictness, sent in (("optional", NONE), ("optional", EMPTY), ("required", EMPTY), ("forbidden", NONE)):
        client = with_facts(make_client("dell_poweredge_r750"), action_body=strictness)
        body, media = sent
        assert 200 <= client.request("POST", target, body, content_type=media).status < 300


# how a fleet file says it


def test_c38_n21_facts_are_chosen_for_a_fleet_a_group_and_one_bmc() -> None:
    """The narrower table wins, fact by fact; what is advertised stays true unless it is chosen itself."""
    text = """
        host_bmc_password = "P"
        [bmcsim.behaviour]
        action_body = "typed"
        session_limit = 3
        query = { levels = 2, expand = ["."] }
        [machines.a]
        host_count = 2
        [machines.a.behaviour]
        action_body = "required"
        [bmcs."a-1"]
        behaviour = { query = { levels = 1 }, advertise = { FilterQuery = true } }
    """
    fleet = Fleet()
    for _ in Builder(parse(text, "fleet.toml"), Hasher(), 0.0).populate(fleet):
        pass
    first, second = (bmc.shared.behaviour for bmc in fleet)
    assert (first.action_body, first.session_limit, first.query.levels) == ("required", 3, 2)
    assert first.advertise == first.features()
    assert first.features()["ExpandQuery"] == {
        "ExpandAll": False, "Levels": True, "Links": False, "MaxLevels": 2, "NoLinks": True
    }  # fmt: skip
    assert (second.action_body, second.query.levels, second.query.expand) == ("required", 1, {"."})
    assert second.advertise == {"FilterQuery": True}
    assert second.lockdown is not None


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("behaviour = 1", "bmcsim.behaviour: must be a table such as"),
        ("behaviour = { action = 1 }", "bmcsim.behaviour: action is not one of factory_password_everywhere, "),
        ('behaviour = { while_resetting = "503" }', "bmcsim.behaviour: while_resetting is not one of "),
        ("behaviour = { lockdown = {} }", "bmcsim.behaviour: lockdown is not one of "),
        ('behaviour = { action_body = "none" }', "bmcsim.behaviour: Invalid enum value 'none' - at `$.action_body`"),
        ("behaviour = { clock_drift = nan }", "bmcsim.behaviour: clock_drift must be a number from "),
        ("behaviour = { query = { depth = 1 } }", "bmcsim.behaviour: Object contains unknown field `depth`"),
    ],
)
def test_c38_a_wrong_fact_is_named_with_what_would_be_right(line: str, right: str) -> None:
    assert_refused(line, right)
