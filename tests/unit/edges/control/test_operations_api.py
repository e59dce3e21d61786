"""What is done to many BMCs, and how far it is."""

import asyncio
from typing import Any

import pytest

from bmcsim.edges.control.jobs import KEPT, MAX_RUNNING
from bmcsim.fleet.addressing import readdress
from bmcsim.fleet.journal import Done, NotSaved
from bmcsim.machine import addressing
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.events import Event, StreamWish
from bmcsim.machine.power import Power
from bmcsim.redfish.exchange import Head, Request
from bmcsim.redfish.service import handle
from tests.conftest import basic
from tests.unit.edges.control.conftest import MakeSite, Site


def counts(job: dict[str, Any]) -> tuple[int, int, int, int]:
    """total, done, skipped, failed."""
    return job["total"], job["done"], job["skipped"], job["failed"]


def login(site: Site, id_: str, password: str) -> int:
    """The status that a password gets."""
    head = Head(authorization=basic("root", password))
    return handle(site.bmc(id_), Request("GET", "/redfish/v1/Systems", site.clock.now(), head)).status


async def test_power_is_given_and_what_is_there_already_is_skipped(site: Site) -> None:
    job = await site.operate({"type": "power", "reset": "ForceOff"}, group=["alpha"], kind=["host"])
    assert (job["state"], job["progress"], counts(job)) == ("completed", 1.0, (5, 5, 0, 0))
    assert {site.bmc(f"alpha-{number}").power for number in range(5)} == {Power.OFF}
    # DPUs lose their power with the slots of their hosts.
    assert site.bmc("alpha-0-dpu-0").power is Power.OFF
    again = await site.operate({"type": "power", "reset": "GracefulShutdown"}, group=["alpha"], kind=["host"])
    assert counts(again) == (5, 0, 5, 0)
    assert again["reasons"] == [{"outcome": "skipped", "reason": "already off", "count": 5, "example": "alpha-0"}]
    job = await site.operate({"type": "power", "reset": "ForceRestart"}, ids=["alpha-0"])
    assert (counts(job), site.bmc("alpha-0").power) == ((1, 1, 0, 0), Power.POWERING_ON)
    job = await site.operate({"type": "power", "reset": "Nmi"}, ids=["alpha-1"])
    assert job["reasons"] == [
        {"outcome": "failed", "reason": "refused while PowerState is Off", "count": 1, "example": "alpha-1"}
    ]
    site.driver.skip(3600)
    assert site.bmc("alpha-0").power is Power.RUNNING


async def test_mains_power_goes_and_comes_back(site: Site) -> None:
    await site.operate({"type": "power", "reset": "FullPowerCycle"}, ids=["beta-0"])
    assert (site.bmc("beta-0").state.service, site.bmc("beta-0").power) == (Service.RESETTING, Power.CYCLING)


async def test_bmcs_restart_once(site: Site) -> None:
    assert counts(await site.operate({"type": "bmc_reset"}, group=["beta"])) == (4, 4, 0, 0)
    assert (await site.get("fleet"))["by_state"]["resetting"] == 4
    again = await site.operate({"type": "bmc_reset"}, group=["beta"])
    assert (counts(again), again["reasons"][0]["reason"]) == ((4, 0, 4, 0), "resets already")
    site.driver.skip(3600)
    assert (await site.get("fleet"))["by_state"] == {"up": len(site.fleet)}


async def test_a_factory_reset_brings_the_factory_password_back(site: Site) -> None:
    assert counts(await site.operate({"type": "factory_reset", "keep": "ResetAll"}, ids=["beta-0"])) == (1, 1, 0, 0)
    site.driver.skip(3600)
    assert (await site.get("bmcs/beta-0"))["credentials"] == "pinned"
    kept = await site.operate({"type": "factory_reset", "keep": "PreserveNetworkAndUsers"}, ids=["beta-1"])
    assert counts(kept) == (1, 1, 0, 0)


async def test_passwords_are_made_from_a_template_and_back(site: Site) -> None:
    job = await site.operate({"type": "set_password", "password": "Pw-{id}-{serial}-9"}, group=["alpha"], kind=["host"])
    assert counts(job) == (5, 5, 0, 0)
    assert job["operation"] == {"type": "set_password", "account": "", "password": "***", "factory": False}
    serial = site.bmc("alpha-3").identity.serial
    assert login(site, "alpha-3", f"Pw-alpha-3-{serial}-9") == 200
    assert login(site, "alpha-3", "Rotated-1") == 401
    assert (await site.get("bmcs/alpha-3"))["credentials"] == "current"
    back = await site.operate({"type": "set_password", "account": "root", "factory": True}, ids=["alpha-3"])
    assert (counts(back), (await site.get("bmcs/alpha-3"))["credentials"]) == ((1, 1, 0, 0), "factory")
    again = await site.operate({"type": "set_password", "factory": True}, ids=["alpha-3"])
    assert again["reasons"][0]["reason"] == "already on the factory password"
    nobody = await site.operate({"type": "set_password", "account": "bob", "factory": True}, ids=["alpha-3"])
    assert nobody["reasons"][0]["reason"] == "has no such account"
    long = await site.operate({"type": "set_password", "password": "x" * 100}, ids=["alpha-3"])
    assert (counts(long), "x" * 10 in long["reasons"][0]["reason"]) == ((1, 0, 0, 1), False)


async def test_a_changed_password_ends_sessions(site: Site) -> None:
    bmc = site.bmc("beta-2")
    body = b'{"UserName": "root", "Password": "Rotated-1"}'
    head = Head(content_type=b"application/json")
    request = Request("POST", "/redfish/v1/SessionService/Sessions", site.clock.now(), head, body=body)
    assert handle(bmc, request).status == 201
    await site.operate({"type": "set_password", "factory": True}, ids=["beta-2"])
    assert not bmc.live_sessions(site.clock.now())


def rule(id_: str, code: int = 503) -> dict[str, Any]:
    """A rule that answers."""
    return {"id": id_, "selector": {"OdataId": "/redfish/v1/Systems"}, "action": {"Status": code}}


async def test_faults_come_and_go(site: Site) -> None:
    job = await site.operate({"type": "faults", "add": [rule("a"), rule("b")]}, group=["beta"])
    assert (counts(job), login(site, "beta-0", "Rotated-1")) == ((4, 4, 0, 0), 503)
    assert (await site.get("fleet"))["faulty"] == 4
    await site.operate({"type": "faults", "add": [rule("a", 500)], "remove": ["b"]}, ids=["beta-0"])
    assert [one["rule"]["action"] for one in (await site.get("bmcs/beta-0"))["fault_rules"]] == [{"Status": 500}]
    assert counts(await site.operate({"type": "faults", "clear": True}, group=["beta"])) == (4, 4, 0, 0)
    again = await site.operate({"type": "faults", "clear": True}, group=["beta"])
    assert again["reasons"][0]["reason"] == "has no fault rules"
    absent = await site.operate({"type": "faults", "add": [rule("c")], "remove": ["z"]}, ids=["beta-0"])
    assert counts(absent) == (1, 1, 0, 0)


async def test_a_share_of_a_selection_gets_a_fault(site: Site) -> None:
    sample = {"share": 0.5, "seed": 7}
    job = await site.operate({"type": "faults", "add": [rule("a")]}, group=["beta"], sample=sample)
    assert counts(job) == (2, 2, 0, 0)
    faulty = [item["id"] for item in (await site.get("bmcs", sort="faults", descending=True, limit=2))["items"]]
    assert faulty == [one["id"] for one in (await site.get("bmcs", group="beta", share=0.5, seed=7))["items"]]


async def test_times_change_for_those_that_are_meant_and_come_back(site: Site) -> None:
    before = site.bmc("beta-0").shared.timings
    await site.operate({"type": "timing", "acceleration_factor": 0.5, "overrides": {"bmc_reset": 10}}, group=["beta"])
    shown = await site.get("bmcs/beta-1")
    assert (shown["timings"]["bmc_reset"], shown["timings_changed"]) == (5.0, True)
    assert shown["timings"]["reboot"] == before.reboot / 2
    assert site.bmc("beta-0").shared is site.bmc("beta-3").shared
    assert site.bmc("alpha-0").shared.timings == before
    # From what the fleet file says, not from what there is.
    await site.operate({"type": "timing", "acceleration_factor": 0.5}, ids=["beta-0"])
    assert site.bmc("beta-0").shared.timings.reboot == before.reboot / 2
    assert site.bmc("beta-0").shared.timings.bmc_reset == before.bmc_reset / 2
    job = await site.operate({"type": "timing", "reset": True}, group=["beta"])
    assert (counts(job), site.bmc("beta-2").shared.timings) == ((4, 4, 0, 0), before)
    again = await site.operate({"type": "timing", "reset": True}, group=["beta"])
    assert again["reasons"][0]["reason"] == "has these times already"


async def test_sensors_read_what_is_set_until_they_are_let_go(site: Site) -> None:
    bmc = site.bmc("alpha-0")
    told: list[Event] = []
    site.driver.emit = lambda _, event: told.append(event)
    bmc.open_stream(StreamWish(lambda _event: True, 0, "root"), "", site.clock.now())
    uri = next(uri for uri in bmc.tree.readings if uri.endswith("/Temp_1"))
    measured = (await site.get("bmcs/alpha-0/redfish", path=uri))["Reading"]
    await site.operate(
        {"type": "set_reading", "uri": "/redfish/v1/Chassis/*/Sensors/Temp_1", "reading": 995.5}, ids=[bmc.id]
    )
    shown = await site.get("bmcs/alpha-0/redfish", path=uri)
    assert (shown["Reading"], shown["Status"]["Health"]) == (995.5, "Critical")
    assert (await site.get("bmcs/alpha-0"))["readings"] == {uri: 995.5}
    await site.operate({"type": "set_reading", "uri": uri, "reading": None}, ids=[bmc.id])
    assert (await site.get("bmcs/alpha-0/redfish", path=uri))["Reading"] == measured
    assert [event.message_id.rpartition(".")[2] for event in told] == [
        "ReadingAboveUpperCriticalThreshold",
        "SensorReadingNormalRange",
    ]
    job = await site.operate({"type": "set_reading", "uri": "/nothing", "reading": 1}, ids=[bmc.id])
    assert job["reasons"][0]["reason"] == "has no such sensor"


async def test_a_bmc_moves_and_comes_home(site: Site) -> None:
    bmc, other = site.bmc("alpha-0"), site.bmc("alpha-1")
    site.driver.readdress = lambda one: readdress(site.fleet, one)
    home = bmc.address
    assert counts(await site.operate({"type": "move", "address": "127.77.0.9"}, ids=[bmc.id])) == (1, 1, 0, 0)
    assert (bmc.address, site.fleet.by_address("127.77.0.9")) == ("127.77.0.9", bmc)
    assert (await site.get("bmcs/alpha-0"))["network"]["static"]
    taken = await site.operate({"type": "move", "address": other.address}, ids=[bmc.id])
    assert (counts(taken), bmc.address) == ((1, 0, 0, 1), "127.77.0.9")
    wrong = await site.operate({"type": "move", "address": "300.1.1.1"}, ids=[bmc.id])
    assert counts(wrong) == (1, 0, 0, 1)
    assert counts(await site.operate({"type": "move", "address": None}, ids=[bmc.id])) == (1, 1, 0, 0)
    assert (bmc.address, addressing.static(bmc)) == (home, None)
    answer = await site.send(
        "POST", "operations", {"selection": {"group": ["beta"]}, "operation": {"type": "move", "address": "127.77.0.9"}}
    )
    assert (answer.status_code, "one BMC" in answer.json()["detail"]) == (400, True)


@pytest.mark.parametrize(
    ("order", "status"),
    [
        ({"operation": {"type": "bmc_reset"}}, 400),
        ({"operation": {"type": "bmc_reset"}, "selection": {}}, 400),
        ({"operation": {"type": "bmc_reset"}, "selection": {"ids": ["alpha-0"]}, "all": True}, 400),
        ({"operation": {"type": "bmc_reset"}, "selection": {"ids": ["nobody"]}}, 404),
        ({"operation": {"type": "bmc_reset"}, "selection": {"group": ["nobody"]}}, 404),
        ({"operation": {"type": "bmc_reset"}, "selection": {"address": ["x"]}}, 400),
        ({"operation": {"type": "bmc_reset"}, "selection": {"colour": ["x"]}}, 400),
        ({"operation": {"type": "explode"}, "all": True}, 400),
        ({"operation": {"type": "power", "reset": "Sideways"}, "all": True}, 400),
        ({"operation": {"type": "set_password"}, "all": True}, 400),
        ({"operation": {"type": "set_password", "password": "x", "factory": True}, "all": True}, 400),
        ({"operation": {"type": "faults"}, "all": True}, 400),
        ({"operation": {"type": "faults", "add": ["no_such_preset"]}, "all": True}, 400),
        ({"operation": {"type": "faults", "add": [{"id": "x"}]}, "all": True}, 400),
        ({"operation": {"type": "timing"}, "all": True}, 400),
        ({"operation": {"type": "timing", "reset": True, "acceleration_factor": 1}, "all": True}, 400),
        ({"operation": {"type": "timing", "overrides": {"jitter": 1}}, "all": True}, 400),
        ({"operation": {"type": "timing", "overrides": {"bmc_reset": -1}}, "all": True}, 400),
        ({"operation": {"type": "set_reading", "uri": "no-glob", "reading": 1}, "all": True}, 400),
        ({"operation": {"type": "set_reading", "uri": "/x", "reading": 1e13}, "all": True}, 400),
        ({"operation": {"type": "bmc_reset"}, "all": True, "wave": {"size": 0}}, 400),
        (b"{", 400),
        (b'{"all": true, "operation": {"type": "faults", "add": [{"id": ' + b"[" * 100_000, 400),
        (b" " * (5 * 1024 * 1024), 413),
    ],
)
async def test_what_is_no_operation_does_nothing(site: Site, order: Any, status: int) -> None:
    states = [bmc.state for bmc in site.fleet]
    answer = await site.send("POST", "operations", order)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert [bmc.state for bmc in site.fleet] == states
    assert (await site.get("jobs"))["jobs"] == (await site.get("audit"))["changes"] == []


# jobs


class Store:
    """Stores changes when it is told to. refuses: ids of BMCs whose changes cannot be stored."""

    def __init__(self, *refuses: str) -> None:
        self.refuses = refuses
        self.waiting: list[tuple[Bmc, Any, Done]] = []
        self.at_once = False

    def __call__(self, bmc: Bmc, done: Done) -> None:
        self.waiting.append((bmc, bmc.committed(), done))
        if self.at_once:
            self.store()

    def store(self) -> None:
        """All that waits is stored, or undone."""
        waiting, self.waiting = self.waiting, []
        for bmc, before, done in waiting:
            if bmc.id in self.refuses:
                bmc.restore(before)
                done(NotSaved("the disk is full"))
            else:
                done(None)


async def turns(count: int = 50) -> None:
    """Let others run."""
    for _ in range(count):
        await asyncio.sleep(0)


ALL_OFF = {"operation": {"type": "power", "reset": "ForceOff"}, "selection": {"group": ["beta"]}}


async def test_a_bmc_is_done_when_its_change_is_stored(make_site: MakeSite) -> None:
    store = Store("beta-1")
    site = make_site(commit=store)
    answer = await site.send("POST", "operations", ALL_OFF)
    assert (answer.status_code, answer.json()["state"], answer.json()["total"]) == (202, "running", 4)
    await turns()
    assert counts(await site.get("jobs/1")) == (4, 0, 0, 0)
    store.store()
    await turns()
    job = await site.get("jobs/1")
    assert (job["state"], counts(job)) == ("completed", (4, 3, 0, 1))
    assert job["reasons"] == [
        {"outcome": "failed", "reason": "could not be stored: the disk is full", "count": 1, "example": "beta-1"}
    ]
    assert (site.bmc("beta-1").power, site.bmc("beta-2").power) == (Power.RUNNING, Power.OFF)


async def test_a_wave_is_through_before_the_next_one(make_site: MakeSite) -> None:
    store = Store()
    site = make_site(commit=store)
    await site.send("POST", "operations", {**ALL_OFF, "wave": {"size": 3, "interval": 2.5}})
    await turns()
    assert ([bmc.id for bmc, _, _ in store.waiting], site.pauses.asked) == (["beta-0", "beta-1", "beta-2"], [])
    store.store()
    await turns()
    assert ([bmc.id for bmc, _, _ in store.waiting], site.pauses.asked) == (["beta-3"], [2.5])
    store.store()
    await turns()
    assert counts(await site.get("jobs/1")) == (4, 4, 0, 0)


async def test_a_cancelled_job_finishes_what_it_began(make_site: MakeSite) -> None:
    store = Store()
    site = make_site(commit=store)
    await site.send("POST", "operations", {**ALL_OFF, "wave": {"size": 3}})
    await turns()
    assert (await site.send("DELETE", "jobs/1")).status_code == 200
    assert (await site.get("jobs/1"))["state"] == "running"
    store.store()
    await turns()
    job = await site.get("jobs/1")
    assert (job["state"], counts(job), job["progress"]) == ("cancelled", (4, 3, 0, 0), 0.75)
    assert site.bmc("beta-3").power is Power.RUNNING
    assert (await site.send("DELETE", "jobs/1")).json()["state"] == "cancelled"
    assert (await site.send("DELETE", "jobs/9")).status_code == 404
    assert (await site.client.get("/api/v1/jobs/9")).status_code == 404
    assert (await site.get("audit"))["changes"][0]["about"] == {"job": "1"}


async def test_others_have_turns_while_a_job_runs(site: Site) -> None:
    over = False
    had = 0

    async def other() -> None:
        nonlocal had
        while not over:
            had += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    job = await site.operate({"type": "set_reading", "uri": "/redfish/**", "reading": 1}, group=["alpha", "beta"])
    over = True
    await task
    # The clock of the test moves a millisecond whenever somebody looks.
    assert (job["total"], had > 19 / 3) == (19, True)


async def test_only_so_many_changes_wait_for_the_store(make_site: MakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmcsim.edges.control.jobs._IN_FLIGHT", 3)
    store = Store()
    site = make_site(commit=store)
    await site.send("POST", "operations", ALL_OFF)
    await turns()
    assert len(store.waiting) == 3
    store.store()
    await turns()
    assert len(store.waiting) == 1


async def test_what_stores_nothing_does_not_wait_for_the_store(make_site: MakeSite) -> None:
    store = Store()
    site = make_site(commit=store)
    job = await site.operate({"type": "timing", "acceleration_factor": 0.5}, group=["beta"])
    assert (counts(job), store.waiting) == ((4, 4, 0, 0), [])


async def test_a_pause_between_waves_ends_with_the_job(site: Site) -> None:
    async def for_ever(_seconds: float) -> None:
        await asyncio.Event().wait()

    site.control.jobs._sleep = for_ever
    await site.send("POST", "operations", {**ALL_OFF, "wave": {"size": 1, "interval": 3600}})
    await turns()
    await site.send("DELETE", "jobs/1")
    await turns()
    assert counts(await site.get("jobs/1")) == (4, 1, 0, 0)


async def test_only_so_many_jobs_run_and_only_so_many_are_kept(make_site: MakeSite) -> None:
    store = Store()
    site = make_site(commit=store)
    for number in range(MAX_RUNNING):
        order = {"operation": {"type": "set_reading", "uri": "/redfish/**/Temp_1", "reading": number},
                 "selection": {"ids": ["beta-0"]}}  # fmt: skip
        assert (await site.send("POST", "operations", order)).status_code == 202
    assert (await site.send("POST", "operations", ALL_OFF)).status_code == 429
    await turns()
    store.at_once = True
    store.store()
    await turns()
    for _ in range(KEPT):
        await site.operate({"type": "set_reading", "uri": "/redfish/**/Temp_1", "reading": 1}, ids=["beta-0"])
    jobs = (await site.get("jobs"))["jobs"]
    assert ([job["id"] for job in jobs[:2]], len(jobs)) == (["116", "115"], KEPT)


async def test_what_is_kept_of_an_order_is_small(site: Site) -> None:
    nobody = [f"{number:0200}" for number in range(19_000)]
    where = {"OdataId": "/x"}
    action = {"JsonMerge": {"Name": "y" * 30_000}}
    rules = [{"id": f"r{one}", "selector": where, "action": action} for one in range(2)]
    job = await site.operate({"type": "faults", "add": [*rules, "flaky"]}, group=["beta", *nobody], ids=["beta-0"])
    assert (counts(job), site.bmc("beta-0").state.faults.rules[0].id) == ((1, 1, 0, 0), "r0")
    assert job["operation"]["add"] == ["r0", "r1", "flaky"]
    assert job["selection"] == {"ids": ["beta-0"], "group": ["beta", *nobody[:19]]}
    await site.send("POST", "recordings", {"selection": {"group": ["beta", *nobody]}})
    await site.send("DELETE", "machines", {"selection": {"group": ["beta", *nobody]}})
    for path in ("jobs", "audit", "recordings"):
        assert len((await site.client.get(f"/api/v1/{path}")).content) < 20_000


async def test_an_error_that_nobody_foresaw_is_one_bmcs_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = site.bmc("beta-1")

    def reset(self: Bmc, *args: Any) -> Any:
        self.become(site.clock.now(), resets=99)
        if self is broken:
            raise ZeroDivisionError("the secret")
        return []

    monkeypatch.setattr(Bmc, "reset_bmc", reset)
    job = await site.operate({"type": "bmc_reset"}, group=["beta"])
    assert (counts(job), job["reasons"][0]["reason"]) == ((4, 3, 0, 1), "internal error: ZeroDivisionError")
    assert (broken.state.resets, site.bmc("beta-2").state.resets) == (0, 99)


async def test_who_leaves_in_mid_body_does_nothing_and_is_no_error(site: Site) -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/api/v1/operations", "query_string": b"", "headers": headers}
    await site.app(scope, receive, send)
    assert (sent[0]["status"], (await site.get("jobs"))["jobs"]) == (400, [])
