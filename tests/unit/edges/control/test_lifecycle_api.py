"""Machines that come and go, and snapshots, over the control API."""

from typing import Any

import pytest

from bmcsim.cli.control import members_of
from bmcsim.edges.control.guard import Guard
from bmcsim.fleet.keys import Keys, Passwords
from bmcsim.machine.credentials import Hasher
from bmcsim.testing.build import CachingBuilder
from tests.unit.edges.control.conftest import TOKEN, MakeSite, Site

BINARY = "application/octet-stream"


def equipped(site: Site, *, alone: bool = True) -> Site:
    """A site whose machines come and go."""
    hasher = Hasher(b"k" * 32)
    keys = Keys(hasher, Passwords("Rotated-1"))
    members = members_of(site.control, None, keys, alone=alone)
    members.begin(CachingBuilder(site.config, hasher, site.clock.now().wall))
    return site


@pytest.fixture
def living(site: Site) -> Site:
    return equipped(site)


async def restore(site: Site, data: bytes, query: str = "", **headers: str) -> Any:
    """The answer to a restore."""
    return await site.send("POST", f"restore{query}", data, **{"Content_Type": BINARY, **headers})


async def test_machines_come_and_go(living: Site) -> None:
    before = len(living.fleet)
    added = await living.send("POST", "machines", {"group": "beta", "count": 2})
    assert added.status_code == 201
    assert added.json() == {"group": "beta", "machines": 2, "ids": ["beta-4", "beta-5"]}
    new = {"group": "delta", "count": 1, "hw_type": "dell_poweredge_r750", "dpus": 1, "settings": {"rack_id": "row-9"}}
    assert (await living.send("POST", "machines", new)).json()["ids"] == ["delta-0", "delta-0-dpu-0"]
    groups = {one["name"]: one["machines"] for one in (await living.get("groups"))["groups"]}
    assert (groups["beta"], groups["delta"]) == (6, 1)
    assert (await living.get("bmcs/delta-0-dpu-0"))["rack"] == "row-9"
    overview = await living.get("fleet")
    assert (overview["bmcs"], overview["expected"]) == (before + 4, before + 4)
    gone = await living.send("DELETE", "machines", {"selection": {"group": ["beta", "delta"]}})
    assert (gone.status_code, len(gone.json()["ids"])) == (200, 8)
    assert len(living.fleet) == before - 4
    assert (await living.client.get("/api/v1/bmcs/delta-0")).status_code == 404
    audited = [one["about"] for one in (await living.get("audit"))["changes"]]
    assert audited[0]["bmcs"] == 8


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", "machines", {"group": "beta", "count": 1, "dpus": 2}, 409, "its dpu_per_host_count is 0"),
        ("POST", "machines", {"group": "beta", "count": 0}, 400, "count"),
        ("POST", "machines", {"group": "x", "count": 1, "settings": {"host_count": 3}}, 400, "settings.host_count"),
        ("POST", "machines", {"group": "racks.gamma.wiwynn_gb200_nvl", "count": 1}, 409, "no room for more machines"),
        ("POST", "machines", {"group": "beta", "count": 20000}, 409, "addresses left"),
        ("POST", "machines", {"group": "../x", "count": 1}, 409, 'the request: machines."../x": a group'),
        ("DELETE", "machines", {"selection": {}}, 400, "empty"),
        ("DELETE", "machines", {"selection": {"group": ["nobody"]}}, 404, "no BMC"),
        ("DELETE", "machines", {"selection": {"ids": ["alpha-0-dpu-1"]}}, 409, "DPUs go with their hosts"),
        ("POST", "bmcs/alpha-0/move", {"address": "not one"}, 409, "alpha-0"),
        ("POST", "bmcs/nobody/move", {"address": None}, 404, "no BMC"),
    ],
)
async def test_what_cannot_be_is_refused(
    living: Site, method: str, path: str, body: Any, status: int, says: str
) -> None:
    before = [bmc.id for bmc in living.fleet]
    answer = await living.send(method, path, body)
    assert (answer.status_code, says in answer.json()["detail"]) == (status, True), answer.text
    assert "no longer fits" not in answer.text
    assert [bmc.id for bmc in living.fleet] == before


async def test_a_bmc_whose_new_address_another_one_took_meanwhile_has_not_moved(living: Site) -> None:
    home = living.bmc("alpha-0").address
    living.driver.readdress = lambda bmc: None
    answer = await living.send("POST", "bmcs/alpha-0/move", {"address": "127.64.30.9"})
    assert (answer.status_code, living.bmc("alpha-0").address) == (409, home)
    assert "127.64.30.9" in answer.json()["detail"]


async def test_a_bmc_moves(living: Site) -> None:
    living.driver.readdress = lambda bmc: living.fleet.move(bmc, "127.64.30.9")
    moved = await living.send("POST", "bmcs/alpha-0/move", {"address": "127.64.30.9"})
    assert moved.json() == {"id": "alpha-0", "address": "127.64.30.9"}
    again = await living.send("POST", "bmcs/alpha-0/move", {"address": "127.64.30.9"})
    assert (again.status_code, again.json()["detail"]) == (409, "alpha-0: is at this address already")


async def test_a_snapshot_is_taken_and_restored(living: Site) -> None:
    taken = await living.client.get("/api/v1/snapshot")
    assert (taken.status_code, taken.headers["content-type"]) == (200, BINARY)
    assert taken.headers["cache-control"] == "no-store"
    digest = await living.get("fleet/digest")
    await living.operate({"type": "set_password", "password": "Rotated-2"}, group=["alpha"])
    assert await living.get("fleet/digest") != digest
    done = await restore(living, taken.content)
    assert done.json() == {
        "restored": digest["bmcs"], "missing": 0, "untouched": 0, "digest": digest["digest"],
    }  # fmt: skip
    assert await living.get("fleet/digest") == digest
    some = await living.client.get("/api/v1/snapshot", params={"ids": "alpha-0"})
    assert (await restore(living, some.content)).json()["restored"] == 1


async def test_what_is_no_snapshot_is_refused(living: Site) -> None:
    whole = (await living.client.get("/api/v1/snapshot")).content
    for data, says in ((b"", "is cut off"), (b"{}", "is no snapshot"), (whole[:-3], "is cut off behind the row of")):
        answer = await restore(living, data)
        assert (answer.status_code, says in answer.json()["detail"]) == (400, True), answer.text
    await living.send("POST", "machines", {"group": "beta", "count": 1})
    answer = await restore(living, whole)
    assert (answer.status_code, "beta-4" in answer.json()["detail"]) == (409, True)
    assert (await restore(living, whole, "?partial=true")).json()["untouched"] == 1
    assert (await living.send("POST", "restore", whole)).status_code == 415


async def test_a_snapshot_is_a_secret(make_site: MakeSite) -> None:
    site = equipped(make_site(guard=Guard(TOKEN)))
    assert (await site.client.get("/api/v1/bmcs")).status_code == 200
    refused = await site.client.get("/api/v1/snapshot")
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert (await site.client.get("/api/v1/snapshot", headers=bearer)).status_code == 200
    assert (await restore(site, b"")).status_code == 401
    document = (await site.client.get("/api/v1/openapi.json")).json()["paths"]
    assert document["/api/v1/snapshot"]["get"]["security"] == [{"token": []}]
    assert BINARY in document["/api/v1/restore"]["post"]["requestBody"]["content"]


async def test_a_part_of_a_fleet_keeps_its_machines(make_site: MakeSite) -> None:
    site = equipped(make_site(), alone=False)
    answer = await site.send("POST", "machines", {"group": "beta", "count": 1})
    assert (answer.status_code, "without --shards" in answer.json()["detail"]) == (409, True)
    assert (await site.client.get("/api/v1/snapshot")).status_code == 200
