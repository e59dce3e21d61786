"""A fleet served in this process as `bmcsim serve` does, beside a probe of its event loop; `bench.status` starts it.

Reads words from stdin, a line each: `change RATE` sets how many BMCs change per second from now on, by a power command;
`stall` answers with the longest time, in seconds, that the loop was away since the last one, without what the process
waited for its processor, and with how many BMCs changed.
"""

import argparse
import asyncio
import gc
import os
import random
import sys
import time
from pathlib import Path

import orjson
import uvloop

from bench.watch import run_delay
from bmcsim.cli.control import control_of
from bmcsim.core.clock import SystemClock
from bmcsim.edges.control.guard import Guard
from bmcsim.edges.control.status import Compatible
from bmcsim.edges.http.context import Context
from bmcsim.edges.http.listen import open_socket, parse_listen
from bmcsim.edges.http.server import Housekeeper, raise_file_limit, redfish_listener, run
from bmcsim.edges.http.tls import Served
from bmcsim.fleet import config as fleet_config
from bmcsim.fleet.build import Builder
from bmcsim.fleet.driver import TIMERS_AT_ONCE, Driver
from bmcsim.fleet.registry import Fleet
from bmcsim.machine import power
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.identity import Kind

_PROBE = 0.001
_CHANGE = 0.002


class Changer:
    """Gives power commands to BMCs, at a rate, always in the same order. Shelves are left alone: the last one that goes
    off takes a whole rack with it."""

    def __init__(self, fleet: Fleet, context: Context) -> None:
        self._context = context
        self._bmcs = [bmc for bmc in fleet if bmc.identity.kind is not Kind.POWER_SHELF]
        self._random = random.Random(1)
        self.rate = 0.0
        self.changed = 0
        self._owed = 0.0
        self._then = time.perf_counter()

    def tick(self) -> None:
        """Change as many as are due."""
        now = time.perf_counter()
        self._owed += self.rate * (now - self._then)
        self._then = now
        # After a stall they come one after the other and not all at once, as requests would.
        for _ in range(min(4, int(self._owed))):
            self._owed -= 1
            self._change(self._random.choice(self._bmcs))
        asyncio.get_running_loop().call_later(_CHANGE, self.tick)

    def _change(self, bmc: Bmc) -> None:
        event = power.Event.ON if bmc.power.dead else power.Event.FORCE_OFF
        try:
            self._context.change(bmc, lambda one, moment: one.reset_system(event, moment), lambda _: None)
        except power.Refused:
            return
        self.changed += 1


class Probe:
    """How long the loop was away."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._due = 0.0
        self._waited = 0.0

    def tick(self) -> None:
        """Take note, and come again."""
        now, waited = time.perf_counter(), run_delay(os.getpid())
        if self._due:
            self.longest = max(self.longest, now - self._due - (waited - self._waited))
        self._waited = waited
        self._due = time.perf_counter() + _PROBE
        asyncio.get_running_loop().call_later(_PROBE, self.tick)


async def serve(options: argparse.Namespace) -> None:
    """Serve until stdin ends or somebody asks for the end."""
    config = fleet_config.default(options.hosts, options.dpus, racks=options.racks)
    listen = parse_listen(f"127.0.0.0/8:{options.port}")
    sock, _ = open_socket(listen)
    clock, fleet = SystemClock(1.0), Fleet()
    loop = asyncio.get_running_loop()
    wakes: asyncio.TimerHandle | None = None

    def wake(seconds: float) -> None:
        nonlocal wakes
        if wakes is not None:
            wakes.cancel()
        wakes = loop.call_later(seconds, driver.run_due, TIMERS_AT_ONCE)

    driver = Driver(clock, wake)
    context = Context(fleet, driver, clock, served=listen.network)
    context.outside = Compatible(control_of(config, context, Guard()), options.port).at
    listener = redfish_listener(context, sock, Served.of_files(options.cert, options.key))
    probe = Probe()

    async def build() -> None:
        fleet.expected = config.bmc_count
        for _ in Builder(config, Hasher(), clock.now().wall).populate(fleet):
            await asyncio.sleep(0)
        changer = Changer(fleet, context)

        def said() -> None:
            word, *more = sys.stdin.readline().split() or [""]
            if word == "change":
                changer.rate = float(more[0])
            elif word == "stall":
                print(orjson.dumps({"stall": probe.longest, "changed": changer.changed}).decode(), flush=True)
                probe.longest, changer.changed = 0.0, 0

        loop.add_reader(sys.stdin, said)
        loop.call_later(1.0, changer.tick)
        loop.call_later(1.0, probe.tick)
        # Before the freeze that follows, so that the first poll is one of a running server.
        gc.collect()
        print("ready", flush=True)

    await run([listener], Housekeeper(context, listener, clock), build)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, required=True)
    parser.add_argument("--dpus", type=int)
    parser.add_argument("--racks", type=int, default=0)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cert", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    raise_file_limit()
    uvloop.run(serve(parser.parse_args()))
