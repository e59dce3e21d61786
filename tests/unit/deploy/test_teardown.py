"""The steps of a reset: what they would do to a ConfigMap, to Vault, and to nobody else."""

import os
import subprocess
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.deploy.teardown import LEASE, Site, decoded, steps, without_proxy
from bmcsim.edges.k8s import election

PROXY = ['bmc_proxy = "mat:1266"', "  bmc_proxy='x'", "override_target_ip = '1.2.3.4'", "override_target_port=1"]
OTHER = [
    "[site_explorer]",
    "# bmc_proxy = 1",
    "bmc_proxy_url = 1",
    "x = 'bmc_proxy = 1'",
    "",
    "allow_changing_bmc_proxy = true",
]

VAULT = """#!/bin/sh
[ "$VAULT_TOKEN" = good ] || { echo "permission denied" >&2; exit 2; }
case "$*" in
  "token lookup") ;;
  "kv list "*)
    [ -z "$REFUSES" ] || { echo "permission denied" >&2; exit 2; }
    [ -n "$(ls "$MACS")" ] || { echo "No value found at secrets/metadata/machines/bmc" >&2; exit 2; }
    echo "["; for mac in $(ls "$MACS"); do echo "  \\"$mac/\\","; done; echo '  "site/"'; echo "]" ;;
  "kv metadata delete secrets/machines/bmc/site/root") echo site >> "$LOG" ;;
  "kv metadata delete secrets/machines/bmc/"*) path=${4%/root}; [ -n "$KEEPS" ] || rm "$MACS/${path##*/}" ;;
  "kv metadata delete "*) echo "$4" >> "$LOG" ;;
  *) exit 9 ;;
esac
"""


def test_the_lease_is_the_controllers() -> None:
    assert LEASE == election.NAME


@given(st.lists(st.sampled_from(PROXY + OTHER)), st.booleans())
def test_only_lines_of_the_proxy_go(lines: list[str], ends: bool) -> None:
    text = "\n".join(lines) + "\n" * ends
    changed = without_proxy(orjson.dumps({"kind": "ConfigMap", "data": {"a.toml": text, "b": "bmc_proxy_x = 1"}}))
    if not set(lines) & set(PROXY):
        assert changed is None
        return
    assert changed is not None
    left = orjson.loads(changed)
    kept = [line for line in text.split("\n") if line not in PROXY]
    assert left == {"kind": "ConfigMap", "data": {"a.toml": "\n".join(kept), "b": "bmc_proxy_x = 1"}}


@pytest.mark.parametrize("wrong", [b"", b"[]", b"{}", b'{"data":{"a":1}}', b'{"data":[]}'])
def test_what_is_no_config_map_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError, match="is no ConfigMap"):
        without_proxy(wrong)


def test_tokens_of_secrets() -> None:
    assert decoded(b"aHZz\n") == b"hvs"
    for wrong in (b"", b"!!"):
        with pytest.raises(ValueError, match="nico-vault-token"):
            decoded(wrong)


class Vault:
    """The script of the step under a shell, with a vault that keeps MACs as files."""

    def __init__(self, folder: Path) -> None:
        (folder / "macs").mkdir()
        self.folder, self.macs, self.log = folder, folder / "macs", folder / "log"
        (folder / "vault").write_text(VAULT)
        (folder / "vault").chmod(0o755)

    def run(self, token: str = "good", **more: str) -> subprocess.CompletedProcess[str]:
        (command,) = steps(Site())[-1].commands
        env = {"PATH": f"{self.folder}:{os.environ['PATH']}", "MACS": str(self.macs), "LOG": str(self.log), **more}
        script = list(command.arguments[-3:])
        return subprocess.run(script, input=token, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    """An empty one."""
    return Vault(tmp_path)


def test_passwords_of_all_bmcs_go_and_no_others(vault: Vault) -> None:
    for number in range(50):
        (vault.macs / f"02:00:00:00:00:{number:02X}").touch()
    (vault.macs / "something-else").touch()
    done = vault.run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
    assert [one.name for one in vault.macs.iterdir()] == ["something-else"]
    assert vault.log.read_text().split() == [
        "site",
        "secrets/machines/all_hosts/factory_default/bmc-metadata-items/dell",
    ]


def test_a_vault_without_passwords_is_well(vault: Vault) -> None:
    done = vault.run()
    assert (done.returncode, done.stdout) == (0, "0\n")


def test_what_is_left_is_counted(vault: Vault) -> None:
    (vault.macs / "02:00:00:00:00:01").touch()
    done = vault.run(KEEPS="1")
    assert (done.returncode, done.stdout) == (0, "1\n")


@pytest.mark.parametrize("wrong", [{"token": "bad"}, {"REFUSES": "1"}])
def test_a_vault_that_refuses_is_a_failure(vault: Vault, wrong: dict[str, str]) -> None:
    (vault.macs / "02:00:00:00:00:01").touch()
    done = vault.run(**wrong)
    assert done.returncode != 0 and "permission denied" in done.stderr
