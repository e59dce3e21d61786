"""What `bmcsim top` shows: what is known of a fleet, and the lines of the screen, as pure functions."""

import re
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bmcsim.cli.show import plain

_MINUTE = 60.0
_MOST_JOBS = 3
_KEYS = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b[H": "home",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\r": "enter",
    b"\n": "enter",
    b"\x7f": "back",
    b"\x08": "back",
    b"\x1b": "escape",
}
_OTHER_KEY = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]")
_LONGEST_FILTER = 60


class Row:
    """A BMC. minute: requests that went wrong in the last minute."""

    __slots__ = (
        "address",
        "credentials",
        "errors",
        "faults",
        "group",
        "hardware",
        "id",
        "kind",
        "minute",
        "power",
        "state",
    )

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.id, self.kind, self.group, self.hardware = (facts[name] for name in ("id", "kind", "group", "hardware"))
        self.address: str = facts["address"] or ""
        self.state, self.power, self.credentials = facts["state"], facts["power"], facts["credentials"]
        self.faults, self.errors, self.minute = facts["faults"], facts["errors"], 0


class Seen:
    """What is known of a fleet. live: whether it comes by the stream. lost: what is wrong, '' for nothing. rates: of
    requests, as of the stream; what is not known is left out. jobs: that run."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.total = 0
        self.live = False
        self.lost = ""
        self.rates: dict[str, Any] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.counts: dict[str, Mapping[str, int]] = {}
        self.faulty = 0
        self._tables: Mapping[str, list[str]] = {}
        self._places: dict[int, Row] = {}
        self._failed: deque[tuple[float, Row, int]] = deque()
        self._counted: tuple[float, Mapping[str, Any]] | None = None

    def heard(self, name: str, data: Any, now: float) -> None:
        """An event. now: seconds, of a clock that never goes back."""
        self.live = name not in ("polled", "lost")
        self.lost = data if name == "lost" else ""
        if name == "fleet":
            self._fleet(data)
        elif name == "delta":
            self._delta(data, now)
        elif name == "rates":
            self.rates = data
        elif name == "job":
            self.jobs.pop(data["id"], None)
            if data["state"] == "running":
                self.jobs[data["id"]] = data
        elif name == "polled":
            self._polled(data, now)

    def passed(self, now: float) -> None:
        """Time passed: errors of more than a minute ago count no more."""
        while self._failed and self._failed[0][0] <= now - _MINUTE:
            _, row, count = self._failed.popleft()
            row.minute -= count

    def count(self) -> None:
        """Counts the BMCs, where all of them are known."""
        if self.live or not self.counts:
            self.total = len(self.rows)
            self.faulty = sum([bool(row.faults) for row in self.rows])
            self.counts = {
                name: Counter([getattr(row, name) for row in self.rows]) for name in ("state", "power", "credentials")
            }

    def _status(self, status: int) -> dict[str, str]:
        tables = self._tables
        return {
            "state": tables["state"][status & 7],
            "power": tables["power"][status >> 3 & 7],
            "credentials": tables["credentials"][status >> 6],
        }

    def _fleet(self, data: Mapping[str, Any]) -> None:
        self._tables, columns = data["tables"], data["columns"]
        before = {row.id: row for row in self.rows}
        words = {name: self._tables[name] for name in ("kind", "group", "hardware")}
        self.rows, self._places = [], {}
        for at, place in enumerate(columns["i"]):
            facts = {name: table[columns[name][at]] for name, table in words.items()}
            facts |= {name: columns[name][at] for name in ("id", "address", "faults", "errors")}
            row = Row({**facts, **self._status(columns["status"][at])})
            self.rows.append(row)
            self._places[place] = row
        self._keep_minutes(before)

    def _delta(self, data: Mapping[str, Any], now: float) -> None:
        columns = (data[name] for name in ("i", "status", "address", "faults", "errors"))
        for place, status, address, faults, errors in zip(*columns, strict=True):
            row = self._places.get(place)
            if row is None:
                continue
            for name, value in self._status(status).items():
                setattr(row, name, value)
            row.address, row.faults = address or "", faults
            self._erred(row, errors, now)

    def _erred(self, row: Row, errors: int, now: float) -> None:
        if errors > row.errors:
            row.minute += errors - row.errors
            self._failed.append((now, row, errors - row.errors))
        row.errors = errors

    def _keep_minutes(self, before: Mapping[str, Row]) -> None:
        """What is known of the last minute is so of the same BMCs as they are told now."""
        for row in self.rows:
            if row.id in before:
                row.minute = before[row.id].minute
        now = {row.id: row for row in self.rows}
        self._failed = deque([(at, now[row.id], count) for at, row, count in self._failed if row.id in now])

    def _polled(self, data: Mapping[str, Any], now: float) -> None:
        fleet, before = data["fleet"], {row.id: row for row in self.rows}
        self.rows = [Row(one) for one in data["items"]]
        self._places = {}
        self._keep_minutes(before)
        for row in self.rows:
            if (old := before.get(row.id)) is not None:
                errors, row.errors = row.errors, old.errors
                self._erred(row, errors, now)
        self.total, self.faulty = fleet["bmcs"], fleet["faulty"]
        self.counts = {name: fleet[f"by_{name}"] for name in ("state", "power", "credentials")}
        self.rates = self._polled_rates(fleet["requests"], now)

    def _polled_rates(self, requests: Mapping[str, Any], now: float) -> dict[str, Any]:
        before, self._counted = self._counted, (now, requests)
        rates = {name: requests[name] for name in ("connections", "streams")}
        if before is None or now <= before[0]:
            return rates
        seconds, old = now - before[0], before[1]
        gained = {name: count - old["by_class"][name] for name, count in requests["by_class"].items()}
        return {
            **rates,
            "requests": sum(gained.values()) / seconds,
            "errors": (gained["4xx"] + gained["5xx"]) / seconds,
            "dropped": (requests["dropped"] - old["dropped"]) / seconds,
        }


# what one looks at

Key = Callable[[Row], Any]
SORTS: Mapping[str, Key | None] = {
    "trouble": lambda row: (-row.minute, row.state == "up", -bool(row.faults), -row.errors),
    "errors": lambda row: -row.errors,
    "faults": lambda row: -row.faults,
    "state": lambda row: (row.state, row.power),
    "power": lambda row: (row.power, row.state),
    "address": lambda row: tuple(map(int, row.address.split("."))) if row.address.count(".") == 3 else (),
    "fleet": None,
}
"""Name of an order -> its key. fleet: as the fleet file has them. Of trouble: what fails now comes first."""


class View(NamedTuple):
    """What one looks at. typing: a filter that is being typed, None for none. first: the first row that is shown."""

    sort: str = "trouble"
    reverse: bool = False
    filter: str = ""
    typing: str | None = None
    first: int = 0


def keys(data: bytes) -> list[str]:
    """Keys that a terminal sent: characters, and names such as 'up'. Keys that have no meaning here are left out."""
    found = []
    while data:
        other = _OTHER_KEY.match(data)
        sent = other[0] if other is not None else data[:1]
        data = data[len(sent) :]
        if sent in _KEYS:
            found.append(_KEYS[sent])
        elif other is None:
            found.append(sent.decode("ascii", "replace"))
    return found


def pressed(view: View, key: str, page: int) -> View | None:
    """What one looks at after a key; None to end. page: rows that are shown."""
    if view.typing is not None:
        return _typed(view, view.typing, key)
    if key == "q":
        return None
    if key == "s":
        orders = list(SORTS)
        return view._replace(sort=orders[(orders.index(view.sort) + 1) % len(orders)], first=0)
    if key == "r":
        return view._replace(reverse=not view.reverse, first=0)
    if key == "/":
        return view._replace(typing=view.filter)
    if key == "escape":
        return view._replace(filter="", first=0)
    steps = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -page, "page down": page, " ": page}
    if key in ("home", "g"):
        return view._replace(first=0)
    return view._replace(first=max(0, view.first + steps.get(key, 0)))


def _typed(view: View, text: str, key: str) -> View:
    if key == "enter":
        return view._replace(typing=None, filter=text, first=0)
    if key == "escape":
        return view._replace(typing=None)
    if key == "back":
        return view._replace(typing=text[:-1])
    return view._replace(typing=(text + key)[:_LONGEST_FILTER]) if len(key) == 1 and key.isprintable() else view


def shown(rows: Sequence[Row], view: View) -> list[Row]:
    """The BMCs that have all words of the filter, in order."""
    words = view.filter.lower().split()
    found = [row for row in rows if all(word in _text(row) for word in words)] if words else list(rows)
    key = SORTS[view.sort]
    if key is not None:
        found.sort(key=key)
    if view.reverse:
        found.reverse()
    return found


def _text(row: Row) -> str:
    facts = (row.id, row.address, row.kind, row.group, row.hardware, row.state, row.power, row.credentials)
    return " ".join(facts).lower()


# the screen


class Line(NamedTuple):
    """A line of the screen. style: '', title, head, bad, warn or dim."""

    text: str
    style: str = ""


class _Column(NamedTuple):
    title: str
    width: int
    value: Callable[[Row], str]
    right: bool = False


_NARROW = (
    _Column("STATE", 9, lambda row: row.state),
    _Column("POWER", 11, lambda row: row.power),
    _Column("ADDRESS", 15, lambda row: row.address or "-"),
    _Column("FLT", 3, lambda row: str(row.faults), right=True),
    _Column("MINUTE", 6, lambda row: str(row.minute), right=True),
    _Column("ERRORS", 7, lambda row: str(row.errors), right=True),
)
_BROAD = (
    _Column("KIND", 11, lambda row: row.kind),
    _Column("GROUP", 12, lambda row: row.group),
    *_NARROW,
    _Column("PASSWORD", 8, lambda row: row.credentials),
)
_BROAD_FROM = 120
_HEADS = 9
"""Lines above the rows and below, without jobs."""


def page_of(seen: Seen, height: int) -> int:
    """How many rows there is room for."""
    return max(1, height - _HEADS - len(_jobs(seen)))


def lines(seen: Seen, view: View, url: str, clock: str, width: int, height: int) -> list[Line]:
    """The screen. clock: the time as it is to be shown."""
    seen.count()
    rows = shown(seen.rows, view)
    page = page_of(seen, height)
    first = max(0, min(view.first, len(rows) - page))
    how = seen.lost or ("live" if seen.live else "no stream: asking")
    columns = _BROAD if width >= _BROAD_FROM else _NARROW
    made = [
        Line(_apart(f"bmcsim {url}  {seen.total} BMCs", f"{clock}  {how}", width), "bad" if seen.lost else "title"),
        Line(f"state    {_counts(seen.counts.get('state', {}))}"),
        Line(f"power    {_counts(seen.counts.get('power', {}))}"),
        Line(f"password {_counts(seen.counts.get('credentials', {}))}   with faults {seen.faulty}"),
        Line(_requests(seen.rates), "bad" if seen.rates.get("errors") else ""),
        Line(_process(seen.rates)),
        *[Line(text) for text in _jobs(seen)],
        Line(""),
        Line(_row([column.title for column in columns], "BMC", columns, width), "head"),
    ]
    for row in rows[first : first + page]:
        text = _row([column.value(row) for column in columns], row.id, columns, width)
        made.append(Line(text, "bad" if row.minute else "" if row.state == "up" else "warn"))
    made += [Line("")] * (height - 1 - len(made))
    made.append(Line(_foot(view, len(rows), first, page), "dim"))
    return [Line(plain(one.text)[:width].rstrip(), one.style) for one in made[:height]]


def _row(cells: Sequence[str], name: str, columns: Sequence[_Column], width: int) -> str:
    room = max(8, width - sum([column.width + 1 for column in columns]))
    # The end of an id tells machines of a rack apart.
    text = f"{name if len(name) <= room else '~' + name[1 - room :]:<{room}}"
    for cell, column in zip(cells, columns, strict=True):
        text += " " + (f"{cell:>{column.width}}" if column.right else f"{cell[: column.width]:<{column.width}}")
    return text


def _counts(counts: Mapping[str, int]) -> str:
    return "  ".join([f"{name} {count}" for name, count in sorted(counts.items(), key=lambda one: -one[1])]) or "-"


def _requests(rates: Mapping[str, Any]) -> str:
    each = [f"{name} {_number(rates.get(name))}/s" for name in ("errors", "dropped")]
    times = [f"{name} {_milliseconds(rates.get(name))}" for name in ("p50", "p99")]
    return "requests " + "  ".join([f"{_number(rates.get('requests'))}/s", *each, *times])


def _process(rates: Mapping[str, Any]) -> str:
    memory = f"{rates['rss'] / 2**20:.0f} MiB" if rates.get("rss") else "-"
    counts = [f"{name} {rates.get(name, '-')}" for name in ("connections", "streams")]
    return "process  " + "  ".join([f"lag {_milliseconds(rates.get('lag'))}", f"memory {memory}", *counts])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.1f} ms"


def _jobs(seen: Seen) -> list[str]:
    running = list(seen.jobs.values())[-_MOST_JOBS:]
    return [
        f"job {one['id']:<4} {one['progress']:.0%} of {one['total']}: {one['done']} done, {one['skipped']} skipped,"
        f" {one['failed']} failed"
        for one in running
    ]


def _foot(view: View, total: int, first: int, page: int) -> str:
    if view.typing is not None:
        return f"filter: {view.typing}_   (enter: take it, esc: leave)"
    chosen = f"  filter: {view.filter}" if view.filter else ""
    order = f"{view.sort}{' reversed' if view.reverse else ''}"
    range_ = f"{first + 1 if total else 0}-{min(total, first + page)} of {total}"
    return f"{range_}  q quit  / filter  s sort: {order}  r reverse{chosen}"


def _apart(left: str, right: str, width: int) -> str:
    return left + " " * max(2, width - len(left) - len(right)) + right
