"""What fills the holes of a tree."""

import os
import subprocess
import sys
from typing import Any

import orjson
import pytest

from bmcsim.core.clock import Moment
from bmcsim.machine.holes import bind
from bmcsim.machine.power import TIMER, Power
from bmcsim.machine.state import LogRecord
from bmcsim.tree.template import Body, TemplateError, parse_hole
from tests.conftest import Client, make_client

NOW = Moment(12.5, 1_767_225_612.5)
SESSIONS = "/redfish/v1/SessionService/Sessions"
ACCOUNTS = "/redfish/v1/AccountService/Accounts"
LOG = "/redfish/v1/Systems/Bluefield/LogServices/EventLog/Entries"


def value(client: Client, expression: str, *, item: Any = None, moment: Moment = NOW) -> Any:
    """What a hole shows."""
    return orjson.loads(bind(parse_hole(expression)).function(client.bmc, moment, item))


# identity and state


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("serial", "MT020000000003"),
        ("bmc.mac", "02:00:00:00:00:01"),
        ("host.mac", "02:00:00:00:00:02"),
        ("oob.mac", "02:00:00:00:00:03"),
        ("bmc.address", "192.0.2.1"),
        ("bmc.netmask", "255.255.255.0"),
        ("bmc.gateway", "0.0.0.0"),
        ("power.state", "On"),
        ("power.chassis", "On"),
        ("power.status", "Enabled"),
        ("power.boot_progress", "OSRunning"),
        ("bmc.last_reset", "2026-01-01T00:00:00+00:00"),
        ("power.last_reset", "2026-01-01T00:00:00+00:00"),
        ("time.now", "2026-01-01T00:00:12+00:00"),
        (f"members:{SESSIONS}", []),
        (f"count:{SESSIONS}", 0),
        (f"count:{ACCOUNTS}", 1),
        (f"members:{ACCOUNTS}", [{"@odata.id": f"{ACCOUNTS}/root"}]),
        (f"count:{LOG}", 1),
    ],
)
def test_holes_of_a_dpu(dpu: Client, expression: str, expected: Any) -> None:
    assert value(dpu, expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("serial", "020000000007"),
        ("bmc.mac", "02:00:00:00:00:07"),
        ("dpu1.serial", "MT020000000003"),
        ("dpu2.serial", "MT020000000006"),
        ("dpu1.bmc.mac", "02:00:00:00:00:01"),
        ("dpu1.host.mac", "02:00:00:00:00:02"),
        ("dpu2.oob.mac|plain", "020000000006"),
        ("hw.mac1", "06:00:00:00:01:01"),
        ("hw.mac200", "06:00:00:00:01:C8"),
    ],
)
def test_holes_of_a_host(host: Client, expression: str, expected: str) -> None:
    assert value(host, expression) == expected


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        ("", "06:00:00:00:01:AB"),
        ("plain", "0600000001AB"),
        ("lower", "06:00:00:00:01:ab"),
        ("plain_lower", "0600000001ab"),
        ("image", "0600:0000:0000:01ab"),
    ],
)
def test_filters_of_a_mac(host: Client, filter_: str, expected: str) -> None:
    assert value(host, f"hw.mac171|{filter_}") == expected


@pytest.mark.parametrize(
    "expression",
    [
        "nope",
        "",
        "bmc",
        "bmc.nope",
        "mac",
        "hw.mac",
        "hw.macx",
        "hw.nope",
        "dpu.serial",
        "dpu1.nope",
        "power.nope",
        "time.then",
        "reading",
        "item.nope",
        "members.nope",
        "count.nope",
    ],
)
def test_an_unknown_hole_is_an_error_of_the_template(expression: str) -> None:
    with pytest.raises(TemplateError):
        bind(parse_hole(expression))


@pytest.mark.parametrize(
    "expression",
    [
        "bmc.mac|nope",
        "hw.mac1|nope",
        "dpu1.host.mac|nope",
        "serial|plain",
        "dpu1.serial|plain",
        "power.state|lower",
        "uuid.system|plain",
        "time.now|plain",
        f"members:{SESSIONS}|plain",
        f"count:{SESSIONS}|lower",
        "item.id|plain",
    ],
)
def test_an_unknown_filter_is_an_error_of_the_template(expression: str) -> None:
    with pytest.raises(TemplateError, match="filter"):
        bind(parse_hole(expression))


@pytest.mark.parametrize(
    ("expression", "volatile", "counts"),
    [
        ("serial", False, True),
        ("uuid.system", False, True),
        ("bmc.mac|plain", False, True),
        ("bmc.address", True, True),
        ("power.state", True, True),
        ("power.last_reset", True, True),
        ("bmc.last_reset", True, True),
        ("item.user", True, True),
        (f"members:{SESSIONS}", True, True),
        (f"count:{LOG}", True, True),
        ("power.boot_progress", True, True),
        ("time.now", True, False),
    ],
)
def test_state_counts_for_the_entity_tag_and_clocks_do_not(expression: str, volatile: bool, counts: bool) -> None:
    binding = bind(parse_hole(expression))
    assert (binding.volatile, binding.counts) == (volatile, counts)


def test_uuids_differ_by_purpose_and_by_bmc(dpu: Client) -> None:
    other = make_client("bluefield3", index=1)
    assert len({value(client, f"uuid.{one}") for client in (dpu, other) for one in ("system", "board", "card")}) == 6


@pytest.mark.parametrize(
    ("power", "state", "chassis", "status"),
    [
        (Power.OFF, "Off", "Off", "Disabled"),
        (Power.CYCLING, "Off", "Off", "Disabled"),
        (Power.POWERING_ON, "PoweringOn", "On", "Enabled"),
        (Power.BOOTING, "On", "On", "Enabled"),
        (Power.POWERING_OFF, "PoweringOff", "On", "Enabled"),
        (Power.RESTARTING, "On", "On", "Enabled"),
    ],
)
def test_power_holes_follow_the_power_state(dpu: Client, power: Power, state: str, chassis: str, status: str) -> None:
    dpu.bmc.become(NOW, power=power)
    assert [value(dpu, f"power.{name}") for name in ("state", "chassis", "status")] == [state, chassis, status]


def test_the_time_is_each_second_s_own(dpu: Client) -> None:
    times = [value(dpu, "time.now", moment=Moment(0.0, NOW.wall + seconds)) for seconds in (0, 0.4, 0.5, 3600, 0)]
    assert [text[11:19] for text in times] == ["00:00:12", "00:00:12", "00:00:13", "01:00:12", "00:00:12"]


def test_item_holes_show_the_member_of_a_dynamic_collection(dpu: Client) -> None:
    account = dpu.bmc.accounts.get("root")
    assert account is not None
    session = dpu.bmc.open_session(account, NOW)
    assert [value(dpu, f"item.{name}", item=session) for name in ("id", "user", "created")] == [
        "1",
        "root",
        "2026-01-01T00:00:12+00:00",
    ]
    names = ("id", "user", "role", "enabled", "locked", "password_change_required")
    assert [value(dpu, f"item.{name}", item=account) for name in names] == [
        "root",
        "root",
        "Administrator",
        True,
        False,
        False,
    ]
    assert value(dpu, f"members:{SESSIONS}") == [{"@odata.id": f"{SESSIONS}/1"}]
    assert value(dpu, f"count:{SESSIONS}") == 1


def test_item_holes_show_an_entry_of_a_log(dpu: Client) -> None:
    entry = LogRecord("7", NOW.wall, "Text.", "X.1.0.Y", "Warning", "/redfish/v1/Systems/Bluefield")
    names = ("id", "created", "message", "message_id", "severity", "origin", "links")
    assert [value(dpu, f"item.{name}", item=entry) for name in names] == [
        "7",
        "2026-01-01T00:00:12+00:00",
        "Text.",
        "X.1.0.Y",
        "Warning",
        "/redfish/v1/Systems/Bluefield",
        {"OriginOfCondition": {"@odata.id": "/redfish/v1/Systems/Bluefield"}},
    ]
    assert value(dpu, "item.links", item=LogRecord("7", 0.0, "")) == {}


def test_the_password_hole_shows_nothing_and_moves_the_tag_alone(dpu: Client) -> None:
    account = dpu.bmc.accounts.get("root")
    assert account is not None
    body = Body({"@odata.etag": "", "Password": "${item.password}"}, bind)
    before, after = (body.render(dpu.bmc, NOW, one) for one in (account, account.with_password(b"other", remember=1)))
    assert before[0] != after[0]
    assert orjson.loads(before[1])["Password"] is orjson.loads(after[1])["Password"] is None
    assert len(before[1]) == len(after[1])


def test_behaviour_holes_show_what_the_firmware_of_a_group_does(dpu: Client) -> None:
    assert (value(dpu, "behaviour.password_max"), value(dpu, "behaviour.account_ids")) == (40, "name")
    assert value(make_client("dell_poweredge_r750"), "behaviour.session_full_message")["id"] == "IDRAC.2.7.RAC0218"
    with pytest.raises(TemplateError, match="no hole"):
        bind(parse_hole("behaviour.nope"))


@pytest.mark.parametrize("secret", ["digest", "factory", "history", "token", "last_use"])
def test_secrets_are_no_facts_of_an_item(secret: str) -> None:
    with pytest.raises(TemplateError, match="no hole"):
        bind(parse_hole(f"item.{secret}"))


def test_the_members_of_a_log_stand_in_full_and_those_of_other_collections_do_not(dpu: Client) -> None:
    (member,) = value(dpu, f"members:{LOG}")
    assert (member["@odata.id"], member["Message"]) == (f"{LOG}/1", "DPU Warm Reset")
    dpu.bmc.become(NOW, logs={LOG: (LogRecord("3", 0.0, 'a "b"'), LogRecord("4", 0.0, "${serial}"))})
    assert [one["Message"] for one in value(dpu, f"members:{LOG}")] == ['a "b"', "${serial}"]
    assert value(dpu, f"count:{LOG}") == 2
    dpu.bmc.become(NOW, logs={LOG: ()})
    assert value(dpu, f"members:{LOG}") == []
    assert value(dpu, f"count:{LOG}") == 0


def test_boot_progress_follows_what_is_left_of_the_boot(dpu: Client) -> None:
    dpu.bmc.become(NOW, power=Power.BOOTING, timers={TIMER: 178.0})
    shown = [value(dpu, "power.boot_progress", moment=Moment(0.0, 0.0, float(t))) for t in (0, 53, 54, 106, 107, 177)]
    assert shown == [
        "MemoryInitializationStarted",
        "MemoryInitializationStarted",
        "PCIResourceConfigStarted",
        "PCIResourceConfigStarted",
        "SystemHardwareInitializationComplete",
        "SystemHardwareInitializationComplete",
    ]
    assert value(dpu, "power.boot_progress", moment=Moment(0.0, 0.0, 178.0)) == "OSBootStarted"


SHOW = """
from tests.conftest import make_client
client = make_client("bluefield3")
for path in ("/redfish/v1/Chassis/Card1/Sensors/Temp_1", "/redfish/v1/Systems/Bluefield", "/redfish/v1/Managers"):
    print(client.request("GET", path).body.decode())
"""


def test_a_bmc_is_the_same_in_every_process() -> None:
    """Readings, identity and entity tags must not depend on the hash seed of the process."""
    shown = {
        subprocess.run(
            [sys.executable, "-c", SHOW],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(shown) == 1
