"""Fault presets: all of them load, and each rule changes a real answer of a machine that it is for."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from click.testing import CliRunner

from bmcsim.cli.fault import fault_group
from bmcsim.machine.fault_effects import Behaviour, IgnorePowerOn, LateJobs, MediaFails, SlowLogin, UpdateFails
from bmcsim.machine.fault_rules import Rule, to_json
from bmcsim.machine.faults import Rules
from bmcsim.redfish.exchange import DROP, Head, Request, Response
from bmcsim.redfish.injection import ExpandedMembers, apply_after, apply_before, preset_rules, rules_of, serve
from bmcsim.tree import fault_presets, library
from bmcsim.tree.source import ProfileError
from tests.conftest import PASSWORD, Client, header, make_client, message_ids

PRESETS = fault_presets.names()
SESSIONS = "/redfish/v1/SessionService/Sessions"
SEED = 1

every_preset = pytest.mark.parametrize("name", PRESETS)


def system_of(client: Client) -> str:
    """The URI of a client's system."""
    return client.bmc.tree.head.roles.system


def with_rules(
    client: Client,
    rules: Rules,
    method: str,
    path: str,
    body: Any = None,
    *,
    plain: Response | None = None,
    **fields: Any,
) -> tuple[Rules, Response]:
    """A request to a BMC that has rules. plain: what it would answer without them, where that is known."""
    fields.setdefault("authorization", client.authorization)
    request = Request(method, path.partition("?")[0], client.clock.now(), Head(**fields), path.partition("?")[2])
    rules, verdict, instead = apply_before(rules, request, SEED)
    return apply_after(rules, verdict, instead or plain or client.request(method, path, body, **fields))


def requests(client: Client) -> Iterator[tuple[str, str, Any, dict[str, Any]]]:
    """(method, path, body, header fields) of requests of all kinds."""
    for uri in client.bmc.tree.nodes:
        yield "GET", uri, None, {}
        if uri.endswith("/Entries"):
            yield "GET", f"{uri}/1", None, {}
    yield "POST", SESSIONS, {"UserName": "root", "Password": PASSWORD}, {}
    yield "PATCH", system_of(client), {"Boot": {"BootSourceOverrideEnabled": "Once"}}, {}
    yield "POST", f"{system_of(client)}/Actions/ComputerSystem.Reset", {"ResetType": "Nmi"}, {"if_match": b"*"}
    yield "GET", SESSIONS, None, {"gzip": True}


def changes_an_answer(client: Client, rule: Rule) -> bool:
    """Whether a rule, when it acts on each match, makes a difference to any request or embedded member."""
    rules = Rules.of([msgspec.structs.replace(rule, probability=1.0, every=1, window=None, remaining=None)])
    for method, path, body, fields in requests(client):
        if rules.before(method, path, 0.0, SEED, if_match="if_match" in fields)[1].lost_write:
            return True
        plain = client.request(method, path, body, **fields)
        # Asked twice, the machine itself may answer otherwise: no two logins have the same token.
        after = with_rules(client, rules, method, path, body, plain=plain, **fields)[1]
        if any(getattr(after, part) != getattr(plain, part) for part in ("status", "head", "body", "delivery")):
            return True
        members = ExpandedMembers(rules, client.clock.now(), SEED)
        if (
            method == "GET"
            and plain.status == 200
            and members.apply(path, orjson.loads(plain.body)) != orjson.loads(plain.body)
        ):
            return True
    return False


# the files


@every_preset
def test_every_preset_loads_and_says_what_it_is(name: str) -> None:
    preset = fault_presets.read(name)
    assert re.fullmatch(r"[A-Z].*[^.]\.", preset.title)
    assert re.fullmatch(r"https://(github\.com|docs\.openstack\.org)/\S+|", preset.report)
    assert fault_presets.load(name) == preset.rules
    rules = preset_rules(name, since=0.0)
    assert rules
    assert Rules.load(rules.dump()) == rules


@every_preset
def test_rules_carry_the_name_of_their_preset_so_that_presets_can_be_combined(name: str) -> None:
    ids = [rule.id for rule in preset_rules(name, 0.0).rules]
    assert ids == [name] if len(ids) == 1 else all(id_.startswith(f"{name}__") for id_ in ids)


@every_preset
def test_every_preset_can_be_put(name: str) -> None:
    client = make_client("bluefield3")
    body = orjson.dumps(fault_presets.load(name))
    request = Request("PUT", "/Injection/rules", client.clock.now(), Head(content_type=b"application/json"), body=body)
    rules, response = serve(Rules(), request)
    assert response.status == 200, response.body
    assert orjson.loads(response.body) == [to_json(rule) for rule in rules.rules]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        pytest.param(name, rule, id=rule.id)
        for name in PRESETS
        for rule in preset_rules(name, 0.0).rules
        if not isinstance(rule.effect, Behaviour)
    ],
)
def test_every_rule_changes_a_real_answer(name: str, rule: Rule) -> None:
    machines = ("bluefield3", "dell_poweredge_r750", "liteon_power_shelf")
    assert any(changes_an_answer(make_client(profile), rule) for profile in machines)


@pytest.mark.parametrize(
    "selector", [{"OdataId": "/redfish/v1/Nowhere"}, {"Path": {"method": "DELETE", "glob": "/redfish/v1/**"}}]
)
def test_a_rule_that_matches_nothing_changes_no_answer(selector: dict[str, Any]) -> None:
    (rule,) = rules_of([{"id": "idle", "selector": selector, "action": {"Status": 500}}], 0.0).rules
    assert not changes_an_answer(make_client("bluefield3"), rule)


def test_an_unknown_preset_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ProfileError, match=r"no fault preset 'nope'; there are: all_dpu_lost, "):
        fault_presets.read("nope")
    with pytest.raises(ProfileError):
        fault_presets.read("../bluefield3")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("title: A.\nrules: []\nsince: 1\n", "bad.yaml:3: since: Object contains unknown field `since`"),
        ("rules: []\n", "missing required field `title`"),
        ("title: A.\nrules:\n  - close\n", "bad.yaml:3: rules.0: Expected `object`, got `str`"),
        (
            "title: A.\nrules:\n  - id: a\n    selector: {OdataId: /a}\n    action:\n      Status: 9\n",
            "bad.yaml:6: rules.0.action.Status: must be int >= 200",
        ),
    ],
)
def test_a_bad_preset_names_file_line_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "bad.yaml").write_text(text)
    monkeypatch.setattr(library, "directories", lambda: [tmp_path])
    with pytest.raises(ProfileError) as caught:
        preset_rules("bad", 0.0)
    assert said in str(caught.value)
    shown = CliRunner().invoke(fault_group, ["show", "bad"])
    assert (shown.exit_code, said in shown.output) == (1, True)


# what they do


def test_c01_every_login_is_refused_and_basic_works() -> None:
    client, rules = make_client("bluefield3"), preset_rules("sessions_used_up", 0.0)
    login = {"UserName": "root", "Password": PASSWORD}
    response = with_rules(client, rules, "POST", SESSIONS, login)[1]
    assert (response.status, message_ids(response)) == (503, ["SessionLimitExceeded"])
    assert with_rules(client, rules, "GET", system_of(client))[1].status == 200


def test_c09_a_bmc_comes_back_in_steps() -> None:
    client = make_client("dell_poweredge_r750")
    rules = preset_rules("slow_recovery", client.clock.now().wall)
    seen = []
    for _ in range(4):
        response = with_rules(client, rules, "GET", "/redfish/v1", authorization=b"")[1]
        seen.append("closed" if response.delivery == DROP else response.status)
        client.advance(30)
    assert seen == ["closed", "closed", 503, 200]
    assert rules.behaviour(SlowLogin) == SlowLogin(12.0)  # type: ignore[arg-type]
    assert rules.spend(SlowLogin).behaviour(SlowLogin) is None


@pytest.mark.parametrize(
    ("preset", "sent", "status"), [("weak_etag", 'W/"', 412), ("weak_etag", '"', 204), ("empty_etag", '""', 412)]
)
def test_c13_c15_what_a_client_does_with_a_strange_tag(preset: str, sent: str, status: int) -> None:
    client, rules = make_client("bluefield3"), preset_rules(preset, 0.0)
    etag = header(with_rules(client, rules, "GET", system_of(client), gzip=True)[1], "ETag")
    assert etag is not None
    if sent == '"':
        etag = etag.removeprefix("W/")
    assert etag.startswith(sent)
    change = {"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}}
    response = with_rules(client, rules, "PATCH", system_of(client), change, if_match=etag.encode())[1]
    assert response.status == status


def test_c18_an_action_with_if_match_is_refused_and_works_without() -> None:
    client, rules = make_client("dell_poweredge_r750"), preset_rules("if_match_refused", 0.0)
    action = f"{system_of(client)}/Actions/ComputerSystem.Reset"
    refused = with_rules(client, rules, "POST", action, {"ResetType": "Nmi"}, if_match=b"*")[1]
    assert (refused.status, message_ids(refused)) == (412, ["PreconditionFailed"])
    assert with_rules(client, rules, "POST", action, {"ResetType": "Nmi"})[1].status < 300


@pytest.mark.parametrize(
    ("preset", "check"),
    [
        ("members_null", lambda body: body["Members"] is None),
        ("members_absent", lambda body: "Members" not in body),
        ("members_object", lambda body: body["Members"] == {}),
    ],
)
def test_c20_members_of_an_empty_collection(preset: str, check: Any) -> None:
    client = make_client("bluefield3")
    body = orjson.loads(with_rules(client, preset_rules(preset, 0.0), "GET", "/redfish/v1/TaskService/Tasks")[1].body)
    assert check(body)
    assert body["Members@odata.count"] == 0


def test_n21_only_embedded_chassis_lack_their_names() -> None:
    client, rules = make_client("bluefield3"), preset_rules("expand_drops_names", 0.0)
    single = client.get("/redfish/v1/Chassis/Card1")
    assert orjson.loads(with_rules(client, rules, "GET", "/redfish/v1/Chassis/Card1")[1].body) == single
    embedded = ExpandedMembers(rules, client.clock.now(), SEED).apply("/redfish/v1/Chassis/Card1", single)
    assert single.keys() - embedded.keys() == {"Id", "Name", "ChassisType"}


def test_n25_a_mac_address_of_20_octets() -> None:
    client = make_client("bluefield3")
    uri = "/redfish/v1/Systems/Bluefield/EthernetInterfaces/oob_net0"
    body = orjson.loads(with_rules(client, preset_rules("long_mac", 0.0), "GET", uri)[1].body)
    assert re.fullmatch(r"(?:[0-9A-F]{2}:){19}[0-9A-F]{2}", body["MACAddress"])


@pytest.mark.parametrize(
    ("preset", "method", "path"), [("session_redirect", "POST", SESSIONS), ("root_redirect", "GET", "/redfish/v1")]
)
def test_c34_c35_a_redirect_leads_to_where_it_works(preset: str, method: str, path: str) -> None:
    client, rules = make_client("bluefield3"), preset_rules(preset, 0.0)
    body = {"UserName": "root", "Password": PASSWORD} if method == "POST" else None
    redirect = with_rules(client, rules, method, path, body, authorization=b"")[1]
    location = header(redirect, "Location")
    assert (redirect.status, location) == (308, path + "/")
    assert location is not None
    assert with_rules(client, rules, method, location, body, authorization=b"")[1].status in (200, 201)


def test_n73_a_log_entry_is_late_once() -> None:
    client, rules = make_client("bluefield3"), preset_rules("late_log_entries", 0.0)
    uri = "/redfish/v1/Systems/Bluefield/LogServices/EventLog/Entries/1"
    statuses = []
    for _ in range(3):
        rules, response = with_rules(client, rules, "GET", uri)
        statuses.append(response.status)
    assert statuses == [404, 200, 200]


def test_all_dpus_are_lost_on_a_dell() -> None:
    client, rules = make_client("dell_poweredge_r750"), preset_rules("all_dpu_lost", 0.0)
    lost = [uri for uri in client.bmc.tree.nodes if with_rules(client, rules, "GET", uri)[1].status == 404]
    assert {uri.rpartition("/")[2] for uri in lost} == {
        uri.rpartition("/")[2] for uri in client.bmc.tree.nodes if re.search(r"/PCIeDevices/mat_\d+$", uri)
    }
    assert lost
    adapters = "/redfish/v1/Chassis/System.Embedded.1/NetworkAdapters"
    body = orjson.loads(with_rules(client, rules, "GET", f"{adapters}/NIC.Slot.1")[1].body)
    assert (body["SerialNumber"], body["Model"], body["Status"]["Health"]) == ("", "", "OK")
    assert with_rules(client, rules, "GET", f"{adapters}/NIC.Embedded.1")[1].body.count(b'"Manufacturer":""') == 0


def test_flaky_does_a_little_of_everything() -> None:
    client, rules = make_client("dell_poweredge_r750"), preset_rules("flaky", 0.0)
    statuses, kept, rates, delays = set(), set(), set(), []
    for _ in range(40):
        for uri in list(client.bmc.tree.nodes)[:50]:
            rules, response = with_rules(client, rules, "GET", uri)
            assert response.delivery is not None
            statuses.add(response.status)
            kept.add(response.delivery.keep)
            rates.add(response.delivery.rate)
            delays.append(response.delivery.delay)
    assert (statuses, kept, rates) == ({200, 401, 500, 503}, {None, 0, 100}, {0, 500})
    assert 0.02 <= min(delays) < 0.2
    assert max(delays) > 3


@pytest.mark.parametrize(
    ("preset", "kind"),
    [
        ("power_on_ignored", IgnorePowerOn),
        ("slow_login", SlowLogin),
        ("late_jobs", LateJobs),
        ("update_fails", UpdateFails),
        ("media_unreachable", MediaFails),
    ],
)
def test_presets_of_stuck_machines(preset: str, kind: Any) -> None:
    rules = preset_rules(preset, 0.0)
    assert isinstance(rules.behaviour(kind), kind)
    assert not rules.cure(kind)


# the command line


def test_the_list_names_every_preset() -> None:
    result = CliRunner().invoke(fault_group, ["list"])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()] == PRESETS


@every_preset
def test_what_is_shown_is_what_the_interface_takes(name: str) -> None:
    result = CliRunner().invoke(fault_group, ["show", name])
    assert result.exit_code == 0
    assert orjson.loads(result.output) == [to_json(rule) for rule in preset_rules(name, 0.0).rules]


def test_an_unknown_preset_is_not_shown() -> None:
    result = CliRunner().invoke(fault_group, ["show", "nope"])
    assert result.exit_code == 1
    assert "no fault preset 'nope'" in result.output
