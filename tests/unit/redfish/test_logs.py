"""LogService.ClearLog as a client sees it."""

import pytest

from bmcsim.machine.actions import Happened, Happening
from bmcsim.machine.power import Event
from bmcsim.machine.state import decode
from tests.conftest import Client, header, message_ids


def services(client: Client) -> list[str]:
    """The URIs of all log services."""
    return [uri for uri, node in client.bmc.tree.nodes.items() if node.type.startswith("LogService.")]


@pytest.mark.parametrize("profile", ["dpu", "host"])
def test_every_log_can_be_cleared_and_none_deleted(profile: str, request: pytest.FixtureRequest) -> None:
    client: Client = request.getfixturevalue(profile)
    assert len(services(client)) >= 2
    for uri in services(client):
        service = client.get(uri)
        entries = service["Entries"]["@odata.id"]
        moment = client.clock.now()
        client.driver.execute(client.bmc, client.bmc.reset_system(Event.FORCE_RESTART, moment))
        seen = [int(one["Id"]) for one in client.get(entries)["Members"]]
        etag = header(client.request("GET", entries), "ETag")
        response = client.request("POST", service["Actions"]["#LogService.ClearLog"]["target"], {})
        assert (response.status, response.body) == (204, b"")
        assert list(response.actions) == [Happened(Happening.LOG_CLEARED, uri)]
        left = client.get(entries)
        assert left["Members@odata.count"] == len(left["Members"]) <= 1
        assert all(int(one["Id"]) > max(seen) for one in left["Members"])
        assert not seen or header(client.request("GET", entries), "ETag") != etag
        for path in (uri, entries, *[f"{entries}/{one['Id']}" for one in left["Members"]]):
            refused = client.request("DELETE", path)
            assert (refused.status, header(refused, "Allow")) == (405, "GET, HEAD")
        assert decode(client.bmc.encode()).state.logs_cleared == client.bmc.state.logs_cleared


def test_a_log_with_entries_that_the_client_does_not_know_is_not_cleared(dpu: Client) -> None:
    uri = "/redfish/v1/Systems/Bluefield/LogServices/EventLog"
    etag = header(dpu.request("GET", f"{uri}/Entries"), "ETag")
    before = dpu.get(f"{uri}/Entries")["Members"]
    for wrong in (f"W/{etag}", "nonsense", '"0"'):
        refused = dpu.request("POST", f"{uri}/Actions/LogService.ClearLog", {"LogEntriesETag": wrong})
        assert (refused.status, message_ids(refused)) == (428, ["PreconditionRequired"])
    assert dpu.get(f"{uri}/Entries")["Members"] == before
    assert dpu.request("POST", f"{uri}/Actions/LogService.ClearLog", {"LogEntriesETag": 1}).status == 400
    assert dpu.request("POST", f"{uri}/Actions/LogService.ClearLog", {"LogEntriesETag": etag}).status == 204
    assert dpu.get(f"{uri}/Entries")["Members"] == []
