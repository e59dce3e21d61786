"""Message registries that an operator has as files."""

import re
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest

from bmcsim.machine import holes
from bmcsim.tree import registry_files
from bmcsim.tree.compile import Tree, compile_tree
from bmcsim.tree.profile import load
from bmcsim.tree.registry_files import newest, read
from bmcsim.tree.source import ProfileError
from tests.unit.tree.conftest import unreadable


def registry(name: str, **more: Any) -> dict[str, Any]:
    """A message registry of a name with a whole version."""
    prefix, _, version = name.partition(".")
    return {
        "@odata.type": "#MessageRegistry.v1_7_0.MessageRegistry",
        "Id": name,
        "Name": prefix,
        "Language": "en",
        "OwningEntity": "DMTF",
        "RegistryPrefix": prefix,
        "RegistryVersion": version,
        "Messages": {"Odd": {"Message": "It says ${serial} and %1.", "NumberOfArgs": 1}},
        **more,
    }


def nested(levels: int) -> bytes:
    """A registry with a message that is nested deeply."""
    deep = b'{"a":[' * (levels // 2) + b"]}" * (levels // 2)
    return orjson.dumps(registry("Base.1.22.1", Odd=orjson.Fragment(deep)))


def write(folder: Path, name: str, content: Any) -> Path:
    """A file of a folder."""
    path = folder / f"{name}.json"
    path.write_bytes(content if isinstance(content, bytes) else orjson.dumps(content))
    return path


def tree_with(folder: Path) -> Tree:
    """A BlueField-3 with the registries of a folder."""
    return compile_tree(load("bluefield3"), holes.bind, read(folder))


def test_a_registry_is_served_beside_its_member_as_it_is(tmp_path: Path) -> None:
    for name in ("Base.1.22.0", "Base.1.22.10", "Base.1.22.9", "Base.1.21.99", "Other.1.0.0"):
        write(tmp_path, name, registry(name))
    tree = tree_with(tmp_path)
    uri = "/redfish/v1/Registries/Base/Base.1.22.10"
    (location,) = tree.nodes["/redfish/v1/Registries/Base"].template["Location"]
    assert location == {
        "Language": "en",
        "PublicationUri": "https://redfish.dmtf.org/registries/Base.1.22.10.json",
        "Uri": uri,
    }
    served = orjson.loads(tree.nodes[uri].body.render(None, None)[1])  # type: ignore[arg-type]
    assert served.pop("@odata.id") == uri
    assert served.pop("@odata.etag")
    assert served == registry("Base.1.22.10")
    assert not [one for one in tree.nodes if "Other" in one or "1.21" in one]
    assert "Uri" not in tree.nodes["/redfish/v1/Registries/Update"].template["Location"][0]
    assert "/redfish/v1/JsonSchemas/MessageRegistry" in tree.nodes


@pytest.mark.parametrize(
    "name", ["README", "Base.1.22", "Base.1.22.x", "Base-1.22.0", "Redfish_1.8.0_PrivilegeRegistry"]
)
def test_what_is_not_called_like_a_registry_is_left_alone(tmp_path: Path, name: str) -> None:
    write(tmp_path, name, b"nonsense")
    assert read(tmp_path) == {}


def test_a_link_to_elsewhere_is_left_alone(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    secret = write(outside, "Base.1.22.1", registry("Base.1.22.1"))
    (inside / "Base.1.22.1.json").symlink_to(secret)
    (inside / "Base.1.22.2.json").mkdir()
    assert read(inside) == {}
    shutil.copy(secret, inside / "Base.1.22.3.json")
    with pytest.raises(ProfileError, match=r"3\.json: is not the message registry Base\.1\.22\.3"):
        read(inside)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "Base.1.22.1.json"),
        (b"[]", "is not the message registry"),
        (registry("Base.1.22.2"), "is not the message registry"),
        (registry("Base.1.22.1", **{"@odata.type": "#Chassis.v1_0_0.Chassis"}), "is not the message registry"),
        (b" " * (registry_files.LIMIT + 1), "larger than 4 MiB"),
        *[(nested(levels), "has more than 32 objects and arrays in each other") for levels in (40, 300, 900)],
    ],
)
def test_a_registry_that_cannot_be_used_is_refused_by_name(tmp_path: Path, content: Any, problem: str) -> None:
    write(tmp_path, "Base.1.22.1", content)
    with pytest.raises(ProfileError, match=problem):
        read(tmp_path)


def test_a_registry_with_a_name_that_no_body_can_have_is_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path, "Base.1.22.1", registry("Base.1.22.1", **{"\x000\x00": 1}))
    with pytest.raises(ProfileError, match=r"Base\.1\.22\.1: a name has a NUL character"):
        tree_with(tmp_path)


def test_a_folder_that_cannot_be_read_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "iterdir", unreadable)
    with pytest.raises(ProfileError, match=f"{re.escape(str(tmp_path))}.*: cannot be read: Permission denied"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("registry_", "file"),
    [
        ("A.1.0", "A.1.10.0"),
        ("A.1.9", "A.1.10.0"),
        ("A.1.10", "A.1.10.0"),
        ("A.1.11", None),
        ("A.2.0", "A.2.0.10"),
        ("A.2.1", None),
        ("B.1.0", None),
        ("AA.1.0", None),
    ],
)
def test_the_newest_file_that_has_all_messages_of_a_registry_counts(registry_: str, file: str | None) -> None:
    files: Any = {name: {} for name in ["A.1.0.2", "A.1.9.7", "A.1.10.0", "A.2.0.9", "A.2.0.10", "B.2.0.0"]}
    assert newest(files, registry_) == file


def test_a_later_minor_version_is_served_under_its_own_name(tmp_path: Path) -> None:
    write(tmp_path, "Update.1.3.0", registry("Update.1.3.0"))
    tree = tree_with(tmp_path)
    member = tree.nodes["/redfish/v1/Registries/Update"].template
    assert member["Registry"] == "Update.1.3"
    assert member["Location"][0]["Uri"] == "/redfish/v1/Registries/Update/Update.1.3.0"
    assert "/redfish/v1/Registries/Update/Update.1.3.0" in tree.nodes
