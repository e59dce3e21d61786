import pytest

from bmcsim.fleet.nico_config import NicoConfig, read
from bmcsim.fleet.tables import Findings, Table


def reading(**values: object) -> tuple[NicoConfig | None, Findings]:
    findings = Findings("f")
    return read(Table(findings, "", values)), findings


@pytest.mark.parametrize(
    ("url", "address", "shown"),
    [
        ("https://api.nico:1079", "api.nico:1079", "https://api.nico:1079"),
        ("https://api.nico/", "api.nico:443", "https://api.nico:443"),
        ("http://127.0.0.1:9", "127.0.0.1:9", "http://127.0.0.1:9"),
        ("https://[fd00::1]:1079", "[fd00::1]:1079", "https://[fd00::1]:1079"),
    ],
)
def test_urls(url: str, address: str, shown: str) -> None:
    nico, findings = reading(carbide_api_url=url)
    assert nico is not None
    assert (nico.address, nico.url, findings.errors) == (address, shown, [])
    assert (nico.register, nico.proxy_host, nico.cleanup) == (True, None, False)


@pytest.mark.parametrize(
    "url", ["", "api:1079", "ftp://api", "https://", "https://a:x", "https://a/b", "https://u:p@a", "https://a?b", 7]
)
def test_urls_that_are_none(url: object) -> None:
    nico, findings = reading(carbide_api_url=url)
    assert nico is None
    assert len(findings.errors) == 1
    assert findings.errors[0].startswith("f: carbide_api_url: must be a ")


def test_other_keys() -> None:
    nico, findings = reading(
        carbide_api_url="https://a",
        register_expected_machines=False,
        configure_carbide_bmc_proxy_host="bmcsim.example",
        cleanup_on_quit=True,
    )
    assert nico is not None
    assert (nico.register, nico.proxy_host, nico.cleanup, findings.errors) == (False, "bmcsim.example", True, [])


@pytest.mark.parametrize("host", ["a:1", "a/b", "", "[fd00::1]", "a b"])
def test_a_proxy_is_a_host_without_a_port(host: str) -> None:
    _, findings = reading(carbide_api_url="https://a", configure_carbide_bmc_proxy_host=host)
    assert len(findings.errors) == 1
    assert "configure_carbide_bmc_proxy_host" in findings.errors[0]


def test_keys_that_do_nothing_without_a_url() -> None:
    nico, findings = reading(cleanup_on_quit=True)
    assert nico is None
    assert findings.warnings == ["f: cleanup_on_quit: does nothing without carbide_api_url"]


def test_a_nico_that_is_left_alone() -> None:
    findings = Findings("f")
    assert read(Table(findings, "", {"carbide_api_url": "https://a"}), leave=True) is None
    read(Table(findings, "", {"carbide_api_url": "nonsense"}), leave=True)
    assert len(findings.errors) == 1
