"""`bmcsim fleet ls`, `show` and `why`, and what they say when there is nobody to ask."""

import json
import os
import socket
from pathlib import Path
from typing import get_args

import click
import pytest
import yaml

from bmcsim.cli import remote
from bmcsim.cli.selection import KINDS, POWERS, STATES, sample_of
from bmcsim.cli.show import FIELDS, WIDE, age, plain, table, watched
from bmcsim.edges.control import views
from bmcsim.edges.control.guard import Guard
from bmcsim.fleet import selection
from bmcsim.machine.identity import Kind
from tests.unit.cli.conftest import Serve, Served, answering, run
from tests.unit.edges.control.asking import call
from tests.unit.edges.control.conftest import TOKEN


def ids(served: Served, *arguments: str) -> list[str]:
    """The ids that `ls` lists."""
    result = served.run("fleet", "ls", *arguments, "-o", "name")
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


def test_the_words_are_those_of_the_api() -> None:
    assert get_args(selection.State) == STATES
    assert get_args(selection.PowerState) == POWERS
    assert set(KINDS) == {str(kind) for kind in Kind}
    assert FIELDS == views.FIELDS
    assert set(WIDE) <= set(FIELDS)


def test_a_table_has_a_line_for_each_bmc(served: Served) -> None:
    assert served.run("fleet", "ls", "--group", "beta").output == (
        "ID      KIND  STATE  POWER  ADDRESS      FAULTS  ERRORS\n"
        "beta-0  host  up     On     127.64.0.17       0       0\n"
        "beta-1  host  up     On     127.64.0.18       0       0\n"
        "beta-2  host  up     On     127.64.0.19       0       0\n"
        "beta-3  host  up     On     127.64.0.20       0       0\n"
    )


def test_other_forms_have_every_fact(served: Served) -> None:
    bmc = served.site.bmc("beta-1")
    wanted = {"id": "beta-1", "rack": "row-7", "serial": bmc.identity.serial}
    for output, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        shown = read(served.run("fleet", "ls", "beta-1", "-o", output).output)
        assert tuple(shown[0]) == FIELDS
        assert {name: shown[0][name] for name in wanted} == wanted
    wide = served.run("fleet", "ls", "beta-1", "-o", "wide").output
    assert bmc.identity.serial in wide and "row-7" in wide


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["beta-1", "--id", "alpha-0"], ["alpha-0", "beta-1"]),
        (["127.64.0.17"], ["beta-0"]),
        (["--group", "alpha", "--kind", "host"], [f"alpha-{number}" for number in range(5)]),
        (["--rack", "row-7", "--limit", "2"], ["beta-0", "beta-1"]),
        (["--hardware", "bluefield3", "--group", "alpha", "-q", "alpha-3"], ["alpha-3-dpu-0", "alpha-3-dpu-1"]),
        (["--address", "127.64.0.16/30", "--group", "beta"], ["beta-0", "beta-1", "beta-2"]),
        (["--group", "beta", "--sort", "-address"], ["beta-3", "beta-2", "beta-1", "beta-0"]),
        (["--state", "resetting"], []),
        (["--power", "Off", "--group", "alpha"], []),
    ],
)
def test_the_options_are_the_words_of_a_selection(served: Served, arguments: list[str], expected: list[str]) -> None:
    assert ids(served, *arguments) == expected


def test_everything_is_listed_however_many_there_are(served: Served) -> None:
    every = [bmc.id for bmc in served.site.fleet]
    assert ids(served) == ids(served, "--all") == every
    assert len(every) > 100
    many = every[::4]
    assert ids(served, *many) == many
    assert served.run("fleet", "ls", *many, "--sort", "errors").exit_code == 2


def test_a_list_is_asked_for_in_pages(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmcsim.cli.selection._PAGE", 50)
    every = [bmc.id for bmc in served.site.fleet]
    assert ids(served) == every
    assert served.said == ["GET bmcs"] * (len(every) // 50 + 1)
    assert ids(served, "--limit", "60") == every[:60]


def test_a_sample_is_the_same_each_time(served: Served) -> None:
    drawn = ids(served, "--sample", "10%")
    assert len(drawn) == round(len(served.site.fleet) / 10)
    assert ids(served, "--sample", "0.1") == drawn != ids(served, "--sample", "10%", "--seed", "2")
    assert len(ids(served, "--sample", "7")) == 7
    assert served.run("fleet", "ls", "--seed", "2").exit_code == 2


@pytest.mark.parametrize("text", ["", "x", "101%", "-1", "1.5", "nan", "inf%", "%", "99999999999"])
def test_a_sample_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="such as 5%"):
        sample_of(click.Context(click.Command("ls")), click.Option(["--sample"]), text)


def test_an_age_is_short() -> None:
    ages = {0: "0s", 59: "59s", 60: "1m", 7199: "1h", 200_000: "2d", -5: "0s"}
    assert {seconds: age("2026-01-02T03:04:05.000Z", 1767323045.0 + seconds) for seconds in ages} == ages


def test_what_came_from_elsewhere_does_nothing_to_a_terminal() -> None:
    assert plain("a\x1b[2Jb\n\x9b") == "a\\x1b[2Jb\\n\\x9b"
    assert list(table([{"id": "\x1b[2J"}], ["id"], 0.0)) == ["ID", "\\x1b[2J"]


# one


def test_one_bmc_is_shown_in_full(served: Served) -> None:
    shown = yaml.safe_load(served.run("fleet", "show", "127.64.0.17").output)
    assert (shown["id"], shown["accounts"][0]["user"], shown["fault_rules"]) == ("beta-0", "root", [])
    both = json.loads(served.run("fleet", "show", "beta-0", "beta-1", "-o", "json").output)
    assert [one["id"] for one in both] == ["beta-0", "beta-1"]


def test_without_a_bmc_the_fleet_is_shown(served: Served) -> None:
    shown = yaml.safe_load(served.run("fleet", "show").output)
    assert shown["by_group"]["beta"] == 4


def test_why_tells_what_failed_and_what_follows(served: Served) -> None:
    bmc = served.site.bmc("beta-0")
    call(served.site, bmc).ask("GET", "/redfish/v1/Systems", password="nonsense-1")
    said = served.run("fleet", "why", "beta-0")
    assert said.exit_code == 0
    assert "NICO-SITEEXPLORER-140" in said.output
    assert "unknown password" in said.output and "nonsense-1" not in said.output
    assert json.loads(served.run("fleet", "why", "beta-0", "-o", "json").output)["failed_login"]["status"] == 401


# nobody


def test_a_bmc_that_is_not_there_is_refused(served: Served) -> None:
    for command in (["ls", "nope"], ["show", "nope"], ["why", "nope"], ["reset", "nope"]):
        result = served.run("fleet", *command)
        assert (result.exit_code, "there is no BMC" in result.output) == (3, True), result.output


def test_where_nobody_listens_it_is_said_what_would_be_right() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    result = run("fleet", "ls", "--url", url)
    assert result.exit_code == 3
    assert f"cannot reach {url}" in result.output and "Is `bmcsim serve` running" in result.output


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "or is this the Redfish port?"),
        (b"\x15\x03\x03\x00\x02\x02\x32", "or is this the Redfish port?"),
        (b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno", "not as an admin listener of bmcsim does"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno", "no JSON"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nno", "broke off its answer"),
    ],
)
def test_others_at_the_url_are_recognised(answer: bytes, said: str) -> None:
    url, ended = answering(answer)
    result = run("fleet", "show", "--url", url)
    ended()
    assert (result.exit_code, said in result.output) == (3, True), result.output


@pytest.mark.parametrize(
    "url", ["127.0.0.1:9090", "ftp://x", "http://", "http://u:p@x", "http://x:99999", "http://x?y"]
)
def test_a_url_that_makes_no_sense_is_wrong_usage(url: str) -> None:
    result = run("fleet", "ls", "--url", url)
    assert (result.exit_code, "must be like http://127.0.0.1:9090" in result.output) == (2, True)


def test_a_change_needs_the_token_where_there_is_one(serve: Serve, tmp_path: Path) -> None:
    served = serve(guard=Guard(TOKEN))
    assert served.run("fleet", "ls").exit_code == 0
    refused = served.run("fleet", "reset", "beta-0")
    assert (refused.exit_code, "--token-file FILE (or BMCSIM_TOKEN_FILE)" in refused.output) == (3, True)
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "wrong").write_text("another-token-of-24-char")
    assert served.run("fleet", "reset", "beta-0", "--token-file", str(tmp_path / "wrong")).exit_code == 3
    assert served.run("fleet", "reset", "beta-0", "--token-file", str(tmp_path / "token")).exit_code == 0
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("BMCSIM_TOKEN_FILE", str(tmp_path / "token"))
        assert served.run("fleet", "reset", "beta-1").exit_code == 0
    missing = served.run("fleet", "ls", "--token-file", str(tmp_path / "nowhere"))
    assert (missing.exit_code, "nowhere: cannot be read" in missing.output) == (2, True)


def test_a_connection_that_was_closed_for_its_idleness_is_made_anew(served: Served) -> None:
    process = remote.Remote(served.url)
    assert process.get("clock")["paused"] is False
    assert process._connection is not None and process._connection.sock is not None
    process._connection.sock.shutdown(socket.SHUT_RDWR)
    assert process.get("clock")["paused"] is False
    process.close()


# again and again


def test_a_watch_goes_on_until_it_is_ended_and_survives_a_restart(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    get = remote.Remote.get

    def sleep(seconds: float) -> None:
        asked.append(seconds)
        if len(asked) == 3:
            raise KeyboardInterrupt

    def sometimes(self: remote.Remote, path: str, query: object = None) -> object:
        if len(asked) == 1:
            raise remote.RemoteError("gone for a moment")
        return get(self, path, query)  # type: ignore[arg-type]

    monkeypatch.setattr("bmcsim.cli.show.time.sleep", sleep)
    monkeypatch.setattr(remote.Remote, "get", sometimes)
    result = served.run("fleet", "ls", "beta-0", "-o", "name", "--watch=7")
    assert (result.exit_code, result.output) == (0, "beta-0\n\ngone for a moment\n\nbeta-0\n")
    assert asked == [7.0, 7.0, 7.0]


def test_on_a_terminal_a_watch_takes_the_place_of_what_was_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[float] = []

    def sleep(seconds: float) -> None:
        asked.append(seconds)
        if len(asked) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("bmcsim.cli.show.time.sleep", sleep)
    monkeypatch.setattr("bmcsim.cli.show.sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("bmcsim.cli.show.shutil.get_terminal_size", lambda: os.terminal_size((4, 3)))
    watched(2.0, lambda: ["1", "23456", "3"])
    assert capsys.readouterr().out == "1\n23456\n3\n\x1b[H\x1b[J1\n2345\n"
