"""What /metrics says of the control plane."""

from typing import Any

import pytest

from bmcsim.edges.control.metrics import ControlCollector
from bmcsim.edges.http.metrics import registry_of
from tests.unit.edges.control.conftest import Site


async def test_requests_changes_and_jobs_are_counted(site: Site) -> None:
    registry = registry_of(ControlCollector(site.control))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"bmcsim_control_{name}", labels)

    assert value("requests_total", **{"class": "2xx"}) == 0
    await site.get("fleet")
    assert value("requests_total", **{"class": "2xx"}) == 1
    assert (await site.client.get("/api/v1/jobs/77")).status_code == 404
    assert value("requests_total", **{"class": "4xx"}) == 1
    job = await site.operate({"type": "power", "reset": "On"})
    assert value("changes_total") == 1
    assert value("jobs_running") == 0
    assert value("jobs_total", state="completed") == 1 and value("jobs_total", state="cancelled") == 0
    for outcome in ("done", "failed", "skipped"):
        assert value("job_bmcs_total", outcome=outcome) == job[outcome]
    assert job["total"] == sum(value("job_bmcs_total", outcome=one) or 0 for one in ("done", "failed", "skipped"))
    assert (value("streams"), value("recordings"), value("recording_bytes")) == (0, 0, 0)


async def test_an_endpoint_that_breaks_counts_as_5xx(site: Site) -> None:
    site.control.jobs.all = None  # type: ignore[assignment, method-assign]
    with pytest.raises(TypeError):
        await site.client.get("/api/v1/jobs")
    assert site.control.answered[5] == 1


async def test_open_live_streams_are_counted(site: Site) -> None:
    registry = registry_of(ControlCollector(site.control))
    hub: Any = site.control.listeners
    listener = hub.join(frozenset({"job"}), frozenset(), "")
    assert registry.get_sample_value("bmcsim_control_streams") == 1
    hub.leave(listener)
    hub.close()
    assert registry.get_sample_value("bmcsim_control_streams") == 0
