"""One test per public bug report: the right behaviour."""

import re
from typing import Any

import msgspec
import orjson
import pytest

from bmcsim.machine.bmc_reset import Service
from bmcsim.redfish.exchange import DROP, Response
from bmcsim.tree.profile import Head, names
from tests.conftest import PASSWORD, Client, basic, header, make_client, message_ids, profiles_where, tree_of

SESSIONS = "/redfish/v1/SessionService/Sessions"

every_profile = pytest.mark.parametrize("profile", names())
every_profile_with_a_system = pytest.mark.parametrize("profile", profiles_where(lambda tree: tree.head.roles.system))
every_profile_that_boots = pytest.mark.parametrize(
    "profile",
    profiles_where(lambda tree: tree.head.roles.system and "Boot" in tree.nodes[tree.head.roles.system].template),
)
every_profile_with_a_first_login = pytest.mark.parametrize(
    "profile", profiles_where(lambda tree: not tree.head.behaviour.factory_password_everywhere)
)


def facts(profile: str) -> Head:
    """The head of a profile."""
    return tree_of(profile).head


def secret(profile: str) -> bytes:
    """The Authorization field of a profile's factory account."""
    account = facts(profile).accounts[0]
    return basic(account.user, account.password)


def fresh(profile: str, index: int = 0) -> Client:
    """A BMC as it left the factory, asked with its factory password."""
    client = make_client(profile, index=index, password=None)
    client.authorization = secret(profile)
    return client


def own_account(profile: str) -> str:
    """The URI of the factory account."""
    return f"/redfish/v1/AccountService/Accounts/{facts(profile).accounts[0].id}"


def refuses_factory_password(response: Response) -> bool:
    """Whether a response asks for another password first, as an error object."""
    return response.status == 403 and message_ids(response) == ["PasswordChangeRequired"]


# credentials


@every_profile_with_a_first_login
def test_n08_only_root_and_accounts_are_open_until_the_factory_password_is_changed(profile: str) -> None:
    """A factory user reads root and account, is refused the chassis, changes the password, and reads them."""
    client, account = fresh(profile), own_account(profile)
    assert client.request("GET", "/redfish/v1/", authorization=b"").status == 200
    assert client.request("GET", account, authorization=b"").status == 401
    assert client.get(account)["PasswordChangeRequired"] is True
    assert refuses_factory_password(client.request("GET", "/redfish/v1/Chassis"))
    assert refuses_factory_password(client.request("GET", "/redfish/v1/Managers"))
    assert client.request("PATCH", account, {"Password": PASSWORD}).status == 204
    assert client.request("GET", "/redfish/v1/Chassis").status == 401
    client.authorization = basic(facts(profile).accounts[0].user, PASSWORD)
    assert client.request("GET", "/redfish/v1/Chassis").status == 200
    assert client.get(account)["PasswordChangeRequired"] is False


@every_profile_with_a_first_login
def test_n09_setting_the_factory_password_again_changes_nothing(profile: str) -> None:
    """A PATCH of the password to the value it has leaves everything else refused."""
    client = fresh(profile)
    same = facts(profile).accounts[0].password
    assert refuses_factory_password(client.request("PATCH", own_account(profile), {"Password": same}))
    assert refuses_factory_password(client.request("GET", "/redfish/v1/Chassis"))
    assert client.get(own_account(profile))["PasswordChangeRequired"] is True


@pytest.mark.parametrize(
    ("profile", "other"), [("bluefield3", profile) for profile in names() if profile != "bluefield3"]
)
def test_n10_the_factory_password_of_another_kind_is_wrong_and_harms_nobody(profile: str, other: str) -> None:
    """A host asked with the secret of a DPU, and the other way round, says 401 however often, and stays usable."""
    client, neighbour = fresh(profile), fresh(profile, index=1)
    for _ in range(20):
        refused = client.request("GET", "/redfish/v1/Chassis", authorization=secret(other))
        assert refused.status == 401
        assert (header(refused, "WWW-Authenticate") or "").startswith("Basic realm=")
    for one in (client, neighbour):
        assert one.request("GET", own_account(profile)).status == 200
        assert one.request("PATCH", own_account(profile), {"Password": PASSWORD}).status == 204


# HTTP


@every_profile
def test_e31_what_is_not_there_or_not_supported_is_never_500(profile: str) -> None:
    """An unknown URI is 404 and a PUT on a read-only resource 405 with Allow, both with an extended error."""
    client = make_client(profile)
    for method in ("GET", "POST", "PATCH", "PUT", "DELETE"):
        missing = client.request(method, "/redfish/v1/Nope")
        assert (missing.status, message_ids(missing)) == (404, ["ResourceMissingAtURI"])
    for path in ("/redfish/v1/", "/redfish/v1/Chassis", "/redfish/v1/Managers"):
        refused = client.request("PUT", path, {"Name": "x"})
        assert (refused.status, message_ids(refused)) == (405, ["OperationNotAllowed"])
        assert header(refused, "Allow") == "GET, HEAD"


@every_profile
def test_e32_version_and_root_need_no_credentials_and_no_certain_slash(profile: str) -> None:
    """/redfish, /redfish/, /redfish/v1 and /redfish/v1/ answer without credentials, the same with slash and without."""
    client = make_client(profile)
    versions, root = (
        [client.request("GET", path + slash, authorization=b"") for slash in ("", "/")]
        for path in ("/redfish", "/redfish/v1")
    )
    assert versions[0] == versions[1]
    assert root[0] == root[1]
    assert (versions[0].status, orjson.loads(versions[0].body)) == (200, {"v1": "/redfish/v1/"})
    assert (root[0].status, orjson.loads(root[0].body)["@odata.id"]) == (200, "/redfish/v1/")


@every_profile
def test_e33_bodies_that_are_no_object_are_400_and_head_is_like_get(profile: str) -> None:
    """A PATCH with no body, text or an array is MalformedJSON; HEAD has the fields of GET, none of one connection."""
    client = make_client(profile)
    for body in (b"", b"not json", b"[]", b'[{"SessionTimeout": 60}]'):
        refused = client.request("PATCH", "/redfish/v1/SessionService", body)
        assert (refused.status, message_ids(refused)) == (400, ["MalformedJSON"])
    for path in client.bmc.tree.nodes:
        get, head = client.request("GET", path), client.request("HEAD", path)
        assert (head.status, head.head) == (200, get.head)
        for field in ("Transfer-Encoding", "Connection", "Keep-Alive", "Content-Length"):
            assert header(get, field) is None


@every_profile
def test_c34_a_session_is_opened_with_and_without_the_slash(profile: str) -> None:
    """POST to Sessions and Sessions/ both answer 201 themselves: no redirect that would lose the body."""
    client = make_client(profile)
    credentials = {"UserName": facts(profile).accounts[0].user, "Password": PASSWORD}
    for path in (SESSIONS, SESSIONS + "/"):
        response = client.request("POST", path, credentials, authorization=b"")
        assert response.status == 201
        token = header(response, "X-Auth-Token")
        assert token
        assert client.request("GET", "/redfish/v1/Chassis", authorization=b"", token=token.encode()).status == 200


@every_profile
def test_c35_the_root_without_its_slash_is_the_root(profile: str) -> None:
    """GET /redfish/v1 is 200 with the root itself, not a redirect."""
    client = make_client(profile)
    response = client.request("GET", "/redfish/v1", authorization=b"")
    assert (response.status, header(response, "Location")) == (200, None)
    assert orjson.loads(response.body) == client.get("/redfish/v1/")


@every_profile
def test_c38_an_action_without_parameters_takes_any_empty_body_and_json_only(profile: str) -> None:
    """Manager.Reset with no body and with {} is done; with a body of another media type it is 415, and not done."""
    target = f"{facts(profile).roles.manager}/Actions/Manager.Reset"
    for body, content_type in ((None, b""), (b"", b"text/plain"), ({}, b"application/json")):
        client = make_client(profile)
        assert client.request("POST", target, body, content_type=content_type).status == 204
        assert client.bmc.state.service is Service.RESETTING
    client = make_client(profile)
    refused = client.request("POST", target, b"<reset/>", content_type=b"application/xml")
    assert (refused.status, message_ids(refused)) == (415, ["UnrecognizedRequestBody"])
    assert client.bmc.state.service is Service.UP


@every_profile
def test_e36_answers_without_content_have_none_and_reads_have_their_fields(profile: str) -> None:
    """PATCH 204 and GET 304 have no body; GET and HEAD have OData-Version, Cache-Control, Allow and Link."""
    client = make_client(profile)
    written = client.request("PATCH", "/redfish/v1/SessionService", {"SessionTimeout": 60})
    assert (written.status, written.body) == (204, b"")
    assert header(written, "Content-Type") is None
    for path in client.bmc.tree.nodes:
        for method in ("GET", "HEAD"):
            response = client.request(method, path)
            assert header(response, "OData-Version") == "4.0"
            assert header(response, "Cache-Control")
            assert (header(response, "Allow") or "").startswith("GET, HEAD")
            assert "rel=describedby" in (header(response, "Link") or "")
        unchanged = client.request("GET", path, if_none_match=(header(response, "ETag") or "").encode())
        assert (unchanged.status, unchanged.body) == (304, b"")
        assert header(unchanged, "ETag") == header(response, "ETag")


# power and boot


@every_profile_that_boots
def test_c08_a_reset_type_that_is_not_offered_is_refused_by_name(profile: str) -> None:
    """Each kind of hardware lists its reset types; any other is 400 with the value named, and nothing happens."""
    client = make_client(profile)
    action = client.get(facts(profile).roles.system)["Actions"]["#ComputerSystem.Reset"]
    offered = action["ResetType@Redfish.AllowableValues"]
    every = {
        "On",
        "ForceOn",
        "ForceOff",
        "GracefulShutdown",
        "PushPowerButton",
        "Nmi",
        "PowerCycle",
        "Suspend",
        "Pause",
    }
    assert len(offered) > 5
    assert len(every - set(offered)) >= 3
    for value in sorted(every - set(offered)):
        refused = client.request("POST", action["target"], {"ResetType": value})
        assert (refused.status, message_ids(refused)) == (400, ["ActionParameterValueNotInList"])
        assert orjson.loads(refused.body)["error"]["@Message.ExtendedInfo"][0]["MessageArgs"][0] == value
        assert client.get(facts(profile).roles.system)["PowerState"] == "On"


def test_c08_the_reset_types_are_those_of_the_hardware() -> None:
    """A Dell has a power button and a BlueField does not: what one offers, the other refuses."""
    offered = [
        make_client(profile).get(facts(profile).roles.system)["Actions"]["#ComputerSystem.Reset"][
            "ResetType@Redfish.AllowableValues"
        ]
        for profile in ("bluefield3", "dell_poweredge_r750")
    ]
    assert ("PushPowerButton" in offered[0], "PushPowerButton" in offered[1]) == (False, True)


def reset_bmc(client: Client) -> None:
    """Begin a reset of the BMC."""
    target = f"{client.bmc.tree.head.roles.manager}/Actions/Manager.Reset"
    assert client.request("POST", target, {"ResetType": "GracefulRestart"}).status == 204


@every_profile
def test_n07_a_changed_password_survives_a_reset_of_the_bmc(profile: str) -> None:
    """After PATCH, reset and wait the new password works, and the one of before is refused."""
    client = make_client(profile)
    old, new = client.authorization, basic(facts(profile).accounts[0].user, "Rotated-2")
    assert client.request("PATCH", own_account(profile), {"Password": "Rotated-2"}).status == 204
    client.authorization = new
    reset_bmc(client)
    client.advance(facts(profile).timings.bmc_reset)
    statuses = [client.request("GET", "/redfish/v1/Chassis", authorization=one).status for one in (old, new)]
    assert statuses == [401, 200]


@every_profile_with_a_system
def test_n15_a_reset_bmc_is_away_for_its_time_and_then_back_by_itself(profile: str) -> None:
    """Asked every second, not even the root answers until the time is over; the host keeps its power."""
    client, seconds = make_client(profile), facts(profile).timings.bmc_reset
    reset_bmc(client)
    for _ in range(int(seconds)):
        for path, fields in (
            ("/redfish/v1/", {"authorization": b""}),
            ("/redfish/v1/Nope", {}),
            ("/redfish/v1/Chassis", {}),
        ):
            assert client.request("GET", path, **fields).delivery == DROP
        client.advance(1)
    assert client.request("GET", "/redfish/v1/", authorization=b"").status == 200
    assert client.get(facts(profile).roles.system)["PowerState"] == "On"
    assert client.bmc.state.resets == 1


def test_c09_a_bmc_recovers_from_a_reset_in_stages() -> None:
    """Closed, then 503 with Retry-After, then logins of 12 s; the root without credentials tells how far it is."""
    client = make_client("dell_poweredge_r750")
    behaviour = msgspec.structs.replace(client.bmc.shared.behaviour, while_resetting="staged")
    client.bmc.shared = msgspec.structs.replace(client.bmc.shared, behaviour=behaviour)
    reset_bmc(client)
    probes = []
    for _ in range(9):
        probes.append(client.request("GET", "/redfish/v1/", authorization=b""))
        client.advance(10 if len(probes) < 9 else 5)
    assert [one.delivery for one in probes] == [DROP] * 6 + [None] * 3
    assert [(one.status, header(one, "Retry-After")) for one in probes[6:]] == [(503, "30"), (503, "20"), (503, "10")]
    assert client.request("GET", "/redfish/v1/", authorization=b"").status == 200
    slow = client.request("GET", "/redfish/v1/Chassis")
    assert slow.delivery is not None
    assert (slow.status, slow.delivery.delay, slow.delivery.keep) == (200, 12, None)
    client.advance(5)
    assert client.request("GET", "/redfish/v1/Chassis").delivery is None


@every_profile_that_boots
def test_n20_a_system_shows_what_it_goes_through(profile: str) -> None:
    """Polled every 100 ms after On, PowerState and BootProgress go through their stages and skip none."""
    client, system = make_client(profile), facts(profile).roles.system
    target = client.get(system)["Actions"]["#ComputerSystem.Reset"]["target"]
    assert client.request("POST", target, {"ResetType": "ForceOff"}).status == 204
    assert client.get(system)["PowerState"] == "Off"
    assert client.request("POST", target, {"ResetType": "On"}).status == 204
    seen: list[tuple[str, str]] = []
    for _ in range(int(facts(profile).timings.reboot * 10) + 1):
        shown = client.get(system)
        stage = shown["PowerState"], shown["BootProgress"]["LastState"]
        if not seen or seen[-1] != stage:
            seen.append(stage)
        client.advance(0.1)
    assert seen == [
        ("PoweringOn", "PrimaryProcessorInitializationStarted"),
        ("On", "MemoryInitializationStarted"),
        ("On", "PCIResourceConfigStarted"),
        ("On", "SystemHardwareInitializationComplete"),
        ("On", "OSRunning"),
    ]


@every_profile_that_boots
@pytest.mark.parametrize("slash", ["", "/"])
def test_e40_a_boot_override_is_set_at_the_form_with_a_slash(profile: str, slash: str) -> None:
    """PATCH of Boot at /Systems/<id>/ does what it does at /Systems/<id>."""
    client, system = make_client(profile), facts(profile).roles.system
    boot: dict[str, Any] = {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}
    assert client.request("PATCH", system + slash, {"Boot": boot}).status == 204
    assert boot.items() <= client.get(system)["Boot"].items()
    assert client.request("PATCH", system + slash, {"Boot": {"BootSourceOverrideEnabled": "Disabled"}}).status == 204
    assert client.get(system + "/")["Boot"]["BootSourceOverrideEnabled"] == "Disabled"


# identity


def serials(client: Client) -> dict[str, str]:
    """URI -> serial number of each system and each chassis that has one of its own."""
    uris = [uri for uri in client.bmc.tree.nodes if re.fullmatch("/redfish/v1/(Systems|Chassis)/[^/]+", uri)]
    shown = {uri: client.get(uri).get("SerialNumber") for uri in uris}
    return {uri: serial for uri, serial in shown.items() if serial and not serial.startswith("Unspecified")}


@every_profile
def test_n67_two_machines_of_a_kind_never_share_a_serial_number(profile: str) -> None:
    """The serials of system and chassis differ between machines of one profile, and survive a restart."""
    machines = [serials(make_client(profile, index=index)) for index in range(10)]
    for uri in machines[0]:
        assert len({machine[uri] for machine in machines}) == len(machines), uri
    assert [serials(make_client(profile, index=index)) for index in range(10)] == machines


@every_profile
def test_n69_there_is_a_serial_number_where_controllers_look_for_it(profile: str) -> None:
    """The system, or a chassis that it is in, or the only chassis there is; no serial is there and empty."""
    client = make_client(profile)
    found = serials(client)
    assert all(serial.strip() for serial in found.values())
    system = facts(profile).roles.system
    chassis = client.get(system)["Links"]["Chassis"] if system else client.get("/redfish/v1/Chassis")["Members"]
    assert found.keys() & {system, *(link["@odata.id"] for link in chassis)}
