"""What a profile says of settings that wait, of reactions and of lockdown."""

import pytest

from bmcsim.machine import holes
from bmcsim.machine.actions import Happening
from bmcsim.redfish.actions import HANDLERS
from bmcsim.redfish.handlers import NODES
from bmcsim.tree.check import Known, problems
from bmcsim.tree.compile import action_target, compile_tree
from bmcsim.tree.profile import load
from bmcsim.tree.source import ProfileError
from tests.unit.tree.conftest import TINY, Compile, Write

BIOS = """\
  /redfish/v1/Systems/1/Bios:
    type: Bios.v1_2_0
    "@Redfish.Settings":
      "@odata.type": "#Settings.v1_3_5.Settings"
      SettingsObject: {$link: /redfish/v1/Systems/1/Bios/Settings}
      SupportedApplyTimes: [OnReset]
    Attributes: {A: x, B: 1}
    ResetBiosToDefaultsPending: ${pending.reset}
"""
SETTINGS = """\
  /redfish/v1/Systems/1/Bios/Settings:
    type: Bios.v1_2_0
    link: false
    Attributes: ${pending:Attributes}
    settings: {of: /redfish/v1/Systems/1/Bios}
    handlers: {PATCH: stage_settings, DELETE: drop_settings}
    lockdown: [PATCH, DELETE]
    writable:
      Attributes: {type: attributes}
"""
MORE = BIOS + SETTINGS


def found(path: str) -> list[str]:
    """The problems of a profile."""
    profile = load(path)
    return problems(profile, compile_tree(profile, holes.bind), Known(HANDLERS, NODES, tuple(Happening)))


def test_a_settings_resource_is_known_by_its_uri(compiled: Compile) -> None:
    tree = compiled(MORE)
    node = tree.nodes["/redfish/v1/Systems/1/Bios/Settings"]
    assert tree.settings == {node.uri: node.settings}
    assert node.settings is not None
    assert (list(node.settings.apply_times), node.settings.job, node.settings.passwords) == (["OnReset"], "", {})
    assert node.lockdown == {"PATCH", "DELETE"}


def test_a_delete_of_settings_is_served_and_not_advertised(compiled: Compile) -> None:
    node = compiled(MORE).nodes["/redfish/v1/Systems/1/Bios/Settings"]
    assert (node.allow, "DELETE" in node.handlers) == ("GET, HEAD, PATCH", True)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("{of: /redfish/v1/Systems/1/Bios}", "{of: /redfish/v1/Nope}", "settings.of /redfish/v1/Nope is not there"),
        ("{$link: /redfish/v1/Systems/1/Bios/Settings}", "{$link: /redfish/v1/Systems/1}", "does not lead here"),
        ("[OnReset]", "[Immediate]", "SupportedApplyTimes are not those of settings.apply_times"),
        ("lockdown: [PATCH, DELETE]", "lockdown: [PUT]", "lockdown: PUT is neither a method nor an action"),
        ("      Attributes: {type: attributes}\n", "      {}\n", "stage_settings needs settings, and Attributes"),
        ("PATCH: stage_settings", "PATCH: nope", "handlers.PATCH: nope is not one of "),
        (
            "lockdown: [PATCH, DELETE]",
            "reactions: [{on: Sunrise}]",
            "Bios/Settings: reactions: on: Sunrise never happens; known: ",
        ),
    ],
)
def test_what_cannot_work_is_found(write: Write, old: str, new: str, problem: str) -> None:
    assert found(write(TINY + MORE)) == []
    assert MORE.count(old) == 1
    (one,) = found(write(TINY + MORE.replace(old, new)))
    assert problem in one
    assert "tiny.yaml" in one


def test_a_lock_of_a_resource_that_is_not_there_is_found(write: Write) -> None:
    lock = "behaviour: {lockdown: {uri: /x, property: [A], value: B, message: {id: C.1, message: D}}}\n"
    (one,) = found(write(TINY.replace("kind: host\n", "kind: host\n" + lock)))
    assert "behaviour.lockdown: /x is not there" in one


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    settings: {of: /redfish/v1/Systems/1/Bios}\n", ""),
        ("${pending:Attributes}", "${value:/redfish/v1/Nope#Attributes}"),
        ("${pending:Attributes}", "${value:/redfish/v1/Systems/1/Bios}"),
        ("settings: {of: /redfish/v1/Systems/1/Bios}", "settings: {of: /x, apply_times: [Tomorrow]}"),
        ("settings: {of: /redfish/v1/Systems/1/Bios}", "settings: {of: /x, nope: 1}"),
        ("lockdown: [PATCH, DELETE]", "reactions: [{when: {}}]"),
        ("lockdown: [PATCH, DELETE]", "reactions: [{on: SystemReset, then: {}}]"),
        ("lockdown: [PATCH, DELETE]", "lockdown: PATCH"),
    ],
)
def test_what_is_not_of_the_format_is_an_error(compiled: Compile, old: str, new: str) -> None:
    compiled(MORE)
    with pytest.raises(ProfileError, match=r"tiny\.yaml"):
        compiled(MORE.replace(old, new))


def test_reactions_of_the_profile_come_after_those_of_the_kind(compiled: Compile) -> None:
    again = "  /redfish/v1/Systems/{n}:\n    repeat: [{n: 1}]\n"
    tree = compiled(again + "    reactions: [{on: BootCompleted, set: {AssetTag: x}}]\n")
    own = [reaction.set for uri, reaction in tree.reactions["BootCompleted"] if uri == "/redfish/v1/Systems/1"]
    assert own[-1] == {"AssetTag": "x"}
    assert len(own) == 2


def test_the_first_queue_is_where_jobs_are(compiled: Compile) -> None:
    assert compiled().job_queue == ""
    more = "".join(
        f"  /redfish/v1/Managers/1/{name}:\n    collection: Job\n    items: jobs\n"
        f"  /redfish/v1/Managers/1/{name}/*:\n    type: Job.v1_2_3\n    items: jobs\n"
        for name in ("B", "A")
    )
    tree = compiled(more)
    assert tree.job_queue == "/redfish/v1/Managers/1/B"
    assert tree.items["/redfish/v1/Managers/1/A"].allow == "GET, HEAD, DELETE"


def test_a_target_that_a_vendor_put_elsewhere() -> None:
    assert action_target("/x", "SOC.ForceReset") == "/x/SOC.ForceReset"
    assert action_target("/x", "Mode.Set") == "/x/Actions/Mode.Set"
    assert action_target("/x", "Oem.A.B") == "/x/Actions/Oem/A.B"
