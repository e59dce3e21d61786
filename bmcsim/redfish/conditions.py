"""Conditional requests (RFC 9110 13.1, DSP0266 6.5)."""

import re

GZIP_SUFFIX = b'-gzip"'
"""How the entity tag of the gzip form of a resource ends (`coding`)."""

_TAG = rb'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"'
_LIST = re.compile(rb"\s*(?:" + _TAG + rb"\s*(?:,\s*|$))+")
_EACH = re.compile(_TAG)


def matches(field: bytes, etag: bytes, *, strong: bool, unquoted: bool = False) -> bool:
    """Whether an If-Match or If-None-Match field names the entity tag, with or without the suffix of its gzip form. A
    field that is malformed names none.

    strong: weak tags never match, as If-Match asks; otherwise the weakness flag is ignored. unquoted: a tag without its
    quotes, and nothing else in the field, is taken too.
    """
    if field.strip() == b"*":
        return True
    if unquoted and b'"' not in field:
        field = b'"%b"' % field.strip()
    if _LIST.fullmatch(field) is None:
        return False
    tags = [tag.removesuffix(GZIP_SUFFIX) + b'"' if tag.endswith(GZIP_SUFFIX) else tag for tag in _EACH.findall(field)]
    if strong:
        return etag in tags
    return etag.removeprefix(b"W/") in [tag.removeprefix(b"W/") for tag in tags]
