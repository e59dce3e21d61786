"""Benches over sites of any size: what is asked of whom, and what is made of the figures."""

import asyncio
import time
from array import array
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from bench import openloop, scale
from bench import stages as bench_stages
from bench.__main__ import _chosen, _parse, _run
from bench.client import Response
from bench.idle import Kept, Pinned
from bench.openloop import Outcome
from bench.paths import Tree, mix
from bench.racks import Racks
from bench.report import Measure, attempted
from bench.server import Cores, Fleet, Settings
from bench.stages import spread


def tree(*sensors: str, leaks: tuple[str, ...] = ()) -> Tree:
    return Tree(("/redfish/v1",), (), leaks, sensors, {}, "")


def outcome(due: int, done: int, **more: Any) -> Outcome:
    fields: dict[str, Any] = {
        "latencies": array("d", [0.001] * done),
        "seconds": 10.0,
        "refused": 0,
        "unanswered": 0,
        "generator_busy": 5.0,
        "server_busy": 95.0,
        **more,
    }
    return Outcome(due=due, done=done, **fields)


def parts(**values: dict[int, float]) -> scale.Parts:
    found: dict[int, dict[str, Measure]] = {}
    for name, by_size in values.items():
        for bmcs, value in by_size.items():
            text = name.replace("_", " ").replace("one host", "one host:").replace("open loop", "open loop:")
            found.setdefault(bmcs, {})[text] = Measure(text, value, "")
    return found


def test_every_resource_of_every_bmc_is_as_likely_as_any_other() -> None:
    fleet = Fleet(50, 2)
    asked = mix(fleet, {"host": tree("a", "b"), "dpu": tree("c")}, 20_000)
    assert asked == mix(fleet, {"host": tree("a", "b"), "dpu": tree("c")}, 20_000)
    counts = Counter(request.path for request in asked)
    assert counts["/redfish/v1"] == pytest.approx(2_000, rel=0.15)
    assert [counts[path] for path in "abc"] == pytest.approx([4_500, 4_500, 9_000], rel=0.1)
    assert all(
        (fleet.role(request.index) == "dpu") == (request.path == "c") for request in asked if len(request.path) == 1
    )
    assert {request.index for request in asked} == set(range(150))


def test_without_sensors_there_is_no_mix() -> None:
    with pytest.raises(Exception, match="no BMC has a sensor"):
        mix(Fleet(1, 0), {"host": tree()}, 1)


def test_the_bmcs_of_racks_have_roles_and_passwords() -> None:
    racks = Racks(1)
    roles = Counter(racks.role(index) for index in range(racks.bmcs))
    assert racks.bmcs == 71
    assert roles["wiwynn_gb200_nvl"] == 18
    assert roles["DPU of wiwynn_gb200_nvl"] == 36
    assert all(racks.password(index) for index in range(racks.bmcs))
    assert racks.address(0) != racks.address(70)


def test_connections_are_spread_from_the_first_bmc_to_the_last() -> None:
    fleet = Fleet(100, 2)
    assert spread(fleet, 3) == [fleet.address(0), fleet.address(100), fleet.address(200)]
    assert spread(Fleet(1, 1), 4) == ["127.64.0.2", "127.64.0.2", "127.64.0.3", "127.64.0.3"]


def test_100_000_addresses_are_of_127_8() -> None:
    assert Fleet(33_334, 2).address(100_001) == "127.65.134.163"


def test_a_rate_is_that_of_the_fleet_up_to_the_lower_one() -> None:
    assert openloop.fitting(2) == pytest.approx(1.84)
    assert openloop.fitting(13_500) == openloop.fitting(50_000) == 12_400


@pytest.mark.parametrize(
    ("found", "void"),
    [
        (outcome(18, 14), ""),
        (outcome(1_000, 985), ""),
        (outcome(1_000, 970), "97.0 % of the rate, limited by the server"),
        (outcome(1_000, 1_000, refused=1), "1 responses were errors"),
        (outcome(0, 0), ""),
    ],
)
def test_a_percentile_is_void_where_the_rate_was_not_reached(found: Outcome, void: str) -> None:
    achieved, p99 = openloop.judge("x", None, found)
    assert achieved.value == found.done / 10
    assert p99.void == void


def test_a_request_waits_for_the_connection_of_its_bmc() -> None:
    class Wire:
        def __init__(self) -> None:
            self.sent: list[bytes] = []

        def write(self, data: bytes) -> None:
            self.sent.append(data)

    async def play() -> tuple[Pinned, list[Wire]]:
        generator = Pinned(1_000.0, 1.0, [(0, b"a"), (0, b"b"), (1, b"c")])
        generator.streams = [Kept(generator), Kept(generator)]
        wires = [Wire(), Wire()]
        for stream, wire in zip(generator.streams, wires, strict=True):
            stream.first = None
            stream.transport = cast(asyncio.Transport, wire)
        now = time.perf_counter()
        generator._due = array("d", [now - 3, now - 2, now - 1, float("inf")])
        generator.measured, generator.end = now - 2.5, now + 60
        generator.send_due()
        assert [wire.sent for wire in wires] == [[b"a"], [b"c"]]
        assert generator.unanswered == 3
        for stream in generator.streams:
            stream.responded(Response(200, b""))
        assert wires[0].sent == [b"a", b"b"]
        generator.streams[0].responded(Response(503, b""))
        return generator, wires

    generator, wires = asyncio.run(play())
    assert [wire.sent for wire in wires] == [[b"a", b"b"], [b"c"]]
    assert (generator.unanswered, generator.due, generator.refused) == (0, 2, 1)
    # Of b, which waited, latency counts from when it was due; a was due in the warm-up.
    assert list(generator.latencies) == pytest.approx([1.0, 2.0], abs=0.5)


def test_what_grows_with_the_fleet_is_found() -> None:
    found = parts(
        one_host_memory_when_ready={300: 50.0, 3_000: 50.0, 50_001: 50.0},
        memory_when_ready={300: 49.0, 3_000: 53.0, 50_001: 350.0},
        throughput={300: 100.0, 3_000: 100.0, 50_001: 80.0},
        open_loop_p99={300: 2.0, 3_000: 2.0, 50_001: 3.0},
    )
    judged = {one.name: one for one in scale.judge(found)}
    assert judged["memory per BMC when ready, 50,001 / 3,000"].verdict == "MISS"
    assert judged["throughput, 3,000 / 50,001"].verdict == "PASS"
    assert judged["p99, 50,001 / 300"].value == 1.5
    assert not any("300 / 3,000" in name for name in judged)


def test_linearity_is_void_without_what_it_is_judged_by() -> None:
    assert [one.verdict for one in scale.judge(parts(throughput={300: 1.0}))] == ["VOID"]
    base = {"one_host_memory_when_ready": {3_000: 50.0, 13_500: 50.0}}
    (judged,) = scale.judge(parts(memory_when_ready={3_000: 50.0, 13_500: 60.0}, **base))
    assert judged.void
    found: dict[int, dict[str, Measure]] = {
        bmcs: dict(measures) for bmcs, measures in parts(memory_when_ready={3_000: 51.0, 13_500: 55.0}, **base).items()
    }
    found[13_500]["memory when ready"] = Measure("memory when ready", 55.0, "", void="it died")
    assert [one.void for one in scale.judge(found)] == ["it died"]


def settings(tmp_path: Path) -> Settings:
    return Settings(
        Fleet(1, 0), 1, 1, 1, 0, 0, rotate=False, cores=Cores(0, (0,)), work=tmp_path, out=tmp_path, quick=True
    )


def test_a_bench_that_fails_is_void_and_does_not_lose_the_others(tmp_path: Path) -> None:
    def broken(_: Settings) -> list[Measure]:
        raise KeyError("gone")

    benches = {"a": lambda _: [Measure("x", 1, "s")], "b": broken, "c": lambda _: [Measure("y", 2, "s")]}
    found = _run(benches, settings(tmp_path), {})
    assert [(name, [one.verdict for one in ones]) for name, ones in found.items()] == [
        ("a", [""]),
        ("b", ["VOID"]),
        ("c", [""]),
    ]
    saved = [orjson.loads(next(tmp_path.glob(f"{name}-*.json")).read_bytes()) for name in "abc"]
    assert [one["measures"][0]["void"] for one in saved] == ["", "'gone'", ""]
    assert saved[0]["settings"]["quick"] is True


def test_a_part_that_fails_does_not_lose_what_came_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_server(*_: object) -> Any:
        raise OSError("no such program")

    monkeypatch.setattr(bench_stages, "bmcsim", no_server)
    found = bench_stages.run(settings(tmp_path), "1x1")
    assert [(one.name, one.void) for one in found] == [
        ("BMCs", ""),
        ("start", "no such program"),
        ("server", "no such program"),
    ]
    assert attempted("x", partial(bench_stages.starts, settings(tmp_path), Fleet(1, 0), 1))[0].verdict == "VOID"


@pytest.mark.parametrize(
    ("words", "benches"),
    [
        (["stages", "--stage", "250racks"], ["stages-250racks"]),
        (["scale", "--size", "3000"], ["scale-3000"]),
        (["scale"], [f"scale-{size}" for size in scale.SIZES]),
        (["idle"], ["idle"]),
    ],
)
def test_a_part_can_be_run_alone(words: list[str], benches: list[str]) -> None:
    assert list(_chosen(_parse(words))) == benches


def test_all_is_what_is_short() -> None:
    chosen = set(_chosen(_parse([])))
    assert {"density", "throughput", "openloop"} <= chosen
    assert not chosen & {"idle", "soak", "peers", "stages-1x1", "scale-300"}


@pytest.mark.parametrize(
    ("error", "void"),
    [
        (OSError("one line"), "one line"),
        (OSError("its log ends:\nTraceback\n\nValueError: x\n"), "its log ends: ValueError: x"),
        (TimeoutError(), "TimeoutError()"),
        (ValueError("x" * 1_000), "x" * 300),
    ],
)
def test_the_reason_of_a_void_is_one_line(error: Exception, void: str) -> None:
    def failing() -> list[Measure]:
        raise error

    (measure,) = attempted("x", failing)
    assert measure.void == void
