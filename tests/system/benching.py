"""Short runs of benches, on one core."""

import os
from pathlib import Path
from typing import Any

from bench.server import Cores, Fleet, Settings, make_certificate


def short(tmp_path: Path, fleet: Fleet, **more: Any) -> Settings:
    """Settings without waits, and a certificate for them. more: of the settings."""
    core = min(os.sched_getaffinity(0))
    settings = Settings(
        fleet=fleet,
        racks=1,
        rounds=1,
        settle=0,
        idle=0,
        rotate=False,
        cores=Cores(core, (core,)),
        work=tmp_path,
        **{"seconds": 1, **more},
    )
    make_certificate(settings)
    return settings
