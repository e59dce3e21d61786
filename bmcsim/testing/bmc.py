"""One BMC of a test, and its answers."""

import base64
import gzip
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from bmcsim.machine.bmc import Bmc as Machine
from bmcsim.testing.wire import Answer

if TYPE_CHECKING:
    from bmcsim.testing.fleet import Fault, Fleet

Auth = tuple[str, str]
"""User name and password."""

DEFAULT: Auth = ("", "")
"""The BMC's own first account, with the password that it has now as far as the test can know."""


class Headers(Mapping[str, str]):
    """Header fields; names in any case."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = {name.lower(): value for name, value in fields.items()}

    def __getitem__(self, name: str) -> str:
        return self._fields[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"Headers({self._fields})"


class Response:
    """An answer. body: decoded where it was compressed. delay: what a fault made the client wait, seconds."""

    def __init__(self, answer: Answer) -> None:
        self.status, self.delay = answer.status, answer.delay
        self.headers = Headers(dict(answer.fields))
        coded = answer.body and self.headers.get("Content-Encoding") == "gzip"
        self.body = gzip.decompress(answer.body) if coded else answer.body

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    def json(self) -> Any:
        """The body. Raises ValueError where it is not JSON."""
        return orjson.loads(self.body)

    @property
    def messages(self) -> list[str]:
        """Keys of the messages of an error: ['PropertyUnknown'] (DSP0266 8.6)."""
        error = self.json().get("error", {})
        return [one["MessageId"].rpartition(".")[2] for one in error.get("@Message.ExtendedInfo", ())]

    def __repr__(self) -> str:
        return f"<Response {self.status}, {len(self.body)} bytes>"


class Bmc:
    """A BMC of a fleet."""

    def __init__(self, fleet: "Fleet", machine: Machine) -> None:
        self._fleet, self.machine = fleet, machine

    @property
    def id(self) -> str:
        """'host-0', 'host-0-dpu-1' ..."""
        return self.machine.id

    @property
    def address(self) -> str:
        """IPv4, dotted; '' while it has none."""
        return self.machine.address

    @property
    def url(self) -> str:
        """https://ADDRESS, for clients that go through a transport of the fleet."""
        return f"https://{self.machine.address}"

    @property
    def kind(self) -> str:
        """host, dpu, switch or power_shelf."""
        return str(self.machine.identity.kind)

    @property
    def serial(self) -> str:
        """Its serial number."""
        return self.machine.identity.serial

    @property
    def system(self) -> str:
        """URI of the system that power commands act on, '' without one."""
        return self.machine.tree.head.roles.system

    @property
    def manager(self) -> str:
        """URI of the manager that is the BMC itself."""
        return self.machine.tree.head.roles.manager

    @property
    def auth(self) -> Auth:
        """User and password of its first account: the last password that is known, where a client set another."""
        return self._fleet.auth_of(self.machine)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        auth: Auth | None = DEFAULT,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Send a request. path: with its query. body: bytes as they are, anything else as JSON. auth: None for none.

        Raises ConnectionError when the BMC closes the connection.
        """
        fields = {"Host": self.id, "Accept": "*/*"}
        if body is not None:
            if not isinstance(body, bytes):
                body = orjson.dumps(body)
            fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        if auth is not None:
            user, password = self.auth if auth is DEFAULT else auth
            fields["Authorization"] = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        given = {name.title(): value for name, value in (headers or {}).items()}
        return Response(self._fleet.send(method, path, {**fields, **given}.items(), body or b""))

    def get(self, path: str, **options: Any) -> Response:
        """GET. options: auth and headers, as of `request`."""
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Response:
        """POST."""
        return self.request("POST", path, {} if body is None else body, **options)

    def patch(self, path: str, body: Any, **options: Any) -> Response:
        """PATCH."""
        return self.request("PATCH", path, body, **options)

    def delete(self, path: str, **options: Any) -> Response:
        """DELETE."""
        return self.request("DELETE", path, **options)

    def power(self, command: str) -> None:
        """See `Fleet.power`."""
        self._fleet.power(self, command)

    def reset_bmc(self) -> None:
        """See `Fleet.reset_bmc`."""
        self._fleet.reset_bmc(self)

    def set_password(self, password: str) -> None:
        """See `Fleet.set_password`."""
        self._fleet.set_password(self, password)

    def set_reading(self, sensor: str, value: float | None) -> None:
        """See `Fleet.set_reading`."""
        self._fleet.set_reading(self, sensor, value)

    def fault(self, *faults: "Fault") -> None:
        """See `Fleet.fault`."""
        self._fleet.fault(self, *faults)

    def clear_faults(self) -> None:
        """See `Fleet.clear_faults`."""
        self._fleet.clear_faults(self)

    def __repr__(self) -> str:
        return f"<Bmc {self.id} at {self.address}>"
