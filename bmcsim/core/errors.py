"""Errors that carry their own response."""

BASE_REGISTRY = "Base.1.22"
"""The message registry of the keys that errors carry (DSP0266 9.5.11)."""


class RedfishError(Exception):
    """A request that cannot be granted.

    status: HTTP status. message: key in the Base message registry (DSP0266 9.5.11). args: its arguments.
    related: property path that the message is about, '' for none. headers: further header lines, each with CRLF.
    """

    def __init__(self, status: int, message: str, *args: str, related: str = "", headers: bytes = b"") -> None:
        super().__init__(f"{status} {message}{args}")
        self.status = status
        self.message = message
        self.arguments = args
        self.related = related
        self.headers = headers
