"""What `bmcsim profile check` finds: one thing is broken at a time."""

import pytest

from bmcsim.machine import holes
from bmcsim.machine.actions import Happening
from bmcsim.redfish.actions import HANDLERS
from bmcsim.redfish.handlers import NODES
from bmcsim.tree.check import Known, links_of, problems
from bmcsim.tree.compile import compile_tree
from bmcsim.tree.profile import load
from tests.unit.tree.conftest import TINY, Write


def found(path: str) -> list[str]:
    """The problems of a profile."""
    profile = load(path)
    return problems(profile, compile_tree(profile, holes.bind), Known(HANDLERS, NODES, tuple(Happening)))


def test_the_tiny_profile_has_no_problem(write: Write) -> None:
    assert found(write(TINY)) == []


@pytest.mark.parametrize("name", ["bluefield3", "dell_poweredge_r750"])
def test_the_profiles_that_come_with_bmcsim_have_no_problem(name: str) -> None:
    assert found(name) == []


BOOT2 = "  /redfish/v1/Systems/1/BootOptions/Boot2: {type: BootOption.v1_0_4, BootOptionReference: Boot2, Id: Boot1}\n"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("    ChassisType: RackMount\n", "", "/redfish/v1/Chassis/1: a Chassis needs the property ChassisType"),
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
