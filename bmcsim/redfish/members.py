"""What the dynamic collections have in common: the answer to a POST, and names that can stand in a URI."""

from typing import Any

from bmcsim.core.clock import Moment
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish.exchange import Response
from bmcsim.tree.compile import Node


def created(bmc: Bmc, collection: Node, member: Any, moment: Moment) -> Response:
    """201 with the new member and where it is (DSP0266 7.9)."""
    template = bmc.tree.items[collection.uri]
    etag, body = bmc.body(template).render(bmc, moment, member)
    location = f"Location: {collection.uri}/{member.id}\r\n".encode()
    return Response(201, template.head + b"ETag: " + etag + b"\r\n" + location, body)


def is_name(text: str, marks: str) -> bool:
    """Whether a text is of ASCII letters, digits and these marks, and does not begin with a mark other than _."""
    return bool(text) and (text[0] == "_" or _is_plain(text[0])) and all(_is_plain(one) or one in marks for one in text)


def _is_plain(character: str) -> bool:
    return character.isascii() and character.isalnum()
