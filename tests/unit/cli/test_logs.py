"""How the lines of the log look, and of whom there are any."""

import logging
import re
import sys
from typing import Any

import click
import orjson
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.cli.logs import FORMATS, Json, LogOptions, Text, configure, formatter, is_shown, log_options


def record(message: str = "said %s", *args: object, name: str = "bmcsim.x", **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.WARNING, "f", 1, message, args or ("this",), None)
    made.created, made.msecs = 1767323045.678, 678.0
    vars(made).update(extra)
    return made


def failed() -> logging.LogRecord:
    made = record()
    try:
        raise ValueError("no\nway")
    except ValueError:
        made.exc_info = sys.exc_info()
    return made


def test_json() -> None:
    assert orjson.loads(Json().format(record(bmc="host-0", seconds=0.25))) == {
        "time": "2026-01-02T03:04:05.678Z",
        "level": "warning",
        "logger": "bmcsim.x",
        "message": "said this",
        "bmc": "host-0",
        "seconds": 0.25,
    }


def test_json_of_a_failure_is_one_line() -> None:
    line = Json().format(failed())
    assert "\n" not in line
    assert "ValueError: no\nway" in orjson.loads(line)["exception"]


def test_extra_fields_do_not_take_the_place_of_others() -> None:
    assert orjson.loads(Json().format(record(time="never", level="none")))["level"] == "warning"


@pytest.mark.parametrize("odd", ["\ud800", 1 << 70, {1: object()}, {"a": "\udfff"}, float("nan"), b"\xff", object()])
def test_what_json_has_not_is_told_as_text(odd: Any) -> None:
    assert orjson.loads(Json().format(record(odd=odd)))["message"] == "said this"


def test_text() -> None:
    line = Text().format(record(bmc="host 0", status=200))
    assert re.fullmatch(r'2026-01-0\d \d\d:04:05,678 WARNING bmcsim\.x: said this bmc="host 0" status=200', line)


def test_only_a_traceback_adds_lines_to_text() -> None:
    assert "\n" not in Text().format(record("said %s", "this\r\n2026 ERROR bmcsim: that\x1b[2J"))
    first, *rest = Text().format(failed()).splitlines()
    assert first.endswith("said this") and rest[-1] == "way"


@given(st.text(), st.text())
def test_whatever_a_client_sent_is_in_one_line(text: str, extra: str) -> None:
    for name in (*FORMATS, "logfmt"):
        line = formatter(name).format(record("%s", text, extra=extra))
        assert len(line.splitlines()) == 1
        assert "\x1b" not in line and "\0" not in line


@pytest.mark.parametrize(
    ("name", "level", "shown"),
    [
        ("bmcsim", logging.DEBUG, True),
        ("bmcsim.edges.http", logging.DEBUG, True),
        ("bmcsimilar", logging.INFO, False),
        ("uvicorn.error", logging.INFO, True),
        ("uvicorn.error", logging.DEBUG, False),
        ("uvicorn.asgi", 5, False),
        ("python_multipart.multipart", logging.DEBUG, False),
        ("aiohttp.client", logging.INFO, False),
        ("grpc", logging.WARNING, True),
        ("asyncio", logging.ERROR, True),
    ],
)
def test_of_whom_records_are_shown(name: str, level: int, shown: bool) -> None:
    made = record(name=name)
    made.levelno = level
    assert is_shown(made) is shown


def test_it_goes_to_standard_error_with_all_of_that(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.root, "level", logging.WARNING)
    # Servers of other tests leave these as they wanted them.
    for name in ("uvicorn", "uvicorn.error"):
        for attribute, value in (("level", logging.NOTSET), ("disabled", False), ("propagate", True), ("_cache", {})):
            monkeypatch.setattr(logging.getLogger(name), attribute, value)
    configure(LogOptions("json", "debug"))
    logging.getLogger("bmcsim.y").debug("one", extra={"bmc": "b"})
    logging.getLogger("some.library").debug("two")
    logging.getLogger("uvicorn.error").info("three")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [orjson.loads(line)["message"] for line in captured.err.splitlines()] == ["one", "three"]
    before = list(logging.root.handlers)
    configure(LogOptions())
    assert logging.root.handlers == before


@click.command()
@log_options("BMCSIM_SERVE")
def command(logs: LogOptions) -> None:
    """Prints its options."""
    click.echo(f"{logs.format} {logs.level}")


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        ([], {}, "text warning"),
        (["--log-format", "JSON", "--log-level", "Debug"], {}, "json debug"),
        ([], {"BMCSIM_LOG_FORMAT": "json", "BMCSIM_LOG_LEVEL": "info"}, "json info"),
        ([], {"BMCSIM_LOG_LEVEL": "info", "BMCSIM_SERVE_LOG_LEVEL": "error"}, "text error"),
        (["--log-level", "debug"], {"BMCSIM_SERVE_LOG_LEVEL": "error"}, "text debug"),
        ([], {"BMCSIM_LOG_FORMAT": ""}, "text warning"),
    ],
)
def test_options(arguments: list[str], environment: dict[str, str], said: str) -> None:
    assert CliRunner().invoke(command, arguments, env=environment).output.strip() == said


def test_a_wrong_format_is_refused() -> None:
    result = CliRunner().invoke(command, ["--log-format", "xml"])
    assert result.exit_code == 2 and "'text', 'json'" in result.output
