"""CSDL of vendors: what is read of it, what is refused, and what it finds in a resource."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.tree.csdl import Document, Property, Schemas, parse
from bmcsim.tree.source import ProfileError

HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">
  <edmx:Reference Uri="/redfish/v1/schemas/Other_v1.xml"><edmx:Include Namespace="Other"/></edmx:Reference>
  <edmx:DataServices>
"""
TAIL = "</edmx:DataServices></edmx:Edmx>"
EDM = 'xmlns="http://docs.oasis-open.org/odata/ns/edm"'
ACME = f"""
<Schema {EDM} Namespace="Acme">
  <EntityType Name="Acme" BaseType="Resource.v1_0_0.Resource" Abstract="true"/>
  <Action Name="Jump" IsBound="true">
    <Parameter Name="Acme" Type="Acme.v1_0_0.Actions"/><Parameter Name="Height" Type="Edm.String"/>
  </Action>
</Schema>
<Schema {EDM} Namespace="Acme.v1_0_0">
  <EntityType Name="Acme" BaseType="Acme.Acme">
    <Property Name="Colour" Type="Edm.String"/>
    <Property Name="Actions" Type="Acme.v1_0_0.Actions"/>
    <NavigationProperty Name="Friends" Type="Collection(Acme.Acme)"/>
    <Property Name="Parts" Type="Collection(Acme.v1_0_0.Part)"/>
    <Property Name="Table" Type="Acme.v1_0_0.Table"/>
    <Property Name="Status" Type="Resource.Status"/>
  </EntityType>
  <ComplexType Name="Actions"/>
  <ComplexType Name="Part"><Property Name="Size" Type="Edm.Int64"/></ComplexType>
  <ComplexType Name="Table">
    <Annotation Term="Redfish.DynamicPropertyPatterns">
      <Collection><Record>
        <PropertyValue Property="Pattern" String="^[a-z]+$"/><PropertyValue Property="Type" String="Edm.String"/>
      </Record></Collection>
    </Annotation>
  </ComplexType>
</Schema>
"""


def document(text: str = ACME) -> Document:
    """A document whose schemas are given."""
    return parse("a/Acme_v1.xml", "Acme_v1.xml", (HEAD + text + TAIL).encode())


def problems(**value: Any) -> list[str]:
    """What is wrong with a resource of the type of the example."""
    return list(Schemas([document()]).problems(value, "Acme.v1_0_0.Acme", ""))


def test_a_document_knows_what_it_defines_and_what_it_refers_to() -> None:
    found = document()
    assert (found.name, found.namespaces) == ("Acme_v1.xml", {"Acme", "Acme.v1_0_0"})
    assert found.references == {"/redfish/v1/schemas/Other_v1.xml"}
    assert found.actions == {"Acme.Jump": {"Height"}}
    assert found.types["Acme.v1_0_0.Acme"].properties["Parts"] == Property("Acme.v1_0_0.Part", collection=True)
    assert found.types["Acme.v1_0_0.Acme"].properties["Friends"] == Property("Acme.Acme", collection=True, link=True)
    assert Schemas([found]).document("Acme.v1_0_0") is found
    assert Schemas([found]).document("Acme.v1_1_0") is None


def test_what_is_described_is_fine() -> None:
    assert not problems(
        Id="1",
        Colour="${serial}",
        Friends=[{"@odata.id": "/x"}],
        Parts=[{"Size": 1}],
        Table={"abc": 1},
        Status={"Anything": 1},
        Oem={"Other": {}},
        Actions={
            "#Acme.Jump": {"target": "/x", "Height@Redfish.AllowableValues": ["High"]},
            "#Foreign.Name": {"target": "/y"},
        },
        **{"@odata.id": "/a", "Friends@odata.count": 1, "@Redfish.Settings": {"Odd": 1}},
    )


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"Color": "red"}, "Color: the file of Acme.v1_0_0.Acme in schemas has no property Color"),
        ({"Parts": [{}, {"Weight": 1}]}, "Parts[1].Weight: the file of Acme.v1_0_0.Part in schemas has no property"),
        ({"Table": {"ABC": 1}}, "Table.ABC: the file of Acme.v1_0_0.Table"),
        ({"Actions": {"#Acme.Fly": {}}}, "Actions.#Acme.Fly: no file in schemas describes the action Acme.Fly"),
        (
            {"Actions": {"#Acme.Jump": {"Width@Redfish.AllowableValues": []}}},
            "the action Acme.Jump in schemas has no parameter Width",
        ),
        (
            {"Status": {"@odata.type": "#Other.v1_0_0.Other", "X": 1}},
            "Status: no file in schemas describes the type Other.v1_0_0.Other",
        ),
    ],
)
def test_what_is_not_described_is_found_by_its_path(value: dict[str, Any], problem: str) -> None:
    (one,) = problems(**value)
    assert problem in one


def test_a_type_that_no_file_has_or_that_extends_one_is_found() -> None:
    schemas = Schemas([document()])
    assert list(schemas.problems({}, "Acme.v1_1_0.Acme", "Oem.Acme")) == [
        "Oem.Acme: no file in schemas describes the type Acme.v1_1_0.Acme"
    ]
    broken = Schemas([document(ACME.replace("Resource.v1_0_0.Resource", "Gone.v1_0_0.Gone"))])
    (one,) = broken.problems({"Colour": 1}, "Acme.v1_0_0.Acme", "")
    assert one == "type: no file in schemas describes Gone.v1_0_0.Gone, which Acme.v1_0_0.Acme extends"


def test_types_that_extend_each_other_come_to_an_end() -> None:
    circle = ACME.replace('BaseType="Resource.v1_0_0.Resource"', 'BaseType="Acme.v1_0_0.Acme"')
    assert list(Schemas([document(circle)]).problems({"Colour": 1}, "Acme.v1_0_0.Acme", ""))


BOMB = '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not an OData schema"),
        (b"{}", "is not an OData schema"),
        (b"<a/>", "needs Edmx with DataServices and a Schema inside"),
        ((HEAD + TAIL).encode(), "needs Edmx with DataServices and a Schema inside"),
        ((HEAD + ACME + TAIL).replace("<edmx:Edmx", f"{BOMB}<edmx:Edmx", 1).encode(), "has a document type"),
        ((HEAD + ACME + TAIL).replace("UTF-8", "KLINGON").encode(), "is not an OData schema"),
        ((HEAD + ACME.replace("^[a-z]+$", "([") + TAIL).encode(), "Acme.v1_0_0.Table: Redfish.DynamicPropertyPatterns"),
        *[
            ((HEAD + ACME.replace("^[a-z]+$", hostile) + TAIL).encode(), "Redfish.DynamicPropertyPatterns")
            for hostile in ("a{99999999999999999999}", "(" * 3000 + ")" * 3000, "[a-z")
        ],
    ],
)
def test_what_is_not_csdl_is_refused_by_name(content: bytes, problem: str) -> None:
    with pytest.raises(ProfileError, match=re.escape(problem)) as refused:
        parse("a/Acme_v1.xml", "Acme_v1.xml", content)
    assert str(refused.value).startswith("a/Acme_v1.xml: ")


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: (HEAD + text + TAIL).encode())))
def test_any_bytes_are_a_document_or_an_error(content: bytes) -> None:
    try:
        assert parse("x.xml", "x.xml", content).namespaces
    except ProfileError as error:
        assert str(error).startswith("x.xml: ")
