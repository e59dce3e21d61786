"""All of these tests need Helm."""

from pathlib import Path

import pytest

from tests.deploy import helm


@pytest.fixture(scope="session", autouse=True)
def program() -> Path:
    """Helm. Skips where there is none."""
    return helm.require()
