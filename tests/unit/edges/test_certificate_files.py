"""Certificate files that change while they are served, seen in real handshakes."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from bmcsim.core.clock import SystemClock
from bmcsim.edges.http import tls
from bmcsim.edges.http.metrics import FleetCollector, Metrics, registry_of
from bmcsim.edges.http.server import Housekeeper
from tests.unit.edges.conftest import FIRST, SYSTEM, Connection, Server, get, serving

pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])

Pair = tuple[bytes, bytes]


def pair() -> Pair:
    return tls.make_certificate()


def write(folder: Path, certificate: bytes, key: bytes) -> tuple[Path, Path]:
    """In place, as an editor or `cp` does it."""
    (folder / tls.CERTIFICATE).write_bytes(certificate)
    (folder / tls.KEY).write_bytes(key)
    return folder / tls.CERTIFICATE, folder / tls.KEY


def rename(folder: Path, certificate: bytes, key: bytes) -> None:
    """New files that take the places of the old ones."""
    draft = folder / "draft"
    draft.mkdir()
    for path in write(draft, certificate, key):
        path.replace(folder / path.name)
    draft.rmdir()


def project(folder: Path, certificate: bytes, key: bytes) -> None:
    """As a Kubernetes volume: names link to ..data/, which is a link that is moved from one directory to the next."""
    number = sum(1 for path in folder.iterdir() if path.name.startswith("..2"))
    real = folder / f"..2026_{number}"
    real.mkdir()
    write(real, certificate, key)
    link = folder / "..data_tmp"
    link.symlink_to(real.name)
    link.replace(folder / "..data")
    for name in (tls.CERTIFICATE, tls.KEY):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


async def offered(server: Server, context: ssl.SSLContext | None = None) -> tuple[bytes, Connection]:
    """PEM of the certificate that a new connection is given, and the connection."""
    context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with asyncio.timeout(5):
        connection = Connection(*await asyncio.open_connection(FIRST, server.port, ssl=context))
    server.opened.append(connection)
    der = connection.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return x509.load_der_x509_certificate(der).public_bytes(serialization.Encoding.PEM), connection


@pytest.mark.parametrize("replace", [write, rename, project])
async def test_new_connections_get_the_new_certificate_and_open_ones_go_on(
    tmp_path: Path, replace: Callable[..., object]
) -> None:
    first, second = pair(), pair()
    (project if replace is project else write)(tmp_path, *first)
    served = tls.Served.of_files(tmp_path / tls.CERTIFICATE, tmp_path / tls.KEY)
    metrics = Metrics()
    async with serving(served) as server:
        certificate, old = await offered(server)
        assert certificate == first[0]
        served.poll(metrics)
        assert (await offered(server))[0] == first[0]
        replace(tmp_path, *second)
        served.poll(metrics)
        assert (await offered(server))[0] == second[0]
        old.writer.write(get(SYSTEM))
        assert (await old.answer()).status == 200
    assert (metrics.tls_reloads, metrics.tls_refusals) == (1, 0)


async def test_a_pair_that_is_half_written_is_refused_until_it_is_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = pair(), pair()
    certificate, key = write(tmp_path, *first)
    served, metrics = tls.Served.of_files(certificate, key), Metrics()
    caplog.set_level(logging.INFO, "bmcsim")
    async with serving(served) as server:
        for half in (second[0], second[0][:200], b""):
            certificate.write_bytes(half)
            served.poll(metrics)
            assert (await offered(server))[0] == first[0]
        key.unlink()
        served.poll(metrics)
        assert (await offered(server))[0] == first[0]
        assert metrics.tls_refusals == 4
        served.poll(metrics)
        assert metrics.tls_refusals == 4
        write(tmp_path, *second)
        served.poll(metrics)
        assert (await offered(server))[0] == second[0]
    refused, used = caplog.messages[:-1], caplog.messages[-1]
    assert len(refused) == 4
    assert all(str(certificate) in line and "the one of before stays" in line for line in refused)
    assert str(certificate) in used
    assert all("PRIVATE" not in line for line in caplog.messages)


async def test_a_key_of_another_kind_leaves_nothing_of_the_former_certificate(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric import rsa

    certificate, key = write(tmp_path, *rsa_pair(rsa.generate_private_key(65537, 2048)))
    served = tls.Served.of_files(certificate, key)
    second = pair()
    async with serving(served) as server:
        write(tmp_path, *second)
        served.poll(Metrics())
        only_rsa = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        only_rsa.maximum_version = ssl.TLSVersion.TLSv1_2
        only_rsa.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await offered(server, only_rsa)
        assert (await offered(server))[0] == second[0]


def rsa_pair(key: object) -> Pair:
    """As `pair`, with an RSA key."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import rsa

    assert isinstance(key, rsa.RSAPrivateKey)
    model = x509.load_pem_x509_certificate(pair()[0])
    certificate = (
        x509.CertificateBuilder(model.issuer, model.subject, key.public_key(), 1)
        .not_valid_before(model.not_valid_before_utc)
        .not_valid_after(model.not_valid_after_utc)
        .sign(key, hashes.SHA256())
    )
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return certificate.public_bytes(pem), key.private_bytes(pem, pkcs8, serialization.NoEncryption())


async def test_the_housekeeper_looks_and_the_metrics_tell(tmp_path: Path) -> None:
    certificate, key = write(tmp_path, *pair())
    served, second = tls.Served.of_files(certificate, key), pair()
    async with serving(served) as server:
        keeper = Housekeeper(server.context, server.listener, SystemClock(), served)
        write(tmp_path, *second)
        keeper._tick()
        keeper.stop()
        assert (await offered(server))[0] == second[0]
        registry = registry_of(FleetCollector(server.context.metrics, server.context.fleet, server.context.driver))
        assert registry.get_sample_value("bmcsim_tls_reloads_total", {"result": "used"}) == 1
        assert registry.get_sample_value("bmcsim_tls_reloads_total", {"result": "refused"}) == 0


async def test_a_certificate_of_no_file_is_never_looked_for() -> None:
    served, metrics = tls.Served(tls.transient_context()), Metrics()
    before = served.context
    served.poll(metrics)
    served.reload(metrics)
    assert served.context is before
    assert (metrics.tls_reloads, metrics.tls_refusals) == (0, 0)


async def test_a_file_that_is_too_large_is_named(tmp_path: Path) -> None:
    certificate, key = write(tmp_path, *pair())
    key.write_bytes(b"\n" * (tls.MAX_FILE + 1))
    with pytest.raises(tls.TlsError, match=rf"tls\.key: larger than {tls.MAX_FILE} bytes"):
        tls.Served.of_files(certificate, key)


async def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_its_passphrase(tmp_path: Path) -> None:
    public, private = pair()
    loaded = serialization.load_pem_private_key(private, None)
    secret = serialization.BestAvailableEncryption(b"secret")
    encrypted = loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)
    with pytest.raises(tls.TlsError, match=r"tls\.key: is encrypted"):
        tls.Served.of_files(*write(tmp_path, public, encrypted))
