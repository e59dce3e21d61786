"""Facts about a BMC -> what NICo makes of them: a case for each row of the table."""

from math import inf
from typing import Any

import pytest

from bmcsim.fleet import why
from bmcsim.fleet.history import History, incident
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.why import TABLE, Facts, FaultFact, Finding, facts_of, findings
from bmcsim.machine.bmc import ACCOUNT_SERVICE
from bmcsim.machine.bmc_reset import Phase
from bmcsim.machine.history import NOBODY, Incident, Login, Presented
from bmcsim.redfish.exchange import Head, Request, Response
from bmcsim.redfish.injection import rules_of
from tests.conftest import PASSWORD, Client, basic, make_client

NOW = 1000.0
SYSTEMS = "/redfish/v1/Systems"


def refused(
    generation: Any = None, status: int = 401, path: str = SYSTEMS, user: str = "root", **others: Any
) -> Incident:
    """A request that got 401 or 403."""
    presented = Presented("basic", user, generation) if generation else NOBODY
    outcome: Any = "unauthorized" if status == 401 else "forbidden"
    return Incident(others.pop("wall", NOW - 10), "GET", path, status, outcome, presented, **others)


def went(outcome: Any, status: int, **others: Any) -> Incident:
    """A request that ended so."""
    known = Presented("basic", "root", "current")
    return Incident(others.pop("wall", NOW - 10), "GET", SYSTEMS, status, outcome, known, **others)


def facts(*incidents: Incident, **others: Any) -> Facts:
    """Of a BMC with these incidents, which was asked when the last one happened."""
    defaults = {
        "users": frozenset({"root"}),
        "contact": NOW - 10,
        "login": Login(1.0, "root", "current"),
        "requests": 5,
    }
    return Facts(now=NOW, incidents=incidents, **{**defaults, **others})


EDITS = FaultFact("f", "JsonRemove", 1, NOW - 10, True, True)

CASES: list[tuple[str, int | None, bool, Facts]] = [
    ("unpowered", 101, True, facts(state="unpowered", phase=Phase.CLOSED)),
    ("resetting", 101, True, facts(state="resetting", phase=Phase.CLOSED, until=NOW + 5)),
    ("resetting", 100, True, facts(state="resetting", phase=Phase.HANGING, until=NOW + 5)),
    ("resetting", 130, True, facts(state="resetting", phase=Phase.UNAVAILABLE, until=NOW + 5)),
    ("no_lease", None, True, facts(state="no_lease", lease="discovering, after 3 tries")),
    ("starting", 101, True, facts(state="starting")),
    ("locked", 140, True, facts(locked={"root": NOW + 30})),
    ("locked", 140, True, facts(locked={"root": inf})),
    ("factory_password", 140, True, facts(refused("factory"))),
    ("factory_password", 140, False, facts(refused("factory"), login=Login(NOW - 5, "root", "current"))),
    ("previous_password", 140, True, facts(refused("previous"))),
    ("unknown_password", 140, True, facts(refused("unknown"))),
    ("unknown_user", 140, True, facts(refused("unknown", user="nobody"))),
    ("right_password", 140, True, facts(refused("current"))),
    ("no_credentials", 140, True, facts(refused())),
    ("must_change", 140, True, facts(refused("factory", 403), must_change=("root",))),
    ("must_change", 140, True, facts(refused("factory", 403))),
    ("forbidden", 140, True, facts(refused("current", 403))),
    ("firmware_forbidden", 131, True, facts(refused("current", 403, "/redfish/v1/UpdateService/FirmwareInventory"))),
    ("fault_refuses", 140, True, facts(refused("current", faults=("f",)), faults=(EDITS,))),
    ("fault_refuses", 140, False, facts(refused("current", faults=("f",)))),
    ("hpe_401", 145, True, facts(refused("current"), vendor="HPE")),
    ("root_refused", 199, True, facts(refused("unknown", path="/redfish/v1/"))),
    ("avoids_lockout", 144, True, facts(refused("unknown", wall=NOW - 500), contact=NOW - 500)),
    ("no_login", 141, True, facts(login=None)),
    ("redfish_error", 130, True, facts(went("server_error", 500))),
    ("redfish_error", 130, True, facts(went("missing", 404))),
    ("redfish_error", 130, False, facts(went("cut", 200), contact=NOW - 5)),
    ("edited", 199, True, facts(went("ok", 200, faults=("f",)), faults=(EDITS,))),
    ("timeout", 100, True, facts(went("ok", 200, delay=70.0))),
    ("dropped", 102, True, facts(went("dropped", 0))),
    ("refused", 101, True, facts(went("refused", 0))),
    ("no_contact", None, True, facts(contact=0.0, requests=0, login=None)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "code", "standing", "known"), CASES)
def test_each_row_says_what_it_should(name: str, code: int | None, standing: bool, known: Facts) -> None:
    found = [one for one in findings(known) if one.name == name]
    assert [(one.code, one.standing) for one in found] == [(code, standing)]
    assert found[0].text.endswith(".") and found[0].advice


def test_each_row_has_a_case() -> None:
    assert {(name, code) for name, code, *_ in CASES} == {(name, code) for name, code, *_ in TABLE}


def test_a_bmc_that_works_has_no_findings() -> None:
    assert findings(facts()) == []


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("hpe_401", facts(*[refused("current")] * 6, vendor="HPE")),
        ("hpe_401", facts(refused("current"), vendor="Dell")),
        ("avoids_lockout", facts(refused("unknown"))),
        ("avoids_lockout", facts(refused("unknown", wall=NOW - 500), contact=NOW - 9)),
        ("avoids_lockout", facts(refused("unknown", path="/redfish/v1", wall=NOW - 500), contact=NOW - 500)),
        ("unknown_password", facts(refused("unknown", user="nobody"))),
        ("unknown_user", facts(refused("unknown"))),
        ("forbidden", facts(refused("factory", 403), must_change=("root",))),
        ("forbidden", facts(refused("factory", 403))),
        ("previous_password", facts(refused("previous", faults=("f",)))),
        ("no_login", facts(refused("unknown"), login=None)),
        ("redfish_error", facts(went("unavailable", 503), state="resetting", phase=Phase.UNAVAILABLE)),
        ("refused", facts(went("refused", 0), state="resetting", phase=Phase.CLOSED)),
        ("no_contact", facts(state="no_lease", contact=0.0, requests=0)),
    ],
)
def test_what_a_row_is_not_for(name: str, known: Facts) -> None:
    assert name not in [one.name for one in findings(known)]


def test_what_stands_comes_first() -> None:
    known = facts(went("cut", 200), contact=NOW - 5, state="unpowered", phase=Phase.CLOSED)
    assert [one.standing for one in findings(known)] == [True, False]


# from a BMC


def world(client: Client, history: History) -> list[Finding]:
    """What is found about a BMC."""
    return findings(known(client, history))


def known(client: Client, history: History) -> Facts:
    """What is known about a BMC."""
    fleet = Fleet()
    fleet.add(client.bmc)
    fleet.ready = True
    return facts_of(client.bmc, fleet, history, None, client.clock.now())


def asked(client: Client, history: History, authorization: bytes) -> Response:
    """A request as the edge handles it."""
    moment = client.clock.now()
    client.bmc.contact = moment.wall
    client.bmc.requests += 1
    response = client.request("GET", SYSTEMS, authorization=authorization)
    if response.status != 200 or response.faults:
        request = Request("GET", SYSTEMS, moment, Head(authorization=authorization))
        history.note(client.bmc, incident(client.bmc, request, response, "192.0.2.9"))
    client.bmc.committed()
    return response


def test_a_client_that_missed_a_rotation() -> None:
    client, history = make_client("dell_poweredge_r750"), History()
    account = client.bmc.accounts.accounts[0]
    old = basic(account.user, PASSWORD)
    assert asked(client, history, old).status == 200
    client.advance(10)
    client.bmc.set_password(account.id, "Another-1", client.clock.now())
    assert asked(client, history, old).status == 401
    assert [(one.name, one.code) for one in world(client, history)] == [("previous_password", 140)]
    client.advance(why.SILENCE + 1)
    assert [one.code for one in world(client, history)] == [140, 144]
    assert asked(client, history, basic(account.user, "Another-1")).status == 200
    assert [(one.name, one.standing) for one in world(client, history)] == [("previous_password", False)]


def test_a_bmc_in_reset_says_until_when() -> None:
    client, history = make_client("dell_poweredge_r750"), History()
    whole = client.bmc.reset_seconds
    client.driver.execute(client.bmc, client.bmc.reset_bmc(client.clock.now()))
    began = client.clock.now().wall
    client.advance(whole / 4)
    found = known(client, history)
    assert (found.since, found.until) == (pytest.approx(began), pytest.approx(began + whole))
    client.advance(whole)
    assert known(client, history).until is None


def test_faults_that_acted_are_told_while_they_are_there_and_after() -> None:
    client, history = make_client("dell_poweredge_r750"), History()
    form = {"id": "f", "selector": {"OdataId": SYSTEMS}, "action": {"JsonRemove": ["/Members"]}}
    client.bmc.become(client.clock.now(), faults=rules_of([form], 0.0))
    assert known(client, history).faults == (FaultFact("f", "JsonRemove", 0, 0.0, True, True),)
    now = client.clock.now().wall
    assert asked(client, history, client.authorization).faults == ("f",)
    assert known(client, history).faults == (FaultFact("f", "JsonRemove", 1, now, True, True),)
    assert [one.code for one in world(client, history)] == [199]
    client.bmc.become(client.clock.now(), faults=rules_of([], 0.0))
    assert known(client, history).faults == (FaultFact("f", "", 1, now, False, False),)


def test_locked_accounts_say_until_when() -> None:
    client, history = make_client("bluefield3"), History()
    facts = {"AccountLockoutThreshold": 2, "AccountLockoutDuration": 60}
    client.bmc.become(client.clock.now(), changes={ACCOUNT_SERVICE: facts})
    user = client.bmc.accounts.accounts[0].user
    for _ in range(2):
        asked(client, history, basic(user, "wrong"))
    assert known(client, history).locked == {user: client.clock.now().wall + 60}
    assert "locked" in [one.name for one in world(client, history)]
    client.advance(61)
    assert known(client, history).locked == {}
