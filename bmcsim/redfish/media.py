"""Virtual media (DSP0268, VirtualMedia): InsertMedia, EjectMedia, and PATCH, which some clients use instead."""

from typing import Any

from bmcsim.core.errors import RedfishError
from bmcsim.machine import media
from bmcsim.machine.actions import Action as Effect
from bmcsim.machine.actions import Happened, Happening
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish.exchange import Request, Response
from bmcsim.redfish.outcome import Given, Handler, NodeHandler, done
from bmcsim.redfish.patch import checked, json_object, properties_of, vendor_refusal, write, written
from bmcsim.tree.compile import Action, Node

_INSERT = "VirtualMedia.InsertMedia"


def _insert(bmc: Bmc, action: Action, given: Given, request: Request) -> Response:
    """An image is connected if it can be had; else whatever was in the device stays as it was."""
    node, image = bmc.tree.nodes[action.uri], given["Image"]
    protocol = media.protocol_of(image)
    if protocol is None:
        raise RedfishError(400, "ActionParameterValueFormatError", image[:64], "Image", _INSERT, related="Image")
    asked = given.get("TransferProtocolType", protocol)
    if asked != protocol:
        related = "TransferProtocolType"
        raise RedfishError(400, "ActionParameterValueConflict", related, asked, related=related)
    return done(_connect(bmc, node, image, given, request))


def _connect(bmc: Bmc, node: Node, image: str, given: Given, request: Request) -> list[Effect]:
    behaviour = bmc.shared.behaviour
    if bmc.template(node)["Image"] is not None:
        if behaviour.media_in_use_message is not None:
            raise vendor_refusal(409, behaviour.media_in_use_message)
        raise RedfishError(409, "ResourceInUse")
    if bmc.media_fails or not media.reachable(image):
        if behaviour.media_unreachable_message is not None:
            raise vendor_refusal(400, behaviour.media_unreachable_message, "Image")
        raise RedfishError(400, "CouldNotEstablishConnection", image[:128], related="Image")
    bmc.change(node, media.inserted(image, given), request.moment)
    return _changed(bmc, node, request)


def _eject(bmc: Bmc, action: Action, _given: Given, request: Request) -> Response:
    node, message = bmc.tree.nodes[action.uri], bmc.shared.behaviour.media_empty_message
    if bmc.template(node)["Image"] is None and message is not None:
        raise vendor_refusal(400, message)
    return done(_disconnect(bmc, node, request))


def _disconnect(bmc: Bmc, node: Node, request: Request) -> list[Effect]:
    if bmc.template(node)["Image"] is None:
        return []
    bmc.revert(node, request.moment)
    return _changed(bmc, node, request)


def _changed(bmc: Bmc, node: Node, request: Request) -> list[Effect]:
    happened = Happened(Happening.MEDIA_CHANGED, node.uri)
    return [happened, *bmc.react(happened, request.moment)]


def _patch(bmc: Bmc, node: Node, request: Request) -> Response:
    """An Image inserts, an Image of null or Inserted of false ejects, anything else changes how it is connected."""
    properties = checked(bmc, node, properties_of(json_object(request.body)))
    image = properties.get("Image", "")
    effects: list[Effect] = []
    if image:
        if media.protocol_of(image) is None:
            raise RedfishError(400, "PropertyValueFormatError", image[:64], "Image", related="Image")
        effects = _connect(bmc, node, image, properties, request)
    elif image is None or properties.get("Inserted") is False:
        effects = _disconnect(bmc, node, request)
    else:
        _reconnect(bmc, node, properties, request)
    return written(bmc, node, request.moment, effects=effects)


def _reconnect(bmc: Bmc, node: Node, properties: dict[str, Any], request: Request) -> None:
    shown = {name: value for name, value in properties.items() if name in ("Inserted", "WriteProtected")}
    if shown.get("Inserted"):
        if bmc.template(node)["Image"] is None:
            raise RedfishError(400, "PropertyMissing", "Image", related="Image")
        shown["ConnectedVia"] = "URI"
    write(bmc, node, shown, request.moment)


ACTIONS: dict[str, Handler] = {_INSERT: _insert, "VirtualMedia.EjectMedia": _eject}

NODES: dict[str, NodeHandler] = {"media": _patch}
