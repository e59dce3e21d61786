"""Which privileges an operation needs (DSP8011, registry Redfish_1.8.0), and whether an account has them."""

from typing import Any, NamedTuple

import orjson

from bmcsim.core.errors import RedfishError
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Account
from bmcsim.tree.compile import Node

AnyOf = tuple[str, ...]
"""Privileges of which one is enough. ConfigureSelf counts only for what is the caller's own."""


class Rights(NamedTuple):
    """What a resource needs. read: GET and HEAD. write: all others, actions included."""

    read: AnyOf = ("Login",)
    write: AnyOf = ("ConfigureComponents",)


_COMPONENTS = Rights()
_MANAGER = Rights(write=("ConfigureManager",))
_USERS = Rights(write=("ConfigureUsers",))
_MANAGER_ONLY = Rights(("ConfigureManager",), ("ConfigureManager",))
_EITHER = Rights(write=("ConfigureManager", "ConfigureComponents"))

_MANAGER_TYPES = """
    ActionInfo AggregationService AggregationSource AllowDeny AttributeRegistry Battery BatteryMetrics
    CertificateService ComponentIntegrity CompositionReservation CompositionService ConnectionMethod Control
    EnvironmentMetrics EventService ExternalAccountProvider Fan Heater HeaterMetrics HostInterface Job JobService
    JsonSchemaFile Key KeyPolicy KeyService License LicenseService LogEntry LogService Manager ManagerDiagnosticData
    ManagerNetworkProtocol MessageRegistry MessageRegistryFile MetricDefinition MetricReport MetricReportDefinition
    NetworkAdapterMetrics NetworkDeviceFunctionMetrics OutboundConnection Power PowerDomain PowerEquipment
    PowerSubsystem PowerSupply PowerSupplyMetrics PrivilegeRegistry Role SecurityPolicy SerialInterface
    ServiceConditions ServiceRoot SessionService Task TaskService TelemetryService Thermal ThermalEquipment
    ThermalMetrics ThermalSubsystem Triggers TrustedComponent VLanNetworkInterface VirtualMedia
"""

RIGHTS: dict[str, Rights] = {
    **dict.fromkeys(_MANAGER_TYPES.split(), _MANAGER),
    **dict.fromkeys(("Aggregate", "EventDestinationCollection", "RegisteredClientCollection"), _EITHER),
    **dict.fromkeys(("EventDestination", "RegisteredClient"), Rights(write=("ConfigureManager", "ConfigureSelf"))),
    **dict.fromkeys(("Certificate", "CertificateEnrollment", "CertificateLocations"), _MANAGER_ONLY),
    "AccountService": _USERS,
    "ManagerAccount": Rights(("ConfigureManager", "ConfigureUsers", "ConfigureSelf"), ("ConfigureUsers",)),
    "ManagerAccountCollection": _USERS,
    "Session": Rights(("ConfigureManager", "ConfigureSelf"), ("ConfigureManager", "ConfigureSelf")),
    "SessionCollection": Rights(write=("Login",)),
    # Below a collection of the root: what differs there, and what a vendor's own types need there.
    "Certificate in Systems": Rights(("ConfigureComponents",)),
    "EnvironmentMetrics in Systems": _COMPONENTS,
    "LogEntry in Chassis": _COMPONENTS,
    "LogEntry in Systems": _COMPONENTS,
    "LogService in Chassis": _COMPONENTS,
    "LogService in Systems": _COMPONENTS,
    " in Managers": _MANAGER,
}
"""Resource type -> rights; a collection is like its members unless it is here itself. Not here: Rights()."""

PROPERTIES: dict[str, dict[str, AnyOf]] = {
    "ManagerAccount": {"Password": ("ConfigureUsers", "ConfigureSelf")},
}
"""Resource type -> property -> what a PATCH of it needs instead."""

_EVERY_READ = frozenset(rights.read[0] for rights in RIGHTS.values())
_READS = frozenset({"GET", "HEAD"})


def rights_of(node: Node) -> Rights:
    """What a resource needs."""
    type_ = node.type.partition(".")[0]
    place = [*node.uri.split("/", 4), ""][3]
    member = type_.removesuffix("Collection")
    for key in (f"{type_} in {place}", type_, f"{member} in {place}", member, f" in {place}"):
        if key in RIGHTS:
            return RIGHTS[key]
    return _COMPONENTS


def reads_everything(bmc: Bmc, account: Account) -> bool:
    """Whether an account may read every resource there is."""
    return _EVERY_READ.issubset(bmc.privileges(account))


def allows(bmc: Bmc, account: Account, method: str, node: Node, item: Any = None, body: bytes = b"") -> bool:
    """Whether an account may do something to a resource. item: the member of a dynamic collection. body: of a PATCH."""
    held = bmc.privileges(account)
    own = _owns(account, node, item)

    def has(needed: AnyOf) -> bool:
        return any(one in held and (own or one != "ConfigureSelf") for one in needed)

    rights = rights_of(node)
    if method in _READS:
        return has(rights.read)
    overrides = PROPERTIES.get(node.type.partition(".")[0], {}) if method == "PATCH" else {}
    if not overrides:
        return has(rights.write)
    return all(has(overrides.get(name, rights.write)) for name in _properties(body) or overrides)


def check(bmc: Bmc, account: Account, method: str, node: Node, item: Any = None, body: bytes = b"") -> None:
    """Raises RedfishError 403 for what an account may not do; see `allows`."""
    if not allows(bmc, account, method, node, item, body):
        raise RedfishError(403, "InsufficientPrivilege")


def require(bmc: Bmc, account: Account, privilege: str) -> None:
    """Raises RedfishError 403 for an account without a privilege."""
    if privilege not in bmc.privileges(account):
        raise RedfishError(403, "InsufficientPrivilege")


def _owns(account: Account, node: Node, item: Any) -> bool:
    match node.items:
        case "accounts":
            return item is not None and bool(item.id == account.id)
        case "sessions":
            return item is not None and bool(item.account == account.id)
        case "subscriptions":
            return item is not None and bool(item.owner == account.id)
    return False


def _properties(body: bytes) -> list[str]:
    """The properties that a PATCH names; none of a body that will be refused for its form."""
    try:
        changes = orjson.loads(body)
    except orjson.JSONDecodeError:
        return []
    return [name for name in changes if not name.startswith("@")] if isinstance(changes, dict) else []
