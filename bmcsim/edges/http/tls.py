"""The TLS side of the Redfish port: an ECDSA P-256 certificate, made at first start (DSP0266 13.1)."""

import os
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

CERTIFICATE, KEY = "tls.crt", "tls.key"


class TlsError(Exception):
    """Certificate or key cannot be used; the text names the file."""


def make_certificate() -> tuple[bytes, bytes]:
    """A self-signed certificate for ten years and its key, both PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bmcsim")])
    now = datetime.now(UTC)
    names = [x509.DNSName("localhost"), x509.DNSName("bmcsim"), x509.IPAddress(ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(pem), private


def kept_certificate(state_dir: Path) -> tuple[Path, Path]:
    """The certificate and key of a state directory, made there if both are missing. Raises TlsError."""
    certificate, key = state_dir / CERTIFICATE, state_dir / KEY
    if certificate.exists() != key.exists():
        raise TlsError(f"{state_dir}: has only one of {CERTIFICATE} and {KEY}; add the other or remove it")
    if not certificate.exists():
        public, private = make_certificate()
        try:
            state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(key, private, 0o600)
            _write(certificate, public, 0o644)
        except OSError as error:
            raise TlsError(f"{state_dir}: cannot keep a certificate there: {error.strerror}") from error
    return certificate, key


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write beside and rename, so that a crash leaves the old file or the new one."""
    draft = path.with_name(path.name + ".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """A server context: TLS 1.2 and 1.3, HTTP/1.1, session tickets. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.num_tickets = 1
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"{certificate}, {key}: cannot be used as certificate and key: {error}") from error
    return context


def transient_context() -> ssl.SSLContext:
    """A server context whose new certificate is kept nowhere; needs no writable directory."""
    public, private = make_certificate()
    descriptors = []
    try:
        for data in (public, private):
            descriptor = os.memfd_create("bmcsim-tls")
            descriptors.append(descriptor)
            os.write(descriptor, data)
        return server_context(*(Path(f"/proc/self/fd/{descriptor}") for descriptor in descriptors))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
