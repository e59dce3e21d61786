"""Deep PATCH (DSP0266 7.13)."""

from typing import Any

import msgspec
import orjson
import pytest

from bmcsim.redfish import deep_patch
from bmcsim.tree.profile import Account, DeepSupport
from tests.conftest import Client, basic, header, message_ids
from tests.unit.redfish.conftest import ACCOUNT_SERVICE, ACCOUNTS, FACTORY, OWN, PROTOCOL, SYSTEM, dpu_with
from tests.unit.redfish.test_patch import info

MANAGER = PROTOCOL.rpartition("/")[0]
SECURE = SYSTEM + "/SecureBoot"
OPTIONS = SYSTEM + "/BootOptions"
OPTION = OPTIONS + "/Boot0040"
BOOT = {"Boot": {"BootSourceOverrideTarget": "Pxe"}}
OFF = {"BootOptionEnabled": False}


def deep(levels: int = 3, **behaviour: Any) -> Client:
    """A BlueField-3 that knows deep PATCH."""
    return dpu_with(deep=DeepSupport(patch=True, levels=levels), advertise=None, **behaviour)


def enabled(client: Client) -> bool:
    """Whether the first boot option is enabled."""
    return bool(client.get(OPTION)["BootOptionEnabled"])


def link(uri: str, **more: Any) -> dict[str, Any]:
    """A link with properties of what it names."""
    return {"@odata.id": uri, **more}


def test_the_root_says_what_there_is(dpu: Client) -> None:
    def said(client: Client) -> Any:
        return client.get("/redfish/v1/")["ProtocolFeaturesSupported"]["DeepOperations"]

    assert said(dpu) == {"DeepPATCH": False, "DeepPOST": False}
    assert said(deep(2)) == {"DeepPATCH": True, "DeepPOST": False, "MaxLevels": 2}


@pytest.mark.parametrize(
    "body",
    [
        {"BootOptions": {"Members": [link(OPTION, **OFF)]}},
        {"BootOptions": link(OPTIONS, Members=[link(OPTION, **OFF)])},
        {"BootOptions": {"Members": [OFF, {}]}},
        {"BootOptions": {"Members": [link(OPTIONS + "/Boot0000"), link(OPTION, **OFF)]}},
    ],
)
def test_what_is_below_is_changed_together(body: Any) -> None:
    client = deep()
    before = [client.get(uri)["@odata.etag"] for uri in (SYSTEM, OPTION)]
    nested = {"Boot": {**BOOT["Boot"], **body}}
    response = client.request("PATCH", SYSTEM, nested)
    assert (response.status, response.body) == (204, b"")
    assert (client.get(SYSTEM)["Boot"]["BootSourceOverrideTarget"], enabled(client)) == ("Pxe", False)
    after = [client.get(uri)["@odata.etag"] for uri in (SYSTEM, OPTION)]
    assert header(response, "ETag") == after[0]
    assert not set(after) & set(before)


def test_only_what_is_below_is_changed() -> None:
    client = deep()
    before = client.get(SYSTEM)
    assert client.request("PATCH", SYSTEM, {"SecureBoot": {"SecureBootEnable": True}}).status == 204
    assert client.get(SECURE)["SecureBootEnable"] is True
    assert client.get(SYSTEM) == before


REFUSED: list[tuple[dict[str, Any], int, str, str]] = [
    ({"SecureBoot": {"SecureBootEnable": 5}}, 400, "PropertyValueTypeError", "#/SecureBoot/SecureBootEnable"),
    ({"SecureBoot": {"Nope": 5}}, 400, "PropertyUnknown", "#/SecureBoot/Nope"),
    ({"SecureBoot": link(OPTION, SecureBootEnable=True)}, 400, "PropertyNotWritable", "#/SecureBoot/@odata.id"),
    ({"SecureBoot": {"SecureBootEnable": True, "@odata.etag": '"x"'}}, 412, "PreconditionFailed",
     "#/SecureBoot/@odata.etag"),
    ({"SecureBoot": {"SecureBootEnable": True, "@odata.etag": 5}}, 412, "PreconditionFailed",
     "#/SecureBoot/@odata.etag"),
    ({"Processors": {"Name": "x"}}, 400, "PropertyNotWritable", "#/Processors/Name"),
    ({"Boot": {"BootOptions": {"Members": [link(OPTION, Nope=1)]}}}, 400, "PropertyUnknown",
     "#/Boot/BootOptions/Members/0/Nope"),
    ({"Boot": {"BootOptions": {"Members": [link("/redfish/v1/Nope", **OFF)]}}}, 400, "InvalidObject",
     "#/Boot/BootOptions/Members/0/@odata.id"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status", "key", "related"), REFUSED)
def test_all_of_it_or_nothing(body: dict[str, Any], status: int, key: str, related: str) -> None:
    """Also where the part that is wrong comes last, behind some that were written already."""
    client = deep()
    before = client.bmc.state
    whole = {"AssetTag": "x"} | body if "AssetTag" in client.get(SYSTEM) else body
    good = {"Boot": {**BOOT["Boot"], **body.get("Boot", {})}}
    response = client.request("PATCH", SYSTEM, {**whole, **good})
    assert (response.status, message_ids(response)) == (status, [key])
    assert info(response)[0]["RelatedProperties"][0].startswith(related)
    assert client.bmc.state == before
    assert client.bmc.uncommitted is None


@pytest.mark.parametrize(("levels", "status"), [(1, 400), (2, 204), (6, 204)])
def test_no_deeper_than_the_firmware_goes(levels: int, status: int) -> None:
    """A collection is a level of its own."""
    client = deep(levels)
    body = {"Boot": {**BOOT["Boot"], "BootOptions": {"Members": [link(OPTION, **OFF)]}}}
    response = client.request("PATCH", SYSTEM, body)
    assert response.status == status
    assert (client.get(SYSTEM)["Boot"]["BootSourceOverrideTarget"] == "Pxe") == (status == 204)
    assert enabled(client) == (status == 400)
    if status == 400:
        assert message_ids(response) == ["PropertyNotWritable"]


def test_what_links_names_is_not_below() -> None:
    client = deep()
    before = client.bmc.state
    body = {"Links": {"ManagedBy": [link(MANAGER, DateTimeLocalOffset="+01:00")]}}
    response = client.request("PATCH", SYSTEM, body)
    assert (response.status, message_ids(response), client.bmc.state) == (400, ["PropertyNotWritable"], before)


def test_a_firmware_that_does_not_know_it_takes_a_link_for_a_link(dpu: Client) -> None:
    response = dpu.request("PATCH", SYSTEM, {"SecureBoot": {"SecureBootEnable": True}})
    assert (response.status, message_ids(response)) == (400, ["PropertyNotWritable"])
    assert dpu.get(SECURE)["SecureBootEnable"] is False


def test_each_part_needs_the_privilege_of_its_resource() -> None:
    """An operator may write a system, and nothing of a manager."""
    manager = {MANAGER: {"Processors": {"@odata.id": SECURE}}}
    client = deep(resources=manager, accounts=[Account("root", "root", "x"), Account("op", "op", "x", "Operator")])
    bodies = {SYSTEM: {"SecureBoot": {"SecureBootEnable": True}}, MANAGER: {"Processors": {"SecureBootEnable": True}}}
    operator = basic("op", "Rotated-1")
    assert client.request("PATCH", SYSTEM, bodies[SYSTEM], authorization=operator).status == 204
    assert client.request("PATCH", MANAGER, bodies[MANAGER], authorization=operator).status == 403
    assert client.get(SECURE)["SecureBootEnable"] is True


def test_a_part_that_the_caller_may_not_write_stops_the_whole() -> None:
    system = {SYSTEM: {"Storage": {"@odata.id": PROTOCOL}}}
    client = deep(resources=system, accounts=[Account("root", "root", "x"), Account("op", "op", "x", "Operator")])
    body = {**BOOT, "Storage": {"NTP": {"ProtocolEnabled": False}}}
    before = client.bmc.state
    response = client.request("PATCH", SYSTEM, body, authorization=basic("op", "Rotated-1"))
    assert (response.status, client.bmc.state) == (403, before)
    assert client.request("PATCH", SYSTEM, body).status == 204


def test_preconditions_of_the_whole_and_of_a_part() -> None:
    client = deep(requires_precondition=frozenset({"PATCH"}))
    part = {"SecureBoot": {"SecureBootEnable": True}}
    tags = {uri: client.get(uri)["@odata.etag"] for uri in (SYSTEM, SECURE)}
    own = tags[SYSTEM].encode()
    assert client.request("PATCH", SYSTEM, part).status == 428
    assert client.request("PATCH", SYSTEM, part, if_match=own).status == 428
    tagged = {"SecureBoot": {**part["SecureBoot"], "@odata.etag": tags[SECURE]}}
    assert client.request("PATCH", SYSTEM, tagged, if_match=b'"x"').status == 412
    assert client.request("PATCH", SYSTEM, tagged, if_match=own).status == 204
    assert client.request("PATCH", SYSTEM, tagged, if_match=own).status == 412


def test_a_resource_as_it_was_read_changes_nothing_below() -> None:
    client = deep()
    shown = client.get(SYSTEM)
    response = client.request("PATCH", SYSTEM, {**shown, **BOOT})
    assert response.status in (200, 400)
    assert orjson.loads(response.body)
    assert enabled(client)


def test_a_body_has_a_limited_number_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    client = deep()
    two = {"SecureBoot": {"SecureBootEnable": True}, "Boot": {"BootOptions": {"Members": [link(OPTION, **OFF)]}}}
    many = {"Boot": {"BootOptions": {"Members": [link(OPTION, **OFF)] * 1000}}}
    assert client.request("PATCH", SYSTEM, many).status == 400
    monkeypatch.setattr(deep_patch, "MAX_PARTS", 1)
    before = client.bmc.state
    response = client.request("PATCH", SYSTEM, two)
    assert (response.status, message_ids(response), client.bmc.state) == (413, ["PayloadTooLarge"], before)
    monkeypatch.setattr(deep_patch, "MAX_PARTS", 2)
    assert client.request("PATCH", SYSTEM, two).status == 204


@pytest.mark.parametrize("password", [None, "Rotated-1"])
def test_the_factory_password_writes_nothing_below_its_account(password: str | None) -> None:
    members = {f"{ACCOUNTS}/*": {"Sub": {"@odata.id": SECURE}}}
    client = deep(resources=members, password=password)
    client.authorization = basic("root", password or FACTORY)
    before = client.bmc.state
    response = client.request("PATCH", OWN, {"Password": "Other-123", "Sub": {"SecureBootEnable": True}})
    if password is None:
        assert (response.status, client.bmc.state) == (403, before)
        return
    assert response.status == 204
    client.authorization = basic("root", "Other-123")
    assert client.get(SECURE)["SecureBootEnable"] is True


def test_a_part_is_locked_as_its_resource_is(host: Client) -> None:
    """The chassis is not locked with the configuration, the system is."""
    bmc, system = host.bmc, host.bmc.tree.head.roles.system
    behaviour = msgspec.structs.replace(bmc.shared.behaviour, deep=DeepSupport(patch=True))
    bmc.shared = msgspec.structs.replace(bmc.shared, behaviour=behaviour)
    chassis = "/redfish/v1/Chassis/System.Embedded.1"
    bmc.change(bmc.tree.nodes[chassis], {"Sub": {"@odata.id": system}}, host.clock.now())
    lock = {"Attributes": {"Lockdown.1.SystemLockdown": "Enabled"}}
    manager = bmc.tree.head.roles.manager
    assert host.request("PATCH", f"{manager}/Attributes", lock).status == 204
    before = bmc.state
    response = host.request("PATCH", chassis, {"AssetTag": "a", "Sub": {"AssetTag": "b"}})
    assert (response.status, bmc.state) == (403, before)
    assert host.request("PATCH", chassis, {"AssetTag": "a"}).status == 204


@pytest.mark.parametrize("named", [[], {}, 1, None, ["x"]])
def test_what_an_element_names_may_be_no_uri_at_all(named: Any) -> None:
    client = deep()
    response = client.request("PATCH", SYSTEM, {"BootOptions": {"Members": [{"@odata.id": named, **OFF}]}})
    assert response.status == 400
    assert enabled(client)


def test_a_refused_change_unlocks_no_account() -> None:
    """An account is unlocked, and a later part of the same request is refused."""
    client = deep(accounts=[Account("root", "root", "x"), Account("ann", "ann", "x")])
    policy = {"AccountLockoutThreshold": 1, "AccountLockoutDuration": 60}
    assert client.request("PATCH", ACCOUNTS.rpartition("/")[0], policy).status == 204
    assert client.request("GET", SYSTEM, authorization=basic("ann", "wrong")).status == 401
    uri = f"{ACCOUNTS}/ann"
    body = {"Accounts": {"Members": [link(uri, Locked=False), link(OWN, RoleId="nonsense")]}}
    assert client.request("PATCH", ACCOUNTS.rpartition("/")[0], body).status == 400
    assert client.get(uri)["Locked"] is True
    body["Accounts"]["Members"][1] = link(OWN)
    assert client.request("PATCH", ACCOUNTS.rpartition("/")[0], body).status == 204
    assert client.get(uri)["Locked"] is False


NAMED_TWICE: list[tuple[str, dict[str, Any], str]] = [
    (SYSTEM, {"Boot": {"BootOptions": {"Members": [OFF, link(OPTION, BootOptionEnabled=True)]}}},
     "#/Boot/BootOptions/Members/1"),
    (ACCOUNT_SERVICE, {"Accounts": {"Members": [link(OWN, UserName="one"), link(OWN, RoleId="Operator")]}},
     "#/Accounts/Members/1"),
    (ACCOUNT_SERVICE, {"MinPasswordLength": 9, "Accounts": {"Members": [link(OWN, UserName="one"), link(OWN, Id="x")]}},
     "#/Accounts/Members/1"),
]  # fmt: skip


@pytest.mark.parametrize(("uri", "body", "related"), NAMED_TWICE)
def test_a_resource_that_is_named_twice_is_refused(uri: str, body: dict[str, Any], related: str) -> None:
    """Of the two changes one would be lost."""
    client = deep(accounts=[Account("root", "root", "x"), Account("op", "op", "x", "Operator")])
    before = client.bmc.state
    response = client.request("PATCH", uri, body)
    assert (response.status, message_ids(response), client.bmc.state) == (400, ["PropertyDuplicate"], before)
    assert info(response)[0]["RelatedProperties"] == [related]


def test_a_resource_that_links_to_itself_is_changed_once() -> None:
    client = deep(resources={SECURE: {"Sub": {"@odata.id": SECURE}}})
    before = client.bmc.state
    response = client.request("PATCH", SECURE, {"SecureBootEnable": True, "Sub": {"SecureBootEnable": False}})
    assert (response.status, message_ids(response), client.bmc.state) == (400, ["PropertyDuplicate"], before)


def test_a_resource_may_be_named_twice_where_one_of_the_two_changes_nothing() -> None:
    client = deep()
    members = [link(OPTION), link(OPTION, **OFF)]
    assert client.request("PATCH", SYSTEM, {"Boot": {"BootOptions": {"Members": members}}}).status == 204
    assert not enabled(client)
