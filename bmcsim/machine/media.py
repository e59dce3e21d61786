"""Virtual media: what a device shows with an image in it.

Rule 1: what is in a device stays until it is ejected or the BMC resets; nothing else of the machine is touched.
Rule 2: nobody fetches an image; a host in the domain UNREACHABLE stands for one that cannot be reached.
"""

import re
from typing import Any
from urllib.parse import urlsplit

UNREACHABLE = ".invalid"
"""The top-level domain that never resolves (RFC 2606): images at unreachable.invalid and the like cannot be had."""

_NFS = re.compile(r"[A-Za-z0-9.-]+:/[^/].*")
_CIFS = re.compile(r"//[^/]+/.+")
_PROTOCOLS = {"http": "HTTP", "https": "HTTPS", "nfs": "NFS", "cifs": "CIFS", "smb": "CIFS"}


def protocol_of(image: str) -> str | None:
    """The TransferProtocolType of an image, None for what names no image: http, https, nfs, cifs and smb URIs with host
    and path, and the short forms host:/path (NFS) and //host/share/path (CIFS)."""
    if _CIFS.fullmatch(image):
        return "CIFS"
    if "://" not in image:
        return "NFS" if _NFS.fullmatch(image) else None
    if not image.isprintable() or " " in image:
        return None
    try:
        parts = urlsplit(image)
        host = parts.hostname
    except ValueError:
        return None
    return _PROTOCOLS.get(parts.scheme) if host and parts.path.strip("/") else None


def host_of(image: str) -> str:
    """The host of an image that `protocol_of` knows, in lower case."""
    if "://" in image:
        return urlsplit(image).hostname or ""
    return (image[2:].partition("/")[0] if image.startswith("//") else image.partition(":")[0]).lower()


def reachable(image: str) -> bool:
    """Whether an image can be had."""
    return not host_of(image).endswith(UNREACHABLE)


def inserted(image: str, given: dict[str, Any]) -> dict[str, Any]:
    """What a device shows with an image. given: parameters of VirtualMedia.InsertMedia; credentials are never shown."""
    shown = _without_credentials(image)
    return {
        "Image": shown,
        "ImageName": shown.rpartition("/")[2],
        "Inserted": given.get("Inserted", True),
        "ConnectedVia": "URI" if given.get("Inserted", True) else "NotConnected",
        "WriteProtected": given.get("WriteProtected", True),
        "TransferMethod": given.get("TransferMethod", "Stream"),
        "TransferProtocolType": protocol_of(image),
    }


def _without_credentials(image: str) -> str:
    """An image whose URI does not tell the password that it is fetched with."""
    if "://" not in image:
        return image
    parts = urlsplit(image)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if "@" in parts.netloc else image
