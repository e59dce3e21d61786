"""The update service: images that are pushed or named, and the task that installs them (DSP0266 12.6).

No image is ever read or fetched; machine/images.py says what one is taken for.
"""

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from bmcsim.core.errors import RedfishError
from bmcsim.machine import firmware, images, tasks, updates
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.images import Hint
from bmcsim.machine.tasks import Task
from bmcsim.redfish.exchange import Request, Response, Upload
from bmcsim.redfish.outcome import Given, Handler, done
from bmcsim.redfish.patch import APPLY_TIME, MAX_ITEMS, has_type, json_object, text_of
from bmcsim.redfish.tasks import accepted, retry_after
from bmcsim.tree.compile import Action
from bmcsim.tree.profile import UploadKind

DEFAULT_LIMIT = 512 * 1024 * 1024
"""Bytes of an image where the resource does not say MaxImageSizeBytes."""

_PARTS_LIMIT = 256 * 1024
"""What the other parts of a multipart body may add."""

_MEDIA: dict[UploadKind, tuple[bytes, ...]] = {
    "raw": (b"application/octet-stream", b""),
    "multipart": (b"multipart/form-data",),
}
_SUPPORT = "MultipartHttpPushUri@Redfish.OperationApplyTimeSupport"


def limit(bmc: Bmc, kind: UploadKind) -> int:
    """How many bytes the body of an upload may have."""
    image = bmc.setting(bmc.tree.update_service, "MaxImageSizeBytes") or DEFAULT_LIMIT
    return int(image) + (_PARTS_LIMIT if kind == "multipart" else 0)


def check_media_type(kind: UploadKind, request: Request) -> None:
    """Raises RedfishError 415 for a Content-Type that an upload of this kind does not have."""
    if request.head.media_type not in _MEDIA[kind]:
        raise RedfishError(415, "UnrecognizedRequestBody")


def push(bmc: Bmc, kind: UploadKind, request: Request) -> Response:
    """POST of an image (DSP0266 12.6.2 for multipart; HttpPushUri of DSP0268 for raw). Raises RedfishError."""
    check_media_type(kind, request)
    upload = request.upload
    if upload is None or not upload.has_file or not upload.size:
        raise RedfishError(400, "MissingOrMalformedPart" if kind == "multipart" else "UnrecognizedRequestBody")
    service = bmc.template(bmc.tree.nodes[bmc.tree.update_service])
    if kind == "raw":
        targets = _targets(bmc, service.get("HttpPushUriTargets", []))
        return _begin(bmc, request, "", targets, _hints(bmc, upload, {}))
    if not upload.parameters:
        raise RedfishError(400, "MissingOrMalformedPart")
    given = json_object(upload.parameters)
    supported = service.get(_SUPPORT, {}).get("SupportedValues", ["Immediate"])
    apply_time = _value(given, APPLY_TIME, "string", "Immediate")
    if apply_time not in supported:
        raise RedfishError(400, "PropertyValueNotInList", apply_time[:64], APPLY_TIME, related=APPLY_TIME)
    targets = _targets(bmc, _value(given, "Targets", "strings", []))
    return _begin(bmc, request, upload.file_name, targets, _hints(bmc, upload, given), apply_time)


def _value(parameters: dict[str, Any], name: str, type_: str, default: Any) -> Any:
    value = parameters.get(name, default)
    if not has_type(value, type_):
        raise RedfishError(400, "PropertyValueTypeError", text_of(value)[:64], name, related=name)
    return value


def _simple_update(bmc: Bmc, action: Action, given: Given, request: Request) -> Response:
    """UpdateService.SimpleUpdate (DSP0268). The URI is not fetched; only its scheme and its last segment count."""
    if "ImageURI" not in given:
        raise RedfishError(400, "ActionParameterMissing", action.name, "ImageURI", related="ImageURI")
    uri, protocols = given["ImageURI"], action.parameters.get("TransferProtocol")
    schemes = [scheme.lower() for scheme in (protocols and protocols.values) or ()]
    try:
        parts = urlsplit(uri)
    except ValueError:
        parts = urlsplit("")
    scheme = parts.scheme if "://" in uri else given.get("TransferProtocol", "").lower()
    if scheme not in schemes:
        wrong = (uri[:64], "ImageURI", action.name)
        raise RedfishError(400, "ActionParameterValueFormatError", *wrong, related="ImageURI")
    name = unquote(parts.path.rpartition("/")[2])
    hints = [images.of_name(name, bmc.tree.components)]
    apply_time = given.get(APPLY_TIME, "Immediate")
    return _begin(bmc, request, name[:255], _targets(bmc, given.get("Targets", [])), hints, apply_time)


def _start_update(bmc: Bmc, _action: Action, _given: Given, request: Request) -> Response:
    """UpdateService.StartUpdate (DSP0268)."""
    return done(bmc.update(updates.released(bmc.state, request.moment.hardware), request.moment))


def _targets(bmc: Bmc, uris: Iterable[str]) -> list[str]:
    """The components that a client names by their items in the inventory, or by what they run on."""
    uris = list(dict.fromkeys(uris))
    if len(uris) > MAX_ITEMS:
        raise RedfishError(400, "PropertyValueError", "Targets", related="Targets")
    names: list[str] = []
    for uri in uris:
        found = list(_components_at(bmc, uri.rstrip("/")))
        if not found:
            raise RedfishError(400, "InvalidObject", uri[:128], related="Targets")
        names += found
    return list(dict.fromkeys(names))


def _components_at(bmc: Bmc, uri: str) -> Iterator[str]:
    components = bmc.tree.components
    own = firmware.component_at(bmc.tree, bmc.state.firmware, uri)
    for name, component in components.items():
        meant = name == own or (uri in component.related and not component.version_of)
        if meant and component.updateable:
            yield name


def _hints(bmc: Bmc, upload: Upload, parameters: dict[str, Any]) -> list[Hint]:
    """What request and file say of an image, what counts most first. The simulator's own part of UpdateParameters is
    {"Oem": {"Bmcsim": {"Component": "uefi", "Version": "1.14"}}}."""
    components = bmc.tree.components
    oem: Any = parameters.get("Oem")
    own: Any = oem.get("Bmcsim") if isinstance(oem, dict) else None
    if not isinstance(own, dict):
        own = {}
    try:
        return [
            images.named(own.get("Component", ""), own.get("Version", ""), components),
            images.of_head(upload.head, components),
            images.of_name(upload.file_name, components),
        ]
    except images.UnknownImage as unknown:
        key, value = unknown.args
        wrong = "PropertyValueNotInList" if key == "component" else "PropertyValueFormatError"
        raise RedfishError(400, wrong, value, key) from unknown


def _begin(
    bmc: Bmc, request: Request, image: str, targets: list[str], hints: list[Hint], apply_time: str = "Immediate"
) -> Response:
    """Begin an update, or let it wait. Raises RedfishError for one that is not taken now."""
    moment, components = request.moment, bmc.tree.components
    _check_turn(bmc, request)
    changes = images.changes(components, bmc.state.firmware, bmc.shared.desired, targets, hints)
    number = bmc.state.tasks_made
    takes = max([components[name].takes for name in changes], default=1.0)
    timings = bmc.shared.timings
    slower = 1 + timings.jitter * bmc.identity.fraction(f"update{number}")
    task = Task(
        tasks.id_of(bmc.tree.updates.task_id, number),
        "Firmware Update",
        request.path.rstrip("/"),
        bmc.wall(moment),
        timings.firmware_upgrade * takes * slower,
        image,
        changes,
        on_reset=apply_time == "OnReset",
        held=apply_time == "OnStartUpdateRequest",
        fails_at=bmc.update_fails_at(moment),
    )
    return accepted(bmc, task.id, request, bmc.update(updates.ordered(bmc.state, task, moment.hardware), moment))


def _check_turn(bmc: Bmc, request: Request) -> None:
    """Raises RedfishError 503 where another update is in the way."""
    if tasks.is_full(bmc.state.tasks):
        raise RedfishError(503, "CreateLimitReachedForResource")
    now = request.moment.hardware
    running = [task for task in tasks.unfinished(bmc.state.tasks) if task.started is not None]
    if running and bmc.tree.updates.second == "refuse":
        left = request.moment.real_seconds(tasks.remaining(running[0], now))
        raise RedfishError(503, "ResourceInUse", headers=retry_after(left))


ACTIONS: dict[str, Handler] = {
    "UpdateService.SimpleUpdate": _simple_update,
    "UpdateService.StartUpdate": _start_update,
}
"""Action name -> what runs it."""
