"""What `bmcsim profile check` finds: one thing is broken at a time."""

from pathlib import Path

import pytest

from bmcsim.machine import holes
from bmcsim.machine.actions import Happening
from bmcsim.redfish.actions import HANDLERS
from bmcsim.redfish.handlers import NODES
from bmcsim.tree.check import Known, links_of, problems
from bmcsim.tree.compile import compile_tree
from bmcsim.tree.profile import load, names
from bmcsim.tree.source import ProfileError
from tests.unit.tree.conftest import TINY, Write
from tests.unit.tree.test_derived import TABLE
from tests.unit.tree.test_schema_files import csdl


def found(path: str) -> list[str]:
    """The problems of a profile."""
    profile = load(path)
    return problems(profile, compile_tree(profile, holes.bind), Known(HANDLERS, NODES, tuple(Happening)))


def test_the_tiny_profile_has_no_problem(write: Write) -> None:
    assert found(write(TINY)) == []


@pytest.mark.parametrize("name", names())
def test_the_profiles_that_come_with_bmcsim_have_no_problem(name: str) -> None:
    assert found(name) == []


BOOT2 = "  /redfish/v1/Systems/1/BootOptions/Boot2: {type: BootOption.v1_0_4, BootOptionReference: Boot2, Id: Boot1}\n"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("    ChassisType: RackMount\n", "", "/redfish/v1/Chassis/1: a Chassis needs the property ChassisType"),
        (
            "kind: host\n",
            "kind: host\ndpu: bluefield3\ndpu_parameters: {nope: 1}\n",
            "dpu_parameters: bluefield3 has no parameter nope",
        ),
        ("kind: host\n", "kind: host\ndpus: 2\n", "dpus: of which profile is missing (dpu: NAME)"),
        (
            "    ChassisType: RackMount\n",
            "    ChassisType: RackMount\n    SerialNumber: ${dpu1.serial}\n",
            "/redfish/v1/Chassis/1: shows DPU 1, and there are 0 (dpus)",
        ),
        ("    ReadingUnits: Cel\n", "", "/Sensors/Temp1: a Sensor needs the property ReadingUnits"),
        ("    DateTime: ${time.now}\n", "", "/redfish/v1/Managers/1: a Manager needs the property DateTime"),
        (
            "  /redfish/v1/AccountService:\n    type: AccountService.v1_15_0\n",
            "",
            "/redfish/v1: a ServiceRoot needs the property AccountService",
        ),
        (
            "    ChassisType: RackMount\n",
            "    ChassisType: RackMount\n    Links: {Contains: {$links: [/redfish/v1/Chassis/2]}}\n",
            "the link Links.Contains[0] leads to /redfish/v1/Chassis/2, which is not there",
        ),
        (
            "    ChassisType: RackMount\n",
            "    ChassisType: RackMount\n    Oem: {X: {$link: '/redfish/v1/Nope/${serial}'}}\n",
            "the link Oem.X leads to /redfish/v1/Nope/${serial}, which is not there",
        ),
        (
            "$Boot.BootOrder}\n",
            "$Boot.BootOrder, length: 9}\n",
            "writable Boot.BootOrder: has 1 elements, and its length is 9; null fills it up",
        ),
        (
            "$Boot.BootOrder}\n",
            "$Boot.BootOrder, rigid: true}\n",
            "writable Boot.BootOrder: rigid needs a length",
        ),
        (
            "$Boot.BootOrder}\n",
            "$Boot.BootOrder, properties: {X: {type: string}}}\n",
            "writable Boot.BootOrder: properties are a fact of objects",
        ),
        (
            "    ChassisType: RackMount\n",
            "    ChassisType: RackMount\n    handlers: {PUT: replace}\n",
            "handlers.PUT: replace needs writable, and neither applies_to nor a handler of PATCH",
        ),
        (
            "    ChassisType: RackMount\n",
            "    ChassisType: RackMount\n    AssetTag: ''\n    writable: {AssetTag: {type: string, length: 4}}\n",
            "writable AssetTag: length and rigid are facts of strings and objects",
        ),
        (
            "$Boot.BootOrder}\n",
            "$Boot.BootOrder}\n      Boot.Nope: {type: string}\n",
            "writable Boot.Nope is not a property of the resource",
        ),
        ("$Boot.BootOrder}", "$Boot.Nope}", "writable Boot.BootOrder refers to $Boot.Nope, which is not a list"),
        (
            "    ChassisType: RackMount\n",
            "    ChassisType: RackMount\n    applies_to: /redfish/v1/Chassis/2\n",
            "/redfish/v1/Chassis/1: applies_to /redfish/v1/Chassis/2 is not there",
        ),
        (
            "Manager.Reset: {ResetType: [GracefulRestart]}",
            "Manager.Explode: {}",
            "/redfish/v1/Managers/1: the action Manager.Explode has no handler; known: ",
        ),
        ("manager: /redfish/v1/Managers/1", "manager: /redfish/v1/Managers/2", "roles.manager: /redfish/v1/Managers/2"),
        ("system: /redfish/v1/Systems/1", "system: /redfish/v1/Systems/2", "roles.system: /redfish/v1/Systems/2"),
        (
            "  /redfish/v1/Chassis/1:\n",
            BOOT2 + "  /redfish/v1/Chassis/1:\n",
            "BootOptions/Boot2: has the Id Boot1, as /redfish/v1/Systems/1/BootOptions/Boot1 has",
        ),
        ("BootOrder: [Boot1]", "BootOrder: [Boot1, Boot7]", "BootOrder names Boot7, which no boot option has"),
    ],
)
def test_each_kind_of_problem_is_found_and_named(write: Write, old: str, new: str, problem: str) -> None:
    assert TINY.count(old) == 1
    (one,) = found(write(TINY.replace(old, new)))
    assert problem in one
    assert "tiny.yaml" in one


ACME = """\
  /redfish/v1/Chassis/1/Acme:
    type: Acme.v1_0_0
    Colour: red
"""


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (ACME, ""),
        (ACME.replace("Acme.v1", "Amce.v1"), "Chassis/1/Acme: type: no file in schemas describes the type Amce.v1_0_0"),
        (ACME.replace("Colour", "Color"), "Chassis/1/Acme: Color: the file of Acme.v1_0_0.Acme in schemas has no prop"),
        (ACME + "    actions: {Acme.Fly: {}}\n", "Actions.#Acme.Fly: no file in schemas describes the action Acme.Fly"),
    ],
)
def test_a_vendor_s_resource_is_described_by_a_file(write: Write, more: str, problem: str) -> None:
    path = write(TINY + more)
    schemas = Path(path).parent / "schemas"
    schemas.mkdir()
    (schemas / "Acme_v1.xml").write_bytes(csdl("Acme"))
    told = [one for one in found(path) if "has no handler" not in one]
    assert len(told) == bool(problem)
    assert all(problem in one and "tiny.yaml:" in one for one in told)


@pytest.mark.parametrize(
    ("oem", "problem"),
    [
        ('{Acme: {"@odata.type": "#Acme.v1_0_0.Part", Size: 1}}', ""),
        ("{Acme: {$link: /redfish/v1/Chassis/1}}", ""),
        (
            '{Acme: {"@odata.type": "#Acme.v1_0_0.Part", Weight: 1}}',
            "Links.Oem.Acme.Weight: the file of Acme.v1_0_0.Part",
        ),
        ('{Acme: {"@odata.type": "#Acme.v1_0_0.Door"}}', "Links.Oem.Acme: no file in schemas describes the type Acme"),
        ("{Acme: {Size: 1}}", "Links.Oem.Acme: needs an @odata.type"),
        ("{Acme: 1}", "Links.Oem.Acme: must be an object with an @odata.type"),
        ('{"#Acme.Fly": {target: /x}}', "Links.Oem.#Acme.Fly: no file in schemas describes the action Acme.Fly"),
    ],
)
def test_what_a_vendor_adds_to_a_resource_is_described_by_a_file(write: Write, oem: str, problem: str) -> None:
    old = "    ChassisType: RackMount\n"
    path = write(TINY.replace(old, f"{old}    Links: {{Oem: {oem}}}\n"))
    schemas = Path(path).parent / "schemas"
    schemas.mkdir()
    (schemas / "Acme_v1.xml").write_bytes(csdl("Acme"))
    told = found(path)
    assert len(told) == bool(problem)
    assert all(problem in one and "tiny.yaml:" in one for one in told)


def test_an_attribute_registry_that_cannot_be_served_is_found(write: Write) -> None:
    path = write(TINY + "  /redfish/v1/Registries: {collection: MessageRegistryFile, derive: registries}\n" + TABLE)
    (one,) = found(path)
    assert "Managers/1/Table: AttributeRegistry Table.v1_0_0 cannot have these names of attributes" in one


def test_a_nullable_property_may_be_absent_or_null(write: Write) -> None:
    text = "$Boot.BootOrder}\n      AssetTag: {type: string, nullable: true}\n"
    assert found(write(TINY.replace("$Boot.BootOrder}\n", text))) == []


@pytest.mark.parametrize("value", ["[On, Suspend]", "null"])
def test_a_reset_that_the_power_machine_does_not_know_is_found(write: Write, value: str) -> None:
    (one,) = found(
        write(
            TINY.replace(
                "ComputerSystem.Reset: {ResetType: [On, ForceOff]}", f"ComputerSystem.Reset: {{ResetType: {value}}}"
            )
        )
    )
    assert "ResetType" in one


def test_a_reset_to_defaults_of_a_kind_that_there_is_not_is_found(write: Write) -> None:
    reset = "Manager.Reset: {ResetType: [GracefulRestart]}"
    with_defaults = reset.replace("Manager.Reset:", "Manager.ResetToDefaults:")
    (one,) = found(write(TINY.replace(reset, with_defaults)))
    assert "ResetType needs some of PreserveNetwork, PreserveNetworkAndUsers, ResetAll" in one


def test_a_number_that_is_compared_with_one_that_is_not_there_is_found(write: Write) -> None:
    text = "$Boot.BootOrder}\n      HostedServices: {type: integer, nullable: true, not_below: Nope}\n"
    (one,) = found(write(TINY.replace("$Boot.BootOrder}\n", text)))
    assert "writable HostedServices may not be below Nope, which is not there" in one


def test_links_are_found_at_any_depth_but_for_the_resource_itself() -> None:
    body = {"@odata.id": "/self", "A": {"@odata.id": "/a"}, "B": [{"C": {"@odata.id": "/c", "D": 1}}, "text"]}
    assert list(links_of(body)) == [("A", "/a"), ("B[0].C", "/c")]


def test_a_resource_that_no_link_leads_to_is_found(write: Write) -> None:
    supply = (
        "  /redfish/v1/Chassis/Card1/PowerSubsystem/PowerSupplies/1:\n    type: PowerSupply.v1_6_0\n    Name: Supply\n"
    )
    problems = found(write(TINY + supply))
    place = "/redfish/v1/Chassis/Card1/PowerSubsystem/PowerSupplies"
    assert any(f"{place}: no link leads there; add /redfish/v1/Chassis/Card1/PowerSubsystem" in one for one in problems)
    assert any(f"{place}/1: no link leads there; link to it" in one or f"{place}/1: no link" in one for one in problems)


def test_a_log_of_something_that_never_happens_is_found(write: Write) -> None:
    log = (
        "  /redfish/v1/Managers/1/LogServices/A:\n    type: LogService.v1_7_0\n"
        "  /redfish/v1/Managers/1/LogServices/A/Entries:\n    collection: LogEntry\n    items: log\n"
        "    log: {records: [{on: SystemRested, message: x}]}\n"
        "  /redfish/v1/Managers/1/LogServices/A/Entries/*:\n    type: LogEntry.v1_16_0\n    items: log\n"
        "    EntryType: Event\n    Severity: ${item.severity}\n    Created: ${item.created}\n"
    )
    (problem,) = found(write(TINY + log))
    assert "SystemRested never happens" in problem
    assert "SystemReset" in problem


LOG = """\
  /redfish/v1/Managers/1/LogServices/1:
    type: LogService.v1_7_0
    OverWritePolicy: WrapsWhenFull
    MaxNumberOfRecords: 100
    actions: {LogService.ClearLog: {}}
  /redfish/v1/Managers/1/LogServices/1/Entries: {collection: LogEntry, items: log}
  /redfish/v1/Managers/1/LogServices/1/Entries/*:
    {type: LogEntry.v1_16_0, items: log, EntryType: SEL, Severity: OK, Created: "${item.created}"}
"""


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("", "", ""),
        ("Records: 100", "Records: 99", "LogServices/1: MaxNumberOfRecords is 99, and the log's is 100"),
        ("WrapsWhenFull", "NeverOverWrites", "OverWritePolicy is NeverOverWrites, and the log's is WrapsWhenFull"),
    ],
)
def test_a_log_service_says_of_its_log_what_is_so(write: Write, old: str, new: str, problem: str) -> None:
    problems_ = found(write(TINY + LOG.replace(old, new)))
    assert len(problems_) == bool(problem)
    assert all(one.endswith(problem) for one in problems_)


def test_only_a_dynamic_log_can_be_cleared(write: Write) -> None:
    fixed = LOG.replace(", items: log}", "}").replace("/Entries/*:", "/Entries/1:").replace("items: log, ", "")
    assert [
        one.partition("1: ")[2] for one in found(write(TINY + fixed.replace("${item.created}", "${time.now}")))
    ] == ["LogService.ClearLog needs Entries with items: log"]


CERTIFICATES = """\
  /redfish/v1/Managers/1/Certificates:
    collection: Certificate
    items: certificates
    certificates: {first: "1", subject: {CommonName: "bmc-${serial}", Country: DE}}
    "@Redfish.SupportedCertificates": [PEM]
  /redfish/v1/Managers/1/Certificates/*:
    {type: Certificate.v1_7_0, items: certificates, CertificateString: "${item.certificate}"}
  /redfish/v1/CertificateService:
    type: CertificateService.v1_0_6
    actions: {CertificateService.ReplaceCertificate: {CertificateType: [PEM, PEMchain]}}
"""


def test_certificates_that_can_be_served_are_no_problem(write: Write) -> None:
    assert found(write(TINY + CERTIFICATES)) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("[PEM, PEMchain]", "[PEM, PKCS7]", "CertificateType needs some of PEM, PEMchain"),
        ("[PEM, PEMchain]", "null", "CertificateType needs some of PEM, PEMchain"),
        (
            'Certificates": [PEM]\n',
            'Certificates": [PKCS12]\n',
            "@Redfish.SupportedCertificates may have PEM, PEMchain",
        ),
        (
            "  /redfish/v1/Managers/1/Certificates/*:\n"
            '    {type: Certificate.v1_7_0, items: certificates, CertificateString: "${item.certificate}"}\n',
            "",
            "items: certificates needs /redfish/v1/Managers/1/Certificates/*",
        ),
    ],
)
def test_certificates_of_a_form_that_nobody_understands_are_a_problem(
    write: Write, old: str, new: str, problem: str
) -> None:
    assert CERTIFICATES.count(old) == 1
    (only,) = found(write(TINY + CERTIFICATES.replace(old, new)))
    assert problem in only


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            'certificates: {first: "1", subject: {CommonName: "bmc-${serial}", Country: DE}}',
            'certificates: {first: "1"}',
            "the first one needs a subject",
        ),
        ("Country: DE", "Country: Germany", "certificates.subject.Country"),
        ("bmc-${serial}", "bmc-${colour}", "no hole .{colour}"),
        ("    items: certificates\n    certificates", "    certificates", "belong to a collection with items"),
    ],
)
def test_certificates_that_cannot_be_made_are_refused(write: Write, old: str, new: str, problem: str) -> None:
    assert CERTIFICATES.count(old) == 1
    with pytest.raises(ProfileError, match=problem):
        found(write(TINY + CERTIFICATES.replace(old, new)))
