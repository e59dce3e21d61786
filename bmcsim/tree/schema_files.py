"""Schema files that BMCs serve themselves: those of vendors beside the profiles, and those that an operator has.

Files are read once for the process, and no client's target ever reaches the file system.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import orjson

from bmcsim.tree import csdl, json_schema
from bmcsim.tree.csdl import Document, Schemas
from bmcsim.tree.source import ProfileError, files_of

LIMIT = 4 * 1024 * 1024
"""Bytes of one file."""

MOST = 20_000
"""Files of one folder; all of DMTF's, in all versions, are some 5,000."""

FOLDERS = ("", "json-schema", "csdl")
"""Where an operator's folder has its files: directly, or as DMTF's bundle has them (DSP8010)."""

_PLACE = "/redfish/v1/schemas"
_JSON_TYPE, _CSDL_TYPE = b"application/json", b"application/xml"
_JSON = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.v\d+_\d+_\d+)?\.json")
_CSDL = re.compile(r"[A-Za-z][A-Za-z0-9_]*_v\d+\.xml")


class Served(NamedTuple):
    """A file as it is served. media: its type."""

    media: bytes
    content: bytes


class SchemaFiles:
    """The JSON schemas and CSDL files of an operator's folder. One that no profile uses is not read."""

    def __init__(self, folder: Path) -> None:
        """Raises ProfileError for a folder that cannot be read, or has too many files."""
        self._paths: dict[str, Path] = {}
        self._contents: dict[str, bytes] = {}
        for path in [path for inner in FOLDERS for path in files_of(folder, _is_schema, inner)]:
            self._paths.setdefault(path.name, path)
            if len(self._paths) > MOST:
                raise ProfileError(f"{folder}: has more than {MOST} schema files")

    def __contains__(self, name: str) -> bool:
        return name in self._paths

    def content(self, name: str) -> bytes:
        """A file of the folder. Raises ProfileError for one that is not what its name says, or too large."""
        if name not in self._contents:
            path = self._paths[name]
            data = _read(path)
            (_check_json if name.endswith(".json") else _check_csdl)(path, data)
            self._contents[name] = data
        return self._contents[name]


def _is_schema(name: str) -> bool:
    return (_JSON.fullmatch(name) or _CSDL.fullmatch(name)) is not None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(LIMIT + 1)
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read: {error}") from error
    if len(data) > LIMIT:
        raise ProfileError(f"{path}: is larger than {LIMIT >> 20} MiB")
    return data


def _check_json(path: Path, data: bytes) -> None:
    try:
        schema = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ProfileError(f"{path}: {error}") from error
    if not isinstance(schema, dict) or "$schema" not in schema:
        raise ProfileError(f"{path}: is not a JSON schema: it has no $schema")


def _check_csdl(path: Path, data: bytes) -> None:
    wanted = path.name.rpartition("_v")[0]
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise ProfileError(f"{path}: is not UTF-8: {error}") from error
    if wanted not in csdl.parse(str(path), path.name, data).namespaces:
        raise ProfileError(f"{path}: defines no namespace {wanted}")


def vendors(folders: Iterable[Path]) -> tuple[Document, ...]:
    """The CSDL files of folders, in the order of their names; of two files of one name the first folder's counts.

    Raises ProfileError for a file that is not CSDL or has a namespace of another one.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        for path in folder.glob("*.xml"):
            found.setdefault(path.name, path)
    documents: list[Document] = []
    owners: dict[str, Path] = {}
    for _, path in sorted(found.items()):
        try:
            facts = path.stat()
        except OSError as error:
            raise ProfileError(f"{path}: cannot be read: {error.strerror}") from error
        document = _document(path, facts.st_mtime_ns, facts.st_size)
        for namespace in document.namespaces:
            if owners.setdefault(namespace, path) is not path:
                raise ProfileError(f"{path}: the namespace {namespace} is in {owners[namespace]} already")
        documents.append(document)
    return tuple(documents)


@lru_cache(1024)
def _document(path: Path, _changed: int, _size: int) -> Document:
    """Each load of a profile asks for all files, so an unchanged one is not parsed again."""
    return csdl.parse(str(path), path.name, _read(path))


class Local:
    """The schema files that one tree serves.

    files: URI -> file. csdl: schema, such as Chassis -> URI of its CSDL.
    """

    def __init__(self, namespaces: Iterable[str], documents: Sequence[Document], own: SchemaFiles | None) -> None:
        """namespaces: that the tree uses, such as Chassis.v1_25_0. documents: of vendors. own: of the operator."""
        self.files: dict[str, Served] = {}
        self.csdl: dict[str, str] = {}
        self._json: dict[str, str] = {}
        self._described = Schemas(documents)
        self._by_uri = {f"{_PLACE}/{document.name}": document for document in documents}
        for namespace in sorted(set(namespaces)):
            schema = namespace.partition(".")[0]
            if (document := self._described.document(schema)) is not None:
                self.csdl[schema] = self._serve_vendors(document)
            if own is not None:
                self._serve_own(own, schema, namespace)

    def _serve_own(self, own: SchemaFiles, schema: str, namespace: str) -> None:
        for name in (schema, namespace):
            if f"{name}.json" in own:
                self._json[name] = self._serve(f"{name}.json", _JSON_TYPE, own.content(f"{name}.json"))
        if f"{schema}_v1.xml" in own:
            self.csdl[schema] = self._serve(f"{schema}_v1.xml", _CSDL_TYPE, own.content(f"{schema}_v1.xml"))

    def _serve(self, name: str, media: bytes, content: bytes) -> str:
        uri = f"{_PLACE}/{name}"
        self.files[uri] = Served(media, content)
        return uri

    def _serve_vendors(self, document: Document) -> str:
        """Serve a vendor's file, its types as JSON schemas, and the files that it refers to by a URI of this place."""
        uri = f"{_PLACE}/{document.name}"
        if uri not in self.files:
            self._serve(document.name, _CSDL_TYPE, document.content)
            for namespace in sorted(document.namespaces):
                if (schema := json_schema.document(self._described, namespace, _PLACE)) is not None:
                    self._json[namespace] = self._serve(f"{namespace}.json", _JSON_TYPE, schema)
            for other in document.references & self._by_uri.keys():
                self._serve_vendors(self._by_uri[other])
        return uri

    def of_schema(self, schema: str) -> str | None:
        """The URI of what stands for all versions of a schema, else for the newest that there is, else of its CSDL."""
        versions = sorted((name for name in self._json if name.partition(".")[0] == schema), key=_version)
        return self._json[(schema if schema in versions else versions[-1])] if versions else self.csdl.get(schema)

    def of_type(self, type_: str) -> str | None:
        """The URI of the JSON schema of a type's version."""
        return self._json.get(type_.rpartition(".")[0])


def _version(namespace: str) -> list[int]:
    """Chassis.v1_25_0 -> [1, 25, 0]."""
    return [int(number) for number in re.findall(r"\d+", namespace.partition(".")[2])]
