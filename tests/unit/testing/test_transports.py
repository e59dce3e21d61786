"""requests, httpx and aiohttp against a fleet without sockets: what works, and which of their exceptions come."""

import asyncio
import io
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import httpx
import pytest
import requests

from bmcsim.testing import Bmc, Fleet

ROOT = "/redfish/v1/"
SYSTEM = "/redfish/v1/Systems/System.Embedded.1"
EVERYTHING = {"OdataId": "/redfish/**"}
IMAGE = b"\x7f" * 200_000


def rule(action: Any) -> dict[str, Any]:
    return {"id": "one", "selector": EVERYTHING, "action": action}


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """A host and its DPU, and no sockets at all."""

    def refuse(*_: Any) -> None:
        raise OSError("a socket is opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with Fleet(dpus=1, timeouts=True) as fleet:
        yield fleet


@pytest.fixture
def host(fleet: Fleet) -> Bmc:
    return fleet["host-0"]


def upload_uri(bmc: Bmc, kind: str) -> str:
    return next(uri for uri, one in bmc.machine.tree.updates.uploads.items() if one == kind)


# requests


@pytest.fixture
def session(fleet: Fleet) -> Iterator[requests.Session]:
    with fleet.session() as session:
        session.auth = fleet["host-0"].auth
        yield session


def test_requests_reads_and_writes(fleet: Fleet, host: Bmc, session: requests.Session) -> None:
    answer = session.get(host.url + SYSTEM)
    assert (answer.status_code, answer.reason, answer.json()["Id"]) == (200, "OK", "System.Embedded.1")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert session.patch("https://host-0" + SYSTEM, json={"AssetTag": "a"}).ok
    assert host.get(SYSTEM).json()["AssetTag"] == "a"
    head = session.head(host.url + SYSTEM)
    assert (head.status_code, head.content) == (200, b"")
    assert session.get("https://HOST-0-DPU-0/redfish/v1/").json()["@odata.id"]
    assert session.get(host.url + SYSTEM, params={"$select": "AssetTag"}).json()["AssetTag"] == "a"
    forwarded = {"Forwarded": f"host={fleet['host-0-dpu-0'].address}"}
    assert session.get("https://proxy.example/redfish/v1/", headers=forwarded).status_code == 200
    fleet.assert_requested("host-0-dpu-0", "GET", ROOT, times=2)
    nobody = session.get("https://nobody.example/redfish/v1/")
    assert (nobody.status_code, "nobody.example" in nobody.text) == (404, True)


def test_requests_uploads_files_iterators_and_forms(fleet: Fleet, session: requests.Session) -> None:
    dpu = fleet["host-0-dpu-0"]
    raw, form = upload_uri(dpu, "raw"), upload_uri(dpu, "multipart")
    kind = {"Content-Type": "application/octet-stream"}
    for body in (IMAGE, io.BytesIO(IMAGE), iter([IMAGE, IMAGE])):
        answer = session.post(dpu.url + raw, data=body, headers=kind, auth=dpu.auth)
        assert answer.status_code == 202, answer.text
        fleet.advance(3600)
    files = {"UpdateParameters": (None, "{}", "application/json"), "UpdateFile": ("a.bin", IMAGE)}
    assert session.post(dpu.url + form, files=files, auth=dpu.auth).status_code == 202


def test_requests_meets_its_own_exceptions(fleet: Fleet, host: Bmc, session: requests.Session) -> None:
    host.fault(rule("Close"))
    with pytest.raises(requests.ConnectionError, match="closed the connection"):
        session.get(host.url + ROOT)
    host.fault(rule({"CloseAfter": {"bytes": 10}}))
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        session.get(host.url + ROOT)
    host.fault(rule({"Latency": {"mean": "30s"}}))
    for timeout in (5, (1, 5)):
        with pytest.raises(requests.ReadTimeout, match="30 s"):
            session.get(host.url + ROOT, timeout=timeout)
    assert session.get(host.url + ROOT, timeout=60).ok
    assert session.get(host.url + ROOT).ok
    assert fleet.requests[-1].delay == 30
    host.clear_faults()
    host.reset_bmc()
    with pytest.raises(requests.ConnectionError, match="refused"):
        session.get(host.url + ROOT)


def test_requests_of_any_session_can_be_caught(fleet: Fleet, host: Bmc) -> None:
    with fleet.patch_requests():
        assert requests.get(host.url + ROOT, timeout=5).ok
        assert requests.get("https://host-0" + SYSTEM, auth=host.auth, timeout=5).ok
        with pytest.raises(requests.ConnectionError, match="a socket is opened"):
            requests.get("http://127.0.0.1:9/", timeout=5)
    with pytest.raises(requests.ConnectionError, match="a socket is opened"):
        requests.get("http://127.64.0.2:9" + ROOT, timeout=5)


def test_delays_pass_at_once_unless_timeouts_count(host: Bmc) -> None:
    with Fleet(dpus=0) as fleet, fleet.session() as session:
        fleet.fault(None, rule({"Latency": {"mean": "30s"}}))
        assert session.get("https://host-0" + ROOT, timeout=1).ok
        assert fleet["host-0"].get(ROOT).delay == 30


# httpx


@pytest.fixture
def client(fleet: Fleet) -> Iterator[httpx.Client]:
    with httpx.Client(transport=fleet.httpx_transport(), auth=fleet["host-0"].auth) as client:
        yield client


def test_httpx_reads_and_writes(fleet: Fleet, host: Bmc, client: httpx.Client) -> None:
    answer = client.get(host.url + SYSTEM + "?$select=Id")
    assert (answer.status_code, answer.reason_phrase, answer.json()["Id"]) == (200, "OK", "System.Embedded.1")
    assert client.get(host.url + SYSTEM).headers["content-encoding"] == "gzip"
    assert client.patch("https://host-0" + SYSTEM, json={"AssetTag": "a"}).is_success
    assert host.get(SYSTEM).json()["AssetTag"] == "a"
    assert client.head(host.url + SYSTEM).content == b""
    assert client.delete(host.url + SYSTEM).status_code == 405
    dpu = fleet["host-0-dpu-0"]
    kind = {"Content-Type": "application/octet-stream"}
    answer = client.post(dpu.url + upload_uri(dpu, "raw"), content=iter([IMAGE]), headers=kind, auth=dpu.auth)
    assert answer.status_code == 202, answer.text


def test_httpx_meets_its_own_exceptions(host: Bmc, client: httpx.Client) -> None:
    host.fault(rule("Close"))
    with pytest.raises(httpx.RemoteProtocolError):
        client.get(host.url + ROOT)
    host.fault(rule({"CloseAfter": {"bytes": 10}}))
    with pytest.raises(httpx.RemoteProtocolError):
        client.get(host.url + ROOT)
    host.fault(rule({"Latency": {"mean": "30s"}}))
    with pytest.raises(httpx.ReadTimeout):
        client.get(host.url + ROOT, timeout=5)
    assert client.get(host.url + ROOT, timeout=None).is_success
    host.clear_faults()
    host.reset_bmc()
    with pytest.raises(httpx.ConnectError):
        client.get(host.url + ROOT)


async def test_httpx_asynchronously(fleet: Fleet, host: Bmc) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield IMAGE
        yield IMAGE

    dpu = fleet["host-0-dpu-0"]
    async with httpx.AsyncClient(transport=fleet.httpx_async_transport(), auth=host.auth) as client:
        answers = await asyncio.gather(*[client.get(host.url + SYSTEM) for _ in range(10)])
        assert {answer.json()["Id"] for answer in answers} == {"System.Embedded.1"}
        kind = {"Content-Type": "application/octet-stream"}
        answer = await client.post(dpu.url + upload_uri(dpu, "raw"), content=pieces(), headers=kind, auth=dpu.auth)
        assert answer.status_code == 202, answer.text
        host.fault(rule({"CloseAfter": {"bytes": 10}}))
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(host.url + ROOT)


# aiohttp


@pytest.fixture
async def http(fleet: Fleet, host: Bmc) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": aiohttp.encode_basic_auth(*host.auth)}
    async with aiohttp.ClientSession(connector=fleet.aiohttp_connector(), headers=headers) as http:
        yield http


async def test_aiohttp_reads_and_writes(fleet: Fleet, host: Bmc, http: aiohttp.ClientSession) -> None:
    async with http.get(host.url + SYSTEM, params={"$select": "Id"}) as answer:
        assert (answer.status, answer.reason, (await answer.json())["Id"]) == (200, "OK", "System.Embedded.1")
    async with http.get(host.url + SYSTEM) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert (await answer.json())["Id"] == "System.Embedded.1"
    async with http.patch("https://host-0" + SYSTEM, json={"AssetTag": "a"}) as answer:
        assert answer.ok
    assert host.get(SYSTEM).json()["AssetTag"] == "a"
    async with http.head(host.url + SYSTEM) as answer:
        assert (answer.status, await answer.read()) == (200, b"")
    async with http.get(host.url + "/redfish/v1/$metadata", headers={"Accept-Encoding": "identity"}) as answer:
        assert len(await answer.read()) == answer.content_length

    async def read() -> int:
        async with http.get(host.url + SYSTEM) as answer:
            return answer.status

    assert set(await asyncio.gather(*[read() for _ in range(150)])) == {200}


async def test_aiohttp_uploads(fleet: Fleet, http: aiohttp.ClientSession) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            await asyncio.sleep(0)
            yield IMAGE

    dpu = fleet["host-0-dpu-0"]
    kind = {"Content-Type": "application/octet-stream"}
    for body in (IMAGE, pieces()):
        async with http.post(dpu.url + upload_uri(dpu, "raw"), data=body, headers=kind) as answer:
            assert answer.status == 202, await answer.text()
        fleet.advance(3600)


async def test_aiohttp_meets_its_own_exceptions(host: Bmc, http: aiohttp.ClientSession) -> None:
    host.fault(rule("Close"))
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await http.get(host.url + ROOT)
    host.fault(rule({"CloseAfter": {"bytes": 10}}))
    with pytest.raises(aiohttp.ClientPayloadError):
        await (await http.get(host.url + ROOT)).read()
    host.fault(rule({"Latency": {"mean": "30s"}}))
    for timeout in (aiohttp.ClientTimeout(sock_read=5), aiohttp.ClientTimeout(total=5)):
        with pytest.raises(TimeoutError):
            await http.get(host.url + ROOT, timeout=timeout)
    async with http.get(host.url + ROOT, timeout=aiohttp.ClientTimeout(total=60)) as answer:
        assert answer.ok
    host.clear_faults()
    host.reset_bmc()
    with pytest.raises(aiohttp.ClientConnectionError):
        await http.get(host.url + ROOT)


async def test_aiohttp_reads_a_stream_to_its_end(host: Bmc, http: aiohttp.ClientSession) -> None:
    host.post("/redfish/v1/EventService/Actions/EventService.SubmitTestEvent", {"MessageId": "Base.1.18.Success"})
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "0"}
    async with http.get(host.url + host.machine.tree.event_stream, headers=headers) as answer:
        assert answer.content_type == "text/event-stream"
        await answer.read()
