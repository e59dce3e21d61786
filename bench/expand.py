"""What `$expand=.` of the R750's fifty sensors costs the server, and what the fifty GETs that it replaces do.

Both over one TLS connection, in turns; the figure that counts is the server's own processor time.
"""

import statistics
import time
from collections.abc import Sequence

import orjson
import uvloop

from bench.client import Connection, any_certificate, connected, encode
from bench.report import Bar, Measure
from bench.server import BenchError, Server, Settings, bmcsim, cpu_seconds

BAR = Bar(">=", 5)
SENSORS = "/redfish/v1/Chassis/System.Embedded.1/Sensors"
_MEMBERS = 50


def run(settings: Settings) -> list[Measure]:
    """Alternate the two for `rounds` rounds of half of `seconds` each."""
    with bmcsim(settings) as started:
        return uvloop.run(_measure(settings, started.server))


async def _measure(settings: Settings, server: Server) -> list[Measure]:
    address = settings.fleet.address(0)
    async with connected(address, server.port, any_certificate()) as connection:
        collection = (await connection.request(encode(address, SENSORS))).body
        members = [one["@odata.id"] for one in orjson.loads(collection)["Members"]]
        if len(members) != _MEMBERS:
            raise BenchError(f"{SENSORS} has {len(members)} members, not {_MEMBERS}")
        gets = [encode(address, member) for member in members]
        expand = [encode(address, f"{SENSORS}?$expand=.")]
        rounds = [
            [await _milliseconds(connection, server, requests, settings.seconds / 2) for requests in (gets, expand)]
            for _ in range(settings.rounds)
        ]
    single, embedded = ([one[number] for one in rounds] for number in (0, 1))
    ratios = [one[0] / one[1] for one in rounds]
    note = "of the server's processor time"
    return [
        Measure(f"{_MEMBERS} GETs", statistics.median(single), "ms", None, single, note),
        Measure(f"$expand of the {_MEMBERS}", statistics.median(embedded), "ms", None, embedded, note),
        Measure("$expand against its GETs", statistics.median(ratios), "x cheaper", BAR, ratios),
    ]


async def _milliseconds(connection: Connection, server: Server, requests: Sequence[bytes], seconds: float) -> float:
    """Processor time of the server for all the requests once. Raises BenchError unless every answer is 200."""
    before, end, times = cpu_seconds(server.pid), time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        for request in requests:
            if (answer := await connection.request(request)).status != 200:
                raise BenchError(f"{answer.status} to {request!r}")
        times += 1
    return 1000 * (cpu_seconds(server.pid) - before) / times
