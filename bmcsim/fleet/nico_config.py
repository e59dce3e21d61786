"""What a fleet file says about NICo: machine-a-tron's keys for it."""

from typing import Any
from urllib.parse import urlsplit

import msgspec

from bmcsim.fleet import converters
from bmcsim.fleet.tables import Table

_KEYS = ("register_expected_machines", "configure_carbide_bmc_proxy_host", "cleanup_on_quit")


class NicoConfig(msgspec.Struct, frozen=True, kw_only=True):
    """NICo's API and what is done there.

    host, port: of the API. tls: whether it is https. register: whether machines, switches, shelves and racks are
    declared as expected. proxy_host: what NICo's explorer is told to reach all BMCs by (`bmc_proxy`), None for nothing.
    cleanup: whether machines are deleted from NICo at the end.
    """

    host: str
    port: int
    tls: bool = True
    register: bool = True
    proxy_host: str | None = None
    cleanup: bool = False

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.address}"


def read(top: Table, *, leave: bool = False) -> NicoConfig | None:
    """None for a file without NICo's URL. leave: NICo is to be left alone, whatever the file says."""
    url = top.get("carbide_api_url", _url, None)
    register, proxy_host, cleanup = (
        top.get(_KEYS[0], converters.flag, True),
        top.get(_KEYS[1], _host, None),
        top.get(_KEYS[2], converters.flag, False),
    )
    if "carbide_api_url" not in top:
        for key in _KEYS:
            if key in top:
                top.warning(key, "does nothing without carbide_api_url")
    if url is None or leave:
        return None
    tls, host, port = url
    return NicoConfig(host=host, port=port, tls=tls, register=register, proxy_host=proxy_host, cleanup=cleanup)


def _url(value: Any) -> tuple[bool, str, int]:
    """(whether it is https, host, port)."""
    refusal = f"must be a URL such as 'https://nico-api.example:1079', not {converters.shown(value)}"
    try:
        parts = urlsplit(converters.text(value))
        port = parts.port
    except ValueError:
        raise ValueError(refusal) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(refusal)
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError(refusal)
    tls = parts.scheme == "https"
    return tls, parts.hostname, port or (443 if tls else 80)


def _host(value: Any) -> str:
    """A host name or address without a port."""
    host = converters.text(value)
    if len(host) > 253 or not host.isascii() or any(one.isspace() or one in "/@[]" for one in host):
        raise ValueError(f"must be a host name or an address, without a port, not {converters.shown(value)}")
    if host.count(":") == 1:
        raise ValueError(f"must have no port: the one of the Redfish listener is added; not {converters.shown(value)}")
    return host
