"""`bmcsim top`: what is seen becomes lines, keys change what one looks at, and without a stream it asks."""

import io
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.cli.events import Event, Follower, events
from bmcsim.cli.remote import Remote
from bmcsim.cli.selection import Chosen
from bmcsim.cli.top_view import SORTS, Line, Seen, View, keys, lines, pressed, shown
from bmcsim.edges.control.endpoint import ControlError
from bmcsim.edges.control.stream import Hub
from tests.unit.cli.conftest import Served
from tests.unit.edges.control.asking import call

TABLES = {
    "kind": ["host", "dpu"],
    "state": ["up", "resetting"],
    "power": ["On", "Off"],
    "credentials": ["factory", "current"],
    "group": ["host"],
    "hardware": ["r750"],
}
COLUMNS = {
    "i": [0, 1, 2],
    "id": ["host-0", "host-1", "host-2"],
    "kind": [0, 0, 0],
    "group": [0, 0, 0],
    "hardware": [0, 0, 0],
    "address": ["127.64.0.2", "127.64.0.3", None],
    "status": [0, 1 + 8, 64],
    "faults": [0, 0, 2],
    "errors": [5, 0, 1],
}
RATES = {
    "requests": 12.0,
    "errors": 1.0,
    "dropped": 0.0,
    "p50": 0.0004,
    "p99": None,
    "lag": 0.0001,
    "rss": 100 * 2**20,
    "connections": 3,
    "streams": 1,
}
VIEW = View()
JOB = {"id": "7", "state": "running", "total": 9, "done": 2, "failed": 1, "skipped": 0, "progress": 0.3333}


def seen() -> Seen:
    """Three BMCs, as the stream tells them."""
    made = Seen()
    made.heard("fleet", {"tables": TABLES, "columns": COLUMNS}, 0.0)
    return made


def failed(made: Seen, place: int, errors: int, now: float) -> None:
    """A BMC has more errors now."""
    delta = {"i": [place], "status": [0], "address": [None], "faults": [0], "errors": [errors]}
    made.heard("delta", delta, now)


def ids(made: Seen, view: View) -> list[str]:
    """Ids in the order of a view."""
    return [row.id for row in shown(made.rows, view)]


def picture(made: Seen, view: View = VIEW, width: int = 80, height: int = 16) -> list[Line]:
    """The screen."""
    return lines(made, view, "http://127.0.0.1:9090", "12:00:01", width, height)


def test_the_screen() -> None:
    made = seen()
    made.heard("rates", RATES, 1.0)
    made.heard("job", JOB, 1.0)
    assert [line.text for line in picture(made)] == [
        "bmcsim http://127.0.0.1:9090  3 BMCs                              12:00:01  live",
        "state    up 2  resetting 1",
        "power    On 2  Off 1",
        "password factory 2  current 1   with faults 1",
        "requests 12.0/s  errors 1.0/s  dropped 0.0/s  p50 0.4 ms  p99 -",
        "process  lag 0.1 ms  memory 100 MiB  connections 3  streams 1",
        "job 7    33% of 9: 2 done, 0 skipped, 1 failed",
        "",
        "BMC                     STATE     POWER       ADDRESS         FLT MINUTE  ERRORS",
        "host-1                  resetting Off         127.64.0.3        0      0       0",
        "host-2                  up        On          -                 2      0       1",
        "host-0                  up        On          127.64.0.2        0      0       5",
        "",
        "",
        "",
        "1-3 of 3  q quit  / filter  s sort: trouble  r reverse",
    ]
    assert [line.style for line in picture(made)][8:12] == ["head", "warn", "", ""]
    made.heard("job", {**JOB, "state": "completed"}, 2.0)
    assert not made.jobs


@given(width=st.integers(1, 300), height=st.integers(1, 80), first=st.integers(0, 9), rated=st.booleans())
def test_the_screen_is_never_larger_than_the_terminal(width: int, height: int, first: int, rated: bool) -> None:
    made = seen() if rated else Seen()
    if rated:
        made.heard("rates", RATES, 1.0)
    shown_lines = picture(made, View(first=first), width, height)
    assert len(shown_lines) == height
    assert all(len(line.text) <= width for line in shown_lines)


def test_a_broad_terminal_shows_more_and_a_long_id_keeps_its_end() -> None:
    made = seen()
    made.rows[0].id = "rack-7261636b2d31--unit-11-0-dpu-1"
    assert "PASSWORD" in picture(made, width=130)[7].text
    assert made.rows[0].id in picture(made, width=130)[10].text
    assert "~61636b2d31--unit-11-0-dpu-1"[-15:] in picture(made)[10].text


def test_errors_count_for_a_minute() -> None:
    made = seen()
    failed(made, 0, 9, 10.0)
    failed(made, 0, 10, 50.0)
    failed(made, 1, 1, 50.0)
    assert ids(made, View()) == ["host-0", "host-1", "host-2"]
    assert [row.minute for row in made.rows] == [5, 1, 0]
    assert next(line for line in picture(made) if line.text.startswith("host-0")).style == "bad"
    made.passed(69.9)
    assert [row.minute for row in made.rows] == [5, 1, 0]
    made.passed(70.0)
    assert [row.minute for row in made.rows] == [1, 1, 0]
    made.heard("fleet", {"tables": TABLES, "columns": COLUMNS}, 75.0)
    assert [row.minute for row in made.rows] == [1, 1, 0]
    made.passed(110.0)
    assert [row.minute for row in made.rows] == [0, 0, 0]


def test_a_delta_changes_what_it_names() -> None:
    made = seen()
    delta = {"i": [2, 99], "status": [9, 0], "address": ["10.0.0.9", None], "faults": [3, 0], "errors": [1, 0]}
    made.heard("delta", delta, 1.0)
    row = made.rows[2]
    assert (row.state, row.power, row.address, row.faults) == ("resetting", "Off", "10.0.0.9", 3)


def test_orders_and_filters() -> None:
    made = seen()
    assert {sort: ids(made, View(sort=sort)) for sort in SORTS} == {
        "trouble": ["host-1", "host-2", "host-0"],
        "errors": ["host-0", "host-2", "host-1"],
        "faults": ["host-2", "host-0", "host-1"],
        "state": ["host-1", "host-0", "host-2"],
        "power": ["host-1", "host-0", "host-2"],
        "address": ["host-2", "host-0", "host-1"],
        "fleet": ["host-0", "host-1", "host-2"],
    }
    assert ids(made, View(sort="fleet", reverse=True)) == ["host-2", "host-1", "host-0"]
    assert ids(made, View(filter="OFF reset")) == ["host-1"]
    assert ids(made, View(filter="off up")) == []


def test_keys() -> None:
    assert keys(b"q/\x1b[A\x1b[6~\x7f\r\x1b[C\x1b[1;5D\x1b\xff") == [
        "q", "/", "up", "page down", "back", "enter", "escape", "\ufffd",
    ]  # fmt: skip

    def after(view: View, *sent: str) -> View | None:
        now: View | None = view
        for key in sent:
            assert now is not None
            now = pressed(now, key, 10)
        return now

    assert after(View(), "q") is None
    assert after(View(), "/", "q", "x", "back", "enter") == View(filter="q")
    assert after(View(filter="a"), "/", "b", "escape") == View(filter="a")
    assert after(View(filter="a", first=3), "escape") == View()
    assert after(View(), "down", "j", "page down", "up") == View(first=11)
    assert after(View(first=3), "page up") == after(View(first=3), "g") == View()
    assert after(View(first=3), "s", "r") == View(sort="errors", reverse=True)
    view = View()
    for _ in SORTS:
        view = view._replace(sort=(pressed(view, "s", 1) or view).sort)
    assert view == View()


@given(st.binary(max_size=40))
def test_whatever_is_typed_there_is_a_view(data: bytes) -> None:
    view: View | None = View()
    for key in keys(data):
        view = pressed(view, key, 10) if view is not None else None
        assert view is None or (view.sort in SORTS and view.first >= 0)


# events


def test_a_stream_is_read_as_the_standard_says() -> None:
    text = b"retry: 2000\n\n: \n\nid: a-1\nevent: x\ndata: 1\ndata:2\r\n\r\ndata: {}\n\nevent: y\n\nid: a-2\ndata: 3\n"
    assert list(events(io.BytesIO(text))) == [Event("x", b"1\n2", "a-1"), Event("message", b"{}", "a-1")]


def told(served: Served, query: dict[str, Any], until: str) -> list[tuple[str, Any]]:
    """What a follower tells, until an event of that name."""
    heard: list[tuple[str, Any]] = []

    def tell(name: str, data: Any) -> None:
        heard.append((name, data))
        if name == until:
            follower.stop()

    follower = Follower(Remote(served.url), query, Chosen(query), tell)
    follower._run()
    return heard


def test_the_stream_tells_the_fleet(served: Served) -> None:
    made = Seen()
    for name, data in told(served, {"group": ["beta"]}, "rates"):
        made.heard(name, data, 1.0)
    assert ids(made, View(sort="fleet")) == [f"beta-{number}" for number in range(4)]
    assert (made.live, made.rates["requests"]) == (True, 0.0)


def test_without_a_stream_it_asks(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: Any) -> None:
        raise ControlError(503, "there are streams already")

    monkeypatch.setattr(Hub, "join", full)
    monkeypatch.setattr("bmcsim.cli.events.PAUSE", 0.01)
    made = Seen()
    for count in range(2):
        name, data = told(served, {"group": ["beta"]}, "polled")[-1]
        made.heard(name, data, 10.0 * count)
        if not count:
            caller = call(served.site, served.site.bmc("beta-2"))
            for _ in range(5):
                caller.ask("GET", "/redfish/v1/Systems", password=None)
    assert (made.live, made.total, len(made.rows)) == (False, len(served.site.fleet), 4)
    assert ids(made, View())[0] == "beta-2" and made.rows[0].minute == 5
    assert (made.rates["requests"], made.rates["errors"], "p50" in made.rates) == (0.5, 0.5, False)
    assert "no stream: asking" in picture(made)[0].text
    made.heard("lost", "cannot reach it", 20.0)
    assert "cannot reach it" in picture(made)[0].text and picture(made)[0].style == "bad"


def test_where_nobody_is_it_ends(served: Served) -> None:
    assert served.run("top", "--url", "http://127.0.0.1:1").exit_code == 3


def test_without_a_terminal_it_prints_one_picture(served: Served) -> None:
    result = served.run("top", "--group", "beta", "--sort", "fleet")
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert len(result.output.splitlines()) == 24
    assert re.findall(r"^beta-\d", result.output, re.M) == [f"beta-{number}" for number in range(4)]


@pytest.mark.parametrize("colour", [True, False])
def test_on_a_terminal_it_takes_keys_and_leaves_it_as_it_was(served: Served, colour: bool) -> None:
    environment = {**os.environ, "BMCSIM_URL": served.url, "TERM": "xterm"}
    environment = {key: value for key, value in environment.items() if key != "NO_COLOR"}
    environment |= {} if colour else {"NO_COLOR": "1"}
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "bmcsim", "top", "--interval", "0.1"]
    before = termios.tcgetattr(theirs)
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    shown_text = _until(ours, "alpha-0")
    assert termios.tcgetattr(theirs) != before
    os.write(ours, b"/gone-0\r")
    shown_text += _until(ours, "0-0 of 0")
    os.write(ours, b"q")
    shown_text += _until(ours, "\x1b[?1049l")
    assert process.wait(10) == 0
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
    assert shown_text.startswith("\x1b[?1049h\x1b[?25l")
    assert ("\x1b[7m" in shown_text) is colour


def _until(descriptor: int, text: str) -> str:
    """What a terminal shows until there is a text in it."""
    found, ends = "", time.monotonic() + 20
    while text not in found:
        assert time.monotonic() < ends, found
        if select.select([descriptor], [], [], 0.1)[0]:
            found += os.read(descriptor, 65536).decode("utf-8", "replace")
    return found


def test_after_asking_the_stream_is_to_tell_everything_anew(served: Served) -> None:
    heard: list[str] = []
    process = Remote(served.url)
    follower = Follower(process, {}, Chosen({}), lambda name, _data: heard.append(name))
    follower._last = "00000000-1"
    follower.poll()
    process.close()
    assert (heard, follower._last) == (["polled"], "")
