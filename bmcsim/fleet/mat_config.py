"""What a fleet file says about the process of machine-a-tron itself: where its files are and where it listens."""

from collections.abc import Callable
from typing import Any

import msgspec

from bmcsim.fleet import converters
from bmcsim.fleet.conduct import one_of
from bmcsim.fleet.tables import Table

LOG_FORMATS = ("compact", "logfmt")
KEYS = frozenset({"bmc_mock_certs_dir", "log_file", "log_format", "persist_dir", "use_single_bmc_mock"})
"""What `bmcsim mat` uses and `bmcsim serve` does not."""


class MatConfig(msgspec.Struct, frozen=True, kw_only=True):
    """certs_dir: has tls.crt and tls.key. persist_dir: where machines are kept. log_file: None for standard output.
    single: whether one listener serves all BMCs, None where the file is silent, as files of newer versions are."""

    certs_dir: str | None = None
    persist_dir: str | None = None
    log_file: str | None = None
    log_format: str = "compact"
    single: bool | None = None


def read(top: Table) -> MatConfig:
    """An empty text is as good as none: the chart writes one."""
    return MatConfig(
        certs_dir=top.get("bmc_mock_certs_dir", _text_or_none, None),
        persist_dir=top.get("persist_dir", _text_or_none, None),
        log_file=top.get("log_file", _text_or_none, None),
        log_format=top.get("log_format", _or_default(one_of(*LOG_FORMATS), "compact"), "compact"),
        single=top.get("use_single_bmc_mock", converters.flag, None),
    )


def _text_or_none(value: Any) -> str | None:
    return converters.text_or_empty(value) or None


def _or_default(convert: Callable[[Any], str], default: str) -> Callable[[Any], str]:
    return lambda value: default if value == "" else convert(value)
