"""CertificateService, and the certificates of the web server and of the trust store."""

from typing import Any

import msgspec
import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from bmcsim.machine.state import Row, decode, encode
from bmcsim.redfish.certificates import TEXT_LIMIT
from bmcsim.redfish.exchange import Response
from tests.certificates import make, signed
from tests.conftest import Client, header, make_client, message_ids
from tests.fuzz.der import pem

SERVICE = "/redfish/v1/CertificateService"
REPLACE = f"{SERVICE}/Actions/CertificateService.ReplaceCertificate"
REQUEST = f"{SERVICE}/Actions/CertificateService.GenerateCSR"
DPU = "/redfish/v1/Managers/Bluefield_BMC/NetworkProtocol/HTTPS/Certificates"
HOST = "/redfish/v1/Managers/iDRAC.Embedded.1/NetworkProtocol/HTTPS/Certificates"
OWN = f"{DPU}/1"
TRUST = "/redfish/v1/Managers/Bluefield_BMC/Truststore/Certificates"


@pytest.fixture
def dpu() -> Client:
    return make_client("bluefield3")


def replace(client: Client, text: Any, uri: str = OWN, type_: Any = "PEM") -> Response:
    link = {"@odata.id": uri}
    return client.request(
        "POST", REPLACE, {"CertificateString": text, "CertificateType": type_, "CertificateUri": link}
    )


def requested(client: Client, **more: Any) -> Response:
    return client.request(
        "POST", REQUEST, {"CommonName": "bmc.example", "CertificateCollection": {"@odata.id": DPU}, **more}
    )


def install(client: Client, text: Any, type_: Any = "PEM") -> Response:
    return client.request("POST", TRUST, {"CertificateString": text, "CertificateType": type_})


# what is there


@pytest.mark.parametrize(
    ("profile", "uri", "common_name"),
    [
        ("bluefield3", OWN, "dpu-bmc"),
        ("dell_poweredge_r750", f"{HOST}/SecurityCertificate.2", "idrac-020000000007"),
    ],
)
def test_a_bmc_has_a_certificate_of_its_own_that_is_what_it_says(profile: str, uri: str, common_name: str) -> None:
    client = make_client(profile)
    shown = client.get(uri)
    certificate = x509.load_pem_x509_certificate(shown["CertificateString"].encode())
    certificate.verify_directly_issued_by(certificate)
    assert shown["Subject"]["CommonName"] == common_name
    assert shown["Subject"]["AlternativeNames"] == [common_name, client.bmc.address]
    assert shown["Issuer"]["CommonName"] == common_name
    assert shown["Fingerprint"] == certificate.fingerprint(hashes.SHA256()).hex(":").upper()
    assert shown["ValidNotAfter"].startswith(certificate.not_valid_after_utc.isoformat()[:19])
    assert shown["KeyUsage"] == ["DigitalSignature", "ServerAuthentication"]
    assert shown["CertificateType"] == "PEM"
    assert client.get(SERVICE + "/CertificateLocations")["Links"] == {
        "Certificates": [{"@odata.id": uri}],
        "Certificates@odata.count": 1,
    }
    protocol = uri.partition("/HTTPS")[0]
    assert client.get(protocol)["HTTPS"]["Certificates"] == {"@odata.id": uri.rpartition("/")[0]}


def test_reading_it_changes_nothing_and_two_bmcs_have_different_ones(dpu: Client) -> None:
    first = dpu.get(OWN)
    assert dpu.get(OWN) == first
    assert dpu.bmc.uncommitted is None
    assert dpu.bmc.state.certificates == {}
    other = make_client("bluefield3", index=1).get(OWN)
    assert other["Fingerprint"] != first["Fingerprint"]
    assert other["SerialNumber"] != first["SerialNumber"]
    keys = [x509.load_pem_x509_certificate(one["CertificateString"].encode()).public_key() for one in (first, other)]
    assert keys[0] != keys[1]


# ReplaceCertificate


def test_a_certificate_is_replaced_and_its_key_is_shown_nowhere(dpu: Client) -> None:
    before = dpu.request("GET", OWN)
    made = make("new.example", COUNTRY_NAME="DE")
    response = replace(dpu, made.key_text + made.text)
    assert (response.status, response.body) == (204, b"")
    assert header(response, "Location") == OWN
    after = dpu.request("GET", OWN)
    shown = orjson.loads(after.body)
    assert shown["CertificateString"] == made.text
    assert shown["Subject"] == {"CommonName": "new.example", "Country": "DE"}
    assert header(after, "ETag") != header(before, "ETag")
    assert b"PRIVATE" not in after.body
    (kept,) = dpu.bmc.state.certificates[DPU]
    assert kept.key
    assert "PRIVATE" not in kept.text


def test_a_replaced_certificate_is_durable(dpu: Client) -> None:
    made = make()
    replace(dpu, made.text + made.key_text)
    requested(dpu)
    stored = decode(encode(Row(1, "bluefield3", dpu.bmc.state))).state
    assert stored == dpu.bmc.state
    fresh = make_client("bluefield3")
    fresh.bmc.restore(stored)
    assert fresh.get(OWN)["CertificateString"] == made.text


@pytest.mark.parametrize("kind", ["ResetAll", "PreserveNetworkAndUsers"])
def test_a_factory_reset_brings_the_first_certificate_back(kind: str) -> None:
    host = make_client("dell_poweredge_r750")
    uri = f"{HOST}/SecurityCertificate.2"
    first, made = host.get(uri), make()
    assert replace(host, made.text + made.key_text, uri).status == 204
    host.request("POST", REQUEST, {"CommonName": "x", "CertificateCollection": {"@odata.id": HOST}})
    manager = HOST.partition("/NetworkProtocol")[0]
    host.request("POST", f"{manager}/Actions/Manager.ResetToDefaults", {"ResetType": kind})
    assert (host.bmc.state.certificates, host.bmc.state.certificate_keys) == ({}, {})
    host.advance(600)
    (one,) = host.bmc.certificates(HOST)
    assert host.bmc.certificate_text(one, host.clock.now()) == first["CertificateString"]


def test_a_restart_of_the_bmc_keeps_it(dpu: Client) -> None:
    made = make()
    replace(dpu, made.text + made.key_text)
    dpu.bmc.reset_bmc(dpu.clock.now())
    dpu.driver.sync(dpu.bmc)
    dpu.advance(600)
    assert dpu.get(OWN)["CertificateString"] == made.text


def test_a_certificate_whose_key_nobody_knows_is_refused(dpu: Client) -> None:
    made = make()
    for text in (made.text, made.text + make().key_text):
        response = replace(dpu, text)
        assert (response.status, message_ids(response)) == (400, ["ActionParameterValueError"])
    assert dpu.bmc.state.certificates == {}


def test_the_key_that_is_there_serves_again(dpu: Client) -> None:
    """A renewal: the same key, a new certificate. It works for the first certificate too."""
    authority = make("authority")
    first = x509.load_pem_x509_certificate(dpu.get(OWN)["CertificateString"].encode())
    for name in ("renewed", "renewed again"):
        text = make(name, by=authority, public=first.public_key()).text
        assert replace(dpu, text).status == 204
        assert dpu.get(OWN)["CertificateString"] == text


def test_a_chain_is_taken_where_the_hardware_takes_chains(dpu: Client) -> None:
    host = make_client("dell_poweredge_r750")
    uri = f"{HOST}/SecurityCertificate.2"
    root = make("root")
    leaf = make("leaf", by=root)
    sent = leaf.text + root.text + leaf.key_text
    assert replace(host, sent, uri, "PEMchain").status == 204
    shown = host.get(uri)
    assert (shown["CertificateString"], shown["CertificateType"]) == (leaf.text + root.text, "PEMchain")
    assert (shown["Subject"]["CommonName"], shown["Issuer"]["CommonName"]) == ("leaf", "root")
    assert message_ids(replace(host, root.text + sent, uri, "PEMchain")) == ["ActionParameterValueError"]
    assert message_ids(replace(dpu, sent, OWN, "PEMchain")) == ["ActionParameterValueNotInList"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"CertificateString": None}, "ActionParameterMissing"),
        ({"CertificateType": None}, "ActionParameterMissing"),
        ({"CertificateUri": None}, "ActionParameterMissing"),
        ({"CertificateString": 1}, "ActionParameterValueTypeError"),
        ({"CertificateString": "x" * (TEXT_LIMIT + 1)}, "ActionParameterValueError"),
        ({"CertificateString": "nonsense"}, "ActionParameterValueError"),
        ({"CertificateType": "PKCS7"}, "ActionParameterValueNotInList"),
        ({"CertificateUri": OWN}, "ActionParameterValueTypeError"),
        ({"CertificateUri": {}}, "ActionParameterValueFormatError"),
        ({"CertificateUri": {"@odata.id": 1}}, "ActionParameterValueFormatError"),
        ({"CertificateUri": {"@odata.id": DPU}}, "InvalidObject"),
        ({"CertificateUri": {"@odata.id": DPU + "/2"}}, "InvalidObject"),
        ({"CertificateUri": {"@odata.id": "/redfish/v1"}}, "InvalidObject"),
        ({"Password": "x"}, "ActionParameterUnknown"),
    ],
)
def test_wrong_parameters_are_named(dpu: Client, change: dict[str, Any], message: str) -> None:
    made = make()
    body = {
        "CertificateString": made.text + made.key_text,
        "CertificateType": "PEM",
        "CertificateUri": {"@odata.id": OWN},
        **change,
    }
    response = dpu.request("POST", REPLACE, {name: value for name, value in body.items() if value is not None})
    assert (response.status, message_ids(response)) == (400, [message])
    assert dpu.bmc.uncommitted is None


def test_no_message_repeats_a_key(dpu: Client) -> None:
    made = make()
    secret = made.key_text.splitlines()[1]
    for wrong in ([made.key_text], made.key_text, made.text[:50] + made.key_text, made.key_text * 200):
        for response in (replace(dpu, wrong), install(dpu, wrong)):
            assert response.status == 400
            assert secret[:16].encode() not in response.body


def test_a_trailing_slash_is_the_same_certificate(dpu: Client) -> None:
    made = make()
    assert replace(dpu, made.text + made.key_text, OWN + "/").status == 204
    assert dpu.get(OWN)["CertificateString"] == made.text


# GenerateCSR


def test_a_signed_request_is_installed_without_its_key(dpu: Client) -> None:
    response = requested(dpu, KeyPairAlgorithm="EC", KeyCurveId="secp521r1")
    answer = orjson.loads(response.body)
    assert response.status == 200
    assert answer["CertificateCollection"] == {"@odata.id": DPU}
    assert "PRIVATE" not in answer["CSRString"]
    text = signed(answer["CSRString"], make("authority"))
    assert replace(dpu, text).status == 204
    assert dpu.get(OWN)["CertificateString"] == text
    assert dpu.bmc.state.certificate_keys == {}
    assert dpu.bmc.state.certificates[DPU][0].key


def test_the_last_request_counts_and_a_certificate_with_a_key_leaves_it(dpu: Client) -> None:
    authority = make("authority")
    first, second = [orjson.loads(requested(dpu).body)["CSRString"] for _ in range(2)]
    assert message_ids(replace(dpu, signed(first, authority))) == ["ActionParameterValueError"]
    made = make()
    assert replace(dpu, made.text + made.key_text).status == 204
    assert replace(dpu, signed(second, authority)).status == 204


@pytest.mark.parametrize(
    ("change", "message", "named"),
    [
        ({"CommonName": None}, "ActionParameterMissing", "CommonName"),
        ({"CertificateCollection": None}, "ActionParameterMissing", "CertificateCollection"),
        ({"CertificateCollection": {"@odata.id": OWN}}, "InvalidObject", "CertificateCollection"),
        ({"CertificateCollection": {"@odata.id": TRUST}}, "InvalidObject", "CertificateCollection"),
        ({"Country": "D"}, "ActionParameterValueError", "Country"),
        ({"AlternativeNames": ["no name"]}, "ActionParameterValueError", "AlternativeNames"),
        ({"KeyUsage": ["EncipherOnly"]}, "ActionParameterValueError", "KeyUsage"),
        ({"KeyUsage": ["Cooking"]}, "ActionParameterValueNotInList", "KeyUsage"),
        ({"KeyPairAlgorithm": "RSA"}, "ActionParameterValueNotInList", "KeyPairAlgorithm"),
        ({"CommonName": "x" * 65}, "ActionParameterValueError", "CommonName"),
    ],
)
def test_what_a_request_cannot_say_is_named(dpu: Client, change: dict[str, Any], message: str, named: str) -> None:
    body = {"CommonName": "x", "CertificateCollection": {"@odata.id": DPU}, **change}
    response = dpu.request("POST", REQUEST, {name: value for name, value in body.items() if value is not None})
    assert (response.status, message_ids(response)) == (400, [message])
    assert named in response.body.decode()
    assert dpu.bmc.state.certificate_keys == {}


# the trust store


def test_authorities_are_installed_listed_and_removed(dpu: Client) -> None:
    made, other = make("root"), make("other")
    response = install(dpu, made.text + made.key_text)
    assert response.status == 201
    assert header(response, "Location") == f"{TRUST}/1"
    assert orjson.loads(response.body) == dpu.get(f"{TRUST}/1")
    assert dpu.get(f"{TRUST}/1")["Subject"]["CommonName"] == "root"
    assert dpu.bmc.state.certificates[TRUST][0].key == b""
    assert install(dpu, other.text).status == 201
    locations = dpu.get(SERVICE + "/CertificateLocations")["Links"]
    assert [one["@odata.id"] for one in locations["Certificates"]] == [OWN, f"{TRUST}/1", f"{TRUST}/2"]
    assert replace(dpu, make("third").text, f"{TRUST}/2").status == 204
    assert dpu.request("DELETE", f"{TRUST}/1").status == 204
    assert dpu.request("GET", f"{TRUST}/1").status == 404
    assert dpu.request("DELETE", f"{TRUST}/1").status == 404
    assert header(install(dpu, other.text), "Location") == f"{TRUST}/1"
    assert dpu.get(TRUST)["Members@odata.count"] == 2


def test_an_authority_is_there_once_and_there_is_room_for_ten(dpu: Client) -> None:
    made = make("root")
    assert install(dpu, made.text).status == 201
    again = install(dpu, made.text)
    assert (again.status, message_ids(again)) == (400, ["ResourceAlreadyExists"])
    for number in range(9):
        assert install(dpu, make(f"root {number}").text).status == 201
    full = install(dpu, make("more").text)
    assert (full.status, message_ids(full)) == (400, ["CreateLimitReachedForResource"])


def test_everything_that_is_wrong_with_a_new_certificate_is_named(dpu: Client) -> None:
    body = {"CertificateString": ["x"], "CertificateType": "PKCS7", "Issuer": {}, "Colour": "red"}
    assert message_ids(dpu.request("POST", TRUST, body)) == [
        "PropertyValueTypeError",
        "PropertyValueNotInList",
        "PropertyNotWritable",
        "PropertyUnknown",
    ]
    assert message_ids(dpu.request("POST", TRUST, {"CertificateString": "x"})) == ["PropertyMissing"]
    assert message_ids(dpu.request("POST", TRUST, {})) == ["EmptyJSON"]
    assert message_ids(install(dpu, "x" * (TEXT_LIMIT + 1), 1)) == ["PropertyValueError", "PropertyValueTypeError"]
    assert message_ids(install(dpu, "nonsense")) == ["PropertyValueError"]


def test_the_certificate_of_the_web_server_comes_and_goes_by_the_action_alone(dpu: Client) -> None:
    assert dpu.request("POST", DPU, {"CertificateString": "x", "CertificateType": "PEM"}).status == 405
    response = dpu.request("DELETE", OWN)
    assert (response.status, header(response, "Allow")) == (405, "GET, HEAD")
    assert header(dpu.request("GET", TRUST), "Allow") == "GET, HEAD, POST"


# who may


def test_a_locked_idrac_keeps_its_certificate() -> None:
    host = make_client("dell_poweredge_r750")
    lock = host.bmc.shared.behaviour.lockdown
    assert lock is not None
    host.request("PATCH", lock.uri, {"Attributes": {"Lockdown.1.SystemLockdown": "Enabled"}})
    made = make()
    assert replace(host, made.text + made.key_text, f"{HOST}/SecurityCertificate.2").status == 403


def test_only_who_configures_the_manager_sees_and_replaces_certificates(dpu: Client) -> None:
    made = make()
    (root,) = dpu.bmc.accounts.accounts
    operator = msgspec.structs.replace(root, role="Operator")
    dpu.bmc.become(dpu.clock.now(), accounts=dpu.bmc.accounts.replacing(operator))
    assert dpu.request("GET", SERVICE).status == 200
    assert dpu.request("GET", OWN).status == 403
    assert replace(dpu, made.text + made.key_text).status == 403
    assert requested(dpu).status == 403
    assert install(dpu, made.text).status == 403


def test_a_certificate_with_a_negative_serial_number_is_refused_and_nothing_changes(dpu: Client) -> None:
    made = make()
    der = made.certificate.public_bytes(serialization.Encoding.DER)
    number = made.certificate.serial_number.to_bytes((made.certificate.serial_number.bit_length() + 8) // 8)
    text = pem("CERTIFICATE", der.replace(number, b"\x85" + number[1:]))
    before = dpu.bmc.state
    for response in (install(dpu, text), replace(dpu, text + made.key_text)):
        assert response.status == 400
    assert dpu.bmc.state is before
