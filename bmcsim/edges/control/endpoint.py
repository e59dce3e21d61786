"""Endpoints as values: what each takes and gives is a type, which checks the request and makes the OpenAPI document."""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
import orjson
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from bmcsim.edges.control.guard import Guard, Refused

OPENAPI = "/api/v1/openapi.json"
JSON = "application/json"
MAX_BODY = 4 * 1024 * 1024
_REFERENCE = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)\}")


class ControlError(Exception):
    """A request that cannot be granted. status: HTTP. The text says what would be right."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Problem(msgspec.Struct):
    """Why a request was refused (RFC 9457). detail: what would be right."""

    title: str
    status: int
    detail: str


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """An empty object."""


class Call(msgspec.Struct):
    """One request. path: parameters of the path. query, body: of the endpoint's types.

    noted: what the handler of a change says of it for the audit log; never a secret.
    """

    path: Mapping[str, str]
    query: Any
    body: Any
    request: Request
    noted: dict[str, Any] = {}

    @property
    def peer(self) -> str:
        """The address of who asks, '' for unknown."""
        return self.request.client.host if self.request.client is not None else ""


Handler = Callable[[Call], Any | Awaitable[Any]]
"""Gives a value of the endpoint's answer type, or a Response. Raises ControlError."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path.

    query, body: types of what comes; answer: of what goes, None for no content. media: of an answer that is not JSON.
    refusals: statuses that it may answer besides 400 and those of the guard. limit: bytes of the body.
    reads: a POST that changes nothing. secret: a GET that is guarded as a change is. takes: media type of the body; one
    that is not JSON is read by the handler from `Call.request`.
    """

    method: str
    path: str
    summary: str
    handler: Handler
    query: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] = Nothing
    answer: Any = None
    status: int = 200
    media: str = "application/json"
    refusals: Sequence[int] = ()
    limit: int = MAX_BODY
    reads: bool = False
    secret: bool = False
    takes: str = JSON

    @property
    def changes(self) -> bool:
        """Whether it is guarded as one that changes something."""
        return self.secret or (self.method != "GET" and not self.reads)


Serve = Callable[[Request], Awaitable[Response]]

Changed = Callable[[Endpoint, Call], None]
"""Told of each change that was made or begun."""

Answered = Callable[[int], None]
"""Told the status of each answer."""


def routes(
    endpoints: Sequence[Endpoint],
    guard: Guard,
    version: str,
    changed: Changed | None = None,
    answered: Answered | None = None,
) -> list[BaseRoute]:
    """Starlette's routes of endpoints, and of the document that describes them."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for one in endpoints:
        by_path.setdefault(one.path, {})[one.method] = one
    described = orjson.dumps(document(endpoints, guard, version))

    async def openapi(request: Request) -> Response:
        try:
            guard.check(request.headers, changes=False)
        except Refused as refused:
            return problem(refused.status, str(refused))
        return Response(described, media_type="application/json")

    return [
        Route(OPENAPI, openapi),
        *[
            Route(path, _counted(_serving(methods, guard, changed), answered), methods=list(methods))
            for path, methods in by_path.items()
        ],
    ]


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """A refusal."""
    body = msgspec.json.encode(Problem(_TITLES.get(status, "Error"), status, detail))
    return Response(body, status, headers, media_type="application/problem+json")


async def unrouted(_request: Request, error: Exception) -> Response:
    """The refusal of a request that no route takes (404, 405), for Starlette."""
    assert isinstance(error, HTTPException)
    return problem(error.status_code, f"{error.detail}: {OPENAPI} says what there is", error.headers)


def _counted(serve: Serve, answered: Answered | None) -> Serve:
    if answered is None:
        return serve
    tell = answered

    async def counted(request: Request) -> Response:
        status = 500
        try:
            response = await serve(request)
            status = response.status_code
            return response
        finally:
            tell(status)

    return counted


def _serving(methods: Mapping[str, Endpoint], guard: Guard, changed: Changed | None) -> Serve:
    async def serve(request: Request) -> Response:
        # Starlette answers HEAD where there is GET.
        endpoint = methods["GET" if request.method == "HEAD" else request.method]
        try:
            guard.check(request.headers, changes=endpoint.changes, typed=endpoint.method != "GET", media=endpoint.takes)
            call = Call(request.path_params, _query(endpoint, request), await _body(endpoint, request), request)
            answer = endpoint.handler(call)
            if inspect.isawaitable(answer):
                answer = await answer
            if changed is not None and endpoint.changes:
                changed(endpoint, call)
        except Refused as refused:
            headers = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else None
            return problem(refused.status, str(refused), headers)
        except ControlError as error:
            return problem(error.status, str(error))
        except ClientDisconnect:
            return problem(400, "the body is cut off")
        if isinstance(answer, Response):
            return answer
        if answer is None:
            return Response(status_code=204)
        return Response(msgspec.json.encode(answer), endpoint.status, media_type=endpoint.media)

    return serve


def _query(endpoint: Endpoint, request: Request) -> Any:
    """The query as the endpoint's type; a field that is a list may be there several times. Raises ControlError."""
    given: dict[str, Any] = {}
    lists = {field.encode_name for field in msgspec.structs.fields(endpoint.query) if _is_list(field.type)}
    for name, value in request.query_params.multi_items():
        if name in lists:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise ControlError(400, f"the query has {name} more than once")
        else:
            given[name] = value
    try:
        return msgspec.convert(given, endpoint.query, strict=False)
    except msgspec.ValidationError as error:
        raise ControlError(400, f"the query is wrong: {error}") from error


def _is_list(kind: Any) -> bool:
    return any(getattr(one, "__origin__", one) is list for one in (kind, *getattr(kind, "__args__", ())))


async def _body(endpoint: Endpoint, request: Request) -> Any:
    """The body as the endpoint's type. Raises ControlError."""
    if endpoint.method == "GET" or endpoint.takes != JSON:
        return None
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > endpoint.limit:
            raise ControlError(413, f"the body is larger than {endpoint.limit} bytes")
    try:
        return msgspec.json.decode(bytes(body) or b"{}", type=endpoint.body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ControlError(400, f"the body is wrong: {error}") from error


# the document


def document(endpoints: Sequence[Endpoint], guard: Guard, version: str) -> dict[str, Any]:
    """The OpenAPI 3.1 document of endpoints."""
    types: list[Any] = [Problem]
    for one in endpoints:
        types += [kind for kind in (one.body, one.answer) if kind not in (None, Nothing) and kind not in types]
    queries = list(dict.fromkeys(one.query for one in endpoints))
    schemas, components = msgspec.json.schema_components([*types, *queries], ref_template=_REFERENCE)
    shown = {repr(kind): schema for kind, schema in zip(types, schemas[: len(types)], strict=True)}
    for kind, schema in zip(queries, schemas[len(types) :], strict=True):
        # Each field of a query is a parameter of its own.
        shown[repr(kind)] = components.pop(schema["$ref"].rpartition("/")[2])
    paths: dict[str, Any] = {}
    for one in endpoints:
        paths.setdefault(_PARAMETER.sub(r"{\1}", one.path), {})[one.method.lower()] = _operation(one, guard, shown)
    return {
        "openapi": "3.1.0",
        "info": {"title": "bmcsim", "version": version, "summary": "See and steer a fleet of simulated BMCs"},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint, guard: Guard, shown: Mapping[str, Any]) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    if endpoint.answer is None:
        answers["204" if endpoint.status == 200 else str(endpoint.status)] = {"description": "Done."}
    else:
        answers[str(endpoint.status)] = {
            "description": "What was asked for.",
            "content": {endpoint.media: {"schema": shown[repr(endpoint.answer)]}},
        }
    refusals = {400, 403, *endpoint.refusals}
    if endpoint.method != "GET":
        refusals.add(413)
    if endpoint.changes:
        refusals |= ({401} if guard.wants_token else set()) | ({415} if endpoint.method != "GET" else set())
    for status in sorted(refusals):
        answers[str(status)] = {
            "description": _TITLES.get(status, "Error"),
            "content": {"application/problem+json": {"schema": shown[repr(Problem)]}},
        }
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": _operation_id(endpoint),
        "parameters": [*_path_parameters(endpoint), *_query_parameters(shown[repr(endpoint.query)])],
        "responses": answers,
    }
    if endpoint.method != "GET":
        schema = {"type": "object"} if endpoint.body is Nothing else shown[repr(endpoint.body)]
        needed = any(field.required for field in msgspec.structs.fields(endpoint.body))
        if endpoint.takes != JSON:
            schema, needed = {"type": "string", "format": "binary"}, True
        operation["requestBody"] = {"required": needed, "content": {endpoint.takes: {"schema": schema}}}
    if endpoint.changes and guard.wants_token:
        operation["security"] = [{"token": []}]
    return operation


def _operation_id(endpoint: Endpoint) -> str:
    words = re.findall(r"\w+", endpoint.path.removeprefix("/api/v1"))
    return "_".join([endpoint.method.lower(), *words])


def _path_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(endpoint.path)
    ]


def _query_parameters(query: Mapping[str, Any]) -> list[dict[str, Any]]:
    properties, required = query.get("properties", {}), query.get("required", ())
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "schema": {key: value for key, value in shape.items() if key != "description"},
        }
        for name, shape in properties.items()
    ]


_TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    429: "Too Many Requests",
    503: "Service Unavailable",
    507: "Insufficient Storage",
}
