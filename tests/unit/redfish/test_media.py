"""Virtual media: what the actions and a PATCH do to a device, and to nothing else."""

from typing import Any

import orjson
import pytest

from bmcsim.machine.actions import Happened, Happening
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.power import Event
from bmcsim.redfish.exchange import Response
from tests.conftest import Client, message_ids

DEVICES = [
    "/redfish/v1/Managers/iDRAC.Embedded.1/VirtualMedia/CD",
    "/redfish/v1/Managers/iDRAC.Embedded.1/VirtualMedia/RemovableDisk",
    "/redfish/v1/Systems/System.Embedded.1/VirtualMedia/1",
    "/redfish/v1/Systems/System.Embedded.1/VirtualMedia/2",
]
CD = DEVICES[0]
IMAGE = "http://192.0.2.1/images/install.iso"


def insert(client: Client, device: str = CD, image: Any = IMAGE, **more: Any) -> Response:
    """InsertMedia."""
    return client.request("POST", f"{device}/Actions/VirtualMedia.InsertMedia", {"Image": image, **more})


def eject(client: Client, device: str = CD, body: Any = None) -> Response:
    """EjectMedia."""
    return client.request("POST", f"{device}/Actions/VirtualMedia.EjectMedia", body)


def everything(client: Client) -> dict[str, Any]:
    """URI -> resource, but for what moves by itself."""
    return {
        uri: {key: value for key, value in client.get(uri).items() if key not in ("DateTime", "@odata.etag")}
        for uri in client.bmc.tree.nodes
        if "/Sensors/" not in uri and "MetricReport" not in uri and "EnvironmentMetrics" not in uri
    }


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("body", [None, {}])
def test_an_image_is_inserted_and_ejected_and_nothing_else_changes(host: Client, device: str, body: Any) -> None:
    before = everything(host)
    response = insert(host, device)
    assert (response.status, response.body) == (204, b"")
    assert list(response.actions) == [Happened(Happening.MEDIA_CHANGED, device)]
    shown = host.get(device)
    assert (shown["Image"], shown["ImageName"], shown["Inserted"]) == (IMAGE, "install.iso", True)
    assert (shown["ConnectedVia"], shown["WriteProtected"], shown["TransferProtocolType"]) == ("URI", True, "HTTP")
    assert {uri for uri, one in everything(host).items() if one != before[uri]} == {device}
    assert eject(host, device, body).status == 204
    assert everything(host) == before


def test_credentials_of_an_image_are_never_shown(host: Client) -> None:
    assert insert(host, image="cifs://server/share/a.iso", UserName="joe", Password="Secret-1").status == 204
    raw = host.request("GET", CD).body
    assert b"joe" not in raw
    assert b"Secret-1" not in raw
    assert b"Secret-1" not in host.bmc.encode()
    assert (orjson.loads(raw)["UserName"], orjson.loads(raw)["Password"]) == (None, None)


def test_how_it_is_connected_is_the_clients_choice(host: Client) -> None:
    choice = {"WriteProtected": False, "TransferMethod": "Upload", "TransferProtocolType": "HTTP", "Inserted": False}
    assert insert(host, **choice).status == 204
    shown = host.get(CD)
    assert choice.items() <= shown.items()
    assert (shown["Image"], shown["ConnectedVia"]) == (IMAGE, "NotConnected")


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({}, "ActionParameterMissing"),
        ({"Image": None}, "ActionParameterValueTypeError"),
        ({"Image": 5}, "ActionParameterValueTypeError"),
        ({"Image": ""}, "ActionParameterValueFormatError"),
        ({"Image": "install.iso"}, "ActionParameterValueFormatError"),
        ({"Image": "ftp://192.0.2.1/a.iso"}, "ActionParameterValueFormatError"),
        ({"Image": "x" * 1024}, "ActionParameterValueFormatError"),
        ({"Image": "x" * 1025}, "ActionParameterValueError"),
        ({"Image": IMAGE, "Inserted": "true"}, "ActionParameterValueTypeError"),
        ({"Image": IMAGE, "WriteProtected": 1}, "ActionParameterValueTypeError"),
        ({"Image": IMAGE, "TransferMethod": "Pigeon"}, "ActionParameterValueNotInList"),
        ({"Image": IMAGE, "TransferProtocolType": "NFS"}, "ActionParameterValueConflict"),
        ({"Image": IMAGE, "Nope": 1}, "ActionParameterUnknown"),
    ],
)
def test_what_cannot_be_inserted(host: Client, body: dict[str, Any], key: str) -> None:
    before = host.get(CD)
    response = host.request("POST", f"{CD}/Actions/VirtualMedia.InsertMedia", body)
    assert (response.status, message_ids(response)) == (400, [key])
    assert host.get(CD) == before


@pytest.mark.parametrize("inserted", [True, False])
def test_an_occupied_device_keeps_what_it_has(host: Client, inserted: bool) -> None:
    insert(host, Inserted=inserted)
    before = host.get(CD)
    response = insert(host, image="http://192.0.2.1/other.iso")
    assert (response.status, message_ids(response)) == (409, ["VRM0012"])
    assert host.get(CD) == before
    assert insert(host, DEVICES[1]).status == 204


def test_without_a_vendors_words_an_occupied_device_is_in_use(dpu: Client, host: Client) -> None:
    host.bmc.shared = dpu.bmc.shared
    insert(host)
    response = insert(host)
    assert (response.status, message_ids(response)) == (409, ["ResourceInUse"])
    failed = insert(host, DEVICES[1], "http://unreachable.invalid/a.iso")
    assert (failed.status, message_ids(failed)) == (400, ["CouldNotEstablishConnection"])
    assert [eject(host).status for _ in range(3)] == [204, 204, 204]


def test_an_image_that_cannot_be_had_is_not_shown(host: Client) -> None:
    before = host.get(CD)
    response = insert(host, image="http://unreachable.invalid/a.iso")
    assert (response.status, message_ids(response)) == (400, ["RAC0904"])
    assert host.get(CD) == before


def test_a_fault_makes_any_image_unreachable(host: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bmc, "media_fails", True)
    assert insert(host).status == 400
    assert host.get(CD)["Image"] is None


def test_an_idrac_minds_an_eject_of_nothing(host: Client) -> None:
    response = eject(host)
    assert (response.status, message_ids(response)) == (400, ["VRM0009"])


def test_media_is_gone_after_a_reset_of_the_bmc_and_stays_over_one_of_the_system(host: Client) -> None:
    insert(host)
    host.driver.execute(host.bmc, host.bmc.reset_system(Event.FORCE_RESTART, host.clock.now()))
    host.advance(1000)
    assert host.get(CD)["Image"] == IMAGE
    host.driver.execute(host.bmc, host.bmc.reset_bmc(host.clock.now()))
    host.advance(200)
    assert (host.get(CD)["Image"], host.get(CD)["Inserted"]) == (None, False)


def test_a_boot_from_the_image_is_for_once(host: Client) -> None:
    system = "/redfish/v1/Systems/System.Embedded.1"
    insert(host)
    once = {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Cd"}
    assert host.request("PATCH", system, {"Boot": once}).status == 204
    host.driver.execute(host.bmc, host.bmc.reset_system(Event.FORCE_RESTART, host.clock.now()))
    host.advance(1000)
    assert host.get(system)["Boot"]["BootSourceOverrideEnabled"] == "Disabled"
    assert host.get(CD)["Image"] == IMAGE


# PATCH, as some clients do it


def test_a_patch_of_the_image_inserts_and_of_null_ejects(host: Client) -> None:
    before = host.get(CD)
    body = {"Image": IMAGE, "Inserted": True, "WriteProtected": False, "UserName": "joe", "Password": "Secret-1"}
    assert host.request("PATCH", CD, body).status == 204
    shown = host.get(CD)
    assert (shown["Image"], shown["Inserted"], shown["WriteProtected"]) == (IMAGE, True, False)
    assert (shown["UserName"], shown["Password"]) == (None, None)
    assert host.request("PATCH", CD, {"Image": "http://192.0.2.1/b.iso"}).status == 409
    assert host.request("PATCH", CD, {"Image": None, "Inserted": False}).status == 204
    assert host.get(CD) == before
    assert host.request("PATCH", CD, {"Inserted": False}).status == 204


def test_a_patch_connects_what_waits_beside_the_drive(host: Client) -> None:
    assert message_ids(host.request("PATCH", CD, {"Inserted": True})) == ["PropertyMissing"]
    insert(host, Inserted=False)
    assert host.request("PATCH", CD, {"Inserted": True, "WriteProtected": False}).status == 204
    shown = host.get(CD)
    assert (shown["Inserted"], shown["ConnectedVia"], shown["WriteProtected"]) == (True, "URI", False)


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({"Image": "a.iso"}, "PropertyValueFormatError"),
        ({"Image": 5}, "PropertyValueTypeError"),
        ({"Inserted": None}, "PropertyValueTypeError"),
        ({"ImageName": "x"}, "PropertyNotWritable"),
        ({"Image": "http://unreachable.invalid/a.iso"}, "RAC0904"),
    ],
)
def test_a_patch_that_is_refused_changes_nothing(host: Client, body: dict[str, Any], key: str) -> None:
    before = host.get(CD)
    response = host.request("PATCH", CD, body)
    assert (response.status, message_ids(response)) == (400, [key])
    assert host.get(CD) == before


def test_an_image_never_shows_the_password_that_it_is_fetched_with(host: Client) -> None:
    media = "/redfish/v1/Managers/iDRAC.Embedded.1/VirtualMedia/CD"
    image = "http://user:secret@192.0.2.1:8080/a.iso?x=1"
    assert host.request("POST", f"{media}/Actions/VirtualMedia.InsertMedia", {"Image": image}).status == 204
    assert host.get(media)["Image"] == "http://192.0.2.1:8080/a.iso?x=1"
    assert b"secret" not in host.bmc.encode()
