"""Conditional requests (RFC 9110 13.1, DSP0266 6.5)."""

import re

_TAG = rb'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"'
_LIST = re.compile(rb"\s*(?:" + _TAG + rb"\s*(?:,\s*|$))+")
_EACH = re.compile(_TAG)


def matches(field: bytes, etag: bytes, *, strong: bool) -> bool:
    """Whether an If-Match or If-None-Match field names the entity tag. A field that is malformed names none.

    strong: weak tags never match, as If-Match asks; otherwise the weakness flag is ignored.
    """
    if field.strip() == b"*":
        return True
    if _LIST.fullmatch(field) is None:
        return False
    tags = _EACH.findall(field)
    if strong:
        return etag in tags
    return etag.removeprefix(b"W/") in [tag.removeprefix(b"W/") for tag in tags]
