"""The fleet as a whole, its clock, and who changed what."""

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from bmcsim.edges.control.audit import KEPT
from bmcsim.machine.identity import Kind
from bmcsim.machine.power import Power
from bmcsim.tree import profile as profiles
from tests.leasing import HOSTS, DhcpServer
from tests.leasing import Site as Leasing
from tests.unit.edges.control.conftest import MakeSite, Site


async def test_the_overview_counts_every_bmc_once(site: Site) -> None:
    await site.operate({"type": "power", "reset": "ForceOff"}, group=["alpha"], kind=["host"])
    site.context.metrics.observe(200, 0.1)
    site.context.metrics.observe(404, 0.1)
    site.clock.advance(90)
    fleet = await site.get("fleet")
    total = len(site.fleet)
    assert (fleet["bmcs"], fleet["expected"], fleet["ready"], fleet["racks"]) == (total, total, True, 3)
    for name in ("by_kind", "by_hardware", "by_group", "by_state", "by_power", "by_credentials"):
        assert sum(fleet[name].values()) == total, name
    assert fleet["by_kind"] == Counter(str(bmc.identity.kind) for bmc in site.fleet)
    assert fleet["by_power"]["Off"] >= 5
    assert fleet["requests"]["by_class"] == {"1xx": 0, "2xx": 1, "3xx": 0, "4xx": 1, "5xx": 0}
    assert (fleet["uptime"], fleet["version"], fleet["dhcp"], fleet["registration"]) == (90.0, "1.2.3", None, None)
    site.control.registration = lambda: {"rounds": 3}
    assert (await site.get("fleet"))["registration"] == {"rounds": 3}


async def test_leases_are_counted_and_shown(make_site: MakeSite) -> None:
    site, leasing = make_site(), Leasing(HOSTS, DhcpServer(["10.9.0.1", "10.9.0.2"]))
    leasing.answer()
    site.control.fleet, site.control.leases = leasing.fleet, leasing.leases
    fleet = await site.get("fleet")
    assert (fleet["dhcp"]["interfaces"], fleet["dhcp"]["bound"], fleet["dhcp"]["acquisitions"]) == (9, 2, 2)
    assert fleet["by_state"].get("no_lease") == leasing.fleet.homeless
    bound = next(bmc for bmc in leasing.fleet if bmc.state.leases)
    shown = {one["port"]: one for one in (await site.get(f"bmcs/{bound.id}"))["leases"]}
    port, lease = next(iter(bound.state.leases.items()))
    assert (shown[port]["address"], shown[port]["phase"]) == (lease.address, "BOUND")


async def test_groups_and_racks_are_listed(site: Site) -> None:
    groups = {one["name"]: one for one in (await site.get("groups"))["groups"]}
    assert groups["alpha"] == {
        "name": "alpha",
        "kind": "host",
        "hardware": "dell_poweredge_r750",
        "variant": "",
        "machines": 5,
        "dpus_per_machine": 2,
        "bmcs": 15,
        "rack": None,
        "rack_type": None,
    }
    assert groups["beta"]["rack"] == "row-7"
    assert sum(one["bmcs"] for one in groups.values()) == len(site.fleet)
    racks = {one["id"]: one for one in (await site.get("racks"))["racks"]}
    assert set(racks) == {"row-7", "r1", "r2"}
    assert racks["row-7"]["live"] is None
    assert (racks["r1"]["live"], racks["r1"]["by_kind"]["power_shelf"]) == (False, 8)
    shelf = next(
        bmc for bmc in site.fleet if bmc.identity.kind is Kind.POWER_SHELF and site.control.racks.of(bmc) == "r1"
    )
    shelf.become(site.clock.now(), power=Power.RUNNING)
    assert [one["live"] for one in (await site.get("racks"))["racks"] if one["id"] == "r1"] == [True]


async def test_profiles_are_listed_with_how_many_have_them(site: Site) -> None:
    shown = {one["name"]: one for one in (await site.get("profiles"))["profiles"]}
    assert set(shown) == set(profiles.names())
    assert shown["dell_poweredge_r750"]["bmcs"] == 9
    assert shown["bluefield3"]["kind"] == "dpu"


# the clock


async def test_the_time_of_the_hardware_is_moved(site: Site) -> None:
    await site.operate({"type": "bmc_reset"}, group=["beta"])
    before = await site.get("clock")
    assert (before["timers"], before["scale"], before["paused"]) == (4, 1.0, False)
    answer = (await site.send("POST", "clock", {"step": before["next_timer"] - 0.1})).json()
    assert (answer["fired"], answer["timers"]) == (0, 4)
    answer = (await site.send("POST", "clock", {"step": 3600})).json()
    assert (answer["fired"], answer["timers"], answer["next_timer"]) == (4, 0, None)
    assert answer["hardware"] == pytest.approx(3600 + before["next_timer"] - 0.1, abs=0.01)
    assert answer["wall"] == before["wall"]


async def test_time_is_scaled_and_stands_without_a_jump(site: Site) -> None:
    wished: list[float] = []
    site.driver._wake = wished.append
    await site.operate({"type": "bmc_reset"}, ids=["beta-0"])
    seconds = site.bmc("beta-0").remaining("bmc_reset", site.clock.now())
    assert wished == [pytest.approx(seconds)]
    site.clock.advance(10)
    faster = (await site.send("POST", "clock", {"scale": 60})).json()
    assert (faster["scale"], faster["hardware"]) == (60.0, 10.0)
    assert wished[-1] == pytest.approx((seconds - 10) / 60)
    site.clock.advance(0.5)
    paused = (await site.send("POST", "clock", {"paused": True})).json()
    assert (paused["scale"], paused["paused"], paused["hardware"]) == (0.0, True, 40.0)
    asked = len(wished)
    site.clock.advance(1000)
    assert (await site.get("clock"))["hardware"] == 40.0
    assert (await site.send("POST", "clock", {"paused": True})).json()["paused"] is True
    assert len(wished) == asked
    again = (await site.send("POST", "clock", {"paused": False})).json()
    assert (again["scale"], again["hardware"]) == (60.0, 40.0)
    assert wished[-1] == pytest.approx((seconds - 40) / 60)


@pytest.mark.parametrize(
    "body",
    [{}, {"step": -1}, {"step": 1e12}, {"step": "1"}, {"scale": 0}, {"scale": -1}, {"scale": 1e9}, {"paused": 1},
     {"step": 1, "scale": 2}, {"second": 1}, b"{"],
)  # fmt: skip
async def test_what_is_no_change_of_the_clock_changes_nothing(site: Site, body: Any) -> None:
    before = await site.get("clock")
    assert (await site.send("POST", "clock", body)).status_code == 400
    assert await site.get("clock") == before
    assert (await site.get("audit"))["changes"] == []


async def test_steps_at_the_same_time_follow_each_other(site: Site) -> None:
    await site.operate({"type": "bmc_reset"}, group=["beta"])
    answers = await asyncio.gather(*[site.send("POST", "clock", {"step": 1000}) for _ in range(3)])
    assert max(answer.json()["hardware"] for answer in answers) == pytest.approx(3000)


# who changed what


async def test_each_change_is_logged_and_kept_without_secrets(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "bmcsim.audit"):
        await site.send("POST", "clock", {"step": 5})
        await site.operate({"type": "set_password", "password": "So-secret-7"}, group=["beta"])
    changes = (await site.get("audit"))["changes"]
    assert [change["path"] for change in changes] == ["/api/v1/operations", "/api/v1/clock"]
    assert changes[1]["about"] == {"step": 5.0}
    assert (changes[0]["peer"], changes[0]["method"]) == ("192.0.2.9", "POST")
    about = changes[0]["about"]
    assert (about["count"], about["job"], about["selection"]) == (4, "1", {"group": ["beta"]})
    assert about["operation"]["password"] == "***"
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2 and "192.0.2.9" in lines[1]
    everything = "\n".join(lines) + (await site.client.get("/api/v1/audit")).text
    assert "So-secret-7" not in everything + (await site.client.get("/api/v1/jobs")).text


async def test_the_audit_log_is_bounded(site: Site) -> None:
    for number in range(KEPT + 5):
        site.control.audit.record("", "POST", "/x", "y", {"number": number})
    changes = (await site.get("audit", limit=KEPT))["changes"]
    assert (len(changes), changes[0]["about"]["number"], changes[-1]["about"]["number"]) == (KEPT, KEPT + 4, 5)
    assert len((await site.get("audit", limit=1))["changes"]) == 1
