"""Certificates for tests: authorities, servers and what they sign."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM


class Made(NamedTuple):
    """A certificate and its key, both also as PEM."""

    certificate: x509.Certificate
    key: Any

    @property
    def text(self) -> str:
        return self.certificate.public_bytes(_PEM).decode()

    @property
    def key_text(self) -> str:
        pkcs8 = serialization.PrivateFormat.PKCS8
        return str(self.key.private_bytes(_PEM, pkcs8, serialization.NoEncryption()).decode())


def make(
    name: str = "bmc.example",
    *,
    by: Made | None = None,
    key: Any = None,
    public: Any = None,
    names: Sequence[str] = (),
    **more: Any,
) -> Made:
    """A certificate, signed by another one or by itself. public: of somebody else's key. names: of the subject besides,
    addresses and URIs. more: country and the like."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    parts = [(NameOID.COMMON_NAME, name), *[(getattr(NameOID, oid), text) for oid, text in more.items()]]
    subject = x509.Name([x509.NameAttribute(oid, text) for oid, text in parts])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(public or key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_alternative(one) for one in names]), critical=False
        )
    return Made(builder.sign(by.key if by else key, hashes.SHA256()), key)


def _alternative(name: str) -> x509.GeneralName:
    return x509.UniformResourceIdentifier(name) if "://" in name else x509.IPAddress(ip_address(name))


def signed(request: str, by: Made) -> str:
    """PEM of the certificate that an authority makes of a signing request."""
    wanted = x509.load_pem_x509_csr(request.encode())
    assert wanted.is_signature_valid
    return make("signed.example", by=by, public=wanted.public_key()).text
