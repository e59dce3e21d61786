"""Command line of the benchmarks."""

import argparse
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench import (
    connections,
    density,
    dhcp,
    expand,
    idle,
    lifecycle,
    openloop,
    page,
    peers,
    plot,
    racks,
    report,
    restart,
    scale,
    shards,
    soak,
    stages,
    status,
    storm,
    streams,
    throughput,
)
from bench.load import command as load_command
from bench.report import Measure
from bench.server import R750, Cores, Fleet, Peer, Settings, make_certificate

Bench = Callable[[Settings], list[Measure]]

BENCHES: dict[str, Bench] = {
    "density": density.run,
    "throughput": throughput.run,
    "gb200": throughput.run_gb200,
    "openloop": openloop.run,
    "connections": connections.run,
    "racks": racks.run,
    "storm": storm.run,
    "expand": expand.run,
    "dhcp": dhcp.run,
    "streams": streams.run,
    "lifecycle": lifecycle.run,
    "restart": restart.run,
    "soak": soak.run,
    "peers": peers.run,
    "idle": idle.run,
    "shards": shards.run,
    "status": status.run,
}
# Those of which each part is a run of its own, with a file of its own.
PARTED: dict[str, dict[str, Bench]] = {
    "stages": {f"stages-{name}": partial(stages.run, name=name) for name in stages.STAGES},
    "scale": {f"scale-{size}": partial(scale.run, size=size) for size in scale.SIZES},
}

_ALONE = {"soak", "peers", "idle", "shards", "status"}  # not part of "all", and neither are the parted ones
_HOSTS = {"soak": soak.HOSTS}

_QUIET = 0.5  # load average above which something else runs here, or ran a moment ago

_EXIT = "exit status: 0 every bar is reached, 1 one is missed or its measurement is void, 130 interrupted"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for, print the table and write the JSON file."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    of_load = words[:1] == ["load"]  # has options of its own
    if words[:1] == ["page"]:
        return page.main(words[1:])
    options = _parse([] if of_load else words)
    # INT is set because a shell's background jobs inherit that it is ignored. TERM and HUP become INT, which asyncio
    # turns into a cancelled task; an exception out of a signal handler could strike inside one of its callbacks.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    cores = Cores.of_machine()
    if cores.server in cores.generators:
        print("only one core: the generators share it with the server, so rates will be low", file=sys.stderr)
    machine = report.describe_machine()
    load, *_ = os.getloadavg()
    if load > _QUIET:
        print(f"the machine is busy already (load average {load:.1f}): do not trust the numbers", file=sys.stderr)
    os.sched_setaffinity(0, cores.generators)
    try:
        if of_load:
            return load_command.main(words[1:], cores)
        with tempfile.TemporaryDirectory(prefix="bench-") as work:
            settings = _settings(options, cores, Path(work))
            make_certificate(settings)
            found = _run(_chosen(options), settings, machine)
            if options.bench == "scale" and len(found) > 1:
                found["scale"] = _judge_scale(found, settings, machine)
    except KeyboardInterrupt:
        print("interrupted; the servers are stopped, and what was measured is in the directory", file=sys.stderr)
        return 130
    if options.bench not in PARTED:
        print(f"\n{settings.fleet.hosts:,} hosts with {settings.fleet.dpus} DPUs: {settings.fleet.bmcs:,} BMCs\n")
    measures = [
        replace(one, name=f"{name.partition('-')[2]}: {one.name}") if "-" in name else one
        for name, ones in found.items()
        for one in ones
    ]
    report.print_table(measures)
    return 1 if any(measure.verdict in ("MISS", "VOID") for measure in measures) else 0


def _chosen(options: argparse.Namespace) -> dict[str, Bench]:
    if options.bench == "all":
        return {name: bench for name, bench in BENCHES.items() if name not in _ALONE}
    if options.bench in PARTED:
        only = f"{options.bench}-{options.stage if options.bench == 'stages' else options.size}"
        parts = PARTED[options.bench]
        return {only: parts[only]} if only in parts else parts
    return {options.bench: BENCHES[options.bench]}


def _run(benches: Mapping[str, Bench], settings: Settings, machine: Mapping[str, object]) -> dict[str, list[Measure]]:
    """Run the benches one after the other, and save what each found. One that cannot be made is a void line."""
    found: dict[str, list[Measure]] = {}
    for name, bench in benches.items():
        found[name] = report.attempted(name, partial(bench, settings))
        print(report.save(settings.out, name, machine, settings, found[name]), file=sys.stderr)
    return found


def _judge_scale(
    found: Mapping[str, list[Measure]], settings: Settings, machine: Mapping[str, object]
) -> list[Measure]:
    """The verdict on all sizes together, saved with a plot."""
    parts = scale.by_size(found.values())
    measures = scale.judge(parts)
    print(report.save(settings.out, "scale", machine, settings, measures), file=sys.stderr)
    if not scale.draw(settings.out / "scale.png", parts):
        print(plot.MISSING, file=sys.stderr)
    return measures


def _settings(options: argparse.Namespace, cores: Cores, work: Path) -> Settings:
    quick = options.quick
    return Settings(
        fleet=Fleet(
            options.hosts or _HOSTS.get(options.bench) or (100 if quick else 4_500), options.dpus, options.profile
        ),
        racks=options.racks or (5 if quick else 250),
        seconds=options.seconds or (3 if quick else 10),
        rounds=options.rounds or (2 if quick else 5),
        settle=2.0 if quick else 15.0,
        idle=5.0 if quick else 20.0,
        rotate=options.rotate,
        cores=cores,
        work=work,
        minutes=options.minutes,
        seed=options.seed,
        peers=options.peer,
        peers_venv=options.peers_venv,
        out=options.out,
        quick=quick,
        rate=options.rate or 0.0,
    )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure bmcsim against the numbers it promises. Two others have options of their own: "
        "load --help, and page --help, which writes docs/benchmarks.md.",
        epilog=_EXIT,
    )
    parser.add_argument("bench", nargs="?", choices=[*BENCHES, *PARTED, "all"], default="all")
    parser.add_argument("--hosts", type=_positive, help="hosts (4500)")
    parser.add_argument("--profile", default=R750, help=f"of the hosts ({R750})")
    parser.add_argument("--dpus", type=_natural, default=2, help="BlueField-3 DPUs per host (2)")
    parser.add_argument("--racks", type=_positive, help="racks: how many NVL72 (250)")
    parser.add_argument("--seconds", type=_positive, help="length of one round (10)")
    parser.add_argument("--rounds", type=_positive, help="rounds, of which the median counts (5)")
    parser.add_argument("--rotate", action="store_true", help="density: also rotate every password")
    parser.add_argument("--stage", choices=stages.STAGES, help="stages: only this one")
    parser.add_argument("--size", type=int, choices=scale.SIZES, help="scale: only so many BMCs")
    parser.add_argument("--rate", type=_positive, help="idle: requests per second (12400, less for a small fleet)")
    parser.add_argument("--minutes", type=float, default=10.0, help="soak: how long (10)")
    parser.add_argument("--seed", type=_natural, default=1, help="soak: of all that is left to chance (1)")
    parser.add_argument(
        "--peer",
        type=_peer,
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="peers: what serves Redfish at 127.0.0.1:{port} over TLS with {cert} and {key}; may be repeated",
    )
    parser.add_argument(
        "--peers-venv", type=Path, default=Path("/tmp/bmcsim-peers"), help="peers: has sushy-tools (/tmp/bmcsim-peers)"
    )
    parser.add_argument("--out", type=Path, default=Path("bench-out"), help="directory of the JSON files (bench-out)")
    parser.add_argument("--quick", action="store_true", help="100 hosts, 2 rounds of 3 seconds, short waits")
    return parser.parse_args(arguments)


def _peer(text: str) -> Peer:
    name, _, command = text.partition("=")
    if not name or "{port}" not in command:
        raise argparse.ArgumentTypeError("must be NAME=COMMAND, with {port} in the command")
    return Peer(name, command)


def _natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


if __name__ == "__main__":
    sys.exit(main())
