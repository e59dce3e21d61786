"""A bounded number of random requests; `python -m tests.fuzz` sends any number."""

import asyncio
import tracemalloc
from random import Random

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import datagrams, handling, lanes, wire
from tests.fuzz.handling import STATUSES, Figures


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.randoms(use_true_random=False))
def test_whatever_is_asked_of_a_bmc_it_answers_and_stays_whole(random: Random) -> None:
    """hypothesis draws, and so shrinks what fails to few requests."""
    handling.run(0, Figures(), random, length=12)


def test_many_sequences_of_requests() -> None:
    figures = Figures()
    for seed in range(60):
        handling.run(seed, figures)
    assert figures.cases == 60 * handling.PER_RUN
    # The generator finds its way to most of what a BMC says.
    assert len(STATUSES - figures.statuses.keys()) <= 4
    assert len(figures.messages) > 25


def test_many_streams_of_bytes() -> None:
    async def attempts(figures: Figures) -> None:
        for seed in range(600):
            await wire.attempt(seed, figures)

    figures = Figures()
    uvloop.run(attempts(figures))
    assert {200, 204, 400, 401, 404, 405, 501} <= figures.statuses.keys()


def test_many_replies_of_a_dhcp_server() -> None:
    async def attempts(figures: Figures) -> None:
        for seed in range(20_000):
            await datagrams.attempt(seed, figures)

    figures = Figures()
    asyncio.run(attempts(figures))
    # The generator finds what is good, and every way to be wrong.
    assert figures.messages["OFFER"] > 2000
    assert len(figures.messages) > 20


def test_all_ways_through_the_edge_answer_byte_for_byte_alike() -> None:
    """Every URI of every profile, in every condition of its BMC."""
    statuses = uvloop.run(lanes.run(1, 1))
    assert statuses.total() > 1000
    assert {200, 204, 400, 401, 404, 405, 503} <= statuses.keys()


_HEAD = b"PATCH /redfish/v1/Systems HTTP/1.1\r\nHost: 127.64.0.2\r\nAuthorization: %b\r\n" % lanes.ADMIN
_CHUNKED = _HEAD + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
_KIB = b"x" * 1024


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"GET /", _KIB),
        (_KIB, _KIB),
        (b"", b"\r\n" * 512),
        (_HEAD + b"X: ", _KIB),
        (_HEAD, _KIB),
        (_HEAD, b"X: y\r\n" * 170),
        (_HEAD + b"Content-Length: 1000000000\r\n\r\n", _KIB),
        (_HEAD + b"Content-Type: application/json\r\nContent-Length: 2000000\r\n\r\n", _KIB),
        (_CHUNKED, b"1\r\nx\r\n" * 170),
        (_CHUNKED, b"1;" + _KIB + b"\r\nx\r\n"),
        (_CHUNKED + b"1;", _KIB),
        (_CHUNKED, b"0" * 1024),
        (_CHUNKED + b"0\r\n", b"X: y\r\n" * 170),
        (_CHUNKED + b"0\r\nX: ", _KIB),
        (_CHUNKED, b"GET /redfish HTTP/1.1\r\n\r\n" * 40),
        (b"", b"GET /redfish HTTP/1.1\r\n\r\n"),
        (_CHUNKED + b"2\r\n{}\r\n", _KIB),
    ],
)
def test_nothing_without_an_end_is_kept_without_an_end(begin: bytes, more: bytes) -> None:
    async def flood() -> tuple[int, int]:
        _protocol, transport = wire.Port().connect()
        transport.feed(begin)
        tracemalloc.start()
        for _ in range(6000):
            transport.feed(more)
            if len(transport.data) > 100_000:
                transport.data.clear()
            await asyncio.sleep(0)
        held, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return held, most

    held, most = uvloop.run(flood())
    assert held < wire.MOST_HELD
    assert most < 2 * wire.MOST_HELD
