"""`bmcsim.testing.Fleet`: what is in it, its clock, and what a test can do to its BMCs."""

from datetime import UTC, datetime

import orjson
import pytest

from bmcsim.fleet.tables import ConfigError
from bmcsim.testing import Fleet
from bmcsim.testing.build import MAX_SEED

ROOT = "/redfish/v1/"
SUBSCRIPTIONS = "/redfish/v1/EventService/Subscriptions"


def os_runs(bmc: object) -> bool:
    return bool(bmc.get(bmc.system).json()["BootProgress"]["LastState"] == "OSRunning")  # type: ignore[attr-defined]


def test_a_fleet_has_hosts_and_their_dpus() -> None:
    with Fleet(hosts=2, dpus=1) as fleet:
        assert [bmc.id for bmc in fleet] == ["host-0", "host-0-dpu-0", "host-1", "host-1-dpu-0"]
        host = fleet["host-1"]
        assert fleet.by_address(host.address) is host
        assert fleet.by_serial(host.serial) is host
        assert (host.kind, fleet["host-1-dpu-0"].kind) == ("host", "dpu")
        assert len(fleet) == len(fleet.bmcs) == 4
        assert "host-0" in fleet and "host-2" not in fleet


def test_what_is_not_there_is_named() -> None:
    with Fleet(dpus=0) as fleet:
        with pytest.raises(KeyError, match="no BMC 'host-7'; there are host-0"):
            fleet["host-7"]
        with pytest.raises(KeyError, match=r"192\.0\.2\.1"):
            fleet.by_address("192.0.2.1")
        with pytest.raises(KeyError, match="XYZ"):
            fleet.by_serial("XYZ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"racks": 1, "hosts": 1}, "hosts: racks say"),
        ({"rack_type": "wiwynn_gb200_nvl72"}, "needs racks"),
        ({"config": "[machines.a]\n", "dpus": 1}, "dpus: for a fleet without a file"),
        ({"seed": MAX_SEED + 1}, "must be 0 to"),
        ({"preset": "nosuch"}, "must be one of"),
        ({"faults": ["nosuch"]}, "nosuch"),
    ],
)
def test_what_makes_no_fleet_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Fleet(**options)  # type: ignore[arg-type]


def test_a_fleet_file_can_be_text_or_a_path(tmp_path) -> None:
    text = (
        'host_bmc_password = "Of-File-1"\n'
        '[machines.web]\nhw_type = "dell_poweredge_r750"\nhost_count = 1\ndpu_per_host_count = 0\n'
    )
    (tmp_path / "fleet.toml").write_text(text)
    for config in (text, tmp_path / "fleet.toml", str(tmp_path / "fleet.toml")):
        with Fleet(config) as fleet:
            assert [bmc.id for bmc in fleet] == ["web-0"]
            assert fleet["web-0"].auth[1] == "Of-File-1"
            assert fleet["web-0"].get(fleet["web-0"].system).status == 200
    with pytest.raises(ConfigError, match="there is no such file"):
        Fleet(tmp_path / "nosuch.toml")


def test_addresses_are_planned_whatever_a_file_says_of_dhcp() -> None:
    text = """
[dhcp]
type = "udp_relay"
server_address = "192.0.2.1:67"
listen_address = "127.0.0.1:6767"
advertise_address = "127.0.0.1"
[machines.a]
host_count = 1
dpu_per_host_count = 0
"""
    with Fleet(text, credentials="rotated") as fleet:
        assert fleet["a-0"].address
        assert fleet["a-0"].get(ROOT).status == 200


def test_a_bmc_without_an_address_is_not_there() -> None:
    text = """
[dhcp]
type = "pool"
prefix = "192.0.2.0/29"
exhaustion = "serve"
[machines.a]
host_count = 9
dpu_per_host_count = 0
"""
    with Fleet(text, credentials="rotated") as fleet:
        homeless = [bmc for bmc in fleet if not bmc.address]
        assert 0 < len(homeless) < len(fleet)
        with pytest.raises(ConnectionRefusedError):
            homeless[0].get(ROOT)
        assert fleet["a-0"].get(ROOT).status == 200


def test_a_bmc_that_is_given_another_address_is_found_there() -> None:
    with Fleet(dpus=0) as fleet:
        bmc, before = fleet["host-0"], fleet["host-0"].address
        interfaces = bmc.get(f"{bmc.manager}/EthernetInterfaces").json()["Members"]
        static = {
            "IPv4StaticAddresses": [{"Address": "127.64.9.9", "SubnetMask": "255.255.192.0", "Gateway": "127.64.0.1"}]
        }
        answer = bmc.patch(interfaces[0]["@odata.id"], {"DHCPv4": {"DHCPEnabled": False}, **static})
        assert answer.status in (200, 202, 204), answer.text
        fleet.advance(60)
        assert bmc.address == "127.64.9.9" != before
        assert bmc.get(ROOT).status == 200
        assert fleet.by_address("127.64.9.9") is bmc


def test_a_rack_has_all_kinds() -> None:
    with Fleet(racks=1) as fleet:
        assert {bmc.kind for bmc in fleet} == {"host", "dpu", "switch", "power_shelf"}
        assert all(bmc.get("/redfish/v1/Chassis").status == 200 for bmc in fleet)


def test_passwords_are_changed_already_or_the_factorys() -> None:
    with Fleet(dpus=0) as fleet:
        assert fleet["host-0"].auth == ("root", "Password-1")
        assert fleet["host-0"].get("/redfish/v1/Systems").status == 200
    with Fleet(dpus=0, password="Other-2") as fleet:
        assert fleet["host-0"].auth == ("root", "Other-2")
    with Fleet(dpus=0, credentials="factory") as fleet:
        bmc = fleet["host-0"]
        assert bmc.auth == ("root", "factory_password")
        assert bmc.get("/redfish/v1/Systems").messages == ["PasswordChangeRequired"]


def test_who_asks_can_be_chosen() -> None:
    with Fleet(dpus=0) as fleet:
        bmc = fleet["host-0"]
        assert bmc.get("/redfish/v1/Systems", auth=None).status == 401
        assert bmc.get("/redfish/v1/Systems", auth=("root", "wrong")).status == 401
        assert bmc.get(ROOT, auth=None).status == 200
        session = bmc.post(
            "/redfish/v1/SessionService/Sessions", {"UserName": "root", "Password": "Password-1"}, auth=None
        )
        token = {"x-auth-token": session.headers["X-Auth-Token"]}
        assert bmc.get("/redfish/v1/Systems", auth=None, headers=token).status == 200
        assert bmc.delete(session.headers["location"], auth=None, headers=token).status in (200, 204)
        assert bmc.get("/redfish/v1/Systems", auth=None, headers=token).status == 401


def test_a_write_changes_what_is_read() -> None:
    with Fleet(dpus=0) as fleet:
        bmc = fleet["host-0"]
        assert bmc.patch(bmc.system, {"AssetTag": "rack 7"}).status in (200, 204)
        assert bmc.get(bmc.system).json()["AssetTag"] == "rack 7"
        refused = bmc.patch(bmc.system, {"NoSuch": 1})
        assert (refused.status, refused.messages) == (400, ["PropertyUnknown"])


def test_time_moves_by_hand_and_timers_fire_on_the_way() -> None:
    with Fleet(dpus=0, start=datetime(2030, 5, 1, tzinfo=UTC)) as fleet:
        bmc = fleet["host-0"]
        bmc.power("restart")
        assert not os_runs(bmc)
        assert fleet.advance(1.0) == 0
        assert fleet.now == datetime(2030, 5, 1, 0, 0, 1, tzinfo=UTC)
        assert bmc.get(bmc.manager).json()["DateTime"].startswith("2030-05-01T00:00:01")
        assert fleet.advance(3600.0) > 0
        assert os_runs(bmc)
        assert fleet.now == datetime(2030, 5, 1, 1, 0, 1, tzinfo=UTC)
        with pytest.raises(ValueError, match="backwards"):
            fleet.advance(-1)


def test_time_passes_until_something_holds() -> None:
    with Fleet(dpus=0) as fleet:
        bmc = fleet["host-0"]
        bmc.power("restart")
        took = fleet.advance_until(lambda: os_runs(bmc), step=10)
        assert took > 60 and os_runs(bmc)
        assert fleet.advance_until(lambda: os_runs(bmc)) == 0.0
        with pytest.raises(AssertionError, match="does not hold after 5 s"):
            fleet.advance_until(lambda: False, limit=5)


def test_hardware_can_take_no_time() -> None:
    with Fleet(dpus=0, immediate=True) as fleet:
        bmc, before = fleet["host-0"], fleet.now
        bmc.power("restart")
        assert os_runs(bmc)
        bmc.reset_bmc()
        assert bmc.get(ROOT).status == 200
        assert fleet.now == before
        fleet.advance(60)
        assert (fleet.now - before).total_seconds() == 60


def test_a_fleet_file_sets_the_pace() -> None:
    text = "[bmcsim]\ntime_scale = 60\n[machines.a]\nhost_count = 1\ndpu_per_host_count = 0\n"
    with Fleet(text, credentials="rotated") as fast, Fleet(profile="dell_poweredge_r750", dpus=0) as slow:
        times = []
        for bmc, fleet in ((fast["a-0"], fast), (slow["host-0"], slow)):
            bmc.power("restart")
            times.append(fleet.advance_until(lambda bmc=bmc: os_runs(bmc), step=0.5))
        assert times[0] == pytest.approx(times[1] / 60, abs=1)
    with Fleet(text.replace("time_scale = 60", 'progression = "immediate"'), credentials="rotated") as fleet:
        fleet["a-0"].power("restart")
        assert os_runs(fleet["a-0"])


def test_power_commands_are_words_or_reset_types() -> None:
    with Fleet(hosts=2, dpus=0) as fleet:
        bmc = fleet["host-0"]
        fleet.power(None, "off")
        assert {one.get(one.system).json()["PowerState"] for one in fleet} == {"Off"}
        bmc.power("off")
        fleet.power("host-0", "ForceOn")
        fleet.advance(10)
        assert bmc.get(bmc.system).json()["PowerState"] == "On"
        with pytest.raises(ValueError, match="no power command 'explode'"):
            bmc.power("explode")
        fleet.power([bmc, "host-1"], "off")
        with pytest.raises(ValueError, match="host-1: Nmi is refused while PowerState is Off"):
            fleet["host-1"].power("Nmi")


def test_a_bmc_that_resets_refuses_connections_until_it_is_back() -> None:
    with Fleet(hosts=2, dpus=0) as fleet:
        bmc = fleet["host-0"]
        bmc.reset_bmc()
        with pytest.raises(ConnectionRefusedError):
            bmc.get(ROOT)
        assert fleet["host-1"].get(ROOT).status == 200
        fleet.advance(600)
        assert bmc.get(ROOT).status == 200


def test_a_password_set_by_hand_is_the_one_that_is_used() -> None:
    with Fleet(hosts=2, dpus=0) as fleet:
        bmc = fleet["host-0"]
        fleet.set_password("host-0", "By-Hand-1")
        assert bmc.auth == ("root", "By-Hand-1")
        assert bmc.get("/redfish/v1/Systems").status == 200
        assert bmc.get("/redfish/v1/Systems", auth=("root", "Password-1")).status == 401
        assert fleet["host-1"].auth == ("root", "Password-1")
        bmc.set_password("Password-1")
        assert bmc.auth == ("root", "Password-1")


def test_a_sensor_reads_what_it_is_made_to_read() -> None:
    with Fleet(dpus=0) as fleet:
        bmc = fleet["host-0"]
        sensor = next(iter(bmc.machine.tree.readings))
        measured = bmc.get(sensor).json()["Reading"]
        bmc.set_reading(sensor, 99.5)
        assert bmc.get(sensor).json()["Reading"] == 99.5
        bmc.set_reading(sensor, None)
        assert bmc.get(sensor).json()["Reading"] == measured
        with pytest.raises(KeyError):
            bmc.set_reading("/redfish/v1/NoSensor", 1.0)


def test_faults_come_and_go() -> None:
    rule = {"id": "busy", "selector": {"OdataId": "/redfish/**"}, "action": {"Status": 503}}
    with Fleet(hosts=2, dpus=0) as fleet:
        bmc, other = fleet.bmcs
        bmc.fault(rule)
        assert (bmc.get(ROOT).status, other.get(ROOT).status) == (503, 200)
        bmc.fault({**rule, "action": {"Status": 500}})
        assert bmc.get(ROOT).status == 500
        fleet.clear_faults()
        assert bmc.get(ROOT).status == 200
        with pytest.raises(ValueError, match="action"):
            bmc.fault({"id": "x", "action": {"Nosuch": 1}})


def test_faults_from_the_start() -> None:
    with Fleet(dpus=0, faults=["drops_connections"]) as fleet:
        assert fleet["host-0"].machine.state.faults
        fleet["host-0"].clear_faults()
        assert not fleet["host-0"].machine.state.faults


def test_a_seed_makes_other_machines_of_the_same_ids() -> None:
    fleets = [Fleet(hosts=2, dpus=1, seed=seed) for seed in (None, 1, 2, 2)]
    serials = [[bmc.serial for bmc in fleet] for fleet in fleets]
    assert serials[2] == serials[3]
    assert len({*serials[0], *serials[1], *serials[2]}) == 12
    assert [bmc.address for bmc in fleets[0]] == [bmc.address for bmc in fleets[1]]


def test_requests_are_kept_and_can_be_asked_about() -> None:
    with Fleet(hosts=2, dpus=0, keep=3) as fleet:
        one, other = fleet.bmcs
        one.get(ROOT)
        other.get("/redfish/v1/Systems?$expand=.")
        other.get("/redfish/v1/Nowhere")
        fleet.assert_requested("host-0", "GET", ROOT, 200, times=1)
        fleet.assert_requested(other, path="/redfish/v1/Systems")
        fleet.assert_requested(other, path="/redfish/v1/Systems?$expand=.")
        fleet.assert_requested(method="PATCH", times=0)
        assert [seen.status for seen in fleet.requested(other)] == [200, 404]
        with pytest.raises(
            AssertionError, match=r"1 such requests instead of 2;(.|\n)*host-1 GET /redfish/v1/Nowhere 404"
        ):
            fleet.assert_requested(one, times=2)
        with pytest.raises(AssertionError, match="at least 1"):
            fleet.assert_requested(method="DELETE")
        one.get(ROOT)
        assert len(fleet.requests) == 3


def test_a_refusal_before_the_body_and_a_closed_connection_are_kept_too() -> None:
    with Fleet(dpus=0) as fleet:
        bmc = fleet["host-0"]
        bmc.patch(bmc.system, {"AssetTag": "x"}, auth=None)
        fleet.assert_requested(bmc, "PATCH", bmc.system, 401)
        bmc.fault({"id": "close", "selector": {"OdataId": "/redfish/**"}, "action": "Close"})
        with pytest.raises(ConnectionResetError):
            bmc.get(ROOT)
        fleet.assert_requested(bmc, "GET", ROOT, 0)


def test_events_are_kept_instead_of_being_sent() -> None:
    with Fleet(dpus=0) as fleet:
        bmc = fleet["host-0"]
        made = bmc.post(SUBSCRIPTIONS, {"Destination": "http://127.0.0.1:1/events", "Protocol": "Redfish"})
        assert made.status == 201, made.text
        bmc.power("off")
        assert fleet.events
        event = fleet.events[-1]
        assert (event.bmc, event.destination) == ("host-0", "http://127.0.0.1:1/events")
        assert orjson.loads(event.body)["Events"]
