"""The examples of docs/testing.md work."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 9


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_works(example: str, tmp_path: Path) -> None:
    """As a program of its own, or as a test where it has one."""
    program = tmp_path / "test_example.py"
    program.write_text(example)
    as_test = "\ndef test_" in example
    command = [sys.executable, *(["-m", "pytest", "-q", "-p", "no:cacheprovider"] if as_test else []), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not as_test or "1 passed" in done.stdout
