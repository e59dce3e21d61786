"""`bmcsim mat`: what machine-a-tron's arguments, environment and files mean."""

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.cli import MACHINE_A_TRON, main
from bmcsim.cli import mat as module
from bmcsim.cli.logs import Logfmt
from bmcsim.cli.mat import Plan, in_container, level_of, plan
from bmcsim.cli.nico import NicoOptions
from bmcsim.fleet.config import load, parse
from tests.mat_files import AUGUST, OCTOBER, PODS, rendered
from tests.nico_api import Authority
from tests.unit.fleet.test_mat_import import kept_of, write

FILE = Path("mat.toml")


def planned(
    directory: Path,
    when: str = OCTOBER,
    *,
    contained: bool = True,
    options: NicoOptions | None = None,
    environ: dict[str, str] | None = None,
    **top: Any,
) -> Plan:
    path = directory / "mat.toml"
    path.write_text(rendered(PODS["override"], when, **{"persist_dir": str(directory / "kept"), **top}))
    if options is None:
        Authority().write(directory)
        options = NicoOptions(directory / "ca.crt")
    return plan(path, load(path, mat=True), options, environ or {}, contained=contained, home=directory)


def value(of: Plan, option: str) -> str | None:
    return of.arguments[of.arguments.index(option) + 1] if option in of.arguments else None


@pytest.mark.parametrize("when", [AUGUST, OCTOBER])
@pytest.mark.parametrize("name", PODS)
def test_every_profile_is_read_and_named_keys_are_used(name: str, when: str) -> None:
    config = parse(rendered(PODS[name], when), "mat.toml", mat=True)
    pod = PODS[name]
    assert config.port == 1266
    assert config.host_count == sum(group.hosts for group in pod.groups) + 35 * len(pod.racks)
    unused = "\n".join(config.warnings)
    for key in ("persist_dir", "log_format", "use_single_bmc_mock", "bmc_mock_certs_dir"):
        assert key not in unused
    plain = "\n".join(parse(rendered(pod, when), "mat.toml").warnings)
    assert "persist_dir" in plain


def test_a_container_listens_everywhere_and_so_does_a_file_that_says_one_mock(tmp_path: Path) -> None:
    assert value(planned(tmp_path), "--listen") == "0.0.0.0:1266"
    assert value(planned(tmp_path), "--admin") == "0.0.0.0:9090"
    on_a_laptop = planned(tmp_path, contained=False)
    assert value(on_a_laptop, "--listen") is None
    single = planned(tmp_path, AUGUST, contained=False)
    assert (value(single, "--listen"), value(single, "--admin")) == ("0.0.0.0:1266", None)
    assert single.warnings == []
    several = planned(tmp_path, AUGUST, contained=False, use_single_bmc_mock=False)
    assert value(several, "--listen") is None
    assert "use_single_bmc_mock" in several.warnings[0]


def test_the_environment_of_bmcsim_goes_before_the_file(tmp_path: Path) -> None:
    environ = {
        "BMCSIM_SERVE_LISTEN": "127.0.0.1:1",
        "BMCSIM_SERVE_ADMIN": "127.0.0.1:2",
        "BMCSIM_SERVE_STATE_DIR": "/elsewhere",
        "BMCSIM_SERVE_TLS_CERT": "/c",
    }
    found = planned(tmp_path, environ=environ)
    assert not {"--listen", "--admin", "--state-dir", "--tls-cert"} & set(found.arguments)
    assert found.state is None


def test_the_certificate_is_beside_the_root_ca(tmp_path: Path) -> None:
    found = planned(tmp_path)
    assert value(found, "--tls-cert") == str(tmp_path / "tls.crt")
    assert value(found, "--tls-key") == str(tmp_path / "tls.key")
    assert value(found, "--forge-root-ca-path") == str(tmp_path / "ca.crt")
    named = planned(tmp_path, bmc_mock_certs_dir="/certs")
    assert value(named, "--tls-cert") == "/certs/tls.crt"
    none = planned(tmp_path, options=NicoOptions(Path("/nowhere/ca.crt"), Path("/a"), Path("/b"), True))
    assert value(none, "--tls-cert") is None
    assert "/nowhere: has no tls.crt and tls.key" in none.warnings[0]
    assert (value(none, "--client-cert-path"), value(none, "--client-key-path")) == ("/a", "/b")
    assert "--strict-registration" in none.arguments


def test_state_is_in_a_folder_of_its_own(tmp_path: Path) -> None:
    found = planned(tmp_path)
    assert found.state == tmp_path / "kept" / "bmcsim"
    assert value(found, "--state-dir") == str(found.state)
    assert found.warnings == []
    (tmp_path / "file").write_text("")
    refused = planned(tmp_path, persist_dir=str(tmp_path / "file"))
    assert value(refused, "--state-dir") is None
    assert "is not writable for user" in refused.warnings[0]
    assert planned(tmp_path, persist_dir="").state is None


@pytest.mark.parametrize(
    ("rust_log", "level"),
    [
        ("", "info"),
        ("warn", "warning"),
        ("TRACE", "debug"),
        ("off", "error"),
        ("info,machine_a_tron=debug,tower=warn", "debug"),
        ("error,tower=trace", "error"),
        ("bmc_mock::http=warn", "warning"),
        ("machine_a_tron[span{field=1}]=error", "error"),
        ("nonsense", "info"),
        ("tower=debug", "info"),
    ],
)
def test_rust_log(rust_log: str, level: str) -> None:
    assert level_of(rust_log) == level


@given(st.text() | st.lists(st.sampled_from(("info", "=", "a::b", "off", "bmcsim"))).map(",".join))
def test_any_rust_log_is_a_level(text: str) -> None:
    assert level_of(text) in ("debug", "info", "warning", "error")


def test_what_is_a_container(tmp_path: Path) -> None:
    assert not in_container({}, tmp_path)
    assert in_container({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, tmp_path)
    assert in_container({"container": "oci"}, tmp_path)
    (tmp_path / ".dockerenv").write_text("")
    assert in_container({}, tmp_path)


def test_the_command_serves_what_was_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "basicConfig", lambda **_options: None)
    called: list[Any] = []
    monkeypatch.setattr(module.serve, "main", lambda arguments, **options: called.append((arguments, options)))
    path = tmp_path / "mat.toml"
    kept = tmp_path / "kept"
    path.write_text(rendered(PODS["override"], AUGUST, persist_dir=str(kept), log_file=""))
    Authority().write(tmp_path)
    environment = {"MACHINE_A_TRON_CONFIG_PATH": str(path), "FORGE_ROOT_CA_PATH": str(tmp_path / "ca.crt")}
    environment |= {"BMCSIM_SERVE_ADMIN": "off"}
    for command in (["mat"], [MACHINE_A_TRON]):
        result = CliRunner().invoke(main, command, env=environment)
        assert result.exit_code == 0, result.output
    (arguments, options), second = called
    assert second == (arguments, options)
    assert arguments[:2] == [str(path), "--mat"]
    assert options["auto_envvar_prefix"] == "BMCSIM_SERVE"
    assert MACHINE_A_TRON not in CliRunner().invoke(main, ["--help"]).output


@pytest.mark.parametrize("writable", [True, False])
def test_kept_machines_are_compared_even_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writable: bool
) -> None:
    monkeypatch.setattr(logging, "basicConfig", lambda **_options: None)
    monkeypatch.setattr(module, "_writable", lambda _directory: writable)
    monkeypatch.setattr(module.serve, "main", lambda _arguments, **_options: None)
    path = tmp_path / "mat.toml"
    path.write_text(rendered(PODS["override"], AUGUST, persist_dir=str(tmp_path / "persist")))
    kept = kept_of(load(path))
    kept["default"][0]["novelty"] = 1
    write(tmp_path, kept)
    done = CliRunner().invoke(main, ["mat", str(path)])
    assert done.exit_code == 0, done.output
    assert ("not taken over: not known here: novelty" in done.output) is writable
    assert (tmp_path / "persist" / "bmcsim").exists() is writable
    if writable:
        shutil.rmtree(tmp_path / "persist" / "bmcsim")
    kept["default"][0]["serial"] = "OTHER"
    write(tmp_path, kept)
    refused = CliRunner().invoke(main, ["mat", str(path)])
    assert (refused.exit_code, "serial is OTHER" in refused.output) == (1, True)
    assert not (tmp_path / "persist" / "bmcsim").exists()


def test_without_a_file_it_says_which_variable(tmp_path: Path) -> None:
    assert CliRunner().invoke(main, ["mat"], env={"MACHINE_A_TRON_CONFIG_PATH": ""}).exit_code == 2
    result = CliRunner().invoke(main, ["mat", str(tmp_path / "none.toml")])
    assert (result.exit_code, "there is no such file" in result.output) == (1, True)


def test_logfmt() -> None:
    record = logging.LogRecord("bmcsim.x", logging.WARNING, "f", 1, 'said "%s"\nand = more', ("no",), None)
    line = Logfmt().format(record)
    assert line.partition(" ")[2] == r'level=warning target=bmcsim.x msg="said \"no\"\nand = more"'
    assert line.startswith("ts=")
    assert "\n" not in line


def test_a_log_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mat.toml"
    path.write_text(rendered(PODS["override"], OCTOBER, log_file=str(tmp_path / "no" / "log"), persist_dir=""))
    result = CliRunner().invoke(main, ["mat", str(path)])
    assert result.exit_code == 1
    assert f"log_file: {tmp_path / 'no' / 'log'}: cannot be written" in result.output
