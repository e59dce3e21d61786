"""Certificates: what they say, which are taken, and requests."""

from datetime import UTC, datetime
from ipaddress import ip_address
from random import Random
from typing import Any

import msgspec
import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.x509.oid import AttributeOID, ExtendedKeyUsageOID, NameOID
from hypothesis import example, given
from hypothesis import strategies as st

from bmcsim.machine import certificates
from bmcsim.machine.certificates import Unusable
from tests.certificates import Made, make
from tests.fuzz.der import odd_pem, pem

SEED = bytes(range(32))
WHO = b'{"subject":{"CommonName":"idrac-1","Organization":"Example","Country":"US"},"names":["idrac-1","192.0.2.7"]}'


def load(text: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(text.encode())


def test_a_made_certificate_is_the_same_in_every_process_and_signed_by_itself() -> None:
    text = certificates.made(SEED, WHO)
    certificates.made.cache_clear()
    assert certificates.made(SEED, WHO) == text
    certificate = load(text)
    certificate.verify_directly_issued_by(certificate)
    assert certificate.version is x509.Version.v3
    assert certificate.subject.rfc4514_string() == "C=US,O=Example,CN=idrac-1"
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["idrac-1"]
    assert names.get_values_for_type(x509.IPAddress) == [ip_address("192.0.2.7")]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert 0 < certificate.serial_number < 2**159


def test_no_two_bmcs_have_a_key_in_common_and_it_belongs_to_the_certificate() -> None:
    other = bytes(32)
    assert certificates.made(SEED, WHO) != certificates.made(other, WHO)
    assert certificates.made_key(SEED) != certificates.made_key(other)
    text = certificates.made(SEED, WHO)
    assert certificates.matching(text, [certificates.made_key(other), certificates.made_key(SEED)])
    with pytest.raises(Unusable):
        certificates.matching(text, [certificates.made_key(other)])


def test_another_address_is_another_certificate_with_the_same_key() -> None:
    moved = WHO.replace(b"192.0.2.7", b"192.0.2.8")
    before, after = load(certificates.made(SEED, WHO)), load(certificates.made(SEED, moved))
    assert before.public_key() == after.public_key()
    assert before.serial_number != after.serial_number


def test_what_is_shown_is_true_of_the_certificate() -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    attributes = [
        (NameOID.COMMON_NAME, "first"),
        (NameOID.COMMON_NAME, "second"),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "one"),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "two"),
        (NameOID.ORGANIZATION_NAME, "Example"),
        (NameOID.LOCALITY_NAME, "Town"),
        (NameOID.STATE_OR_PROVINCE_NAME, "Land"),
        (NameOID.COUNTRY_NAME, "DE"),
        (NameOID.EMAIL_ADDRESS, "a@example"),
    ]
    names = [
        x509.DNSName("a.example"),
        x509.IPAddress(ip_address("2001:db8::1")),
        x509.RFC822Name("b@example"),
        x509.UniformResourceIdentifier("https://c.example/"),
        x509.RegisteredID(x509.ObjectIdentifier("1.2.3")),
    ]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(oid, text) for oid, text in attributes]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")]))
        .public_key(key.public_key())
        .serial_number(0x0123AB)
        .not_valid_before(datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC))
        .not_valid_after(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(
            x509.KeyUsage(True, False, False, False, True, False, True, False, True),
            critical=True,
        )
        .sign(key, hashes.SHA384())
    )
    text = certificate.public_bytes(serialization.Encoding.PEM).decode()
    shown = certificates.shown(text)
    assert shown.issuer == {"CommonName": "authority"}
    assert shown.subject == {
        "CommonName": "first",
        "AdditionalCommonNames": ["second"],
        "OrganizationalUnit": "one",
        "AdditionalOrganizationalUnits": ["two"],
        "Organization": "Example",
        "City": "Town",
        "State": "Land",
        "Country": "DE",
        "Email": "a@example",
        "AlternativeNames": ["a.example", "2001:db8::1", "b@example", "https://c.example/"],
    }
    assert shown.valid_from == datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()
    assert shown.valid_until == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
    assert set(shown.key_usage) == {
        "DigitalSignature",
        "KeyAgreement",
        "CRLSigning",
        "DecipherOnly",
        "ClientAuthentication",
    }
    assert shown.serial_number == "01:23:ab"
    assert shown.fingerprint == certificate.fingerprint(hashes.SHA256()).hex(":").upper()
    assert shown.signature_algorithm == "1.2.840.10045.4.3.3"


def test_a_chain_is_taken_in_order_and_nothing_else_of_the_text() -> None:
    root = make("root")
    middle = make("middle", by=root)
    leaf = make("leaf", by=middle)
    parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    sent = f"subject=leaf\r\n{leaf.text}{middle.text}\n{root.text}{parameters}{leaf.key_text}"
    text, key = certificates.read(sent, "PEMchain")
    assert text == leaf.text + middle.text + root.text
    assert certificates.matching(text, [key]) == key
    assert certificates.read(leaf.text, "PEM") == (leaf.text, b"")
    for wrong in (leaf.text + root.text, middle.text + leaf.text):
        with pytest.raises(Unusable):
            certificates.read(wrong, "PEMchain")
    with pytest.raises(Unusable):
        certificates.read(leaf.text + middle.text, "PEM")


def test_a_chain_has_an_end() -> None:
    chain = [make("0")]
    for number in range(1, certificates.MAX_CHAIN + 1):
        chain.insert(0, make(str(number), by=chain[0]))
    with pytest.raises(Unusable):
        certificates.read("".join([one.text for one in chain]), "PEMchain")
    assert certificates.read("".join([one.text for one in chain[:-1]]), "PEMchain")


def test_what_is_no_certificate_is_refused(subtests: Any) -> None:
    made, other = make(), make()
    encrypted = made.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    ).decode()
    broken = made.text[:100] + ("A" if made.text[100] != "A" else "B") + made.text[101:]
    wrong = {
        "nothing": "",
        "a key alone": made.key_text,
        "two keys": made.text + made.key_text + other.key_text,
        "an encrypted key": made.text + encrypted,
        "half": made.text[:200],
        "no base64": made.text.replace("M", "?", 1),
        "other data": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "a key that is none": made.text + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    }
    for what, text in wrong.items():
        with subtests.test(what):
            with pytest.raises(Unusable) as refused:
                certificates.read(text, "PEM")
            assert refused.value.args == ("CertificateString",)
    with pytest.raises(Unusable):
        certificates.read(broken + made.text, "PEMchain")


@pytest.mark.parametrize(
    ("key", "taken"),
    [
        (rsa.generate_private_key(65537, 2048), True),
        (rsa.generate_private_key(65537, 1024), False),
        (ec.generate_private_key(ec.SECP521R1()), True),
        (ed25519.Ed25519PrivateKey.generate(), True),
    ],
)
def test_keys_that_no_bmc_takes_are_refused(key: Any, taken: bool) -> None:
    authority = make("authority")
    made = Made(make("leaf", by=authority, public=key.public_key()).certificate, key)
    if taken:
        text, own = certificates.read(made.text + made.key_text, "PEM")
        assert certificates.matching(text, [own]) == own
    else:
        with pytest.raises(Unusable):
            certificates.read(made.text + made.key_text, "PEM")


@pytest.mark.parametrize("key", [ed448.Ed448PrivateKey.generate(), dsa.generate_private_key(1024)])
def test_kinds_of_keys_that_no_bmc_takes_are_refused(key: Any) -> None:
    made = Made(make().certificate, key)
    with pytest.raises(Unusable):
        certificates.read(made.text + made.key_text, "PEM")


_BLOCKS = st.sampled_from(
    [make().text, make().key_text, "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"]
)


@given(st.lists(_BLOCKS | st.text(max_size=40), max_size=6), st.data())
@example(["-----BEGIN " + "-" * 50], None)
def test_whatever_is_sent_is_a_certificate_or_unusable(pieces: list[str], data: Any) -> None:
    text = "".join(pieces)
    if data is not None and text:
        at = data.draw(st.integers(0, len(text) - 1))
        text = text[:at] + data.draw(st.characters()) + text[at + 1 :]
    try:
        only, _ = certificates.read(text, "PEMchain")
    except Unusable:
        return
    assert "PRIVATE" not in only
    assert certificates.read(only, "PEMchain") == (only, b"")


def test_a_request_says_what_was_asked_for_and_its_key_is_new() -> None:
    asked = {
        "CommonName": "bmc.example",
        "AlternativeNames": ["b.example", "192.0.2.1"],
        "Organization": "Example",
        "Country": "DE",
        "Email": "",
        "Surname": "Someone",
        "KeyUsage": ["DigitalSignature", "ServerAuthentication"],
        "KeyCurveId": "TPM_ECC_NIST_P256",
        "ChallengePassword": "secret",
    }
    text, key = certificates.request(asked)
    request = x509.load_pem_x509_csr(text.encode())
    assert request.is_signature_valid
    assert request.subject.rfc4514_string() == "2.5.4.4=Someone,C=DE,O=Example,CN=bmc.example"
    names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["b.example"]
    assert request.extensions.get_extension_for_class(x509.KeyUsage).value.digital_signature
    assert ExtendedKeyUsageOID.SERVER_AUTH in request.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert request.attributes.get_attribute_for_oid(AttributeOID.CHALLENGE_PASSWORD).value == b"secret"
    loaded = serialization.load_der_private_key(key, None)
    assert loaded.public_key() == request.public_key()
    assert certificates.request(asked)[1] != key


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Country", "DEU"),
        ("CommonName", "x" * 65),
        ("AlternativeNames", ["ä.example"]),
        ("AlternativeNames", [""]),
        ("KeyUsage", ["EncipherOnly"]),
        ("KeyUsage", ["Cooking"]),
        ("KeyCurveId", "TPM_ECC_SM2_P256"),
    ],
)
def test_what_a_request_cannot_say_is_named(name: str, value: Any) -> None:
    with pytest.raises(Unusable) as refused:
        certificates.request({"CommonName": "bmc", name: value})
    assert refused.value.args == (name,)


def test_a_certificate_is_stored_with_its_key() -> None:
    one = certificates.Certificate("1", "/c", "text", "PEM", b"key")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=certificates.Certificate) == one
    assert one.uri == "/c/1"


@pytest.mark.parametrize("number", [b"\x85", b"\x80"])
def test_a_negative_serial_number_is_refused(number: bytes) -> None:
    """RFC 5280 4.1.2.2."""
    text = certificates.made(SEED, WHO)
    certificate = load(text)
    serial = certificate.serial_number.to_bytes((certificate.serial_number.bit_length() + 8) // 8)
    der = certificate.public_bytes(serialization.Encoding.DER)
    assert serial in der
    odd = der.replace(serial, (number * 20)[: len(serial)])
    assert load(pem("CERTIFICATE", der)).serial_number == certificate.serial_number
    for reader in (certificates.shown, lambda one: certificates.read(one, "PEM")):
        with pytest.raises(Unusable) as refused:
            reader(pem("CERTIFICATE", odd))
        assert refused.value.args == ("CertificateString",)


@given(st.randoms(use_true_random=False))
def test_a_certificate_of_odd_fields_is_shown_or_unusable(random: Random) -> None:
    text = odd_pem(random)
    try:
        only, key = certificates.read(text, "PEM")
    except Unusable:
        return
    shown = certificates.shown(only)
    assert orjson.loads(orjson.dumps(msgspec.structs.asdict(shown)))
    assert not key or certificates.read(only + text.partition("-----END CERTIFICATE-----\n")[2], "PEM") == (only, key)
