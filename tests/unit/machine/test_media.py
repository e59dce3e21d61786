"""Virtual media."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.machine import media


@pytest.mark.parametrize(
    ("image", "protocol", "host"),
    [
        ("http://192.0.2.1/a.iso", "HTTP", "192.0.2.1"),
        ("https://Images.example.com:8443/x/a.iso?y=1", "HTTPS", "images.example.com"),
        ("https://[2001:db8::1]/a.iso", "HTTPS", "2001:db8::1"),
        ("nfs://192.0.2.1/share/a.img", "NFS", "192.0.2.1"),
        ("cifs://server/share/a.iso", "CIFS", "server"),
        ("smb://server/share/a.iso", "CIFS", "server"),
        ("192.0.2.1:/share/a.iso", "NFS", "192.0.2.1"),
        ("//Server/share/a.iso", "CIFS", "server"),
    ],
)
def test_what_names_an_image(image: str, protocol: str, host: str) -> None:
    assert (media.protocol_of(image), media.host_of(image)) == (protocol, host)


@pytest.mark.parametrize(
    "image",
    [
        "",
        "a.iso",
        "/a.iso",
        "ftp://192.0.2.1/a.iso",
        "file:///etc/passwd",
        "http://",
        "http://192.0.2.1",
        "http://192.0.2.1/",
        "http:///a.iso",
        "http://[::1/a.iso",
        "http://a b/c.iso",
        "http://a/b\nc.iso",
        "://a/b.iso",
        "//server",
        "HTTPS//a/b.iso",
    ],
)
def test_what_names_no_image(image: str) -> None:
    assert media.protocol_of(image) is None


@given(st.text())
def test_any_text_is_an_image_or_none(text: str) -> None:
    if media.protocol_of(text) is not None:
        media.host_of(text)
        media.reachable(text)


@pytest.mark.parametrize("image", ["http://unreachable.invalid/a.iso", "unreachable.invalid:/a.iso"])
def test_some_hosts_cannot_be_reached(image: str) -> None:
    assert not media.reachable(image)
    assert media.reachable(image.replace("invalid", "example"))


def test_an_image_shows_as_it_is_connected() -> None:
    assert media.inserted("http://192.0.2.1/x/a.iso", {"UserName": "u", "Password": "p"}) == {
        "Image": "http://192.0.2.1/x/a.iso",
        "ImageName": "a.iso",
        "Inserted": True,
        "ConnectedVia": "URI",
        "WriteProtected": True,
        "TransferMethod": "Stream",
        "TransferProtocolType": "HTTP",
    }


def test_an_image_may_wait_beside_its_drive_and_be_writable() -> None:
    given_ = {"Inserted": False, "WriteProtected": False, "TransferMethod": "Upload"}
    shown = media.inserted("nfs://a/b.img", given_)
    assert given_.items() <= shown.items()
    assert shown["ConnectedVia"] == "NotConnected"
