"""BMCs that behave differently, and requests that take the short way through `handle`."""

from typing import Any

import msgspec

from bmcsim.machine import holes
from bmcsim.machine.credentials import Accounts
from bmcsim.redfish.exchange import Request, Response, head_of
from bmcsim.redfish.service import handle
from bmcsim.tree.compile import compile_tree
from bmcsim.tree.profile import Account, Resource, load
from bmcsim.tree.source import Source
from tests.conftest import PASSWORD, Client, make_client

SYSTEM = "/redfish/v1/Systems/Bluefield"
MANAGER = "/redfish/v1/Managers/Bluefield_BMC"
PROTOCOL = MANAGER + "/NetworkProtocol"
SESSION_SERVICE = "/redfish/v1/SessionService"
SESSIONS = SESSION_SERVICE + "/Sessions"
ACCOUNT_SERVICE = "/redfish/v1/AccountService"
ACCOUNTS = ACCOUNT_SERVICE + "/Accounts"
ROLES = ACCOUNT_SERVICE + "/Roles"
OWN = ACCOUNTS + "/root"
FACTORY = "0penBmc"


def dpu_with(
    *,
    password: str | None = PASSWORD,
    accounts: list[Account] | None = None,
    resources: dict[str, dict[str, Any]] | None = None,
    **behaviour: Any,
) -> Client:
    """A BlueField-3 with other behaviour or accounts. password: what all are rotated to, None for the factory's.

    resources: URI -> what its profile says, which is merged with what is there.
    """
    profile = load("bluefield3")
    for uri, more in (resources or {}).items():
        other = Resource(uri, {"type": "X.v1_0_0", **more}, Source(profile.path), ("resources", uri))
        own = profile.resources[uri]
        own.properties |= other.properties
        for key in more.keys() - other.properties.keys():
            setattr(own, key, {**getattr(own, key), **getattr(other, key)})
    head = msgspec.structs.replace(
        profile.head,
        behaviour=msgspec.structs.replace(profile.head.behaviour, **behaviour),
        accounts=accounts or profile.head.accounts,
    )
    tree = compile_tree(msgspec.structs.replace(profile, head=head), holes.bind)
    client = make_client("bluefield3", password=password)
    bmc = client.bmc
    accounts = Accounts.factory(head.accounts, bmc.shared.hasher, head.behaviour.factory_password_everywhere, password)
    bmc.tree = tree
    bmc.shared = msgspec.structs.replace(bmc.shared, tree=tree, accounts=accounts, behaviour=head.behaviour)
    bmc.become(client.clock.now(), accounts=accounts)
    bmc.committed()
    return client


def login(client: Client, user: str = "root", password: str = PASSWORD) -> tuple[bytes, str]:
    """(token, URI) of a new session."""
    response = client.request("POST", SESSIONS, {"UserName": user, "Password": password}, authorization=b"")
    assert response.status == 201, response.body
    fields = dict(line.split(b": ", 1) for line in response.head.split(b"\r\n") if line)
    return fields[b"X-Auth-Token"], fields[b"Location"].decode()


def as_edge(client: Client, method: str, path: str, body: bytes = b"", **fields: bytes) -> Response:
    """A request with its header fields as the HTTP edge hands them over; plain GETs take the short way."""
    target, _, query = path.partition("?")
    head = head_of({name.replace("_", "-").encode(): value for name, value in fields.items()})
    return handle(client.bmc, Request(method, target, client.clock.now(), head, query, body))
