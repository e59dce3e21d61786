"""What is remembered of how far clients are with a BMC."""

import msgspec

from bmcsim.machine.history import Milestones
from bmcsim.redfish import service
from bmcsim.redfish.exchange import Head, Request
from tests.conftest import PASSWORD, Client, basic, make_client
from tests.unit.redfish.conftest import MANAGER, OWN, SYSTEM, as_edge, dpu_with

ROOT = "/redfish/v1/"


def seen(client: Client) -> dict[str, float]:
    """Name of a milestone -> seconds since the BMC was made, without those that are not reached."""
    assert client.bmc.milestones is not None
    found = msgspec.structs.asdict(client.bmc.milestones)
    return {name: wall - client.bmc.state.bmc_started for name, wall in found.items() if wall}


def ask(client: Client, at: float, method: str, path: str, body: object = None, authorization: bytes = b"") -> int:
    """The status of a request so many seconds after the BMC was made."""
    client.clock.advance(at - (client.clock.now().wall - client.bmc.state.bmc_started))
    return client.request(method, path, body, authorization=authorization).status


def test_nobody_came_and_nothing_is_kept() -> None:
    client = dpu_with()
    client.bmc.reset_bmc(client.clock.now())
    client.bmc.set_password("root", "Another-1", client.clock.now())
    assert client.bmc.milestones is None


def test_an_ingestion_is_followed() -> None:
    client = make_client("bluefield3", password=None)
    factory, own = basic("root", "0penBmc"), basic("root", PASSWORD)
    assert ask(client, 10, "GET", ROOT) == 200
    assert seen(client) == {"contact": 10, "probe": 10}
    assert ask(client, 20, "PATCH", OWN, {"Password": PASSWORD}, factory) < 300
    assert seen(client) == {"contact": 10, "probe": 10, "login": 20, "rotation": 20}
    assert ask(client, 30, "GET", SYSTEM, authorization=own) == 200
    assert ask(client, 40, "POST", MANAGER + "/Actions/Manager.Reset", {}, own) < 300
    assert seen(client) == {"contact": 10, "probe": 10, "login": 20, "rotation": 20, "reset": 40}


def test_first_times_stay_and_the_exploration_is_the_last() -> None:
    client = dpu_with()
    for at in (10, 1000):
        assert ask(client, at, "GET", ROOT) == 200
        assert ask(client, at + 1, "GET", SYSTEM, authorization=basic("root", PASSWORD)) == 200
    client.bmc.reset_bmc(client.clock.now())
    assert seen(client) == {"contact": 10, "login": 11, "probe": 1000, "reset": 1001}


def test_what_is_refused_is_a_contact_only() -> None:
    client = dpu_with()
    assert ask(client, 10, "GET", SYSTEM) == 401
    assert ask(client, 20, "GET", SYSTEM, authorization=basic("root", "wrong")) == 401
    assert seen(client) == {"contact": 10}


def test_a_body_that_is_refused_by_its_head_is_a_contact() -> None:
    client = dpu_with()
    client.clock.advance(7)
    refused = service.admit(client.bmc, Request("PATCH", OWN, client.clock.now(), Head()), 10)
    assert getattr(refused, "status", None) == 401
    assert seen(client) == {"contact": 7}


def test_with_credentials_the_root_is_no_exploration() -> None:
    client = dpu_with()
    assert ask(client, 10, "GET", ROOT, authorization=basic("root", PASSWORD)) == 200
    assert seen(client) == {"contact": 10}


def test_the_same_password_again_is_no_rotation() -> None:
    client = dpu_with()
    own = basic("root", PASSWORD)
    assert ask(client, 10, "PATCH", OWN, {"Password": PASSWORD}, own) < 300
    assert seen(client) == {"contact": 10, "login": 10}


def test_the_short_way_touches_nothing() -> None:
    client = dpu_with()
    own = basic("root", PASSWORD)
    assert as_edge(client, "GET", SYSTEM, authorization=own).status == 200
    before = client.bmc.milestones
    client.bmc.milestones = None
    assert as_edge(client, "GET", SYSTEM, authorization=own).status == 200
    assert isinstance(before, Milestones) and client.bmc.milestones is None
