"""Programs in the PATH that answer as a test says, and write down what they were asked."""

import json
import os
import sys
from pathlib import Path

import pytest

_PROGRAM = """#!{python}
import json, os, sys
here = {folder!r}
asked = [{name!r}, *sys.argv[1:]]
given = sys.stdin.read()
with open(os.path.join(here, "asked"), "a") as log:
    log.write(json.dumps([asked, given]) + "\\n")
with open(os.path.join(here, "answers")) as file:
    answers = json.load(file)
line = " ".join(asked)
for at, (part, out, err, code, times) in enumerate(answers):
    if part in line and times != 0:
        answers[at][4] = times - 1
        with open(os.path.join(here, "answers"), "w") as file:
            json.dump(answers, file)
        sys.stdout.write(out)
        sys.stderr.write(err)
        sys.exit(code)
"""


class Programs:
    """kubectl, helm, psql and jq. What no answer is for ends well and says nothing."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._answers: list[tuple[str, str, str, int, int]] = []
        for name in ("kubectl", "helm", "psql", "jq"):
            text = _PROGRAM.format(python=sys.executable, folder=str(folder), name=name)
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        (folder / "answers").write_text("[]")
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def says(self, part: str, out: str = "", *, err: str = "", code: int = 0, times: int = -1) -> None:
        """What a command line with some part in it is answered, so many times (-1: always)."""
        self._answers.append((part, out, err, code, times))
        (self._folder / "answers").write_text(json.dumps(self._answers))

    def asked(self) -> list[list[str]]:
        """The command lines."""
        return [line for line, _ in self._lines()]

    def given(self, part: str) -> str:
        """What the one command line with some part in it had on its standard input."""
        (found,) = [given for line, given in self._lines() if part in " ".join(line)]
        return found

    def _lines(self) -> list[tuple[list[str], str]]:
        log = self._folder / "asked"
        return [tuple(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []
