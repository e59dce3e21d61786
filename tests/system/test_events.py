"""Events of a real process over TLS: the assertions of DMTF's protocol validator, and real clients."""

import http.server
import json
import queue
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redfish
import redfish_utilities
import requests
import sushy
from sushy import auth as sushy_auth
from sushy.resources.eventservice import eventservice as sushy_events

from tests.serving import Process, serving

pytestmark = [
    pytest.mark.system,
    pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

HOST, DPU = "127.64.0.2", "127.64.0.3"
SERVICE = "/redfish/v1/EventService"
SUBSCRIPTIONS = f"{SERVICE}/Subscriptions"
SESSIONS = "/redfish/v1/SessionService/Sessions"
MADE_UP = {"Destination": "https://192.168.1.50/Destination1", "Protocol": "Redfish"}
WAIT = 20


class Service:
    """One BMC of the process, and a client that logs in with Basic unless it is told otherwise."""

    def __init__(self, process: Process, address: str) -> None:
        self.process, self.address, self.url = process, address, process.url(address)
        self._session = requests.Session()
        self._session.verify, self._session.trust_env = False, False

    def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> requests.Response:
        options.setdefault("auth", ("root", "P"))
        return self._session.request(method, self.url + path, json=body, timeout=WAIT, **options)

    def close(self) -> None:
        self._session.close()

    @property
    def stream_uri(self) -> str:
        return str(self("GET", SERVICE).json()["ServerSentEventUri"])

    def tell(self, text: str = "hello") -> None:
        body = {"MessageId": "ResourceEvent.1.4.TestMessage", "Message": text}
        assert self("POST", f"{SERVICE}/Actions/EventService.SubmitTestEvent", body).status_code == 204

    def destinations(self) -> set[str]:
        return {one["@odata.id"] for one in self("GET", SUBSCRIPTIONS).json()["Members"]}


class Stream:
    """An open stream; next_event gives (id, JSON) of the next event."""

    def __init__(self, response: requests.Response) -> None:
        self.response, self.lines = response, response.iter_lines(chunk_size=1)
        self.raw: list[bytes] = []

    def next_event(self) -> tuple[str, Any]:
        found: dict[str, str] = {}
        for line in self.lines:
            self.raw.append(line)
            name, _, value = line.decode().partition(": ")
            if not line and found:
                return found["id"], json.loads(found["data"])
            if name:
                found[name] = value
        raise EOFError


@contextmanager
def opened(service: Service, **options: Any) -> Iterator[Stream]:
    """A stream, closed with the block."""
    headers = {"Accept": "text/event-stream", **options.pop("headers", {})}
    with requests.Session() as session:
        session.verify, session.trust_env = False, False
        options.setdefault("auth", ("root", "P"))
        url = service.url + service.stream_uri
        with session.get(url, headers=headers, stream=True, timeout=WAIT, **options) as response:
            yield Stream(response)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    output = tmp_path_factory.mktemp("events") / "serve.log"
    arguments = ("--hosts", "1", "--dpus", "1", "--host-password", "P", "--dpu-password", "P", "--time-scale", "60")
    with serving(output, *arguments) as running:
        yield running
        assert "Traceback" not in running.output


@pytest.fixture(params=[HOST, DPU], ids=["dell_poweredge_r750", "bluefield3"])
def service(process: Process, request: pytest.FixtureRequest) -> Iterator[Service]:
    made = Service(process, request.param)
    yield made
    for uri in made.destinations():
        made("DELETE", uri)


# the assertions


def test_serv_event_post_resp(service: Service) -> None:
    response = service("POST", SUBSCRIPTIONS, MADE_UP)
    assert response.status_code == 201
    where = response.headers["Location"]
    assert service("GET", where).json()["Destination"] == MADE_UP["Destination"]


def test_serv_event_error_on_bad_request(service: Service) -> None:
    response = service("POST", SUBSCRIPTIONS, {**MADE_UP, "Protocol": "FTP"})
    assert response.status_code == 400
    assert response.json()["error"]["@Message.ExtendedInfo"]


def test_serv_sse_successful_response(service: Service) -> None:
    with opened(service) as stream:
        assert stream.response.status_code == 200
        assert stream.response.headers["Content-Type"].startswith("text/event-stream")


def test_serv_sse_unsuccessful_response(service: Service) -> None:
    with opened(service, headers={"Accept": "application/json"}) as stream:
        assert stream.response.status_code >= 400
        assert stream.response.headers["Content-Type"].startswith("application/json")
        assert "error" in stream.response.json()


def test_serv_sse_blank_lines_between_events(service: Service) -> None:
    with opened(service) as stream:
        service.tell()
        service.tell()
        stream.next_event()
        stream.next_event()
        assert [bool(line) for line in stream.raw] == [True, True, False] * 2


def test_serv_sse_connection_open_until_closed(service: Service) -> None:
    """Other requests, and the end of those who made them, do not matter."""
    with opened(service) as stream:
        for number in range(3):
            service("GET", "/redfish/v1/Systems")
            service.tell(str(number))
            assert stream.next_event()[1]["Events"][0]["Message"] == str(number)


def test_serv_sse_events_sent_via_open_connection(service: Service) -> None:
    """Not only test events: what somebody writes is told too."""
    with opened(service) as stream:
        assert service("PATCH", SERVICE, {"DeliveryRetryAttempts": 3}).status_code < 300
        (record,) = stream.next_event()[1]["Events"]
        assert record["OriginOfCondition"] == {"@odata.id": SERVICE}


def test_serv_sse_open_creates_event_dest(service: Service) -> None:
    before = service.destinations()
    with opened(service):
        (new,) = service.destinations() - before
        body = service("GET", new).json()
        assert (body["SubscriptionType"], body["Protocol"]) == ("SSE", "Redfish")


def test_serv_sse_event_dest_context_opaque_str(service: Service) -> None:
    before = service.destinations()
    with opened(service) as stream:
        (new,) = service.destinations() - before
        context = service("GET", new).json()["Context"]
        assert isinstance(context, str)
        assert context
        service.tell()
        assert stream.next_event()[1]["Context"] == context


def test_serv_sse_event_dest_deleted_on_close(service: Service) -> None:
    before = service.destinations()
    with opened(service):
        (new,) = service.destinations() - before
    deadline = time.monotonic() + 60
    while service("GET", new).status_code != 404:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_serv_sse_close_connection_if_event_dest_deleted(service: Service) -> None:
    before = service.destinations()
    with opened(service) as stream:
        (new,) = service.destinations() - before
        assert service("DELETE", new).status_code == 204
        assert list(stream.lines) == []


def test_serv_sse_id_field_uniquely_identifies_payload(service: Service) -> None:
    """Among all streams of a BMC, one after the other and at the same time."""
    ids: list[str] = []
    for _ in range(2):
        with opened(service) as stream, opened(service) as other:
            for _ in range(3):
                service.tell()
                id_, body = stream.next_event()
                assert body["Id"] == id_ == other.next_event()[0]
                ids.append(id_)
    assert len(set(ids)) == 6


def test_serv_sse_data_field_based_on_payload_format(service: Service) -> None:
    with opened(service) as stream:
        service.tell()
        assert stream.next_event()[1]["@odata.type"].startswith("#Event.")


def test_serv_sse_json_event_message_format(service: Service) -> None:
    with opened(service) as stream:
        service.tell()
        body = stream.next_event()[1]
        assert {"@odata.type", "Id", "Name", "Context", "Events"} <= body.keys()
        assert {"MemberId", "EventId", "EventTimestamp", "MessageId", "Message"} <= body["Events"][0].keys()


def test_serv_sse_json_metric_report_format(service: Service) -> None:
    """There are no reports in streams, and the service says so."""
    body = service("GET", SERVICE).json()
    assert body["EventFormatTypes"] == ["Event"]
    with opened(service, params={"$filter": "EventFormatType eq 'MetricReport'"}) as stream:
        assert stream.response.status_code == 200
        service.tell()
        service.tell()
    refused = service("POST", SUBSCRIPTIONS, {**MADE_UP, "EventFormatType": "MetricReport"})
    assert refused.status_code == 400


def test_sec_session_termination_side_effects(service: Service) -> None:
    login = service("POST", SESSIONS, {"UserName": "root", "Password": "P"}, auth=None)
    token, where = login.headers["X-Auth-Token"], login.headers["Location"]
    with opened(service, auth=None, headers={"X-Auth-Token": token}) as stream:
        assert stream.response.status_code == 200
        assert service("DELETE", where).status_code < 300
        assert service("GET", SERVICE, auth=None, headers={"X-Auth-Token": token}).status_code == 401
        service.tell("still there")
        messages = [stream.next_event()[1]["Events"][0]["Message"] for _ in range(2)]
        assert messages[-1] == "still there"


# real clients


class Listener:
    """An event listener on loopback, plain HTTP."""

    def __init__(self) -> None:
        got: queue.Queue[tuple[str, dict[str, str], Any]] = queue.Queue()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                got.put((self.client_address[0], dict(self.headers), json.loads(body)))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_all: Any) -> None:
                """Say nothing."""

        self.got = got
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/events"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def message(self, text: str) -> tuple[str, dict[str, str], Any]:
        """Who sent an event with a message, its header fields and its payload."""
        while True:
            one = self.got.get(timeout=WAIT)
            if one[2]["Events"][0]["Message"] == text:
                return one

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


def test_dmtfs_tools_subscribe_and_events_arrive(service: Service, listener: Listener) -> None:
    with redfish.redfish_client(base_url=service.url, username="root", password="P") as client:
        headers = [{"X-Token": "abc"}]
        redfish_utilities.create_event_subscription(
            client, listener.url, format="Event", client_context="mine", http_headers=headers
        )
        (shown,) = redfish_utilities.get_event_subscriptions(client)
        assert (shown["Context"], shown["Destination"]) == ("mine", listener.url)
        service.tell("to dmtf")
        source, fields, body = listener.message("to dmtf")
        assert (source, fields["X-Token"], body["Context"]) == (service.address, "abc", "mine")
        redfish_utilities.delete_event_subscription(client, shown["Id"])
        assert redfish_utilities.get_event_subscriptions(client) == []


def test_sushy_subscribes_and_submits_a_test_event(service: Service, listener: Listener) -> None:
    root = sushy.Sushy(service.url, auth=sushy_auth.BasicAuth("root", "P"), verify=False)
    events = sushy_events.EventService(root._conn, SERVICE, redfish_version=root.redfish_version)
    made = events.subscriptions.create({"Destination": listener.url, "Protocol": "Redfish", "Context": "sushy"})
    assert made.context == "sushy"
    assert events.subscriptions.get_members()
    service.tell("to sushy")
    assert listener.message("to sushy")[2]["Context"] == "sushy"
    made.delete()
    assert service.destinations() == set()


def test_a_made_up_address_is_never_dialled(service: Service) -> None:
    """And the log says why nothing arrives."""
    assert service("PATCH", SERVICE, {"DeliveryRetryAttempts": 0}).status_code < 300
    where = service("POST", SUBSCRIPTIONS, MADE_UP).headers["Location"]
    service.tell()
    deadline = time.monotonic() + WAIT
    while service("GET", where).json()["Status"]["State"] != "Disabled":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert "192.168.1.50" in service.process.output
    assert "--event-destination" in service.process.output
    service("PATCH", SERVICE, {"DeliveryRetryAttempts": 3})


def test_subscriptions_survive_kill_and_streams_do_not(tmp_path: Path, listener: Listener) -> None:
    arguments = ("--hosts", "1", "--dpus", "0", "--host-password", "P", "--state-dir", str(tmp_path / "state"))
    with serving(tmp_path / "first.log", *arguments) as process:
        service = Service(process, HOST)
        wish = {"Destination": listener.url, "Protocol": "Redfish", "Context": "kept"}
        where = service("POST", SUBSCRIPTIONS, wish).headers["Location"]
        with opened(service):
            assert len(service.destinations()) == 2
            process.stop(signal.SIGKILL)
    with serving(tmp_path / "second.log", *arguments) as process:
        service = Service(process, HOST)
        assert service.destinations() == {where}
        service.tell("after the kill")
        assert listener.message("after the kill")[2]["Context"] == "kept"


def test_a_process_that_is_told_to_stop_ends_streams_in_order(tmp_path: Path) -> None:
    """Their readers see the end of the answer, not only that of the connection."""
    with serving(tmp_path / "serve.log", "--hosts", "1", "--dpus", "0", "--host-password", "P") as process:
        service = Service(process, HOST)
        with opened(service) as stream:
            service.close()
            process.process.send_signal(signal.SIGTERM)
            assert list(stream.lines) == []
        assert process.process.wait(20) == 0
