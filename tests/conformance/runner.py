"""Runs tools against profiles, each pair sealed and with a service of its own, a few at a time."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests.conformance import sealed
from tests.conformance.results import Outcome
from tests.conformance.targets import Target, discover
from tests.conformance.tools import TOOLS, ReportError, Tool, read

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("BMCSIM_SHARED", ROOT.parent / "shared"))
OEM_CSDL = ROOT / "profiles" / "schemas"
MERGED = "csdl"  # the folder in --out that the service validator reads
_START_SECONDS = 90  # to start a service, and to end it
_JOBS_PER_CORE = 3  # two of the three tools wait most of the time

Pair = tuple[str, str]
"""A profile and a tool."""


def default_csdl() -> Path:
    """The folder of DMTF's schemas: $BMCSIM_CSDL, or the one beside this checkout."""
    return Path(os.environ.get("BMCSIM_CSDL") or SHARED / "data" / "csdl")


def default_jobs() -> int:
    """How many pairs run at a time."""
    return _JOBS_PER_CORE * len(os.sched_getaffinity(0))


def why_skipped(tool: Tool, csdl: Path, why_not_sealed: str) -> str:
    """Why a tool cannot be run, '' if it can."""
    if why_not_sealed:
        return why_not_sealed
    if tool.version is None:
        return f"{tool.package} is not installed"
    if tool.needs_csdl and not csdl_is_there(csdl):
        return f"no CSDL files in {csdl}; name a folder with --csdl or BMCSIM_CSDL"
    return ""


def csdl_is_there(csdl: Path) -> bool:
    """Whether a folder has schemas."""
    return any(csdl.glob("*.xml"))


def run(
    pairs: Sequence[Pair], out: Path, csdl: Path, jobs: int, tell: Callable[[Outcome], object] = lambda _: None
) -> list[Outcome]:
    """Run pairs of profile and tool; the outcomes in the same order. tell: hears of each when it is there.

    What tools and services write goes to OUT/PROFILE/TOOL. No process is left behind, whatever happens.
    """
    targets = discover()
    why_not_sealed = sealed.why_not()
    out.mkdir(parents=True, exist_ok=True)
    schemas = out / MERGED
    _merge(csdl, schemas)
    outcomes: dict[Pair, Outcome] = {}
    waiting: list[Pair] = []
    for pair in pairs:
        profile, name = pair
        if skipped := why_skipped(TOOLS[name], csdl, why_not_sealed):
            outcomes[pair] = Outcome(profile, name, TOOLS[name].version or "", skipped=skipped)
            tell(outcomes[pair])
        else:
            waiting.append(pair)
    waiting.sort(key=lambda pair: list(TOOLS).index(pair[1]), reverse=True)
    running: list[_Running] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                profile, name = waiting.pop()
                running.append(_start(targets[profile], TOOLS[name], out / profile / name, schemas))
            for one in list(running):
                if (ended := one.ended()) is not None:
                    running.remove(one)
                    outcomes[one.target.profile, one.tool.name] = ended
                    tell(ended)
            time.sleep(0.1)
    finally:
        for one in running:
            one.kill()
    return [outcomes[pair] for pair in pairs]


def _merge(csdl: Path, schemas: Path) -> None:
    """Our own schemas beside DMTF's, in the one flat folder that the service validator reads."""
    shutil.rmtree(schemas, ignore_errors=True)
    schemas.mkdir()
    for folder in (csdl, OEM_CSDL):
        for file in folder.glob("*.xml"):
            shutil.copyfile(file, schemas / file.name)


@dataclass(slots=True)
class _Running:
    target: Target
    tool: Tool
    folder: Path
    process: "subprocess.Popen[bytes]"
    began: float

    def ended(self) -> Outcome | None:
        """Its outcome, None while it runs."""
        seconds = time.monotonic() - self.began
        if (status := self.process.poll()) is None:
            if seconds < self.tool.timeout + _START_SECONDS:
                return None
            status = 124
        self.kill()
        return msgspec.structs.replace(self._outcome(status), seconds=round(seconds, 1))

    def kill(self) -> None:
        """End it with everything that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _outcome(self, status: int) -> Outcome:
        profile, tool = self.target.profile, self.tool
        if status == 124:
            return Outcome(profile, tool.name, tool.version or "", error=f"did not end in {tool.timeout} s")
        printed, log = _text(self.folder / "printed.txt"), _text(self.folder / "sealed.log")
        try:
            return read(profile, tool, self.folder / "report", printed)
        except ReportError as error:
            last = " ".join((printed + log).split())[-300:]
            text = f"{error} (exit status {status}; last words: {last!r}; see {self.folder})"
            return Outcome(profile, tool.name, tool.version or "", error=text)


def _text(path: Path) -> str:
    """What is in a file that may not be there."""
    return path.read_text(errors="replace") if path.is_file() else ""


def _start(target: Target, tool: Tool, folder: Path, schemas: Path) -> _Running:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    job = sealed.Job(
        target.profile,
        tool.name,
        target.address,
        target.user,
        target.password,
        target.arguments,
        str(folder.resolve()),
        str(schemas.resolve()),
        sealed.namespace(),
    )
    written = folder / "job.json"
    written.write_bytes(msgspec.json.encode(job))
    with (folder / "sealed.log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", "-rn", sys.executable, "-m", "tests.conformance.sealed", str(written.resolve())],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return _Running(target, tool, folder, process, time.monotonic())


def all_pairs(profiles: Sequence[str] = (), tools: Sequence[str] = ()) -> Iterator[Pair]:
    """Every profile with every tool, or those that are named."""
    for profile in profiles or discover():
        for tool in tools or TOOLS:
            yield profile, tool
