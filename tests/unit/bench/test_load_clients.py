"""The clients of `bench load`, played to BMCs by direct call: what they ask, and that they see what is wrong."""

from collections.abc import Callable

import orjson
import pytest

from bench.load import clients
from bench.load.clients import Pause, Rules, Script
from bench.load.endpoints import Endpoint
from bench.load.known import Answer, Ask, Known, Wrong, fault_of
from tests.conftest import PASSWORD, Client, basic, make_client

SYSTEMS = "/redfish/v1/Systems"
Bend = Callable[[Ask, Answer], Answer]


def known(client: Client, password: str = PASSWORD, number: int = 0) -> Known:
    return Known(number, Endpoint("192.0.2.1", 443, client.bmc.tree.head.accounts[0].user, password))


def straight(_: Ask, answer: Answer) -> Answer:
    return answer


class Play:
    """Plays scripts to a client as the users of locust do. asked: every request. bend: changes answers."""

    def __init__(self, client: Client, bend: Bend = straight) -> None:
        self.client, self.bend = client, bend
        self.asked: list[Ask] = []

    def __call__(self, bmc: Known, script: Script[None]) -> None:
        try:
            step = next(script)
            while True:
                answer = Answer(0)
                if isinstance(step, Ask):
                    self.asked.append(step)
                    answer = self.bend(step, self._answer(bmc, step))
                    if fault := fault_of(bmc, step, answer):
                        raise Wrong(f"{step.row}: {fault}")
                elif isinstance(step, Pause):
                    self.client.advance(step.seconds)
                step = script.send(answer)
        except StopIteration:
            pass

    def _answer(self, bmc: Known, ask: Ask) -> Answer:
        fields: dict[str, bytes] = {"authorization": b"", "token": ask.token.encode()}
        if ask.password is not None:
            fields["authorization"] = basic(bmc.endpoint.user, ask.password)
        for name, value in ask.headers:
            fields[name.lower().replace("-", "_")] = value.encode()
        response = self.client.request(ask.method, ask.path, ask.body, **fields)
        if response.delivery is not None and response.delivery.keep == 0:
            return Answer(0, error="closed")
        lines = [line.partition(": ") for line in response.head.decode("latin-1").split("\r\n") if line]
        at = self.client.clock.now().wall
        return Answer(response.status, response.body, {name: value for name, _, value in lines}, at=at)

    @property
    def rows(self) -> list[str]:
        return [f"{ask.method} {ask.row}" for ask in self.asked]


def looked_at(client: Client) -> tuple[Known, Play]:
    """A BMC that was looked at, and what plays to it further on."""
    bmc, play = known(client), Play(client)
    play(bmc, clients.look(bmc, Rules()))
    play.asked.clear()
    return bmc, play


def changed(path: str, change: Callable[[Answer], Answer], row: str = "") -> Bend:
    return lambda ask, answer: change(answer) if ask.path.startswith(path) and row in ask.row else answer


@pytest.mark.parametrize("profile", ["dell_poweredge_r750", "wiwynn_gb200_nvl", "bluefield3"])
def test_a_look_finds_what_later_phases_need(profile: str) -> None:
    bmc, _ = looked_at(make_client(profile))
    shape = bmc.shape
    assert shape.system.startswith(SYSTEMS)
    assert shape.system_reset.startswith(shape.system)
    assert shape.manager_reset.startswith(shape.manager)
    assert shape.bios_settings.startswith(shape.bios)
    assert shape.sensors
    assert not set(shape.exploration) & set(shape.discovery)
    assert bmc.who is not None


def test_equal_shapes_are_one_object() -> None:
    one, other = (looked_at(make_client("bluefield3", index=index))[0] for index in (0, 1))
    assert one.shape is other.shape
    assert one.who != other.who


def test_a_storm_reads_without_sensors_and_first_asks_who_it_is() -> None:
    client = make_client("dell_poweredge_r750")
    play, bmc = Play(client), known(client)
    play(bmc, clients.storm(bmc, Rules()))
    assert play.rows[0] == "GET root, anonymous"
    assert play.asked[0].password is None
    paths = [ask.path for ask in play.asked[1:]]
    assert len(paths) == len(set(paths)) > 30
    assert not any("/Sensors" in path for path in paths)


def test_an_expanded_storm_asks_less_and_finds_the_same() -> None:
    client = make_client("dell_poweredge_r750")
    plain, expanded = Play(client), Play(client)
    plain(bmc := known(client), clients.look(bmc, Rules()))
    expanded(other := known(client), clients.look(other, Rules(expand=True)))
    assert len(expanded.asked) < 0.4 * len(plain.asked)
    assert other.shape == bmc.shape


@pytest.mark.parametrize("profile", ["dell_poweredge_r750", "wiwynn_gb200_nvl", "bluefield3"])
def test_a_first_login_ends_with_the_new_password_alone(profile: str) -> None:
    client = make_client(profile, password=None)
    account = client.bmc.tree.head.accounts[0]
    bmc, play = known(client, account.password, number=7), Play(client)
    play(bmc, clients.login(bmc, Rules()))
    assert bmc.password == "Load-00007-1"
    assert play.rows.count("PATCH password") == 1
    assert client.request("GET", SYSTEMS, authorization=basic(account.user, bmc.password)).status == 200
    assert client.request("GET", SYSTEMS, authorization=basic(account.user, account.password)).status == 401


def test_an_old_password_that_still_works_is_seen() -> None:
    client = make_client("bluefield3", password=None)
    bmc = known(client, "0penBmc")
    play = Play(client, changed(SYSTEMS, lambda answer: answer._replace(status=200), "old password"))
    with pytest.raises(Wrong, match="old password: 200 instead of 401"):
        play(bmc, clients.login(bmc, Rules()))


def test_a_rotation_counts_on_and_has_a_session_that_ends() -> None:
    client = make_client("dell_poweredge_r750")
    bmc, play = looked_at(client)
    for expected in ("Load-00000-1", "Load-00000-2"):
        play(bmc, clients.rotate(bmc, Rules()))
        assert bmc.password == expected
    assert play.rows.count("GET session, ended") == 2
    assert not client.bmc.state.faults


def test_a_session_that_does_not_end_is_seen() -> None:
    bmc, play = looked_at(make_client("bluefield3"))
    play.bend = changed(SYSTEMS, lambda answer: answer._replace(status=200), "session, ended")
    with pytest.raises(Wrong, match="session, ended: 200 instead of 401"):
        play(bmc, clients.rotate(bmc, Rules()))


def test_the_answer_of_another_bmc_is_seen() -> None:
    mine, other = make_client("bluefield3", index=0), make_client("bluefield3", index=1)
    bmc, play = looked_at(mine)
    play.client = other
    with pytest.raises(Wrong, match="belongs to another BMC"):
        play(bmc, clients.explore(bmc, Rules()))


def test_the_answer_of_another_resource_is_seen() -> None:
    bmc, play = looked_at(make_client("bluefield3"))
    play.bend = changed(
        bmc.shape.sensors[0], lambda answer: answer._replace(body=b'{"@odata.id": "/redfish/v1/Other"}')
    )
    with pytest.raises(Wrong, match="does not name the resource"):
        play(bmc, clients.health(bmc, 0))


def test_a_later_exploration_asks_on_a_condition_and_takes_304() -> None:
    bmc, play = looked_at(make_client("dell_poweredge_r750"))
    statuses: list[int] = []
    play.bend = lambda _, answer: statuses.append(answer.status) or answer  # type: ignore[func-returns-value]
    play(bmc, clients.explore(bmc, Rules()))
    assert len(play.asked) == 1 + len(bmc.shape.exploration)
    assert 0 < statuses.count(304) <= 10
    assert set(statuses) == {200, 304}


def test_health_reads_each_sensor_once_a_turn_and_the_parts_every_fifth() -> None:
    bmc, play = looked_at(make_client("wiwynn_gb200_nvl"))
    for _ in range(clients.ALWAYS):
        for part in range(clients.FAN_OUT):
            play(bmc, clients.health(bmc, part))
    sensors = [ask.path for ask in play.asked if ask.row == "sensor"]
    assert sorted(sensors) == sorted([*bmc.shape.sensors] * clients.ALWAYS)
    assert play.rows.count("GET leak detector") == clients.ALWAYS * len(bmc.shape.leaks) > 0
    assert play.rows.count("GET health discovery") == len(bmc.shape.discovery)
    assert len(sensors) > 0.8 * len(play.asked)


@pytest.mark.parametrize("profile", ["dell_poweredge_r750", "wiwynn_gb200_nvl", "bluefield3"])
def test_a_reset_is_waited_for(profile: str) -> None:
    bmc, play = looked_at(make_client(profile))
    play(bmc, clients.reset(bmc, Rules(ntp="192.0.2.9")))
    waits = [ask for ask in play.asked if ask.row == "wait for the BMC"]
    assert len(waits) > 1
    assert play.rows[-1] == "GET clock"
    assert "PATCH NTP" in play.rows


@pytest.mark.parametrize(
    ("bend", "said"),
    [
        (changed("/redfish/v1", lambda _: Answer(0, error="refused"), "wait for"), "not back 330 s after"),
        (changed("/redfish/v1", lambda answer: answer._replace(status=503), "wait for"), "503 instead of 0 or 200"),
        (changed("/redfish/v1", lambda answer: answer._replace(at=answer.at + 400), "clock"), "clock differs by"),
    ],
)
def test_what_a_reset_must_not_do_is_seen(bend: Bend, said: str) -> None:
    bmc, play = looked_at(make_client("bluefield3"))
    play.bend = bend
    with pytest.raises(Wrong, match=said):
        play(bmc, clients.reset(bmc, Rules(patience=300.0)))


def test_a_reset_that_touches_the_host_is_seen() -> None:
    client = make_client("dell_poweredge_r750")
    bmc, play = looked_at(client)
    off = changed(bmc.shape.system, lambda answer: answer._replace(body=answer.body.replace(b'"On"', b'"Off"')))
    play.bend = lambda ask, answer: off(ask, answer) if "GET wait for the BMC" in play.rows else answer
    with pytest.raises(Wrong, match=r"PowerState was On before Manager.Reset and is Off"):
        play(bmc, clients.reset(bmc, Rules()))


@pytest.mark.parametrize("profile", ["dell_poweredge_r750", "wiwynn_gb200_nvl"])
def test_ingestion_waits_for_what_it_set(profile: str) -> None:
    client = make_client(profile)
    bmc, play = looked_at(client)
    play(bmc, clients.ingest(bmc, Rules()))
    assert play.rows.count("PATCH BIOS") == 1
    assert play.rows[-1] == "GET BIOS"
    name, wanted = next(iter(next(ask.body for ask in play.asked if ask.method == "PATCH")["Attributes"].items()))  # type: ignore[index,call-overload]
    assert client.get(bmc.shape.bios)["Attributes"][name] == wanted


def test_a_setting_that_a_restart_does_not_apply_is_seen() -> None:
    client = make_client("wiwynn_gb200_nvl")
    bmc, play = looked_at(client)
    before = client.request("GET", bmc.shape.bios).body
    play.bend = changed(bmc.shape.bios, lambda answer: answer._replace(body=before) if answer.body else answer)
    with pytest.raises(Wrong, match=r"is not (Enabled|Disabled) 120 s after a restart"):
        play(bmc, clients.ingest(bmc, Rules(patience=90.0)))


def test_faults_are_met_and_over() -> None:
    client = make_client("bluefield3")
    bmc, play = looked_at(client)
    play.bend = changed("/redfish/v1/Chassis", lambda answer: answer._replace(body=b"{"), "fault: truncated")
    play(bmc, clients.faults(bmc, Rules()))
    assert {"GET fault: 401", "GET fault: 503", "GET fault: closed", "GET fault: truncated"} < set(play.rows)
    assert play.rows.count("GET fault: over") == 5
    assert client.get("/Injection/rules") == []


def test_a_fault_that_does_not_end_is_seen() -> None:
    bmc, play = looked_at(make_client("bluefield3"))
    play.bend = changed("/redfish/v1/Chassis", lambda answer: answer._replace(status=503), "fault: over")
    with pytest.raises(Wrong, match="fault: over: 503 instead of 200"):
        play(bmc, clients.faults(bmc, Rules()))


def test_observers_check_boot_interfaces_in_every_other_turn() -> None:
    bmc, play = looked_at(make_client("dell_poweredge_r750"))
    lengths = []
    for _ in range(3):
        play.asked.clear()
        play(bmc, clients.observe(bmc, Rules()))
        lengths.append(len(play.asked))
    assert lengths[0] == lengths[2] > lengths[1] == 5


def test_no_answer_is_wrong_unless_it_was_to_be() -> None:
    bmc = known(make_client("bluefield3"))
    assert fault_of(bmc, Ask("x", SYSTEMS), Answer(0, error="refused")) == "no answer: refused"
    assert fault_of(bmc, Ask("x", SYSTEMS, expect=(0, 200)), Answer(0, error="refused")) == ""


def test_an_answer_without_an_identity_is_nobodys() -> None:
    bmc = known(make_client("bluefield3"))
    body = orjson.dumps({"@odata.id": SYSTEMS, "SerialNumber": ""})
    assert fault_of(bmc, Ask("x", SYSTEMS), Answer(200, body)) == ""
    assert bmc.who is None
