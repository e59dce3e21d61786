"""Recordings: some BMCs, bounded in number and bytes, and nothing where nobody asked."""

from typing import Any

import orjson
import pytest

from bmcsim.fleet.recordings import MOST_RECORDINGS, Recordings, TooManyRecordings
from bmcsim.fleet.selection import Selection
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish.exchange import Head, Request, Response
from tests.conftest import Client, make_client


@pytest.fixture
def clients() -> list[Client]:
    """Two BMCs."""
    return [make_client("bluefield3", index=index) for index in range(2)]


def note(recordings: Recordings, client: Client, path: str = "/x", body: Any = None, query: str = "") -> None:
    """A request to a BMC."""
    content = orjson.dumps(body) if body is not None else b""
    request = Request("POST" if content else "GET", path, client.clock.now(), Head(), query, content)
    recordings.note(client.bmc, request, Response(200, b"", b"12345"), "192.0.2.1", 0.25)


def started(recordings: Recordings, *bmcs: Bmc, limit: int = 10) -> str:
    """The id of a new recording."""
    return recordings.start(Selection(), bmcs, limit, 0.0).id


def test_it_is_switched_on_and_off(clients: list[Client]) -> None:
    told: list[Recordings | None] = []
    recordings = Recordings(told.append)
    first, second = started(recordings, clients[0].bmc), started(recordings, clients[0].bmc)
    recordings.stop(first)
    assert told == [recordings, recordings]
    recordings.stop(second)
    assert told[-1] is None
    with pytest.raises(KeyError):
        recordings.stop(second)


def test_those_alone_are_recorded_that_are_meant(clients: list[Client]) -> None:
    recordings = Recordings(lambda _: None)
    started(recordings, clients[0].bmc)
    note(recordings, clients[0], "/a", {"Password": "x", "Name": "y"}, "token=z")
    note(recordings, clients[1])
    (seen,) = recordings.of(clients[0].bmc)
    assert (seen.number, seen.about.path, seen.query, seen.seconds) == (1, "/a", "token=(hidden)", 0.25)
    assert orjson.loads(seen.body) == {"Password": "(hidden)", "Name": "y"}
    assert (seen.request_bytes, seen.response_bytes) == (27, 5)
    assert not recordings.of(clients[1].bmc)


def test_the_oldest_make_room(clients: list[Client]) -> None:
    recordings = Recordings(lambda _: None, most_bytes=3000)
    id_ = started(recordings, clients[0].bmc, clients[1].bmc, limit=3)
    for number in range(5):
        note(recordings, clients[0], f"/{number}")
    assert [one.about.path for one in recordings.of(clients[0].bmc)] == ["/2", "/3", "/4"]
    for number in range(3):
        note(recordings, clients[1], f"/{number}")
    assert [one.about.path for one in recordings.of(clients[0].bmc)] == ["/4"]
    assert len(recordings.of(clients[1].bmc)) == 3
    assert recordings.bytes == sum(one.size for client in clients for one in recordings.of(client.bmc)) <= 3000
    assert recordings.dropped == 4
    recordings.stop(id_)
    assert recordings.bytes == 0 and not recordings.of(clients[0].bmc)


def test_what_two_recordings_have_stays_until_both_are_over(clients: list[Client]) -> None:
    recordings = Recordings(lambda _: None)
    both, one = started(recordings, *[client.bmc for client in clients]), started(recordings, clients[0].bmc, limit=50)
    assert [recordings.limit(client.bmc) for client in clients] == [50, 10]
    note(recordings, clients[0])
    note(recordings, clients[1])
    recordings.stop(both)
    assert [len(recordings.of(client.bmc)) for client in clients] == [1, 0]
    assert recordings.count(recordings.all()[0]) == 1
    recordings.stop(one)
    assert recordings.bytes == 0


def test_there_are_so_many(clients: list[Client]) -> None:
    recordings = Recordings(lambda _: None)
    for _ in range(MOST_RECORDINGS):
        started(recordings, clients[0].bmc)
    with pytest.raises(TooManyRecordings):
        started(recordings, clients[0].bmc)
