"""DMTF's library and sushy inside a process: no server, no sockets, and time by hand."""

from collections.abc import Iterator
from typing import Any

import pytest
import redfish
import sushy
from sushy import auth as sushy_auth

from bmcsim.testing import Bmc, Fleet


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet(dpus=1) as fleet, fleet.patch_requests():
        yield fleet


@pytest.fixture
def host(fleet: Fleet) -> Bmc:
    return fleet["host-0"]


def client_of(bmc: Bmc, **options: Any) -> Any:
    user, password = bmc.auth
    return redfish.redfish_client(bmc.url, user, password, max_retry=0, **options)


@pytest.mark.parametrize("auth", ["session", "basic"])
@pytest.mark.parametrize("id_", ["host-0", "host-0-dpu-0"])
def test_redfish_logs_in_and_resets(fleet: Fleet, id_: str, auth: str) -> None:
    bmc = fleet[id_]
    client = client_of(bmc)
    client.login(auth=auth)
    action = client.get(bmc.system).dict["Actions"]["#ComputerSystem.Reset"]["target"]
    assert client.post(action, body={"ResetType": "ForceOff"}).status in (200, 204)
    assert client.get(bmc.system).dict["PowerState"] == "Off"
    assert client.post(action, body={"ResetType": "On"}).status in (200, 204)
    fleet.advance_until(lambda: client.get(bmc.system).dict["BootProgress"]["LastState"] == "OSRunning")
    client.logout()


def test_redfish_takes_the_adapter(host: Bmc) -> None:
    with Fleet(dpus=0, seed=1) as other:
        client = client_of(host, https_adapter=other.requests_adapter())
        client.login(auth="session")
        assert client.get("/redfish/v1/Managers").status == 200
        client.logout()
        other.assert_requested("host-0", "DELETE")


def test_redfish_sees_a_bmc_that_resets(fleet: Fleet, host: Bmc) -> None:
    client = client_of(host)
    client.login(auth="basic")
    host.reset_bmc()
    with pytest.raises(redfish.rest.v1.RetriesExhaustedError):
        client.get(host.manager)
    fleet.advance(600)
    assert client.get(host.manager).status == 200


def root_of(bmc: Bmc, auth: Any = None) -> Any:
    user, password = bmc.auth
    auth = auth or sushy_auth.SessionOrBasicAuth(user, password)
    return sushy.Sushy(bmc.url + "/redfish/v1", auth=auth, verify=False)


def test_sushy_boots_a_system(fleet: Fleet, host: Bmc) -> None:
    root = root_of(host)
    (system,) = root.get_system_collection().get_members()
    system.set_system_boot_options(sushy.BOOT_SOURCE_TARGET_PXE, sushy.BOOT_SOURCE_ENABLED_ONCE)
    system.reset_system(sushy.RESET_FORCE_OFF)
    fleet.advance(30)
    system.refresh(force=True)
    assert system.power_state == sushy.POWER_STATE_OFF
    system.reset_system(sushy.RESET_ON)
    fleet.advance(600)
    system.refresh(force=True)
    assert system.power_state == sushy.POWER_STATE_ON
    assert system.json["BootProgress"]["LastState"] == "OSRunning"


def test_sushy_takes_a_session(fleet: Fleet, host: Bmc) -> None:
    connector = sushy.connector.Connector(host.url, verify=False)
    connector._session = fleet.session()
    user, password = host.auth
    root = sushy.Sushy(
        host.url + "/redfish/v1", auth=sushy_auth.BasicAuth(user, password), connector=connector, verify=False
    )
    assert root.get_chassis_collection().get_members()
    assert fleet.requested(host, status=200)


def test_sushy_meets_faults(fleet: Fleet, host: Bmc, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sleeps between its tries: that is the fleet's time here."""
    monkeypatch.setattr("time.sleep", fleet.advance)
    root, before = root_of(host), fleet.now
    host.fault({"id": "down", "selector": {"OdataId": "/redfish/v1/Systems/**"}, "action": "Close"})
    with pytest.raises(sushy.exceptions.ConnectionError):
        root.get_system_collection().get_members()
    assert fleet.now > before
    host.clear_faults()
    assert root.get_system_collection().get_members()
