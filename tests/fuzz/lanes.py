"""One request by every way through the HTTP edge: the answers must be the same, byte for byte.

The ways: with a length (the fast lane) and in chunks (the slow lane), each whole and in segments; and a GET without a
body by way of the parser and by the shortcut for header blocks that are known.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from urllib.parse import quote

import msgspec

from bmcsim.machine.bmc import Bmc
from tests.conftest import PASSWORD, basic, make_client, tree_of
from tests.fuzz.asks import DOCUMENTS, METHODS, RULES, Ask, Asker
from tests.fuzz.handling import Broken
from tests.fuzz.streams import ADDRESSES, chunked
from tests.fuzz.wire import Port, cut, same

ADMIN = basic("root", PASSWORD)
CONDITIONS = ("plain", "resetting", "faulty", "factory")
"""In which a BMC is asked; `in_condition` says what they mean."""

_PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in "#")
_RULES = (
    {"id": "a", "selector": {"OdataId": "/redfish/v1/Systems/**"}, "action": {"JsonMerge": {"Name": None}}},
    {"id": "b", "selector": {"OdataId": "/redfish/v1/Managers/**"}, "action": {"Status": 503}},
    {"id": "c", "selector": {"OdataId": "/redfish/v1/Chassis/**"}, "action": {"Truncate": {"keep": 0.5}}},
    {"id": "d", "selector": {"OdataId": "/redfish/v1/**"}, "action": "LostWrite"},
    {"id": "e", "selector": {"Path": {"glob": "/redfish/v1/Fabrics/**"}}, "action": "Close"},
)


_WITH_BODY = ("fast", "fast in segments", "slow", "slow in segments")
_LARGEST = 1024 * 1024
_CLOSE = b"\r\nConnection: close\r\n"


def corpus(profile: str, random: Random, per_uri: int) -> Iterator[Ask]:
    """Requests of every kind to every URI of a profile, as many as `per_uri` to each, and as many others."""
    client = make_client(profile)
    asker = Asker(client, random, ADMIN)
    tree = client.bmc.tree
    for uri in (*tree.nodes, *tree.actions, *tree.updates.uploads, *DOCUMENTS, RULES, "/redfish/v1/Nope", "/"):
        for _ in range(per_uri):
            one = asker.ask()
            one.target = uri + (f"?{asker.ask().target.partition('?')[2]}" if random.random() < 0.2 else "")
            one.method = random.choice(METHODS)
            yield one
        for _ in range(per_uri):
            one = asker.ask()
            if one.method in METHODS and one.target.startswith("/"):
                yield one


def in_condition(bmc: Bmc, condition: str, port: Port) -> None:
    """Make a BMC one that resets and says 503, has fault rules, or is on its factory password."""
    moment = port.clock.now()
    if condition == "resetting":
        behaviour = msgspec.structs.replace(bmc.shared.behaviour, while_resetting="503")
        bmc.shared = msgspec.structs.replace(bmc.shared, behaviour=behaviour)
        port.driver.execute(bmc, bmc.reset_bmc(moment))
    elif condition == "faulty":
        bmc.become(moment, faults=port.rules(_RULES))
    elif condition == "factory":
        bmc.become(moment, accounts=bmc.shared.accounts.on_factory_passwords())
    bmc.committed()


def head_of_request(one: Ask, address: str) -> bytes:
    """The request line and the header fields, without what frames a body."""
    target = quote(one.target, safe=_PRINTABLE, encoding="latin-1")
    fields = b"".join(b"%b: %b\r\n" % (name.title(), value) for name, value in one.fields.items())
    return b"%b %b HTTP/1.1\r\nHost: %b\r\n%b" % (one.method.encode(), target.encode(), address.encode(), fields)


def ways(one: Ask, address: str, random: Random) -> dict[str, list[list[bytes]]]:
    """Name of a way -> the segments of each request that it sends; the answer to the last one is compared."""
    head, body = head_of_request(one, address), one.body if 0 < len(one.body) < _LARGEST else b"{}"
    fast = b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
    slow = b"%bTransfer-Encoding: chunked\r\n\r\n%b" % (head, chunked(random, body))
    found = {
        "fast": [[fast]],
        "fast in segments": [cut(random, fast)],
        "slow": [[slow]],
        "slow in segments": [cut(random, slow)],
    }
    if one.method == "GET":
        alone = head + b"\r\n"
        other = b"GET /redfish HTTP/1.1\r\n" + alone.partition(b"\r\n")[2]
        found |= {
            "parsed": [[alone]],
            "parsed in segments": [cut(random, alone)],
            "known": [[other], [alone]],
        }
    return found


async def answer(profile: str, condition: str, requests: list[list[bytes]]) -> bytes:
    """What comes back for the last one of some requests to a new BMC, on one connection."""
    address = ADDRESSES[profile]
    port = Port()
    in_condition(port.bmcs[address], condition, port)
    _, transport = port.connect(address)
    before = 0
    for pieces in requests:
        before = len(transport.data)
        for piece in pieces:
            transport.feed(piece)
        await port.settled(transport)
    return same(bytes(transport.data[before:]))


async def compare(profile: str, condition: str, one: Ask, random: Random) -> bytes:
    """Send a request by all ways; the answer. Raises Broken where they differ."""
    if condition == "factory" and one.fields.get(b"authorization") == ADMIN:
        account = tree_of(profile).head.accounts[0]
        one = msgspec.structs.replace(
            one, fields={**one.fields, b"authorization": basic(account.user, account.password)}
        )
    answers = {
        way: await answer(profile, condition, requests)
        for way, requests in ways(one, ADDRESSES[profile], random).items()
    }
    first = answers["fast"]
    for way, other in answers.items():
        # A refusal before the body ends the connection; without a body there is none to be refused.
        expected = first if way in _WITH_BODY or way == "parsed" else answers["parsed"]
        if other != expected and not (way == "parsed" and other == first.replace(_CLOSE, b"\r\n", 1)):
            raise Broken(
                f"{way} differs, {profile} {condition}:\n  {one.method} {one.target} {one.fields} "
                f"{one.body[:500]!r}\n  {expected[:1500]!r}\n  {other[:1500]!r}"
            )
    return first


async def run(seed: int, per_uri: int, told: Callable[[int], None] = lambda _: None) -> Counter[int]:
    """Compare the whole corpus of every profile, in a condition that changes; how often which status. Raises Broken.

    told: how many requests there were so far.
    """
    random, statuses = Random(seed), Counter[int]()
    for profile in ADDRESSES:
        for one in corpus(profile, random, per_uri):
            condition = random.choice((*CONDITIONS, "plain", "plain", "plain"))
            got = await compare(profile, condition, one, random)
            statuses[int(got[9:12] or 0)] += 1
            told(statuses.total())
    return statuses
