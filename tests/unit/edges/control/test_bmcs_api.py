"""Lists of BMCs, and one in full."""

from typing import Any

import pytest

from bmcsim.edges.control.views import FIELDS
from bmcsim.fleet.devices import mat_id
from bmcsim.machine.credentials import as_shipped
from bmcsim.machine.identity import mac_colons
from bmcsim.machine.power import Power
from bmcsim.redfish.exchange import Head, Request
from bmcsim.redfish.service import handle
from tests.conftest import basic
from tests.unit.edges.control.conftest import PASSWORD, Site

SYSTEM = "/redfish/v1/Systems/System.Embedded.1"


async def test_a_list_shows_each_bmc_and_how_many_there_are(site: Site) -> None:
    page = await site.get("bmcs", limit=2, group="alpha")
    assert (page["total"], page["offset"], page["next"]) == (15, 0, 2)
    host, dpu = page["items"]
    bmc = site.bmc("alpha-0")
    assert host == {
        "id": "alpha-0",
        "kind": "host",
        "group": "alpha",
        "rack": None,
        "position": None,
        "hardware": "dell_poweredge_r750",
        "address": bmc.address,
        "mac": mac_colons(bmc.identity.bmc_mac),
        "serial": bmc.identity.serial,
        "parent": None,
        "state": "up",
        "power": "On",
        "credentials": "pinned",
        "faults": 0,
        "last_contact": None,
        "requests": 0,
        "errors": 0,
    }
    assert (dpu["id"], dpu["kind"], dpu["parent"], dpu["credentials"]) == ("alpha-0-dpu-0", "dpu", "alpha-0", "factory")


async def test_pages_follow_each_other_without_gaps(site: Site) -> None:
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = await site.get("bmcs", limit=7, offset=offset, fields="id")
        seen += [item["id"] for item in page["items"]]
        offset = page["next"]
    assert seen == [bmc.id for bmc in site.fleet]
    assert (await site.get("bmcs", offset=10_000))["items"] == []


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("descending", [False, True])
async def test_a_list_is_sorted_by_any_field(site: Site, field: str, descending: bool) -> None:
    for number, bmc in enumerate(site.fleet):
        if number % 3 == 0:
            bmc.become(site.clock.now(), power=Power.OFF if number % 2 else Power.POWERING_ON)
        bmc.contact, bmc.requests = number % 7 * 1.5, number % 5
    items = (await site.get("bmcs", limit=20_000, sort=field, descending=descending))["items"]
    assert {item["id"] for item in items} == {bmc.id for bmc in site.fleet}
    if field == "id":
        ids = [bmc.id for bmc in site.fleet]
        assert [item["id"] for item in items] == (ids[::-1] if descending else ids)
        return

    def key(item: dict[str, Any]) -> Any:
        if field == "address":
            return [int(part) for part in item[field].split(".")]
        return (item[field] is not None, item[field])

    assert [key(item) for item in items] == sorted(map(key, items), reverse=descending)


async def test_only_the_fields_that_are_asked_for_are_shown(site: Site) -> None:
    assert (await site.get("bmcs", limit=1, fields="id,power"))["items"] == [{"id": "alpha-0", "power": "On"}]
    answer = await site.client.get("/api/v1/bmcs?fields=id,colour")
    assert (answer.status_code, "colour" in answer.json()["detail"]) == (400, True)


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=20001", "offset=-1", "sort=colour", "kind=cat", "share=2", "count=-1", "limit=1&limit=2", "x=1",
     "address=nowhere", "address=10.0.0.0/33", "seed=-1", "descending=maybe"],
)  # fmt: skip
async def test_what_is_no_query_is_refused(site: Site, query: str) -> None:
    answer = await site.client.get(f"/api/v1/bmcs?{query}")
    assert answer.status_code == 400, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_bmc_is_found_by_all_its_names(site: Site) -> None:
    bmc = site.bmc("alpha-2-dpu-1")
    mac = mac_colons(bmc.identity.bmc_mac)
    for name in (
        bmc.id,
        bmc.address,
        mac,
        mac.lower(),
        mac.replace(":", "-"),
        bmc.identity.serial,
        mat_id(bmc.identity),
    ):
        assert (await site.get(f"bmcs/{name}"))["id"] == bmc.id
    for name in ("nobody", "192.0.2.1", "02:00:00:00:00:zz"):
        assert (await site.client.get(f"/api/v1/bmcs/{name}")).status_code == 404


async def test_one_in_full_tells_everything_but_secrets(site: Site) -> None:
    bmc, moment = site.bmc("alpha-1"), site.clock.now()
    site.driver.execute(bmc, bmc.reset_bmc(moment))
    login = Head(authorization=basic("root", PASSWORD), content_type=b"application/json")
    body = b'{"UserName": "root", "Password": "%b"}' % PASSWORD.encode()
    dpu = site.bmc("alpha-1-dpu-0")
    accounts = dpu.accounts.replacing(as_shipped(dpu.accounts.accounts[0]))
    dpu.become(moment, accounts=accounts)
    assert handle(bmc, Request("GET", SYSTEM, moment, login)).delivery is not None
    site.driver.skip(200)
    opened = handle(bmc, Request("POST", "/redfish/v1/SessionService/Sessions", moment, login, body=body))
    assert opened.status == 201
    await site.operate({"type": "faults", **FAULT}, ids=["alpha-1"])
    await site.operate({"type": "power", "reset": "ForceRestart"}, ids=["alpha-1"])
    shown = await site.get("bmcs/alpha-1")
    assert shown["children"] == ["alpha-1-dpu-0", "alpha-1-dpu-1"]
    assert [(one["user"], one["role"], one["generation"]) for one in shown["accounts"]] == [
        ("root", "Administrator", "pinned")
    ]
    assert [one["user"] for one in shown["sessions"]] == ["root"]
    assert shown["fault_rules"][0]["rule"]["id"] == "away"
    assert [one["name"] for one in shown["timers"]] == ["power"]
    assert shown["timers"][0]["seconds"] > 0
    assert (shown["power_state"], shown["power"], shown["resets"]) == ("Booting", "On", 1)
    assert shown["boot"]["BootSourceOverrideEnabled"] == "Disabled"
    assert shown["firmware"] and shown["timings"]["bmc_reset"] > 0 and not shown["timings_changed"]
    assert shown["network"]["ipv4"] == bmc.address
    assert (await site.get("bmcs/alpha-1-dpu-0"))["accounts"][0]["generation"] == "factory"
    text = (await site.client.get("/api/v1/bmcs/alpha-1")).text
    session = next(iter(bmc.live_sessions(site.clock.now()).values()))
    assert session.token not in text and PASSWORD not in text and bmc.accounts.accounts[0].digest.hex() not in text


FAULT = {
    "add": [
        {"id": "away", "selector": {"OdataId": "/redfish/v1/Systems/*"}, "action": {"Status": 503}, "probability": 0.5}
    ]
}


async def test_machines_of_a_rack_name_each_other(site: Site) -> None:
    items = (await site.get("bmcs", rack="r1", limit=1000))["items"]
    assert {item["rack"] for item in items} == {"r1"}
    first = next(item for item in items if item["kind"] == "switch")
    assert first["position"] is not None
    shown = await site.get(f"bmcs/{first['id']}")
    assert set(shown["rack_mates"]) == {
        item["id"] for item in items if item["kind"] != "dpu" and item["id"] != first["id"]
    }
    assert all(item["rack"] == "row-7" for item in (await site.get("bmcs", group="beta"))["items"])


async def test_a_resource_is_read_with_a_query(site: Site) -> None:
    expanded = await site.get("bmcs/alpha-4/redfish", path="/redfish/v1/Systems?$expand=.")
    assert expanded["Members"][0]["PowerState"] == "On"


async def test_a_resource_is_read_without_a_password_a_fault_or_a_trace(site: Site) -> None:
    bmc = site.bmc("alpha-3")
    await site.operate({"type": "faults", **FAULT}, ids=["alpha-3"])
    site.driver.execute(bmc, bmc.reset_bmc(site.clock.now()))
    bmc.committed()
    before = bmc.state
    shown = await site.get("bmcs/alpha-3/redfish", path=SYSTEM)
    assert shown["@odata.id"] == SYSTEM and shown["PowerState"] == "On"
    accounts = await site.get("bmcs/alpha-3/redfish", path="/redfish/v1/AccountService/Accounts")
    account = await site.get("bmcs/alpha-3/redfish", path=accounts["Members"][0]["@odata.id"])
    assert account["Password"] is None
    assert bmc.state is before and bmc.uncommitted is None
    for path in ("/redfish/v1/Nothing", "/redfish/v1/$metadata", "/redfish/v1/Systems?$expand=x", "nonsense"):
        answer = await site.client.get("/api/v1/bmcs/alpha-3/redfish", params={"path": path})
        assert (path, answer.status_code) == (path, 404)
