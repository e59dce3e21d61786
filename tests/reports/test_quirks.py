"""Quirks that were reported of real BMCs: each is a fault preset, off by default."""

import orjson

from bmcsim.machine.power import Power
from bmcsim.redfish.exchange import Response
from bmcsim.redfish.injection import preset_rules
from tests.conftest import Client, header, make_client

SYSTEM = "/redfish/v1/Systems/System.Embedded.1"
RESET = SYSTEM + "/Actions/ComputerSystem.Reset"
CHASSIS = "/redfish/v1/Chassis/System.Embedded.1"
MANAGER = "/redfish/v1/Managers/iDRAC.Embedded.1"


def host_with(preset: str) -> Client:
    """An R750 with a fault preset."""
    client = make_client("dell_poweredge_r750")
    moment = client.clock.now()
    client.bmc.become(moment, faults=preset_rules(preset, moment.wall))
    return client


def power(client: Client, type_: str) -> int:
    """The status of a ComputerSystem.Reset."""
    return client.request("POST", RESET, {"ResetType": type_}).status


def test_n14_a_valid_login_is_refused_now_and_then() -> None:
    path = CHASSIS + "/PCIeDevices"
    client = host_with("intermittent_401")
    statuses = [client.request("GET", path).status for _ in range(200)]
    assert 20 < statuses.count(401) < 100
    assert statuses.count(200) == 200 - statuses.count(401)
    assert [client.request("GET", SYSTEM).status for _ in range(50)] == [200] * 50
    assert [make_client("dell_poweredge_r750").request("GET", path).status for _ in range(50)] == [200] * 50


def test_n19_power_ons_are_accepted_and_ignored_until_an_ac_cycle() -> None:
    client = host_with("power_on_ignored")
    assert power(client, "ForceOff") == 204
    for _ in range(3):
        assert power(client, "On") == 204
        client.advance(30)
        assert client.get(SYSTEM)["PowerState"] == "Off"
    client.driver.execute(client.bmc, client.bmc.ac_cycle(client.clock.now()))
    client.advance(300)
    assert power(client, "On") in (204, 409)
    client.advance(1000)
    assert client.bmc.power is Power.RUNNING


def test_n19_the_budget_of_ignored_power_ons_ends_by_itself() -> None:
    client = host_with("power_on_ignored")
    power(client, "ForceOff")
    for _ in range(5):
        assert power(client, "On") == 204
    assert client.bmc.power is Power.OFF
    assert power(client, "On") == 204
    assert client.bmc.power is Power.POWERING_ON


def test_e08_an_operating_system_ignores_graceful_commands_and_no_forced_ones() -> None:
    client = host_with("shutdown_never_ends")
    for type_ in ("GracefulShutdown", "GracefulRestart"):
        assert power(client, type_) == 204
        client.advance(3600)
        assert client.bmc.power is Power.RUNNING
    assert power(client, "ForceOff") == 204
    assert client.bmc.power is Power.OFF


def test_c09_a_login_takes_twelve_seconds() -> None:
    client = host_with("slow_login")
    body = {"UserName": "root", "Password": "Rotated-1"}
    response = client.request("POST", "/redfish/v1/SessionService/Sessions", body)
    assert response.status == 201
    assert response.delivery is not None
    assert response.delivery.delay >= 10
    assert client.request("GET", SYSTEM).delivery is None


def job_of(client: Client) -> Response:
    """A new job of a Dell host."""
    body = {"TargetSettingsURI": SYSTEM + "/Bios/Settings"}
    client.request("PATCH", SYSTEM + "/Bios/Settings", {"Attributes": {"BootMode": "Bios"}})
    return client.request("POST", MANAGER + "/Jobs", body)


def test_c30_a_job_is_there_at_once_and_late_with_the_quirk() -> None:
    prompt, late = make_client("dell_poweredge_r750"), host_with("late_jobs")
    for client, first in ((prompt, 200), (late, 404)):
        location = header(job_of(client), "Location")
        assert location is not None
        assert client.request("GET", location).status == first
        client.advance(60)
        assert client.request("GET", location).status == 200


def test_c33_an_update_that_fails_says_so_and_changes_nothing() -> None:
    client = host_with("update_fails")
    before = client.get("/redfish/v1/UpdateService/FirmwareInventory")
    body = {"ImageURI": "http://192.0.2.1/BIOS_1.99.1.exe", "TransferProtocol": "HTTP"}
    location = header(
        client.request("POST", "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate", body), "Location"
    )
    assert location is not None
    client.advance(3600)
    task = client.get("/redfish/v1/TaskService/Tasks/" + location.rpartition("/")[2])
    assert task["TaskState"] == "Exception"
    assert task["PercentComplete"] < 100
    power(client, "PowerCycle")
    client.advance(3600)
    assert client.get("/redfish/v1/UpdateService/FirmwareInventory") == before


def test_c42_a_write_is_accepted_and_dropped() -> None:
    client = host_with("writes_dropped")
    boot = {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}}
    before = client.get(SYSTEM)["Boot"]
    assert 200 <= client.request("PATCH", SYSTEM, boot).status < 300
    assert client.get(SYSTEM)["Boot"] == before
    assert client.bmc.overlay is None


def test_n75_a_source_that_cannot_be_reached_is_an_error_and_the_old_image_stays() -> None:
    client = make_client("dell_poweredge_r750")
    media = MANAGER + "/VirtualMedia/CD"
    insert = media + "/Actions/VirtualMedia.InsertMedia"
    eject = media + "/Actions/VirtualMedia.EjectMedia"
    assert client.request("POST", insert, {"Image": "http://192.0.2.1/a.iso"}).status == 204
    before = client.get(media)
    moment = client.clock.now()
    client.bmc.become(moment, faults=preset_rules("media_unreachable", moment.wall))
    refused = client.request("POST", insert, {"Image": "http://192.0.2.1/b.iso"})
    assert refused.status >= 400
    assert orjson.loads(refused.body)["error"]
    assert client.get(media) == before
    assert client.request("POST", eject, {}).status == 204
    assert client.request("POST", insert, {"Image": "http://192.0.2.1/b.iso"}).status >= 400
    assert client.get(media)["Image"] is None
