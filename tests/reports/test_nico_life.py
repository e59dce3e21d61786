"""What NICo does with a BMC from its first login to the end of preingestion.

For the forms of Dell, of NVIDIA BlueField, of a GB200 tray, and of AMI: account 2, settings at `/SD`, `If-Match: *`,
nothing but 204.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
import orjson
import pytest
from click.testing import CliRunner

from bmcsim.cli import main
from bmcsim.redfish.exchange import Response
from bmcsim.tree.profile import directories
from tests.conftest import Client, basic, header, make_client, message_ids

SERVICE = "/redfish/v1/AccountService"
INVENTORY = "/redfish/v1/UpdateService/FirmwareInventory"
TICK = 30.0
SITE, NEXT = "Site-root-1", "Site-root-2"

AMI = """\
profile: ami
title: AMI-like
kind: host
accounts: [{id: "2", user: root, password: factory_password}]
roles: {manager: /redfish/v1/Managers/Self, system: /redfish/v1/Systems/Self}
behaviour: {factory_password_reads: own_account, writes_ignore_if_none_match: true}
timings: {reboot: 420, bmc_reset: 90}
parameters: {bmc_firmware: 1.0.0, uefi_firmware: 2.0.0}
parts:
  - part: service
    with: {vendor: AMI, product: AMI Redfish Server, redfish_version: 1.11.1}
  - part: manager
    with:
      manager: Self
      interface: eth0
      firmware: ${firmware.bmc.version}
      model: "410"
      systems: [/redfish/v1/Systems/Self]
      chassis: [/redfish/v1/Chassis/Self]
      in_chassis: /redfish/v1/Chassis/Self
  - part: firmware
    repeat:
      - {id: HostBMC_0, component: bmc, is: "{bmc_firmware}", of: Managers, applies: bmc_reset}
      - {id: HostBIOS_0, component: uefi, is: "{uefi_firmware}", of: Systems, applies: power_cycle}
    with:
      component: "{component}"
      id: "{id}"
      title: "{id}"
      version: "{is}"
      software_id: "{id}"
      manufacturer: AMI
      related: /redfish/v1/{of}/Self
      applies: "{applies}"
      matches: ["{component}"]
resources:
  /redfish/v1/UpdateService:
    updates: {uploads: {/redfish/v1/UpdateService/upload: multipart}, task_id: "####", location: task}
  /redfish/v1/Chassis/Self: {type: Chassis.v1_25_0, ChassisType: RackMount}
  /redfish/v1/Systems/Self/{form}:
    repeat: [{form: EthernetInterfaces/1}]
    type: EthernetInterface.v1_12_0
    MACAddress: ${hw.mac1}
  /redfish/v1/Systems/Self:
    type: ComputerSystem.v1_22_0
    SerialNumber: ${serial}
    UUID: ${uuid.system}
    PowerState: ${power.state}
    LastResetTime: ${power.last_reset}
    BootProgress: {LastState: "${power.boot_progress}"}
    Boot: &boot
      BootOrder: [Boot0001, Boot0002]
      BootSourceOverrideEnabled: Disabled
      BootSourceOverrideMode: UEFI
      BootSourceOverrideTarget: None
    applies_to: /redfish/v1/Systems/Self/SD
    actions:
      ComputerSystem.Reset: {ResetType: [On, ForceOff, GracefulShutdown, ForceRestart]}
  /redfish/v1/Systems/Self/SD:
    type: ComputerSystem.v1_22_0
    link: false
    Boot: *boot
    applies_to: /redfish/v1/Systems/Self
    handlers: {PATCH: boot_order}
    writable:
      Boot.BootOrder: {type: strings, values: [Boot0001, Boot0002]}
      Boot.BootSourceOverrideEnabled: {type: string, values: [Disabled, Once, Continuous]}
      Boot.BootSourceOverrideMode: {type: string, values: [UEFI, Legacy]}
      Boot.BootSourceOverrideTarget: {type: string, values: [None, Pxe, Hdd, UefiHttp]}
  /redfish/v1/Systems/Self/BootOptions:
    collection: BootOption
    link: Boot.BootOptions
  /redfish/v1/Systems/Self/BootOptions/Boot000{n}:
    repeat: {n: 1-2}
    type: BootOption.v1_0_4
    BootOptionReference: Boot000{n}
  /redfish/v1/Systems/Self/Bios:
    type: Bios.v1_2_0
    Attributes: {KCSACP: Allow All, RedfishEnable: Enabled}
  /redfish/v1/Systems/Self/Bios/SD:
    type: Bios.v1_2_0
    link: false
    Attributes: ${pending:Attributes}
    settings: {of: /redfish/v1/Systems/Self/Bios}
    handlers: {PATCH: stage_settings, DELETE: drop_settings}
    writable:
      Attributes: {type: attributes, choices: {KCSACP: [Allow All, Deny All]}}
"""


@dataclass(frozen=True)
class Form:
    """How one vendor's client of libredfish speaks.

    files: component -> name of the image and the words of its item; parameters: UpdateParameters of an upload.
    """

    profile: str
    manager: str
    system: str
    factory: str
    reset: str
    upload: str
    policy: dict[str, int]
    fields: dict[str, bytes] = field(default_factory=dict)
    files: dict[str, tuple[str, str, str]] = field(default_factory=dict)

    def accepted(self, response: Response) -> bool:
        """Whether the client takes a write for done."""
        return response.status == 204 if self.fields else 200 <= response.status < 300


DELL = Form(
    "dell_poweredge_r750",
    "/redfish/v1/Managers/iDRAC.Embedded.1",
    "/redfish/v1/Systems/System.Embedded.1",
    "factory_password",
    "GracefulRestart",
    "/redfish/v1/UpdateService/MultipartUpload",
    {},
    files={
        "bmc": ("iDRAC_7.10.30.00.EXE", "iDRAC.", "7.10.30.00"),
        "uefi": ("BIOS_1.15.0.EXE", "Current-159", "1.15.0"),
    },
)
BLUEFIELD = Form(
    "bluefield3",
    "/redfish/v1/Managers/Bluefield_BMC",
    "/redfish/v1/Systems/Bluefield",
    "0penBmc",
    "GracefulRestart",
    "",
    {},
    files={"bmc": ("bf3-bmc-24.10-17_opn.fwpkg", "BMC_Firmware", "BF-24.10-17")},
)
GB200 = Form(
    "wiwynn_gb200_nvl",
    "/redfish/v1/Managers/BMC_0",
    "/redfish/v1/Systems/System_0",
    "factory_password",
    "GracefulRestart",
    "",
    {"AccountLockoutThreshold": 4, "AccountLockoutDuration": 600},
    files={
        "bmc": ("bmc-25.08-3_NV_WW_02.fwpkg", "FW_BMC_0", "25.08-3_NV_WW_02"),
        "uefi": ("uefi-02.05.00-aabbccdd.fwpkg", "UEFI", "02.05.00-aabbccdd"),
    },
)
AMI_FORM = Form(
    "ami",
    "/redfish/v1/Managers/Self",
    "/redfish/v1/Systems/Self",
    "factory_password",
    "ForceRestart",
    "/redfish/v1/UpdateService/upload",
    {"AccountLockoutThreshold": 4, "AccountLockoutDuration": 20, "AccountLockoutCounterResetAfter": 20},
    {"if_match": b"*"},
    {"bmc": ("bmc_1.1.0.bin", "HostBMC_0", "1.1.0"), "uefi": ("uefi_2.1.0.bin", "HostBIOS_0", "2.1.0")},
)
FORMS = pytest.mark.parametrize("form", [DELL, BLUEFIELD, GB200, AMI_FORM], ids=lambda form: form.profile)

Make = Callable[[Form, str | None], Client]


@pytest.fixture(scope="module")
def ami(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The AMI-like profile as a file, as a user would write one."""
    folder = tmp_path_factory.mktemp("profiles")
    (folder / "ami.yaml").write_text(AMI)
    (folder / "parts").symlink_to(directories()[0] / "parts")
    return str(folder / "ami.yaml")


@pytest.fixture
def make(ami: str) -> Make:
    """Makes a BMC of a form."""
    return lambda form, password: make_client(ami if form is AMI_FORM else form.profile, password=password)


def test_the_ami_like_profile_is_sound(ami: str) -> None:
    result = CliRunner().invoke(main, ["profile", "check", ami])
    assert result.exit_code == 0, result.output


class Nico:
    """The client: its clock is the real one, and it knows of the BMC only what it reads."""

    def __init__(self, client: Client, form: Form) -> None:
        self.client, self.form = client, form
        self.writes: list[str] = []

    def as_(self, password: str) -> None:
        """From now on with this password."""
        self.client.authorization = basic("root", password)

    def write(self, method: str, path: str, body: Any, **fields: bytes) -> Response:
        """A request that changes something."""
        self.writes.append(path)
        return self.client.request(method, path, body, **(fields or self.form.fields))

    def init(self) -> bool:
        """What the client reads before each step; False when the BMC does not answer it all."""
        for path in ("/", "/Managers", "/Chassis", "/Systems/", self.form.system.removeprefix("/redfish/v1")):
            response = self.client.request("GET", "/redfish/v1" + path)
            if response.delivery is not None or response.status != 200:
                return False
        return True

    def until_back(self) -> float:
        """Ticks until a step can begin again; how long that took, in seconds."""
        waited = 0.0
        while not self.init():
            self.client.advance(TICK)
            waited += TICK
            assert waited < 1200
        return waited

    def reset_bmc(self) -> None:
        """POST Manager.Reset, then the BMC is away and comes back by itself."""
        power = self.power()
        body = {"ResetType": self.form.reset}
        assert self.form.accepted(self.write("POST", self.form.manager + "/Actions/Manager.Reset", body))
        assert not self.init()
        assert 60 <= self.until_back() <= 180
        assert self.power() == power
        assert self.client.get("/redfish/v1/TaskService/Tasks")["Members"] is not None

    def power(self) -> str:
        """PowerState of the system."""
        return str(self.client.get(self.form.system)["PowerState"])

    def reset_host(self, type_: str) -> None:
        """POST ComputerSystem.Reset; 409 means that it is already so."""
        response = self.write("POST", self.form.system + "/Actions/ComputerSystem.Reset", {"ResetType": type_})
        assert response.status == 409 or self.form.accepted(response)

    def drift(self) -> float:
        """How far the clock of the BMC is off, in seconds."""
        shown = datetime.fromisoformat(self.client.get(self.form.manager)["DateTime"]).timestamp()
        return abs(shown - self.client.clock.now().wall)

    def version(self, words: str) -> str:
        """As exploration reads it."""
        items = self.client.get(INVENTORY + "?$expand=.($levels=1)")["Members"]
        return next(str(item["Version"]) for item in items if words in item["Id"])

    def upload(self, file_name: str) -> str:
        """The URI of the task of an upload."""
        path = self.form.upload or self.client.get("/redfish/v1/UpdateService")["MultipartHttpPushUri"]
        self.writes.append(path)
        response = self.client.push(path, file_name, {"Targets": []}, size=10**8)
        assert response.status == 202
        location = (header(response, "Location") or "").rpartition("/")[2]
        id_ = location if self.form.upload else orjson.loads(response.body)["Id"]
        return f"/redfish/v1/TaskService/Tasks/{id_}"

    def task_ends(self, task: str) -> str:
        """UpgradeFirmwareWait: the last state."""
        for _ in range(100):
            assert self.init()
            if (state := self.client.get(task)["TaskState"]) not in ("New", "Starting", "Running", "Pending"):
                return str(state)
            self.client.advance(TICK)
        raise AssertionError("the task never ends")

    def drain(self) -> None:
        """ResetForNewFirmware with a power drain."""
        self.reset_host("ForceOff")
        self.client.advance(60)
        assert self.power() == "Off"
        self.client.advance(90)
        self.reset_host("On")
        self.client.advance(5)
        assert self.power() == "On"

    def preingest(self) -> None:
        """From Initial to Complete."""
        self.reset_bmc()
        servers = {"NTP": {"NTPServers": ["192.0.2.123"], "ProtocolEnabled": True}}
        assert self.form.accepted(self.write("PATCH", self.form.manager + "/NetworkProtocol", servers))
        self.client.advance(60)
        assert self.drift() <= 300
        self.bring_up_to_date()

    def bring_up_to_date(self) -> None:
        """Each image whose version is not there: upload, wait, reset for it, look again."""
        for component, (file_name, words, wanted) in self.form.files.items():
            if (before := self.version(words)) == wanted:
                continue
            assert self.init()
            assert self.task_ends(self.upload(file_name)) == "Completed"
            assert self.version(words) == before
            if component == "bmc":
                self.reset_bmc()
            else:
                self.drain()
            assert self.version(words) == wanted


@FORMS
def test_nico_rotates_the_password_at_its_first_login(make: Make, form: Form) -> None:
    client = make(form, None)
    nico = Nico(client, form)
    assert client.request("GET", "/redfish/v1/", authorization=b"").status == 200
    nico.as_(form.factory)
    locked = client.request("GET", "/redfish/v1/Systems/")
    assert (locked.status, message_ids(locked)) == (403, ["PasswordChangeRequired"])
    account = "root"
    if form is not BLUEFIELD:
        listed = client.request("GET", SERVICE + "/Accounts?$expand=.($levels=1)")
        if listed.status == 403 and message_ids(listed) == ["PasswordChangeRequired"]:
            account = "2"
        else:
            members = orjson.loads(listed.body)["Members"]
            (account,) = [one["Id"] for one in members if one["UserName"] == "root"]
    assert client.request("GET", "/redfish/v1/").status == 200
    assert form.accepted(nico.write("PATCH", f"{SERVICE}/Accounts/{account}", {"Password": SITE}))
    assert client.request("GET", "/redfish/v1/Systems/").status == 401

    nico.as_(SITE)
    assert nico.init()
    if form.policy:
        assert form.accepted(nico.write("PATCH", SERVICE, form.policy))
        assert {name: client.get(SERVICE)[name] for name in form.policy} == form.policy

    # Rotation of the whole site: an answer that was lost is made up for by a look with the password that was wanted.
    assert form.accepted(nico.write("PATCH", f"{SERVICE}/Accounts/{account}", {"Password": NEXT}))
    assert client.request("GET", SERVICE + "/Accounts").status == 401
    nico.as_(NEXT)
    assert client.request("GET", SERVICE + "/Accounts").status == 200
    nico.reset_bmc()


@FORMS
def test_nico_preingests_and_finds_nothing_to_do_the_second_time(make: Make, form: Form) -> None:
    client = make(form, SITE)
    timings = msgspec.structs.replace(client.bmc.shared.timings, firmware_upgrade=120.0)
    client.bmc.shared = msgspec.structs.replace(client.bmc.shared, timings=timings)
    nico = Nico(client, form)
    nico.as_(SITE)
    nico.preingest()
    nico.writes.clear()
    nico.bring_up_to_date()
    assert nico.writes == []
    client.advance(600)
    assert client.get(form.system)["BootProgress"]["LastState"] == "OSRunning"


@FORMS
def test_nico_cycles_a_host_whose_clock_has_drifted(make: Make, form: Form) -> None:
    """TimeSyncReset. No time server is configured here; a clock that drifts is right again after its BMC started."""
    client = make(form, SITE)
    behaviour = msgspec.structs.replace(client.bmc.shared.behaviour, clock_drift=1000.0)
    client.bmc.shared = msgspec.structs.replace(client.bmc.shared, behaviour=behaviour)
    nico = Nico(client, form)
    nico.as_(SITE)
    client.advance(86400)
    assert nico.drift() > 300
    if form is DELL:
        zone = {"Attributes": {"Time.1.Timezone": "UTC"}}
        attributes = form.manager + "/Oem/Dell/DellAttributes/iDRAC.Embedded.1"
        assert form.accepted(nico.write("PATCH", attributes, zone))
    for _ in range(2):
        nico.reset_host("ForceOff")
        client.advance(TICK)
        assert nico.power() == "Off"
    nico.reset_bmc()
    assert nico.power() == "Off"
    nico.reset_host("On")
    client.advance(TICK)
    assert nico.power() == "On"
    client.advance(1200)
    assert nico.drift() <= 300


def test_nico_installs_a_bfb_through_the_rshim(make: Make) -> None:
    client = make(BLUEFIELD, SITE)
    nico = Nico(client, BLUEFIELD)
    nico.as_(SITE)
    rshim = {"BmcRShim": {"BmcRShimEnabled": True}}
    assert BLUEFIELD.accepted(nico.write("PATCH", BLUEFIELD.manager + "/Oem/Nvidia", rshim))
    image = {
        "ImageURI": "http://192.0.2.1/bf-bundle-2.9.0-90_24.10_ubuntu-22.04_prod.bfb",
        "TransferProtocol": "HTTP",
        "Targets": [INVENTORY + "/DPU_OS"],
    }
    started = nico.write("POST", "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate", image)
    assert started.status == 202
    assert nico.task_ends(f"/redfish/v1/TaskService/Tasks/{orjson.loads(started.body)['Id']}") == "Completed"
    nico.reset_host("PowerCycle")
    client.advance(300)
    assert nico.version("DPU_OS") == "bf-bundle-2.9.0-90"


def test_an_ami_takes_settings_at_its_sd_and_says_204(make: Make) -> None:
    """The boot order is sent with If-None-Match and the tag that was just read, and is done all the same."""
    client = make(AMI_FORM, SITE)
    nico = Nico(client, AMI_FORM)
    nico.as_(SITE)
    settings, bios = AMI_FORM.system + "/SD", AMI_FORM.system + "/Bios"
    tag = client.get(settings)["@odata.etag"].encode()
    once = {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe", "BootSourceOverrideMode": "UEFI"}
    assert nico.write("PATCH", settings, {"Boot": once}, if_match=tag).status == 204
    assert nico.write("PATCH", settings, {"Boot": once}, if_match=tag).status == 412
    tag = client.get(settings)["@odata.etag"].encode()
    order = {"Boot": {"BootOrder": ["Boot0002", "Boot0001"]}}
    assert nico.write("PATCH", settings, order, if_none_match=tag).status == 204
    assert client.get(AMI_FORM.system)["Boot"]["BootOrder"] == ["Boot0002", "Boot0001"]
    assert nico.write("PATCH", bios + "/SD", {"Attributes": {"KCSACP": "Deny All"}}).status == 204
    assert client.get(bios)["Attributes"]["KCSACP"] == "Allow All"
    nico.reset_host("ForceRestart")
    client.advance(600)
    assert client.get(bios)["Attributes"]["KCSACP"] == "Deny All"
    assert client.get(AMI_FORM.system)["Boot"]["BootSourceOverrideEnabled"] == "Disabled"
