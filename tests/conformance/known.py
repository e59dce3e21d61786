"""What the tools leave open, and why: every WARN that stays, and every assertion that is not tested.

Neither list may go stale: test_conformance.py wants a reason for each WARN, and a WARN for each reason.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from redfish_protocol_validator.constants import Assertion

from tests.conformance.results import Outcome, Row

TESTS = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Warn:
    """WARNs with one reason. kind: how their messages start; subject, where: of the row, with * for anything.

    by_chance: it comes now and then, so that its absence says nothing.
    """

    tool: str
    kind: str
    subject: str
    where: str
    reason: str
    by_chance: bool = False

    def explains(self, tool: str, row: Row) -> bool:
        """Whether it is the reason of a row."""
        return (
            tool == self.tool
            and row.kind == self.kind
            and fnmatchcase(row.subject, self.subject)
            and fnmatchcase(row.where, self.where)
        )


_RECORDED = "the recorded firmware of this hardware has it"
_DRIVES = "where clients find the drives of this hardware"
_LEAKS = "where clients look for leaks of this hardware"
_NO_SERIAL = "this part shows an empty serial number, which clients must bear"
_OWN_NAMES = "the firmware calls these actions by names that no schema can have"

_UPDATES, _MEDIA = "/redfish/v1/UpdateService", "/redfish/v1/Managers/*/VirtualMedia*"
_LEAK_DETECTION = "/redfish/v1/Chassis/*/ThermalSubsystem/LeakDetection"
_DRIVE, _EROT = "/redfish/v1/Systems/*/Storage/*/Drives/*", "/redfish/v1/Chassis/Bluefield_ERoT"

WARNS = (
    Warn("service", "Deprecated Property Warning", "IndicatorLED", "/redfish/v1/*", _RECORDED),
    Warn("service", "Deprecated Property Warning", "HttpPushUri*", _UPDATES, _RECORDED),
    Warn("service", "Deprecated Property Warning", "VirtualMedia", "/redfish/v1/Managers/*", _RECORDED),
    Warn("service", "Deprecated URI Warning", "@odata.id", _MEDIA, _RECORDED),
    Warn("service", "Deprecated URI Warning", "@odata.id", _DRIVE, _DRIVES),
    Warn("service", "Deprecated Property Warning", "LeakDetectors", _LEAK_DETECTION, _LEAKS),
    Warn("service", "Deprecated URI Warning", "@odata.id", f"{_LEAK_DETECTION}/LeakDetectors/*", _LEAKS),
    Warn("service", "Empty String Warning", "SerialNumber", _EROT, _NO_SERIAL),
    Warn("service", "Schema Error", "Actions/#*", "/redfish/v1/Systems/*/Oem/Nvidia", _OWN_NAMES),
    Warn(
        "protocol",
        "The security token from the X-Auth-Token header may not be sufficiently random",
        "RESP_HEADERS_X_AUTH_TOKEN",
        "*",
        "the tool tests one token of 128 random bits, and about one random token in fifty fails its test",
        by_chance=True,
    ),
)

_NO_TEST = "the tool has no test for it"
_SSE_OFF = "the tool never opens an event stream"

_NO_HTTP = "there is no plain HTTP beside HTTPS"
_NO_SSDP = "answered with `serve --ssdp` only, which this run does not use"

NOT_TESTED: Mapping[str, str] = {
    **{one.name: _SSE_OFF for one in Assertion if one.name.startswith("SERV_SSE_")},
    **{one.name: _NO_SSDP for one in Assertion if one.name.startswith("SERV_SSDP_")},
    "PROTO_REDIRECT_ENFORCES_TARGET_PRIVS": _NO_HTTP,
    "REQ_DATA_MOD_ERRORS": "no POST of the tool is refused",
    "REQ_HEADERS_ORIGIN": _NO_TEST,
    "REQ_PATCH_ARRAY_OPERATIONS_ORDER": _NO_TEST,
    "REQ_QUERY_PROTOCOL_FEATURES_SUPPORTED": "the tool reports it only where it is missing",
    "REQ_QUERY_UNSUPPORTED_PARAMS_EXT_ERROR": "switched off in the tool",
    "RESP_HEADERS_ACCESS_CONTROL_ALLOW_ORIGIN": _NO_TEST,
    "RESP_STATUS_INTERNAL_SERVER_ERROR": "no request of the tool ends in 500",
    "SEC_BASIC_AUTH_OVER_HTTPS": _NO_HTTP,
    "SEC_SESSION_CREATE_HTTPS_ONLY": _NO_HTTP,
    "SEC_SESSION_TERMINATION_SIDE_EFFECTS": _SSE_OFF,
    "SERV_SSDP_UUID_STATIC": _NO_TEST,
}
"""Why an assertion of the protocol validator is not tested, by id."""

OURS_TO_TEST = frozenset(name for name, reason in NOT_TESTED.items() if reason in (_SSE_OFF, _NO_SSDP))
"""What bmcsim does although the tool does not look: these need a test of our own, whatever the reason."""


def reason_for(tool: str, row: Row) -> Warn | None:
    """The known reason of a WARN."""
    return next((warn for warn in WARNS if warn.explains(tool, row)), None)


def unexplained(outcome: Outcome) -> list[Row]:
    """The WARNs that nobody gave a reason for."""
    return [row for row in outcome.rows if row.result == "WARN" and reason_for(outcome.tool, row) is None]


def assertions() -> list[str]:
    """The ids of the installed protocol validator, in its order."""
    return [one.name for one in Assertion]


def open_assertions(outcomes: Iterable[Outcome]) -> dict[str, list[str]]:
    """What the protocol validator did not test: id to the profiles where it did not."""
    protocol = [outcome for outcome in outcomes if outcome.tool == "protocol"]
    where = {
        name: [one.profile for one in protocol if one.assertions.get(name, "NOT_TESTED") == "NOT_TESTED"]
        for name in assertions()
    }
    return {name: profiles for name, profiles in where.items() if profiles}


def own_tests(folder: Path = TESTS) -> dict[str, list[str]]:
    """Our tests that are named after an assertion: id to PATH::NAME, relative to the folder's parent, sorted.

    A test is named after an id if its name has the id in lower case, and no longer id that contains it.
    """
    by_length = sorted(assertions(), key=len, reverse=True)
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        for name in _test_names(path):
            rest = name
            for assertion in by_length:
                if assertion.lower() in rest:
                    rest = rest.replace(assertion.lower(), "")
                    found.setdefault(assertion, []).append(f"{path.relative_to(folder.parent)}::{name}")
    return found


def _test_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name
