"""Listening addresses and certificates."""

import select
import socket
import ssl
import stat
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from bmcsim.edges.http import tls
from bmcsim.edges.http.listen import Listen, ListenError, open_socket, open_sockets, parse_listen


@pytest.mark.parametrize(
    ("text", "network", "port"),
    [
        ("127.0.0.0/8:1266", "127.0.0.0/8", 1266),
        ("0.0.0.0:443", "0.0.0.0/0", 443),
        (":443", "0.0.0.0/0", 443),
        ("127.0.0.1:0", "127.0.0.1/32", 0),
        ("[::]:1266", "::/0", 1266),
        ("[::1]:1266", "::1/128", 1266),
        ("10.200.0.0/18:1266", "10.200.0.0/18", 1266),
    ],
)
def test_a_listen_address_is_understood(text: str, network: str, port: int) -> None:
    listen = parse_listen(text)
    assert (str(listen.network), listen.port) == (network, port)
    assert parse_listen(str(listen)) == listen


@pytest.mark.parametrize(
    "text", ["", "1266", "localhost:1266", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1/8:1", "300.0.0.1:1"]
)
def test_a_wrong_listen_address_says_what_would_be_right(text: str) -> None:
    with pytest.raises(ListenError, match=r"127\.0\.0\.0/8:1266|0 to 65535"):
        parse_listen(text)


def test_loopback_is_known_for_what_it_is() -> None:
    assert parse_listen("127.0.0.0/8:1").loopback
    assert not parse_listen("0.0.0.0:1").loopback
    assert parse_listen("0.0.0.0:1").everything


def test_a_taken_port_is_named() -> None:
    first, _ = open_socket(parse_listen("127.0.0.1:0"))
    port = first.getsockname()[1]
    with pytest.raises(ListenError, match=f":{port}.*--listen"):
        open_socket(Listen(parse_listen("127.0.0.1:0").network, port))
    first.close()


LOWEST, SECOND, THIRD, LAST = ("127.64.0.2", "127.64.0.10", "127.64.1.0", "127.64.1.9")


@pytest.mark.parametrize("where", ["127.0.0.0/8:0", "0.0.0.0:0", "[::]:0"])
def test_the_dialled_address_chooses_among_the_sockets_of_a_port(where: str) -> None:
    starts = [int(IPv4Address(one)) for one in (LOWEST, SECOND, THIRD)]
    socks = open_sockets(parse_listen(where), starts, int(IPv4Address(LAST)))
    port = socks[0].getsockname()[1]
    reached: dict[str, set[int]] = {}
    for address in (LOWEST, "127.64.0.9", SECOND, "127.64.0.255", THIRD, LAST) * 3 + ("127.0.0.1", "127.64.1.10") * 40:
        with socket.create_connection((address, port)):
            (ready,), _, _ = select.select(socks, [], [], 5)
            ready.accept()[0].close()
            reached.setdefault(address, set()).add(socks.index(ready))
    assert list(reached.values()) == [{0}, {0}, {1}, {1}, {2}, {2}, {0, 1, 2}, {0, 1, 2}]
    listen = Listen(parse_listen(where).network, port)
    for joining in (lambda: open_socket(listen), lambda: open_sockets(listen, [1, 2], 2)):
        with pytest.raises(ListenError, match="already in use"):
            joining()
    for sock in socks:
        sock.close()


def test_a_certificate_is_made_once_and_kept_private(tmp_path: Path) -> None:
    state = tmp_path / "state"
    certificate, key = tls.kept_certificate(state)
    before = certificate.read_bytes(), key.read_bytes()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert tls.kept_certificate(state) == (certificate, key)
    assert (certificate.read_bytes(), key.read_bytes()) == before
    assert isinstance(tls.server_context(certificate, key), ssl.SSLContext)


def test_half_a_certificate_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / tls.KEY).write_text("key")
    with pytest.raises(tls.TlsError, match=r"only one of tls\.crt and tls\.key"):
        tls.kept_certificate(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [tls.KEY]


def test_an_unusable_certificate_is_named(tmp_path: Path) -> None:
    for name in (tls.CERTIFICATE, tls.KEY):
        (tmp_path / name).write_text("nonsense")
    with pytest.raises(tls.TlsError, match=r"tls\.crt"):
        tls.server_context(tmp_path / tls.CERTIFICATE, tmp_path / tls.KEY)


def test_a_transient_certificate_is_ecdsa_p256_and_needs_no_directory() -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    certificate = x509.load_pem_x509_certificate(tls.make_certificate()[0])
    public = certificate.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    assert public.curve.name == "secp256r1"
    assert certificate.version is x509.Version.v3
    context = tls.transient_context()
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
