"""How far clients are, over the API."""

from tests.unit.edges.control.asking import call
from tests.unit.edges.control.conftest import PASSWORD, Site

ROOT = "/redfish/v1/"
SYSTEMS = "/redfish/v1/Systems"


async def test_those_that_were_contacted_are_told(site: Site) -> None:
    assert await site.get("ingestion") == {
        "started": "2026-01-01T00:00:00.000Z",
        "time": "2026-01-01T00:00:00.000Z",
        "bmcs": len(site.fleet),
        "items": [],
    }
    first, second = [bmc for bmc in site.fleet if bmc.shared.group == "beta"][:2]
    site.clock.advance(5)
    caller = call(site, first)
    assert caller.ask("GET", ROOT, password=None) == 200
    site.clock.advance(5)
    assert [caller.ask("GET", SYSTEMS) for _ in range(3)] == [200] * 3
    assert call(site, second).ask("GET", SYSTEMS, password="wrong") == 401
    seen = await site.get("ingestion")
    assert seen["time"] == "2026-01-01T00:00:10.000Z"
    assert seen["items"] == [
        {
            "id": first.id,
            "kind": "host",
            "contact": "2026-01-01T00:00:05.000Z",
            "login": "2026-01-01T00:00:10.000Z",
            "rotation": None,
            "reset": None,
            "exploration": "2026-01-01T00:00:05.000Z",
        },
        {
            "id": second.id,
            "kind": "host",
            "contact": "2026-01-01T00:00:10.000Z",
            "login": None,
            "rotation": None,
            "reset": None,
            "exploration": None,
        },
    ]


async def test_a_selection_counts(site: Site) -> None:
    for bmc in site.fleet:
        assert call(site, bmc).ask("GET", SYSTEMS, password=PASSWORD) in (200, 401)
    seen = await site.get("ingestion", group="beta")
    assert seen["bmcs"] == len(seen["items"]) == 4
    assert (await site.client.get("/api/v1/ingestion", params={"ids": "nobody"})).status_code == 404
