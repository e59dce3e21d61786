"""What an image is taken for."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.machine import images
from bmcsim.machine.images import Hint, UnknownImage
from bmcsim.tree import software
from bmcsim.tree.profile import Component
from tests.conftest import tree_of

KEYS = st.text().filter(lambda key: key not in ("component", "version"))
DELL, DPU = tree_of("dell_poweredge_r750").components, tree_of("bluefield3").components


def component(version: str = "1.0", **facts: Any) -> Component:
    """A component."""
    return Component("X", "X", version, **facts)


@pytest.mark.parametrize(
    ("name", "meant", "version"),
    [
        ("BIOS_XYZ_1.14.1.exe", ("uefi",), "1.14.1"),
        ("bios-1.14.1.d9", ("uefi",), "1.14.1"),
        ("iDRAC-with-Lifecycle-Controller_Firmware_XTFXJ_WN64_7.00.30.00_A00.EXE", ("bmc",), "7.00.30.00"),
        ("iDRAC9_7.10.tar.gz", ("bmc",), "7.10"),
        ("C:\\images\\BIOS_1.2.3.exe", ("uefi",), "1.2.3"),
        ("uefi-1.14.bin", ("uefi",), "1.14"),
        ("uefi_2.bin", ("uefi",), "2"),
        ("nic-slot1-32.41.1000.fwpkg", ("nic_slot1",), "32.41.1000"),
        ("PSU_00.3A.bin", ("psu1", "psu2"), "00.3A"),
        ("BIOS.exe", ("uefi",), ""),
        ("firmware_1.2.bin", (), "1.2"),
        ("BIOSX_1.2.bin", (), "1.2"),
        ("r750.bin", (), ""),
        ("", (), ""),
        ("...", (), ""),
    ],
)
def test_the_name_of_a_file_says_what_it_is_for_a_dell(name: str, meant: tuple[str, ...], version: str) -> None:
    hint = images.of_name(name, DELL)
    assert (hint.components, hint.version) == (meant, version)


@pytest.mark.parametrize(
    ("name", "meant", "version"),
    [
        ("bf-bmc_24.10-17.bin", "bmc", "BF-24.10-17"),
        ("bf3-bmc-24.10-17_opn.fwpkg", "bmc", "BF-24.10-17"),
        ("bmc-BF-24.10-17.bin", "bmc", "BF-24.10-17"),
        ("bmc-24.10-17.bin", "bmc", "BF-24.10-17"),
        ("cec_ota_00.02.0182.0000-n02.bin", "cec", "00.02.0182.0000-n02"),
        ("uefi-4.9.0-46-g7e3911bd4d.bin", "uefi", "4.9.0-46-g7e3911bd4d"),
        ("bf-bundle-2.9.0-90_24.10_ubuntu-22.04_prod.bfb", "os", "bf-bundle-2.9.0-90"),
    ],
)
def test_the_name_of_a_file_says_what_it_is_for_a_bluefield(name: str, meant: str, version: str) -> None:
    assert images.changes(DPU, {}, {}, [], [images.of_name(name, DPU)]) == {meant: version}


@given(st.text(max_size=300))
def test_any_name_gives_a_version_that_can_stand_in_a_uri(name: str) -> None:
    for components in (DELL, DPU):
        hint = images.of_name(name, components)
        assert all(name in components for name in hint.components)
        assert not hint.version or software.VERSION.fullmatch(hint.version)


JSON = st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner))


@given(st.binary(max_size=64) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_file_is_read_without_an_error(head: bytes) -> None:
    assert images.of_head(head, DELL) == Hint()


def test_a_small_json_file_says_what_it_is() -> None:
    assert images.of_head(b' {"component": "uefi", "version": "1.14"}', DELL) == Hint(("uefi",), "1.14")
    assert images.of_head(b'{"component": "lifecycle"}', DELL) == Hint(("bmc",))
    assert images.of_head(b'{"version": "7"}', DELL) == Hint((), "7")
    assert images.of_head(b'{"other": 1}', DELL) == Hint()
    assert images.of_head(b'{"component": "uefi", "version": "1.1', DELL) == Hint()


@pytest.mark.parametrize(
    ("component_", "version", "wrong"),
    [
        ("nope", "1", ("component", "nope")),
        (5, "1", ("component", "5")),
        ("uefi", "a/b", ("version", "a/b")),
        ("uefi", "", None),
        ("uefi", "x" * 65, ("version", "x" * 64)),
        ("uefi", None, ("version", "None")),
    ],
)
def test_a_hint_that_cannot_be_followed_is_refused(component_: Any, version: Any, wrong: Any) -> None:
    if wrong is None:
        assert images.named(component_, version, DELL) == Hint(("uefi",))
        return
    with pytest.raises(UnknownImage) as refused:
        images.named(component_, version, DELL)
    assert refused.value.args == wrong


def test_what_shows_the_identity_of_a_bmc_is_never_meant() -> None:
    with pytest.raises(UnknownImage):
        images.named("sys_image", "1", DPU)
    assert images.of_name("sys_image-1.0.bin", DPU).components == ()


COMPONENTS = {"a": component(), "b": component("BF-1.0"), "c": component("1.0", comes_with="b")}


@pytest.mark.parametrize(
    ("targets", "hints", "desired", "changes"),
    [
        # Targets win over hints, and a version goes to all of them.
        (["a"], [Hint(("b",), "2.0")], {}, {"a": "2.0"}),
        (["a", "b"], [Hint((), "2.0")], {"a": "9"}, {"a": "2.0", "b": "2.0"}),
        # The first hint with a component, the first with a version.
        ([], [Hint(), Hint(("a",)), Hint(("b",), "3.0")], {}, {"a": "3.0"}),
        # The letters of the present version are those of the new one, where a name leaves them out.
        ([], [Hint(("b",), "2.0", bare=True)], {}, {"b": "BF-2.0"}),
        ([], [Hint(("b",), "2.0")], {}, {"b": "2.0"}),
        # Without a version: what is desired, or what is there.
        (["a"], [], {"a": "5"}, {"a": "5"}),
        (["a"], [], {"b": "5"}, {"a": "1.0"}),
        # What comes with it becomes what is desired of it.
        (["b"], [Hint((), "2.0")], {"c": "7"}, {"c": "7", "b": "2.0"}),
        # Without a component: the first desired version that is not there yet.
        ([], [], {"a": "1.0", "b": "BF-2", "c": "3"}, {"b": "BF-2"}),
        ([], [Hint((), "3")], {"a": "1.0", "b": "BF-2", "c": "3"}, {"c": "3"}),
        ([], [Hint((), "4")], {"b": "BF-2"}, {"b": "BF-2"}),
        ([], [], {"a": "1.0"}, {}),
        ([], [], {"gone": "1.0"}, {}),
        ([], [Hint((), "4")], {}, {}),
    ],
)
def test_what_changes(targets: list[str], hints: list[Hint], desired: dict[str, str], changes: dict[str, str]) -> None:
    assert images.changes(COMPONENTS, {}, desired, targets, hints) == changes


def test_an_upload_that_is_repeated_changes_the_same_until_the_version_is_there() -> None:
    desired = {"a": "2", "b": "BF-3"}
    assert images.changes(COMPONENTS, {}, desired, [], []) == {"a": "2"}
    assert images.changes(COMPONENTS, {"a": "2"}, desired, [], []) == {"b": "BF-3"}
    assert images.changes(COMPONENTS, desired, desired, [], []) == {}
