"""Uploads are streamed: what is left of them, what is refused, and how much memory they take."""

import asyncio
import hashlib
import tracemalloc
from collections.abc import Iterable
from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.core.errors import RedfishError
from bmcsim.edges.http.context import Limits
from bmcsim.edges.http.uploads import Multipart, Raw, sink_of
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish import service
from bmcsim.redfish.exchange import EMPTY_HEAD, Request, Response, Upload
from bmcsim.redfish.service import BodyPlan
from tests.unit.edges.conftest import CLOSE, SYSTEM, Answer, Server, get

PUSH = "/redfish/v1/UpdateService/push"
MULTIPART = "/redfish/v1/UpdateService/multipart"
BOUNDARY = "----bmcsim"
TYPE = f'multipart/form-data; boundary="{BOUNDARY}"'
MIB = 1024 * 1024


def part(name: str, content: bytes, *, file_name: str | None = None, extra: str = "") -> bytes:
    """One part of a form."""
    disposition = f'form-data; name="{name}"' + (f'; filename="{file_name}"' if file_name is not None else "")
    return f"--{BOUNDARY}\r\nContent-Disposition: {disposition}\r\n{extra}\r\n".encode() + content + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def fed(body: bytes, cuts: Iterable[int] = (), content_type: str = TYPE) -> Upload:
    """What is left of a body that comes in pieces, cut at these places."""
    sink = Multipart(content_type.encode())
    places = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    for start, end in pairwise(places):
        sink.feed(body[start:end])
    return sink.result()


def status_of(body: bytes, content_type: str = TYPE) -> int:
    with pytest.raises(RedfishError) as caught:
        fed(body, content_type=content_type)
    return caught.value.status


# what is left of a form


def test_a_form_is_digested() -> None:
    image = bytes(range(256)) * 100
    parameters, oem = b'{"Targets":[]}', b'{"ImageType":"BMC"}'
    upload = fed(
        form(
            part("UpdateParameters", parameters, extra="Content-Type: application/json\r\n"),
            part("OemParameters", oem),
            part("UpdateFile", image, file_name="fw ü.bin", extra="Content-Type: application/octet-stream\r\n"),
        )
    )
    digest = hashlib.sha256(image).hexdigest()
    assert upload == Upload(len(image), digest, "fw ü.bin", parameters, oem, image[:4096], True)


def test_a_raw_body_is_the_file() -> None:
    sink = sink_of("raw", b"application/octet-stream")
    for piece in (b"a" * 4000, b"b" * 200, b""):
        sink.feed(piece)
    image = b"a" * 4000 + b"b" * 200
    assert sink.result() == Upload(4200, hashlib.sha256(image).hexdigest(), head=image[:4096], has_file=True)
    assert Raw().result() == Upload(0, hashlib.sha256(b"").hexdigest())


def test_what_is_missing_is_for_others_to_say() -> None:
    assert fed(form()) == Upload(0, hashlib.sha256(b"").hexdigest())
    assert fed(form(part("UpdateFile", b""))).has_file
    assert fed(form(part("UpdateParameters", b"{}"))).parameters == b"{}"
    assert not fed(form(part("UpdateParameters", b"{}"))).has_file


def test_the_order_of_the_parts_does_not_matter() -> None:
    parts = [part("UpdateFile", b"image", file_name="x"), part("OemParameters", b"1"), part("UpdateParameters", b"2")]
    assert fed(form(*parts)) == fed(form(*reversed(parts)))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        part("UpdateFile", b"never ends"),
        form(part("UpdateFile", b"x"))[:-4],
        form(part("Other", b"x")),
        form(part("updatefile", b"x")),
        form(part("UpdateFile", b"1"), part("UpdateFile", b"2")),
        form(part("UpdateParameters", b"1"), part("UpdateParameters", b"2")),
        form(*[part("UpdateFile", b"x")] * 17),
        form(part("UpdateFile", b"x", file_name="n" * 256)),
        form(part("UpdateFile", b"x", file_name="line\nbreak")),
        form(f"--{BOUNDARY}\r\n\r\nno head\r\n".encode()),
        form(f"--{BOUNDARY}\r\nContent-Disposition: attachment; name=UpdateFile\r\n\r\nx\r\n".encode()),
        form(f"--{BOUNDARY}\r\nContent-Disposition: form-data\r\n\r\nx\r\n".encode()),
        form(f"--{BOUNDARY}\r\nnot a field\r\n\r\nx\r\n".encode()),
        form(part("UpdateFile", b"x", extra="X: " + "x" * 9000 + "\r\n")),
        form(part("UpdateFile", b"x", extra="X: x\r\n" * 20)),
    ],
)
def test_a_malformed_form_is_400(body: bytes) -> None:
    assert status_of(body) == 400


@pytest.mark.parametrize(
    "content_type", ["multipart/form-data", "multipart/form-data; boundary=", "", "x;boundary=" + "b" * 300]
)
def test_a_form_needs_a_boundary(content_type: str) -> None:
    assert status_of(form(), content_type) == 400


def test_a_field_has_its_limit_and_a_file_has_none_here() -> None:
    for name in ("UpdateParameters", "OemParameters"):
        assert len(fed(form(part("UpdateFile", b" " * 70_000), part(name, b" " * 65536))).head) == 4096
        assert status_of(form(part(name, b" " * 65537))) == 413
    assert fed(form(part("UpdateFile", b"x", file_name="n" * 255))).file_name == "n" * 255


_pieces = st.lists(
    st.sampled_from([b"\r\n", b"\r", b"-", b"--", f"--{BOUNDARY}".encode(), f"\r\n--{BOUNDARY}".encode()[:-1], b"x"])
    | st.binary(max_size=20),
    max_size=12,
)


@given(pieces=_pieces, cuts=st.lists(st.integers(0, 10_000), max_size=12), name=st.text("aü. ", max_size=12))
def test_pieces_of_any_size_give_the_same(pieces: list[bytes], cuts: list[int], name: str) -> None:
    image = b"".join(pieces)
    if f"\r\n--{BOUNDARY}".encode() in b"\r\n" + image + b"\r\n":
        image = image.replace(BOUNDARY.encode(), b"")
    body = form(part("UpdateParameters", b'{"a":1}'), part("UpdateFile", image, file_name=name))
    whole = fed(body)
    assert (whole.size, whole.digest) == (len(image), hashlib.sha256(image).hexdigest())
    assert fed(body, cuts) == whole
    assert fed(body, range(len(body))) == whole


@given(body=st.binary(max_size=300), cuts=st.lists(st.integers(0, 10_000), max_size=6))
def test_any_bytes_are_a_form_or_a_400(body: bytes, cuts: list[int]) -> None:
    for begin in (b"", f"--{BOUNDARY}\r\n".encode(), part("UpdateFile", b"x")):
        try:
            fed(begin + body, cuts)
        except RedfishError as error:
            assert error.status == 400


# over the wire


class Pushes:
    """A service that takes uploads. got: what reached it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
        self.got: list[Request] = []
        handle, admit = service.handle, service.admit

        def taking(bmc: Bmc, request: Request) -> Response:
            if request.path not in (PUSH, MULTIPART):
                return handle(bmc, request)
            self.got.append(request)
            return Response(202, EMPTY_HEAD)

        def planning(bmc: Bmc, request: Request, length: int | None) -> Response | BodyPlan:
            if request.path not in (PUSH, MULTIPART):
                return admit(bmc, request, length)
            if not request.head.authorization:
                return Response(401, EMPTY_HEAD)
            return BodyPlan(limit, "raw" if request.path == PUSH else "multipart")

        monkeypatch.setattr(service, "handle", taking)
        monkeypatch.setattr(service, "admit", planning)

    @property
    def upload(self) -> Upload:
        (request,) = self.got
        assert request.body == b""
        assert request.upload is not None
        return request.upload


@pytest.fixture
def pushes(monkeypatch: pytest.MonkeyPatch) -> Pushes:
    return Pushes(monkeypatch, 30 * MIB)


def post(path: str, *fields: str, auth: bool = True) -> bytes:
    return get(path, f"Content-Type: {TYPE}", *fields, method="POST", auth=auth)


async def pushed(server: Server, head: bytes, pieces: Iterable[bytes], *, chunked: bool) -> Answer:
    """Send a body piece by piece, as long as the server takes it."""
    connection = await server.connect()
    connection.writer.write(head)
    try:
        for piece in pieces:
            connection.writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            await asyncio.wait_for(connection.writer.drain(), 5)
        if chunked:
            connection.writer.write(b"0\r\n\r\n")
    except ConnectionError:
        pass
    answer = await connection.answer()
    connection.writer.close()
    return answer


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("path", [PUSH, MULTIPART])
async def test_a_large_upload_is_never_held(server: Server, pushes: Pushes, path: str, chunked: bool) -> None:
    size, block = 20 * MIB, bytes(range(256)) * 256
    lead = part("UpdateFile", b"", file_name="fw.bin")[:-2] if path == MULTIPART else b""
    tail = b"\r\n" + form() if path == MULTIPART else b""
    length = len(lead) + size + len(tail)
    head = post(path, "Transfer-Encoding: chunked" if chunked else f"Content-Length: {length}")
    pieces = (piece for piece in (lead, *[block] * (size // len(block)), tail) if piece)
    tracemalloc.start()
    try:
        answer = await pushed(server, head, pieces, chunked=chunked)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.status == 202
    assert pushes.upload.size == size
    assert pushes.upload.digest == hashlib.sha256(block * (size // len(block))).hexdigest()
    assert pushes.upload.head == block[:4096]
    assert peak < 4 * MIB


async def test_a_small_upload_is_streamed_too(server: Server, pushes: Pushes) -> None:
    body = form(part("UpdateFile", b"image", file_name="a.bin"), part("UpdateParameters", b"{}"))
    answers = await server.exchange(
        get(SYSTEM) + post(MULTIPART, f"Content-Length: {len(body)}") + body + get(SYSTEM, CLOSE)
    )
    assert [answer.status for answer in answers] == [200, 202, 200]
    assert (pushes.upload.file_name, pushes.upload.size, pushes.upload.parameters) == ("a.bin", 5, b"{}")


async def test_expect_continue_holds_for_uploads(server: Server, pushes: Pushes) -> None:
    body = form(part("UpdateFile", b"image"))
    fields = (f"Content-Length: {len(body)}", "Expect: 100-continue")
    connection = await server.connect()
    connection.writer.write(post(MULTIPART, *fields))
    assert (await connection.answer()).status == 100
    connection.writer.write(body)
    assert (await connection.answer()).status == 202
    (answer,) = await server.exchange(post(MULTIPART, *fields, auth=False))
    assert (answer.status, answer.fields["connection"]) == (401, "close")
    (answer,) = await server.exchange(post(MULTIPART, f"Content-Length: {31 * MIB}", "Expect: 100-continue"))
    assert (answer.status, answer.fields["connection"]) == (413, "close")
    unbounded = post(MULTIPART, *fields).replace(f'; boundary="{BOUNDARY}"'.encode(), b"")
    (answer,) = await server.exchange(unbounded)
    assert (answer.status, answer.fields["connection"]) == (400, "close")


@pytest.mark.parametrize("path", [PUSH, MULTIPART])
async def test_an_upload_beyond_its_limit_is_413(server: Server, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    pushes = Pushes(monkeypatch, MIB)
    lead = part("UpdateFile", b"")[:-2] if path == MULTIPART else b"x"
    pieces = (lead, *[b"x" * 65536] * 64)
    answer = await pushed(server, post(path, "Transfer-Encoding: chunked"), pieces, chunked=True)
    assert (answer.status, answer.fields["connection"]) == (413, "close")
    answer = await pushed(server, post(path, f"Content-Length: {MIB + 1}"), pieces, chunked=False)
    assert answer.status == 413
    assert pushes.got == []


async def test_the_listener_may_have_a_limit_of_its_own(server: Server, pushes: Pushes) -> None:
    server.context.limits = Limits(upload=100, linger_seconds=0.1)
    (answer,) = await server.exchange(post(PUSH, "Content-Length: 101"))
    assert answer.status == 413
    (answer,) = await server.exchange(post(PUSH, "Content-Length: 100", CLOSE) + b"x" * 100)
    assert answer.status == 202


async def test_a_malformed_upload_is_refused_at_its_first_wrong_byte(server: Server, pushes: Pushes) -> None:
    head = post(MULTIPART, f"Content-Length: {MIB}")
    answer = await pushed(server, head, [b"no boundary"], chunked=False)
    assert (answer.status, answer.fields["connection"]) == (400, "close")
    assert orjson.loads(answer.body)["error"]["code"].endswith(".UnrecognizedRequestBody")
    assert pushes.got == []


async def test_a_client_that_leaves_in_the_middle_leaves_nothing(server: Server, pushes: Pushes) -> None:
    connection = await server.connect()
    connection.writer.write(post(PUSH, f"Content-Length: {MIB}") + b"x" * 1000)
    await asyncio.sleep(0.03)
    connection.writer.transport.abort()
    async with asyncio.timeout(5):
        while server.listener.server.server_state.connections or server.listener.server.server_state.tasks:
            await asyncio.sleep(0.005)
    assert pushes.got == []


async def test_an_upload_that_stops_coming_is_408(server: Server, pushes: Pushes) -> None:
    connection = await server.connect()
    connection.writer.write(post(PUSH, f"Content-Length: {MIB}") + b"x" * 1000)
    await asyncio.sleep(0.03)
    (served,) = server.listener.server.server_state.connections
    served.sweep(server.clock.now().mono + 61)
    answer = await connection.answer()
    assert (answer.status, answer.fields["connection"]) == (408, "close")
