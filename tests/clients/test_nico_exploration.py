"""NICo's exploration of a BMC as its public source has it: however $expand is advertised and understood, the
inventory is the same, and only the number of requests is another."""

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bmcsim.cli import main
from bmcsim.tree.profile import directories
from tests.conftest import Client, make_client, with_facts

BLUEFIELD, DELL = "bluefield3", "dell_poweredge_r750"
SYSTEMS = "/redfish/v1/Systems"
NEEDED = {"Chassis": ("Id", "Name", "ChassisType"), "BootOption": ("Id", "Name", "BootOptionReference")}
"""What the client's JSON types require of a member, beside @odata.id; of all others Id and Name."""

FULL: dict[str, Any] = {}
NOTHING = {
    "query": {
        "expand": [], "levels": 0, "select": False, "filter": False, "top_skip": False, "only": False, "excerpt": False
    },
    "advertise": {},
}  # fmt: skip
NO_LINKS = {"query": {"expand": ["."], "levels": 0}}
EXPAND_ALL = {"query": {"expand": ["*"], "levels": 1}}
FILTER_ONLY = {"advertise": {"FilterQuery": True}}
DEAF = {"query": {"expand": [], "ignore_unknown": True}, "advertise": {"ExpandQuery": {"NoLinks": True}}}
"""A firmware that says it expands and ignores that it is asked to."""

AMI = """\
profile: ami
title: AMI-like
kind: host
accounts: [{id: "2", user: root, password: factory_password}]
roles: {manager: /redfish/v1/Managers/Self, system: /redfish/v1/Systems/Self}
parameters: {redfish_version: 1.11.1, rtp_version: 13.08.0}
parts:
  - part: service
    with: {vendor: AMI, product: AMI Redfish Server, redfish_version: "{redfish_version}"}
  - part: manager
    with:
      manager: Self
      interface: eth0
      firmware: "1.0"
      model: "410"
      systems: [/redfish/v1/Systems/Self]
      chassis: [/redfish/v1/Chassis/Chassis_0]
      in_chassis: /redfish/v1/Chassis/Chassis_0
resources:
  /redfish/v1:
    Oem: {Ami: {"@odata.type": "#AMIServiceRoot.v1_0_0.AMIServiceRoot", RtpVersion: "{rtp_version}"}}
  /redfish/v1/Managers/Self/Oem/ConfigBMC:
    type: AMIConfigBMC.v1_0_0
    LockdownBiosSettingsChangeState: Disable
    Managers: {$links: [/redfish/v1/Managers/Self]}
  /redfish/v1/Managers/Self:
    Oem: {ConfigBMC: {$link: /redfish/v1/Managers/Self/Oem/ConfigBMC}}
  /redfish/v1/Managers/Self/HostInterfaces/Self:
    type: HostInterface.v1_3_3
    InterfaceEnabled: true
  /redfish/v1/Chassis/{id}:
    repeat: {id: [Chassis_0, Self]}
    type: Chassis.v1_25_0
    ChassisType: RackMount
  /redfish/v1/Chassis/Chassis_0/Assembly:
    type: Assembly.v1_5_1
    Assemblies:
      - {"@odata.id": "/redfish/v1/Chassis/Chassis_0/Assembly#/Assemblies/0", MemberId: "0", Model: GB200 NVL,
         SerialNumber: "1"}
  /redfish/v1/Chassis/Self/PCIeDevices/GPU{n}:
    repeat: {n: 1-8}
    type: PCIeDevice.v1_14_0
  /redfish/v1/Systems/Self/EthernetInterfaces/{n}:
    repeat: {n: 1-2}
    type: EthernetInterface.v1_12_0
    MACAddress: ${hw.mac1}
  /redfish/v1/Systems/Self:
    type: ComputerSystem.v1_22_0
    SerialNumber: ${serial}
    PowerState: ${power.state}
  /redfish/v1/Systems/Self/Bios:
    type: Bios.v1_2_0
    Attributes: {KCSACP: Allow All}
"""


SCHEMA = """\
<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">
  <edmx:Reference Uri="http://redfish.dmtf.org/schemas/v1/Resource_v1.xml">
    <edmx:Include Namespace="Resource"/>
    <edmx:Include Namespace="Resource.v1_0_0"/>
  </edmx:Reference>
  <edmx:DataServices>
    <Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="{0}"/>
    <Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="{0}.v1_0_0">
      <{1} Name="{0}" BaseType="{2}">
        {3}
      </{1}>
    </Schema>
  </edmx:DataServices>
</edmx:Edmx>
"""
TEXT, LINKS = (
    '<Property Name="{}" Type="Edm.String"/>',
    '<NavigationProperty Name="{}" Type="Collection(Resource.Item)"/>',
)
SCHEMAS = {
    "AMIServiceRoot": ("ComplexType", "Resource.OemObject", TEXT.format("RtpVersion")),
    "AMIConfigBMC": (
        "EntityType",
        "Resource.v1_0_0.Resource",
        TEXT.format("LockdownBiosSettingsChangeState") + LINKS.format("Managers"),
    ),
}


@pytest.fixture(scope="module")
def ami(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The AMI-like profile as a file, as a user would write one."""
    folder = tmp_path_factory.mktemp("profiles")
    (folder / "ami.yaml").write_text(AMI)
    (folder / "parts").symlink_to(directories()[0] / "parts")
    (folder / "schemas").mkdir()
    for name, (kind, base, properties) in SCHEMAS.items():
        (folder / "schemas" / f"{name}_v1.xml").write_text(SCHEMA.format(name, kind, base, properties))
    return folder / "ami.yaml"


def variant(ami: Path, **parameters: str) -> str:
    """The AMI-like profile with other parameters, as a file."""
    text = AMI
    for name, value in parameters.items():
        text = re.sub(rf"^(parameters: .*{name}: )[0-9.]+", rf"\g<1>{value}", text, flags=re.MULTILINE)
    path = ami.with_name(f"ami-{'-'.join(parameters.values())}.yaml")
    path.write_text(text)
    return str(path)


def bmc_with(profile: str, others: dict[str, Any]) -> Client:
    """A BMC whose behaviour has other facts."""
    return with_facts(make_client(profile), **others)


class MissingField(Exception):
    """A member lacks what the client's types require; exploration ends with error 130."""


class Explorer:
    """The client. inventory: URI -> what it learned; requests: how many it took, expanding ones of them in expanded.

    supplied: of a power shelf, whether each of its power supplies is on; None for one that does not say.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self.inventory: dict[str, Any] = {}
        self.requests = self.expanded = 0
        self.supplied: list[bool | None] = []
        root = self._get("/redfish/v1")
        self.vendor, self._bluefield = root.get("Vendor"), root.get("Product") == "BlueField-3 DPU"
        self._query = query_of(root)
        self._explore(root)

    def _get(self, uri: str, query: str = "") -> Any:
        self.requests += 1
        self.expanded += bool(query)
        return self._client.get(uri + query)

    def _single(self, uri: str, *, query: str = "") -> Any:
        """A resource; of one that is asked to be expanded the links in it count, not what stands in their place."""
        resource = self._get(uri, query)
        self.inventory[uri] = as_links(resource)
        return resource

    def _members(self, uri: str, *, expand: bool = True, leave: str = "") -> list[Any]:
        """The members of a collection: embedded, or read one by one where they are links."""
        members = []
        for one in self._get(uri, self._query if expand else "")["Members"]:
            if len(one) == 1:
                if leave and one["@odata.id"].endswith(leave):
                    continue
                one = self._get(one["@odata.id"])
            kind = one["@odata.type"][1:].partition(".")[0]
            if missing := {"@odata.id", *NEEDED.get(kind, ("Id", "Name"))} - one.keys():
                raise MissingField(one["@odata.id"], missing)
            self.inventory[one["@odata.id"]] = one
            members.append(one)
        return members

    def _linked(self, resource: Any, *keys: str) -> list[Any]:
        """The members of the collection that a property links to, none without the link."""
        for key in keys:
            resource = resource.get(key, {})
        return self._members(resource["@odata.id"]) if resource else []

    def _explore(self, root: Any) -> None:
        chassis = self._members(
            root["Chassis"]["@odata.id"], expand=not self._bluefield, leave="Bluefield_ERoT" if self._bluefield else ""
        )
        for one in chassis:
            for adapter in self._linked(one, "NetworkAdapters"):
                if self.vendor == "Dell":
                    self._linked(adapter, "NetworkDeviceFunctions")
            if one["Id"] == "Chassis_0" and "Assembly" in one:
                self._single(one["Assembly"]["@odata.id"], query=self._query)
            self._power_supplies(one)
        service = self._single(root["UpdateService"]["@odata.id"])
        self._linked(service, "FirmwareInventory")
        # A root without the link does not keep the client from the collection, but a Delta shelf has none.
        is_delta = any("DELTA" in one.get("Manufacturer", "") for one in chassis)
        systems = [] if is_delta else self._members(root.get("Systems", {"@odata.id": SYSTEMS})["@odata.id"])
        (manager, *_) = self._linked(root, "Managers")
        if systems:
            self._system(next((one for one in systems[1:] if "Bios" in one), systems[0]), chassis)
        self._manager(manager)

    def _power_supplies(self, chassis: Any) -> None:
        """Of shelves. A Lite-On's are read one by one as what they are, not as DMTF's type has them."""
        manufacturer = chassis.get("Manufacturer", "")
        if manufacturer in ("LITE-ON TECHNOLOGY CORP.", "DELTA"):
            subsystem = self._single(chassis["PowerSubsystem"]["@odata.id"])
            supplies = self._members(subsystem["PowerSupplies"]["@odata.id"], expand=manufacturer == "DELTA")
            oem = [one["Oem"]["deltaenergysystems"]["Power"] for one in supplies if manufacturer == "DELTA"]
            self.supplied = oem or [one.get("PowerState") for one in supplies]
            assert all(state is None or isinstance(state, bool) for state in self.supplied)

    def _system(self, system: Any, chassis: list[Any]) -> None:
        self._linked(system, "Boot", "BootOptions")
        if "Bios" in system:
            self._single(system["Bios"]["@odata.id"])
        self._linked(system, "EthernetInterfaces")
        if self._bluefield:
            self._single(system["Oem"]["Nvidia"]["@odata.id"])
        if "SecureBoot" in system:
            self._single(system["SecureBoot"]["@odata.id"])
        for one in chassis:
            if one["Id"] == system["Id"]:
                self._linked(one, "PCIeDevices")

    def _manager(self, manager: Any) -> None:
        self._linked(manager, "EthernetInterfaces")
        if self.vendor == "AMI":
            self._linked(manager, "HostInterfaces")
            self._single(manager["Oem"]["ConfigBMC"]["@odata.id"], query=self._query)
        if self.vendor == "Dell":
            (attributes,) = manager["Links"]["Oem"]["Dell"]["DellAttributes"]
            self._single(attributes["@odata.id"], query=self._query)
        self._single(manager["NetworkProtocol"]["@odata.id"])


def query_of(root: Any) -> str:
    """What the client adds to what it wants expanded, '' where it does not expand at all."""
    if root.get("Vendor") == "AMI":
        rtp = root.get("Oem", {}).get("Ami", {}).get("RtpVersion")
        if root["RedfishVersion"] == "1.11.0" or rtp == "13.09.1":
            return ""
    expands = root.get("ProtocolFeaturesSupported", {}).get("ExpandQuery", {})
    if expands.get("NoLinks"):
        return "?$expand=."
    return "?$expand=*($levels=1)" if expands.get("ExpandAll") else ""


def as_links(value: Any, *, top: bool = True) -> Any:
    """A resource in which links stand where resources of their own were embedded."""
    if isinstance(value, list):
        return [as_links(one, top=False) for one in value]
    if not isinstance(value, dict):
        return value
    if not top and "#" not in value.get("@odata.id", "#"):
        return {"@odata.id": value["@odata.id"]}
    return {key: as_links(one, top=False) for key, one in value.items()}


@pytest.fixture(params=[BLUEFIELD, DELL, "ami"])
def profile(request: pytest.FixtureRequest, ami: Path) -> str:
    """Each kind of machine in turn."""
    return str(ami) if request.param == "ami" else str(request.param)


def test_the_ami_like_profile_is_sound(ami: Path) -> None:
    result = CliRunner().invoke(main, ["profile", "check", str(ami)])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("others", [NO_LINKS, EXPAND_ALL, FULL])
def test_an_expanded_exploration_learns_the_same_with_fewer_requests(profile: str, others: dict[str, Any]) -> None:
    plain, expanded = Explorer(bmc_with(profile, NOTHING)), Explorer(bmc_with(profile, others))
    assert expanded.inventory == plain.inventory
    assert plain.expanded == 0 < expanded.expanded
    assert expanded.requests < plain.requests * 0.7


@pytest.mark.parametrize("others", [FILTER_ONLY, DEAF])
def test_a_service_that_does_not_say_or_not_do_it_is_read_one_by_one(profile: str, others: dict[str, Any]) -> None:
    plain, other = Explorer(bmc_with(profile, NOTHING)), Explorer(bmc_with(profile, others))
    assert other.inventory == plain.inventory
    assert other.requests == plain.requests
    assert bool(other.expanded) is (others is DEAF)


def test_the_number_of_requests_is_that_of_the_client() -> None:
    """As the client's sources give it: 17 and 19 where it expands; else 30 for a BlueField-3, more for an R750."""
    plain, expanded = (
        {profile: Explorer(bmc_with(profile, others)).requests for profile in (DELL, BLUEFIELD)}
        for others in (NOTHING, NO_LINKS)
    )
    assert all(16 <= requests <= 20 for requests in expanded.values())
    assert 28 <= plain[BLUEFIELD] <= 33
    assert plain[DELL] >= 35


@pytest.mark.parametrize(
    ("profile", "uri"),
    [
        ("ami", "/redfish/v1/Chassis/Chassis_0/Assembly"),
        ("ami", "/redfish/v1/Managers/Self/Oem/ConfigBMC"),
        (DELL, "/redfish/v1/Managers/iDRAC.Embedded.1/Oem/Dell/DellAttributes/iDRAC.Embedded.1"),
    ],
)
@pytest.mark.parametrize(("others", "query"), [(NO_LINKS, "?$expand=."), (EXPAND_ALL, "?$expand=*($levels=1)")])
def test_single_resources_are_expanded_too(
    ami: Path, profile: str, uri: str, others: dict[str, Any], query: str
) -> None:
    """What they say stays, and where they have links the resources stand in full, as their own GET shows them."""
    client = bmc_with(str(ami) if profile == "ami" else profile, others)
    plain, expanded = client.get(uri), client.get(uri + query)
    assert as_links(expanded) == as_links(plain)
    for link, member in zip(plain.get("Managers", ()), expanded.get("Managers", ()), strict=True):
        assert member == client.get(link["@odata.id"])
        assert len(link) == 1 < len(member)


def forgetful(ami: Path, **parameters: str) -> Client:
    """An AMI-like BMC that embeds members without what they need, and advertises that it expands."""
    forgets = {"query": {"expand": [".", "*"], "expand_drops": ["Id", "Name", "ChassisType"]}}
    return bmc_with(variant(ami, **parameters), forgets)


@pytest.mark.parametrize("parameters", [{"rtp_version": "13.09.1"}, {"redfish_version": "1.11.0"}])
def test_n21_an_ami_that_forgets_names_is_never_asked_to_expand(ami: Path, parameters: dict[str, str]) -> None:
    """Vendor AMI with RtpVersion 13.09.1, or RedfishVersion 1.11.0 (Viking): the client knows them, and learns all."""
    explored = Explorer(forgetful(ami, **parameters))
    assert explored.expanded == 0
    assert explored.inventory.keys() == Explorer(bmc_with(str(ami), NOTHING)).inventory.keys()


def test_n21_the_same_fault_on_an_ami_of_another_version_fails_the_exploration(ami: Path) -> None:
    with pytest.raises(MissingField) as caught:
        Explorer(forgetful(ami, rtp_version="13.08.0"))
    assert caught.value.args[1] == {"Id", "Name", "ChassisType"}
