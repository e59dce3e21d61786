"""What NICo does with a BMC that it has never seen, request by request, through one shared port (`bmc_proxy`)."""

import http.client
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest

from tests.clients.conftest import DPU, HOST
from tests.conftest import basic
from tests.serving import Process

ACCOUNTS = "/redfish/v1/AccountService/Accounts"
NEW = "Site-root-1"


class Answer:
    """Status, header fields and JSON of a response."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.fields = response.headers
        body = response.read()
        self.json: Any = orjson.loads(body) if body else None


Ask = Callable[..., Answer]


@pytest.fixture
def ask(factory_fleet: Process) -> Iterator[Ask]:
    """Sends requests over one kept-alive connection to 127.0.0.1, each with its own Forwarded host and credentials."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", factory_fleet.port, context=context, timeout=10)

    def request(
        bmc: str, method: str, path: str, password: str | None = None, body: Any = None, **fields: str
    ) -> Answer:
        headers = {"forwarded": f"host={bmc}", "Accept": "application/json", "Content-Type": "application/json"}
        if password is not None:
            headers["Authorization"] = basic("root", password).decode()
        headers |= {name.replace("_", "-"): value for name, value in fields.items()}
        connection.request(method, path, orjson.dumps(body) if body is not None else None, headers)
        return Answer(connection.getresponse())

    yield request
    connection.close()


@pytest.mark.parametrize(("bmc", "factory", "by_list"), [(HOST, "factory_password", True), (DPU, "0penBmc", False)])
def test_probe_rotation_exploration_and_session(ask: Ask, bmc: str, factory: str, by_list: bool) -> None:
    # Anonymous probe, twice: the vendor decides the client, the product the factory credential.
    for _ in range(2):
        root = ask(bmc, "GET", "/redfish/v1/")
        assert root.status == 200
    assert (root.json["Vendor"], bool(root.json["Product"])) == ("Dell" if bmc == HOST else "Nvidia", True)
    for link in ("AccountService", "Chassis", "Managers", "SessionService", "Systems", "UpdateService"):
        assert root.json[link]["@odata.id"].startswith("/redfish/v1/")
    assert root.json["Links"]["Sessions"]["@odata.id"] == "/redfish/v1/SessionService/Sessions"

    # Locked by the factory password: everything but the account service says so.
    locked = ask(bmc, "GET", "/redfish/v1/Systems/", factory)
    assert locked.status == 403
    assert locked.json["error"]["@Message.ExtendedInfo"][0]["MessageId"].endswith("PasswordChangeRequired")

    # Rotation: Dell's account is looked up by user name, BlueField's id is the user name.
    account = "root"
    if by_list:
        listed = ask(bmc, "GET", f"{ACCOUNTS}?$expand=.($levels=1)", factory)
        assert listed.status == 200
        (account,) = [member["Id"] for member in listed.json["Members"] if member["UserName"] == "root"]
    assert ask(bmc, "GET", "/redfish/v1/", factory).status == 200
    rotated = ask(bmc, "PATCH", f"{ACCOUNTS}/{account}", factory, {"Password": NEW})
    assert rotated.status in (200, 204)
    assert ask(bmc, "GET", "/redfish/v1/Systems/", factory).status == 401
    other = DPU if bmc == HOST else HOST
    assert ask(other, "GET", "/redfish/v1/Systems/", NEW).status == 401

    # The vendor's client initialises with the new credentials.
    for path in ("/redfish/v1/", "Managers", "Chassis", "Systems"):
        answer = ask(bmc, "GET", path if path.startswith("/") else f"/redfish/v1/{path}/", NEW)
        assert answer.status == 200
    system = answer.json["Members"][0]["@odata.id"]
    assert "Bios" in ask(bmc, "GET", f"{system}/", NEW).json

    # Exploration in the three spellings of $expand; an embedded member equals its own GET.
    for expand in (".", ".($levels=1)", "*($levels=1)"):
        collection = ask(bmc, "GET", f"/redfish/v1/Chassis?$expand={expand}", NEW)
        assert collection.status == 200
        assert len(collection.json["Members"]) == collection.json["Members@odata.count"]
    embedded = ask(bmc, "GET", "/redfish/v1/UpdateService/FirmwareInventory?$expand=.", NEW).json["Members"]
    for member in embedded:
        assert ask(bmc, "GET", member["@odata.id"], NEW).json == member

    # nv-redfish always sends If-Match with a PATCH; `*` when it has no tag.
    manager = ask(bmc, "GET", "/redfish/v1/Managers", NEW).json["Members"][0]["@odata.id"]
    ntp = {"NTP": {"NTPServers": ["192.0.2.123"], "ProtocolEnabled": True}}
    assert ask(bmc, "PATCH", f"{manager}/NetworkProtocol", NEW, ntp, If_Match="*").status in (200, 204)
    stale = ask(bmc, "PATCH", f"{manager}/NetworkProtocol", NEW, ntp, If_Match='"stale"')
    assert stale.status == 412

    # The API server's session: token, location and body, and the old one is deleted.
    sessions = "/redfish/v1/SessionService/Sessions"
    assert ask(bmc, "GET", "/redfish/v1/SessionService", NEW).status == 200
    created = ask(bmc, "POST", sessions, NEW, {"UserName": "root", "Password": NEW})
    assert created.status == 201
    assert created.json["UserName"] == "root"
    token, location = created.fields["X-Auth-Token"], created.fields["Location"]
    assert ask(bmc, "GET", manager, X_Auth_Token=token).status == 200
    assert ask(bmc, "DELETE", location, NEW).status in (200, 204)
    assert ask(bmc, "GET", manager, X_Auth_Token=token).status == 401


def test_the_site_password_fallback_is_401_and_latches_nobody_else(ask: Ask) -> None:
    for _ in range(3):
        wrong = ask(HOST, "GET", "/redfish/v1/Systems/", "Site-root-2")
        assert wrong.status == 401
        assert wrong.fields["WWW-Authenticate"].startswith("Basic realm=")
    assert ask(DPU, "GET", ACCOUNTS, "0penBmc").status == 200
    assert ask(HOST, "GET", ACCOUNTS, "factory_password").status == 200
