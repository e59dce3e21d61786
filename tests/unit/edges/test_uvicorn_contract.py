"""What edges/http/protocol.py relies on inside uvicorn; an upgrade that changes it fails here first."""

import inspect

import uvicorn
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle
from uvicorn.server import Server, ServerState


def test_the_minor_version_is_the_pinned_one() -> None:
    assert uvicorn.__version__.startswith("0.54.")


def test_connections_and_tasks_may_be_replaced() -> None:
    assert isinstance(ServerState().connections, set)
    assert isinstance(ServerState().tasks, set)
    source = inspect.getsource(Server.shutdown) + inspect.getsource(Server._wait_tasks_to_complete)
    for name in ("self.servers", "self.server_state.connections", "self.server_state.tasks", "sock.close()"):
        assert name in source, name


def test_the_server_closes_connections_by_their_shutdown_method() -> None:
    assert "connection.shutdown()" in inspect.getsource(Server.shutdown)


def test_the_cycle_takes_these_arguments_and_has_these_attributes() -> None:
    assert set(inspect.signature(RequestResponseCycle.__init__).parameters) == {
        "self", "scope", "transport", "flow", "logger", "access_logger", "access_log", "default_headers",
        "message_event", "expect_100_continue", "keep_alive", "on_response",
    }  # fmt: skip
    source = inspect.getsource(RequestResponseCycle)
    for name in (
        "body",
        "disconnected",
        "keep_alive",
        "message_event",
        "more_body",
        "on_response",
        "response_complete",
        "response_started",
    ):
        assert f"self.{name}" in source, name
    assert inspect.iscoroutinefunction(RequestResponseCycle.receive)
    assert "waiting_for_100_continue" in inspect.getsource(RequestResponseCycle.receive)


def test_flow_control_and_status_lines_are_as_used() -> None:
    for name in ("pause_reading", "resume_reading", "pause_writing", "resume_writing", "drain"):
        assert callable(getattr(FlowControl, name)), name
    assert HIGH_WATER_LIMIT == 65536
    assert STATUS_LINE[404] == b"HTTP/1.1 404 Not Found\r\n"
    for status in (408, 413, 431, 503, 507, 599):
        assert STATUS_LINE[status].startswith(b"HTTP/1.1 %d " % status)


def test_the_server_starts_and_stops_in_two_calls() -> None:
    assert list(inspect.signature(Server.startup).parameters) == ["self", "sockets"]
    assert list(inspect.signature(Server.shutdown).parameters) == ["self", "sockets"]
    assert "self.lifespan" in inspect.getsource(Server.startup)
