"""machine-a-tron's control interface on the Redfish port: paths, methods, statuses, texts, and who may change what."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from copy import copy
from typing import Any
from urllib.parse import quote

import msgspec
import orjson
import pytest
from starlette.responses import HTMLResponse

from bmcsim.edges.control import status as status_module
from bmcsim.edges.control.guard import Guard
from bmcsim.edges.control.status import Compatible, epoch_of, inventory_id
from bmcsim.edges.http.context import Done
from bmcsim.edges.http.listen import open_socket, parse_listen
from bmcsim.edges.http.server import Listener, listening, redfish_listener
from bmcsim.fleet import config as fleet_config
from bmcsim.fleet.devices import mat_id
from bmcsim.machine import power
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.identity import Kind
from tests.conftest import basic
from tests.unit.edges.conftest import Answer, Connection
from tests.unit.edges.control.conftest import PASSWORD, TOKEN, MakeSite, Site

RULE = {"id": "slow", "selector": {"OdataId": "**"}, "action": {"Latency": {"mean": "5ms", "jitter": "0ms"}}}
AUTHORIZATION = f"Authorization: {basic('root', PASSWORD).decode()}"
JSON = "Content-Type: application/json"
BEARER = f"Authorization: Bearer {TOKEN}"
STATUS = "/machines/status"


class Served:
    """A site behind a Redfish listener. ids: what NICo calls machines."""

    def __init__(self, site: Site, compatible: Compatible, listener: Listener, port: int, ids: dict[str, str]) -> None:
        self.site, self.compatible, self.listener, self.port, self.ids = site, compatible, listener, port, ids
        self.opened: list[Connection] = []

    async def connect(self) -> Connection:
        """A connection to one BMC."""
        self.opened.append(Connection(*await asyncio.open_connection("127.64.0.2", self.port)))
        return self.opened[-1]

    async def ask(self, method: str, path: str, *fields: str, body: Any = None, host: str = "127.64.0.2") -> Answer:
        """The answer to one request."""
        connection = await self.connect()
        data = b"" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *fields]
        if body is not None:
            lines.append(f"Content-Length: {len(data)}")
        connection.writer.write("\r\n".join([*lines, "", ""]).encode() + data)
        answer = await connection.answer(method)
        connection.writer.close()
        return answer

    async def read(self, path: str = STATUS) -> Any:
        """The JSON of a GET that must succeed."""
        answer = await self.ask("GET", path)
        assert (answer.status, answer.fields["content-type"]) == (200, "application/json"), answer.body
        return orjson.loads(answer.body)

    def rules(self, id_: str, rule: str = "") -> str:
        """The path of the fault rules of a BMC."""
        return f"/machines/{quote(id_, safe='')}/bmc/injection/rules{rule}"


@asynccontextmanager
async def behind(site: Site, *, page: Any = None, guard: Guard | None = None) -> AsyncIterator[Served]:
    sock, _ = open_socket(parse_listen("127.0.0.0/8:0"))
    port, ids = sock.getsockname()[1], dict[str, str]()
    compatible = Compatible(site.control, port, page=page, guard=guard, machine_ids=ids)
    site.context.outside = compatible.at
    listener = redfish_listener(site.context, sock, None, listening(site.context))
    await listener.start()
    made = Served(site, compatible, listener, port, ids)
    try:
        yield made
    finally:
        for opened in made.opened:
            opened.writer.transport.abort()
        for connection in list(listener.server.server_state.connections):
            connection.transport.abort()
        for accepting in listener.server.servers:
            accepting.close()
        sock.close()
        await asyncio.sleep(0)


@pytest.fixture
async def served(site: Site) -> AsyncIterator[Served]:
    async with behind(site) as made:
        yield made


def change(site: Site, id_: str, event: power.Event = power.Event.FORCE_OFF) -> None:
    """A power command, as Redfish would give it."""
    site.context.change(site.bmc(id_), lambda bmc, moment: bmc.reset_system(event, moment), lambda _: None)


# status


async def test_the_status_has_all_devices_and_says_whose_it_is(served: Served) -> None:
    found = await served.read()
    assert list(found) == ["inventory_id", "epoch_id", "generation", "machines"]
    assert found["inventory_id"] == "mat-06:00:00:00:00:00"
    assert found["epoch_id"] == epoch_of(served.site.control.started)
    assert found["generation"] == 1
    devices = [one for top in found["machines"] for one in (top, *top["dpus"])]
    assert sorted(one["mat_id"] for one in devices) == sorted(mat_id(bmc.identity) for bmc in served.site.fleet)
    assert {one["bmc"]["redfish"]["listen_port"] for one in devices} == {served.port}


def test_times_have_nine_digits_and_inventories_the_base_of_their_macs() -> None:
    assert epoch_of(1_900_000_000.25) == "2030-03-17T17:46:40.250000000Z"
    text = 'hw_mac_address_ranges = { base = "0a:bc:00:12:34:56", host_bits = 32, range_host_bits = 8 }\n'
    config = fleet_config.parse(text + "[machines.a]\nhost_count = 1\n", "fleet.toml")
    assert inventory_id(config) == "mat-0A:BC:00:00:00:00"


async def test_what_changed_is_in_the_next_answer(served: Served) -> None:
    assert {one["power_state"] for one in (await served.read())["machines"][:9]} == {"On"}
    change(served.site, "alpha-1")
    device = (await served.read())["machines"][1]
    assert (device["power_state"], device["mat_state"]) == ("Off", "MachineDown")
    assert {one["power_state"] for one in device["dpus"]} == {"Off"}


async def test_racks_and_one_rack(served: Served) -> None:
    racks = (await served.read("/racks/status"))["racks"]
    assert [(rack["rack_id"], rack["rack_type"], rack["version"], len(rack["members"])) for rack in racks] == [
        ("r1", "wiwynn_gb200_nvl72", 1, 35),
        ("r2", "wiwynn_gb200_nvl72", 1, 35),
    ]
    assert await served.read("/racks/r2/status") == racks[1]
    assert [member["position"] for member in racks[0]["members"]] == sorted(
        member["position"] for member in racks[0]["members"]
    )
    answer = await served.ask("GET", "/racks/r3/status")
    assert (answer.status, answer.body, answer.fields["content-type"]) == (
        404, b"rack not found", "text/plain; charset=utf-8",
    )  # fmt: skip


async def test_groups_that_come_later_are_known(served: Served, site: Site) -> None:
    """Which rack type they are of, and whether their DPUs are mere NICs, is said by the configuration of now."""
    assert (await served.read())["machines"][0]["dpus"][0]["mat_state"] == "MachineUp"
    groups = [
        msgspec.structs.replace(group, dpus_in_nic_mode=group.name == "alpha", rack_type="later")
        for group in site.control.config.groups
    ]
    site.control.regroup(msgspec.structs.replace(site.control.config, groups=tuple(groups)))
    for bmc in site.fleet:
        bmc.restore(copy(bmc.state))
    assert (await served.read())["machines"][0]["dpus"][0]["mat_state"] == "BmcOnly/MachineUp"


async def test_how_far_the_registration_is(served: Served, site: Site) -> None:
    path = "/expected-inventory/status"
    assert await served.read(path) == {"registered": 0, "already_present": 0, "failed_identifiers": []}
    site.control.registration = lambda: {"registered": 3, "already_present": 1, "failed_identifiers": ["alpha-0"]}
    assert (await served.read(path))["failed_identifiers"] == ["alpha-0"]


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", STATUS, "GET,HEAD"),
        ("DELETE", "/racks/status", "GET,HEAD"),
        ("PUT", "/racks/r1/status", "GET,HEAD"),
        ("PATCH", "/expected-inventory/status", "GET,HEAD"),
        ("PUT", "/machines/alpha-0/bmc/injection/rules", "GET,HEAD,POST"),
        ("GET", "/machines/alpha-0/bmc/injection/rules/x", "DELETE"),
    ],
)
async def test_other_methods_are_refused(served: Served, method: str, path: str, allow: str) -> None:
    answer = await served.ask(method, path)
    assert (answer.status, answer.fields["allow"], answer.body) == (405, allow, b"")


# conditions, forms, pages


async def test_a_client_that_has_the_document_gets_304(served: Served) -> None:
    first = await served.ask("GET", STATUS)
    etag = first.fields["etag"]
    assert etag.startswith('"')
    for condition in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        answer = await served.ask("GET", STATUS, f"If-None-Match: {condition}")
        assert (answer.status, answer.body, answer.fields["etag"]) == (304, b"", etag), condition
        assert answer.fields["vary"] == "accept-encoding"
    assert (await served.ask("GET", STATUS, 'If-None-Match: "other"')).status == 200
    assert (await served.ask("GET", STATUS, f"If-None-Match: {etag[1:-1]}")).status == 200
    change(served.site, "alpha-0")
    changed = await served.ask("GET", STATUS, f"If-None-Match: {etag}")
    assert changed.status == 200
    assert changed.fields["etag"] != etag
    change(served.site, "alpha-0", power.Event.ON)


async def test_the_gzip_form_is_the_same_document_with_a_tag_of_its_own(served: Served) -> None:
    plain = await served.ask("GET", STATUS)
    packed = await served.ask("GET", STATUS, "Accept-Encoding: deflate, gzip;q=0.5")
    assert packed.fields["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert packed.fields["etag"] == plain.fields["etag"][:-1] + '-gzip"'
    again = await served.ask("GET", STATUS, "Accept-Encoding: gzip", f"If-None-Match: {packed.fields['etag']}")
    assert (again.status, again.fields["etag"]) == (304, packed.fields["etag"])
    assert (await served.ask("GET", STATUS, "Accept-Encoding: gzip;q=0")).body == plain.body


async def test_head_has_the_head_of_get(served: Served) -> None:
    for fields in ((), ("Accept-Encoding: gzip",)):
        get, head = await served.ask("GET", STATUS, *fields), await served.ask("HEAD", STATUS, *fields)
        assert head.status == 200
        assert head.fields == get.fields


async def test_pages(served: Served) -> None:
    everything = (await served.read())["machines"]
    found, query = list[Any](), "?limit=4"
    while query:
        page = await served.read(STATUS + query)
        assert list(page)[:3] == ["inventory_id", "epoch_id", "generation"]
        found += page["machines"]
        query = f"?limit=4&after={page['next']}" if "next" in page else ""
    assert found == everything
    first = await served.ask("GET", STATUS + "?limit=4")
    again = await served.ask("GET", STATUS + "?limit=4", f"If-None-Match: {first.fields['etag']}")
    assert (again.status, again.body) == (304, b"")
    assert len((await served.read(f"{STATUS}?after={everything[0]['mat_id']}"))["machines"]) == len(everything) - 1
    for query in (
        "?limit=0",
        "?limit=10001",
        "?limit=x",
        "?limit=-1",
        "?limit=" + "9" * 99,
        "?limit=000000001" + "9" * 5000,
        "?after=nobody",
    ):
        answer = await served.ask("GET", STATUS + query)
        assert answer.status == 400, query
        assert b"must be" in answer.body


# which path is whose


async def test_control_paths_win_over_those_of_bmcs_and_nothing_else_changes(served: Served) -> None:
    for path in (STATUS + "/", "/machines", "/machines/x/bmc/injection", "/racks//status", "/nowhere", "/"):
        answer = await served.ask("GET", path, AUTHORIZATION)
        assert (answer.status, answer.fields.get("odata-version")) == (404, "4.0"), path
    for path in ("/redfish", "/redfish/v1", "/redfish/v1/Systems", "/Injection/rules"):
        assert (await served.ask("GET", path, AUTHORIZATION)).status == 200, path
    # For nobody's address in particular, and by the absolute form.
    assert (await served.ask("GET", STATUS, host="mat.example:1266")).status == 200
    assert (await served.ask("GET", "http://mat.example" + STATUS)).status == 200


async def test_both_kinds_of_paths_share_a_connection_in_order(served: Served) -> None:
    root = f"GET /redfish/v1 HTTP/1.1\r\nHost: 127.64.0.2\r\n{AUTHORIZATION}\r\n\r\n".encode()
    status = f"GET {STATUS} HTTP/1.1\r\nHost: 127.64.0.2\r\n{AUTHORIZATION}\r\n\r\n".encode()
    post = f"POST {served.rules('alpha-0')} HTTP/1.1\r\nHost: 127.64.0.2\r\n{JSON}\r\nContent-Length: "
    body = orjson.dumps(RULE)
    connection = await served.connect()
    for _ in range(2):
        # By the second time the header block is known, and is taken without the parser.
        connection.writer.write(root)
        assert orjson.loads((await connection.answer()).body)["@odata.id"] == "/redfish/v1/"
        connection.writer.write(status)
        assert "machines" in orjson.loads((await connection.answer()).body)
    connection.writer.write(root + status + f"{post}{len(body)}\r\n\r\n".encode() + body + status + root)
    answers = [await connection.answer() for _ in range(5)]
    assert [answer.status for answer in answers] == [200] * 5
    assert [next(iter(orjson.loads(answer.body)), "") for answer in answers[:2]] == ["@odata.id", "inventory_id"]
    assert orjson.loads(answers[2].body)[0]["id"] == "slow"
    connection.writer.close()


async def test_a_page_is_served_at_the_root_where_there_is_one(site: Site) -> None:
    async with behind(site, page=HTMLResponse("<title>bmcsim</title>")) as served:
        answer = await served.ask("GET", "/")
        assert (answer.status, answer.body) == (200, b"<title>bmcsim</title>")


async def test_requests_for_control_paths_are_bounded(served: Served) -> None:
    path = served.rules("alpha-0")
    answer = await served.ask("POST", path, JSON, body=b" " * (2 * 1024 * 1024 + 1))
    assert answer.status == 413


# rules


def names(answer: Answer) -> list[str]:
    assert (answer.status, answer.fields["content-type"]) == (200, "application/json"), answer.body
    return [rule["id"] for rule in orjson.loads(answer.body)]


async def test_rules_are_set_listed_and_deleted_by_any_id_of_a_device(served: Served, site: Site) -> None:
    bmc = site.bmc("alpha-1-dpu-0")
    served.ids[bmc.id] = "fm100ds"
    for id_ in (bmc.id, mat_id(bmc.identity), "fm100ds"):
        path = served.rules(id_)
        assert names(await served.ask("GET", path)) == []
        assert names(await served.ask("POST", path, JSON, body=RULE)) == ["slow"]
        assert names(await served.ask("POST", path, JSON, body={**RULE, "id": "other / one"})) == [
            "slow", "other / one",
        ]  # fmt: skip
        assert names(await served.ask("POST", path, JSON, body={**RULE, "remaining": 3})) == ["slow", "other / one"]
        assert bmc.state.faults.rules[0].remaining == 3
        assert names(await served.ask("DELETE", path + "/slow")) == ["other / one"]
        assert names(await served.ask("DELETE", path + "/" + quote("other / one", safe=""))) == []
    assert not site.bmc("alpha-1").state.faults


@pytest.mark.parametrize("id_", ["nobody", "00000000-0000-5000-8000-000000000000", "127.64.0.2"])
async def test_a_device_that_is_not_there(served: Served, id_: str) -> None:
    for method, path, body in (("GET", "", None), ("POST", "", RULE), ("DELETE", "/slow", None)):
        answer = await served.ask(method, served.rules(id_, path), JSON, body=body)
        assert (answer.status, answer.body) == (404, b"device not found"), method


async def test_a_rule_that_is_not_there(served: Served) -> None:
    answer = await served.ask("DELETE", served.rules("alpha-0", "/slow"))
    assert (answer.status, answer.body) == (404, b"BMC injection rule not found: slow")
    assert answer.fields["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("fields", "body", "status"),
    [
        (("Content-Type: text/plain",), RULE, 415),
        ((), RULE, 415),
        ((JSON,), b"{", 400),
        ((JSON,), b"", 400),
        ((JSON,), [], 422),
        ((JSON,), {"id": "x"}, 422),
        ((JSON,), {**RULE, "action": {"Status": 42}}, 422),
    ],
)
async def test_what_is_no_rule_is_refused(served: Served, fields: Any, body: Any, status: int) -> None:
    answer = await served.ask("POST", served.rules("alpha-0"), *fields, body=body)
    assert answer.status == status, answer.body
    assert len(answer.body) > 20
    assert not served.site.bmc("alpha-0").state.faults


async def test_rules_act_and_are_durable(make_site: MakeSite) -> None:
    stored: list[tuple[str, bool]] = []

    def commit(bmc: Bmc, told: Done) -> None:
        stored.append((bmc.id, bool(bmc.state.faults)))
        bmc.committed()
        told(None)

    site = make_site(commit=commit)
    async with behind(site) as served:
        rule = {"id": "down", "selector": {"OdataId": "/redfish/v1/Systems"}, "action": {"Status": 503}}
        await served.ask("POST", served.rules("alpha-0"), JSON, body=rule)
        assert stored == [("alpha-0", True)]
        assert (await served.ask("GET", "/redfish/v1/Systems", AUTHORIZATION)).status == 503
        await served.ask("DELETE", served.rules("alpha-0", "/down"))
        assert stored == [("alpha-0", True), ("alpha-0", False)]
        assert [change.about["rule"] for change in site.control.audit.latest(5)] == ["down", "down"]


async def test_a_rule_that_cannot_be_stored_is_not_there(make_site: MakeSite) -> None:
    def commit(bmc: Bmc, told: Done) -> None:
        assert bmc.uncommitted is not None
        bmc.restore(bmc.uncommitted)
        told(OSError("disk full"))

    site = make_site(commit=commit)
    async with behind(site) as served:
        answer = await served.ask("POST", served.rules("alpha-0"), JSON, body=RULE)
        assert answer.status == 507
        assert not site.bmc("alpha-0").state.faults


async def test_devices_that_come_later_are_found(served: Served, site: Site) -> None:
    bmc = site.bmc("alpha-1")
    del site.fleet._by_id[bmc.id]
    site.fleet.version += 1
    path = served.rules(mat_id(bmc.identity))
    assert (await served.ask("GET", path)).status == 404
    site.fleet._by_id[bmc.id] = bmc
    site.fleet.version += 1
    assert names(await served.ask("GET", path)) == []


# who may change what


async def test_with_a_token_only_its_bearer_changes_rules_and_all_may_read(site: Site) -> None:
    async with behind(site, guard=Guard(TOKEN, None)) as served:
        path = served.rules("alpha-0")
        for fields in ((JSON,), (JSON, "Authorization: Bearer wrong"), (JSON, AUTHORIZATION)):
            answer = await served.ask("POST", path, *fields, body=RULE)
            assert (answer.status, answer.fields["www-authenticate"]) == (401, "Bearer"), fields
            assert (await served.ask("DELETE", path + "/slow", *fields)).status == 401
        assert not site.bmc("alpha-0").state.faults
        # By a Service's name, as in a cluster.
        host = "pod-bmc-mock.nico-mat.svc.cluster.local:1266"
        assert names(await served.ask("POST", path, JSON, BEARER, body=RULE, host=host)) == ["slow"]
        assert names(await served.ask("GET", path, host=host)) == ["slow"]
        assert (await served.ask("GET", STATUS, host=host)).status == 200
        assert names(await served.ask("DELETE", path + "/slow", BEARER, host=host)) == []


async def test_on_loopback_nobody_needs_a_token_but_web_pages_change_nothing(site: Site) -> None:
    async with behind(site, guard=Guard()) as served:
        path = served.rules("alpha-0")
        foreign = "Origin: https://evil.example"
        for answer in (
            await served.ask("POST", path, JSON, foreign, body=RULE),
            await served.ask("POST", path, JSON, body=RULE, host="rebound.example"),
            await served.ask("DELETE", path + "/slow", foreign),
        ):
            assert answer.status == 403
        assert names(await served.ask("POST", path, JSON, body=RULE)) == ["slow"]
        # Without a media type, since curl sends none with DELETE.
        assert names(await served.ask("DELETE", path + "/slow")) == []


# many at once


async def test_whoever_asks_later_never_gets_what_was_before(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while a document is made: what is asked for then is made after it, once for all who wait."""
    current = Compatible(site.control, 1266)._machines
    monkeypatch.setattr(status_module, "_TURN_SECONDS", -1.0)
    made, refreshing = list[int](), current.board.refreshing
    monkeypatch.setattr(current.board, "refreshing", lambda: made.append(1) or refreshing())
    first = asyncio.create_task(current.document())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    change(site, "alpha-0")
    later = [asyncio.create_task(current.document()) for _ in range(5)]
    documents = [await first, *[await one for one in later]]
    assert len(made) == 2
    assert {id(one) for one in documents[1:]} == {id(documents[-1])}
    shown = orjson.loads(b"".join(documents[-1].pieces))["machines"][0]
    assert shown["power_state"] == "Off"


async def test_a_failure_is_not_taken_for_a_document(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three ask; the second fails for whom the third waited."""
    current = Compatible(site.control, 1266)._machines
    refreshing, made = current.board.refreshing, list[int]()

    def second_fails() -> Iterator[None]:
        made.append(1)
        yield
        if len(made) == 2:
            change(site, "alpha-0")
            raise RuntimeError
        yield from refreshing()

    monkeypatch.setattr(current.board, "refreshing", second_fails)
    monkeypatch.setattr(status_module, "_TURN_SECONDS", -1.0)
    first, failed, last = await asyncio.gather(*[current.document() for _ in range(3)], return_exceptions=True)
    assert isinstance(failed, RuntimeError)
    powers = [
        orjson.loads(b"".join(one.pieces))["machines"][0]["power_state"]
        for one in (first, last)
        if isinstance(one, status_module.Document)
    ]
    assert powers == ["On", "Off"]


async def test_what_nobody_asks_for_any_more_is_forgotten(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_module, "_FORGET_SECONDS", 0.01)
    current = Compatible(site.control, 1266)._machines
    assert current.board.document is None
    await current.document()
    assert current.board.document is not None
    current._used -= 10
    current._forget()
    assert current.board.document is None


async def test_a_slow_reader_is_waited_for(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets all of a document however late, and meanwhile no more of it waits in the server than a buffer takes."""
    monkeypatch.setattr(status_module, "_WRITE_BYTES", 1)
    pieces = [b"x" * 65536] * 400
    document = status_module.Document(pieces, sum(map(len, pieces)), b'"t"')

    async def fixed(**_others: Any) -> Any:
        return document

    monkeypatch.setattr(served.compatible._machines, "document", fixed)
    connection = await served.connect()
    connection.reader._limit = 1024  # type: ignore[attr-defined]
    connection.writer.write(f"GET {STATUS} HTTP/1.1\r\nHost: 127.64.0.2\r\n\r\n".encode())
    head = await connection.reader.readuntil(b"\r\n\r\n")
    assert b"content-length: %d\r\n" % document.length in head
    for _ in range(50):
        await asyncio.sleep(0.002)
    (held,) = [one.transport for one in served.listener.server.server_state.connections]
    assert 0 < held.get_write_buffer_size() < 1_000_000
    async with asyncio.timeout(10):
        assert len(await connection.reader.readexactly(document.length)) == document.length
    connection.writer.close()


def test_a_fleet_that_nobody_polls_costs_nothing(site: Site) -> None:
    compatible = Compatible(site.control, 1266)
    assert compatible._machines.board._pieces == compatible._racks.board._pieces == []
    assert compatible._by_mat_id == {}


def test_kinds_of_the_site(site: Site) -> None:
    """What the tests above rely on."""
    assert {bmc.identity.kind for bmc in site.fleet} == set(Kind)
