"""CSDL: what the OData schema files of vendors say of types, properties and actions (OData CSDL 4.01, DSP0266 8.3)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from xml.etree import ElementTree

import msgspec

from bmcsim.tree.source import ProfileError

_EDMX = "{http://docs.oasis-open.org/odata/ns/edmx}"
_EDM = "{http://docs.oasis-open.org/odata/ns/edm}"
_COLLECTION = re.compile(r"Collection\((.+)\)")
_PATTERNS = "Redfish.DynamicPropertyPatterns"


class Property(NamedTuple):
    """type: that of the items for a collection. link: it is shown as a reference, not as what it leads to."""

    type: str
    collection: bool = False
    link: bool = False


class Definition(msgspec.Struct, frozen=True):
    """A structured type. base: the type that it extends, '' for none. abstract: only others that extend it are used.
    patterns: what the names of further properties look like (Redfish.DynamicPropertyPatterns)."""

    base: str
    abstract: bool
    properties: dict[str, Property]
    patterns: tuple[re.Pattern[str], ...] = ()


class Document(msgspec.Struct, frozen=True):
    """A schema file. name: of the file. namespaces: that it defines. references: URIs of files that it refers to.
    types: whole name -> definition. actions: whole name -> its parameters, without the one that it is bound to."""

    name: str
    content: bytes
    namespaces: frozenset[str]
    references: frozenset[str]
    types: dict[str, Definition]
    actions: dict[str, frozenset[str]]


class _Builder(ElementTree.TreeBuilder):
    """A document type can define entities that grow without end; no schema needs one."""

    def doctype(self, _name: str, _public: str | None, _system: str | None) -> None:
        raise ValueError("has a document type, which a schema does not need")


def parse(path: str, name: str, content: bytes) -> Document:
    """A schema file. path: as messages call it. Raises ProfileError for what is not CSDL."""
    try:
        root = ElementTree.fromstring(content, ElementTree.XMLParser(target=_Builder()))
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise ProfileError(f"{path}: is not an OData schema: {error}") from error
    schemas = {schema.get("Namespace", ""): schema for schema in root.findall(f"{_EDMX}DataServices/{_EDM}Schema")}
    if root.tag != f"{_EDMX}Edmx" or not schemas:
        raise ProfileError(f"{path}: is not an OData schema: needs Edmx with DataServices and a Schema inside")
    types: dict[str, Definition] = {}
    actions: dict[str, frozenset[str]] = {}
    for namespace, schema in schemas.items():
        for element in schema:
            whole = f"{namespace}.{element.get('Name')}"
            if element.tag in (f"{_EDM}EntityType", f"{_EDM}ComplexType"):
                types[whole] = _definition(path, whole, element)
            elif element.tag == f"{_EDM}Action":
                names = [one.get("Name", "") for one in element.findall(f"{_EDM}Parameter")]
                actions[whole] = frozenset(names[1:] if element.get("IsBound") == "true" else names)
    references = frozenset(reference.get("Uri", "") for reference in root.findall(f"{_EDMX}Reference"))
    return Document(name, content, frozenset(schemas), references, types, actions)


def _definition(path: str, whole: str, element: ElementTree.Element) -> Definition:
    properties: dict[str, Property] = {}
    for one in element:
        if one.tag in (f"{_EDM}Property", f"{_EDM}NavigationProperty"):
            type_ = one.get("Type", "")
            collection = _COLLECTION.fullmatch(type_)
            terms = {annotation.get("Term") for annotation in one.findall(f"{_EDM}Annotation")}
            link = one.tag == f"{_EDM}NavigationProperty" and "OData.AutoExpand" not in terms
            properties[one.get("Name", "")] = Property(collection[1] if collection else type_, bool(collection), link)
    try:
        patterns = tuple(re.compile(text) for text in _name_patterns(element))
    except (re.error, OverflowError, RecursionError) as error:
        raise ProfileError(f"{path}: {whole}: {_PATTERNS}: {error}") from error
    return Definition(element.get("BaseType", ""), element.get("Abstract") == "true", properties, patterns)


def _name_patterns(element: ElementTree.Element) -> Iterator[str]:
    for annotation in element.findall(f"{_EDM}Annotation"):
        if annotation.get("Term") == _PATTERNS:
            for value in annotation.iter(f"{_EDM}PropertyValue"):
                if value.get("Property") == "Pattern":
                    yield value.get("String", "")


_TEXT, _OEM = Property("Edm.String"), {"Oem": Property("Resource.Oem")}
_NAMED = {"Name": _TEXT, "Description": _TEXT, **_OEM}

_POWER_SUPPLY = {
    **dict.fromkeys(("HotPluggable", "LocationIndicatorActive", "Replaceable"), Property("Edm.Boolean")),
    **dict.fromkeys(
        ("FirmwareVersion", "Manufacturer", "Model", "PartNumber", "SerialNumber", "SparePartNumber", "Version"), _TEXT
    ),
    **dict.fromkeys(("ElectricalSourceManagerURIs", "ElectricalSourceNames"), Property("Edm.String", collection=True)),
    **dict.fromkeys(("InputNominalVoltageType", "OutputNominalVoltageType"), Property("Circuit.NominalVoltageType")),
    "Actions": Property("PowerSupply.v1_0_0.Actions"),
    "Assembly": Property("Assembly.Assembly", link=True),
    "Certificates": Property("CertificateCollection.CertificateCollection", link=True),
    "EfficiencyRatings": Property("PowerSupply.v1_0_0.EfficiencyRating", collection=True),
    "InputRanges": Property("PowerSupply.v1_0_0.InputRange", collection=True),
    "LineInputStatus": Property("PowerSupply.v1_3_0.LineStatus"),
    "Links": Property("PowerSupply.v1_0_0.Links"),
    "Location": Property("Resource.Location"),
    "Metrics": Property("PowerSupplyMetrics.PowerSupplyMetrics", link=True),
    "OutputRails": Property("PowerSupply.v1_0_0.OutputRail", collection=True),
    "PhaseWiringType": Property("Circuit.PhaseWiringType"),
    "PlugType": Property("Circuit.PlugType"),
    "PowerCapacityWatts": Property("Edm.Decimal"),
    "PowerSupplyType": Property("PowerSupply.v1_0_0.PowerSupplyType"),
    "ProductionDate": Property("Edm.DateTimeOffset"),
    "Status": Property("Resource.Status"),
}

_STANDARD_BASES: dict[str, dict[str, Property]] = {
    "PowerSupply.v1_6_0.PowerSupply": {"Id": _TEXT, **_NAMED, **_POWER_SUPPLY},
    "Resource.Item": _OEM,
    "Resource.OemObject": {},
    "Resource.v1_0_0.Resource": {"Id": _TEXT, **_NAMED},
    "Resource.v1_0_0.ResourceCollection": {**_NAMED, "Members": Property("", collection=True, link=True)},
}
"""What vendors' types extend -> its properties (DSP8010)."""


class Schemas:
    """The documents that describe a vendor's types together."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._types: dict[str, Definition] = {}
        self._actions: dict[str, frozenset[str]] = {}
        self._namespaces: dict[str, Document] = {}
        for document in documents:
            self._types.update(document.types)
            self._actions.update(document.actions)
            self._namespaces.update(dict.fromkeys(document.namespaces, document))

    def document(self, namespace: str) -> Document | None:
        """The file that defines a namespace."""
        return self._namespaces.get(namespace)

    def concrete(self, namespace: str) -> list[str]:
        """The names of the types of a namespace that are used themselves."""
        found = [(name.rpartition("."), definition) for name, definition in self._types.items()]
        return [short for (space, _, short), definition in found if space == namespace and not definition.abstract]

    def properties(self, type_: str) -> tuple[dict[str, Property], list[re.Pattern[str]]]:
        """The properties of a type and of those that it extends, and what the names of further ones look like."""
        definitions = list(self._lineage(type_))
        found = dict(_STANDARD_BASES.get(definitions[-1].base, {}) if definitions else {})
        for definition in reversed(definitions):
            found |= definition.properties
        return found, [pattern for definition in definitions for pattern in definition.patterns]

    def problems(self, value: Mapping[str, Any], type_: str, where: str) -> Iterator[str]:
        """What an object of a type has that no file describes, at any depth.

        type_: as in @odata.type, without #. where: the path to the object, '' for a resource.
        """
        definitions = list(self._lineage(type_))
        if not definitions:
            yield f"{where or 'type'}: no file in schemas describes the type {type_}"
            return
        if (base := definitions[-1].base) and base not in _STANDARD_BASES:
            yield f"{where or 'type'}: no file in schemas describes {base}, which {type_} extends"
            return
        properties, patterns = self.properties(type_)
        for key, item in value.items():
            place = f"{where}.{key}" if where else key
            if key.startswith("#"):
                yield from self._action_problems(key[1:], item, type_, place)
            elif key in properties:
                yield from self._inner_problems(item, properties[key].type, place)
            elif "@" not in key and key != "Oem" and not any(pattern.match(key) for pattern in patterns):
                yield f"{place}: the file of {type_} in schemas has no property {key}"

    def _inner_problems(self, value: Any, type_: str, where: str) -> Iterator[str]:
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from self._inner_problems(item, type_, f"{where}[{index}]")
        elif isinstance(value, dict) and value.keys() != {"@odata.id"}:
            own = value.get("@odata.type", f"#{type_}")[1:]
            if own in self._types or "@odata.type" in value:
                yield from self.problems(value, own, where)

    def _lineage(self, type_: str) -> Iterator[Definition]:
        """The definition of a type and of those that it extends, as far as files describe them."""
        seen: set[str] = set()
        while type_ in self._types and type_ not in seen:
            seen.add(type_)
            yield self._types[type_]
            type_ = self._types[type_].base

    def _action_problems(self, action: str, entry: Any, type_: str, where: str) -> Iterator[str]:
        """An action bears the name of its resource's type; one that does not has no place in a schema."""
        if action.rpartition(".")[0] == type_.partition(".")[0]:
            yield from self.action_problems(action, entry, where)

    def action_problems(self, action: str, entry: Mapping[str, Any], where: str) -> Iterator[str]:
        """What no file describes of an action, such as DellManager.ClearPending. entry: as its resource shows it."""
        parameters = self._actions.get(action)
        if parameters is None:
            yield f"{where}: no file in schemas describes the action {action}"
            return
        for key in entry:
            name, at, _ = key.partition("@Redfish.AllowableValues")
            if at and name not in parameters:
                yield f"{where}.{key}: the action {action} in schemas has no parameter {name}"
