"""Components of firmware: how a profile declares them, and what their inventory items become."""

import pytest

from bmcsim.machine import holes
from bmcsim.machine.actions import Happening
from bmcsim.redfish.actions import HANDLERS
from bmcsim.redfish.handlers import NODES
from bmcsim.tree import check
from bmcsim.tree.compile import Tree, compile_tree
from bmcsim.tree.profile import Profile, load
from bmcsim.tree.source import ProfileError
from tests.conftest import tree_of
from tests.unit.tree.conftest import TINY, Compile, Write

INVENTORY = "/redfish/v1/UpdateService/FirmwareInventory"
TWO = f"""\
  {INVENTORY}:
    collection: SoftwareInventory
    items: firmware
    components:
      bios: {{id: "B-${{version}}", title: BIOS, version: "1.0", related: [/redfish/v1/Systems/1]}}
      view: {{id: "V-${{version}}", title: "View ${{bmc.mac}}", version_of: bios}}
      fixed: {{id: F, title: Fixed, version: "${{bmc.mac}}", updateable: false}}
  {INVENTORY}/*:
    type: SoftwareInventory.v1_10_0
    items: firmware
    Name: ${{item.title}}
    Version: ${{item.version}}
    Updateable: ${{item.updateable}}
    RelatedItem: ${{item.related}}
    RelatedItem@odata.count: ${{item.related_count}}
"""


def problems_of(profile: Profile, tree: Tree) -> list[str]:
    """What the check finds in a profile."""
    return check.problems(profile, tree, check.Known(HANDLERS, NODES, tuple(Happening)))


def test_each_component_is_an_item_of_the_inventory(compiled: Compile) -> None:
    tree = compiled(TWO)
    assert (tree.inventory, list(tree.components)) == (INVENTORY, ["bios", "view", "fixed"])
    uris = [f"{INVENTORY}/{id_}" for id_ in ("B-1.0", "V-1.0", "F")]
    assert [node.uri for node in tree.software.values()] == uris
    assert [uri for uri in tree.nodes if uri.startswith(INVENTORY + "/")] == uris
    assert INVENTORY not in tree.items
    bios = tree.nodes[uris[0]].template
    assert bios["@odata.id"] == f"{INVENTORY}/${{firmware.bios.id}}"
    assert (bios["Id"], bios["Name"], bios["Version"]) == ("${firmware.bios.id}", "BIOS", "${firmware.bios.version}")
    assert (bios["Updateable"], bios["RelatedItem@odata.count"]) == (True, 1)
    assert bios["RelatedItem"] == [{"@odata.id": "/redfish/v1/Systems/1"}]
    assert tree.nodes[uris[1]].template["Version"] == "${firmware.view.version}"
    assert tree.nodes[uris[1]].template["Name"] == "View ${bmc.mac}"
    assert tree.nodes[uris[2]].template["Version"] == "${bmc.mac}"
    assert tree.nodes[uris[2]].allow == "GET, HEAD"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("version_of: bios", "version_of: nope", "components.view: there is no component nope"),
        ("version_of: bios", "version_of: bios, comes_with: nope", "components.view: there is no component nope"),
        ("updateable: false", "version_of: view", "components.fixed.version_of: view shares a version itself"),
        ('"V-${version}"', '"B-${version}"', "components.view.id: B-1.0 is there twice"),
        ('"B-${version}"', '"B/${version}"', "cannot be the last segment of a URI"),
        ('"B-${version}"', '"B-${serial}"', "cannot be the last segment of a URI"),
        ("fixed:", "Fixed:", "components.Fixed: a name has small letters, digits and _"),
        ("title: BIOS", "titel: BIOS", "titel"),
        ("${item.title}", "${item.nope}", "there is no hole ${item.nope}"),
        ("    items: firmware\n    comp", "    comp", "components belong to a collection with items: firmware"),
        (f"  {INVENTORY}/*:", "  /redfish/v1/Other/*:", "needs"),
    ],
)
def test_components_that_cannot_work_are_an_error(compiled: Compile, old: str, new: str, problem: str) -> None:
    assert old in TWO
    with pytest.raises(ProfileError, match=problem.replace("$", r"\$").replace("{", r"\{")):
        compiled(TWO.replace(old, new, 1))


def test_a_version_may_be_shown_anywhere_and_an_unknown_component_nowhere(compiled: Compile) -> None:
    place = "  /redfish/v1/Chassis/1/X:\n    type: X.v1_0_0\n    V: {}\n"
    tree = compiled(TWO + place.format("${firmware.bios.version}"))
    assert tree.nodes["/redfish/v1/Chassis/1/X"].template["V"] == "${firmware.bios.version}"
    for hole in ("firmware.nope.version", "firmware.bios.nope", "firmware.bios", "firmware."):
        with pytest.raises(ProfileError, match="there is no"):
            compiled(TWO + place.format(f"${{{hole}}}"))


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (f"{{$link: {INVENTORY}/B-1.0}}", 0),
        (f'{{$link: "{INVENTORY}/${{firmware.bios.id}}"}}', 0),
        (f"{{$link: {INVENTORY}/B-2.0}}", 1),
    ],
)
def test_a_link_to_an_item_is_checked(write: Write, text: str, problems: int) -> None:
    profile = load(write(f"{TINY}{TWO}  /redfish/v1/Chassis/1/X:\n    type: X.v1_0_0\n    L: {text}\n"))
    found = problems_of(profile, compile_tree(profile, holes.bind))
    assert len([one for one in found if INVENTORY in one]) == problems


def test_what_a_component_runs_on_is_checked(write: Write) -> None:
    profile = load(write(TINY + TWO.replace("/redfish/v1/Systems/1]", "/redfish/v1/Systems/2]")))
    found = problems_of(profile, compile_tree(profile, holes.bind))
    assert any("/redfish/v1/Systems/2, which is not there" in one for one in found)


UPLOADS = """\
  /redfish/v1/UpdateService:
    type: UpdateService.v1_14_0
    HttpPushUri: /redfish/v1/UpdateService/update
    MultipartHttpPushUri: /redfish/v1/UpdateService/multipart
    updates:
      uploads: {/redfish/v1/UpdateService/update: raw, /redfish/v1/UpdateService/multipart: multipart}
"""


def test_updates_say_where_uploads_go(write: Write) -> None:
    own = UPLOADS.replace("    updates:", "    updates:\n      task_id: J##")
    plain = "  /redfish/v1/UpdateService:\n    type: UpdateService.v1_14_0\n"
    assert plain in TINY
    profile = load(write(TINY.replace(plain, own)))
    tree = compile_tree(profile, holes.bind)
    assert tree.update_service == "/redfish/v1/UpdateService"
    assert tree.updates.uploads == {
        "/redfish/v1/UpdateService/update": "raw",
        "/redfish/v1/UpdateService/multipart": "multipart",
    }
    assert (tree.updates.task_id, tree.updates.second, tree.updates.location) == ("J##", "refuse", "monitor")
    assert tree.nodes["/redfish/v1/UpdateService"].allow == "GET, HEAD"
    assert not problems_of(profile, tree)
    lost = load(write(TINY.replace(plain, own.replace("/multipart: multipart", "/other: multipart"))))
    assert "MultipartHttpPushUri /redfish/v1/UpdateService/multipart is not one of updates.uploads" in "".join(
        problems_of(lost, compile_tree(lost, holes.bind))
    )


@pytest.mark.parametrize("profile", ["bluefield3", "dell_poweredge_r750"])
def test_the_profiles_take_uploads_where_they_say(profile: str) -> None:
    tree = tree_of(profile)
    service = tree.nodes[tree.update_service]
    assert {service.template["HttpPushUri"], service.template["MultipartHttpPushUri"]} < set(tree.updates.uploads)
    assert not [one for one in problems_of(load(profile), tree) if "uploads" in one]
