"""The TLS side of the Redfish port: an ECDSA P-256 certificate, made at first start (DSP0266 13.1), or given files.

Files may change while they are served. Whoever ticks once a second calls `Served.poll`.
"""

import logging
import os
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from bmcsim.edges.files import Seen, look
from bmcsim.edges.http.metrics import Metrics

log = logging.getLogger(__name__)

CERTIFICATE, KEY = "tls.crt", "tls.key"
MAX_FILE = 1024 * 1024
"""Bytes of a certificate chain or key."""


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

    def encrypted() -> str:
        # Without this OpenSSL would ask the terminal, and all BMCs would wait for an answer.
        raise TlsError(f"{key}: is encrypted; a key without a passphrase is needed")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.num_tickets = 1
    # A client that has sent everything may end its side of TCP alone, and still gets its answers. OpenSSL 1.1 always
    # does so, and has no name for it.
    context.options |= getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0) | ssl.OP_NO_RENEGOTIATION
    try:
        for path in (certificate, key):
            if path.stat().st_size > MAX_FILE:
                raise TlsError(f"{path}: larger than {MAX_FILE} bytes")
        context.load_cert_chain(certificate, key, password=encrypted)
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


class Served:
    """The context that new connections get. Those that are open keep the one that they began with.

    A changed pair of files makes a new context and does not go into the old one: that would be left with half of a
    pair that does not match, and would go on to offer a former certificate whose key is of another kind.
    """

    def __init__(self, context: ssl.SSLContext, files: tuple[Path, Path] | None = None, seen: Seen = ()) -> None:
        self.context = context
        self._files, self._seen = files, seen

    @classmethod
    def of_files(cls, certificate: Path, key: Path) -> "Served":
        """Raises TlsError."""
        # Looked at first: what changes while it is read will be read again.
        seen = look((certificate, key))
        return cls(server_context(certificate, key), (certificate, key), seen)

    def poll(self, metrics: Metrics) -> None:
        """Read the files again if they have changed since they were last read."""
        if self._files is not None and look(self._files) != self._seen:
            self.reload(metrics)

    def reload(self, metrics: Metrics) -> None:
        """Read the files again. A pair that cannot be used is refused, and the present one stays."""
        if self._files is None:
            return
        self._seen = look(self._files)
        try:
            self.context = server_context(*self._files)
        except TlsError as error:
            metrics.tls_refusals += 1
            log.warning("the changed certificate is refused, the one of before stays: %s", error)
        else:
            metrics.tls_reloads += 1
            log.info("new connections get the certificate that %s has now", self._files[0])
