"""The command line of a peer, and the table of all."""

from pathlib import Path

import pytest

from bench.__main__ import main
from bench.peers import Figures, filled, markdown
from bench.server import Cores, Fleet, Settings


def test_a_command_gets_what_only_the_run_knows(tmp_path: Path) -> None:
    work = tmp_path / "with blank"
    cores = Cores(0, (0,))
    settings = Settings(Fleet(1, 0), 1, 1, 1, 0, 0, rotate=False, cores=cores, work=work)
    command = filled("mock --port {port} --cert {cert} -n {bmcs} {other}", settings, 4711, 3)
    assert command == f"mock --port 4711 --cert '{work}/certificate.pem' -n 3 {{other}}"


def test_the_table_has_a_row_for_each() -> None:
    lines = markdown([Figures("a", 1000, 10, 4.2, 0.5, 0, "x"), Figures("b", 10, 1, 900, 1.5, 0, "y")]).splitlines()
    assert lines[2] == "| a | 1,000 | 10 | 4.2 | 0.50 | x |"
    assert len({line.count("|") for line in lines}) == 1


@pytest.mark.parametrize("text", ["mock", "=mock {port}", "mock=run --port 1"])
def test_a_peer_without_name_or_port_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["peers", "--peer", text])
    assert "NAME=COMMAND, with {port}" in capsys.readouterr().err
