"""One small fleet for all real clients, served over TLS in a process of its own."""

import warnings
from collections.abc import Iterator

import pytest

from tests.serving import Process, serving

HOST, DPU, NEIGHBOUR = "127.64.0.2", "127.64.0.3", "127.64.0.5"


@pytest.fixture(scope="package")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Two hosts with two DPUs each, rotated to 'P', hardware sixty times faster."""
    output = tmp_path_factory.mktemp("fleet") / "serve.log"
    arguments = ("--hosts", "2", "--dpus", "2", "--host-password", "P", "--dpu-password", "P", "--time-scale", "60")
    with serving(output, *arguments) as process:
        yield process


@pytest.fixture
def factory_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One host with one DPU, as they leave the factory."""
    output = tmp_path_factory.mktemp("factory") / "serve.log"
    with serving(output, "--hosts", "1", "--dpus", "1", "--time-scale", "60") as process:
        yield process


@pytest.fixture(autouse=True)
def _quiet_clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Third-party clients warn about unverified TLS and old Python interfaces; that is not ours to fail on."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
