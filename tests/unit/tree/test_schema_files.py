"""Schema files that BMCs serve: those of vendors beside the profiles, and an operator's."""

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from bmcsim.machine import holes
from bmcsim.tree import schema_files
from bmcsim.tree.compile import Tree, compile_tree
from bmcsim.tree.profile import load
from bmcsim.tree.schema_files import Local, SchemaFiles, vendors
from bmcsim.tree.source import ProfileError
from tests.conftest import tree_of
from tests.unit.tree.conftest import unreadable
from tests.unit.tree.test_csdl import ACME, HEAD, TAIL
from tests.unit.tree.test_odata import included

SCHEMAS = "/redfish/v1/schemas"
PROFILES = ["bluefield3", "dell_poweredge_r750"]


def csdl(namespace: str, reference: str = "Other") -> bytes:
    """A CSDL file of the example's types under another name."""
    return (HEAD.replace("Other", reference) + ACME.replace("Acme", namespace) + TAIL).encode()


def schema(name: str) -> bytes:
    """A JSON schema."""
    return orjson.dumps({"$schema": "http://example.com", "title": name, "padding": " " * 10})


def write(folder: Path, *names: str) -> SchemaFiles:
    """A folder with files that are what their names say."""
    for name in names:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(schema(name) if name.endswith(".json") else csdl(path.name.rpartition("_v")[0]))
    return SchemaFiles(folder)


def tree_with(files: SchemaFiles, profile: str = "bluefield3") -> Tree:
    """A profile with an operator's files."""
    return compile_tree(load(profile), holes.bind, schemas=files)


def location(tree: Tree, name: str) -> Any:
    """Where a schema is, as its member says."""
    (one,) = tree.nodes[f"/redfish/v1/JsonSchemas/{name}"].template["Location"]
    return one


@pytest.mark.parametrize("profile", PROFILES)
def test_all_types_of_vendors_are_described_by_files_that_are_served(profile: str) -> None:
    tree = tree_of(profile)
    references = included(tree.metadata)
    own = {namespace: uri for namespace, uri in references.items() if uri.startswith("/")}
    assert set(own.values()) <= tree.files.keys()
    assert {namespace[: len("Dell")] for namespace in own} <= {"Dell", "Nvid", "EID_"}
    assert all(uri.startswith("http://redfish.dmtf.org/") for uri in references.values() if uri not in tree.files)
    for uri in set(own.values()):
        assert tree.files[uri].media == b"application/xml"
        for reference in included(tree.files[uri].content).values():
            assert reference in tree.files or not reference.startswith("/"), (uri, reference)


def test_the_metadata_has_the_namespaces_of_oem_objects_and_oem_actions() -> None:
    references = included(tree_of("dell_poweredge_r750").metadata)
    for namespace in ("DellOem.v1_3_0", "DellSystem.v1_3_0", "DellJob.v1_5_0", "EID_674_Manager", "DellManager"):
        assert references[namespace] == f"{SCHEMAS}/{namespace.partition('.')[0]}_v1.xml"
    assert included(tree_of("bluefield3").metadata)["NvidiaUpdateService"] == f"{SCHEMAS}/NvidiaUpdateService_v1.xml"
    assert "HostRshim" not in included(tree_of("bluefield3").metadata)


def test_without_an_operator_s_files_the_standard_s_schemas_are_only_where_they_are_published() -> None:
    tree = tree_of("dell_poweredge_r750")
    assert location(tree, "Chassis") == {
        "Language": "en",
        "PublicationUri": "https://redfish.dmtf.org/schemas/v1/Chassis.json",
    }
    assert location(tree, "DellJob") == {"Language": "en", "Uri": f"{SCHEMAS}/DellJob.v1_5_0.json"}
    link = b"Link: </redfish/v1/schemas/DellJobService.v1_2_0.json>; rel=describedby\r\n"
    assert link in tree.nodes["/redfish/v1/Managers/iDRAC.Embedded.1/Oem/Dell/DellJobService"].head


def test_an_operator_s_files_are_served_as_they_are(tmp_path: Path) -> None:
    names = ["Chassis.json", "csdl/Chassis_v1.xml", "json-schema/Manager.v1_19_0.json", "Fan_v1.xml", "Memory_v1.xml"]
    tree = tree_with(write(tmp_path, *names))
    for name in ("Chassis.json", "csdl/Chassis_v1.xml", "json-schema/Manager.v1_19_0.json", "Memory_v1.xml"):
        file = tree.files[f"{SCHEMAS}/{name.rpartition('/')[2]}"]
        assert file.content == (tmp_path / name).read_bytes()
        assert file.media == (b"application/json" if name.endswith(".json") else b"application/xml")
    assert f"{SCHEMAS}/Fan_v1.xml" not in tree.files
    published = "https://redfish.dmtf.org/schemas/v1"
    for name, file_name in (
        ("Chassis", "Chassis.json"),
        ("Manager", "Manager.v1_19_0.json"),
        ("Memory", "Memory_v1.xml"),
    ):
        assert location(tree, name) == {
            "Language": "en",
            "PublicationUri": f"{published}/{name}.json",
            "Uri": f"{SCHEMAS}/{file_name}",
        }
    assert "Uri" not in location(tree, "Storage")
    references = included(tree.metadata)
    assert references["Chassis"] == references["Chassis.v1_25_0"] == f"{SCHEMAS}/Chassis_v1.xml"
    assert references["Manager"] == "http://redfish.dmtf.org/schemas/v1/Manager_v1.xml"
    manager = tree.nodes["/redfish/v1/Managers/Bluefield_BMC"].head
    assert f"Link: <{SCHEMAS}/Manager.v1_19_0.json>; rel=describedby\r\n".encode() in manager


def test_an_operator_s_file_of_a_vendor_s_type_wins(tmp_path: Path) -> None:
    tree = tree_with(write(tmp_path, "NvidiaManager_v1.xml"))
    assert tree.files[f"{SCHEMAS}/NvidiaManager_v1.xml"].content == csdl("NvidiaManager")


def test_a_file_is_read_once_for_all_trees(tmp_path: Path) -> None:
    files = write(tmp_path, "Chassis.json", "Chassis_v1.xml")
    first, second = tree_with(files), tree_with(files, "dell_poweredge_r750")
    for name in ("Chassis.json", "Chassis_v1.xml"):
        assert first.files[f"{SCHEMAS}/{name}"].content is second.files[f"{SCHEMAS}/{name}"].content


def test_only_the_newest_version_stands_for_a_schema(tmp_path: Path) -> None:
    files = write(tmp_path, "A.v1_9_0.json", "A.v1_10_0.json", "A.v1_11_0.json")
    local = Local(["A.v1_9_0", "A.v1_10_0"], [], files)
    assert local.of_schema("A") == f"{SCHEMAS}/A.v1_10_0.json"
    assert local.of_type("A.v1_9_0.A") == f"{SCHEMAS}/A.v1_9_0.json"
    assert local.of_type("A.v1_8_0.A") is None
    assert local.of_schema("B") is None
    assert set(local.files) == {f"{SCHEMAS}/A.v1_9_0.json", f"{SCHEMAS}/A.v1_10_0.json"}


@pytest.mark.parametrize(
    "name", ["README.md", "Chassis.v1.json", "..json", "Chassis_v1.xml.bak", "Chassis.xml", "x/y.json"]
)
def test_what_is_not_called_like_a_schema_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / name).write_bytes(b"nonsense")
    assert name not in SchemaFiles(tmp_path)
    assert not [one for one in ("y.json", "Chassis.json") if one in SchemaFiles(tmp_path)]


def test_a_link_to_elsewhere_is_left_alone(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    write(outside, "Chassis.json", "csdl/Manager_v1.xml")
    (inside / "Chassis.json").symlink_to(outside / "Chassis.json")
    (inside / "csdl").symlink_to(outside / "csdl")
    files = SchemaFiles(inside)
    assert "Chassis.json" not in files
    assert "Manager_v1.xml" not in files


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("Chassis.json", b"{", "Chassis.json: "),
        ("Chassis.json", b"[]", "is not a JSON schema"),
        ("Chassis.json", b'{"a": 1}', r"has no \$schema"),
        ("Chassis.json", b" " * (schema_files.LIMIT + 1), "larger than 4 MiB"),
        ("Chassis_v1.xml", b"<a/>", "is not an OData schema"),
        ("Chassis_v1.xml", csdl("Other"), "defines no namespace Chassis"),
        ("Chassis_v1.xml", csdl("Chassis").replace(b"UTF-8", b"latin-1") + b"<!-- \xe9 -->", "is not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_name(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ProfileError, match=problem) as refused:
        tree_with(SchemaFiles(tmp_path))
    assert str(tmp_path / name) in str(refused.value)


@pytest.mark.parametrize("inner", ["", "json-schema", "csdl"])
def test_a_folder_that_cannot_be_read_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: str
) -> None:
    (tmp_path / inner).mkdir(exist_ok=True)
    real = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: (unreadable if path == tmp_path / inner else real)(path))
    with pytest.raises(ProfileError, match=f"{re.escape(str(tmp_path / inner))}: cannot be read: Permission denied"):
        SchemaFiles(tmp_path)


def test_a_folder_in_which_nothing_can_be_looked_at_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "A.json")
    monkeypatch.setattr(Path, "is_file", unreadable)
    with pytest.raises(ProfileError, match="cannot be read: Permission denied"):
        SchemaFiles(tmp_path)


def test_a_vendor_s_file_that_leads_nowhere_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "Acme_v1.xml").symlink_to(tmp_path / "gone")
    with pytest.raises(ProfileError, match=r"Acme_v1\.xml: cannot be read: No such file"):
        vendors([tmp_path])


def test_a_folder_with_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_files, "MOST", 1)
    write(tmp_path, "A.json")
    with pytest.raises(ProfileError, match="more than 1 schema files"):
        write(tmp_path, "B.json")


def test_a_file_beside_the_profile_wins_over_one_of_its_name(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, text in ((first, csdl("Acme")), (second, csdl("Acme", "Third"))):
        folder.mkdir()
        (folder / "Acme_v1.xml").write_bytes(text)
    (second / "Bolt_v1.xml").write_bytes(csdl("Bolt"))
    acme, bolt = vendors([first, second])
    assert (acme.content, bolt.name) == (csdl("Acme"), "Bolt_v1.xml")
    (first / "Acme_v1.xml").write_bytes(csdl("Acme", "Fourth"))
    assert vendors([first])[0].content == csdl("Acme", "Fourth")


def test_a_vendor_s_file_brings_those_along_that_it_refers_to(tmp_path: Path) -> None:
    for name, reference in (("Acme", "Bolt"), ("Bolt", "Acme"), ("Nut", "Other")):
        (tmp_path / f"{name}_v1.xml").write_bytes(csdl(name, reference))
    local = Local(["Acme.v1_0_0"], vendors([tmp_path]), None)
    assert {uri.rpartition("/")[2] for uri in local.files} == {
        "Acme_v1.xml",
        "Acme.v1_0_0.json",
        "Bolt_v1.xml",
        "Bolt.v1_0_0.json",
    }


def test_two_files_of_one_namespace_are_refused(tmp_path: Path) -> None:
    for name in ("Acme_v1.xml", "Other_v1.xml"):
        (tmp_path / name).write_bytes(csdl("Acme"))
    with pytest.raises(ProfileError, match=r"Other_v1\.xml: the namespace Acme\S* is in \S+Acme_v1\.xml already"):
        vendors([tmp_path])
