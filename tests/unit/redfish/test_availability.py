"""What clients meet while a BMC is in reset, phase by phase."""

from typing import Any

import msgspec
import pytest

from bmcsim.machine.bmc_reset import Service
from bmcsim.redfish.availability import SLOW_LOGIN
from bmcsim.redfish.exchange import DROP, Delivery, Head, Request, Response
from bmcsim.redfish.service import BodyPlan, admit
from tests.conftest import PASSWORD, Client, header, make_client, message_ids
from tests.unit.redfish.conftest import MANAGER, OWN, SESSIONS, SYSTEM, as_edge, dpu_with, login

RESET = MANAGER + "/Actions/Manager.Reset"
CREDENTIALS = {"UserName": "root", "Password": PASSWORD}

REQUESTS: list[tuple[str, str, Any, dict[str, bytes]]] = [
    ("GET", "/redfish", None, {"authorization": b""}),
    ("GET", "/redfish/v1/", None, {"authorization": b""}),
    ("GET", SYSTEM, None, {}),
    ("HEAD", SYSTEM, None, {}),
    ("OPTIONS", SYSTEM, None, {}),
    ("GET", SYSTEM, None, {"authorization": b""}),
    ("GET", SYSTEM, None, {"authorization": b"Basic nonsense"}),
    ("GET", "/redfish/v1/Nope", None, {}),
    ("PATCH", OWN, {"Password": "Other-1"}, {}),
    ("POST", SESSIONS, CREDENTIALS, {"authorization": b""}),
    ("POST", SYSTEM + "/Actions/ComputerSystem.Reset", {"ResetType": "ForceOff"}, {}),
    ("POST", RESET, {}, {}),
    ("BREW", SYSTEM, None, {}),
]
every_request = pytest.mark.parametrize(("method", "path", "body", "fields"), REQUESTS)


def resetting(mode: str, *, time_scale: float = 1.0, seconds: float = 100.0) -> Client:
    """A BMC whose reset of some seconds has just begun."""
    client = dpu_with(while_resetting=mode)
    client.clock.scale = time_scale
    timings = msgspec.structs.replace(client.bmc.shared.timings, bmc_reset=seconds)
    client.bmc.shared = msgspec.structs.replace(client.bmc.shared, timings=timings)
    answer = client.request("POST", RESET)
    assert (answer.status, answer.delivery) == (204, None)
    return client


def is_refusal(response: Response, retry_after: str) -> None:
    """Check that a response is a complete 503 of the service."""
    assert (response.status, message_ids(response)) == (503, ["ServiceTemporarilyUnavailable"])
    assert header(response, "Retry-After") == retry_after
    assert header(response, "WWW-Authenticate") is None
    assert response.delivery is None


# each mode


@every_request
def test_a_bmc_that_is_closed_drops_every_request(method: str, path: str, body: Any, fields: dict[str, bytes]) -> None:
    client = resetting("close")
    for seconds in (0, 50, 49.9):
        client.advance(seconds)
        before = client.bmc.state
        response = client.request(method, path, body, **fields)
        assert response.delivery == DROP
        assert (response.body, list(response.actions)) == (b"", [])
        assert client.bmc.state is before


@every_request
def test_a_bmc_that_is_unavailable_says_so_before_anything_else(
    method: str, path: str, body: Any, fields: dict[str, bytes]
) -> None:
    client = resetting("503")
    before = client.bmc.state
    is_refusal(client.request(method, path, body, **fields), "100")
    assert client.bmc.state is before


@every_request
def test_a_bmc_that_hangs_lets_go_without_an_answer_when_its_reset_ends(
    method: str, path: str, body: Any, fields: dict[str, bytes]
) -> None:
    client = resetting("hang")
    client.advance(30)
    before = client.bmc.state
    response = client.request(method, path, body, **fields)
    assert response.delivery == Delivery(delay=70, keep=0)
    assert list(response.actions) == []
    assert client.bmc.state is before


@pytest.mark.parametrize(
    ("seconds", "retry_after"), [(0, "100"), (0.5, "100"), (1, "99"), (98.5, "2"), (99, "1"), (99.999, "1")]
)
def test_retry_after_is_the_time_that_is_left_in_whole_seconds(seconds: float, retry_after: str) -> None:
    client = resetting("503")
    client.advance(seconds)
    is_refusal(client.request("GET", SYSTEM), retry_after)


@pytest.mark.parametrize(("scale", "retry_after"), [(1, "100"), (10, "10"), (60, "2"), (1000, "1"), (0, "100")])
def test_retry_after_is_real_time(scale: float, retry_after: str) -> None:
    is_refusal(resetting("503", time_scale=scale).request("GET", SYSTEM), retry_after)


@pytest.mark.parametrize(("scale", "delay"), [(1, 100), (10, 10), (0, 100)])
def test_a_bmc_hangs_for_real_time(scale: float, delay: float) -> None:
    response = resetting("hang", time_scale=scale).request("GET", SYSTEM)
    assert response.delivery == Delivery(delay=delay, keep=0)


# staged


def test_a_staged_reset_is_closed_then_unavailable_then_slow_then_normal() -> None:
    client = resetting("staged")
    seen = []
    for seconds in (0, 59.9, 0.2, 29.8, 0.2, 9.8, 0.2):
        client.advance(seconds)
        root = client.request("GET", "/redfish/v1/", authorization=b"")
        basic = client.request("GET", SYSTEM)
        seen.append((root.status, root.delivery, basic.status, basic.delivery))
    slow = Delivery(delay=SLOW_LOGIN)
    assert seen == [
        *[(503, DROP, 503, DROP)] * 2,
        *[(503, None, 503, None)] * 2,
        *[(200, None, 200, slow)] * 2,
        (200, None, 200, None),
    ]


def test_retry_after_in_a_staged_reset_is_until_its_end() -> None:
    client = resetting("staged")
    client.advance(70)
    is_refusal(client.request("GET", SYSTEM), "30")


def test_logins_are_slow_at_the_end_of_a_staged_reset_and_tokens_are_not() -> None:
    client = resetting("staged")
    client.advance(95)
    slow = Delivery(delay=SLOW_LOGIN)
    created = client.request("POST", SESSIONS, CREDENTIALS, authorization=b"")
    assert (created.status, created.delivery) == (201, slow)
    token = header(created, "X-Auth-Token")
    assert token is not None
    by_token = client.request("GET", SYSTEM, authorization=b"", token=token.encode())
    assert (by_token.status, by_token.delivery) == (200, None)
    refused = client.request("GET", SYSTEM, authorization=b"Basic nonsense")
    assert (refused.status, refused.delivery) == (401, slow)
    assert client.request("GET", SYSTEM, authorization=b"").delivery is None


def test_no_login_is_remembered_while_logins_are_slow() -> None:
    client = resetting("staged")
    client.advance(95)
    answers = [as_edge(client, "GET", SYSTEM, authorization=client.authorization) for _ in range(2)]
    assert [one.delivery for one in answers] == [Delivery(delay=SLOW_LOGIN)] * 2
    client.advance(5)
    answers = [as_edge(client, "GET", SYSTEM, authorization=client.authorization) for _ in range(2)]
    assert [(one.status, one.delivery) for one in answers] == [(200, None)] * 2


def test_a_slow_login_takes_time_of_the_hardware() -> None:
    client = resetting("staged", time_scale=60)
    client.advance(95 / 60)
    assert client.request("GET", SYSTEM).delivery == Delivery(delay=SLOW_LOGIN / 60)


def test_writes_work_while_logins_are_slow() -> None:
    client = resetting("staged")
    client.advance(95)
    response = client.request("PATCH", OWN, {"Password": "Other-1"})
    assert response.status == 204
    client.advance(5)
    assert client.request("GET", SYSTEM).status == 401


# around a reset


@pytest.mark.parametrize("mode", ["close", "503", "hang", "staged"])
def test_everything_is_as_before_when_the_reset_is_over_but_sessions_are_gone(mode: str) -> None:
    before = dpu_with(while_resetting=mode)
    token, uri = login(before)
    shown = before.get(SYSTEM)
    before.request("POST", RESET)
    before.advance(89.9)
    assert before.bmc.state.service is Service.RESETTING
    before.advance(0.1)
    assert before.get(SYSTEM) == shown
    assert before.request("GET", SYSTEM, authorization=b"", token=token).status == 401
    assert before.request("GET", uri).status == 404


def test_a_remembered_login_does_not_get_past_a_reset(dpu: Client) -> None:
    for _ in range(2):
        assert as_edge(dpu, "GET", SYSTEM, authorization=dpu.authorization).status == 200
    dpu.request("POST", RESET)
    assert as_edge(dpu, "GET", SYSTEM, authorization=dpu.authorization).delivery == DROP


def test_a_reset_of_one_bmc_is_nothing_to_another(dpu: Client) -> None:
    other = make_client("bluefield3", index=1)
    dpu.request("POST", RESET)
    assert other.request("GET", SYSTEM).status == 200


def test_a_reset_that_its_profile_gives_no_time_is_over_at_once() -> None:
    client = resetting("503", seconds=0.0)
    client.driver.run_due()
    assert client.get(SYSTEM)["PowerState"] == "On"


@pytest.mark.parametrize(
    ("mode", "seconds", "status", "delivery"),
    [
        ("close", 0, 503, DROP),
        ("503", 0, 503, None),
        ("hang", 40, 503, Delivery(delay=60, keep=0)),
        ("staged", 50, 503, DROP),
        ("staged", 70, 503, None),
    ],
)
def test_no_body_is_read_while_the_bmc_is_away(
    mode: str, seconds: float, status: int, delivery: Delivery | None
) -> None:
    client = resetting(mode)
    client.advance(seconds)
    request = Request("PATCH", OWN, client.clock.now(), Head(client.authorization, content_type=b"application/json"))
    found = admit(client.bmc, request, 10)
    assert isinstance(found, Response)
    assert (found.status, found.delivery) == (status, delivery)


def test_bodies_are_read_while_logins_are_slow() -> None:
    client = resetting("staged")
    client.advance(95)
    request = Request("PATCH", OWN, client.clock.now(), Head(client.authorization, content_type=b"application/json"))
    assert isinstance(admit(client.bmc, request, 10), BodyPlan)


def test_a_time_line_that_stands_makes_no_login_wait() -> None:
    client = make_client("bluefield3", time_scale=0.0)
    bmc = client.bmc
    behaviour = msgspec.structs.replace(bmc.shared.behaviour, while_resetting="staged")
    bmc.shared = msgspec.structs.replace(bmc.shared, behaviour=behaviour)
    client.driver.execute(bmc, bmc.reset_bmc(client.clock.now()))
    client.driver.skip(bmc.shared.timings.bmc_reset * 0.95)
    response = client.request("GET", "/redfish/v1/Systems")
    assert (response.status, response.delivery) == (200, None)
