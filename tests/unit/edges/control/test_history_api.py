"""What is remembered of requests, over the API; and that no secret is part of it."""

import msgspec
import pytest

from bmcsim.edges.control.history_api import Why, lines
from bmcsim.redfish.injection import rules_of
from tests.unit.edges.control.asking import CLIENT, call
from tests.unit.edges.control.conftest import PASSWORD, Site

SYSTEMS = "/redfish/v1/Systems"
SESSIONS = "/redfish/v1/SessionService/Sessions"
MARKER = "mArKeR-5ecret"


@pytest.fixture
def host(site: Site) -> str:
    """The id of a host without DPUs."""
    return next(bmc.id for bmc in site.fleet if bmc.shared.group == "beta")


async def test_contact_counts_every_request(site: Site, host: str) -> None:
    caller = call(site, site.bmc(host))
    assert (await site.get(f"bmcs/{host}"))["last_contact"] is None
    site.clock.advance(5)
    # Parsed, then known.
    assert [caller.ask("GET", SYSTEMS) for _ in range(3)] == [200] * 3
    assert caller.ask("GET", "/redfish/v1/Nowhere") == 404
    assert caller.ask("PATCH", SYSTEMS, {"a": 1}, password="wrong") == 401
    seen = await site.get(f"bmcs/{host}")
    assert (seen["requests"], seen["errors"], seen["last_contact"]) == (5, 2, "2026-01-01T00:00:05.000Z")


async def test_without_a_recording_what_went_wrong_is_there(site: Site, host: str) -> None:
    caller = call(site, site.bmc(host))
    caller.ask("GET", SYSTEMS)
    caller.ask("GET", SYSTEMS, password="wrong")
    caller.ask("GET", "/redfish/v1/Nowhere?a=b")
    seen = await site.get(f"bmcs/{host}/requests")
    assert not seen["recorded"]
    assert [(one["status"], one["path"], one["credential"], one["client"]) for one in seen["items"]] == [
        (401, SYSTEMS, "unknown", CLIENT),
        (404, "/redfish/v1/Nowhere", "pinned", CLIENT),
    ]
    assert len((await site.get(f"bmcs/{host}/requests", limit=1))["items"]) == 1


async def test_a_recording_has_all_requests_until_it_ends(site: Site, host: str) -> None:
    caller = call(site, site.bmc(host))
    for _ in range(3):
        caller.ask("GET", SYSTEMS)
    made = (await site.send("POST", "recordings", {"selection": {"ids": [host]}, "limit": 5})).json()
    assert (made["bmcs"], made["requests"], made["limit"]) == (1, 0, 5)
    for _ in range(3):
        caller.ask("GET", SYSTEMS)
    caller.ask("PATCH", "/redfish/v1/Systems/System.Embedded.1", {"AssetTag": "x", "Password": MARKER})
    seen = await site.get(f"bmcs/{host}/requests")
    assert (seen["recorded"], seen["last"]) == (True, 4)
    assert [one["method"] for one in seen["items"]] == ["GET", "GET", "GET", "PATCH"]
    assert seen["items"][-1]["body"] == {"AssetTag": "x", "Password": "(hidden)"}
    assert [one["number"] for one in (await site.get(f"bmcs/{host}/requests", after=2))["items"]] == [3, 4]
    assert (await site.get(f"bmcs/{host}/requests", after=4))["last"] == 4
    assert (await site.get("recordings"))["recordings"][0]["requests"] == 4
    assert (await site.send("DELETE", f"recordings/{made['id']}")).status_code == 204
    assert site.context.recorder is None
    assert (await site.send("DELETE", f"recordings/{made['id']}")).status_code == 404
    assert not (await site.get(f"bmcs/{host}/requests"))["recorded"]


async def test_a_recording_says_whom_it_means(site: Site) -> None:
    for body, status in (({}, 400), ({"all": True, "selection": {"q": "x"}}, 400), ({"selection": {"q": "zzz"}}, 404)):
        assert (await site.send("POST", "recordings", body)).status_code == status
    assert (await site.send("POST", "recordings", {"all": True})).json()["bmcs"] == len(site.fleet)


async def test_why_says_what_went_wrong_and_what_to_do(site: Site, host: str) -> None:
    caller = call(site, site.bmc(host))
    caller.ask("GET", SYSTEMS)
    site.clock.advance(10)
    site.bmc(host).set_password(site.bmc(host).accounts.accounts[0].id, "Another-1", site.clock.now())
    site.bmc(host).committed()
    caller.ask("GET", SYSTEMS)
    why = await site.get(f"bmcs/{host}/why")
    assert [(one["name"], one["code"]) for one in why["findings"]] == [("previous_password", 140)]
    assert why["good_login"]["credential"] == "pinned"
    assert (why["failed_login"]["credential"], why["failed_login"]["user"]) == ("previous", caller.user)
    assert [(one["outcome"], one["count"]) for one in why["outcomes"]] == [("unauthorized", 1)]
    text = "\n".join(lines(msgspec.convert(why, Why)))
    assert "NICO-SITEEXPLORER-140 previous_password\n" in text
    assert f"last refused login: 2026-01-01T00:00:10.000Z {caller.user}, previous password, GET {SYSTEMS} 401" in text


async def test_why_of_a_bmc_without_trouble(site: Site, host: str) -> None:
    why = await site.get(f"bmcs/{host}/why")
    assert [one["name"] for one in why["findings"]] == ["no_contact"]
    call(site, site.bmc(host)).ask("GET", SYSTEMS)
    why = await site.get(f"bmcs/{host}/why")
    assert lines(msgspec.convert(why, Why))[-1] == "Nothing went wrong lately."


async def test_connections_that_a_reset_refuses_are_told(site: Site, host: str) -> None:
    bmc = site.bmc(host)
    site.driver.execute(bmc, bmc.reset_bmc(site.clock.now()))
    assert call(site, bmc).wire.closed
    seen = await site.get(f"bmcs/{host}/why")
    assert (seen["state"], seen["outcomes"][0]["outcome"], seen["errors"]) == ("resetting", "refused", 1)
    assert seen["since"] < seen["until"]
    assert f"in reset since {seen['since']} until {seen['until']}" in lines(msgspec.convert(seen, Why))[0]


async def test_faults_and_drops_are_told(site: Site, host: str) -> None:
    bmc = site.bmc(host)
    forms = [
        {"id": "drops", "selector": {"OdataId": SYSTEMS}, "action": "Close", "remaining": 1},
        {"id": "edits", "selector": {"OdataId": SYSTEMS}, "action": {"JsonMerge": {"Name": 1}}},
    ]
    bmc.become(site.clock.now(), faults=rules_of(forms, 0.0))
    bmc.committed()
    assert call(site, bmc).ask("GET", SYSTEMS) == 0
    assert call(site, bmc).ask("GET", f"{SYSTEMS}?$expand=.") == 200
    assert call(site, bmc).ask("GET", SYSTEMS) == 200
    seen = await site.get(f"bmcs/{host}/why")
    assert {(one["outcome"], one["count"]) for one in seen["outcomes"]} == {("dropped", 1), ("ok", 2)}
    assert {(one["id"], one["what"], one["acted"], one["there"]) for one in seen["faults"]} == {
        ("drops", "", 1, False),
        ("edits", "JsonMerge", 2, True),
    }
    assert seen["errors"] == 1


async def test_no_secret_is_part_of_anything(site: Site, host: str) -> None:
    bmc, account = site.bmc(host), "/redfish/v1/AccountService/Accounts"
    await site.send("POST", "recordings", {"all": True, "limit": 1000})
    own = f"{account}/{bmc.accounts.accounts[0].id}"
    asks = [
        ("POST", SESSIONS, {"UserName": "root", "Password": MARKER}, PASSWORD),
        ("POST", SESSIONS, {"UserName": "root", "Password": PASSWORD}, None),
        ("PATCH", own, {"Password": MARKER + "1"}, PASSWORD),
        ("PATCH", own, {"Password": PASSWORD}, MARKER + "1"),
        ("POST", account, {"UserName": "new", "Password": MARKER, "RoleId": "Operator"}, PASSWORD),
        ("PATCH", own, b'{"Password": "' + MARKER.encode() + b'"', PASSWORD),
        ("PATCH", f"{SYSTEMS}/System.Embedded.1/Bios/Settings", {"Attributes": {"SetupPassword": MARKER}}, PASSWORD),
        ("POST", f"{SYSTEMS}/System.Embedded.1/Bios/Actions/Bios.ChangePassword",
         {"PasswordName": "Setup", "OldPassword": "", "NewPassword": MARKER}, PASSWORD),
        ("POST", "/redfish/v1/EventService/Subscriptions",
         {"Destination": f"https://u:{MARKER}@h/", "HttpHeaders": [{"X-A": MARKER}], "Protocol": "Redfish"}, PASSWORD),
        ("GET", f"{SYSTEMS}?token={MARKER}", None, PASSWORD),
        ("GET", SYSTEMS, None, MARKER),
        ("DELETE", SYSTEMS, None, MARKER),
    ]  # fmt: skip
    for method, path, body, password in asks:
        call(site, bmc).ask(method, path, body, password=password)
    call(site, bmc).ask("GET", SYSTEMS, password=None, X_Auth_Token=MARKER)
    answers = [await site.get(f"bmcs/{host}/{what}") for what in ("requests", "why")]
    assert len(answers[0]["items"]) == len(asks) + 1
    await site.send("DELETE", "recordings/1")
    answers.append(await site.get(f"bmcs/{host}/requests"))
    text = str(answers) + str(site.context.history.of(bmc)) + str((await site.get("audit"))["changes"])
    assert MARKER not in text and PASSWORD not in text
    assert {one["credential"] for one in answers[0]["items"]} >= {"pinned", "current", "unknown", None}
