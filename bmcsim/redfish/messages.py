"""Messages of the Base registry: ids, severities and argument counts are the registry's, the sentences are ours."""

import re
from typing import Any

import orjson

from bmcsim.core.errors import BASE_REGISTRY as REGISTRY
from bmcsim.core.errors import RedfishError
from bmcsim.core.messages import message_object
from bmcsim.redfish.exchange import JSON_HEAD, Response
from bmcsim.tree.profile import VendorMessage

_CRITICAL = "Critical"
_WARNING = "Warning"
_REPEATED = 1024

MESSAGES: dict[str, tuple[str, str, str]] = {
    "AccessUnauthorized": (
        _CRITICAL,
        "The request needs valid credentials.",
        "Log in, or send a user name and password that this BMC knows.",
    ),
    "ActionParameterDuplicate": (_WARNING, "Action %1 has the parameter %2 more than once.", "Name it once."),
    "ActionParameterMissing": (_CRITICAL, "Action %1 cannot run without the parameter %2.", "Send the parameter."),
    "ActionParameterNotSupported": (_WARNING, "Action %2 does not take the parameter %1 here.", "Leave it out."),
    "ActionParameterUnknown": (_WARNING, "Action %1 has no parameter %2.", "Leave the parameter out."),
    "ActionParameterValueNotInList": (
        _WARNING,
        "'%1' is not one of the values that parameter %2 of action %3 accepts.",
        "Choose one of the allowable values of the parameter.",
    ),
    "ActionParameterValueConflict": (
        _WARNING,
        "The parameter %1 cannot be '%2' together with the others.",
        "Change one of the parameters.",
    ),
    "ActionParameterValueError": (
        _WARNING,
        "The value of parameter %1 of action %2 is not valid.",
        "Correct the value.",
    ),
    "ActionParameterValueFormatError": (
        _WARNING,
        "'%1' is not a form that parameter %2 of action %3 takes.",
        "Correct the value.",
    ),
    "ActionParameterValueOutOfRange": (
        _WARNING,
        "'%1' is outside the range of parameter %2 of action %3.",
        "Choose a value in the range.",
    ),
    "ActionParameterValueTypeError": (
        _WARNING,
        "'%1' has the wrong type for parameter %2 of action %3.",
        "Send a value of the right type.",
    ),
    "ArraySizeTooLong": (_WARNING, "The array %1 takes at most %2 elements.", "Send fewer elements."),
    "CreateLimitReachedForResource": (
        _CRITICAL,
        "There are as many of these resources as the service allows.",
        "Delete one that is not needed.",
    ),
    "CouldNotEstablishConnection": (
        _CRITICAL,
        "There is no connection to '%1'.",
        "Check the URI, and that what it names can be reached.",
    ),
    "EmptyJSON": (_WARNING, "The body is an empty JSON object, which asks for nothing.", "Send at least one property."),
    "EventBufferExceeded": (
        _WARNING,
        "There were more events than the service keeps, so that some may be missing.",
        "Read again what the events would have told.",
    ),
    "EventSubscriptionLimitExceeded": (
        _CRITICAL,
        "There are as many event subscriptions as the service allows.",
        "Delete one that is not needed.",
    ),
    "GeneralError": (
        _CRITICAL,
        "The request failed; the extended information tells why.",
        "Follow the resolutions of the extended information.",
    ),
    "HeaderInvalid": (_CRITICAL, "The header field '%1' is not valid.", "Correct the header field."),
    "InsufficientPrivilege": (_CRITICAL, "The account may not do this.", "Use an account with the needed privilege."),
    "InsufficientStorage": (
        _CRITICAL,
        "There is no room left to store what the request changes.",
        "Free storage or memory of the service and repeat the request.",
    ),
    "InternalError": (
        _CRITICAL,
        "The service failed while it handled the request.",
        "Try again; report it if it happens again.",
    ),
    "InvalidObject": (_CRITICAL, "What '%1' names is not there or cannot be used here.", "Correct the URI."),
    "InvalidURI": (_CRITICAL, "The URI %1 is not one that the service can serve.", "Correct the URI."),
    "MalformedJSON": (
        _CRITICAL,
        "The body is not a JSON object.",
        "Send a JSON object with the media type application/json.",
    ),
    "MissingOrMalformedPart": (
        _CRITICAL,
        "The multipart body lacks a part, or one of its parts is not well-formed.",
        "Send UpdateParameters, a JSON object, and UpdateFile, which is not empty.",
    ),
    "NoOperation": (
        _WARNING,
        "The body names nothing that could be changed.",
        "Send at least one property that is no annotation.",
    ),
    "NoValidSession": (_CRITICAL, "The session does not exist or has ended.", "Log in and repeat the request."),
    "OperationNotAllowed": (
        _CRITICAL,
        "This resource does not support the HTTP method.",
        "Use one of the methods that the Allow header field lists.",
    ),
    "PasswordChangeRequired": (
        _CRITICAL,
        "The account is still on its initial password, which has to be changed first, by a PATCH of '%1'.",
        "Set a new Password on the account resource.",
    ),
    "PasswordIncorrectLength": (
        _CRITICAL,
        "The new password is too short or too long.",
        "Choose a length within MinPasswordLength and MaxPasswordLength of the account service.",
    ),
    "PasswordReuseTooRecent": (
        _CRITICAL,
        "The account had the new password not long ago, and the service does not take it again yet.",
        "Choose a password that the account did not have recently.",
    ),
    "PayloadTooLarge": (_CRITICAL, "The body is larger than the service accepts.", "Send less."),
    "PreconditionFailed": (
        _CRITICAL,
        "The resource is not in the state that the request expects.",
        "Read the resource again and repeat the request with its present ETag.",
    ),
    "PreconditionRequired": (
        _CRITICAL,
        "The request has to name the present state of the resource.",
        "Read the resource again and repeat the request with its present ETag.",
    ),
    "PropertyDuplicate": (_WARNING, "The request names %1 more than once.", "Name it once."),
    "PropertyMissing": (_WARNING, "The property %1 is needed and was not sent.", "Add the property."),
    "PropertyNotWritable": (_WARNING, "The property %1 cannot be written.", "Leave the property out."),
    "PropertyUnknown": (_WARNING, "The resource has no property %1.", "Leave the property out."),
    "PropertyValueConflict": (
        _WARNING,
        "The value for the property %1 does not go together with that of the property %2.",
        "Change the other property first, or both together.",
    ),
    "PropertyValueFormatError": (
        _WARNING,
        "'%1' is not a form that the property %2 takes.",
        "Correct the value.",
    ),
    "PropertyValueError": (_WARNING, "The value of the property %1 is not valid.", "Correct the value."),
    "PropertyValueNotInList": (
        _WARNING,
        "'%1' is not one of the values that the property %2 accepts.",
        "Choose an accepted value.",
    ),
    "PropertyValueOutOfRange": (
        _WARNING,
        "'%1' is outside the range of the property %2.",
        "Choose a value in the range.",
    ),
    "PropertyValueResourceConflict": (
        _WARNING,
        "The property %1 cannot be '%2' because of the state of the resource at '%3'.",
        "Change that state first.",
    ),
    "PropertyValueTypeError": (
        _WARNING,
        "'%1' has the wrong type for the property %2.",
        "Send a value of the right type.",
    ),
    "QueryCombinationInvalid": (
        _WARNING,
        "These query parameters cannot be used together.",
        "Leave one of them out.",
    ),
    "QueryNotSupportedOnOperation": (
        _WARNING,
        "This operation takes no query parameters.",
        "Leave the query parameters out.",
    ),
    "QueryNotSupportedOnResource": (
        _WARNING,
        "A query parameter is for collections only, and this resource is none.",
        "Leave the query parameter out, or ask a collection.",
    ),
    "QueryParameterUnsupported": (
        _WARNING,
        "The query parameter '%1' is not supported.",
        "Use what ProtocolFeaturesSupported of the service root lists.",
    ),
    "QueryParameterValueFormatError": (
        _WARNING,
        "'%1' is not a form that the query parameter %2 takes.",
        "Correct the value.",
    ),
    "QueryParameterOutOfRange": (
        _WARNING,
        "'%1' is not in the range %3 of the query parameter %2.",
        "Choose a value in the range.",
    ),
    "ResourceAlreadyExists": (
        _CRITICAL,
        "There is a %1 already whose property %2 is '%3'.",
        "Choose another value, or change the resource that is there.",
    ),
    "ResourceCannotBeDeleted": (_CRITICAL, "The resource cannot be deleted.", "Do not delete it."),
    "ResourceInUse": (
        _WARNING,
        "The resource is in a state in which it cannot be changed.",
        "Wait until the present operation has ended, or ask for the state it is not in yet.",
    ),
    "ResourceMissingAtURI": (_CRITICAL, "There is no resource at '%1'.", "Check the URI."),
    "ResourceNotFound": (_CRITICAL, "There is no %1 for '%2'.", "Check the name."),
    "ServiceDisabled": (_CRITICAL, "The service at '%1' is disabled.", "Enable the service."),
    "ServiceTemporarilyUnavailable": (
        _CRITICAL,
        "The service cannot answer at present. It may be able to in %1 seconds.",
        "Repeat the request after the time that the message names.",
    ),
    "SessionLimitExceeded": (_CRITICAL, "There are as many sessions as the service allows.", "End a session first."),
    "StringValueTooLong": (_WARNING, "The text '%1' is longer than %2 characters.", "Send a shorter text."),
    "UnrecognizedRequestBody": (_WARNING, "The service does not understand this media type.", "Send application/json."),
}


def message(key: str, *args: str, related: str = "") -> dict[str, Any]:
    """One Message object (DSP0266 9.5.11). What a client sent is repeated in part only."""
    severity, text, resolution = MESSAGES[key]
    args, related = tuple([arg[:_REPEATED] for arg in args]), related[:_REPEATED]
    text = re.sub(r"%(\d)", lambda match: args[int(match[1]) - 1], text)
    return _about(message_object(f"{REGISTRY}.{key}", text, args, severity, resolution), related)


def vendor_message(own: VendorMessage, related: str = "") -> dict[str, Any]:
    """A Message object of a vendor's own registry."""
    return _about(message_object(own.id, own.message, (), own.severity, own.resolution), related)


def _about(body: dict[str, Any], related: str) -> dict[str, Any]:
    """A Message object that names the property that it is about, if any."""
    return {**body, "RelatedProperties": [f"#/{related}"]} if related else body


def error_response(error: RedfishError) -> Response:
    """The error object of DSP0266 8.6."""
    return errors_response(
        error.status, [message(error.message, *error.arguments, related=error.related)], error.headers
    )


def errors_response(status: int, messages: list[dict[str, Any]], headers: bytes = b"") -> Response:
    """An error object with one or more messages."""
    first = messages[0] if len(messages) == 1 else message("GeneralError")
    body = {"code": first["MessageId"], "message": first["Message"], "@Message.ExtendedInfo": messages}
    return Response(status, JSON_HEAD + headers, orjson.dumps({"error": body}))
