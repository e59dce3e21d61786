"""Where the log goes, and how its lines look.

Rule 1: a record is one line in every format, whatever a client sent; only a traceback adds lines to text.
Rule 2: what was given with a record as `extra` is part of its line.
Rule 3: of other programs' loggers nothing is shown that is meant for their developers: what is in it is theirs to
        decide. Of our own, call sites decide, and give no header fields, bodies or texts of unforeseen errors.
"""

import functools
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import click
import orjson

from bmcsim.core.clock import rfc3339

Command = TypeVar("Command", bound=Callable[..., Any])

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")

_OWN = "bmcsim"
_LEAST = {"uvicorn": logging.INFO}
_KNOWN = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}
_PLAIN = re.compile(r"[^\s\"=\\\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_ESCAPED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class LogOptions(NamedTuple):
    """The options of `log_options`. level: in lower case."""

    format: str = "text"
    level: str = "warning"


def log_options(prefix: str) -> Callable[[Command], Command]:
    """Adds --log-format and --log-level; the command gets them as `logs`, LogOptions. prefix: of its own environment
    variables, which go before those for all commands."""

    def add(command: Command) -> Command:
        @click.option(
            "--log-format",
            envvar=[f"{prefix}_LOG_FORMAT", "BMCSIM_LOG_FORMAT"],
            type=click.Choice(FORMATS, case_sensitive=False),
            default="text",
            show_default=True,
            help="How lines of the log look, which goes to standard error.",
        )
        @click.option(
            "--log-level",
            envvar=[f"{prefix}_LOG_LEVEL", "BMCSIM_LOG_LEVEL"],
            type=click.Choice(LEVELS, case_sensitive=False),
            default="warning",
            show_default=True,
            help="What is logged: this and worse.",
        )
        @functools.wraps(command)
        def with_options(log_format: str, log_level: str, **others: Any) -> Any:
            return command(**others, logs=LogOptions(log_format, log_level))

        return with_options  # type: ignore[return-value]

    return add


def configure(options: LogOptions, handler: logging.Handler | None = None) -> None:
    """Log from now on, to standard error without a handler. Where logging is set up already it stays as it is."""
    handler = handler or logging.StreamHandler()
    handler.setFormatter(formatter(options.format))
    handler.addFilter(is_shown)
    logging.basicConfig(level=options.level.upper(), handlers=[handler])


def formatter(name: str) -> logging.Formatter:
    """The formatter of a format: text, json or logfmt."""
    kinds: dict[str, Callable[[], logging.Formatter]] = {"text": Text, "json": Json, "logfmt": Logfmt}
    return kinds[name]()


def is_shown(record: logging.LogRecord) -> bool:
    """Whether a record may be shown at all; its level has been looked at."""
    top = record.name.partition(".")[0]
    return top == _OWN or record.levelno >= _LEAST.get(top, logging.WARNING)


class Text(logging.Formatter):
    """Lines for people: time, level, logger, message, and the extra fields as key=value."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line without a traceback."""
        line = _ESCAPED.sub(_escape, super().formatMessage(record))
        return " ".join([line, *_pairs(_extra(record))])


class Logfmt(logging.Formatter):
    """key=value lines."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        values = {
            "ts": self.formatTime(record, "%Y-%m-%dT%H:%M:%S"),
            "level": record.levelname.lower(),
            "target": record.name,
            "msg": text,
        }
        return " ".join(_pairs({**values, **_extra(record)}))


class Json(logging.Formatter):
    """One JSON object a line: time (RFC 3339, UTC), level, logger, message, exception if there is one, extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        values: dict[str, Any] = {
            "time": rfc3339(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            values["exception"] = self.formatException(record.exc_info)
        # JSON lets some ends of lines be in texts as they are.
        return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", _json({**_extra(record), **values}))


def _json(values: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(values, default=str).decode()
    except orjson.JSONEncodeError:
        # A half of a surrogate pair, or a number that JSON has not.
        told = {name: str(value).encode("utf-8", "backslashreplace").decode() for name, value in values.items()}
        return orjson.dumps(told).decode()


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _KNOWN}


def _pairs(values: Mapping[str, Any]) -> list[str]:
    return [f"{name}={_quoted(str(value))}" for name, value in values.items()]


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_ESCAPED.sub(_escape, escaped)}"'


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
