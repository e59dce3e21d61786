"""A request without sockets has the very answer that a listener gives."""

import re
import socket
from collections.abc import Iterable, Iterator

import pytest

from bmcsim.testing import Bmc, Fleet

BASIC = "Basic cm9vdDpQYXNzd29yZC0x"
SYSTEM = "/redfish/v1/Systems/System.Embedded.1"
SESSIONS = "/redfish/v1/SessionService/Sessions"
JSON = {"Content-Type": "application/json"}
MULTIPART = (
    b'--x\r\nContent-Disposition: form-data; name="UpdateParameters"\r\nContent-Type: application/json\r\n\r\n{}\r\n'
    b'--x\r\nContent-Disposition: form-data; name="UpdateFile"; filename="a.bin"\r\n\r\n'
    + b"\x7f" * 9000
    + b"\r\n--x--\r\n"
)
CLOSE = {"id": "one", "selector": {"OdataId": "/redfish/**"}, "action": "Close"}


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Fleet, Fleet, str]]:
    """Two fleets that are alike, the second of which listens; the port."""
    with Fleet(dpus=1) as direct, Fleet(dpus=1) as live, live.serve(tls=False) as server:
        yield direct, live, server.port


@pytest.fixture(autouse=True)
def _without_faults(pair: tuple[Fleet, Fleet, int]) -> None:
    for fleet in pair[:2]:
        fleet.clear_faults()


Fields = Iterable[tuple[str, str]]


def over_a_socket(port: int, bmc: Bmc, method: str, target: str, fields: Fields, body: bytes) -> bytes:
    """The bytes of an answer; b'' for a connection that closes."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields])
    with socket.create_connection((bmc.address, port), 10) as sock:
        sock.sendall(f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode() + body)
        data = b""
        while b"\r\n\r\n" not in data:
            piece = sock.recv(65536)
            if not piece:
                return b""
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        length = re.search(rb"\r\nContent-Length: (\d+)", head)
        missing = int(length[1]) - len(rest) if length and method != "HEAD" else 0
        while missing > 0 and (piece := sock.recv(65536)):
            data += piece
            missing -= len(piece)
    return data


def without_what_differs(answer: bytes) -> bytes:
    """Without Date, and without tokens, which are random."""
    return re.sub(rb"\r\n(Date|X-Auth-Token): [^\r]*", b"", answer)


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


def both(
    pair: tuple[Fleet, Fleet, int],
    method: str,
    target: str,
    fields: dict[str, str],
    body: bytes = b"",
    bmc: str = "host-0",
    more: Fields = (),
) -> tuple[bytes, bytes]:
    direct, live, port = pair
    fields = {"Host": direct[bmc].address, **fields}
    chunks = "Transfer-Encoding" in fields
    if body and not chunks:
        fields.setdefault("Content-Length", str(len(body)))
    try:
        mine = direct.send(method, target, [*fields.items(), *more], body).encoded
    except ConnectionError:
        mine = b""
    theirs = over_a_socket(port, live[bmc], method, target, [*fields.items(), *more], chunked(body) if chunks else body)
    return without_what_differs(mine), without_what_differs(theirs)


REQUESTS = {
    "root": ("GET", "/redfish/v1/", {}, b""),
    "versions": ("GET", "/redfish", {}, b""),
    "metadata": ("GET", "/redfish/v1/$metadata", {"Accept": "application/xml"}, b""),
    "get": ("GET", SYSTEM, {"Authorization": BASIC}, b""),
    "head": ("HEAD", SYSTEM, {"Authorization": BASIC}, b""),
    "head closes": ("HEAD", SYSTEM, {"Authorization": BASIC, "Connection": "close"}, b""),
    "options": ("OPTIONS", SYSTEM, {"Authorization": BASIC}, b""),
    "slash": ("GET", SYSTEM + "/", {"Authorization": BASIC}, b""),
    "escaped": ("GET", "/redfish/v1/%53ystems", {"Authorization": BASIC}, b""),
    "close": ("GET", SYSTEM, {"Authorization": BASIC, "Connection": "close"}, b""),
    "gzip": ("GET", SYSTEM, {"Authorization": BASIC, "Accept-Encoding": "gzip, deflate"}, b""),
    "expand": ("GET", "/redfish/v1/Systems?$expand=.($levels=1)", {"Authorization": BASIC}, b""),
    "select": ("GET", SYSTEM + "?$select=PowerState", {"Authorization": BASIC}, b""),
    "bad query": ("GET", SYSTEM + "?$select=", {"Authorization": BASIC}, b""),
    "not there": ("GET", "/redfish/v1/Nowhere", {"Authorization": BASIC}, b""),
    "elsewhere": ("GET", "/", {}, b""),
    "who": ("GET", SYSTEM, {}, b""),
    "wrong password": ("GET", SYSTEM, {"Authorization": "Basic cm9vdDp4"}, b""),
    "not acceptable": ("GET", SYSTEM, {"Authorization": BASIC, "Accept": "text/html"}, b""),
    "precondition": ("GET", SYSTEM, {"Authorization": BASIC, "If-Match": '"x"'}, b""),
    "not modified": ("GET", SYSTEM, {"Authorization": BASIC, "If-None-Match": "*"}, b""),
    "patch": ("PATCH", SYSTEM, {"Authorization": BASIC, **JSON}, b'{"AssetTag":"a"}'),
    "patch in chunks": (
        "PATCH",
        SYSTEM,
        {"Authorization": BASIC, **JSON, "Transfer-Encoding": "chunked"},
        b'{"AssetTag":"b"}',
    ),
    "patch nobody": ("PATCH", SYSTEM, JSON, b'{"AssetTag":"a"}'),
    "patch what is not JSON": ("PATCH", SYSTEM, {"Authorization": BASIC, **JSON}, b"{"),
    "patch another type": ("PATCH", SYSTEM, {"Authorization": BASIC, "Content-Type": "text/plain"}, b"{}"),
    "patch the unknown": ("PATCH", SYSTEM, {"Authorization": BASIC, **JSON}, b'{"No":1}'),
    "patch too much": ("PATCH", SYSTEM, {"Authorization": BASIC, **JSON, "Content-Length": "99999999"}, b""),
    "not allowed": ("DELETE", SYSTEM, {"Authorization": BASIC}, b""),
    "empty post": ("POST", SESSIONS, {**JSON, "Content-Length": "0"}, b""),
    "login": ("POST", SESSIONS, JSON, b'{"UserName":"root","Password":"Password-1"}'),
    "failed login": ("POST", SESSIONS, JSON, b'{"UserName":"root","Password":"x"}'),
    "logout": ("DELETE", SESSIONS + "/1", {"Authorization": BASIC}, b""),
    "forwarded": ("GET", "/redfish/v1/", {"Forwarded": "host=127.64.0.3"}, b""),
    "forwarded astray": ("GET", "/redfish/v1/", {"Forwarded": "host=192.0.2.9"}, b""),
    "forwarded badly": ("GET", "/redfish/v1/", {"Forwarded": "host="}, b""),
    "a long target": ("GET", "/" + "x" * 9000, {}, b""),
    "power": (
        "POST",
        SYSTEM + "/Actions/ComputerSystem.Reset",
        {"Authorization": BASIC, **JSON},
        b'{"ResetType":"ForceOff"}',
    ),
    "after power": ("GET", SYSTEM, {"Authorization": BASIC}, b""),
}


def test_answers_are_those_of_a_listener_byte_for_byte(pair: tuple[Fleet, Fleet, int]) -> None:
    """One after the other, as some follow from those before."""
    for name, (method, target, fields, body) in REQUESTS.items():
        mine, theirs = both(pair, method, target, fields, body)
        assert mine == theirs, name
        assert mine.startswith(b"HTTP/1.1 "), name


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ([("If-Match", '"x"'), ("If-Match", '"y"')], b"412"),
        ([("Accept", "text/html"), ("Accept", "application/json")], b"200"),
        ([("Authorization", BASIC)], b"400"),
        ([("Forwarded", "host=127.64.0.3"), ("Forwarded", "host=192.0.2.9")], b"404"),
    ],
)
def test_fields_that_are_there_twice(pair: tuple[Fleet, Fleet, int], more: Fields, status: bytes) -> None:
    mine, theirs = both(pair, "GET", SYSTEM, {"Authorization": BASIC}, more=more)
    assert mine == theirs
    assert mine[9:12] == status


@pytest.mark.parametrize("chunks", [False, True])
def test_uploads(pair: tuple[Fleet, Fleet, int], chunks: bool) -> None:
    framing = {"Transfer-Encoding": "chunked"} if chunks else {}
    bmc = pair[0]["host-0-dpu-0"]
    seen = set()
    for uri, kind in bmc.machine.tree.updates.uploads.items():
        multipart = kind == "multipart"
        media = "multipart/form-data; boundary=x" if multipart else "application/octet-stream"
        for body in (MULTIPART if multipart else b"\x7f" * 200_000, b"\x00"):
            fields = {"Authorization": BASIC, "Content-Type": media, **framing}
            mine, theirs = both(pair, "POST", uri, fields, body, bmc.id)
            assert mine == theirs, (uri, kind)
            seen.add(mine[9:12])
            for fleet in pair[:2]:
                fleet.advance(3600)
    assert b"202" in seen


@pytest.mark.parametrize(
    "rule",
    [
        CLOSE,
        {**CLOSE, "action": {"Status": 503}},
        {**CLOSE, "action": {"Error": {"status": 503, "message": "ServiceTemporarilyUnavailable", "args": ["30"]}}},
        {**CLOSE, "action": {"Unauthorized": {}}},
        {**CLOSE, "action": {"Headers": {"X-More": "1", "ETag": None}}},
        {**CLOSE, "action": {"JsonMerge": {"AssetTag": "x"}}},
        {**CLOSE, "action": {"Drip": {"bytes_per_second": 1_000_000}}},
        {**CLOSE, "action": {"Truncate": {"keep": 0.5}}},
        {**CLOSE, "action": {"CloseAfter": {"bytes": 100}}},
        {**CLOSE, "action": {"Latency": {"mean": "50ms"}}},
    ],
    ids=lambda rule: str(rule["action"]),
)
def test_faults(pair: tuple[Fleet, Fleet, int], rule: dict[str, object]) -> None:
    for fleet in pair[:2]:
        fleet.fault("host-0", rule)
    mine, theirs = both(pair, "GET", SYSTEM, {"Authorization": BASIC})
    assert mine == theirs


def test_a_reset_closes_both(pair: tuple[Fleet, Fleet, int]) -> None:
    direct, live, port = pair
    for fleet in (direct, live):
        fleet.reset_bmc("host-0")
    with pytest.raises(ConnectionRefusedError):
        direct["host-0"].get("/redfish/v1/")
    with pytest.raises(ConnectionResetError):
        over_a_socket(port, live["host-0"], "GET", "/redfish/v1/", [("Host", live["host-0"].address)], b"")
    for fleet in (direct, live):
        fleet.advance(600)
    assert both(pair, "GET", "/redfish/v1/", {})[0].startswith(b"HTTP/1.1 200")


def test_a_stream_has_the_events_that_there_are(pair: tuple[Fleet, Fleet, int]) -> None:
    direct = pair[0]
    bmc = direct["host-0"]
    uri = bmc.machine.tree.event_stream
    first = bmc.get(uri, headers={"Accept": "text/event-stream"})
    assert first.status == 200
    assert first.headers["Content-Type"].startswith("text/event-stream")
    bmc.post("/redfish/v1/EventService/Actions/EventService.SubmitTestEvent", {"MessageId": "Base.1.18.Success"})
    again = bmc.get(uri, headers={"Accept": "text/event-stream", "Last-Event-ID": "0"})
    assert again.status == 200
    assert "data:" in again.text


def test_control_and_requests_share_the_thread_that_serves() -> None:
    with Fleet(dpus=0) as fleet:
        bmc = fleet["host-0"]
        with fleet.serve(tls=False) as server:
            with pytest.raises(RuntimeError, match="already"), fleet.serve():
                pass
            bmc.power("off")
            assert bmc.get(bmc.system).json()["PowerState"] == "Off"
            fields = {"Host": "127.0.0.1", **server.headers(bmc), "Authorization": BASIC}
            answer = over_a_socket(server.port, bmc, "GET", bmc.system, fields.items(), b"")
            assert b'"PowerState":"Off"' in answer
            assert server.url() == f"http://127.0.0.1:{server.port}"
            with pytest.raises(KeyError):
                fleet.set_reading(bmc, "/no/sensor", 1.0)
        fleet.assert_requested(bmc, "GET", bmc.system, 200, times=2)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port), 5)
        assert bmc.get(bmc.system).status == 200
