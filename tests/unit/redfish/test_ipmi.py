"""POST /ipmi: machine-a-tron's commands over HTTP, by the BMC's own state machines."""

import msgspec
import orjson
import pytest

from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.power import Power
from bmcsim.redfish.exchange import Request, Response, head_of
from bmcsim.redfish.injection import rules_of
from bmcsim.redfish.service import BodyPlan, admit, handle
from tests.conftest import PASSWORD, Client, basic, make_client

PATH = "/ipmi"


def command(client: Client, action: object, **fields: bytes) -> Response:
    return post(client, orjson.dumps({"action": action}), **fields)


def post(client: Client, body: bytes, method: str = "POST", **fields: bytes) -> Response:
    head = {
        b"authorization": basic("root", PASSWORD),
        b"content-type": b"application/json",
        **{name.replace("_", "-").encode(): value for name, value in fields.items()},
    }
    return handle(client.bmc, Request(method, PATH, client.clock.now(), head_of(head), body=body))


@pytest.mark.parametrize("action", ["chassis_power_reset", "dpu_legacy_boot"])
@pytest.mark.parametrize("profile", ["dell_poweredge_r750", "bluefield3"])
def test_a_reset_restarts_the_system(profile: str, action: str) -> None:
    client = make_client(profile)
    response = command(client, action)
    assert (response.status, orjson.loads(response.body)) == (200, {"success": True})
    assert b"application/json" in response.head
    assert client.bmc.power is Power.BOOTING
    assert client.bmc.uncommitted is not None, "it is durable"
    assert "power" in client.bmc.state.timers
    assert response.actions


def test_a_cold_reset_is_one_of_the_bmc() -> None:
    client = make_client("dell_poweredge_r750")
    response = command(client, "bmc_cold_reset")
    assert (response.status, orjson.loads(response.body)) == (200, {"success": True})
    assert client.bmc.state.service is Service.RESETTING
    assert client.bmc.power is Power.RUNNING


@pytest.mark.parametrize("power", [Power.OFF, Power.CYCLING])
def test_what_the_power_state_does_not_allow_is_said_in_the_body(power: Power) -> None:
    client = make_client("dell_poweredge_r750")
    client.bmc.become(client.clock.now(), power=power)
    client.bmc.committed()
    response = command(client, "chassis_power_reset")
    error = "power command failed: the system is Off"
    assert (response.status, orjson.loads(response.body)) == (200, {"success": False, "error": error})
    assert client.bmc.uncommitted is None


@pytest.mark.parametrize("action", ["chassis_identify", None, 7, ["x"], {"x": {}}, "x" * 500])
def test_an_unknown_command_is_said_in_the_body(action: object) -> None:
    response = command(make_client("bluefield3"), action)
    found = orjson.loads(response.body)
    assert (response.status, found["success"]) == (200, False)
    assert found["error"].startswith("unknown action: ")
    assert len(found["error"]) < 100


@pytest.mark.parametrize(
    ("fields", "body", "status"),
    [
        ({"authorization": b""}, b'{"action":"bmc_cold_reset"}', 401),
        ({"authorization": basic("root", "wrong")}, b'{"action":"bmc_cold_reset"}', 401),
        ({"content_type": b"text/plain"}, b'{"action":"bmc_cold_reset"}', 415),
        ({}, b"{", 400),
        ({}, b"[]", 400),
    ],
)
def test_it_needs_what_every_write_needs(fields: dict[str, bytes], body: bytes, status: int) -> None:
    client = make_client("bluefield3")
    assert post(client, body, **fields).status == status
    assert client.bmc.state.service is Service.UP
    head = head_of({b"authorization": basic("root", PASSWORD), b"content-type": b"application/json"})
    plan = admit(client.bmc, Request("POST", PATH, client.clock.now(), head), len(body))
    assert isinstance(plan, BodyPlan)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PATCH", "PUT", "DELETE"])
def test_other_methods_are_refused(method: str) -> None:
    response = post(make_client("bluefield3"), b"", method)
    assert response.status == 405
    assert b"Allow: POST\r\n" in response.head


def test_options_says_what_there_is() -> None:
    response = post(make_client("bluefield3"), b"", "OPTIONS")
    assert (response.status, b"Allow: POST\r\n" in response.head) == (204, True)


def test_a_body_of_the_wrong_type_is_refused_before_it_is_read() -> None:
    client = make_client("bluefield3")
    head = head_of({b"authorization": basic("root", PASSWORD), b"content-type": b"text/plain"})
    plan = admit(client.bmc, Request("POST", PATH, client.clock.now(), head), 10)
    assert isinstance(plan, Response) and plan.status == 415


@pytest.mark.parametrize(("action", "allowed"), [("chassis_power_reset", True), ("bmc_cold_reset", False)])
def test_an_operator_may_restart_the_system_and_not_the_bmc(action: str, allowed: bool) -> None:
    client = make_client("dell_poweredge_r750")
    bmc = client.bmc
    account = bmc.accounts.accounts[0]
    bmc.become(client.clock.now(), accounts=bmc.accounts.replacing(msgspec.structs.replace(account, role="Operator")))
    bmc.committed()
    response = command(client, action)
    assert response.status == (200 if allowed else 403)
    assert (bmc.uncommitted is not None) is allowed


def test_fault_rules_act_on_it() -> None:
    client = make_client("bluefield3")
    rule = {"id": "x", "selector": {"Path": {"glob": "/ipmi"}}, "action": {"Status": 503}}
    client.bmc.become(client.clock.now(), faults=rules_of([rule], 0.0))
    assert command(client, "bmc_cold_reset").status == 503
    assert client.bmc.state.service is Service.UP
