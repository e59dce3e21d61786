"""From a profile to the tree: envelopes, collections, links, directives, actions."""

from typing import Any

import orjson
import pytest

from bmcsim.machine import holes
from bmcsim.tree.compile import Action, compile_tree, pattern_of
from bmcsim.tree.profile import Log, LogKind, ParameterFacts, load
from bmcsim.tree.source import ProfileError
from tests.unit.tree.conftest import HEAD, TINY, Compile, Write


def link(uri: str) -> dict[str, str]:
    """A link."""
    return {"@odata.id": uri}


# envelopes


def test_the_envelope_of_a_resource(compiled: Compile) -> None:
    tree = compiled("  /redfish/v1/Chassis/1/PowerSubsystem: {type: PowerSubsystem.v1_1_2}\n")
    node = tree.nodes["/redfish/v1/Chassis/1/PowerSubsystem"]
    assert node.template == {
        "@odata.id": "/redfish/v1/Chassis/1/PowerSubsystem",
        "@odata.type": "#PowerSubsystem.v1_1_2.PowerSubsystem",
        "@odata.etag": "",
        "Id": "PowerSubsystem",
        "Name": "Power Subsystem",
    }
    assert (node.uri, node.type, node.allow, node.collection) == (
        "/redfish/v1/Chassis/1/PowerSubsystem",
        "PowerSubsystem.v1_1_2.PowerSubsystem",
        "GET, HEAD",
        False,
    )


def test_the_id_of_the_root_ends_with_a_slash(compiled: Compile) -> None:
    assert compiled().nodes["/redfish/v1"].template["@odata.id"] == "/redfish/v1/"


def test_a_resource_says_its_envelope_differently_or_leaves_it_out(compiled: Compile) -> None:
    tree = compiled('  /redfish/v1/Chassis/1/Bios: {type: Bios.v1_2_0, Id: BIOS, Name: N, "@odata.etag": $omit}\n')
    template = tree.nodes["/redfish/v1/Chassis/1/Bios"].template
    assert (template["Id"], template["Name"]) == ("BIOS", "N")
    assert "@odata.etag" not in template


@pytest.mark.parametrize(
    ("facts", "allow"),
    [
        ("{type: A.v1_0_0}", "GET, HEAD"),
        ("{type: A.v1_0_0, X: 1, writable: {X: {type: integer}}}", "GET, HEAD, PATCH"),
        ("{collection: A}", "GET, HEAD"),
        ("{collection: A, items: sessions}", "GET, HEAD, POST"),
        ("{collection: A, items: accounts}", "GET, HEAD, POST"),
    ],
)
def test_allowed_methods_follow_from_the_facts(compiled: Compile, facts: str, allow: str) -> None:
    node = compiled(f"  /redfish/v1/Chassis/1/A: {facts}\n").nodes["/redfish/v1/Chassis/1/A"]
    assert node.allow == allow
    assert f"Allow: {allow}\r\n".encode() in node.head


def test_the_head_of_a_resource_is_complete(compiled: Compile) -> None:
    head = compiled().nodes["/redfish/v1/Chassis/1"].head.decode()
    assert head.split("\r\n") == [
        "Content-Type: application/json; charset=utf-8",
        "OData-Version: 4.0",
        "Cache-Control: no-cache",
        "Vary: Accept-Encoding",
        "Allow: GET, HEAD",
        "Link: <http://redfish.dmtf.org/schemas/v1/Chassis.v1_25_0.json>; rel=describedby",
        "",
    ]


# collections


def test_collections_follow_from_the_uris_of_their_members(compiled: Compile) -> None:
    tree = compiled(
        "".join(
            f"  /redfish/v1/Chassis/{id_}: {{type: Chassis.v1_25_0, ChassisType: Card}}\n" for id_ in ("9", "A", "10")
        )
    )
    assert tree.nodes["/redfish/v1/Chassis"].template == {
        "@odata.id": "/redfish/v1/Chassis",
        "@odata.type": "#ChassisCollection.ChassisCollection",
        "@odata.etag": "",
        "Name": "Chassis Collection",
        "Members": [link(f"/redfish/v1/Chassis/{id_}") for id_ in ("1", "9", "A", "10")],
        "Members@odata.count": 4,
    }
    assert tree.nodes["/redfish/v1/Chassis"].collection


def test_a_declared_collection_counts_its_members_too_and_may_be_empty(compiled: Compile) -> None:
    tree = compiled(
        "  /redfish/v1/Chassis/1/Memory: {collection: Memory, Description: all}\n"
        "  /redfish/v1/Chassis/1/Memory/D1: {type: Memory.v1_20_0}\n"
        "  /redfish/v1/Chassis/1/Drives: {collection: Drive}\n"
    )
    full, empty = (tree.nodes[f"/redfish/v1/Chassis/1/{name}"].template for name in ("Memory", "Drives"))
    assert (full["Members"], full["Members@odata.count"], full["Description"]) == (
        [link("/redfish/v1/Chassis/1/Memory/D1")],
        1,
        "all",
    )
    assert (empty["Members"], empty["Members@odata.count"]) == ([], 0)


def test_only_children_are_members(compiled: Compile) -> None:
    tree = compiled(
        "  /redfish/v1/Chassis/1/Memory/D1/Metrics: {type: MemoryMetrics.v1_7_0}\n"
        "  /redfish/v1/Chassis/1/Memory/D1: {type: Memory.v1_20_0}\n"
    )
    assert tree.nodes["/redfish/v1/Chassis/1/Memory"].template["Members"] == [link("/redfish/v1/Chassis/1/Memory/D1")]
    assert tree.nodes["/redfish/v1/Chassis/1/Memory/D1"].template["Metrics"] == link(
        "/redfish/v1/Chassis/1/Memory/D1/Metrics"
    )


def test_members_of_different_types_need_a_declared_collection(compiled: Compile) -> None:
    mixed = "  /redfish/v1/Chassis/1/X/a: {type: A.v1_0_0}\n  /redfish/v1/Chassis/1/X/b: {type: B.v1_0_0}\n"
    with pytest.raises(ProfileError, match=r"/redfish/v1/Chassis/1/X: .*\['A', 'B'\]; declare it with collection"):
        compiled(mixed)
    declared = compiled(mixed + "  /redfish/v1/Chassis/1/X: {collection: A}\n").nodes["/redfish/v1/Chassis/1/X"]
    assert declared.type == "ACollection.ACollection"
    assert declared.template["Members@odata.count"] == 2


def test_log_entries_stand_in_full_in_their_collection(compiled: Compile) -> None:
    tree = compiled(
        "  /redfish/v1/Chassis/1/LogServices/L: {type: LogService.v1_7_0}\n"
        "  /redfish/v1/Chassis/1/LogServices/L/Entries/1: {type: LogEntry.v1_16_0, EntryType: SEL, Created: c}\n"
    )
    (member,) = tree.nodes["/redfish/v1/Chassis/1/LogServices/L/Entries"].template["Members"]
    entry = tree.nodes["/redfish/v1/Chassis/1/LogServices/L/Entries/1"].template
    assert member == {key: value for key, value in entry.items() if key != "@odata.etag"}


def test_members_of_a_dynamic_collection_have_a_template(compiled: Compile) -> None:
    tree = compiled()
    uri = "/redfish/v1/SessionService/Sessions"
    collection, item = tree.nodes[uri], tree.items[uri]
    assert (collection.template["Members"], collection.template["Members@odata.count"]) == (
        f"${{members:{uri}}}",
        f"${{count:{uri}}}",
    )
    assert (item.template["@odata.id"], item.template["Id"]) == (f"{uri}/${{item.id}}", "${item.id}")
    assert (item.items, item.allow, item.collection) == ("sessions", "GET, HEAD, DELETE", False)
    assert (collection.container, item.container) == (uri, uri)
    assert tree.items.keys() == tree.dynamic == {uri}
    assert tree.logs == {}
    assert uri + "/*" not in tree.nodes
    assert tree.nodes["/redfish/v1/Systems/1"].container == "/redfish/v1/Systems/1"


LOG = """\
  /redfish/v1/Chassis/1/LogServices/{name}: {{type: LogService.v1_7_0}}
  /redfish/v1/Chassis/1/LogServices/{name}/Entries:
    collection: LogEntry
    items: log
  /redfish/v1/Chassis/1/LogServices/{name}/Entries/*:
    type: LogEntry.v1_16_0
    items: log
    Message: ${{item.message}}
"""
ENTRIES = "/redfish/v1/Chassis/1/LogServices/{name}/Entries"


def test_each_log_is_a_dynamic_collection_of_its_own(compiled: Compile) -> None:
    first, second = (ENTRIES.format(name=name) for name in ("A", "B"))
    facts = "log: {keep: 7, records: [{on: Nmi, message: M, id: I, severity: Warning, origin: /x}]}"
    other = LOG.format(name="B").replace("    items: log\n", f"    items: log\n    {facts}\n", 1)
    tree = compiled(LOG.format(name="A") + other)
    assert tree.logs == {first: Log(), second: Log(7, [LogKind("Nmi", "M", "I", "Warning", "/x")])}
    assert {first, second} < tree.dynamic
    for uri in (first, second):
        assert tree.nodes[uri].template["Members"] == f"${{members:{uri}}}"
        assert tree.nodes[uri].template["Members@odata.count"] == f"${{count:{uri}}}"
        assert tree.items[uri].template["@odata.id"] == f"{uri}/${{item.id}}"
        assert (tree.nodes[uri].allow, tree.items[uri].allow) == ("GET, HEAD", "GET, HEAD")
        assert (tree.nodes[uri].container, tree.items[uri].container) == (uri, uri)


def test_members_may_be_shown_elsewhere(compiled: Compile) -> None:
    tree = compiled(
        "  /redfish/v1/Chassis/1/X:\n    type: X.v1_0_0\n"
        "    All: ${members:/redfish/v1/SessionService/Sessions}\n"
        "    Count: ${count:/redfish/v1/SessionService/Sessions}\n"
    )
    template = tree.nodes["/redfish/v1/Chassis/1/X"].template
    assert template["Count"] == "${count:/redfish/v1/SessionService/Sessions}"


@pytest.mark.parametrize("hole", ["members:/nowhere", "count:/redfish/v1/Chassis", "members:", "count", "members"])
def test_members_of_what_is_no_dynamic_collection_are_an_error_with_their_resource(
    compiled: Compile, hole: str
) -> None:
    with pytest.raises(ProfileError, match=r"/redfish/v1/Chassis/1/X: .*(not a dynamic collection|no hole)"):
        compiled(f"  /redfish/v1/Chassis/1/X: {{type: X.v1_0_0, All: '${{{hole}}}'}}\n")


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (
            "    type: LogEntry.v1_16_0\n    items: log\n",
            "    type: LogEntry.v1_16_0\n",
            r"needs the collection .* items: KIND",
        ),
        (
            "    type: LogEntry.v1_16_0\n    items: log\n",
            "    type: L.v1_0_0\n    items: accounts\n",
            "items: accounts",
        ),
        (
            "    collection: LogEntry\n    items: log\n",
            "    collection: LogEntry\n",
            "needs the collection .* items: log",
        ),
        ("    items: log\n", "    items: logs\n", "items: logs is not one of accounts, "),
        ("    Message: ", "    log: {keep: 1}\n    Message: ", "log belongs to a collection with items: log"),
        ("    collection: LogEntry\n    items: log\n", "    collection: LogEntry\n    log: {}\n", "log belongs to"),
    ],
)
def test_a_log_that_cannot_work_is_an_error(compiled: Compile, old: str, new: str, what: str) -> None:
    text = LOG.format(name="A")
    assert old in text
    with pytest.raises(ProfileError, match=what):
        compiled(text.replace(old, new))


def test_a_log_without_a_look_for_its_entries_is_an_error(compiled: Compile) -> None:
    text = LOG.format(name="A")
    with pytest.raises(ProfileError, match=r"items: log needs .*/Entries/\*"):
        compiled(text[: text.index("  " + ENTRIES.format(name="A") + "/*")])


# links


@pytest.mark.parametrize(
    ("more", "parent", "expected"),
    [
        ("  /redfish/v1/Chassis/1/Bios: {type: Bios.v1_2_0}\n", "Chassis/1", {"Bios": "Chassis/1/Bios"}),
        ("  /redfish/v1/Chassis/1/Memory/D: {type: Memory.v1_20_0}\n", "Chassis/1", {"Memory": "Chassis/1/Memory"}),
        (
            "  /redfish/v1/TaskService: {type: TaskService.v1_2_0, link: Tasks}\n",
            "",
            {"Tasks": "TaskService", "TaskService": None},
        ),
        ("  /redfish/v1/Chassis/1/Bios: {type: Bios.v1_2_0, link: false}\n", "Chassis/1", {"Bios": None}),
        (
            "  /redfish/v1/Chassis/1/X: {type: X.v1_0_0, link: Oem.V.X}\n",
            "Chassis/1",
            {"Oem": {"V": {"X": "Chassis/1/X"}}, "X": None},
        ),
        ("  /redfish/v1/Chassis/1/Oem/V/X: {type: X.v1_0_0}\n", "Chassis/1", {"Oem": None, "X": None}),
        (
            "  /redfish/v1/Chassis/1/Oem/V/X: {type: X.v1_0_0, link: Oem.V}\n",
            "Chassis/1",
            {"Oem": {"V": "Chassis/1/Oem/V/X"}},
        ),
        ("  /redfish/v1/Chassis/1/Oem/V/Jobs: {collection: X}\n", "Chassis/1", {"Oem": None, "Jobs": None}),
        ("  /redfish/v1/Chassis/2: {type: Chassis.v1_25_0, ChassisType: Card}\n", "Chassis", {"2": None}),
    ],
)
def test_a_resource_is_linked_from_its_parent_unless_it_says_otherwise(
    compiled: Compile, more: str, parent: str, expected: dict[str, Any]
) -> None:
    def links(value: Any) -> Any:
        if isinstance(value, str):
            return link(f"/redfish/v1/{value}")
        return {key: links(item) for key, item in value.items()} if value else None

    template = compiled(more).nodes[f"/redfish/v1/{parent}".rstrip("/")].template
    assert {key: template.get(key) for key in expected} == {key: links(value) for key, value in expected.items()}


def test_a_link_that_the_profile_wrote_is_left_alone(compiled: Compile) -> None:
    tree = compiled(
        "  /redfish/v1/Chassis/1/X: {type: X.v1_0_0, Sub: {$link: /redfish/v1/Systems/1}}\n"
        "  /redfish/v1/Chassis/1/X/Sub: {type: Sub.v1_0_0}\n"
    )
    assert tree.nodes["/redfish/v1/Chassis/1/X"].template["Sub"] == link("/redfish/v1/Systems/1")


def test_oem_collections_are_not_derived(compiled: Compile) -> None:
    tree = compiled("  /redfish/v1/Chassis/1/Oem/V/Things/1: {type: Thing.v1_0_0}\n")
    assert "/redfish/v1/Chassis/1/Oem/V/Things/1" in tree.nodes
    assert "/redfish/v1/Chassis/1/Oem/V/Things" not in tree.nodes


# directives


SENSORS = (
    "".join(
        f"  /redfish/v1/Chassis/{chassis}/Sensors/{name}: {{type: Sensor.v1_7_0, reading: {{min: 1, max: 2}}}}\n"
        for chassis, name in (("1", "Fan10"), ("1", "Fan2"), ("2", "Fan1"))
    )
    + "  /redfish/v1/Chassis/2: {type: Chassis.v1_25_0, ChassisType: Card}\n"
)


def directives(compiled: Compile, text: str) -> dict[str, Any]:
    """What a resource shows whose properties are the given YAML."""
    template = (
        compiled(f"{SENSORS}  /redfish/v1/Chassis/1/X:\n    type: X.v1_0_0\n    {text}\n")
        .nodes["/redfish/v1/Chassis/1/X"]
        .template
    )
    return {key: value for key, value in template.items() if key[0] == "P"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("P: {$link: /redfish/v1/Chassis/1}", {"P": link("/redfish/v1/Chassis/1")}),
        ("P: [{$link: /redfish/v1/Chassis/1}]", {"P": [link("/redfish/v1/Chassis/1")]}),
        ("P: {Q: {$link: /redfish/v1/Chassis/1}}", {"P": {"Q": link("/redfish/v1/Chassis/1")}}),
        ("P: {$links: []}", {"P": [], "P@odata.count": 0}),
        ("P: {$links: /redfish/v1/Chassis/1}", {"P": [link("/redfish/v1/Chassis/1")], "P@odata.count": 1}),
        (
            "P: {$links: [/redfish/v1/Chassis/2, /redfish/v1/Chassis/1]}",
            {"P": [link("/redfish/v1/Chassis/2"), link("/redfish/v1/Chassis/1")], "P@odata.count": 2},
        ),
        (
            "P: {$links: /redfish/v1/Chassis/1/Sensors/Fan*}",
            {"P": [link(f"/redfish/v1/Chassis/1/Sensors/Fan{n}") for n in (10, 2)], "P@odata.count": 2},
        ),
        (
            "P: {$links: /redfish/v1/Chassis/*/Sensors/*1}",
            {
                "P": [link("/redfish/v1/Chassis/1/Sensors/Temp1"), link("/redfish/v1/Chassis/2/Sensors/Fan1")],
                "P@odata.count": 2,
            },
        ),
        (
            "P: [{Q: {$links: /redfish/v1/Chassis/2}}]",
            {"P": [{"Q": [link("/redfish/v1/Chassis/2")], "Q@odata.count": 1}]},
        ),
        ("P: {$links: /redfish/v1/SessionService/Sessions/*}", {"P": [], "P@odata.count": 0}),
        ("P: {$for: /redfish/v1/Chassis/1/Sensors/Fan*, item: <id>}", {"P": ["Fan10", "Fan2"]}),
        (
            "P: {$for: /redfish/v1/Chassis/*/Sensors/Fan*, item: {Uri: <uri>, N: <index>, Text: 'n<index> of <id>'}}",
            {
                "P": [
                    {"Uri": f"/redfish/v1/Chassis/{uri}", "N": index, "Text": f"n{index} of {uri.rpartition('/')[2]}"}
                    for index, uri in enumerate(("1/Sensors/Fan10", "1/Sensors/Fan2", "2/Sensors/Fan1"))
                ]
            },
        ),
        (
            "P: {$for: /redfish/v1/Chassis/2, item: {L: {$link: <uri>}, M: {$links: [<uri>]}, R: [<id>, 1, null]}}",
            {
                "P": [
                    {
                        "L": link("/redfish/v1/Chassis/2"),
                        "M": [link("/redfish/v1/Chassis/2")],
                        "M@odata.count": 1,
                        "R": ["2", 1, None],
                    }
                ]
            },
        ),
        ("P: {$for: /redfish/v1/Nothing/*, item: <id>}", {"P": []}),
    ],
)
def test_directives(compiled: Compile, text: str, shown: dict[str, Any]) -> None:
    assert directives(compiled, text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "P: {$for: /redfish/v1/Chassis/*}",
        "P: {$for: 5, item: <id>}",
        "P: {$links: 5}",
        "P: {$links: [5]}",
        "P: {$link: 5}",
    ],
)
def test_a_directive_that_cannot_work_is_an_error_with_its_place(compiled: Compile, text: str) -> None:
    with pytest.raises(ProfileError, match=r"tiny\.yaml:\d+: .*/redfish/v1/Chassis/1/X"):
        directives(compiled, text)


@pytest.mark.parametrize(
    ("glob", "uri", "matches"),
    [
        ("/a/*", "/a/b", True),
        ("/a/*", "/a/b/c", False),
        ("/a/*", "/a/", True),
        ("/a/*/c", "/a/b/c", True),
        ("/a/b*", "/a/bcd", True),
        ("/a/b.c", "/a/bxc", False),
        ("/a/(b)*", "/a/(b)1", True),
    ],
)
def test_a_star_of_a_glob_does_not_cross_a_slash(glob: str, uri: str, matches: bool) -> None:
    assert bool(pattern_of(glob).fullmatch(uri)) == matches


# actions


def test_actions_have_targets_values_and_an_entry_in_the_table(compiled: Compile) -> None:
    tree = compiled(
        "  /redfish/v1/Chassis/2:\n    type: Chassis.v1_25_0\n    ChassisType: Card\n    actions:\n"
        "      Chassis.Reset: {ResetType: [On, 'Off'], Other: null}\n      Oem.Vendor.Blink: {}\n"
    )
    uri = "/redfish/v1/Chassis/2"
    reset, blink = f"{uri}/Actions/Chassis.Reset", f"{uri}/Actions/Oem/Vendor.Blink"
    assert tree.nodes[uri].template["Actions"] == {
        "#Chassis.Reset": {"target": reset, "ResetType@Redfish.AllowableValues": ["On", "Off"]},
        "Oem": {"#Vendor.Blink": {"target": blink}},
    }
    facts = {"ResetType": ParameterFacts(values=["On", "Off"]), "Other": ParameterFacts()}
    assert tree.actions[reset] == Action(uri, "Chassis.Reset", facts)
    assert tree.actions[blink] == Action(uri, "Oem.Vendor.Blink", {})


# readings and holes


def test_a_sensor_has_its_reading_and_others_may_refer_to_it(compiled: Compile) -> None:
    tree = compiled(
        "  /redfish/v1/Chassis/1/Sensors/Temp2:\n"
        "    {type: Sensor.v1_7_0, reading: {min: 5, max: 6, step: 1, powered: true}}\n"
        "  /redfish/v1/Chassis/1/X: {type: X.v1_0_0, R: '${reading:/redfish/v1/Chassis/1/Sensors/Temp2}'}\n"
    )
    first, second = (tree.readings[f"/redfish/v1/Chassis/1/Sensors/Temp{n}"] for n in (1, 2))
    assert (first.minimum, first.maximum, first.step, first.powered) == (20.0, 30.0, 0.1, False)
    assert (second.minimum, second.maximum, second.step, second.powered) == (5.0, 6.0, 1.0, True)
    assert first.index != second.index
    assert tree.nodes["/redfish/v1/Chassis/1/Sensors/Temp2"].template["Reading"] == "${reading}"


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ("X: {type: X.v1_0_0, R: '${nope}'}", r"no hole \$\{nope\}"),
        ("X: {type: X.v1_0_0, R: '${bmc.mac|nope}'}", "no filter 'nope'"),
        ("X: {type: X.v1_0_0, R: '${reading}'}", "/redfish/v1/Chassis/1/X has no reading"),
        ("X: {type: X.v1_0_0, R: '${reading:/nowhere}'}", "/nowhere has no reading"),
        ("X: {type: X.v1_0_0, reading: {min: 2, max: 1}}", "min <= max"),
        ("X: {type: X.v1_0_0, reading: {min: 1, max: 2, step: 0}}", "step > 0"),
        ("X: {type: X.v1_0_0, reading: {min: 1, max: 2}, R: '${reading|nope}'}", "a reading has no form"),
        ("X: {collection: X, items: nope}", "nope"),
    ],
)
def test_a_hole_that_nothing_fills_is_an_error_with_its_place(compiled: Compile, more: str, what: str) -> None:
    with pytest.raises(ProfileError, match=what) as caught:
        compiled(f"  /redfish/v1/Chassis/1/{more}\n")
    assert "tiny.yaml:" in str(caught.value)


def test_a_profile_needs_a_root(write: Write) -> None:
    path = write(HEAD + "resources:\n  /redfish/v1/Chassis/1: {type: Chassis.v1_25_0}\n")
    with pytest.raises(ProfileError, match="the profile has no /redfish/v1"):
        compile_tree(load(path), holes.bind)


def test_an_action_that_has_no_action_info_to_tell_of_is_an_error_of_the_profile(write: Write) -> None:
    rack = "    ChassisType: RackMount\n"
    path = write(TINY.replace(rack, rack + "    action_info: {X.Y: Z}\n"))
    with pytest.raises(ProfileError, match=r"action_info: X\.Y is not an action"):
        compile_tree(load(path), holes.bind)


def test_a_root_without_a_link_to_the_sessions_is_an_error_of_the_profile(write: Write) -> None:
    path = write(TINY.replace("      Sessions: {$link: /redfish/v1/SessionService/Sessions}\n", "      Other: 1\n"))
    with pytest.raises(ProfileError, match="Sessions"):
        compile_tree(load(path), holes.bind)


def test_a_tree_encodes_bodies_with_its_own_holes(compiled: Compile) -> None:
    tree = compiled()
    body = tree.body({"Name": "n"}, "/redfish/v1/Chassis/1")
    assert orjson.loads(body.render(None, None)[1]) == {"Name": "n"}  # type: ignore[arg-type]
