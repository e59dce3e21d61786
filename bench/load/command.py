"""`python -m bench load`: phases of a site's life, one after the other, against any Redfish endpoints."""

import argparse
import datetime
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from bench import openloop
from bench import report as bench_report
from bench.load import report
from bench.load.clients import Rules
from bench.load.endpoints import Endpoint, of_fleet, read, split
from bench.load.measured import Plan, PlannedStep, Result, load_results
from bench.load.phases import PHASES, Step, schedule
from bench.load.sampler import Sample, Sampler
from bench.racks import Racks
from bench.report import Measure
from bench.server import PASSWORD, R750, USER, BenchError, Cores, Fleet, Settings, bmcsim, free_ports, make_certificate

_ROOT = Path(__file__).parents[2]
_STOP = 10.0
_PORT = 5557  # that of locust's masters
_NICO_TICK = 30.0
_AROUND = 5.0  # seconds within which the sampler must see the server before and after the phases
_GAP = 2.5  # seconds between phases, so that the sampler sees the server idle and its counts belong to one phase

_EXIT = (
    "exit status: 0 every answer was right and every count agrees, 1 one was not, 2 it could not be run, "
    "130 interrupted"
)


def main(arguments: Sequence[str], cores: Cores) -> int:
    """Run what was asked for; the locust processes stay on the cores of the generators."""
    options = _parse(arguments)
    try:
        if importlib.util.find_spec("locust") is None:
            raise BenchError("locust is not installed here: `make load` sets it up (requirements-bench.lock)")
        if options.worker:
            return _work(options)
        with tempfile.TemporaryDirectory(prefix="bench-") as work:
            return _lead(options, cores, Path(work))
    except (BenchError, OSError) as error:
        print(f"load: {error}", file=sys.stderr)
        return 2


def _lead(options: argparse.Namespace, cores: Cores, work: Path) -> int:
    machine = bench_report.describe_machine()
    own = options.endpoints is None
    settings = _settings(options, cores, work)
    if options.rate and not own:
        raise BenchError("--rate is measured with a fleet that the bench starts: leave --endpoints out")
    workers = options.workers + (options.expect if options.master else 0)
    if not workers:
        raise BenchError("no worker: --workers is 0 and no --master waits for others")
    with ExitStack() as stack:
        sampler: Sampler | None = None
        if own:
            names = [name.partition(":")[0] for name in options.phases]
            first = names[0] in ("login", "all")
            if not first and ("login" in names or "all" in names):
                raise BenchError("login must come first: until then BMCs answer nobody")
            make_certificate(settings)
            started = stack.enter_context(
                bmcsim(
                    settings,
                    Racks(options.racks) if options.racks else None,
                    options=_own(options),
                    rotated=not first,
                )
            )
            endpoints = of_fleet(settings.fleet, options.racks, started.server.port, None if first else PASSWORD)
            sampler = Sampler("127.0.0.1", started.admin_port, started.server)
            proxy = f"{started.server.address}:{started.server.port}" if options.proxy is not None else ""
        else:
            endpoints = read(options.endpoints, options.port, options.user, options.password)
            sampler = Sampler(*_host(options.metrics, 9090)) if options.metrics else None
            proxy = _proxy(options.proxy)
        steps = schedule(options.phases, len(endpoints), workers)
        plan = _plan(options, steps, endpoints, workers, proxy)
        phases, samples = _run(plan, options.workers, sampler, work)
    measures: list[Measure] = []
    if options.rate:
        print(f"open loop at {options.rate:,}/s ...", file=sys.stderr, flush=True)
        measures = openloop.run(replace(settings, seconds=options.seconds), [(options.rate, None)])
    run = report.Run(
        at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        command=["python -m bench load", *options.phases],
        machine=machine,
        endpoints=len(endpoints),
        workers=workers,
        proxy=proxy,
        phases=phases,
        samples=samples,
        open_loop=measures,
    )
    print(report.markdown(run))
    for path in report.save(options.out, run):
        print(path)
    return 0 if run.well else 1


def _run(plan: Plan, local: int, sampler: Sampler | None, work: Path) -> tuple[list[Result], list[Sample]]:
    """Master and local workers, until every phase is over."""
    planned, result = work / "plan.json", work / "result.json"
    plan.save(planned)
    with ExitStack() as stack:
        if sampler:
            stack.enter_context(sampler)
            sampler.wait_for_one(_AROUND)
        master = stack.enter_context(_process("master", str(planned), str(result)))
        for _ in range(local):
            stack.enter_context(_process("worker", plan.bind, str(plan.port)))
        if master.wait() or not result.exists():
            raise BenchError("the phases were not run to their end; what is above says why")
        if sampler:
            sampler.wait_for_one(_AROUND)
            sampler.wait_for_one(_AROUND)  # the first one may have been begun before the end
        return load_results(result), sampler.samples if sampler else []


def _work(options: argparse.Namespace) -> int:
    """The workers of this machine for a master elsewhere; until it is done."""
    host, port = _host(options.worker, _PORT)
    with ExitStack() as stack:
        processes = [stack.enter_context(_process("worker", host, str(port))) for _ in range(max(1, options.workers))]
        return max(process.wait() for process in processes)


@contextmanager
def _process(module: str, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A locust process, in a session of its own so that an interrupt comes to this process only."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"bench.load.{module}", *arguments],
        stdin=subprocess.DEVNULL,
        cwd=_ROOT,
        # A phase may be shorter than what locust waits for reports of all users.
        env={**os.environ, "LOCUST_WAIT_FOR_WORKERS_REPORT_AFTER_RAMP_UP": "0.2"},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP)
        process.kill()
        process.wait()


def _plan(
    options: argparse.Namespace, steps: Sequence[Step], endpoints: list[Endpoint], workers: int, proxy: str
) -> Plan:
    bind, port = _host(options.master, _PORT) if options.master else ("127.0.0.1", free_ports(1)[0])
    tick = options.tick or (_NICO_TICK / options.time_scale if options.endpoints is None else _NICO_TICK)
    rules = Rules(options.new_password, tick, options.patience, options.ntp, options.expand)
    try:
        if rules.password.format(index=0, round=1) == rules.password.format(index=0, round=2):
            raise BenchError("--new-password needs {round}: a rotation to the same password shows nothing")
    except (KeyError, IndexError, ValueError, AttributeError, TypeError):
        raise BenchError("--new-password may have {index} and {round}, and no other field") from None
    return Plan(
        steps=[PlannedStep(step.name, step.phase.name, step.users, step.period) for step in steps],
        endpoints=endpoints,
        rules=rules,
        proxy=proxy,
        workers=workers,
        bind=bind,
        port=port,
        seconds=options.seconds,
        timeout=options.timeout,
        gap=_GAP,
    )


def _own(options: argparse.Namespace) -> list[str]:
    return [f"--time-scale={options.time_scale:g}"]


def _proxy(text: str | None) -> str:
    """The HOST:PORT of --proxy, '' for none."""
    if text == "":
        raise BenchError("--proxy needs HOST:PORT with --endpoints")
    return Endpoint(*_host(text, 443), "", "").authority if text else ""


def _host(text: str, port: int) -> tuple[str, int]:
    try:
        return split(text, port)
    except ValueError as error:
        raise BenchError(str(error)) from None


def _settings(options: argparse.Namespace, cores: Cores, work: Path) -> Settings:
    return Settings(
        fleet=Fleet(options.hosts, options.dpus, options.profile),
        racks=options.racks,
        seconds=options.seconds,
        rounds=1,
        settle=0.0,
        idle=0.0,
        rotate=False,
        cores=cores,
        work=work,
    )


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    phases = "\n".join(f"  {phase.name:<8} {phase.what}" for phase in PHASES.values())
    parser = argparse.ArgumentParser(
        prog="python -m bench load",
        description=f"Load Redfish endpoints as NICo does, and check every answer. Phases:\n{phases}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EXIT,
    )
    parser.add_argument("phases", nargs="*", default=["all"], metavar="PHASE[:USERS][@PERIOD]", help="(all)")
    which = parser.add_argument_group("which BMCs; without --endpoints the bench starts bmcsim")
    which.add_argument("--hosts", type=_positive, default=4_500)
    which.add_argument("--dpus", type=int, choices=range(9), default=2, metavar="N", help="of each host (2)")
    which.add_argument("--profile", default=R750, help=f"of the hosts ({R750})")
    which.add_argument("--racks", type=int, default=0, help="so many racks instead of hosts")
    which.add_argument("--time-scale", type=_positive, default=60, help="of the started bmcsim (60)")
    which.add_argument("--endpoints", metavar="FILE|CIDR", help="ADDRESS[:PORT] [USER PASSWORD] a line, or a network")
    which.add_argument("--port", type=_positive, default=443, help="of endpoints without one (443)")
    which.add_argument("--user", default=USER, help=f"of endpoints without one ({USER})")
    which.add_argument("--password", default=PASSWORD, help="of endpoints without one")
    which.add_argument("--proxy", nargs="?", const="", metavar="HOST:PORT", help="ask this with Forwarded: host=...")
    which.add_argument("--metrics", metavar="HOST:PORT", help="Prometheus metrics of the server that is loaded")
    how = parser.add_argument_group("how")
    how.add_argument("--seconds", type=_positive, default=30, help="length of steady phases (30)")
    how.add_argument("--timeout", type=_positive, default=3_600, help="most seconds of any other phase (3600)")
    how.add_argument("--tick", type=float, default=0.0, help="seconds between polls of a BMC (30, by the time scale)")
    how.add_argument("--patience", type=float, default=600.0, help="seconds until a BMC must be back (600)")
    how.add_argument("--ntp", default="", metavar="ADDRESS", help="reset: time server that BMCs are told")
    how.add_argument("--expand", action="store_true", help="use $expand where the service says that it can")
    how.add_argument(
        "--new-password",
        default=Rules().password,
        help=f"after the n-th rotation ({Rules().password})".replace("%", ""),
    )
    how.add_argument("--rate", type=_positive, help="then percentiles at so many requests per second (open loop)")
    where = parser.add_argument_group("locust")
    where.add_argument("--workers", type=int, default=None, help="worker processes here (one per generator core)")
    where.add_argument("--master", metavar="ADDRESS[:PORT]", help=f"wait here for workers elsewhere too (port {_PORT})")
    where.add_argument("--expect", type=_positive, default=1, help="how many of them (1)")
    where.add_argument("--worker", metavar="HOST[:PORT]", help="only run workers, for a master there")
    parser.add_argument("--out", type=Path, default=Path("bench-out"), help="directory of the reports (bench-out)")
    options = parser.parse_args(arguments)
    if options.workers is None:
        options.workers = len(os.sched_getaffinity(0))
    return options


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value
