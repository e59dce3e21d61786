"""X.509 certificates (RFC 5280): what a BMC shows of one, which it takes, and what it asks an authority to sign.

`cryptography` is imported by the functions that need it: no start waits for it, and no process that never shows a
certificate. Elliptic keys alone are made here. An RSA key takes so long that all other BMCs of the process would wait.
"""

import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from ipaddress import ip_address
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from bmcsim.tree.profile import CertificateFacts

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

MAX_CHAIN = 8
"""Certificates of a PEMchain."""

_REMEMBERED = 256
_RSA_BITS = range(2048, 4097)
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----[A-Za-z0-9+/=\s]*-----END \1-----")
_VALID = datetime(2024, 1, 1, tzinfo=UTC), datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC)

CURVES = {
    "TPM_ECC_NIST_P256": "secp256r1",
    "TPM_ECC_NIST_P384": "secp384r1",
    "TPM_ECC_NIST_P521": "secp521r1",
    "prime256v1": "secp256r1",
    "secp384r1": "secp384r1",
    "secp521r1": "secp521r1",
}
"""KeyCurveId, by the names of TCG and of OpenSSL -> curve."""

_ATTRIBUTES = {
    "CommonName": "2.5.4.3",
    "Organization": "2.5.4.10",
    "OrganizationalUnit": "2.5.4.11",
    "City": "2.5.4.7",
    "State": "2.5.4.8",
    "Country": "2.5.4.6",
    "Email": "1.2.840.113549.1.9.1",
}
"""Property of an Identifier (DSP0268) -> attribute type of a name."""

_REQUESTED = {**_ATTRIBUTES, "Surname": "2.5.4.4", "GivenName": "2.5.4.42", "Initials": "2.5.4.43"}
"""Parameter of GenerateCSR -> attribute type of a name."""

_USAGES = {
    "DigitalSignature": "digital_signature",
    "NonRepudiation": "content_commitment",
    "KeyEncipherment": "key_encipherment",
    "DataEncipherment": "data_encipherment",
    "KeyAgreement": "key_agreement",
    "KeyCertSign": "key_cert_sign",
    "CRLSigning": "crl_sign",
    "EncipherOnly": "encipher_only",
    "DecipherOnly": "decipher_only",
}
_EXTENDED_USAGES = {
    "ServerAuthentication": "1.3.6.1.5.5.7.3.1",
    "ClientAuthentication": "1.3.6.1.5.5.7.3.2",
    "CodeSigning": "1.3.6.1.5.5.7.3.3",
    "EmailProtection": "1.3.6.1.5.5.7.3.4",
    "Timestamping": "1.3.6.1.5.5.7.3.8",
    "OCSPSigning": "1.3.6.1.5.5.7.3.9",
}


class Unusable(ValueError):
    """What a client sent is no certificate, or none of use, or a request cannot name it. args: the parameter."""


class Certificate(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One certificate of a collection, whose URI is `collection`.

    text: PEM, without any key; '' for the one that the hardware makes for itself. type: CertificateType. key: its
    private key (PKCS8, DER), b'' where there is none or it follows from the BMC's identity.
    """

    id: str
    collection: str
    text: str = ""
    type: str = "PEM"
    key: bytes = b""

    @property
    def uri(self) -> str:
        """Where it is."""
        return f"{self.collection}/{self.id}"


class Shown(msgspec.Struct, frozen=True):
    """What a certificate says. Times in seconds since the epoch; issuer, subject: Identifier objects (DSP0268)."""

    issuer: dict[str, Any]
    subject: dict[str, Any]
    valid_from: float
    valid_until: float
    key_usage: list[str]
    serial_number: str
    fingerprint: str
    signature_algorithm: str


class Described(msgspec.Struct, frozen=True):
    """Whose a certificate is. subject: property of an Identifier -> text. names: host names and addresses."""

    subject: dict[str, str]
    names: list[str]


def first(collection: str, facts: CertificateFacts) -> tuple[Certificate, ...]:
    """What a collection has from the beginning."""
    return (Certificate(facts.first, collection),) if facts.first else ()


# what a BMC shows


@lru_cache(_REMEMBERED)
def made(seed: bytes, described: bytes) -> str:
    """PEM of the certificate that hardware makes for itself: self-signed, P-256, the same for the same arguments.

    seed: 32 bytes, from which the private key follows. described: `Described` as JSON.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    wanted = msgspec.json.decode(described, type=Described)
    key = _derived(seed)
    name = _name(wanted.subject, _ATTRIBUTES)
    number = int.from_bytes(hashlib.sha256(seed + described).digest()[:16]) | 1
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(number)
        .not_valid_before(_VALID[0])
        .not_valid_after(_VALID[1])
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(["DigitalSignature"]), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_alternative_names(wanted.names), critical=False)
        .sign(key, hashes.SHA256(), ecdsa_deterministic=True)
    )
    return _pem(certificate)


def made_key(seed: bytes) -> bytes:
    """The private key of `made`: PKCS8, DER."""
    return _key_bytes(_derived(seed))


def _derived(seed: bytes) -> "ec.EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec

    curve = ec.SECP256R1()
    return ec.derive_private_key(int.from_bytes(seed) % (curve.group_order - 1) + 1, curve)


@lru_cache(_REMEMBERED)
def shown(text: str) -> Shown:
    """What the first certificate of a PEM text says. Raises Unusable for what is none, or has an unknown form."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    with _checked():
        certificate = x509.load_pem_x509_certificate(text.encode())
        names = _names_of(certificate)
        return Shown(
            _identifier(certificate.issuer),
            {**_identifier(certificate.subject), **({"AlternativeNames": names} if names else {})},
            certificate.not_valid_before_utc.timestamp(),
            certificate.not_valid_after_utc.timestamp(),
            _usages_of(certificate),
            _serial(certificate.serial_number),
            _pairs(certificate.fingerprint(hashes.SHA256())).upper(),
            certificate.signature_algorithm_oid.dotted_string,
        )


def _serial(number: int) -> str:
    """A serial number. Raises Unusable for a negative one (RFC 5280 4.1.2.2)."""
    if number < 0:
        raise Unusable("CertificateString")
    return _pairs(number.to_bytes((number.bit_length() + 7) // 8 or 1))


def _pairs(data: bytes) -> str:
    return data.hex(":")


def _identifier(name: "x509.Name") -> dict[str, Any]:
    """A name as an Identifier; what occurs twice has a property for the others (Additional...)."""
    values: dict[str, list[str]] = {}
    for attribute in name:
        values.setdefault(attribute.oid.dotted_string, []).append(str(attribute.value))
    found = {shown_as: values[oid] for shown_as, oid in _ATTRIBUTES.items() if oid in values}
    identifier: dict[str, Any] = {shown_as: texts[0] for shown_as, texts in found.items()}
    for shown_as in ("CommonName", "OrganizationalUnit"):
        if len(found.get(shown_as, ())) > 1:
            identifier[f"Additional{shown_as}s"] = found[shown_as][1:]
    return identifier


def _names_of(certificate: "x509.Certificate") -> list[str]:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    plain = (x509.DNSName, x509.IPAddress, x509.RFC822Name, x509.UniformResourceIdentifier)
    return [str(name.value) for name in names if isinstance(name, plain)]


def _usages_of(certificate: "x509.Certificate") -> list[str]:
    from cryptography import x509

    usages: list[str] = []
    for extension in certificate.extensions:
        value = extension.value
        if isinstance(value, x509.KeyUsage):
            # Without key agreement the last two have no meaning, and no value.
            known = list(_USAGES.items())[: None if value.key_agreement else -2]
            usages += [usage for usage, attribute in known if getattr(value, attribute)]
        elif isinstance(value, x509.ExtendedKeyUsage):
            allowed = {usage.dotted_string for usage in value}
            usages += [usage for usage, oid in _EXTENDED_USAGES.items() if oid in allowed]
    return usages


# what a BMC takes


def read(text: str, type_: str) -> tuple[str, bytes]:
    """(the certificates of a text without anything else, leaf first; the private key in it, b'' without one).

    type_: PEM, exactly one certificate, or PEMchain. Raises Unusable for anything else, for a chain whose members
    are not signed by the next one, and for keys of a kind or size that no BMC takes.
    """
    from cryptography import x509

    blocks = [(match[1], match[0].encode()) for match in _BLOCK.finditer(text)]
    with _checked():
        chain = [x509.load_pem_x509_certificate(block) for label, block in blocks if label == "CERTIFICATE"]
        keys = [_private(block) for label, block in blocks if label.endswith("PRIVATE KEY")]
        if not 1 <= len(chain) <= (1 if type_ == "PEM" else MAX_CHAIN) or len(keys) > 1:
            raise Unusable("CertificateString")
        for certificate in chain:
            _check_size(certificate.public_key())
        for certificate, issuer in pairwise(chain):
            certificate.verify_directly_issued_by(issuer)
        only = "".join(_pem(certificate) for certificate in chain)
        shown(only)
        return only, _key_bytes(keys[0]) if keys else b""


def matching(text: str, keys: Iterable[bytes]) -> bytes:
    """The first of some private keys that belongs to the first certificate of a PEM text. Raises Unusable for none."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    with _checked():
        public = _public_bytes(x509.load_pem_x509_certificate(text.encode()).public_key())
    for data in keys:
        key = serialization.load_der_private_key(data, None, unsafe_skip_rsa_key_validation=True)
        if _public_bytes(key.public_key()) == public:
            return data
    raise Unusable("CertificateString")


def _private(block: bytes) -> "PrivateKeyTypes":
    from cryptography.hazmat.primitives import serialization

    # The validation of a large RSA key takes seconds. That it belongs to the certificate is what is checked of it.
    key = serialization.load_pem_private_key(block, None, unsafe_skip_rsa_key_validation=True)
    _check_size(key.public_key())
    return key


def _check_size(public: Any) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    fits = public.key_size in _RSA_BITS if isinstance(public, rsa.RSAPublicKey) else True
    if not fits or not isinstance(public, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
        raise Unusable("CertificateString")


# what a BMC asks for


def request(wanted: Mapping[str, Any]) -> tuple[str, bytes]:
    """A certificate signing request (RFC 2986, PEM) and its new private key (PKCS8, DER).

    wanted: parameters of GenerateCSR, of the right types. Raises Unusable for the first that a request cannot say.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import AttributeOID

    curves: dict[str, ec.EllipticCurve] = {one.name: one for one in (ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1())}
    curve = CURVES.get(wanted.get("KeyCurveId", "secp384r1"))
    if curve is None:
        raise Unusable("KeyCurveId")
    builder = x509.CertificateSigningRequestBuilder().subject_name(_name(wanted, _REQUESTED))
    if names := wanted.get("AlternativeNames"):
        builder = builder.add_extension(_alternative_names(names), critical=False)
    usages = wanted.get("KeyUsage", ())
    if not set(usages) <= {*_USAGES, *_EXTENDED_USAGES}:
        raise Unusable("KeyUsage")
    if plain := [usage for usage in usages if usage in _USAGES]:
        builder = builder.add_extension(_key_usage(plain), critical=True)
    if extended := [x509.ObjectIdentifier(_EXTENDED_USAGES[one]) for one in usages if one in _EXTENDED_USAGES]:
        builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
    if password := wanted.get("ChallengePassword"):
        builder = builder.add_attribute(AttributeOID.CHALLENGE_PASSWORD, password.encode())
    key = ec.generate_private_key(curves[curve])
    return _pem(builder.sign(key, hashes.SHA256())), _key_bytes(key)


def _name(wanted: Mapping[str, Any], attributes: Mapping[str, str]) -> "x509.Name":
    from cryptography import x509

    parts = []
    for parameter, oid in attributes.items():
        if not (text := wanted.get(parameter)):
            continue
        try:
            parts.append(x509.NameAttribute(x509.ObjectIdentifier(oid), text))
        except (ValueError, TypeError) as error:
            raise Unusable(parameter) from error
    return x509.Name(parts)


def _alternative_names(names: Sequence[str]) -> "x509.SubjectAlternativeName":
    from cryptography import x509

    parts: list[x509.GeneralName] = []
    for name in names:
        try:
            parts.append(x509.IPAddress(ip_address(name)))
        except ValueError:
            if not name or not name.isascii() or not name.isprintable() or " " in name:
                raise Unusable("AlternativeNames") from None
            parts.append(x509.DNSName(name))
    return x509.SubjectAlternativeName(parts)


def _key_usage(usages: Iterable[str]) -> "x509.KeyUsage":
    from cryptography import x509

    named = set(usages)
    try:
        return x509.KeyUsage(**{attribute: usage in named for usage, attribute in _USAGES.items()})
    except ValueError as error:
        raise Unusable("KeyUsage") from error


# forms


def _pem(thing: "x509.Certificate | x509.CertificateSigningRequest") -> str:
    from cryptography.hazmat.primitives import serialization

    return thing.public_bytes(serialization.Encoding.PEM).decode()


def _key_bytes(key: "PrivateKeyTypes") -> bytes:
    from cryptography.hazmat.primitives import serialization

    der, pkcs8 = serialization.Encoding.DER, serialization.PrivateFormat.PKCS8
    return key.private_bytes(der, pkcs8, serialization.NoEncryption())


def _public_bytes(public: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    data: bytes = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return data


@contextmanager
def _checked() -> Iterator[None]:
    """Inside it, every way in which `cryptography` says that something is wrong with a certificate is Unusable."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        # What it warns of, and takes, is of no interest to whom it warns: it is what a client sent.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Unusable:
        raise
    except (
        ValueError,
        TypeError,
        InvalidSignature,
        UnsupportedAlgorithm,
        x509.InvalidVersion,
        x509.DuplicateExtension,
        x509.UnsupportedGeneralNameType,
    ):
        raise Unusable("CertificateString") from None
