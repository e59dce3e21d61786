"""The phases of a site's life, after section 7 of NICo's load model, and the plan of a run."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from bench.server import BenchError

Pace = Literal["each", "steady"]


class Phase(NamedTuple):
    """A phase as it is by default.

    pace: 'each' ends when every BMC had its turn once, 'steady' comes back to each BMC every `period` seconds until
    its time is over. client: class of `users`. users: how many at a time. fresh: every turn makes new connections;
    else they are kept. needs: the phase needs BMCs that were looked at.
    """

    name: str
    client: str
    pace: Pace
    users: int
    period: float = 0.0
    fresh: bool = True
    needs: bool = True
    what: str = ""


class Step(NamedTuple):
    """A phase as it is asked for in one run."""

    phase: Phase
    users: int
    period: float

    @property
    def name(self) -> str:
        return f"{self.phase.name}:{self.users}" + (f"@{self.period:g}" if self.period else "")


_BATCH, _EVERY = 90, 120.0  # explorations per run of the site explorer, and seconds between its runs
STEADY_EXPLORATION = _EVERY / _BATCH
"""Seconds between two explorations of a fleet of any size."""

PHASES = {
    phase.name: phase
    for phase in (
        Phase("login", "FirstLogin", "each", 100, needs=False, what="first login, rotation, old and new password"),
        Phase("storm", "SiteExplorer", "each", 200, needs=False, what="every BMC explored at once"),
        Phase("look", "Surveyor", "each", 100, needs=False, what="everything of every BMC read and remembered"),
        Phase("reset", "PreIngestion", "each", 1_000, what="Manager.Reset, wait, time server, clock"),
        Phase("ingest", "Ingestion", "each", 100, what="BIOS settings, boot once, reset, jobs"),
        Phase("explore", "SteadyExplorer", "steady", 30, what="explorations at NICo's pace, If-None-Match"),
        Phase("health", "HealthMonitor", "steady", 64, 60.0, fresh=False, what="every sensor and leak detector"),
        Phase("observe", "Observer", "steady", 64, 300.0, fresh=False, what="power and boot interfaces"),
        Phase("rotate", "SiteRotation", "each", 100, what="a further rotation, a session"),
        Phase("faults", "FaultFinder", "each", 30, what="injected and client-made faults, then all well"),
    )
}

_ASKED = re.compile(r"([a-z]+)(?::(\d{1,6}))?(?:@(\d{1,6}(?:\.\d{1,3})?))?")


def schedule(asked: Sequence[str], endpoints: int, workers: int) -> list[Step]:
    """The steps of a run: PHASE[:USERS][@PERIOD] each, 'all' for every phase in order.

    There are never fewer users than workers, each of which has a share of the BMCs, nor more than BMCs per worker
    need. A look is put before the first phase that needs one. Raises BenchError.
    """
    steps: list[Step] = []
    looked = False
    for text in [name for word in asked for name in (PHASES if word == "all" else (word,))]:
        step = _step(text, endpoints, workers)
        if step.phase.needs and not looked:
            steps.append(_step("look", endpoints, workers))
            looked = True
        looked = looked or step.phase.name == "look"
        steps.append(step)
    return steps


def _step(text: str, endpoints: int, workers: int) -> Step:
    match = _ASKED.fullmatch(text)
    if match is None or match[1] not in PHASES:
        raise BenchError(f"{text!r} is no phase; PHASE[:USERS][@PERIOD], and a phase is one of {', '.join(PHASES)}")
    phase = PHASES[match[1]]
    period = float(match[3] or phase.period or STEADY_EXPLORATION * endpoints)
    if match[3] and (phase.pace == "each" or not period):
        raise BenchError(f"{text!r}: a period is for {', '.join(_steady())}, and longer than 0 s")
    users = int(match[2]) if match[2] else phase.users
    if not users:
        raise BenchError(f"{text!r}: at least one user is needed")
    return Step(phase, max(workers, min(users, endpoints)), period if phase.pace == "steady" else 0.0)


def _steady() -> list[str]:
    return [phase.name for phase in PHASES.values() if phase.pace == "steady"]
