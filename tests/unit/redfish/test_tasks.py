"""Tasks and their monitors."""

import orjson
import pytest

from bmcsim.machine.fault_rules import from_json
from bmcsim.machine.faults import Rules
from tests.conftest import Client, header, make_client, message_ids

MULTIPART = "/redfish/v1/UpdateService/update-multipart"
TASKS = "/redfish/v1/TaskService/Tasks"
TASK, MONITOR = TASKS + "/0", "/redfish/v1/TaskService/TaskMonitors/0"


@pytest.fixture
def busy(dpu: Client) -> Client:
    """A BlueField that has just begun an update, which takes 2 s."""
    assert dpu.push(MULTIPART, "bf-bmc_24.10-17.bin", {}).status == 202
    return dpu


def test_a_monitor_answers_202_until_the_end_and_then_once_and_for_all(busy: Client) -> None:
    assert busy.get(TASK)["TaskMonitor"] == MONITOR
    for seconds in (0.0, 1.0):
        busy.advance(seconds)
        response = busy.request("GET", MONITOR)
        assert (response.status, header(response, "Retry-After")) == (202, "2" if not seconds else "1")
        assert orjson.loads(response.body) == busy.get(TASK)
    busy.advance(5)
    for _ in range(2):
        response = busy.request("GET", MONITOR)
        assert (response.status, response.body) == (204, b"")
    assert busy.request("HEAD", MONITOR).status == 204


def test_the_wait_is_told_in_real_time() -> None:
    client = make_client("bluefield3", time_scale=0.01)
    response = client.push(MULTIPART, "bf-bmc_24.10-17.bin", {})
    assert 200 <= int(header(response, "Retry-After") or 0) <= 221
    client.advance(100)
    assert int(header(client.request("GET", MONITOR), "Retry-After") or 0) <= 121


def test_a_monitor_tells_why_an_operation_failed(dpu: Client) -> None:
    rule = from_json({"id": "bad", "action": {"UpdateFails": {"at_percent": 40}}})
    dpu.bmc.become(dpu.clock.now(), faults=Rules.of([rule]))
    dpu.push(MULTIPART, "bf-bmc_24.10-17.bin", {})
    dpu.advance(10)
    response = dpu.request("GET", MONITOR)
    assert (response.status, message_ids(response)) == (500, ["ApplyFailed"])
    assert dpu.get(TASK)["TaskState"] == "Exception"


def test_delete_of_a_monitor_cancels(busy: Client) -> None:
    busy.advance(1)
    assert busy.request("DELETE", MONITOR).status == 204
    task = busy.get(TASK)
    assert (task["TaskState"], task["TaskStatus"], "EndTime" in task) == ("Cancelled", "Warning", True)
    assert 40 <= task["PercentComplete"] <= 60
    assert [busy.request(method, MONITOR).status for method in ("GET", "DELETE")] == [404, 404]
    busy.advance(100)
    assert (busy.bmc.state.staged_firmware, len(busy.driver)) == ({}, 0)


def test_delete_of_a_monitor_after_the_end_forgets_the_task_and_nothing_else(busy: Client) -> None:
    busy.advance(10)
    assert busy.request("DELETE", MONITOR).status == 204
    assert [busy.request("GET", path).status for path in (MONITOR, TASK)] == [404, 404]
    assert busy.bmc.state.staged_firmware == {"bmc": "BF-24.10-17"}


@pytest.mark.parametrize("seconds", [1, 10])
def test_delete_of_a_task_forgets_it(busy: Client, seconds: float) -> None:
    busy.advance(seconds)
    assert header(busy.request("GET", TASK), "Allow") == "GET, HEAD, DELETE"
    assert busy.request("DELETE", TASK).status == 204
    assert [busy.request("GET", path).status for path in (MONITOR, TASK)] == [404, 404]
    assert busy.get(TASKS)["Members"] == []
    busy.advance(100)
    assert busy.bmc.state.staged_firmware == ({"bmc": "BF-24.10-17"} if seconds == 10 else {})


def test_the_id_of_a_forgotten_task_is_never_given_again(busy: Client) -> None:
    busy.request("DELETE", TASK)
    assert orjson.loads(busy.push(MULTIPART, "a.bin", {}).body)["Id"] == "1"


def test_a_monitor_takes_nothing_else(busy: Client) -> None:
    assert header(busy.request("OPTIONS", MONITOR), "Allow") == "GET, HEAD, DELETE"
    for method in ("POST", "PATCH", "PUT"):
        response = busy.request(method, MONITOR, {})
        assert (response.status, header(response, "Allow")) == (405, "GET, HEAD, DELETE")
    missing = [MONITOR + "0", MONITOR + "/x", "/redfish/v1/TaskService/TaskMonitors"]
    assert [busy.request("GET", path).status for path in missing] == [404, 404, 404]


def test_the_tag_of_a_task_follows_its_progress(busy: Client) -> None:
    first = header(busy.request("GET", TASK), "ETag")
    assert header(busy.request("GET", TASK), "ETag") == first
    busy.advance(1)
    second = header(busy.request("GET", TASK), "ETag")
    busy.advance(10)
    third = busy.get(TASK)
    assert len({first, second, third["@odata.etag"]}) == 3
    busy.advance(10)
    assert busy.get(TASK) == third


def test_a_task_has_no_end_time_before_its_end(busy: Client) -> None:
    assert "EndTime" not in busy.get(TASK)
    busy.advance(10)
    task = busy.get(TASK)
    keys = list(task)
    assert keys[keys.index("StartTime") + 1] == "EndTime"
    assert task["StartTime"] < task["EndTime"]


def test_an_expanded_collection_has_the_tasks(busy: Client) -> None:
    assert busy.get(TASKS + "?$expand=.")["Members"] == [busy.get(TASK)]
