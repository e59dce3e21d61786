"""The methods of `forge.Forge` that are called, and what can come of a call."""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from bmcsim.edges.nico import forge_pb2 as forge

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)

TRANSIENT = frozenset(
    {"UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN", "ABORTED", "CANCELLED", "RESOURCE_EXHAUSTED"}
)
"""Status codes after which the same call may succeed."""

_BACKOFF_FIRST, BACKOFF_MOST = 0.5, 30.0


class Method(NamedTuple, Generic[Request, Answer]):
    """A unary method. name: without the service."""

    name: str
    request: type[Request]
    answer: type[Answer]

    @property
    def path(self) -> str:
        return f"/forge.Forge/{self.name}"


VERSION = Method("Version", forge.VersionRequest, forge.BuildInfo)
DISCOVER_DHCP = Method("DiscoverDhcp", forge.DhcpDiscovery, forge.DhcpRecord)
DESIRED_FIRMWARE = Method(
    "GetDesiredFirmwareVersions", forge.GetDesiredFirmwareVersionsRequest, forge.GetDesiredFirmwareVersionsResponse
)
SET_CONFIG = Method("SetDynamicConfig", forge.SetDynamicConfigRequest, Empty)
ADD_MACHINE = Method("AddExpectedMachine", forge.ExpectedMachine, Empty)
ADD_SWITCH = Method("AddExpectedSwitch", forge.ExpectedSwitch, Empty)
ADD_SHELF = Method("AddExpectedPowerShelf", forge.ExpectedPowerShelf, Empty)
ADD_RACK = Method("AddExpectedRack", forge.ExpectedRack, Empty)
GET_RACK = Method("GetExpectedRack", forge.ExpectedRackRequest, forge.ExpectedRack)
FORCE_DELETE = Method(
    "AdminForceDeleteMachine", forge.AdminForceDeleteMachineRequest, forge.AdminForceDeleteMachineResponse
)


class CallFailed(Exception):
    """A call without an answer. code: of gRPC, such as UNAVAILABLE. stop: the server wants no other attempt."""

    def __init__(self, code: str, details: str = "", *, stop: bool = False) -> None:
        super().__init__(f"{code}: {details}" if details else code)
        self.code, self.details, self.stop = code, details, stop

    @property
    def transient(self) -> bool:
        """Whether the same call may succeed later."""
        return self.code in TRANSIENT


def backoff(failures: int, random: Callable[[], float]) -> float:
    """Seconds to wait after so many failures in a row, from 1: 0.5 doubling to 30, half of it random."""
    most = min(BACKOFF_MOST, _BACKOFF_FIRST * 2.0 ** min(failures - 1, 16))
    return most / 2 + most / 2 * random()
