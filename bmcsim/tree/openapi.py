"""The OpenAPI document (DSP0266 6.7): which URIs a tree has, and their methods."""

from collections.abc import Iterable

import orjson

_MEMBER = "{id}"
_RESPONSES = {"default": {"description": "As the Redfish specification says"}}


def document(version: str, resources: Iterable[tuple[str, str]]) -> bytes:
    """The document as YAML, a line for each URI.

    version: of Redfish. resources: (URI, with * for a member of a dynamic collection; methods, as Allow has them).
    """
    rows = ["openapi: 3.0.1", f"info: {_flow({'title': 'Redfish', 'version': version})}", "paths:"]
    for uri, allow in resources:
        path = uri.replace("/*", f"/{_MEMBER}", 1)
        known: dict[str, object] = {method.lower(): {"responses": _RESPONSES} for method in allow.split(", ")}
        if path != uri:
            known["parameters"] = [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]
        rows.append(f"  {_flow(path)}: {_flow(known)}")
    return "\n".join([*rows, ""]).encode()


def _flow(value: object) -> str:
    """JSON is YAML in flow style."""
    return orjson.dumps(value).decode()
