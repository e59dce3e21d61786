"""Which host a request names: the Forwarded field (RFC 7239) and the host forms of URIs (RFC 3986 3.2.2)."""

import re
from ipaddress import IPv6Address

_PLAIN = re.compile(r"[Hh]ost=([0-9.]+)")

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_QUOTED = r'"((?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*)"'
_ITEM = re.compile(rf"[ \t]*+(?:({_TOKEN})=(?:({_TOKEN})|{_QUOTED}))?[ \t]*+(?:([;,])|\Z)")
"""One parameter, or none, and what ends it. Blanks are possessive: else a field of n blanks takes n * n steps."""

_ESCAPED = re.compile(r"\\(.)")
_PORT = re.compile(r"(?::[0-9]*)?")


class MalformedForwarded(ValueError):
    """A Forwarded field that RFC 7239 section 4 does not allow; the text says where."""


def forwarded_host(value: str) -> str | None:
    """The first `host` parameter of any element, without quotes, brackets and port; None when there is none.

    Empty elements and parameters are skipped (RFC 7230 section 7). All of the field is checked, also behind the host.
    The caller bounds the length. Raises MalformedForwarded.
    """
    if plain := _PLAIN.fullmatch(value):
        return plain[1]
    host = None
    position = 0
    separator: str | None = ","
    while separator is not None:
        item = _ITEM.match(value, position)
        if item is None:
            raise MalformedForwarded(f"not a parameter at character {position + 1}")
        name, token, quoted, separator = item.groups()
        if host is None and name is not None and name.lower() == "host":
            host = _node_name(token if quoted is None else _ESCAPED.sub(r"\1", quoted))
        position = item.end()
    return host


def _node_name(text: str) -> str:
    """'[2001:db8::1]:443' -> '2001:db8::1'. An IPv6 address without brackets is taken as it is."""
    if text.startswith("["):
        name, closed, port = text[1:].partition("]")
    elif text.count(":") > 1:
        return text
    else:
        name, closed, port = text.partition(":")
        closed, port = "]", closed + port
    if not name or not closed or not _PORT.fullmatch(port):
        raise MalformedForwarded("host is not a name or address with an optional port")
    return name


def normalise_host(text: str) -> str:
    """The one spelling of a host that all spellings share: '[2001:DB8:0::1]:443' -> '2001:db8::1'.

    Port, brackets, zone id and the final dot of a name are dropped; an IPv6 address that stands for an IPv4 address
    (RFC 4291 2.5.5.2) becomes that one. What is no host stays as it is in lower case.
    """
    if text.startswith("["):
        inside, closed, port = text[1:].partition("]")
        return _address(inside) if closed and (not port or port.startswith(":")) else text.lower()
    name, _, port = text.partition(":")
    if ":" in port:
        return _address(text)
    return name.lower().removesuffix(".")


def _address(text: str) -> str:
    try:
        address = IPv6Address(text.partition("%")[0])
    except ValueError:
        return text.lower()
    return str(address.ipv4_mapped or address)
