"""Who may change something."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.edges.control import api
from bmcsim.edges.control.endpoint import OPENAPI, Endpoint, document
from bmcsim.edges.control.guard import Guard, Refused, TokenError, new_token, read_token
from tests.unit.edges.control.conftest import TOKEN, MakeSite, Site


def examples(site: Site) -> list[tuple[str, str, dict[str, str]]]:
    """Method, path and the field for the body's type of each operation that is guarded, as the document has them."""
    described = document(api.endpoints(site.control), site.guard, "1")
    found = []
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            if operation.get("security"):
                media = list(operation.get("requestBody", {}).get("content", {}))
                typed = {"content_type": media[0]} if media else {}
                found.append((method.upper(), path.replace("{id}", "1"), typed))
    return found


async def ask(site: Site, method: str, path: str, body: bytes = b"{}", **headers: str) -> httpx.Response:
    """The answer to a request with these header fields and no others that matter."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return await site.client.request(method, path, content=body, headers=fields)


JSON = {"content_type": "application/json"}
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def guarded(make_site: MakeSite) -> Site:
    """A fleet whose changes need a token."""
    return make_site(guard=Guard(TOKEN, ["sim.example"]))


async def test_every_change_needs_the_token(guarded: Site) -> None:
    found = examples(guarded)
    assert {path for _, path, _ in found} >= {"/api/v1/operations", "/api/v1/clock", "/api/v1/jobs/1"}
    assert len([one for one in api.endpoints(guarded.control) if one.changes]) == len(found)
    wrong = ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}, {"authorization": TOKEN})
    for method, path, typed in found:
        for headers in wrong:
            answer = await ask(guarded, method, path, **typed, **headers)
            assert (method, path, answer.status_code) == (method, path, 401)
            assert answer.headers["www-authenticate"] == "Bearer"
        status = (await ask(guarded, method, path, **typed, **BEARER)).status_code
        assert (method, path, status in REFUSALS) == (method, path, False)


REFUSALS = (401, 403, 415)


async def test_no_web_page_makes_a_change(guarded: Site) -> None:
    for method, path, typed in examples(guarded):
        untyped: list[dict[str, str]] = [{"content_type": "text/plain"}, {"content_type": "multipart/form-data"}, {}]
        foreign = [{"origin": "http://evil.example"}, {"origin": "null"}, {"host": "evil.example:9090"}]
        cases = [({**typed, **headers}, 403) for headers in foreign]
        # A GET is no form that could change something.
        cases += [(headers, 415) for headers in untyped] if typed else []
        for headers, expected in cases:
            answer = await ask(guarded, method, path, **BEARER, **headers)
            assert (method, path, headers, answer.status_code) == (method, path, headers, expected)
        own = {"origin": "http://sim.example:9090", "host": "sim.example:9090"}
        status = (await ask(guarded, method, path, **typed, **BEARER, **own)).status_code
        assert (method, path, status in REFUSALS) == (method, path, False)


async def test_what_is_read_needs_no_token_but_a_known_host(guarded: Site) -> None:
    for path in ("/api/v1/fleet", OPENAPI, "/api/v1/bmcs/alpha-0"):
        assert (await ask(guarded, "GET", path, b"")).status_code == 200
        assert (await ask(guarded, "GET", path, b"", host="evil.example")).status_code == 403
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (await ask(guarded, "GET", path, b"", host="anything.example")).status_code == 200


async def test_on_loopback_no_token_is_needed(site: Site) -> None:
    described = document(api.endpoints(site.control), site.guard, "1")
    assert "security" not in str(described["paths"])
    assert (await ask(site, "POST", "/api/v1/clock", b'{"step": 1}', **JSON)).status_code == 200


@pytest.mark.parametrize(
    "host", ["127.0.0.1:9090", "[::1]:9090", "localhost", "LOCALHOST:1", "10.0.0.1", "sim.example:80"]
)
def test_a_host_is_an_address_localhost_or_a_name_that_was_said(host: str) -> None:
    Guard(None, ["Sim.Example"]).check({"host": host}, changes=False)


@pytest.mark.parametrize("host", ["", "sim.example.evil.com", "localhost.evil.com", "10.0.0.1.nip.io", "[evil"])
def test_other_hosts_are_refused(host: str) -> None:
    with pytest.raises(Refused, match="not known"):
        Guard(None, ["sim.example"]).check({"host": host} if host else {}, changes=False)


@given(st.dictionaries(st.sampled_from(["host", "origin", "content-type", "authorization"]), st.text(max_size=30)))
def test_any_header_fields_are_let_in_or_refused(fields: dict[str, str]) -> None:
    try:
        Guard(TOKEN).check(fields, changes=True)
    except Refused as refused:
        assert refused.status in (401, 403, 415)


def test_a_token_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"  {TOKEN}\n")
    assert read_token(file) == TOKEN
    assert len(new_token()) >= 32 and new_token() != new_token()


@pytest.mark.parametrize("data", [b"", b"short", b"x" * 600, b"has white space in it ok", "ü".encode() * 20])
def test_what_is_no_token_is_named(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(data)
    with pytest.raises(TokenError, match="token: "):
        read_token(file)
    with pytest.raises(TokenError, match="nowhere: cannot be read"):
        read_token(tmp_path / "nowhere")


def test_a_token_that_everybody_may_write_is_none(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o666)
    with pytest.raises(TokenError, match="chmod 600"):
        read_token(file)


async def test_paths_and_methods_that_are_not_there_are_refused_as_all_else(site: Site) -> None:
    for method, path, status in (
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v1/bmcs/a%2Fb", 404),
        ("DELETE", "/api/v1/clock", 405),
        ("PUT", "/api/v1/operations", 405),
    ):
        answer = await ask(site, method, path, b"", **JSON)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
        problem: dict[str, Any] = answer.json()
        assert (problem["status"], set(problem)) == (status, {"title", "status", "detail"})
    allowed = (await ask(site, "PUT", "/api/v1/clock", b"", **JSON)).headers["allow"]
    assert set(allowed.split(", ")) == {"GET", "HEAD", "POST"}


def test_each_endpoint_is_described_once(site: Site) -> None:
    endpoints: list[Endpoint] = api.endpoints(site.control)
    assert len({(one.method, one.path) for one in endpoints}) == len(endpoints)
    described = document(endpoints, site.guard, "1")
    ids = [operation["operationId"] for methods in described["paths"].values() for operation in methods.values()]
    assert len(set(ids)) == len(ids) == len(endpoints)
