"""The tick of a process that has thousands of connections."""

import asyncio
from itertools import pairwise
from types import SimpleNamespace

from bmcsim.core.clock import ManualClock
from bmcsim.edges.http import server


class Connection:
    def __init__(self, closes=()):
        self.swept = []
        self.closes = closes

    def sweep(self, now):
        self.swept.append(now)
        self.closes and self.closes[0].discard(self.closes[1])


async def test_a_sweep_reaches_every_connection_a_few_in_each_turn_of_the_loop():
    there = [Connection() for _ in range(server._SWEPT_AT_ONCE * 2 + 50)]
    connections = set(there)
    *_, gone = connections  # its turn is the last
    # One that is looked after ends another one, as a proxy's client may.
    next(iter(connections)).closes = (connections, gone)
    keeper = server.Housekeeper(
        SimpleNamespace(metrics=SimpleNamespace(lag=0.0, lag_max=0.0)),
        SimpleNamespace(server=SimpleNamespace(server_state=SimpleNamespace(connections=connections))),
        ManualClock(),
    )
    keeper.start()
    keeper.stop()
    turns = []
    for _ in range(server._SWEEP_EVERY):
        keeper._tick()
        keeper.stop()
    for _ in range(4):
        turns.append(sum([len(one.swept) for one in there]))
        await asyncio.sleep(0)
    assert [turns[0], *[later - before <= 200 for before, later in pairwise(turns)]] == [200, True, True, True]
    assert all(one.swept == [0.0] for one in there if one is not gone)
    assert not gone.swept
