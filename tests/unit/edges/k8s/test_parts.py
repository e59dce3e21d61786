import asyncio
import base64
import random
import time
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.edges.k8s.access import AccessError, Token, Trust, by_kubeconfig, in_cluster
from bmcsim.edges.k8s.election import Election, Timings
from bmcsim.edges.k8s.limits import Bucket
from bmcsim.edges.k8s.listeners import Address, Health, Listener, ListenError, parse, sources_app
from bmcsim.edges.k8s.objects import Metadata, Port, Service, ServiceSpec
from bmcsim.edges.k8s.sources import Source, SourceList, instance_of
from tests.certificates import make
from tests.k8s_api import Dropped, Refusal, site
from tests.unit.edges.k8s.conftest import api_of

# limits


class Time:
    def __init__(self) -> None:
        self.now = 50.0

    def mono(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@settings(deadline=None)
@given(rate=st.floats(1, 500), burst=st.integers(1, 300), rests=st.lists(st.floats(0, 5), max_size=60))
def test_never_more_than_the_burst_and_what_the_rate_adds(rate: float, burst: int, rests: list[float]) -> None:
    clock = Time()
    bucket = Bucket(rate, burst, clock.mono, clock.sleep)

    async def go() -> list[float]:
        times = []
        for rest in rests:
            clock.now += rest
            await bucket.take()
            times.append(clock.now)
        return times

    times = asyncio.run(go())
    for first, begin in enumerate(times):
        for last in range(first, len(times)):
            assert last - first + 1 <= burst + rate * (times[last] - begin) + 1.001


def test_a_burst_goes_at_once_and_a_pause_holds_all() -> None:
    clock = Time()
    bucket = Bucket(100.0, 200, clock.mono, clock.sleep)

    async def go(count: int) -> float:
        began = clock.now
        for _ in range(count):
            await bucket.take()
        return clock.now - began

    assert asyncio.run(go(200)) == 0.0
    assert asyncio.run(go(100)) == pytest.approx(1.0)
    bucket.pause(7.0)
    assert asyncio.run(go(1)) == pytest.approx(7.0)


# sources


@pytest.mark.parametrize(
    ("ports", "port"),
    [
        ([], 1266),
        ([Port(8443, "redfish")], 8443),
        ([Port(22, "ssh"), Port(1266, "bmc-mock")], 1266),
        ([Port(9000, "other"), Port(1, "more")], 9000),
        ([Port(22, "ssh"), Port(5, "redfish"), Port(6, "bmc-mock")], 5),
    ],
)
def test_the_port_of_a_simulator(ports: list[Port], port: int) -> None:
    found = instance_of(Service(Metadata("mat-0-bmc-mock"), ServiceSpec(ports)))
    assert (found.port, found.workload) == (port, "mat-0")


A, B = Source("a", "https://a:1", "p"), Source("b", "https://b:1", "")


def test_a_change_of_the_list_is_confirmed_by_a_later_look() -> None:
    sources = SourceList(5.0)
    assert sources.document() == {"generation": 0, "ready": False, "sources": []}
    sources.observe([B, A], 0.0)
    shown = [{"name": "a", "base_url": "https://a:1", "pod": "p"}, {"name": "b", "base_url": "https://b:1", "pod": ""}]
    assert sources.document() == {"generation": 1, "ready": True, "sources": shown}
    steps = [
        ([A], 30.0, 1, 2),
        ([A, B], 60.0, 1, 2),
        ([A], 90.0, 1, 2),
        ([A], 94.0, 1, 2),
        ([A], 95.0, 2, 1),
        ([A._replace(pod="q")], 125.0, 2, 1),
        ([A._replace(base_url="https://a:2")], 150.0, 2, 1),
        ([A._replace(base_url="https://a:2")], 180.0, 3, 1),
        ([], 210.0, 3, 1),
        ([], 240.0, 4, 0),
    ]
    for found, now, generation, count in steps:
        sources.observe(found, now)
        assert (sources.generation, len(sources.published)) == (generation, count), now
    assert sources.ready


def test_a_pod_is_updated_in_place_and_no_debounce_publishes_at_once() -> None:
    sources = SourceList(0.0)
    sources.observe([A], 0.0)
    sources.observe([A._replace(pod="q")], 1.0)
    assert (sources.generation, sources.published[0].pod) == (1, "q")
    sources.observe([B], 2.0)
    assert (sources.generation, sources.published) == (2, [B])


async def test_the_list_is_served() -> None:
    listener = Listener(sources_app(SourceList(0.0)), Address("127.0.0.1", 0))
    await listener.start()
    base = f"http://127.0.0.1:{listener.port}"
    try:
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{base}/v1/sources") as answer:
                assert await answer.json() == {"generation": 0, "ready": False, "sources": []}
            async with session.head(f"{base}/v1/healthz") as answer:
                assert answer.status == 200
            async with session.post(f"{base}/v1/sources") as answer:
                assert answer.status == 405
            async with session.get(f"{base}/other") as answer:
                assert answer.status == 404
        with pytest.raises(ListenError, match="cannot listen"):
            await Listener(sources_app(SourceList(0.0)), Address("127.0.0.1", listener.port)).start()
    finally:
        await listener.stop()


@pytest.mark.parametrize(
    ("text", "loopback", "expected"),
    [
        ("", True, None),
        (":8091", False, Address("", 8091)),
        ("127.0.0.1:8090", True, Address("127.0.0.1", 8090)),
        ("[::1]:8090", True, Address("::1", 8090)),
    ],
)
def test_addresses(text: str, loopback: bool, expected: Address | None) -> None:
    assert parse(text, "--x", loopback=loopback) == expected


@pytest.mark.parametrize("text", [":8090", "10.0.0.5:8090", "localhost:8090", "0.0.0.0:8090", "127.0.0.1", "x"])
def test_addresses_that_are_not_loopback(text: str) -> None:
    with pytest.raises(ListenError, match="--x must"):
        parse(text, "--x", loopback=True)


def test_health() -> None:
    clock = Time()
    health = Health(600.0, clock.mono)
    assert (health.ready, health.problem()) == (False, "")
    clock.now += 601.0
    assert health.problem() == "no pass has ended for 601 s (limit: 600 s)"
    health.passed()
    assert (health.ready, health.problem()) == (True, "")
    health.passed("no list")
    assert (health.ready, health.why, health.problem()) == (False, "no list", "")
    assert Health(0.0, clock.mono).problem() == ""


# access


def account(directory: Path) -> Path:
    (directory / "token").write_text("one\n")
    (directory / "ca.crt").write_text(make("ca").text)
    return directory


def test_a_pod_uses_its_service_account_and_reads_its_token_again(tmp_path: Path) -> None:
    where = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    access = in_cluster(where, account(tmp_path))
    token = Token(access)
    assert (access.server, token.current()) == ("https://[fd00::1]:6443", "one")
    # As the kubelet does it: written beside, and renamed.
    (tmp_path / "new").write_text("two")
    (tmp_path / "new").replace(tmp_path / "token")
    assert token.current() == "two"
    (tmp_path / "token").unlink()
    assert token.current() == "two"
    with pytest.raises(AccessError, match="name a file with --kubeconfig"):
        in_cluster({}, tmp_path)
    with pytest.raises(AccessError, match="token: cannot be read"):
        in_cluster(where, tmp_path)


def test_changed_authorities_are_used_and_bad_ones_refused(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_text(make("one").text)
    trust = Trust(file)
    first = trust.context(10.0)
    file.write_text("rubbish")
    assert trust.context(10.5) is first
    assert trust.context(20.0) is first
    assert (trust.reloads, trust.refusals) == (0, 1)
    file.write_text(make("two").text)
    second = trust.context(30.0)
    assert second is not first
    (found,) = second.get_ca_certs()
    assert found["subject"] == ((("commonName", "two"),),)
    assert trust.context(40.0) is second
    with pytest.raises(AccessError, match=r"ca\.crt: is no PEM file"):
        file.write_text("rubbish")
        Trust(file)


KUBECONFIG = """
current-context: one
contexts: [{{name: one, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "https://10.0.0.1:6443/", {cluster}}}}}]
users: [{{name: u, user: {{{user}}}}}]
"""


def kubeconfig(directory: Path, cluster: str = "", user: str = "") -> Path:
    (directory / "config").write_text(KUBECONFIG.format(cluster=cluster, user=user))
    return directory / "config"


def test_kubeconfig_files(tmp_path: Path) -> None:
    made = make("client")
    packed = {name: base64.b64encode(text.encode()).decode() for name, text in (("c", made.text), ("k", made.key_text))}
    access = by_kubeconfig(kubeconfig(tmp_path, "tls-server-name: kube", "token: t"))
    assert (access.server, access.token, access.server_name) == ("https://10.0.0.1:6443", "t", "kube")
    pair = f"client-certificate-data: {packed['c']}, client-key-data: {packed['k']}"
    access = by_kubeconfig(kubeconfig(tmp_path, f"certificate-authority-data: {packed['c']}", pair))
    assert len(access.trust.context(0.0).get_ca_certs()) == 1
    (tmp_path / "token").write_text("from a file")
    access = by_kubeconfig(kubeconfig(tmp_path, "insecure-skip-tls-verify: true", "tokenFile: token"))
    assert Token(access).current() == "from a file"
    assert access.trust.context(0.0).verify_mode == 0
    access = by_kubeconfig(kubeconfig(tmp_path, "", "username: a, password: b"))
    assert access.basic == base64.b64encode(b"a:b").decode()


@pytest.mark.parametrize(
    ("cluster", "user", "said"),
    [
        ("", "exec: {command: aws}", "from a program, which is not supported"),
        ("certificate-authority: none.crt", "", r"none\.crt: cannot be read"),
        ("certificate-authority-data: '?'", "", "must be Base64"),
        ("", "client-key: x", "needs both client-certificate and client-key"),
        ("insecure-skip-tls-verify: maybe", "", "is no kubeconfig file"),
    ],
)
def test_kubeconfig_files_that_do_not_work(tmp_path: Path, cluster: str, user: str, said: str) -> None:
    with pytest.raises(AccessError, match=said):
        by_kubeconfig(kubeconfig(tmp_path, cluster, user))


def test_a_kubeconfig_file_without_its_context(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("{}")
    with pytest.raises(AccessError, match="current-context must name one of its contexts"):
        by_kubeconfig(tmp_path / "config")
    (tmp_path / "config").write_text("{")
    with pytest.raises(AccessError, match="is no YAML"):
        by_kubeconfig(tmp_path / "config")


# election


async def test_one_leads_and_the_other_takes_over_when_it_is_silent() -> None:
    clock = Time()
    async with site() as (kube, _):
        api = api_of(kube)
        one, two = (Election(api, name, clock.mono, time.time) for name in ("one", "two"))
        await one.step()
        await two.step()
        assert (one.leading, two.leading, two.holder) == (True, False, "one")
        for _ in range(10):
            clock.now += 2.0
            await one.step()
            await two.step()
            assert (one.leading, two.leading) == (True, False)
        # It is silent, and stops working before the other begins.
        clock.now += 10.0
        await two.step()
        assert (one.leading, two.leading) == (False, False)
        clock.now += 5.0
        await two.step()
        assert (one.leading, two.leading) == (False, True)
        await one.step()
        assert (one.leading, one.holder) == (False, "two")
        spec = kube.leases["bmcsim-controller"]["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("two", 1, 15)
        await two.release()
        assert not two.leading
        await one.step()
        assert (one.leading, two.leading) == (True, False)
        await api.close()


async def test_two_at_once_and_one_gets_it() -> None:
    async with site() as (kube, _):
        api = api_of(kube)
        several = [Election(api, str(number), time.monotonic, time.time) for number in range(5)]
        await asyncio.gather(*[one.step() for one in several])
        assert sum(one.leading for one in several) == 1
        await api.close()


async def test_where_leases_may_not_be_used_one_works_without_or_waits() -> None:
    async with site() as (kube, _):

        async def forbid(verb: str, name: str) -> None:
            raise Refusal(403, "Forbidden")

        kube.before = forbid
        api = api_of(kube)
        lenient = Election(api, "a", time.monotonic, time.time)
        strict = Election(api, "b", time.monotonic, time.time, required=True)
        for one in (lenient, strict):
            await one.step()
        assert (lenient.leading, strict.leading) == (True, False)
        await lenient.release()
        await api.close()


async def test_never_two_at_once_whatever_is_lost() -> None:
    """Calls fail, answers are lost, and processes are silent for a while."""
    rng, clock = random.Random(7), Time()
    async with site() as (kube, _):

        async def unreliable(verb: str, name: str) -> None:
            if rng.random() < 0.15:
                raise Refusal(500, "InternalError")
            if rng.random() < 0.15:
                raise Dropped(done=rng.random() < 0.5)

        kube.before = unreliable
        api, led = api_of(kube), set[int]()
        several = [Election(api, str(n), clock.mono, time.time, timings=Timings(15, 10, 2)) for n in range(3)]
        for _ in range(300):
            clock.now += rng.choice([0.5, 2.0, 2.0, 4.0])
            for one in rng.sample(several, rng.randint(0, 3)):
                await one.step()
                leading = [number for number, other in enumerate(several) if other.leading]
                assert len(leading) <= 1
                led.update(leading)
        assert len(led) > 1
        await api.close()
