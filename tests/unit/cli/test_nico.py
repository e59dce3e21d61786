from pathlib import Path

import click
import pytest

from bmcsim.cli import nico
from bmcsim.cli.nico import NicoOptions, Site, site_of
from bmcsim.edges.nico.certificates import CLI_FILE, Files, NicoError
from bmcsim.fleet.config import FleetConfig, load
from tests.nico_api import Authority

API = 'carbide_api_url = "{url}"\n{more}\n[machines.a]\nhost_count = 1\nbmc_dhcp_relay_address = "10.1.0.1"\n'
API += 'underlay_dhcp_relay_address = "10.1.0.2"\nhost_inband_dhcp_relay_address = "10.1.0.3"\n'
LENIENT, STRICT = NicoOptions(), NicoOptions(strict_registration=True)


def config(directory: Path, url: str = "http://127.0.0.1:1", more: str = "", *, pool: bool = False) -> FleetConfig:
    path = directory / "mat.toml"
    path.write_text(API.format(url=url, more=more))
    return load(path, pool=pool)


def site(given: FleetConfig, home: Path, options: NicoOptions = LENIENT) -> Site | None:
    return site_of(given, options, home)


def test_a_file_with_the_url_uses_nico(tmp_path: Path) -> None:
    found = site(config(tmp_path), tmp_path, STRICT)
    assert found is not None
    assert (found.nico.url, found.files, found.strict) == ("http://127.0.0.1:1", None, True)


def test_a_pool_leaves_nico_alone(tmp_path: Path) -> None:
    assert site(config(tmp_path, pool=True), tmp_path) is None


def test_a_pool_in_the_file_registers_all_the_same(tmp_path: Path) -> None:
    pool = 'dhcp = { type = "pool", prefix = "127.64.0.0/18" }\n'
    assert site(config(tmp_path, more=pool), tmp_path) is not None
    silent = config(tmp_path, more=f"{pool}register_expected_machines = false")
    assert site(silent, tmp_path) is None
    with pytest.raises(click.UsageError, match="--strict-registration"):
        site(silent, tmp_path, STRICT)


def test_https_needs_certificates_and_they_are_looked_at_first(tmp_path: Path) -> None:
    https = config(tmp_path, "https://127.0.0.1:1")
    with pytest.raises(NicoError, match=r"ca\.crt: there is no such file; name it with --forge-root-ca-path"):
        site(https, tmp_path)
    Authority().write(tmp_path)
    files = Files(tmp_path / "ca.crt", tmp_path / "tls.crt", tmp_path / "tls.key")
    found = site(https, tmp_path, NicoOptions(*files))
    assert found is not None
    assert found.files == files
    (tmp_path / "tls.key").write_text("")
    with pytest.raises(NicoError, match=r"tls\.key: is no PEM file"):
        site(https, tmp_path, NicoOptions(*files))
    assert not (tmp_path / CLI_FILE).exists()


def test_without_grpc_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nico, "find_spec", lambda name: None if name == "grpc" else name)
    with pytest.raises(NicoError, match=r"mat\.toml: carbide_api_url: .*pip install 'bmcsim\[nico\]'.*--dhcp pool"):
        site(config(tmp_path), tmp_path)
