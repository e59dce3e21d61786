"""DMTF's Python library as a client: login, walk, reset, password change."""

import time
from collections import deque
from typing import Any

import pytest
import redfish
from redfish.messages.messages import RedfishPasswordChangeRequiredError
from redfish.rest.v1 import InvalidCredentialsError, RetriesExhaustedError

from bmcsim.tree.check import links_of
from tests.clients.conftest import DPU, HOST, NEIGHBOUR
from tests.serving import Process

SYSTEMS = {HOST: "/redfish/v1/Systems/System.Embedded.1", DPU: "/redfish/v1/Systems/Bluefield"}
MANAGERS = {HOST: "/redfish/v1/Managers/iDRAC.Embedded.1", DPU: "/redfish/v1/Managers/Bluefield_BMC"}


def connect(process: Process, address: str, password: str = "P", auth: str = "session") -> Any:
    """A logged-in client."""
    client = redfish.redfish_client(base_url=process.url(address), username="root", password=password, max_retry=1)
    client.login(auth=auth)
    return client


@pytest.mark.parametrize("auth", ["session", "basic"])
@pytest.mark.parametrize("address", [HOST, DPU])
def test_walks_every_resource(fleet: Process, address: str, auth: str) -> None:
    client = connect(fleet, address, auth=auth)
    waiting, seen = deque(["/redfish/v1/"]), {"/redfish/v1"}
    ids: dict[str, str] = {}
    while waiting:
        uri = waiting.popleft()
        response = client.get(uri)
        assert response.status == 200, uri
        fields = {name.lower(): value for name, value in response.getheaders()}
        assert fields["content-type"].startswith("application/json")
        assert fields["odata-version"] == "4.0"
        assert fields["etag"] == response.dict["@odata.etag"]
        assert ids.setdefault(response.dict["@odata.id"], uri) == uri
        for _, link in links_of(response.dict):
            target = link.partition("#")[0].rstrip("/")
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    client.logout()
    assert len(seen) > (200 if address == HOST else 75)


@pytest.mark.parametrize("address", [HOST, DPU])
def test_resets_a_system_and_sees_it_pass_through_its_states(fleet: Process, address: str) -> None:
    client = connect(fleet, address)
    uri = SYSTEMS[address]
    action = client.get(uri).dict["Actions"]["#ComputerSystem.Reset"]
    assert client.post(action["target"], body={"ResetType": "ForceOff"}).status in (200, 204)
    assert client.get(uri).dict["PowerState"] == "Off"
    assert client.post(action["target"], body={"ResetType": "ForceOff"}).status in (200, 204)
    assert client.post(action["target"], body={"ResetType": "On"}).status in (200, 204)
    states = set()
    deadline = time.monotonic() + 30
    while "OSRunning" not in states and time.monotonic() < deadline:
        system = client.get(uri).dict
        states |= {system["PowerState"], system["BootProgress"]["LastState"]}
    assert {"PoweringOn", "On", "OSRunning"} <= states
    client.logout()


def test_a_manager_reset_takes_one_bmc_out_of_service_and_keeps_its_password(fleet: Process) -> None:
    client = connect(fleet, NEIGHBOUR)
    uri = MANAGERS[HOST]
    before = client.get(uri).dict["LastResetTime"]
    response = client.post(f"{uri}/Actions/Manager.Reset", body={"ResetType": "GracefulRestart"})
    assert response.status in (200, 204)
    with pytest.raises(RetriesExhaustedError):
        connect(fleet, NEIGHBOUR)
    assert connect(fleet, HOST, auth="basic").get(MANAGERS[HOST]).status == 200
    deadline = time.monotonic() + 30
    while True:
        try:
            again = connect(fleet, NEIGHBOUR)
            break
        except RetriesExhaustedError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert client.get(uri).status == 401
    assert again.get(uri).dict["LastResetTime"] >= before
    again.logout()


@pytest.mark.parametrize(("address", "factory"), [(HOST, "factory_password"), (DPU, "0penBmc")])
def test_a_password_change_takes_effect_at_once(factory_fleet: Process, address: str, factory: str) -> None:
    client = redfish.redfish_client(factory_fleet.url(address), "root", factory, max_retry=1)
    account = "/redfish/v1/AccountService/Accounts/root"
    with pytest.raises(RedfishPasswordChangeRequiredError, match=account):
        client.login(auth="session")
    assert client.get("/redfish/v1/Systems").status == 403
    assert client.patch(account, body={"Password": "New-1"}).status in (200, 204)
    assert client.get("/redfish/v1/Systems").status == 200
    client.logout()
    with pytest.raises(InvalidCredentialsError):
        connect(factory_fleet, address, factory, "basic")
    connect(factory_fleet, address, "New-1").logout()
