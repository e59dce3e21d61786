"""Which fleet a command is about: that of a file, or one that options describe."""

from pathlib import Path
from typing import NamedTuple

import click

from bmcsim.fleet import config as fleet_config
from bmcsim.fleet.config import FleetConfig


class Choice(NamedTuple):
    """The words of the command line; None for what was not said."""

    file: Path | None
    hosts: int | None
    dpus: int | None
    profile: str | None
    racks: int | None

    def check(self) -> None:
        """Raises UsageError for words that exclude each other."""
        of_hosts = self.hosts is not None or self.dpus is not None or self.profile is not None
        if self.file is not None and (of_hosts or self.racks is not None):
            raise click.UsageError(
                "--hosts, --dpus, --profile and --racks describe a fleet without a file; leave them out or the file"
            )
        if of_hosts and self.racks is not None:
            raise click.UsageError("--racks and --hosts, --dpus and --profile exclude each other; a file may have both")

    def load(
        self, host_password: str | None, dpu_password: str | None, *, pool: bool, mat: bool = False
    ) -> FleetConfig:
        """The fleet. pool, mat: as of `fleet.config.load`. Raises ConfigError."""
        if self.file is not None:
            config = fleet_config.load(self.file, pool=pool, mat=mat)
            return config.with_choices(host_bmc_password=host_password, dpu_bmc_password=dpu_password)
        return fleet_config.default(
            self.hosts or 4500,
            self.dpus,
            self.profile or "dell_poweredge_r750",
            host_password,
            dpu_password,
            racks=self.racks or 0,
        )
