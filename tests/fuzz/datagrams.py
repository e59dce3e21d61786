"""Datagrams that are nearly replies of a DHCP server."""

from random import Random

from bmcsim.edges.dhcp.packet import Malformed, decode
from bmcsim.machine.dhcp.messages import Reply
from tests.fuzz.handling import Broken, Figures

_HEADER = bytes((2, 1, 6, 0)) + b"\0\0\0\x07" + bytes(8) + b"\xc0\0\x02\x64" + bytes(4) + b"\xc0\0\x02\x43"
_COOKIE = b"c\x82Sc"
_KNOWN = (0, 1, 3, 6, 12, 15, 26, 42, 43, 51, 52, 53, 54, 56, 58, 59, 255)
_GOOD = (b"\x35\x01\x02", b"\x36\x04\xc0\0\x02\x01", b"\x33\x04\0\0\0\x3c")
_UUID = b"2b0c1a52-97ad-4bd1-8b51-3bd3a0f3a6c6"
_LENGTHS = (0, 1, 2, 4, 4, 4, 8, 36, 38, 255)


def _option(random: Random) -> bytes:
    """An option, most of the time whole."""
    length = random.choice(_LENGTHS)
    value = random.choice((random.randbytes(length), bytes(length), (b"\x46\x24" + _UUID)[:length], b"\xff" * length))
    said = len(value) if random.random() < 0.9 else random.randrange(256)
    return bytes((random.choice(_KNOWN) if random.random() < 0.9 else random.randrange(256), said)) + value


def datagram(random: Random) -> bytes:
    """A reply of which some parts are good and some are odd."""
    options = [*(one for one in _GOOD if random.random() < 0.9), *(_option(random) for _ in range(random.randrange(4)))]
    random.shuffle(options)
    fields = [b"".join(_option(random) for _ in range(2)) + b"\xff" for _ in range(2)]
    overload = bytes((52, 1, random.randrange(4))) if random.random() < 0.3 else b""
    head = (
        _HEADER + b"\x02\0\0\0\0\x01" + bytes(10) + fields[0][:64].ljust(64, b"\0") + fields[1][:128].ljust(128, b"\0")
    )
    data = bytearray(head + _COOKIE + overload + b"".join(options) + b"\xff" * (random.random() < 0.95))
    for _ in range(random.choice((0, 0, 0, 1, 4))):
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data[: random.randrange(len(data) + 1)] if random.random() < 0.1 else data)


async def attempt(seed: int, figures: Figures) -> None:
    """Decode one: what comes of it is a reply or Malformed. Raises Broken."""
    data = datagram(Random(seed))
    figures.cases += 1
    try:
        received = decode(data)
    except Malformed as error:
        figures.messages[str(error)] += 1
    except Exception as error:
        raise Broken(f"{type(error).__name__} {error}: {data!r}") from error
    else:
        if not isinstance(received.reply, Reply):
            raise Broken(f"{received!r}: {data!r}")
        figures.messages[received.reply.kind.name] += 1
