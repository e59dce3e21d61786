"""Whether cost grows with the number of BMCs and nothing else does: the same figures for fleets of very different size.

What a fleet costs is a part that any has (the interpreter, the compiled profiles) and a part for each BMC. The first is
measured with one host and its DPUs; what is above it, divided by the BMCs above it, must be the same at every size.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import uvloop

from bench import plot
from bench.density import read_all
from bench.plot import Curve
from bench.report import Bar, Measure, attempted
from bench.server import Fleet, Settings, bmcsim
from bench.stages import Part, latency, life, reading, ready, starts, throughput

SIZES = (300, 3_000, 13_500, 50_001, 100_002)  # BMCs: hosts with two DPUs
DENSITY_ONLY = 100_000  # from here on neither throughput nor latency
REFERENCE = 3_000
RATE = 5_000.0
FACTOR = 2.0
"""Of a cost per BMC, which at the reference is not much more than what a heap and a start vary."""
RATE_FACTOR = 1.5
QUICK = 10  # a quick run has so many times fewer

_DPUS = 2
_ONE = Fleet(1, _DPUS)

Parts = Mapping[int, Mapping[str, Measure]]
"""Measures by name, by BMCs."""


def run(settings: Settings, size: int) -> list[Measure]:
    """Measure a fleet of `size` BMCs. A part that fails is void."""
    bmcs = size // QUICK if settings.quick else size
    fleet = Fleet(bmcs // _ONE.bmcs, _DPUS)
    measures = [Measure("BMCs", fleet.bmcs, "")]
    measures += attempted("one host", lambda: _one_host(settings))
    measures += attempted("start", lambda: starts(settings, fleet, settings.rounds))
    parts: dict[str, Part] = {"memory": ready, "read": partial(reading, fleet)}
    if size < DENSITY_ONLY:
        parts["throughput"] = partial(throughput, settings, fleet)
        parts["open loop"] = partial(latency, settings, fleet, RATE)
    return measures + life(settings, fleet, parts)


def _one_host(settings: Settings) -> list[Measure]:
    started, *_ = [one for one in starts(settings, _ONE, settings.rounds) if one.name == "start to all ready"]
    with bmcsim(settings, _ONE) as single:
        fresh = single.server.rss()
        uvloop.run(read_all(_ONE, single.server))
        read = single.server.rss()
    return [
        Measure("one host: start to all ready", started.value, "s", None, started.samples),
        Measure("one host: memory when ready", fresh / 1024, "MiB"),
        Measure("one host: memory after reading", read / 1024, "MiB"),
    ]


_COSTS = (
    ("start to all ready", "start per BMC", "us", 1e6),
    ("memory when ready", "memory per BMC when ready", "KiB", 1024.0),
    ("memory after reading", "memory per BMC after reading", "KiB", 1024.0),
)


def by_size(runs: Iterable[Sequence[Measure]]) -> Parts:
    """The measures of runs, by the BMCs that each says it had."""
    named = [{one.name: one for one in measures} for measures in runs]
    return {int(found["BMCs"].value): found for found in named if "BMCs" in found}


def costs(parts: Parts) -> dict[int, list[Measure]]:
    """What each BMC beyond the first host costs, by size."""
    found: dict[int, list[Measure]] = {}
    for bmcs, measures in sorted(parts.items()):
        found[bmcs] = []
        for name, cost, unit, scale in _COSTS:
            whole, base = measures.get(name), measures.get(f"one host: {name}")
            if whole is None or base is None or bmcs <= _ONE.bmcs:
                continue
            # What disturbs a start only makes it longer.
            least = [min(one.samples, default=one.value) for one in (whole, base)]
            found[bmcs].append(
                Measure(cost, scale * (least[0] - least[1]) / (bmcs - _ONE.bmcs), unit, void=whole.void or base.void)
            )
    return found


def judge(parts: Parts) -> list[Measure]:
    """Each cost per BMC, and throughput, of every larger size in terms of that of the reference; and latencies.

    The reference is REFERENCE BMCs, or the nearest size that was measured. Smaller ones are not judged: what a few BMCs
    cost is less than what a start and a heap vary.
    """
    each = costs(parts)
    if len(each) < 2:
        return [Measure("linearity", 0, "", void="it takes at least two sizes")]
    reference = min(each, key=lambda bmcs: abs(bmcs - REFERENCE))
    bar, rate_bar = Bar("<", FACTOR), Bar("<", RATE_FACTOR)
    measures: list[Measure] = []
    for _, cost, _, _ in _COSTS:
        known = {bmcs: one for bmcs, found in each.items() for one in found if one.name == cost}
        measures += [
            _ratio(f"{cost}, {bmcs:,} / {reference:,}", one, known.get(reference), bar)
            for bmcs, one in known.items()
            if bmcs > reference
        ]
    rates = {bmcs: found["throughput"] for bmcs, found in parts.items() if "throughput" in found}
    measures += [
        _ratio(f"throughput, {reference:,} / {bmcs:,}", rates.get(reference), one, rate_bar)
        for bmcs, one in sorted(rates.items())
        if bmcs > reference
    ]
    for name in ("open loop: p50", "open loop: p99"):
        known = {bmcs: found[name] for bmcs, found in parts.items() if name in found}
        if len(known) > 1:
            least, most = min(known), max(known)
            text = f"{name.removeprefix('open loop: ')}, {most:,} / {least:,}"
            measures.append(_ratio(text, known[most], known[least], None))
    return measures


def _ratio(name: str, above: Measure | None, below: Measure | None, bar: Bar | None) -> Measure:
    if above is None or below is None:
        return Measure(name, 0, "x", bar, void="one of both was not measured")
    void = above.void or below.void
    if below.value <= 0:
        return Measure(name, 0, "x", bar, void=void or f"the latter is {below.value:.3g} {below.unit}")
    note = f"{above.value:,.3g} and {below.value:,.3g} {above.unit}"
    return Measure(name, above.value / below.value, "x", bar, note=note, void=void)


def draw(path: Path, parts: Parts) -> bool:
    """A plot of all over the number of BMCs. False where there is no matplotlib."""

    def curve(name: str) -> Curve:
        points = [(bmcs, found[name].value) for bmcs, found in sorted(parts.items()) if _known(found.get(name))]
        return [float(bmcs) for bmcs, _ in points], [value for _, value in points]

    return plot.curves(
        path,
        "BMCs",
        {
            "start, s": {"listening": curve("start to listening"), "all ready": curve("start to all ready")},
            "memory, MiB": {"ready": curve("memory when ready"), "after reading": curve("memory after reading")},
            "requests/s": {"throughput": curve("throughput")},
            f"ms at {RATE:,.0f} /s": {"p50": curve("open loop: p50"), "p99": curve("open loop: p99")},
        },
    )


def _known(one: Measure | None) -> bool:
    return one is not None and not one.void
