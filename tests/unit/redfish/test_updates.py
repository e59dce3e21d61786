"""The update service: pushed images, SimpleUpdate and StartUpdate."""

from typing import Any

import msgspec
import orjson
import pytest

from bmcsim.machine.fault_rules import from_json
from bmcsim.machine.faults import Rules
from bmcsim.redfish import updates
from bmcsim.redfish.exchange import Head, Request, Response, Upload
from bmcsim.redfish.service import JSON_LIMIT, BodyPlan, admit, handle
from tests.conftest import Client, basic, header, make_client, message_ids

SERVICE = "/redfish/v1/UpdateService"
INVENTORY = SERVICE + "/FirmwareInventory"
TASKS = "/redfish/v1/TaskService/Tasks"
MULTIPART = {"dell_poweredge_r750": SERVICE + "/MultipartUpload", "bluefield3": SERVICE + "/update-multipart"}
RAW = {"dell_poweredge_r750": INVENTORY, "bluefield3": SERVICE + "/update"}
SIMPLE = SERVICE + "/Actions/UpdateService.SimpleUpdate"
START = SERVICE + "/Actions/UpdateService.StartUpdate"
FORM, STREAM = b"multipart/form-data; boundary=x", b"application/octet-stream"
BMC_ITEM = INVENTORY + "/BMC_Firmware"
every_profile = pytest.mark.parametrize("profile", ["dell_poweredge_r750", "bluefield3"])


def with_desired(profile: str, **desired: str) -> Client:
    """A client of a BMC of a group with desired versions."""
    client = make_client(profile)
    client.bmc.shared = msgspec.structs.replace(client.bmc.shared, desired=desired)
    return client


def task_of(client: Client, response: Response) -> Any:
    """The task that was accepted, as it is now."""
    assert response.status == 202, response.body
    return client.get(f"{TASKS}/{orjson.loads(response.body)['Id']}")


def installed(client: Client, response: Response) -> dict[str, str]:
    """What an update that was accepted changed or staged."""
    assert response.status == 202, response.body
    client.advance(10)
    assert task_of(client, response)["TaskState"] == "Completed"
    return {**client.bmc.state.firmware, **client.bmc.state.staged_firmware}


# the resource


@every_profile
def test_what_the_resource_advertises_is_there(profile: str) -> None:
    client = make_client(profile)
    service = client.get(SERVICE)
    assert service["MultipartHttpPushUri"] == MULTIPART[profile]
    assert service["HttpPushUri"] == RAW[profile]
    assert service["Actions"]["#UpdateService.SimpleUpdate"]["target"] == SIMPLE
    options = client.request("OPTIONS", MULTIPART[profile])
    assert (options.status, header(options, "Allow")) == (204, "POST")
    for method in ("GET", "PATCH", "DELETE"):
        refused = client.request(method, MULTIPART[profile])
        assert (refused.status, header(refused, "Allow")) == (405, "POST")
    # The schema of UpdateService has no POST, so its Allow is silent about the image that may be sent there.
    assert "POST" not in (header(client.request("GET", SERVICE), "Allow") or "POST")


def test_the_apply_times_of_an_action_are_shown_as_dsp0268_has_them(host: Client) -> None:
    action = host.get(SERVICE)["Actions"]["#UpdateService.SimpleUpdate"]
    assert action["@Redfish.OperationApplyTimeSupport"]["SupportedValues"] == [
        "Immediate", "OnReset", "OnStartUpdateRequest",
    ]  # fmt: skip
    assert not any("OperationApplyTime@" in key for key in action)


# admission


def asked(client: Client, path: str, length: int | None = 100, **fields: Any) -> Any:
    """The decision about a POST with a body: the status of a refusal, or the plan."""
    head = Head(**{"authorization": client.authorization, **fields})
    answer = admit(client.bmc, Request("POST", path, client.clock.now(), head), length)
    return answer if isinstance(answer, BodyPlan) else answer.status


@every_profile
def test_an_upload_is_streamed_away_up_to_the_size_of_an_image(profile: str) -> None:
    client = make_client(profile)
    limit = {"bluefield3": 209_715_200}.get(profile, updates.DEFAULT_LIMIT)
    for path in (RAW[profile], SERVICE, SERVICE + "/"):
        assert asked(client, path, content_type=STREAM) == BodyPlan(limit, "raw")
        assert asked(client, path, None) == BodyPlan(limit, "raw")
        assert asked(client, path, limit, content_type=STREAM) == BodyPlan(limit, "raw")
        assert asked(client, path, limit + 1, content_type=STREAM) == 413
    plan = asked(client, MULTIPART[profile], limit, content_type=FORM)
    assert (plan.upload, plan.limit > limit) == ("multipart", True)
    assert asked(client, MULTIPART[profile], plan.limit + 1, content_type=FORM) == 413


@every_profile
def test_a_body_of_another_media_type_is_not_read(profile: str) -> None:
    client = make_client(profile)
    for path, media in ((MULTIPART[profile], STREAM), (RAW[profile], FORM), (SERVICE, b"application/json")):
        assert asked(client, path, content_type=media) == 415
        refused = client.request("POST", path, b"x", content_type=media)
        assert (refused.status, message_ids(refused)) == (415, ["UnrecognizedRequestBody"])


def test_who_may_not_update_is_refused_before_the_body(dpu: Client) -> None:
    assert asked(dpu, MULTIPART["bluefield3"], authorization=b"", content_type=FORM) == 401
    assert asked(dpu, MULTIPART["bluefield3"], 2**40, authorization=basic("root", "no"), content_type=b"") == 401
    factory = make_client("bluefield3", password=None)
    factory.authorization = basic("root", "0penBmc")
    assert asked(factory, MULTIPART["bluefield3"], content_type=FORM) == 403


def test_who_may_only_read_does_not_update(dpu: Client) -> None:
    account = {"UserName": "reader", "Password": "Reader-123", "RoleId": "ReadOnly"}
    assert dpu.request("POST", "/redfish/v1/AccountService/Accounts", account).status == 201
    dpu.authorization = basic("reader", "Reader-123")
    for path, media in ((MULTIPART["bluefield3"], FORM), (RAW["bluefield3"], STREAM), (SERVICE, STREAM)):
        assert asked(dpu, path, content_type=media) == 403
    refusals = [
        dpu.push(MULTIPART["bluefield3"], "a.bin", {}),
        dpu.push(SERVICE),
        dpu.request("POST", SIMPLE, {"ImageURI": "http://192.0.2.1/a.bin"}),
    ]
    assert [message_ids(refused) for refused in refusals] == [["InsufficientPrivilege"]] * 3
    assert dpu.bmc.state.tasks == ()


def test_other_methods_and_other_uris_have_ordinary_bodies(dpu: Client) -> None:
    head = Head(authorization=dpu.authorization, content_type=b"application/json")
    patch = admit(dpu.bmc, Request("PATCH", SERVICE, dpu.clock.now(), head), 100)
    assert patch == BodyPlan(JSON_LIMIT)
    assert asked(dpu, SIMPLE, content_type=b"application/json") == BodyPlan(JSON_LIMIT)


# multipart


@every_profile
def test_an_image_becomes_a_task(profile: str) -> None:
    client = make_client(profile)
    response = client.push(MULTIPART[profile], "image.bin", {"Targets": []})
    assert response.status == 202
    task = orjson.loads(response.body)
    where = TASKS if profile == "dell_poweredge_r750" else "/redfish/v1/TaskService/TaskMonitors"
    assert header(response, "Location") == f"{where}/{task['Id']}"
    assert header(response, "Retry-After") == "2" or header(response, "Retry-After") == "3"
    assert task["@odata.id"] == f"{TASKS}/{task['Id']}"
    assert task == client.get(task["@odata.id"])
    assert client.get(TASKS)["Members"] == [{"@odata.id": task["@odata.id"]}]
    assert task["Payload"] == {"HttpOperation": "POST", "TargetUri": MULTIPART[profile]}


BAD: list[tuple[str, Any, int, str]] = [
    ("no parameters", b"", 400, "MissingOrMalformedPart"),
    ("not JSON", b"{", 400, "MalformedJSON"),
    ("no object", b"[]", 400, "MalformedJSON"),
    ("deep", b"[" * 2000, 400, "MalformedJSON"),
    ("targets of another type", {"Targets": "x"}, 400, "PropertyValueTypeError"),
    ("targets of other types", {"Targets": [5]}, 400, "PropertyValueTypeError"),
    ("unknown target", {"Targets": ["/redfish/v1/Nope"]}, 400, "InvalidObject"),
    ("one unknown target", {"Targets": [BMC_ITEM, ""]}, 400, "InvalidObject"),
    ("target that is not updateable", {"Targets": [INVENTORY + "/DPU_UEFI"]}, 400, "InvalidObject"),
    ("apply time", {"@Redfish.OperationApplyTime": "OnReset"}, 400, "PropertyValueNotInList"),
    ("apply time of another type", {"@Redfish.OperationApplyTime": 1}, 400, "PropertyValueTypeError"),
    ("unknown component", {"Oem": {"Bmcsim": {"Component": "nope"}}}, 400, "PropertyValueNotInList"),
    ("version that cannot be one", {"Oem": {"Bmcsim": {"Version": "../x"}}}, 400, "PropertyValueFormatError"),
    ("version of another type", {"Oem": {"Bmcsim": {"Version": 7}}}, 400, "PropertyValueFormatError"),
]


@pytest.mark.parametrize(("parameters", "status", "key"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_parameters_that_are_wrong_begin_nothing(dpu: Client, parameters: Any, status: int, key: str) -> None:
    response = dpu.push(MULTIPART["bluefield3"], "a.bin", parameters)
    assert (response.status, message_ids(response)) == (status, [key])
    assert (dpu.bmc.state.tasks, len(dpu.driver)) == ((), 0)


@pytest.mark.parametrize("oem", [None, 5, {}, {"Bmcsim": 5}, {"Other": {"x": 1}}, {"Bmcsim": {}}])
def test_what_belongs_to_others_is_ignored(dpu: Client, oem: Any) -> None:
    parameters = {"Oem": oem, "ForceUpdate": True, "Unknown": 1}
    assert dpu.push(MULTIPART["bluefield3"], "a.bin", parameters).status == 202


@pytest.mark.parametrize(
    "upload", [None, Upload(0, ""), Upload(0, "", "a", b"{}", has_file=True), Upload(0, "", "", b"{}")]
)
def test_an_upload_without_a_file_is_refused(dpu: Client, upload: Upload | None) -> None:
    for path, media in ((MULTIPART["bluefield3"], FORM), (RAW["bluefield3"], STREAM), (SERVICE, STREAM)):
        head = Head(authorization=dpu.authorization, content_type=media)
        response = handle(dpu.bmc, Request("POST", path, dpu.clock.now(), head, upload=upload))
        assert response.status == 400
        assert dpu.bmc.state.tasks == ()


def test_a_bad_side_car_is_refused(dpu: Client) -> None:
    response = dpu.push(RAW["bluefield3"], head=b'{"component": "nope", "version": "1"}')
    assert (response.status, message_ids(response)) == (400, ["PropertyValueNotInList"])


# which component, which version


def test_the_request_itself_may_say_what_an_image_is(host: Client) -> None:
    parameters = {"Oem": {"Bmcsim": {"Component": "uefi", "Version": "1.14"}}}
    response = host.push(MULTIPART["dell_poweredge_r750"], "iDRAC_9.9.exe", parameters, head=b'{"version": "3"}')
    assert installed(host, response) == {"uefi": "1.14"}


def test_the_file_may_say_it(host: Client) -> None:
    side_car = b'{"component": "bmc", "version": "7.10"}'
    assert installed(host, host.push(RAW["dell_poweredge_r750"], head=side_car)) == {"bmc": "7.10"}


def test_its_name_may_say_it(host: Client) -> None:
    response = host.push(MULTIPART["dell_poweredge_r750"], "BIOS_XYZ_1.14.1.exe", {})
    assert installed(host, response) == {"uefi": "1.14.1"}


def test_a_target_wins_over_all_of_them(host: Client) -> None:
    parameters = {"Targets": [INVENTORY + "/Current-159-1.13.2__BIOS.Setup.1-1"]}
    response = host.push(MULTIPART["dell_poweredge_r750"], "iDRAC_9.9.exe", parameters)
    assert installed(host, response) == {"uefi": "9.9"}


def test_a_target_may_be_what_the_firmware_runs_on(dpu: Client) -> None:
    parameters = {"Targets": ["/redfish/v1/Managers/Bluefield_BMC/"]}
    assert installed(dpu, dpu.push(MULTIPART["bluefield3"], "x_24.10-17.bin", parameters)) == {"bmc": "BF-24.10-17"}


def test_several_targets_are_updated_at_once(dpu: Client) -> None:
    parameters = {"Targets": [BMC_ITEM, INVENTORY + "/Bluefield_FW_ERoT"]}
    client = with_desired("bluefield3", cec="00.03", bmc="BF-24.10-17")
    response = client.push(MULTIPART["bluefield3"], "bundle.fwpkg", parameters)
    assert installed(client, response) == {"bmc": "BF-24.10-17", "cec": "00.03"}


def test_without_any_word_the_desired_versions_are_reached_one_after_the_other() -> None:
    client = with_desired("dell_poweredge_r750", bmc="7.0", uefi="1.14")
    path = MULTIPART["dell_poweredge_r750"]
    assert installed(client, client.push(path, "a.exe", {})) == {"bmc": "7.0"}
    # Before it is applied, the same upload changes the same again: a client may repeat it.
    assert installed(client, client.push(path, "a.exe", {})) == {"bmc": "7.0"}
    client.request("POST", "/redfish/v1/Managers/iDRAC.Embedded.1/Actions/Manager.Reset")
    client.advance(120)
    assert installed(client, client.push(path, "a.exe", {})) == {"bmc": "7.0", "uefi": "1.14"}


def test_without_any_word_and_any_wish_nothing_changes(host: Client) -> None:
    before = host.get(INVENTORY)
    assert installed(host, host.push(RAW["dell_poweredge_r750"])) == {}
    assert host.get(INVENTORY) == before


def test_a_bfb_brings_what_is_not_updated_by_itself() -> None:
    client = with_desired("bluefield3", uefi="4.9", nic="32.43", bmc="BF-9")
    body = {"ImageURI": "http://192.0.2.1/bf-bundle-2.9.0.bfb", "Targets": [INVENTORY + "/DPU_OS"]}
    changed = installed(client, client.request("POST", SIMPLE, body))
    assert changed == {"uefi": "4.9", "nic": "32.43", "os": "bf-bundle-2.9.0"}


def test_targets_of_the_resource_count_for_a_raw_image(dpu: Client) -> None:
    assert dpu.request("PATCH", SERVICE, {"HttpPushUriTargets": [BMC_ITEM]}).status in (200, 204)
    response = dpu.push(RAW["bluefield3"], head=b'{"version": "BF-9.1"}')
    assert installed(dpu, response) == {"bmc": "BF-9.1"}
    assert dpu.request("PATCH", SERVICE, {"HttpPushUriTargets": ["/redfish/v1/Nope"]}).status in (200, 204)
    assert dpu.push(RAW["bluefield3"]).status == 400


# apply times


def test_an_image_for_the_next_reset_waits_whatever_it_is(host: Client) -> None:
    parameters = {"@Redfish.OperationApplyTime": "OnReset"}
    response = host.push(MULTIPART["dell_poweredge_r750"], "driverpack_22.1.exe", parameters)
    host.advance(10)
    assert "Update.1.0.AwaitToActivate" in str(task_of(host, response)["Messages"])
    assert host.bmc.version("drivers") == "21.03.10"
    reset = {"ResetType": "ForceRestart"}
    host.request("POST", "/redfish/v1/Systems/System.Embedded.1/Actions/ComputerSystem.Reset", reset)
    assert host.bmc.version("drivers") == "22.1"
    assert "Update.1.0.AwaitToActivate" not in str(task_of(host, response)["Messages"])


def test_an_image_may_wait_for_start_update(host: Client) -> None:
    body = {
        "ImageURI": "https://192.0.2.1/driverpack_22.1.exe",
        "@Redfish.OperationApplyTime": "OnStartUpdateRequest",
    }
    response = host.request("POST", SIMPLE, body)
    host.advance(100)
    task = task_of(host, response)
    assert (task["TaskState"], task["PercentComplete"], task["Messages"][0]["MessageId"]) == (
        "Pending", 0, "Update.1.0.AwaitToUpdate",
    )  # fmt: skip
    assert host.request("POST", START).status == 204
    host.advance(10)
    assert task_of(host, response)["TaskState"] == "Completed"
    assert host.request("POST", START).status == 204


# SimpleUpdate


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({}, "ActionParameterMissing"),
        ({"ImageURI": 5}, "ActionParameterValueTypeError"),
        ({"ImageURI": "gopher://x/y"}, "ActionParameterValueFormatError"),
        ({"ImageURI": "x/y.bin"}, "ActionParameterValueFormatError"),
        ({"ImageURI": ""}, "ActionParameterValueFormatError"),
        ({"ImageURI": "http://[/y.bin"}, "ActionParameterValueFormatError"),
        ({"ImageURI": "x/y.bin", "TransferProtocol": "TFTP"}, "ActionParameterValueNotInList"),
        ({"ImageURI": "http://x/y", "Targets": [INVENTORY]}, "InvalidObject"),
        ({"ImageURI": "http://x/y", "Targets": "z"}, "ActionParameterValueTypeError"),
        ({"ImageURI": "http://x/y", "Other": 1}, "ActionParameterUnknown"),
    ],
)
def test_simple_updates_that_are_refused(dpu: Client, body: dict[str, Any], key: str) -> None:
    response = dpu.request("POST", SIMPLE, body)
    assert (response.status, message_ids(response)) == (400, [key])
    assert dpu.bmc.state.tasks == ()


@pytest.mark.parametrize(
    "body",
    [
        {"ImageURI": "http://u:secret@192.0.2.1:80/a/bf-bmc_24.10-17.bin?x=1"},
        {"ImageURI": "192.0.2.1/bf-bmc_24.10-17.bin", "TransferProtocol": "HTTP", "Username": "u", "Password": "p"},
        {"ImageURI": "SCP://192.0.2.1/bf-bmc%5F24.10-17.bin", "Targets": []},
    ],
)
def test_a_simple_update_is_named_by_its_uri(dpu: Client, body: dict[str, Any]) -> None:
    response = dpu.request("POST", SIMPLE, body)
    assert header(response, "Location") == "/redfish/v1/TaskService/TaskMonitors/0"
    assert installed(dpu, response) == {"bmc": "BF-24.10-17"}
    task = orjson.dumps(task_of(dpu, response))
    assert b"bf-bmc_24.10-17.bin" in task
    assert b"secret" not in task


# one at a time


def test_openbmc_refuses_a_second_update_while_one_runs() -> None:
    client = make_client("bluefield3", time_scale=0.1)
    path = MULTIPART["bluefield3"]
    client.push(path, "bf-bmc_1.1.bin", {})
    client.advance(5)
    for refused in (client.push(path, "b.bin", {}), client.push(RAW["bluefield3"])):
        assert (refused.status, message_ids(refused)) == (503, ["ResourceInUse"])
        left = int(header(refused, "Retry-After") or 0)
        assert 14 <= left <= 18
    client.advance(left)
    assert client.push(path, "b.bin", {}).status == 202


def test_an_idrac_takes_a_second_update_into_its_queue(host: Client) -> None:
    path = MULTIPART["dell_poweredge_r750"]
    first, second = (host.push(path, f"BIOS_1.{number}.exe", {}) for number in (1, 2))
    assert [task_of(host, one)["TaskState"] for one in (first, second)] == ["New", "Pending"]
    host.advance(2.5)
    assert task_of(host, first)["TaskState"] == "Completed"
    host.advance(2.5)
    assert installed(host, second) == {"uefi": "1.2"}
    assert len({orjson.loads(one.body)["Id"] for one in (first, second)}) == 2


def test_an_update_of_an_idrac_is_a_job_among_the_others(host: Client) -> None:
    jobs = "/redfish/v1/Managers/iDRAC.Embedded.1/Jobs"
    first, second = (host.push(MULTIPART["dell_poweredge_r750"], f"BIOS_1.{number}.exe", {}) for number in (1, 2))
    ids = [orjson.loads(one.body)["Id"] for one in (first, second)]
    host.advance(1)
    assert [host.get(f"{jobs}/{id_}")["JobState"] for id_ in ids] == ["Running", "Scheduled"]
    assert host.get(f"{jobs}/{ids[0]}")["JobType"] == "FirmwareUpdate"
    assert host.get(jobs)["Members@odata.count"] == 2
    assert host.request("DELETE", f"{jobs}/{ids[1]}").status in (200, 204)
    assert host.get(jobs)["Members@odata.count"] == host.get(TASKS)["Members@odata.count"] == 1
    host.advance(10)
    assert host.get(f"{jobs}/{ids[0]}")["JobState"] == "Completed"
    assert host.bmc.state.staged_firmware == {"uefi": "1.1"}


def test_a_queue_that_is_full_takes_no_more(host: Client) -> None:
    path = MULTIPART["dell_poweredge_r750"]
    assert {host.push(path, "a.exe", {}).status for _ in range(32)} == {202}
    refused = host.push(path, "a.exe", {})
    assert (refused.status, message_ids(refused)) == (503, ["CreateLimitReachedForResource"])
    host.advance(3)
    assert host.push(path, "a.exe", {}).status == 202
    assert host.get(TASKS)["Members@odata.count"] == 32


# what goes wrong, and what is told


def test_a_fault_makes_updates_fail(host: Client) -> None:
    rule = from_json({"id": "bad", "remaining": 1, "action": {"UpdateFails": {"at_percent": 40}}})
    host.bmc.become(host.clock.now(), faults=Rules.of([rule]))
    path = MULTIPART["dell_poweredge_r750"]
    response = host.push(path, "BIOS_1.2.exe", {})
    host.advance(10)
    task = task_of(host, response)
    assert (task["TaskState"], task["TaskStatus"], task["PercentComplete"]) == ("Exception", "Critical", 40)
    assert task["Messages"][0]["MessageId"] == "Update.1.0.ApplyFailed"
    assert host.bmc.state.staged_firmware == {}
    entries = host.get("/redfish/v1/Managers/iDRAC.Embedded.1/LogServices/Lclog/Entries")["Members"]
    assert entries[-1]["MessageId"] == "IDRAC.2.7.SUP1907"
    assert installed(host, host.push(path, "BIOS_1.2.exe", {})) == {"uefi": "1.2"}
    entries = host.get("/redfish/v1/Managers/iDRAC.Embedded.1/LogServices/Lclog/Entries")["Members"]
    assert entries[-1]["MessageId"] == "IDRAC.2.7.SUP0518"


def test_a_reset_of_the_bmc_ends_an_update_of_a_bluefield_and_not_of_an_idrac() -> None:
    for profile, manager, end in (
        ("bluefield3", "Bluefield_BMC", "Exception"),
        ("dell_poweredge_r750", "iDRAC.Embedded.1", "Completed"),
    ):
        client = make_client(profile)
        response = client.push(MULTIPART[profile], "bmc-9.9.bin", {})
        client.advance(1)
        client.request("POST", f"/redfish/v1/Managers/{manager}/Actions/Manager.Reset")
        client.advance(120)
        assert task_of(client, response)["TaskState"] == end
        assert (client.bmc.version("bmc").endswith("9.9")) is (end == "Completed")


def test_an_update_takes_as_long_as_the_timings_say() -> None:
    client = make_client("bluefield3")
    timings = msgspec.structs.replace(client.bmc.shared.timings, firmware_upgrade=600.0, jitter=0.5)
    client.bmc.shared = msgspec.structs.replace(client.bmc.shared, timings=timings)
    response = client.push(MULTIPART["bluefield3"], "bf-bmc_1.1.bin", {})
    seconds = client.bmc.state.tasks[0].seconds
    assert 600 <= seconds <= 900
    client.advance(seconds - 1)
    assert task_of(client, response)["TaskState"] == "Running"
    client.advance(1)
    assert task_of(client, response)["TaskState"] == "Completed"


def test_what_waits_for_a_bluefield(dpu: Client) -> None:
    """The BMC's own firmware needs a reset of the BMC, that of the root of trust a power cycle."""
    system = "/redfish/v1/Systems/Bluefield/Actions/ComputerSystem.Reset"
    dpu.push(MULTIPART["bluefield3"], "bf-bmc_24.10-17.bin", {})
    dpu.advance(10)
    dpu.push(MULTIPART["bluefield3"], "cec_ota_00.03.bin", {})
    dpu.advance(10)
    dpu.request("POST", system, {"ResetType": "ForceRestart"})
    dpu.advance(300)
    assert (dpu.bmc.version("bmc"), dpu.bmc.version("cec")) == ("BF-23.10-4", "00.02.0152.0000_n02")
    dpu.request("POST", system, {"ResetType": "PowerCycle"})
    dpu.advance(300)
    assert (dpu.bmc.version("bmc"), dpu.bmc.version("cec")) == ("BF-23.10-4", "00.03")
    dpu.request("POST", "/redfish/v1/Managers/Bluefield_BMC/Actions/Manager.Reset")
    dpu.advance(120)
    assert dpu.get("/redfish/v1/Managers/Bluefield_BMC")["FirmwareVersion"] == "BF-24.10-17"
    assert dpu.get(BMC_ITEM)["Version"] == "BF-24.10-17"
