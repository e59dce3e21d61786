"""What clients send to the Redfish port, good and bad: streams of HTTP/1.1, drawn from a `random.Random`."""

from random import Random

import msgspec

from tests.conftest import PASSWORD, basic

ADDRESSES = {"bluefield3": "127.64.0.2", "dell_poweredge_r750": "127.64.0.3"}
"""Profile -> the address of its BMC."""
INNER = b"Smuggled"
"""What the target of a request says that is only the body of another one."""

_AUTHORIZATION = b"Authorization: " + basic("root", PASSWORD)
_JSON = b"Content-Type: application/json"
_SYSTEM = b"/redfish/v1/Systems/Bluefield"
_TARGETS = (
    b"/redfish",
    b"/redfish/v1/",
    b"/redfish/v1",
    _SYSTEM,
    b"/redfish/v1/Chassis?$expand=.",
    b"/redfish/v1/Managers",
    b"/redfish/v1/$metadata",
    b"/redfish/v1/AccountService/Accounts",
    b"//redfish/v1/%53ystems",
    b"https://127.64.0.3/redfish/v1/Systems",
    b"http://nobody.example/redfish/v1",
    b"*",
    b"127.64.0.2:443",
)
_FIELDS = (
    b"Accept: application/json",
    b"Accept: */*",
    b"Accept-Encoding: gzip",
    b"If-None-Match: *",
    b"OData-Version: 4.0",
    b"Forwarded: host=127.64.0.3",
    b'Forwarded: for=x;host="127.64.0.2"',
    b"Connection: keep-alive",
    b"X-Empty:",
    b"X-Long: " + b"y" * 600,
    b"Expect: 100-continue",
    b"User-Agent: fuzz\xe9",
)
_ENDING = (b"Connection: close", b"Connection: Upgrade\r\nUpgrade: h2c", b"Connection: Upgrade\r\nUpgrade: websocket")
_BODIES = (
    b"{}",
    b"[",
    b'{"Boot":{"BootSourceOverrideTarget":"Pxe"}}',
    b'{"Nonsense":1}',
    b"",
    b" " * 3000 + b"{}",
    b'{"x":"' + b"z" * 70_000 + b'"}',
)
_PIECES = (
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b" ",
    b"\t",
    b"\x00",
    b"\xff",
    b":",
    b" : ",
    b"\r\n folded",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length:\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip\r\n",
    b"Transfer-Encoding: chunked, chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: upgrade\r\nUpgrade: x\r\n",
    b"Expect: 100-continue\r\n",
    b"Host: x\r\n",
    b"Trailer: X\r\n",
    b"0\r\n\r\n",
    b"5\r\nabcde\r\n",
    b"ffffffffffffffff\r\n",
    b"5;ext=1\r\n",
    b"HTTP/1.0",
    b"HTTP/2.0",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT ",
    b"GET ",
    b"\x16\x03\x01\x00",
    b"GET /redfish HTTP/1.1\r\n\r\n",
)


class Sent(msgspec.Struct):
    """A stream of bytes.

    methods: of its requests, in order, where each is answered. marks: what the answer to each has in it, b'' for
    anything; both None where nobody knows.
    """

    data: bytes
    methods: list[str] | None = None
    marks: list[bytes] | None = None


def stream(random: Random) -> Sent:
    """Any stream."""
    kind = random.random()
    if kind < 0.3:
        return pipeline(random)
    return smuggled(random) if kind < 0.45 else mutated(random)


def pipeline(random: Random) -> Sent:
    """Well-formed requests one after the other."""
    pieces, methods, marks = [], [], []
    count = random.choice((1, 1, 2, 3, 5, 12, 50))
    for index in range(count):
        method = random.choice(("GET", "GET", "GET", "HEAD", "PATCH", "POST", "OPTIONS", "DELETE"))
        target, mark = random.choice(_TARGETS[:8]), b""
        if random.random() < 0.4:
            target = b"/redfish/v1/Mark%dx" % index
            mark = target if method in ("GET", "PATCH", "DELETE") else b""
        body = random.choice(_BODIES) if method in ("PATCH", "POST") or random.random() < 0.05 else None
        if method == "POST":
            target, mark = b"/redfish/v1/Mark%dx/Nope" % index, b"Mark%dx" % index
        fields = [_AUTHORIZATION, *_some(random, _FIELDS[:4])] if mark == b"" else [_AUTHORIZATION]
        if body is not None:
            fields.append(_JSON)
        pieces.append(request(random, method.encode(), target, fields, body))
        methods.append(method)
        marks.append(mark)
    return Sent(b"".join(pieces), methods, marks)


def mutated(random: Random) -> Sent:
    """Requests to which something was done."""
    parts = []
    for _ in range(random.choice((1, 1, 2, 3))):
        method = random.choice((b"GET", b"GET", b"GET", b"PATCH", b"POST", b"PUT", b"BREW", b"CONNECT", b"PRI"))
        body = random.choice(_BODIES[:6]) if method in (b"PATCH", b"POST", b"PUT") or random.random() < 0.1 else None
        fields = [_AUTHORIZATION, *_some(random, _FIELDS), *([_JSON] if body is not None else [])]
        if random.random() < 0.1:
            fields.append(random.choice(_ENDING))
        parts.append(request(random, method, random.choice(_TARGETS), fields, body))
    data = b"".join(parts)
    for _ in range(random.choice((0, 1, 1, 2, 3, 8))):
        data = _mutate(random, data)
    return Sent(data)


def _mutate(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    match random.randrange(7):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + random.choice(_PIECES) + data[at:]
        case 2:
            return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
        case 3:
            return data[:at] + data[at + random.randrange(1, 20) :]
        case 4:
            end = min(len(data), at + random.randrange(1, 200))
            return data[:end] + data[at:end] * random.choice((1, 1, 2, 30)) + data[end:]
        case 5:
            # At the end of a line, where header fields begin.
            line = data.find(b"\r\n", at)
            return data if line < 0 else data[: line + 2] + random.choice(_PIECES) + data[line + 2 :]
        case _:
            lower = random.choice(_PIECES)
            return data.replace(b"\r\n", lower, 1) if random.random() < 0.5 else data.swapcase()


def request(random: Random, method: bytes, target: bytes, fields: list[bytes], body: bytes | None) -> bytes:
    """A well-formed request; a body has a length or comes in chunks."""
    lines = [method + b" " + target + b" HTTP/1.1", b"Host: " + next(iter(ADDRESSES.values())).encode(), *fields]
    if body is None:
        return b"\r\n".join(lines) + b"\r\n\r\n"
    if random.random() < 0.5:
        return b"\r\n".join([*lines, b"Content-Length: %d" % len(body)]) + b"\r\n\r\n" + body
    return b"\r\n".join([*lines, b"Transfer-Encoding: chunked"]) + b"\r\n\r\n" + chunked(random, body)


def chunked(random: Random, body: bytes) -> bytes:
    """A body in chunks (RFC 9112 7.1), with extensions and trailers now and then."""
    data = b""
    extension = random.choice((b"", b"", b";x", b';x="y z"'))
    while body:
        size = random.randint(1, max(len(body), 1))
        data += b"%x%b\r\n%b\r\n" % (size, extension, body[:size])
        body = body[size:]
    return data + random.choice((b"0\r\n\r\n", b"0;y=1\r\n\r\n", b"0\r\nX-Trailer: z\r\n\r\n", b"000\r\n\r\n"))


def _some(random: Random, choices: tuple[bytes, ...]) -> list[bytes]:
    chosen = random.sample(choices, random.randrange(3))
    names = {one.partition(b":")[0]: one for one in chosen}
    return list(names.values())


_AMBIGUOUS: tuple[bytes, ...] = (
    b"Content-Length: %(n)d\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nContent-Length: %(n)d",
    b"Transfer-Encoding: xchunked\r\nContent-Length: %(n)d",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: identity\r\nContent-Length: %(n)d",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
    b"Transfer-Encoding : chunked",
    b"Transfer-Encoding\t: chunked",
    b"Transfer-Encoding: \x0bchunked",
    b"Transfer-Encoding:\r\n chunked",
    b"X: y\r\n Transfer-Encoding: chunked",
    b"X: y\nTransfer-Encoding: chunked",
    b"X: y\rTransfer-Encoding: chunked",
    b"Content-Length: 0\r\nContent-Length: %(n)d",
    b"Content-Length: %(n)d\r\nContent-Length: %(n)d",
    b"Content-Length: %(n)d, %(n)d",
    b"Content-Length: +%(n)d",
    b"Content-Length: 0x%(n)x",
    b"Content-Length: %(n)d 0",
    b"Content-Length : %(n)d",
    b"Content-Length: %(n)d\x0b",
    b"Content-Length: 0\nContent-Length: %(n)d",
    b"Content-Length: 18446744073709551617",
    b": x\r\nContent-Length: %(n)d",
    b"Cont\x00ent-Length: 0",
    b"X: \x00\r\nContent-Length: %(n)d",
)
"""Framings that two implementations read differently; a strict one refuses each."""

_BAD_CHUNKS: tuple[bytes, ...] = (
    b"0x0\r\n\r\n",
    b"0 \n\r\n",
    b"-0\r\n\r\n",
    b"1ffffffffffffffff\r\n",
    b"2\r\n{}x\r\n0\r\n\r\n",
    b"1\r\n{}\r\n0\r\n\r\n",
    b"2;a\nb\r\n{}\r\n0\r\n\r\n",
    b"2\n{}\n0\n\n",
    b"0\r\nX : y\r\n\r\n",
    b"0\r\n folded\r\n\r\n",
    b"\r\n0\r\n\r\n",
    b"g\r\n",
)


def smuggled(random: Random) -> Sent:
    """A request in the body of another one, where it must never be answered."""
    target = INNER + b"%d" % random.randrange(1000)
    inner = b"GET /redfish/v1/%b HTTP/1.1\r\nHost: 127.64.0.2\r\n%b\r\n\r\n" % (target, _AUTHORIZATION)
    method = random.choice((b"GET", b"POST", b"PATCH", b"DELETE"))
    head = b"%b /redfish/v1/Outer HTTP/1.1\r\nHost: 127.64.0.2\r\n%b\r\n%b\r\n" % (method, _AUTHORIZATION, _JSON)
    kind = random.random()
    if kind < 0.2:
        # Well-formed: the body is a body.
        framed = (
            b"Content-Length: %d\r\n\r\n%b" % (len(inner), inner),
            b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(inner), inner),
            b"Transfer-Encoding: CHUNKED\r\n\r\n%x;x=y\r\n%b\r\n0\r\n\r\n" % (len(inner), inner),
        )
        return Sent(head + random.choice(framed), [method.decode()], [b"Outer"])
    if kind < 0.6:
        body = random.choice((inner, b"0\r\n\r\n" + inner, b"%x\r\n%b\r\n0\r\n\r\n" % (len(inner), inner)))
        chosen = random.choice(_AMBIGUOUS)
        framing = chosen % {b"n": len(body)} if b"%(" in chosen else chosen
        return Sent(head + framing + b"\r\n\r\n" + body)
    return Sent(head + b"Transfer-Encoding: chunked\r\n\r\n" + random.choice(_BAD_CHUNKS) + inner)
