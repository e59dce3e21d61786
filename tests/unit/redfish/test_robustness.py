"""Whatever a client sends, `handle` answers: it never raises, and the fault is never its own."""

import re
from typing import Any

import orjson
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from bmcsim.machine.bmc_reset import Service
from bmcsim.redfish.exchange import DROP, Head, Request
from bmcsim.redfish.service import handle
from tests.conftest import PASSWORD, Client, basic, make_client, tree_of
from tests.unit.redfish.conftest import (
    ACCOUNT_SERVICE,
    ACCOUNTS,
    OWN,
    PROTOCOL,
    ROLES,
    SESSION_SERVICE,
    SESSIONS,
    SYSTEM,
    login,
)

KNOWN = [*tree_of("bluefield3").nodes, *tree_of("bluefield3").actions, OWN, SESSIONS + "/1", SESSIONS + "/Members"]
ACCOUNTING = [ACCOUNT_SERVICE, ACCOUNTS, OWN, ROLES, ROLES + "/Operator"]
WRITABLE = [PROTOCOL, SESSION_SERVICE, SYSTEM, SYSTEM + "/Settings", SESSIONS, *tree_of("bluefield3").actions]
WRITABLE += ACCOUNTING

# Names and values that are looked for, so that generated bodies and queries get behind the first check.
NAMES = [
    "Boot",
    "BootOrder",
    "NTP",
    "NTPServers",
    "SessionTimeout",
    "Password",
    "UserName",
    "RoleId",
    "Enabled",
    "Locked",
    "PasswordExpiration",
    "AccountTypes",
    "AssignedPrivileges",
    "AccountLockoutDuration",
    "ResetType",
    "Id",
    "@odata.id",
]
VALUES = [
    "root",
    PASSWORD,
    "Operator",
    "Pxe",
    "On",
    "ForceOff",
    "${serial}",
    "${nope}",
    "\0000\0",
    "\0tag\0",
    "%s",
    "",
    "Boot0000",
]
TOKENS = ["$expand=", ".", "*", "~", "($levels=", "1", "6", "99", ")", "&", "=", "$top", "only", "%24", "%", "+", "a"]

METHODS = st.sampled_from(["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"]) | st.text(max_size=8)
PATHS = st.one_of(
    st.sampled_from(KNOWN),
    st.sampled_from(WRITABLE),
    st.tuples(st.sampled_from(KNOWN), st.text(max_size=8)).map("".join),
    st.text(max_size=40),
)
QUERIES = st.one_of(st.just(""), st.lists(st.sampled_from(TOKENS), max_size=90).map("".join), st.text(max_size=30))
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.sampled_from(VALUES),
    st.text(max_size=10),
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=10,
)
BODIES = st.one_of(
    st.just(b""),
    st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4).map(orjson.dumps),
    JSON.map(orjson.dumps),
    st.binary(max_size=40),
    st.tuples(st.binary(max_size=10), JSON.map(orjson.dumps)).map(b"".join),
    st.integers(0, 2000).map(lambda depth: b'{"NTP":{"NTPServers":' + b"[" * depth + b"]" * depth + b"}}"),
)
FIELD = st.binary(max_size=30)
HEADS = st.fixed_dictionaries(
    {"authorization": st.sampled_from([basic("root", PASSWORD)] * 4 + [basic("root", "0penBmc"), b""]) | FIELD},
    optional={
        "token": st.just(b"token") | FIELD,
        "if_match": st.sampled_from([b"*", b'"x"', b'W/"x", "y"']) | FIELD,
        "if_none_match": st.sampled_from([b"*", b'"x"']) | FIELD,
        "content_type": st.sampled_from([b"application/json"] * 4) | FIELD,
        "accept": st.sampled_from([b"*/*", b"application/json", b"a/b;q=0,*/*"]) | FIELD,
        "odata_version": st.just(b"4.0") | FIELD,
        "plain": st.just(False),
    },
)
LINE = re.compile(rb"[A-Za-z-]+: [\x20-\x7e]+")


def check(client: Client, request: Request) -> int:
    """Send a request and check the answer; its status."""
    response = handle(client.bmc, request)
    client.driver.execute(client.bmc, response.actions)
    if response.delivery is not None:
        assert response.delivery == DROP
        assert client.bmc.state.service is Service.RESETTING
        return response.status
    assert 200 <= response.status < 600
    assert response.status != 500
    assert response.head.endswith(b"\r\n")
    assert all(LINE.fullmatch(line) for line in response.head[:-2].split(b"\r\n")), response.head
    if b"Content-Type: application/json" in response.head and response.status != 304:
        body = orjson.loads(response.body)
        assert (response.status >= 400) == ("error" in body)
    if response.status in (204, 304):
        assert response.body == b""
    return response.status


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(METHODS, PATHS, QUERIES, HEADS, BODIES)
def test_one_request_of_any_kind(method: str, path: str, query: str, fields: dict[str, Any], body: bytes) -> None:
    client = make_client("bluefield3")
    fields = {"content_type": b"application/json", **fields}
    status = check(client, Request(method, path, client.clock.now(), Head(**fields), query, body))
    event(f"status {status}")


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(["PATCH", "POST", "DELETE"]), st.sampled_from(WRITABLE), BODIES), max_size=8))
def test_whatever_was_written_everything_can_still_be_read(requests: list[tuple[str, str, bytes]]) -> None:
    client = make_client("bluefield3")
    head = Head(token=login(client)[0], content_type=b"application/json")
    for method, path, body in requests:
        check(client, Request(method, path, client.clock.now(), head, "", body))
        client.advance(1.0 if client.bmc.plain else 100.0)
    client.advance(1000.0)
    client.bmc.set_password("root", PASSWORD, client.clock.now())
    for path in client.bmc.tree.nodes:
        assert check(client, Request("GET", path, client.clock.now(), Head(basic("root", PASSWORD)))) == 200, path
