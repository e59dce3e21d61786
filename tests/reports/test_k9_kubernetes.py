"""Rows of public bug reports about the Kubernetes controller."""

import asyncio
import ssl
import time
from pathlib import Path

import aiohttp
from aiohttp import web
from prometheus_client import CollectorRegistry

from bmcsim.edges.k8s.access import Trust
from bmcsim.edges.k8s.listeners import Address, Health, Listener, health_app
from bmcsim.edges.k8s.poller import Poller, PollError
from bmcsim.edges.k8s.sources import Source, SourceList
from tests.certificates import Made, make
from tests.k8s_api import device
from tests.unit.edges.k8s.conftest import LOCAL, world


async def test_n42_no_service_before_the_address_is_known() -> None:
    """N42: a Service that was made too early took a random ClusterIP, which later was somebody's address."""
    async with world(options=LOCAL._replace(addressing="cluster-ip")) as here:
        here.pod.machines = [device(1, None, dpus=2), device(9, None, device_kind="switch")]
        result = await here.controller.one_pass()
        assert (result.wanted, result.done, here.kube.managed()) == (0, {}, {})

        # Somebody else has the address: counted, tried again, and not taken from them.
        holder = {"spec": {"clusterIP": "10.96.64.1", "ports": [{"name": "x", "port": 1}]}}
        here.kube.put("theirs", holder)
        here.pod.machines = [device(1, "10.96.64.1")]
        for _ in range(2):
            result = await here.controller.one_pass()
            assert (result.done, result.errors) == ({}, 1)
        here.kube.drop("theirs")
        assert (await here.controller.one_pass()).done == {"created": 1}

        # One of ours that is stale has it: it gives way within the same pass.
        here.pod.machines = [device(2, "10.96.64.1")]
        result = await here.controller.one_pass()
        assert (result.done, result.errors) == ({"deleted": 1, "created": 1}, 0)


async def test_n44_nothing_is_deleted_while_a_pod_cannot_be_asked() -> None:
    """N44: one of three pods is away for a pass, and back in the next."""
    async with world("mat-0", "mat-1", "mat-2") as here:
        for number, pod in enumerate(here.pods):
            pod.machines = [device(number * 10, f"10.200.{number}.1", dpus=2)]
        await here.controller.one_pass()
        assert len(here.kube.managed()) == 9
        await here.quiet()
        here.kube.writes.clear()
        here.pods[1].fails = 503
        here.pods[2].machines = [device(20, "10.200.2.1"), device(30, "10.200.3.1")]
        result = await here.controller.one_pass()
        # What is new is made all the same; what mat-2 does not have any more stays for now.
        assert (result.done, result.errors, result.left) == ({"created": 1}, 1, 5)
        here.pods[1].fails = 0
        assert (await here.controller.one_pass()).done == {"deleted": 2}
        assert [verb for verb, _ in here.kube.writes] == ["create", "delete", "delete"]


def test_n46_a_source_that_flaps_does_not_restart_the_gateway() -> None:
    """N46: the generation grows when the set of names and URLs changed, and a later pass confirms it."""
    one, two = Source("one", "https://one:1266", "pod"), Source("two", "https://two:1266", "pod")
    sources = SourceList(5.0)
    assert sources.document()["sources"] == []
    sources.observe([one, two], 0.0)
    for now, found in ((30.0, [one]), (60.0, [one, two]), (90.0, [one]), (120.0, [two, one])):
        sources.observe(found, now)
        assert sources.generation == 1
    sources.observe([one._replace(pod="restarted"), two], 150.0)
    assert (sources.generation, sources.published[0].pod) == (1, "restarted")
    sources.observe([one], 180.0)
    sources.observe([one], 184.9)
    assert (sources.generation, len(sources.published)) == (1, 2)
    sources.observe([one], 185.0)
    assert (sources.generation, len(sources.published)) == (2, 1)
    sources.observe([], 210.0)
    sources.observe([], 240.0)
    assert sources.document() == {"generation": 3, "ready": True, "sources": []}


async def test_n47_a_long_pass_is_no_reason_to_be_ended() -> None:
    """N47: 200 until ten minutes went by without a pass that ended, then 503 with the reason."""
    now = [1000.0]
    health = Health(600.0, lambda: now[0])
    listener = Listener(health_app(health, CollectorRegistry()), Address("127.0.0.1", 0))
    await listener.start()
    url = f"http://127.0.0.1:{listener.port}/healthz"
    try:
        async with aiohttp.ClientSession() as session:

            async def ask(method: str = "GET") -> tuple[int, str]:
                async with session.request(method, url) as answer:
                    return answer.status, await answer.text()

            now[0] += 8 * 60.0
            assert await ask() == (200, "ok\n")
            now[0] += 2 * 60.0
            assert await ask() == (200, "ok\n")
            now[0] += 1.0
            assert await ask() == (503, "no pass has ended for 601 s (limit: 600 s)\n")
            assert await ask("HEAD") == (503, "")
            health.passed()
            assert await ask() == (200, "ok\n")
            assert [(await ask(method))[0] for method in ("HEAD", "POST", "PUT", "DELETE")] == [200, 405, 405, 405]
            async with session.get(url.replace("healthz", "other")) as answer:
                assert answer.status == 404
    finally:
        await listener.stop()


async def test_n49_another_authority_is_followed_and_a_broken_file_is_not(tmp_path: Path) -> None:
    """N49: the authority of the simulators' certificates changes while the controller runs."""
    old, new, file = make("old ca"), make("new ca"), tmp_path / "ca.crt"
    file.write_text(old.text)
    trust = Trust(file)
    poller = Poller(trust)
    simulators = [await _simulator(tmp_path, ca, name) for ca, name in ((old, "old"), (new, "new"))]
    urls = {name: f"https://127.0.0.1:{runner.addresses[0][1]}" for runner, name in simulators}

    async def trusted() -> list[str]:
        trust._looked = 0.0
        answers = await poller.poll(urls)
        return [name for name, answer in answers.items() if not isinstance(answer, PollError)]

    try:
        assert await trusted() == ["old"]
        file.write_text("rubbish")
        assert await trusted() == ["old"]
        file.write_text(old.text + new.text)
        assert await trusted() == ["old", "new"]
        file.write_text(new.text)
        assert await trusted() == ["new"]
        assert (trust.reloads, trust.refusals) == (2, 1)
        began = trust.context(time.monotonic() + 2.0)
        file.write_text(old.text)
        assert trust.context(time.monotonic() + 30.0) is not began
    finally:
        await poller.close()
        for runner, _ in simulators:
            await runner.cleanup()


async def _simulator(directory: Path, ca: Made, name: str) -> tuple[web.AppRunner, str]:
    leaf = make(name, by=ca, names=["127.0.0.1"])
    (directory / f"{name}.crt").write_text(leaf.text)
    (directory / f"{name}.key").write_text(leaf.key_text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / f"{name}.crt", directory / f"{name}.key")
    app = web.Application()

    async def status(_request: web.Request) -> web.Response:
        return web.Response(body=b'{"machines":[]}', headers={"Connection": "close"})

    app.router.add_get("/machines/status", status)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    return runner, name


async def test_n46_a_pod_behind_the_same_url_is_the_same_source() -> None:
    """N46: it restarts, and its name changes; nobody but the list's `pod` notices."""
    async with world() as here:
        sources = here.controller._sources
        await here.controller.one_pass()
        here.pod.pod = "mat-0-again"
        here.pod.register()
        while next(iter(here.controller.instances.items.values())).pod != "mat-0-again":
            await asyncio.sleep(0.005)
        await here.controller.one_pass()
        assert (sources.generation, sources.published[0].pod) == (1, "mat-0-again")
        assert sources.published[0].base_url == f"http://127.0.0.1:{here.pod.port}"
