"""`bmcsim serve` as a process: what a user sees in the first five minutes."""

import json
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from bmcsim.cli import main
from tests.serving import Process, serving

pytestmark = pytest.mark.system


def curl(*arguments: str) -> tuple[int, dict[str, object]]:
    """Status and JSON of a curl call."""
    assert shutil.which("curl"), "curl is needed"
    command = ["curl", "-sk", "-m", "10", "-w", "\n%{http_code}", *arguments]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    body, _, status = output.rpartition("\n")
    return int(status), json.loads(body) if body else {}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """The default fleet: 13,500 BMCs."""
    with serving(tmp_path_factory.mktemp("default") / "serve.log") as process:
        yield process


def test_the_default_fleet_is_13500_bmcs_and_says_how_to_try_it(fleet: Process) -> None:
    ready = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{fleet.admin}/readyz").read())
    assert ready == {"ready": True, "bmcs": 13500, "expected": 13500}
    for part in (
        "13500 BMCs ready",
        "127.64.0.2 to 127.64.52.189",
        "factory_password",
        "0penBmc",
        "curl -k https://127.64.0.2:",
    ):
        assert part in fleet.output


def test_every_way_to_name_a_bmc_leads_to_the_same_one(fleet: Process) -> None:
    port, root = fleet.port, "/redfish/v1/"
    _, direct = curl(f"https://127.64.0.2:{port}{root}")
    for arguments in (
        ("--connect-to", f"127.64.0.2:{port}:127.0.0.1:{port}", f"https://127.64.0.2:{port}{root}"),
        ("-H", "Forwarded: host=127.64.0.2", f"https://127.0.0.1:{port}{root}"),
        ("-H", "Host: 127.64.0.2", f"https://127.0.0.1:{port}{root}"),
        ("-H", "Forwarded: host=127.64.0.2", f"https://127.64.0.9:{port}{root}"),
    ):
        assert curl(*arguments) == (200, direct)
    _, other = curl(f"https://127.64.52.189:{port}{root}")
    assert other["UUID"] != direct["UUID"]


def test_an_unknown_forwarded_host_is_a_redfish_404(fleet: Process) -> None:
    status, body = curl("-H", "Forwarded: host=192.0.2.1", f"https://127.64.0.2:{fleet.port}/redfish/v1/")
    assert status == 404
    assert "192.0.2.1" in body["error"]["message"]  # type: ignore[index]


def test_a_wrong_password_leaves_the_neighbours_alone(fleet: Process) -> None:
    for _ in range(5):
        status, _ = curl("-u", "root:wrong", f"https://127.64.0.5:{fleet.port}/redfish/v1/AccountService")
        assert status == 401
    for address, password in (
        ("127.64.0.5", "factory_password"),
        ("127.64.0.6", "0penBmc"),
        ("127.64.0.8", "factory_password"),
    ):
        status, _ = curl("-u", f"root:{password}", f"https://{address}:{fleet.port}/redfish/v1/AccountService")
        assert status == 200


def test_metrics_have_no_label_per_bmc(fleet: Process) -> None:
    text = urllib.request.urlopen(f"http://127.0.0.1:{fleet.admin}/metrics").read().decode()
    assert 'bmcsim_bmcs{kind="host",power="On",service="Up"} 4500.0' in text
    assert 'bmcsim_bmcs{kind="dpu",power="On",service="Up"} 9000.0' in text
    for name in (
        "bmcsim_http_requests_total",
        "bmcsim_http_request_duration_seconds_bucket",
        "bmcsim_http_connections",
    ):
        assert name in text
    assert "127.64." not in text
    assert len(text.splitlines()) < 200


def test_tls_is_1_2_or_newer_with_an_ecdsa_certificate(fleet: Process) -> None:
    pem = ssl.get_server_certificate(("127.64.0.2", fleet.port))
    assert "BEGIN CERTIFICATE" in pem
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    assert fleet.output.count("Traceback") == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_cleanly_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path / "serve.log", "--hosts", "1", "--state-dir", str(tmp_path / "state")) as process:
        assert process.stop(number) == 0
        assert "Traceback" not in process.output
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == [
        "lock",
        "state.sqlite",
        "tls.crt",
        "tls.key",
    ]


def test_a_fleet_file_is_served_as_it_says(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(
        'tui_enabled = false\nhost_bmc_password = "Pinned-1"\n'
        'dhcp = { type = "pool", prefix = "127.65.0.0/24", reserve_first = 9 }\n'
        '[machines.rack1]\nhw_type = "dell_poweredge_r750"\nhost_count = 2\ndpu_per_host_count = 1\n'
    )
    with serving(tmp_path / "serve.log", str(file)) as process:
        status, _ = curl("-u", "root:Pinned-1", f"https://127.65.0.10:{process.port}/redfish/v1/Systems")
        assert status == 200
        status, _ = curl("-u", "root:0penBmc", f"https://127.65.0.11:{process.port}/redfish/v1/Systems")
        assert status == 403
        assert "tui_enabled" in process.output
        assert "Pinned-1" not in process.output


def test_a_rack_is_served_with_71_bmcs(tmp_path: Path) -> None:
    passwords = ["--host-password", "Pinned-1", "--dpu-password", "Pinned-2"]
    with serving(tmp_path / "serve.log", "--racks", "1", *passwords) as process:
        assert "71 BMCs ready" in process.output
        assert "127.64.0.2 to 127.64.0.72" in process.output
        roots = [curl(f"https://127.64.0.{last}:{process.port}/redfish/v1/") for last in range(2, 73)]
        assert {status for status, _ in roots} == {200}
        assert len({root["UUID"] for _, root in roots}) == 71
        shelf, tray, dpu = (f"https://127.64.0.{last}:{process.port}/redfish/v1" for last in (2, 6, 7))
        assert curl(f"{tray}/")[1]["Product"] == "GB200 NVL"
        status, chassis = curl("-u", "root:Pinned-1", f"{tray}/Chassis/Chassis_0")
        assert (status, chassis["Location"]) == (
            200,
            {"Placement": {"Rack": "rack-1", "RackOffset": 11, "RackOffsetUnits": "EIA_310"}},
        )
        assert curl("-u", "root:Pinned-2", f"{dpu}/Systems/Bluefield")[0] == 200
        status, chassis = curl("-u", "root:factory_password", f"{shelf}/Chassis/powershelf")
        assert (status, chassis["PowerState"]) == (200, "Off")
        assert curl("-u", "root:Pinned-1", f"{shelf}/Chassis/powershelf")[0] == 401


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--racks", "1", "--hosts", "1"], "exclude each other"),
        (["--racks", "0"], "--racks"),
        (["missing.toml"], "missing.toml"),
        (["--profile", "dell_poweredge_r751"], "dell_poweredge_r750"),
        (["--listen", "nowhere"], "127.0.0.0/8:1266"),
        (["--tls-cert", "/nonexistent.crt", "--tls-key", "/nonexistent.key"], "/nonexistent.crt"),
        (["--tls-cert", "/nonexistent.crt"], "go together"),
        (["--hosts", "0"], "--hosts"),
        (["--time-scale", "0"], "--time-scale"),
        (["--time-scale", "nan"], "--time-scale"),
        (["--time-scale", "inf"], "--time-scale"),
        (["--preset", "slow"], "--preset"),
        (["--fault", "nothing"], "--fault"),
    ],
)
def test_bad_input_gets_a_clear_error_and_no_traceback(arguments: list[str], expected: str) -> None:
    result = CliRunner().invoke(main, ["serve", *arguments])
    assert result.exit_code != 0
    assert expected in result.output
    assert "Traceback" not in result.output


def test_the_wheel_brings_the_command_and_the_profiles(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(root)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    target = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=300)
    listed = subprocess.run(
        [sys.executable, "-m", "bmcsim", "profile", "list"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(target), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert "dell_poweredge_r750" in listed
    assert "bluefield3" in listed
    assert (target / "bmcsim" / "profiles" / "schemas" / "DellOem_v1.xml").is_file()
