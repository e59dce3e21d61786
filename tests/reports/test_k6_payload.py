"""Public bug reports about payloads: what resources say by default; each quirk is one switch."""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from bmcsim.cli import main
from bmcsim.core.clock import ManualClock
from bmcsim.fleet import config
from bmcsim.fleet.build import Builder
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.credentials import Hasher
from bmcsim.tree.profile import directories, names
from tests.conftest import PASSWORD, Client, basic, header, make_client, message_ids, profiles_where, with_faults

BLUEFIELD, DELL = "bluefield3", "dell_poweredge_r750"
INTERFACE = "/redfish/v1/Systems/Bluefield/EthernetInterfaces/oob_net0"
LONG_MAC = "00:00:10:29:FE:80:00:00:00:00:00:00:02:00:5E:FF:FE:00:53:01"
ZEROS = "0000-00-00T00:00:00+00:00"
ABSENT = "(absent)"

HGX = """\
profile: hgx
title: Two systems in one tray
kind: host
accounts: [{id: "1", user: root, password: factory_password}]
roles: {manager: /redfish/v1/Managers/BMC, system: /redfish/v1/Systems/DGX}
parts:
  - part: service
    with: {vendor: AMI, product: AMI Redfish Server, redfish_version: 1.17.0}
  - part: manager
    with:
      manager: BMC
      interface: eth0
      firmware: "1.0"
      model: BMC
      systems: [/redfish/v1/Systems/DGX]
      chassis: [/redfish/v1/Chassis/DGX]
      in_chassis: /redfish/v1/Chassis/DGX
resources:
  /redfish/v1/Systems: {collection: ComputerSystem}
  /redfish/v1/Systems/DGX:
    type: ComputerSystem.v1_22_0
    SerialNumber: ${serial}
    PowerState: ${power.state}
    Boot: {BootSourceOverrideEnabled: Disabled, BootSourceOverrideTarget: None}
    actions:
      ComputerSystem.Reset: {ResetType: [On, ForceOff, ForceRestart]}
    writable:
      Boot.BootSourceOverrideEnabled: {type: string, values: [Disabled, Once]}
  /redfish/v1/Systems/HGX_Baseboard_0:
    type: ComputerSystem.v1_22_0
    SystemType: Physical
  /redfish/v1/Chassis/{id}:
    repeat: {id: [DGX, HGX_Chassis_0]}
    type: Chassis.v1_25_0
    ChassisType: RackMount
  /redfish/v1/Chassis/DGX/NetworkAdapters/1: {type: NetworkAdapter.v1_11_0}
  /redfish/v1/Managers/BMC/EthernetInterfaces/eth0:
    StaticNameServers: [null, null, null, null]
    writable:
      StaticNameServers: {type: strings, length: 4}
"""
OPEN_SYSTEMS = "{collection: ComputerSystem}"

every_profile = pytest.mark.parametrize("profile", names())
every_profile_with_a_system = pytest.mark.parametrize("profile", profiles_where(lambda tree: tree.head.roles.system))
every_profile_with_systems = pytest.mark.parametrize(
    "profile", profiles_where(lambda tree: "/redfish/v1/Systems" in tree.nodes)
)


def written(folder: Path, text: str) -> str:
    """A profile as a file, as a user would write one."""
    (folder / "parts").symlink_to(directories()[0] / "parts")
    (folder / "hgx.yaml").write_text(text)
    return str(folder / "hgx.yaml")


@pytest.fixture(scope="module")
def hgx(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A profile with a system that has neither Boot nor actions, and a name server list of fixed length."""
    return written(tmp_path_factory.mktemp("profiles"), HGX)


def resources(client: Client) -> dict[str, Any]:
    """URI -> what each resource shows, those of logs and accounts included, without entity tags."""
    shown: dict[str, Any] = {}
    for uri in client.bmc.tree.nodes:
        shown[uri] = client.get(uri)
        for member in shown[uri].get("Members") or ():
            shown.setdefault(member["@odata.id"], client.get(member["@odata.id"]))
    return shown


def differences(client: Client, *presets: str) -> dict[str, dict[str, Any]]:
    """URI -> property -> what fault presets make of it. Everything else is as it was."""
    before = resources(client)
    after = resources(with_faults(client, *presets))
    assert before.keys() == after.keys()
    found: dict[str, dict[str, Any]] = {}
    for uri, old in before.items():
        new = after[uri]
        changes = {key: new.get(key, ABSENT) for key in {**old, **new} if old.get(key, ABSENT) != new.get(key, ABSENT)}
        if changes:
            found[uri] = changes
    return found


def matching(client: Client, pattern: str) -> set[str]:
    """The URIs of resources of which a regular expression matches the whole."""
    return {uri for uri in resources(client) if re.fullmatch(pattern, uri)}


# links


def links(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """(property, URI) of every @odata.id below a value."""
    if isinstance(value, list):
        for item in value:
            yield from links(item, key)
    elif isinstance(value, dict):
        if key and isinstance(uri := value.get("@odata.id"), str):
            yield key, uri
        for name, item in value.items():
            yield from links(item, name)


def addresses(value: Any, name: str) -> Iterator[str]:
    """The texts at a property of this name, wherever it stands."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key == name and isinstance(item, str):
            yield item
        yield from addresses(item, name)


def pointed(value: Any, pointer: str) -> Any:
    """What a JSON pointer leads to."""
    for step in pointer.split("/")[1:]:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


@every_profile
def test_e20_every_link_resolves_in_its_own_spelling_and_nothing_is_an_orphan(profile: str) -> None:
    """From the root every resource is found, under the URI that it says it has; /Bios is spelled as its property is.

    Nobody links to another URI of the same resource, or to a collection whose members a property lists (Drives).
    """
    client = make_client(profile)
    seen: set[str] = set()
    files: set[str] = set()
    waiting = ["/redfish/v1"]
    while waiting:
        uri = waiting.pop()
        if uri in seen:
            continue
        seen.add(uri)
        resource = client.get(uri)
        assert resource["@odata.id"].rstrip("/") == uri
        files.update(addresses(resource.get("Location", []), "Uri"))
        files.update(addresses(resource.get("Actions", {}), "@Redfish.ActionInfo"))
        for key, link in links(resource):
            path, _, fragment = link.partition("#")
            last = path.rpartition("/")[2]
            assert last.lower() != key.lower() or last == key, (uri, key, link)
            if fragment:
                assert pointed(client.get(path), fragment)["@odata.id"] == link
            waiting.append(path)
    nodes = client.bmc.tree.nodes
    unseen = {uri for uri, node in nodes.items() if uri not in seen | files and not node.collection}
    assert {uri for uri in unseen if client.get(uri)["@odata.id"] == uri} == set()
    assert len({uri.lower() for uri in seen}) == len(seen)


@every_profile
def test_e22_what_is_shown_works(profile: str) -> None:
    """Links answer 200, actions and upload URIs take a POST, and files that are named are there."""
    client = make_client(profile)
    shown = resources(client)
    targets = {target for resource in shown.values() for target in addresses(resource.get("Actions", {}), "target")}
    for resource in shown.values():
        for _, link in links(resource):
            assert client.request("GET", link.partition("#")[0]).status == 200, link
        for key, uri in resource.items():
            if key.endswith("PushUri"):
                assert client.request("POST", uri, b"x", content_type=b"text/plain").status in (400, 415), uri
        for file in addresses(resource.get("Location", []), "Uri"):
            assert client.request("GET", file).status == 200, file
    assert len(targets) >= 4
    for target in targets:
        options = client.request("OPTIONS", target)
        assert (options.status, header(options, "Allow")) == (204, "POST"), target


@every_profile_with_a_system
def test_e21_a_system_says_who_manages_it(profile: str) -> None:
    """Links.ManagedBy names the manager; the quirk of a 1288H drops exactly that, and no other link."""
    client = make_client(profile)
    roles = client.bmc.tree.head.roles
    before = {uri: client.get(uri)["Links"] for uri in matching(client, "/redfish/v1/Systems/[^/]+")}
    assert before[roles.system]["ManagedBy"] == [{"@odata.id": roles.manager}]
    kept = {
        uri: {"Links": {key: value for key, value in links.items() if key.partition("@")[0] != "ManagedBy"}}
        for uri, links in before.items()
    }
    assert differences(client, "no_managed_by") == kept


@every_profile_with_systems
def test_n27_quirk_the_root_has_no_link_to_systems_that_are_there(profile: str) -> None:
    """A preset for any machine. Vendor and RedfishVersion of the Lite-On shelf come with its profile."""
    client = make_client(profile)
    assert client.get("/redfish/v1/")["Systems"] == {"@odata.id": "/redfish/v1/Systems"}
    assert differences(client, "no_systems_link") == {"/redfish/v1": {"Systems": ABSENT}}
    assert client.get("/redfish/v1/Systems")["Members"]


def test_n27_a_profile_can_leave_the_link_out_and_have_the_collection(tmp_path: Path) -> None:
    """`link: false`, as the later generation of the Lite-On shelf has it."""
    path = written(tmp_path, HGX.replace(OPEN_SYSTEMS, OPEN_SYSTEMS.replace("}", ", link: false}")))
    assert CliRunner().invoke(main, ["profile", "check", path]).exit_code == 0
    client = make_client(path)
    assert "Systems" not in client.get("/redfish/v1/")
    assert client.get("/redfish/v1/Systems")["Members@odata.count"] == 2


# values


def test_n25_one_field_of_one_resource_is_overridden_for_as_long_as_the_rule_is_there() -> None:
    """A MAC of 20 octets, asked for and embedded, and nothing else in the whole tree of any BMC."""
    client, neighbour = make_client(BLUEFIELD), make_client(BLUEFIELD, index=1)
    before, others = resources(client), resources(neighbour)
    rule = {"id": "mac", "selector": {"OdataId": INTERFACE}, "action": {"JsonMerge": {"MACAddress": LONG_MAC}}}
    assert client.request("PUT", "/Injection/rules", [rule]).status == 200
    assert resources(client) == {**before, INTERFACE: {**before[INTERFACE], "MACAddress": LONG_MAC}}
    (embedded,) = client.get(INTERFACE.rpartition("/")[0] + "?$expand=.")["Members"]
    assert embedded["MACAddress"] == LONG_MAC
    assert resources(neighbour) == others
    assert client.request("DELETE", "/Injection/rules/mac").status == 200
    assert resources(client) == before


def test_n25_the_preset_is_that_rule() -> None:
    assert differences(make_client(BLUEFIELD), "long_mac") == {INTERFACE: {"MACAddress": LONG_MAC}}


def test_n29_the_mac_of_a_network_device_function_is_empty_exactly_there() -> None:
    """Each function's address is there by default and empty with the quirk; the interfaces of its ports keep theirs."""
    client = make_client(DELL)
    functions = matching(client, r".*/NetworkDeviceFunctions/[^/]+")
    before = {uri: client.get(uri)["Ethernet"] for uri in functions}
    assert len(functions) >= 4
    assert all(ethernet["MACAddress"] for ethernet in before.values())
    assert differences(client, "empty_function_mac") == {
        uri: {"Ethernet": {**ethernet, "MACAddress": ""}} for uri, ethernet in before.items()
    }


@pytest.mark.parametrize("mode", ["NicMode", "DpuMode"])
def test_n31_a_mode_is_taken_at_once_and_counts_from_the_power_cycle_of_the_host(mode: str) -> None:
    """Mode.Set of the DPU is 204 and shows nothing; no restart of either changes it, the host's power cycle does."""
    fleet, clock = Fleet(), ManualClock()
    text = 'host_bmc_password = "{0}"\ndpu_bmc_password = "{0}"\n[machines.a]\nhost_count = 1\ndpu_per_host_count = 2'
    for _ in Builder(config.parse(text.format(PASSWORD), "fleet"), Hasher(), clock.now().wall).populate(fleet):
        pass
    host, dpu, sibling = (Client(bmc, clock) for bmc in fleet)
    oem = "/redfish/v1/Systems/Bluefield/Oem/Nvidia"
    reset = "/redfish/v1/Systems/{}/Actions/ComputerSystem.Reset"
    host.driver = dpu.driver
    for wanted in dict.fromkeys(["NicMode", mode]):
        before = dpu.get(oem)["Mode"]
        assert before != wanted
        assert dpu.request("POST", oem + "/Actions/Mode.Set", {"Mode": wanted}).status == 204
        assert dpu.get(oem)["Mode"] == before
        for client, system in ((host, "System.Embedded.1"), (dpu, "Bluefield")):
            assert client.request("POST", reset.format(system), {"ResetType": "ForceRestart"}).status == 204
            host.advance(1000)
            assert dpu.get(oem)["Mode"] == before
        assert host.request("POST", reset.format("System.Embedded.1"), {"ResetType": "PowerCycle"}).status == 204
        host.advance(1000)
        assert dpu.get(oem)["Mode"] == wanted
        assert sibling.get(oem)["Mode"] == "DpuMode"


@every_profile
def test_c22_an_entity_tag_is_a_text_and_with_the_quirk_a_number(profile: str) -> None:
    client = make_client(profile)
    assert all(isinstance(resource["@odata.etag"], str) for resource in resources(client).values())
    changed = differences(client, "numeric_etag")
    assert list(changed) == ["/redfish/v1/AccountService"]
    (number,) = changed["/redfish/v1/AccountService"].values()
    assert isinstance(number, int)
    assert b'"@odata.etag":%d' % number in client.request("GET", "/redfish/v1/AccountService").body


@every_profile
def test_c24_quirk_the_name_servers_are_four_nulls(profile: str) -> None:
    client = make_client(profile)
    interfaces = matching(client, "/redfish/v1/Managers/[^/]+/EthernetInterfaces/[^/]+")
    assert interfaces
    assert differences(client, "null_name_servers") == {uri: {"StaticNameServers": [None] * 4} for uri in interfaces}


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        (["192.0.2.1"], ["192.0.2.1", None, None, None]),
        (["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"], ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"]),
        ([None, "192.0.2.5"], ["192.0.2.5", None, None, None]),
        ([{}, "192.0.2.6"], ["192.0.2.7", "192.0.2.6", None, None]),
        ([{}, {}], ["192.0.2.7", "192.0.2.8", None, None]),
        ([{}, None, "192.0.2.9"], ["192.0.2.7", "192.0.2.9", None, None]),
        ([None, None, None, None], [None, None, None, None]),
        ([], [None, None, None, None]),
    ],
)
def test_c24_an_array_of_fixed_length_stays_padded_whatever_is_written(hgx: str, sent: Any, shown: Any) -> None:
    """null removes an element, {} keeps it, a shorter array truncates, and null fills up what is left (DSP0266 7.7)."""
    client = make_client(hgx)
    uri = "/redfish/v1/Managers/BMC/EthernetInterfaces/eth0"
    assert client.get(uri)["StaticNameServers"] == [None] * 4
    for value in (["192.0.2.7", "192.0.2.8"], sent):
        assert client.request("PATCH", uri, {"StaticNameServers": value}).status in (200, 204)
    assert client.get(uri)["StaticNameServers"] == shown
    refused = client.request("PATCH", uri, {"StaticNameServers": ["192.0.2.1"] * 5})
    assert (refused.status, message_ids(refused)) == (400, ["ArraySizeTooLong"])
    assert client.get(uri)["StaticNameServers"] == shown


@every_profile
def test_c26_by_default_dates_are_dates_and_names_and_uuids_are_there(profile: str) -> None:
    for uri, resource in resources(make_client(profile)).items():
        assert "/Oem/" in uri or resource["Name"], uri
        for key, value in resource.items():
            if key in ("LastResetTime", "ReleaseDate", "Created"):
                assert datetime.fromisoformat(value).tzinfo, uri
            if key == "UUID":
                assert re.fullmatch(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", value), uri


@pytest.mark.parametrize(
    ("profile", "preset", "where", "change"),
    [
        (BLUEFIELD, "zero_reset_times", r"/redfish/v1/(?:Managers|Systems)/[^/]+", {"LastResetTime": ZEROS}),
        (DELL, "zero_reset_times", r"/redfish/v1/(?:Managers|Systems)/[^/]+", {"LastResetTime": ZEROS}),
        (DELL, "zero_release_dates", r"/redfish/v1/UpdateService/FirmwareInventory/[^/]+", {"ReleaseDate": ZEROS}),
        (BLUEFIELD, "empty_uuid", r"/redfish/v1/Systems/Bluefield", {"UUID": ""}),
        (DELL, "no_update_service_name", r"/redfish/v1/UpdateService", {"Name": ABSENT}),
        (BLUEFIELD, "no_chassis_names", r"/redfish/v1/Chassis/[^/]+", {"Name": ABSENT}),
    ],
)
def test_c26_quirk_each_is_one_switch(profile: str, preset: str, where: str, change: dict[str, str]) -> None:
    """It changes one property of one kind of resource, and no other resource of the machine."""
    client = make_client(profile)
    uris = matching(client, where)
    assert uris
    assert differences(client, preset) == dict.fromkeys(uris, change)


def test_c26_quirks_are_switched_for_one_kind_of_machine_of_a_fleet() -> None:
    """In the group's table, so the others stay as they are."""
    text = "".join(f"[machines.{name}]\nhost_count = 1\n{faults}\n" for name, faults in _GROUPS.items())
    fleet = Fleet()
    for _ in Builder(config.parse(f'host_bmc_password = "{PASSWORD}"\n{text}', "fleet"), Hasher(), 0.0).populate(fleet):
        pass
    names = {}
    for bmc in fleet:
        client = Client(bmc, ManualClock())
        client.authorization = basic("root", PASSWORD)
        names[bmc.id] = "Name" in client.get("/redfish/v1/UpdateService")
    assert names == {"fine-0": True, "quirky-0": False}


_GROUPS = {"fine": "", "quirky": 'faults = ["no_update_service_name"]'}


def test_c27_what_is_optional_may_be_absent_and_power_is_where_its_state_is(hgx: str) -> None:
    """A system without Boot, Actions and PowerState beside one that has them, and a chassis without NetworkAdapters.

    The profiles of GB200 and H100 add that these are theirs: HGX_Baseboard_0 beside System_0 and DGX.
    """
    assert CliRunner().invoke(main, ["profile", "check", hgx]).exit_code == 0
    client = make_client(hgx)
    systems = [client.get(member["@odata.id"]) for member in client.get("/redfish/v1/Systems")["Members"]]
    (powered,) = [system for system in systems if "PowerState" in system]
    (bare,) = [system for system in systems if "PowerState" not in system]
    assert powered["@odata.id"] == client.bmc.tree.head.roles.system
    assert not {"Boot", "Actions", "PowerState"} & bare.keys()
    assert client.request("PATCH", bare["@odata.id"], {"Boot": {"BootSourceOverrideEnabled": "Once"}}).status == 405
    action = "/Actions/ComputerSystem.Reset"
    assert client.request("POST", bare["@odata.id"] + action, {"ResetType": "ForceOff"}).status == 404
    assert client.get(powered["@odata.id"])["PowerState"] == "On"
    assert client.request("POST", powered["@odata.id"] + action, {"ResetType": "ForceOff"}).status == 204
    assert client.get(powered["@odata.id"])["PowerState"] == "Off"
    adapters = {
        uri: "NetworkAdapters" in client.get(uri)
        for uri in ("/redfish/v1/Chassis/DGX", "/redfish/v1/Chassis/HGX_Chassis_0")
    }
    assert list(adapters.values()) == [True, False]
    assert client.request("GET", "/redfish/v1/Chassis/HGX_Chassis_0/NetworkAdapters").status == 404
    assert orjson.loads(client.request("GET", bare["@odata.id"]).body)["SystemType"] == "Physical"
