import json
from pathlib import Path

import pytest

from bmcsim.edges.nico.certificates import CLI_FILE, Files, NicoError, doubt, find, read
from tests.certificates import make
from tests.nico_api import SPIFFE, Authority


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def files_in(directory: Path) -> Files:
    return Files(directory / "ca.crt", directory / "tls.crt", directory / "tls.key")


def test_options_then_the_file_of_the_cli_then_kubernetes(tmp_path: Path, authority: Authority) -> None:
    given, of_cli, mounted, home = (tmp_path / name for name in ("given", "cli", "mounted", "home"))
    for directory in (given, of_cli, mounted):
        authority.write(directory)
    assert find(None, None, None, home, mounted) == files_in(mounted)
    said = {
        "forge_root_ca_path": str(of_cli / "ca.crt"),
        "client_cert_path": str(of_cli / "tls.crt"),
        "client_key_path": str(of_cli / "tls.key"),
        "carbide_api_url": "https://elsewhere",
    }
    (home / CLI_FILE).parent.mkdir(parents=True)
    (home / CLI_FILE).write_text(json.dumps(said))
    assert find(None, None, None, home, mounted) == files_in(of_cli)
    assert find(*files_in(given), home, mounted) == files_in(given)
    root, certificate, key = files_in(given)
    assert find(root, None, None, home, mounted) == Files(root, *files_in(of_cli)[1:])
    said["nico_root_ca_path"] = said.pop("forge_root_ca_path")
    (home / CLI_FILE).write_text(json.dumps(said))
    assert find(None, certificate, key, home, mounted) == Files(of_cli / "ca.crt", certificate, key)


def test_what_is_missing_is_named(tmp_path: Path, authority: Authority) -> None:
    with pytest.raises(NicoError, match=r"tls\.crt: there is no such file; name it with --client-cert-path"):
        authority.write(tmp_path / "mounted")
        (tmp_path / "mounted" / "tls.crt").unlink()
        find(None, None, None, tmp_path, tmp_path / "mounted")
    with pytest.raises(NicoError, match="go together"):
        find(None, tmp_path / "x", None, tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"client_cert_path": 7}', "x" * 1024 * 1025])
def test_a_file_of_the_cli_that_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / CLI_FILE).parent.mkdir()
    (tmp_path / CLI_FILE).write_text(text)
    with pytest.raises(NicoError, match=r"nico_api_cli\.json"):
        find(None, None, None, tmp_path)


def test_the_identity_is_the_spiffe_uri(tmp_path: Path, authority: Authority) -> None:
    authority.write(tmp_path)
    found = read(files_in(tmp_path))
    assert (found.identity, doubt(found.identity)) == (SPIFFE, "")
    assert "PRIVATE" not in repr(found)
    authority.write(tmp_path, "https://nobody.example")
    assert read(files_in(tmp_path)).identity == ""


@pytest.mark.parametrize(
    "identity", ["", "spiffe://nico.local/mat/sa/nico-machine-a-tron", "spiffe://x/machine-a-tron/y"]
)
def test_an_identity_that_nico_refuses(identity: str) -> None:
    assert "machine-a-tron" in doubt(identity)


def test_files_that_cannot_be_used(tmp_path: Path, authority: Authority) -> None:
    for name in ("ca.crt", "tls.crt", "tls.key"):
        authority.write(tmp_path)
        (tmp_path / name).write_text("-----BEGIN SECRET-----")
        with pytest.raises(NicoError, match=name) as caught:
            read(files_in(tmp_path))
        assert "BEGIN" not in str(caught.value)
    authority.write(tmp_path)
    (tmp_path / "tls.key").write_text(make("other").key_text)
    with pytest.raises(NicoError, match="is not the key of"):
        read(files_in(tmp_path))
    (tmp_path / "tls.key").unlink()
    with pytest.raises(NicoError, match="cannot be read"):
        read(files_in(tmp_path))
