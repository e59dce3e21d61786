"""Hardware profiles: the YAML format, its checks, and its expansion into one flat table of resources.

A profile names parts (shared pieces with parameters) and resources. A resource is keyed by its URI; its keys that start
with a lower-case letter are the format's (``type``, ``repeat``, ``actions``, ...), all others are Redfish properties.
``{x}`` is a parameter or a repeat variable, filled in while loading; ``${x}`` is a hole, filled in per BMC.
docs/profiles.md describes the format for authors.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from bmcsim.tree.csdl import Document
from bmcsim.tree.reactions import Reaction
from bmcsim.tree.schema_files import vendors
from bmcsim.tree.source import Path_, ProfileError, Source, deep_merge
from bmcsim.tree.template import Follows

_PLACE = re.compile(r"(?<!\$)\{([a-z_][a-z0-9_]*)((?:[+*-]\d+)*)(?::([^{}]+))?\}")
_CONDITION = re.compile(r"^(\S+) (==|!=|>|<|>=|<=) (\S+)$")
_STEP = re.compile(r"([+*-])(\d+)")
_MSGSPEC_PATH = re.compile(r"^(.*) - at `\$\.?(.*)`$")
_URI = re.compile(r"/redfish/v1(?:/[^/\s?#]+)*")
_MAX_REPEAT = 4096
_MAX_DEPTH = 8

Method = Literal["POST", "PATCH", "PUT", "DELETE"]
Applies = Literal["immediate", "bmc_reset", "power_cycle", "boot"]
UploadKind = Literal["raw", "multipart"]
Derived = Literal["schemas", "registries"]


ResetMode = Literal["close", "503", "hang", "staged"]
ActionBody = Literal["optional", "required", "typed", "forbidden"]


class Account(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An account that the factory put there. id: its last URI segment."""

    id: str
    user: str
    password: str
    role: Literal["Administrator", "Operator", "ReadOnly"] = "Administrator"


class Timings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long this hardware takes, in seconds of its own time.

    power_on: from the command until PowerState is On. reboot: from the command until the firmware hands over.
    power_on_os_ready: from then until the operating system runs. power_off_graceful: its shutdown.
    power_off_force: how long PowerState stays Off in a power cycle. bmc_reset: how long Manager.Reset takes.
    firmware_upgrade: how long an update runs. jitter: up to which part of itself a BMC reset or update takes longer.
    job: how long a job runs that needs no boot.
    """

    power_on: float = 2.0
    reboot: float = 0.0
    power_on_os_ready: float = 0.0
    power_off_graceful: float = 0.0
    power_off_force: float = 5.0
    bmc_reset: float = 90.0
    firmware_upgrade: float = 2.0
    bmc_ssh_ready_offset: float = 0.0
    job: float = 20.0
    jitter: float = 0.0


class Roles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """URIs of the resources that state machines act on.

    system: the one that is switched on and off. chassis: what is, where there is no such system.
    """

    manager: str
    system: str = ""
    chassis: str = ""

    def origin(self, role: str) -> str:
        """URI of what something happens to. role: system or manager; anything else is that URI."""
        return {"manager": self.manager, "system": self.system or self.chassis}.get(role, role)


class VendorMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message of a vendor's own registry. id: with registry and version, such as IDRAC.2.7.RAC0218."""

    id: str
    message: str
    severity: Literal["OK", "Warning", "Critical"] = "Critical"
    resolution: str = "None."


class Lockdown(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What locks a BMC's configuration: a property of a resource, as keys one below the other, and its value.

    Resources say themselves what is refused then (`lockdown`). message: what the vendor says in the 403.
    """

    uri: str
    property: list[str]
    value: str
    message: VendorMessage


class QuerySupport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which query parameters of a read (DSP0266 7.3) this firmware understands.

    expand: the forms of $expand, none for no $expand. levels: the most that $levels may be, 0 where it is not known.
    top_skip: $top and $skip. expand_drops: properties that the firmware forgets in the resources that it embeds.
    ignore_unknown: what it does not know is ignored also where it starts with a dollar sign; else that is 501.
    """

    expand: frozenset[Literal[".", "*", "~"]] = frozenset({".", "*", "~"})
    levels: Annotated[int, msgspec.Meta(ge=0, le=6)] = 6
    select: bool = True
    filter: bool = True
    top_skip: bool = True
    only: bool = True
    excerpt: bool = True
    expand_drops: frozenset[str] = frozenset()
    ignore_unknown: bool = False

    def features(self) -> dict[str, Any]:
        """ProtocolFeaturesSupported of a root that tells the truth (ServiceRoot.v1_17_0)."""
        features: dict[str, Any] = {
            "ExcerptQuery": self.excerpt,
            "FilterQuery": self.filter,
            "OnlyMemberQuery": self.only,
            "SelectQuery": self.select,
            "TopSkipQuery": self.top_skip,
        }
        if self.filter:
            features |= {"FilterQueryComparisonOperations": True, "FilterQueryCompoundOperations": True}
        if self.expand:
            features["ExpandQuery"] = {
                "ExpandAll": "*" in self.expand,
                "Levels": self.levels > 0,
                "Links": "~" in self.expand,
                "NoLinks": "." in self.expand,
            }
            if self.levels:
                features["ExpandQuery"]["MaxLevels"] = self.levels
        return dict(sorted(features.items()))


class DeepSupport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which deep operations (DSP0266 7.13) this firmware understands.

    patch: whether a PATCH may change resources below its own. levels: how far below.
    """

    patch: bool = False
    levels: Annotated[int, msgspec.Meta(ge=1, le=6)] = 1

    def features(self) -> dict[str, Any]:
        """DeepOperations of ProtocolFeaturesSupported (ServiceRoot.v1_17_0)."""
        features: dict[str, Any] = {"DeepPATCH": self.patch, "DeepPOST": False}
        return features | {"MaxLevels": self.levels} if self.patch else features


class Behaviour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How this vendor's firmware answers where vendors differ.

    factory_password_everywhere: the factory password opens every resource (power shelves).
    factory_password_reads: what an account on its factory password may read.
    reset_conflict: status of a reset that the power state does not allow. 204: a system that is already where a reset
    leads (DSP0268, ResetType) stays there, and a restart of one that is off switches it on; the rest is 409.
    password_min, password_max: accepted length of a new password, in characters.
    password_history: how many former passwords, beside the present one, an account may not take again; 0: any may be.
    password_change_ends_sessions: a new password ends the sessions of its account, except the one that set it.
    ignores_pinned_password: it starts on its factory password, whatever password a fleet gives.
    subscription_limit, stream_limit: event subscriptions and open event streams at a time.
    account_limit: accounts at a time. account_ids: what names a new account in its URI.
    user_name_max: length of a user name. user_name_marks: what it may have beside ASCII letters and digits.
    session_limit: sessions at a time. session_full: what becomes of one more: 503, or the oldest one ends.
    session_full_message: what the vendor adds to that 503.
    connection_limit: open connections to the BMC's own address; one more is reset. request_limit: requests that it is
    busy with at a time, request_rate: requests per second; beyond either 503 with Retry-After. None: any number.
    while_resetting: what a client meets while the BMC resets (machine/bmc_reset.py has the phases).
    reset_conflict_message, media_in_use_message, media_unreachable_message: what the vendor says instead of the
    standard's message. media_empty_message: what it says to an eject of nothing, which is fine without it.
    boot_options_follow_order: whether the boot options are listed in boot order.
    clock_drift: seconds per day by which the BMC's clock is too fast, counted from its start.
    writes_ignore_if_none_match: a write is done whatever If-None-Match says; AMI's clients send it the present tag.
    requires_precondition: methods that are 428 without If-Match or If-None-Match.
    mixed_patch: what becomes of a PATCH that names, beside others, properties that can never be written: 'apply' writes
    the others and says so in a 200 (DSP0266 7.6), 'refuse' is 400. Wrong values always refuse all of it.
    unquoted_if_match: If-Match of a write may name the entity tag without its quotes.
    action_body: how an action is sent that is given no parameters: with `{}` or without a body (optional); with a body,
    else 400 (required); with the media type of JSON, else 415 (typed); without a body, else 400 (forbidden).
    lockdown: what locks the configuration.
    query: which query parameters it understands. deep: which deep operations. advertise: what the root's
    ProtocolFeaturesSupported says of them, which need not be the truth; without it, it is.
    """

    factory_password_everywhere: bool = False
    reset_conflict: Literal[204, 400, 409] = 204
    factory_password_reads: Literal["account_service", "own_account"] = "account_service"
    password_min: int = 0
    password_max: int = 40
    password_history: int = 0
    password_change_ends_sessions: bool = False
    ignores_pinned_password: bool = False
    subscription_limit: int = 20
    stream_limit: int = 10
    account_limit: int = 16
    account_ids: Literal["number", "name"] = "number"
    user_name_max: int = 32
    user_name_marks: str = "_-.@"
    session_limit: int = 64
    session_full: Literal["refuse", "drop_oldest"] = "refuse"
    session_full_message: VendorMessage | None = None
    connection_limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    request_limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    request_rate: Annotated[float, msgspec.Meta(gt=0)] | None = None
    while_resetting: ResetMode = "close"
    reset_conflict_message: VendorMessage | None = None
    media_in_use_message: VendorMessage | None = None
    media_unreachable_message: VendorMessage | None = None
    media_empty_message: VendorMessage | None = None
    boot_options_follow_order: bool = False
    clock_drift: float = 0.0
    writes_ignore_if_none_match: bool = False
    requires_precondition: frozenset[Literal["PATCH", "PUT", "DELETE"]] = frozenset()
    mixed_patch: Literal["apply", "refuse"] = "apply"
    unquoted_if_match: bool = False
    action_body: ActionBody = "optional"
    lockdown: Lockdown | None = None
    query: QuerySupport = QuerySupport()
    deep: DeepSupport = DeepSupport()
    advertise: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.advertise is None:
            msgspec.structs.force_setattr(self, "advertise", self.features())

    def features(self) -> dict[str, Any]:
        """ProtocolFeaturesSupported of a root that tells the truth (ServiceRoot.v1_17_0)."""
        return {"DeepOperations": self.deep.features(), **self.query.features()}


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything of a profile but its resources.

    dpu: host: the profile of the DPUs in its slots. dpus: how many it always has, None where the fleet says it.
    dpu_parameters: what these DPUs have otherwise than others of their profile. vendor_class, os_vendor_class: what the
    BMC, and the system or DPU behind it, call themselves to DHCP servers (RFC 2132 9.13), '' for nothing. infiniband:
    numbers of the MACs (hw.macN) that the ports of its InfiniBand adapters have. variants: named sets of parameters.
    """

    profile: str
    title: str
    kind: Literal["host", "dpu", "switch", "power_shelf"]
    accounts: list[Account]
    roles: Roles
    timings: Timings = Timings()
    behaviour: Behaviour = Behaviour()
    dpu: str = ""
    dpus: int | None = None
    dpu_parameters: dict[str, int | str] = {}
    vendor_class: Annotated[str, msgspec.Meta(max_length=255)] = ""
    os_vendor_class: Annotated[str, msgspec.Meta(max_length=255)] = ""
    infiniband: list[Annotated[int, msgspec.Meta(ge=1, le=255)]] = []
    parameters: dict[str, int | str] = {}
    variants: dict[str, dict[str, int | str]] = {}


class ReadingFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a sensor moves, as written in a profile."""

    min: float
    max: float
    step: float = 0.1
    powered: bool = False
    follows: Follows = "nothing"


class WritableFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client may write to one property.

    type: JSON type; 'attributes' is a table whose present keys may be written with values of their present type,
    'strings' and 'objects' are arrays.
    values: the allowed values, or $KEY for the list that stands at KEY of the same resource, or, for a settings
    resource, of the one that it sets.
    not_below: name of another number of the resource that this one may not be less than.
    length: of an array that always has so many elements, null behind the last one (DSP0266 7.7); 0 for any number.
    pattern: regular expression of the whole text. choices: attribute -> its allowed values, any where it is not named.
    read_only: attributes that cannot be written.
    rigid: of an array with a length, null stays where an element was removed. max_items: of one without a length.
    properties: of the elements of `objects`. required: of one of these, whether a new element needs it.
    """

    type: Literal["string", "boolean", "integer", "number", "strings", "objects", "attributes"]
    values: list[str] | str | None = None
    min: float | None = None
    max: float | None = None
    max_length: int = 1024
    length: Annotated[int, msgspec.Meta(ge=0, le=64)] = 0
    nullable: bool = False
    not_below: str = ""
    pattern: str = ""
    choices: dict[str, list[str]] = {}
    read_only: list[str] = []
    rigid: bool = False
    max_items: Annotated[int, msgspec.Meta(ge=1, le=64)] = 64
    properties: dict[str, "WritableFacts"] = {}
    required: bool = False


class ParameterFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A parameter of an action.

    values: the allowed ones, None for any. ignore_case: they are taken in any case. max_length: characters of a text.
    min, max: of a number. pattern: regular expression of a whole text. max_items: elements of an array.
    properties: of an object or of each element of `objects`; without them anything may be in it.
    """

    type: Literal["string", "boolean", "integer", "number", "strings", "object", "objects"] = "string"
    values: list[str] | None = None
    required: bool = False
    ignore_case: bool = False
    max_length: int = 1024
    min: float | None = None
    max: float | None = None
    pattern: str = ""
    max_items: Annotated[int, msgspec.Meta(ge=1, le=64)] = 64
    properties: dict[str, "ParameterFacts"] = {}


class PasswordFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A password of the system's firmware. current: the attribute by which a PATCH proves that its sender knows the
    present one, '' where only Bios.ChangePassword sets it. factory: as the system left the factory, '' for none."""

    current: str = ""
    factory: str = ""
    max_length: int = 32


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a settings resource holds back until its time (DSP0266 9.10).

    of: URI of the resource that gets it. apply_times: what a client may ask for. job: type of the job that carries it
    out, '' where none is needed. target: what the job is about, as its name says. passwords: name -> facts.
    survives: attributes that are kept elsewhere and stay when all others go back to what the factory set.
    committed: what the vendor says to a change while a job waits. wrong_password: and to a wrong present password.
    """

    of: str
    apply_times: tuple[Literal["OnReset", "Immediate"], ...] = ("OnReset",)
    job: str = ""
    target: str = ""
    passwords: dict[str, PasswordFacts] = {}
    survives: tuple[str, ...] = ()
    committed: VendorMessage | None = None
    wrong_password: VendorMessage | None = None


class Component(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A piece of firmware, as an item of the inventory shows it.

    id: of the item, with ${version} where the version is part of it. version: the one it starts with. version_of: name
    of another component that this item shows too; what becomes of that one becomes of this one.
    related: URIs of what it runs on. updateable: whether Targets may name it. applies: when a new version counts.
    takes: how many times `firmware_upgrade` an update runs. matches: words in the name of a file that is an image of
    it, beside its own name. comes_with: name of a component whose image brings this one along.
    """

    id: str
    title: str
    version: str | int = ""
    version_of: str = ""
    manufacturer: str = ""
    software_id: str = ""
    related: list[str] = []
    updateable: bool = True
    applies: Applies = "immediate"
    takes: float = 1.0
    matches: list[str] = []
    comes_with: str = ""


class Updates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an update service takes updates.

    uploads: URI of a POST -> what its body is. task_id: Id of a task, # for each digit of its number.
    location: which URI of the task an update answers with. tasks_survive_reset: whether an update goes on while the
    BMC itself is reset; else it fails. second: what becomes of an update that comes while another one runs; 'queue':
    it waits for its turn, and updates are jobs among the others.
    """

    uploads: dict[str, UploadKind] = {}
    task_id: str = "#"
    location: Literal["monitor", "task"] = "monitor"
    tasks_survive_reset: bool = False
    second: Literal["refuse", "queue"] = "refuse"


class CertificateSubject(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="pascal"):
    """Whose a certificate is: some properties of Identifier (DSP0268), with holes."""

    common_name: str
    organization: Annotated[str, msgspec.Meta(max_length=64)] = ""
    organizational_unit: Annotated[str, msgspec.Meta(max_length=64)] = ""
    city: Annotated[str, msgspec.Meta(max_length=128)] = ""
    state: Annotated[str, msgspec.Meta(max_length=128)] = ""
    country: Annotated[str, msgspec.Meta(pattern="^[A-Z]{2}$")] = ""
    email: Annotated[str, msgspec.Meta(max_length=128)] = ""


class CertificateFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The certificates of a collection.

    first: Id of the one that the hardware makes for itself, '' for none. subject, names: what that one says, with
    holes; names are host names and addresses. keys: whether a certificate is of use only with its private key.
    limit: certificates at a time.
    """

    first: str = ""
    subject: CertificateSubject | None = None
    names: list[str] = []
    keys: bool = True
    limit: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1


class LogKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a log writes down. on: a happening (machine/actions.py). initially: there from the beginning, once."""

    on: str
    message: str
    id: str = ""
    severity: Literal["OK", "Warning", "Critical"] = "OK"
    origin: str = ""
    initially: bool = False


class Log(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A log. keep: entries before the oldest is forgotten. events: whether subscribers are told its entries."""

    keep: Annotated[int, msgspec.Meta(ge=1)] = 100
    records: list[LogKind] = []
    events: bool = False


class EventKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What subscribers are told. on: a happening (machine/actions.py). id: with registry and version.

    message: with %1, %2, ... for args, of which <origin> is the URI of what it is about. origin: what that is where the
    happening does not say it: a URI, or a name of `roles`.
    """

    on: str
    id: str
    message: str
    type: Literal["Alert", "Other", "ResourceAdded", "ResourceRemoved", "ResourceUpdated", "StatusChange"] = "Other"
    args: list[str] = []
    severity: Literal["OK", "Warning", "Critical"] = "OK"
    origin: str = "system"


class Resource:
    """One resource after expansion. Properties still have $link, $links and $for directives and holes."""

    __slots__ = (
        "action_info",
        "actions",
        "applies_to",
        "certificates",
        "collection",
        "components",
        "derive",
        "events",
        "handlers",
        "host_name",
        "ignores",
        "items",
        "link",
        "lockdown",
        "log",
        "properties",
        "reactions",
        "reading",
        "registry_type",
        "settings",
        "source",
        "type",
        "updates",
        "uri",
        "where",
        "writable",
    )

    def __init__(self, uri: str, raw: dict[str, Any], source: Source, where: Path_) -> None:
        self.uri, self.source, self.where = uri, source, where
        self.properties: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key, value in raw.items():
            (own if key[:1].islower() else self.properties)[key] = value
        for key in ("repeat", "when"):
            own.pop(key, None)
        self.type: str = self._take(own, "type", str, "")
        self.collection: str = self._take(own, "collection", str, "")
        self.items: str = self._take(own, "items", str, "")
        self.applies_to: str = self._take(own, "applies_to", str, "")
        self.derive: Derived | None = self._take(own, "derive", Derived | None, None)
        self.link: str | bool = self._take(own, "link", str | bool, True)
        self.log: Log | None = self._take(own, "log", Log | None, None)
        self.certificates: CertificateFacts | None = self._take(own, "certificates", CertificateFacts | None, None)
        self.components: dict[str, Component] = self._take(own, "components", dict[str, Component], {})
        self.updates: Updates | None = self._take(own, "updates", Updates | None, None)
        self.reading: ReadingFacts | None = self._take(own, "reading", ReadingFacts | None, None)
        self.registry_type: str = self._take(own, "registry_type", str, "")
        declared = self._take(own, "actions", dict[str, dict[str, list[str] | ParameterFacts | None]], {})
        self.actions: dict[str, dict[str, ParameterFacts]] = {
            action: {name: _parameter(facts) for name, facts in parameters.items()}
            for action, parameters in declared.items()
        }
        self.action_info: dict[str, str] = self._take(own, "action_info", dict[str, str], {})
        self.handlers: dict[str, str] = self._take(own, "handlers", dict[Method, str], {})
        self.host_name: str = self._take(own, "host_name", str, "")
        self.ignores: list[str] = self._take(own, "ignores", list[str], [])
        self.writable: dict[str, WritableFacts] = self._take(own, "writable", dict[str, WritableFacts], {})
        self.settings: Settings | None = self._take(own, "settings", Settings | None, None)
        self.reactions: list[Reaction] = self._take(own, "reactions", list[Reaction], [])
        self.lockdown: list[str] = self._take(own, "lockdown", list[str], [])
        self.events: list[EventKind] = self._take(own, "events", list[EventKind], [])
        if bool(self.type) == bool(self.collection):
            raise source.error(where, "needs either type (such as Chassis.v1_25_0) or collection (such as Chassis)")

    def _take(self, own: dict[str, Any], key: str, type_: Any, default: Any) -> Any:
        if key not in own:
            return default
        return convert(own.pop(key), type_, self.source, (*self.where, key))

    def error(self, message: str) -> ProfileError:
        """A ProfileError about this resource."""
        return self.source.error(self.where, f"{self.uri}: {message}")


def _parameter(facts: list[str] | ParameterFacts | None) -> ParameterFacts:
    """A parameter as written: its values, nothing, or all there is to say."""
    return facts if isinstance(facts, ParameterFacts) else ParameterFacts(values=facts)


def check_keys(raw: Mapping[str, Any], source: Source, where: Path_) -> None:
    """Refuse a lower-case key of one block of a resource that the format does not have."""
    for key in raw:
        if key[:1].islower() and key not in _KEYS:
            known = ", ".join(_KEYS)
            raise source.error((*where, key), f"unknown key; a resource has {known}, and Redfish properties")


_KEYS = (
    "type", "repeat", "when", "collection", "items", "link", "log", "reading", "actions", "handlers", "writable",
    "applies_to", "components", "updates", "settings", "reactions", "lockdown", "derive", "events", "certificates",
    "action_info", "host_name", "ignores", "registry_type",
)  # fmt: skip


class Profile(msgspec.Struct, frozen=True):
    """A profile with its parameters filled in. schemas: of vendors, that describe types of it."""

    head: Head
    parameters: dict[str, int | str]
    resources: dict[str, Resource]
    path: Path
    schemas: tuple[Document, ...] = ()

    @property
    def dpus(self) -> int:
        """How many DPUs a host of it has, as far as the profile and its parameters say."""
        return int(self.parameters.get("dpus", 0)) if self.head.dpus is None else self.head.dpus


def convert(value: Any, type_: Any, source: Source, where: Path_) -> Any:
    """msgspec.convert whose errors name file, line and path."""
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        match = _MSGSPEC_PATH.match(str(error))
        text, steps = (match[1], match[2]) if match else (str(error), "")
        inner: Path_ = where
        for step in re.findall(r"[^.\[\]]+|\[\d+\]", steps):
            inner = (*inner, int(step[1:-1]) if step[0] == "[" else step)
        if (unknown := re.search(r"unknown field `(.+)`", text)) is not None:
            inner = (*inner, unknown[1])
        raise source.error(inner, text) from error


def directories() -> list[Path]:
    """Where profiles are found: beside the package in a source tree, inside it in an installed one."""
    package = Path(__file__).resolve().parent.parent
    return [path for path in (package.parent / "profiles", package / "profiles") if path.is_dir()]


def names() -> list[str]:
    """The names of all profiles that come with bmcsim, sorted."""
    return sorted({path.stem for folder in directories() for path in folder.glob("*.yaml")})


def find(name: str) -> Path:
    """The file of a profile: a name that comes with bmcsim, or a path that ends in .yaml."""
    if name.endswith(".yaml"):
        return Path(name)
    for folder in directories():
        path = folder / f"{name}.yaml"
        if path.is_file() and path.parent == folder:
            return path
    raise ProfileError(f"no profile {name!r}; there are: {', '.join(names())}")


def load(name: str, parameters: Mapping[str, int | str] | None = None, variant: str = "") -> Profile:
    """Load a profile and fill in its parameters: the given ones win over the variant's, those over the profile's own.

    Raises ProfileError for anything wrong in the file or its parts, and for a parameter or variant it does not have.
    """
    path = find(name)
    source = Source(path)
    data = dict(source.data)
    parts, resources = data.pop("parts", []), data.pop("resources", {})
    head: Head = convert(data, Head, source, ())
    if variant and variant not in head.variants:
        raise source.error(("variants",), f"has no variant {variant}")
    values = {**head.parameters, **head.variants.get(variant, {}), **(parameters or {})}
    unknown = values.keys() - head.parameters.keys()
    if unknown:
        raise source.error(("parameters",), f"has no parameter {', '.join(sorted(unknown))}")
    raw: dict[str, tuple[dict[str, Any], Source, Path_]] = {}
    _Expander(path.parent, raw).take(source, parts, resources, values, 0)
    expanded = {uri: Resource(uri, properties, origin, where) for uri, (properties, origin, where) in raw.items()}
    return Profile(head, values, expanded, path, vendors(_folders(path.parent, "schemas")))


def _folders(beside: Path, name: str) -> list[Path]:
    """Where a profile of a directory finds shared files: beside itself, and with those that come with bmcsim."""
    return [folder / name for folder in (beside, *directories())]


class _Expander:
    """Fills placeholders, repeats and parts into one flat table."""

    def __init__(self, folder: Path, raw: dict[str, tuple[dict[str, Any], Source, Path_]]) -> None:
        self._folder, self._raw = folder, raw
        self._parts: dict[Path, Source] = {}

    def take(self, source: Source, parts: Any, resources: Any, values: Mapping[str, Any], depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise source.error(("parts",), f"parts are nested deeper than {_MAX_DEPTH}; does one use itself?")
        if not isinstance(parts, list):
            raise source.error(("parts",), "must be a list of {part: NAME, with: {...}}")
        for index, entry in enumerate(parts):
            self._part(source, ("parts", index), entry, values, depth)
        if not isinstance(resources, dict):
            raise source.error(("resources",), "must be a mapping from URI to resource")
        for pattern, body in resources.items():
            where = ("resources", pattern)
            if not isinstance(body, dict):
                raise source.error(where, "must be a mapping")
            if not _URI.fullmatch(pattern):
                raise source.error(
                    where,
                    "a resource's key is its URI and starts with /redfish/v1; it has no empty segment, space, ? or #",
                )
            for scope in self._scopes(source, where, body, values):
                uri = fill(pattern, scope, source, where)
                mine = {key: value for key, value in body.items() if key not in ("repeat", "when")}
                filled = fill(mine, scope, source, where)
                check_keys(filled, source, where)
                old = self._raw.get(uri)
                self._raw[uri] = (deep_merge(old[0], filled) if old else filled, source, where)

    def _part(self, source: Source, where: Path_, entry: Any, values: Mapping[str, Any], depth: int) -> None:
        if not isinstance(entry, dict) or not isinstance(entry.get("part"), str):
            raise source.error(where, "must be {part: NAME, with: {...}}")
        for key in entry.keys() - {"part", "with", "repeat", "when"}:
            raise source.error((*where, key), "unknown key; a part has part, with, repeat and when")
        folders = _folders(self._folder, "parts")
        path = next(
            (path for folder in folders if (path := folder / f"{entry['part']}.yaml").is_file()),
            self._folder / "parts" / f"{entry['part']}.yaml",
        )
        if not re.fullmatch(r"[a-z0-9_]+", entry["part"]) or not path.is_file():
            raise source.error(where, f"there is no part {entry['part']!r} in {self._folder / 'parts'}")
        if path not in self._parts:
            self._parts[path] = Source(path)
        part = self._parts[path]
        for key in part.data.keys() - {"parameters", "parts", "resources"}:
            raise part.error((key,), "unknown key; a part has parameters, parts and resources")
        defaults = part.data.get("parameters", {})
        if not isinstance(defaults, dict):
            raise part.error(("parameters",), "must be a mapping")
        if not isinstance(entry.get("with", {}), dict):
            raise source.error((*where, "with"), "with must be a mapping")
        for scope in self._scopes(source, where, entry, values):
            given = fill(entry.get("with", {}), scope, source, where)
            for key in given.keys() - defaults.keys():
                raise source.error((*where, "with", key), f"the part {entry['part']} has no such parameter")
            inner = {**defaults, **given}
            for key, value in inner.items():
                if value is None:
                    raise source.error(where, f"the part {entry['part']} needs the parameter {key}")
            self.take(part, part.data.get("parts", []), part.data.get("resources", {}), inner, depth + 1)

    def _scopes(
        self, source: Source, where: Path_, body: dict[str, Any], values: Mapping[str, Any]
    ) -> Iterator[Mapping[str, Any]]:
        condition = body.get("when")
        for scope in self._repeats(source, (*where, "repeat"), body.get("repeat"), values):
            if condition is None or _holds(str(fill(str(condition), scope, source, where)), source, (*where, "when")):
                yield scope

    def _repeats(
        self, source: Source, where: Path_, repeat: Any, values: Mapping[str, Any]
    ) -> Iterator[Mapping[str, Any]]:
        if repeat is None:
            yield values
        elif isinstance(repeat, list):
            for row in repeat:
                if not isinstance(row, dict):
                    raise source.error(where, "a list of repeats has mappings of variables")
                yield {**values, **fill(row, values, source, where)}
        elif isinstance(repeat, dict):
            axes = [_range(fill(axis, values, source, where), source, where) for axis in repeat.values()]
            for row in product(*axes):
                yield {**values, **dict(zip(repeat, row, strict=True))}
        else:
            raise source.error(where, "must be {variable: FIRST-LAST or list, ...} or a list of mappings")


def _range(axis: Any, source: Source, where: Path_) -> list[Any]:
    if isinstance(axis, list):
        return axis
    match = re.fullmatch(r"(\d+)-(\d+)", str(axis))
    if match is None or int(match[2]) - int(match[1]) > _MAX_REPEAT:
        raise source.error(where, f"{axis!r} must be FIRST-LAST (at most {_MAX_REPEAT}) or a list")
    return list(range(int(match[1]), int(match[2]) + 1))


def _holds(condition: str, source: Source, where: Path_) -> bool:
    match = _CONDITION.match(condition)
    if match is None:
        raise source.error(where, f"{condition!r} must be A == B, A != B, A < B, A > B, A <= B or A >= B")
    left, operator, right = match.groups()
    if operator in ("==", "!="):
        return (left == right) == (operator == "==")
    if not (left.isdecimal() and right.isdecimal()):
        raise source.error(where, f"{condition!r} compares something that is not a number")
    a, b = int(left), int(right)
    return {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}[operator]


def fill(value: Any, scope: Mapping[str, Any], source: Source, where: Path_) -> Any:
    """Fill placeholders. A text that is one placeholder without format takes the variable's own type."""
    if isinstance(value, str):
        if "{" not in value:
            return value
        whole = _PLACE.fullmatch(value)
        if whole is not None and not whole[3]:
            return _variable(whole, scope, source, where)
        try:
            return _PLACE.sub(lambda match: format(_variable(match, scope, source, where), match[3] or ""), value)
        except ValueError as error:
            raise source.error(where, f"{value!r}: {error}") from error
    if isinstance(value, dict):
        return {str(fill(key, scope, source, where)): fill(item, scope, source, where) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item, scope, source, where) for item in value]
    return value


def _variable(match: re.Match[str], scope: Mapping[str, Any], source: Source, where: Path_) -> Any:
    if match[1] not in scope:
        raise source.error(where, f"{{{match[1]}}} is neither a parameter nor a repeat variable here")
    value = scope[match[1]]
    for operator, amount in _STEP.findall(match[2]):
        if not isinstance(value, int):
            raise source.error(where, f"{{{match[1]}}} is not a number")
        value = value * int(amount) if operator == "*" else value + (int(amount) if operator == "+" else -int(amount))
    return value
