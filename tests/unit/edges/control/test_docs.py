"""The page of the API is what the endpoints are."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_the_page_of_the_api_is_current() -> None:
    made = subprocess.run([sys.executable, "docs/make_api.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (ROOT / "docs/api.md").read_text() == made.stdout, "python docs/make_api.py > docs/api.md"
