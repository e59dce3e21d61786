"""Arrays in a PATCH (DSP0266 7.7)."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.redfish.patch import MAX_ITEMS, array_after
from bmcsim.tree.profile import WritableFacts
from tests.conftest import Client, message_ids
from tests.unit.redfish.conftest import SYSTEM, dpu_with
from tests.unit.redfish.test_patch import info

INTERFACE = SYSTEM + "/EthernetInterfaces/oob_net0"
VARIABLE = WritableFacts("strings")
FIXED = WritableFacts("strings", length=4)
RIGID = WritableFacts("strings", length=4, rigid=True)
ADDRESS = {
    "Address": {"type": "string", "pattern": r"[0-9.]+", "required": True},
    "Gateway": {"type": "string", "nullable": True},
}
FACTS = {
    INTERFACE: {
        "StaticNameServers": ["a", "b", None, None],
        "NameServers": ["a", "b", "c", None],
        "IPv4StaticAddresses": [{"Address": "1.1.1.1", "Gateway": None, "AddressOrigin": "Static"}],
        "writable": {
            "StaticNameServers": {"type": "strings", "length": 4},
            "NameServers": {"type": "strings", "length": 4, "rigid": True},
            "IPv4StaticAddresses": {"type": "objects", "max_items": 2, "properties": ADDRESS},
        },
    }
}

VALUES = st.text("abc", max_size=2)
CHANGES = st.lists(st.one_of(VALUES, st.none(), st.just({})), max_size=6)


@pytest.fixture
def client() -> Client:
    """A BlueField-3 whose interface has arrays of each kind."""
    return dpu_with(resources=FACTS)


@given(CHANGES, st.lists(VALUES, max_size=6))
def test_an_array_is_what_its_elements_say(change: list[Any], present: list[str]) -> None:
    """A slower way to say the same: first each element modifies or keeps, then those that are removed go."""
    modified = [
        (present[index] if index < len(present) else None) if one == {} else one for index, one in enumerate(change)
    ]
    expected = [one for one in modified if one is not None]
    assert array_after(change, present, VARIABLE) == expected


@given(CHANGES.filter(lambda change: len(change) <= 4), st.lists(VALUES, max_size=4))
def test_an_array_of_a_length_always_has_it(change: list[Any], elements: list[str]) -> None:
    present = elements + [None] * (4 - len(elements))
    fixed, rigid = array_after(change, present, FIXED), array_after(change, present, RIGID)
    assert len(fixed) == len(rigid) == 4
    kept = [one for one in fixed if one is not None]
    assert fixed == kept + [None] * (4 - len(kept))
    assert [one for one in rigid if one is not None] == kept
    for index, one in enumerate(change):
        assert rigid[index] == (present[index] if one == {} else one)


@given(CHANGES, st.lists(VALUES, max_size=6), st.sampled_from([VARIABLE, FIXED, RIGID]))
def test_to_keep_everything_changes_nothing(change: list[Any], present: list[str], facts: WritableFacts) -> None:
    after = array_after(change, present, facts)
    assert array_after([{}] * len(after), after, facts) == after


@given(st.lists(st.dictionaries(st.sampled_from("xyz"), st.integers(0, 3), min_size=1), max_size=4), st.data())
def test_an_object_in_an_array_changes_what_it_names(present: list[dict[str, int]], data: st.DataObject) -> None:
    change = data.draw(st.lists(st.dictionaries(st.sampled_from("xyz"), st.integers(0, 3)), max_size=len(present)))
    after = array_after(change, present, WritableFacts("objects"))
    assert after == [{**old, **new} for old, new in zip(present, change, strict=False)]


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("StaticNameServers", ["x"], ["x", None, None, None]),
        ("StaticNameServers", [None, {}], ["b", None, None, None]),
        ("StaticNameServers", [None, None, None, None], [None, None, None, None]),
        ("StaticNameServers", [], [None, None, None, None]),
        ("StaticNameServers", [{}, {}, {}, "x"], ["a", "b", "x", None]),
        ("StaticNameServers", [None] * 6 + ["x"], ["x", None, None, None]),
        ("NameServers", [{}, None, {}], ["a", None, "c", None]),
        ("NameServers", [None, "x", None], [None, "x", None, None]),
    ],
)
def test_null_fills_up_an_array_of_a_length(client: Client, name: str, change: list[Any], expected: list[Any]) -> None:
    """Row C24 of the bug reports: such an array is legal, and clients see it."""
    assert client.request("PATCH", INTERFACE, {name: change}).status == 204
    assert client.get(INTERFACE)[name] == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ([{"Address": "2.2.2.2"}], [{"Address": "2.2.2.2", "Gateway": None, "AddressOrigin": "Static"}]),
        ([{"Gateway": "9.9.9.9"}], [{"Address": "1.1.1.1", "Gateway": "9.9.9.9", "AddressOrigin": "Static"}]),
        ([None], []),
        ([], []),
        ([None, {"Address": "2.2.2.2"}], [{"Address": "2.2.2.2"}]),
        (
            [{}, {"Address": "2.2.2.2"}],
            [{"Address": "1.1.1.1", "Gateway": None, "AddressOrigin": "Static"}, {"Address": "2.2.2.2"}],
        ),
    ],
)
def test_objects_in_an_array(client: Client, change: list[Any], expected: list[Any]) -> None:
    assert client.request("PATCH", INTERFACE, {"IPv4StaticAddresses": change}).status == 204
    assert client.get(INTERFACE)["IPv4StaticAddresses"] == expected


PLACE = "#/IPv4StaticAddresses"


@pytest.mark.parametrize(
    ("body", "key", "related"),
    [
        ({"StaticNameServers": list("abcde")}, "ArraySizeTooLong", "#/StaticNameServers"),
        ({"NameServers": [None, None, None, None, "e"]}, "ArraySizeTooLong", "#/NameServers"),
        ({"StaticNameServers": [None] * (MAX_ITEMS + 1)}, "ArraySizeTooLong", "#/StaticNameServers"),
        ({"StaticNameServers": ["a", {"x": 1}]}, "PropertyValueTypeError", "#/StaticNameServers"),
        ({"StaticNameServers": [{}, {}, {}, {}, {}]}, "PropertyValueTypeError", "#/StaticNameServers"),
        ({"StaticNameServers": {}}, "PropertyValueTypeError", "#/StaticNameServers"),
        ({"StaticNameServers": None}, "PropertyValueTypeError", "#/StaticNameServers"),
        ({"IPv4StaticAddresses": [{}, {}]}, "PropertyValueTypeError", PLACE),
        ({"IPv4StaticAddresses": ["1.1.1.1"]}, "PropertyValueTypeError", PLACE),
        ({"IPv4StaticAddresses": [{"Address": "x"}]}, "PropertyValueFormatError", f"{PLACE}/0/Address"),
        ({"IPv4StaticAddresses": [{"Address": None}]}, "PropertyValueTypeError", f"{PLACE}/0/Address"),
        ({"IPv4StaticAddresses": [{"Nope": 1}]}, "PropertyUnknown", f"{PLACE}/0/Nope"),
        ({"IPv4StaticAddresses": [{"AddressOrigin": "x"}]}, "PropertyNotWritable", f"{PLACE}/0/AddressOrigin"),
        ({"IPv4StaticAddresses": [{}, {"Gateway": None}]}, "PropertyMissing", f"{PLACE}/1/Address"),
        ({"IPv4StaticAddresses": [{}, {"Address": "2"}, {"Address": "3"}]}, "ArraySizeTooLong", PLACE),
    ],
)
def test_what_an_array_does_not_take(client: Client, body: Any, key: str, related: str) -> None:
    before = client.get(INTERFACE)
    response = client.request("PATCH", INTERFACE, body)
    assert (response.status, message_ids(response)) == (400, [key])
    assert info(response)[0]["RelatedProperties"] == [related]
    assert client.get(INTERFACE) == before


def test_facts_of_arrays_are_read_as_they_are_written() -> None:
    facts = msgspec.convert({"type": "objects", "properties": ADDRESS, "max_items": 3}, WritableFacts)
    assert facts.properties["Address"].required
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"type": "strings", "max_items": 65}, WritableFacts)


def test_the_privileges_of_a_role_are_an_array_like_others(dpu: Client) -> None:
    roles = "/redfish/v1/AccountService/Roles"
    body = {"RoleId": "r", "AssignedPrivileges": ["Login", None, "ConfigureSelf"]}
    assert dpu.request("POST", roles, body).status == 201
    assert dpu.get(roles + "/r")["AssignedPrivileges"] == ["Login", "ConfigureSelf"]
    assert dpu.request("PATCH", roles + "/r", {"AssignedPrivileges": [None, {}, "ConfigureUsers"]}).status == 204
    assert dpu.get(roles + "/r")["AssignedPrivileges"] == ["ConfigureSelf", "ConfigureUsers"]
