"""Certificates of a BMC: CertificateService, and what clients install and remove (DSP0268, Certificate).

No message repeats a CertificateString, which may hold a private key.
"""

from itertools import count
from typing import Any

import msgspec
import orjson

from bmcsim.core.errors import RedfishError
from bmcsim.machine import certificates
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.certificates import Certificate, Unusable
from bmcsim.redfish.exchange import JSON_HEAD, Request, Response
from bmcsim.redfish.members import created
from bmcsim.redfish.messages import message
from bmcsim.redfish.outcome import Given, Handler, NodeHandler, done
from bmcsim.redfish.patch import PatchRefused, json_object, problems_of, properties_of, text_of
from bmcsim.tree.check import CERTIFICATE_TYPES
from bmcsim.tree.compile import Action, Node

TEXT_LIMIT = 32768
"""Characters of a CertificateString."""

_STRING, _TYPE, _URI, _COLLECTION = "CertificateString", "CertificateType", "CertificateUri", "CertificateCollection"


def _replace(bmc: Bmc, action: Action, given: Given, request: Request) -> Response:
    """CertificateService.ReplaceCertificate: the new certificate is where the old one was."""
    text, type_ = _needed(given, _STRING, action), _needed(given, _TYPE, action)
    uri = _link(given, _URI, action)
    old = next((one for one in bmc.all_certificates() if one.uri == uri), None)
    if old is None:
        raise RedfishError(400, "InvalidObject", uri[:128], related=_URI)
    try:
        new = _usable(bmc, old, text, type_, bmc.certificate_keys(old))
    except Unusable as unusable:
        raise RedfishError(400, "ActionParameterValueError", _STRING, action.name, related=_STRING) from unusable
    present = bmc.certificates(old.collection)
    _keep(bmc, old.collection, tuple([new if one.id == old.id else one for one in present]), new, request)
    return done(headers=f"Location: {uri}\r\n".encode())


def _generate_request(bmc: Bmc, action: Action, given: Given, request: Request) -> Response:
    """CertificateService.GenerateCSR. The private key waits for the certificate; a later request takes its place."""
    _needed(given, "CommonName", action)
    collection = _link(given, _COLLECTION, action)
    if collection not in bmc.tree.certificates or not bmc.tree.certificates[collection].facts.keys:
        raise RedfishError(400, "InvalidObject", collection[:128], related=_COLLECTION)
    try:
        text, key = certificates.request(given)
    except Unusable as unusable:
        (name,) = unusable.args
        raise RedfishError(400, "ActionParameterValueError", name, action.name, related=name) from unusable
    bmc.become(request.moment, certificate_keys={**bmc.state.certificate_keys, collection: key})
    return Response(200, JSON_HEAD, orjson.dumps({_COLLECTION: {"@odata.id": collection}, "CSRString": text}))


def _install(bmc: Bmc, node: Node, request: Request) -> Response:
    """POST to a collection of certificates."""
    properties = properties_of(json_object(request.body))
    text, type_ = properties.pop(_STRING, None), properties.pop(_TYPE, None)
    problems = [message("PropertyMissing", name, related=name) for name, value in _given(text, type_) if value is None]
    problems += [*_problems(node, text, type_), *problems_of(bmc.tree.items[node.uri], properties)]
    if problems:
        raise PatchRefused(problems)
    present = bmc.certificates(node.uri)
    if len(present) >= bmc.tree.certificates[node.uri].facts.limit:
        raise RedfishError(400, "CreateLimitReachedForResource")
    taken = {one.id for one in present}
    place = Certificate(next(id_ for id_ in map(str, count(1)) if id_ not in taken), node.uri)
    pending = bmc.state.certificate_keys.get(node.uri)
    try:
        new = _usable(bmc, place, str(text), str(type_), [pending] if pending else [])
    except Unusable as unusable:
        raise RedfishError(400, "PropertyValueError", _STRING, related=_STRING) from unusable
    if any(bmc.certificate_text(one, request.moment) == new.text for one in present):
        fingerprint = certificates.shown(new.text).fingerprint
        raise RedfishError(400, "ResourceAlreadyExists", "Certificate", "Fingerprint", fingerprint, related=_STRING)
    _keep(bmc, node.uri, (*present, new), new, request)
    return created(bmc, node, new, request.moment)


def _remove(bmc: Bmc, node: Node, request: Request) -> Response:
    """DELETE of a certificate."""
    id_ = request.path.rstrip("/").rpartition("/")[2]
    left = tuple([one for one in bmc.certificates(node.container) if one.id != id_])
    bmc.become(request.moment, certificates={**bmc.state.certificates, node.container: left})
    return done()


def _given(text: Any, type_: Any) -> list[tuple[str, Any]]:
    return [(_STRING, text), (_TYPE, type_)]


def _problems(node: Node, text: Any, type_: Any) -> list[dict[str, Any]]:
    found = []
    if text is not None and not isinstance(text, str):
        found.append(message("PropertyValueTypeError", "(hidden)", _STRING, related=_STRING))
    elif text is not None and len(text) > TEXT_LIMIT:
        found.append(message("PropertyValueError", _STRING, related=_STRING))
    if type_ is not None and not isinstance(type_, str):
        found.append(message("PropertyValueTypeError", text_of(type_), _TYPE, related=_TYPE))
    elif type_ is not None and type_ not in node.template.get("@Redfish.SupportedCertificates", CERTIFICATE_TYPES):
        found.append(message("PropertyValueNotInList", type_[:64], _TYPE, related=_TYPE))
    return found


def _usable(bmc: Bmc, place: Certificate, text: str, type_: str, known: list[bytes]) -> Certificate:
    """The certificate that a client sends for a place, with its key. known: keys that need not be sent.

    Raises Unusable.
    """
    only, key = certificates.read(text, type_)
    if bmc.tree.certificates[place.collection].facts.keys:
        key = certificates.matching(only, [key] if key else known)
    else:
        key = b""
    return msgspec.structs.replace(place, text=only, type=type_, key=key)


def _keep(bmc: Bmc, collection: str, now: tuple[Certificate, ...], new: Certificate, request: Request) -> None:
    """Store certificates; the key of a signing request waits no longer than for its certificate."""
    waiting = {uri: key for uri, key in bmc.state.certificate_keys.items() if uri != collection or key != new.key}
    everything = {**bmc.state.certificates, collection: now}
    bmc.become(request.moment, certificates=everything, certificate_keys=waiting)


def _needed(given: Given, name: str, action: Action) -> Any:
    if name not in given:
        raise RedfishError(400, "ActionParameterMissing", action.name, name, related=name)
    return given[name]


def _link(given: Given, name: str, action: Action) -> str:
    """The URI that a parameter is a link to."""
    uri = _needed(given, name, action).get("@odata.id")
    if not isinstance(uri, str):
        wrong = (text_of(given[name])[:64], name, action.name)
        raise RedfishError(400, "ActionParameterValueFormatError", *wrong, related=name)
    return uri.rstrip("/")


ACTIONS: dict[str, Handler] = {
    "CertificateService.ReplaceCertificate": _replace,
    "CertificateService.GenerateCSR": _generate_request,
}

NODES: dict[str, NodeHandler] = {"install_certificate": _install, "remove_certificate": _remove}
