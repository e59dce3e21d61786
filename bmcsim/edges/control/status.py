"""machine-a-tron's control interface on the Redfish port: status of devices and racks, and the fault rules of each BMC.

Its paths win over those of BMCs. What it says, methods, statuses and texts are machine-a-tron's; ours are `?limit=` and
`?after=`, gzip, entity tags, and who may change something where others than this machine can reach the port.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any
from urllib.parse import unquote

import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bmcsim.core.clock import Moment
from bmcsim.edges.control.context import Control
from bmcsim.edges.control.endpoint import ControlError
from bmcsim.edges.control.guard import Guard, Refused
from bmcsim.fleet.config import FleetConfig
from bmcsim.fleet.devices import Describer, mat_id
from bmcsim.fleet.status import Board, Document, machines_board, racks_board
from bmcsim.machine.actions import Action
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.fault_rules import FaultError, to_json
from bmcsim.machine.identity import mac_colons
from bmcsim.redfish import injection
from bmcsim.redfish.conditions import GZIP_SUFFIX, matches
from bmcsim.redfish.exchange import head_of

MAX_PAGE = 10_000
_PAGE = 1000
_TURN_SECONDS = 0.001
_FORGET_SECONDS = 300.0
_WRITE_BYTES = 128 * 1024
_IDS_AT_ONCE = 250
_NOTHING_DECLARED = {"registered": 0, "already_present": 0, "failed_identifiers": []}

_RULES = re.compile(r"/machines/([^/]+)/bmc/injection/rules(?:/([^/]+))?")
_RACK = re.compile(r"/racks/([^/]+)/status")

Handler = Callable[[Request], Any]


class Current:
    """The documents of a board as they are asked for. Whoever asks gets what was so after the question; all who ask
    while one is made get the next one, and only one is made at a time."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self._lock = asyncio.Lock()
        self._begun = self._done = 0
        self._used = 0.0
        self._forgets: asyncio.TimerHandle | None = None

    async def document(self, *, packed: bool = False) -> Document:
        """The document. packed: with its gzip form."""
        board, asked = self.board, self._begun
        self._keep()
        async with self._lock:
            if self._done <= asked:
                self._begun += 1
                await _in_turns(board.refreshing())
                self._done = self._begun
            if packed:
                await _in_turns(board.packing())
            assert board.document is not None
            return board.document

    def _keep(self) -> None:
        """Keep what is encoded for as long as somebody asks now and then."""
        loop = asyncio.get_running_loop()
        self._used = loop.time()
        if self._forgets is None:
            self._forgets = loop.call_later(_FORGET_SECONDS, self._forget)

    def _forget(self) -> None:
        loop = asyncio.get_running_loop()
        left = self._used + _FORGET_SECONDS - loop.time()
        if left > 0 or self._lock.locked():
            self._forgets = loop.call_later(max(1.0, left), self._forget)
        else:
            self._forgets = None
            self.board.forget()


async def _in_turns(steps: Iterable[None]) -> None:
    """Do something in steps, with a turn for others about every millisecond."""
    began = time.perf_counter()
    for _ in steps:
        if time.perf_counter() - began > _TURN_SECONDS:
            await asyncio.sleep(0)
            began = time.perf_counter()


def epoch_of(started: float) -> str:
    """Seconds since the epoch -> RFC 3339 in UTC with nine digits of the second."""
    seconds = int(started)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{int((started - seconds) * 1e9):09d}Z"


def inventory_id(config: FleetConfig) -> str:
    """What names the inventory of a fleet: its block of hardware MACs."""
    return f"mat-{mac_colons(config.hw_ranges.base)}"


class Compatible:
    """The interface.

    port: of the Redfish listener, as status says it. guard: of what changes something, None where anybody may. page: of
    the path /. machine_ids: id of a BMC -> the id that NICo has for its machine, where that is known.
    """

    def __init__(
        self,
        control: Control,
        port: int,
        *,
        guard: Guard | None = None,
        page: ASGIApp | None = None,
        machine_ids: Mapping[str, str] | None = None,
    ) -> None:
        self._control, self._guard, self.page = control, guard, page
        fleet, describer = control.fleet, Describer(port, machine_ids=machine_ids)
        self._describer = describer
        self._config: FleetConfig | None = None
        self._types: dict[str, str] = {}
        self._machines = Current(
            machines_board(fleet, describer, inventory_id(control.config), epoch_of(control.started))
        )
        self._racks = Current(racks_board(fleet, describer, lambda bmc: self._types.get(bmc.shared.group, "")))
        # mat_id -> BMC, made when one is asked for, and the version of the fleet that it is of.
        self._by_mat_id: dict[str, Bmc] = {}
        self._version = -1

    def _follow(self) -> None:
        """Take over what groups there are now."""
        config = self._control.config
        if config is not self._config:
            self._config = config
            self._describer.nic_mode = frozenset([group.name for group in config.groups if group.dpus_in_nic_mode])
            self._types = {group.name: group.rack_type for group in config.groups}

    def at(self, path: str) -> ASGIApp | None:
        """What answers requests for a path, None for a path of BMCs. path: as it was sent, without the query."""
        if path == "/":
            return self.page
        self._follow()
        fixed = {
            "/machines/status": self._machines_status,
            "/racks/status": self._racks_status,
            "/expected-inventory/status": self._expected,
        }.get(path)
        if fixed is not None:
            return _app({"GET": fixed})
        if (match := _RACK.fullmatch(path)) is not None:
            id_ = unquote(match[1])
            return _app({"GET": lambda request: self._rack_status(request, id_)})
        if (match := _RULES.fullmatch(path)) is not None:
            return self._rules(unquote(match[1]), unquote(match[2]) if match[2] is not None else None)
        return None

    # status

    async def _machines_status(self, request: Request) -> Response:
        query = request.query_params
        if "limit" not in query and "after" not in query:
            return await _whole(self._machines, request)
        text = query.get("limit", str(_PAGE))
        if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= MAX_PAGE:
            return PlainTextResponse(f"limit must be a number from 1 to {MAX_PAGE}", 400)
        document = await self._machines.document()
        try:
            machines, following = self._machines.board.page(int(text), query.get("after", ""))
        except KeyError:
            return PlainTextResponse("after must be the mat_id of a machine; begin again without it", 400)
        tail = b'],"next":"%b"}' % following.encode() if following else b"]}"
        body = document.pieces[0] + b",".join(machines) + tail
        etag = b'"%b"' % blake2b(body, digest_size=16).hexdigest().encode()
        if matches(_condition(request), etag, strong=False):
            return Response(status_code=304, headers=_headers(etag))
        return Response(body, media_type="application/json", headers=_headers(etag))

    async def _racks_status(self, request: Request) -> Response:
        return await _whole(self._racks, request)

    async def _rack_status(self, _request: Request, id_: str) -> Response:
        await self._racks.document()
        rack = self._racks.board.section(id_)
        if rack is None:
            return PlainTextResponse("rack not found", 404)
        return Response(rack, media_type="application/json")

    async def _expected(self, _request: Request) -> Response:
        registration = self._control.registration
        return JSONResponse(_NOTHING_DECLARED if registration is None else registration())

    # rules

    def _rules(self, id_: str, rule: str | None) -> ASGIApp:
        async def listed(_request: Request) -> Response:
            bmc = await self._find(id_)
            return _NO_DEVICE if bmc is None else _rules_of(bmc)

        async def put(request: Request) -> Response:
            if (refusal := self._refusal(request)) is not None:
                return refusal
            media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if media != "application/json" and not (media.startswith("application/") and media.endswith("+json")):
                return PlainTextResponse("Expected request with `Content-Type: application/json`", 415)
            try:
                value = orjson.loads(await request.body())
            except orjson.JSONDecodeError as error:
                return PlainTextResponse(f"Failed to parse the request body as JSON: {error}", 400)

            def upsert(bmc: Bmc, moment: Moment) -> Sequence[Action]:
                rules = bmc.state.faults.upsert(injection.rule_of(value, moment.wall))
                bmc.become(moment, faults=rules)
                return ()

            bmc = await self._find(id_)
            if bmc is None:
                return _NO_DEVICE
            try:
                await self._control.apply(bmc, upsert)
            except FaultError as error:
                text = f"Failed to deserialize the JSON body into the target type: {error}"
                return PlainTextResponse(text, 422)
            except ControlError as error:
                return PlainTextResponse(str(error), error.status)
            self._note(request, bmc, "Set a fault rule", value["id"])
            return _rules_of(bmc)

        async def delete(request: Request) -> Response:
            if (refusal := self._refusal(request, typed=False)) is not None:
                return refusal
            bmc = await self._find(id_)
            if bmc is None:
                return _NO_DEVICE

            def remove(bmc: Bmc, moment: Moment) -> Sequence[Action]:
                bmc.become(moment, faults=bmc.state.faults.remove(rule or ""))
                return ()

            try:
                await self._control.apply(bmc, remove)
            except KeyError:
                return PlainTextResponse(f"BMC injection rule not found: {rule}", 404)
            except ControlError as error:
                return PlainTextResponse(str(error), error.status)
            self._note(request, bmc, "Delete a fault rule", rule or "")
            return _rules_of(bmc)

        return _app({"GET": listed, "POST": put} if rule is None else {"DELETE": delete})

    def _refusal(self, request: Request, *, typed: bool = True) -> Response | None:
        """Why a request may not change anything, None if it may."""
        if self._guard is None:
            return None
        try:
            self._guard.check(request.headers, changes=True, typed=typed)
        except Refused as refused:
            headers = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else None
            return PlainTextResponse(str(refused), refused.status, headers)
        return None

    def _note(self, request: Request, bmc: Bmc, what: str, rule: str) -> None:
        peer = request.client.host if request.client is not None else ""
        self._control.audit.record(peer, request.method, request.url.path, what, {"bmc": bmc.id, "rule": rule})

    async def _find(self, id_: str) -> Bmc | None:
        """The BMC of a mat_id, of an id that NICo has for a machine, or with an id of ours."""
        fleet = self._control.fleet
        if (bmc := fleet.by_id(id_)) is not None:
            return bmc
        for own, known in self._describer.machine_ids.items():
            if known == id_:
                return fleet.by_id(own)
        bmc = self._by_mat_id.get(id_)
        if (bmc is None or fleet.by_id(bmc.id) is not bmc) and self._version != fleet.version:
            await self._index()
            bmc = self._by_mat_id.get(id_)
        return bmc

    async def _index(self) -> None:
        version, found = self._control.fleet.version, dict[str, Bmc]()
        every = list(self._control.fleet)
        for start in range(0, len(every), _IDS_AT_ONCE):
            found.update({mat_id(bmc.identity): bmc for bmc in every[start : start + _IDS_AT_ONCE]})
            await asyncio.sleep(0)
        self._by_mat_id, self._version = found, version


_NO_DEVICE = PlainTextResponse("device not found", 404)


def _rules_of(bmc: Bmc) -> Response:
    return Response(orjson.dumps([to_json(rule) for rule in bmc.state.faults.rules]), media_type="application/json")


def _app(methods: Mapping[str, Handler]) -> ASGIApp:
    """An application of one path; HEAD is answered where GET is."""
    allowed = ",".join(["GET,HEAD" if method == "GET" else method for method in methods])

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        handler = methods.get("GET" if method == "HEAD" else method)
        request = Request(scope, receive)
        response = Response(status_code=405, headers={"allow": allowed}) if handler is None else await handler(request)
        await response(scope, receive, send)

    return app


# delivering


class _Streamed(Response):
    """An answer in pieces; whoever reads slowly is waited for."""

    def __init__(self, pieces: Sequence[bytes], length: int, headers: Mapping[str, str]) -> None:
        super().__init__(headers={**headers, "content-length": str(length)}, media_type="application/json")
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        waiting, size = list[bytes](), 0
        for piece in self._pieces if scope["method"] != "HEAD" else ():
            waiting.append(piece)
            size += len(piece)
            if size >= _WRITE_BYTES:
                await send({"type": "http.response.body", "body": b"".join(waiting), "more_body": True})
                waiting, size = [], 0
                await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"".join(waiting)})


async def _whole(current: Current, request: Request) -> Response:
    """All of a document, or 304 for a client that has it."""
    gzip, condition = head_of(_raw(request)).gzip, _condition(request)
    document = await current.document(packed=gzip)
    suffixed = document.etag[:-1] + GZIP_SUFFIX
    if matches(condition, document.etag, strong=False):
        return Response(status_code=304, headers=_headers(suffixed if suffixed in condition else document.etag))
    if gzip and document.packed is not None:
        headers = {**_headers(suffixed), "content-encoding": "gzip"}
        return _Streamed(document.packed, document.packed_length, headers)
    return _Streamed(document.pieces, document.length, _headers(document.etag))


def _raw(request: Request) -> Mapping[bytes, bytes]:
    return dict(request.headers.raw)


def _condition(request: Request) -> bytes:
    return head_of(_raw(request)).if_none_match


def _headers(etag: bytes) -> dict[str, str]:
    return {"etag": etag.decode(), "vary": "accept-encoding", "cache-control": "no-cache"}
