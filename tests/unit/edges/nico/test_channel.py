import asyncio
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

from bmcsim.edges.nico.calls import VERSION, CallFailed, backoff
from bmcsim.edges.nico.certificates import Files
from bmcsim.edges.nico.channel import Api, pushback_of
from bmcsim.edges.nico.forge_pb2 import VersionRequest
from bmcsim.edges.nico.pace import Pace
from tests.nico_api import SPIFFE, Authority, Refusal, api_at, running, until

OTHER = "spiffe://nico.local/nico-system/sa/other"


async def version(api: Api, deadline: float = 5.0) -> str:
    return str((await api.call(VERSION, VersionRequest(), deadline)).build_version)


async def test_a_call_and_what_is_counted() -> None:
    async with running() as fake, api_at(fake) as api:
        assert await version(api) == "v2026.11-fake"
        assert (api.calls, api.last_error) == ({("Version", "OK"): 1}, "")


async def test_a_call_that_fails_has_a_code() -> None:
    async with running() as fake:

        async def refuse(method: str, request: Any) -> None:
            raise Refusal(grpc.StatusCode.PERMISSION_DENIED, "who are you")

        fake.before = refuse
        async with api_at(fake) as api:
            with pytest.raises(CallFailed) as caught:
                await version(api)
            assert (caught.value.code, caught.value.transient) == ("PERMISSION_DENIED", False)
            assert api.last_error == "PERMISSION_DENIED: who are you"
            assert api.calls == {("Version", "PERMISSION_DENIED"): 1}


async def test_a_slow_server_meets_the_deadline() -> None:
    async with running() as fake:

        async def sleep(method: str, request: Any) -> None:
            await asyncio.sleep(30)

        fake.before = sleep
        async with api_at(fake) as api:
            with pytest.raises(CallFailed) as caught:
                await version(api, 0.1)
            assert (caught.value.code, caught.value.transient) == ("DEADLINE_EXCEEDED", True)


async def test_it_connects_again_when_the_server_is_back() -> None:
    async with running() as fake, api_at(fake) as api:
        await version(api)
        await fake.stop()
        with pytest.raises(CallFailed) as caught:
            await version(api)
        assert (caught.value.code, caught.value.transient) == ("UNAVAILABLE", True)
        await fake.start(fake.port)
        async with asyncio.timeout(15):
            while True:
                try:
                    assert await version(api) == "v2026.11-fake"
                except CallFailed:
                    await asyncio.sleep(0.1)
                else:
                    return


@pytest.mark.parametrize(("said", "pauses", "stop"), [("200", [1.0], False), ("-1", [], True), ("soon", [], True)])
async def test_a_server_at_its_limit_says_how_long_to_wait(
    monkeypatch: pytest.MonkeyPatch, said: str, pauses: list[float], stop: bool
) -> None:
    paused: list[float] = []
    pause = Pace.pause
    monkeypatch.setattr(Pace, "pause", lambda pace, seconds: (paused.append(seconds), pause(pace, seconds)))
    async with running() as fake:
        refused = 0

        async def refuse(method: str, request: Any) -> None:
            nonlocal refused
            refused += 1
            if refused == 1:
                raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", said)

        fake.before = refuse
        async with api_at(fake) as api:
            with pytest.raises(CallFailed) as caught:
                await version(api)
            assert (caught.value.stop, caught.value.transient) == (stop, True)
            started = time.monotonic()
            await version(api)
            assert paused == pauses
            assert time.monotonic() - started > 0.9 * sum(pauses)


def test_pushback() -> None:
    assert pushback_of(None) is None
    assert pushback_of(grpc.aio.Metadata(("other", "1"))) is None
    for text, seconds in (("1500", 1.5), ("0", 0.0), ("-5", -0.005), ("", -1.0), ("1.5", -1.0), ("9" * 40, -1.0)):
        assert pushback_of(grpc.aio.Metadata(("grpc-retry-pushback-ms", text))) == seconds


def test_backoff_doubles_to_thirty_seconds_and_half_of_it_is_random() -> None:
    assert [backoff(n, lambda: 1.0) for n in (1, 2, 3, 7, 8, 1000)] == [0.5, 1, 2, 30, 30, 30]
    assert [backoff(n, lambda: 0.0) for n in (1, 7)] == [0.25, 15]


async def test_mutual_tls_and_a_certificate_that_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority()
    authority.write(tmp_path)
    files = Files(tmp_path / "ca.crt", tmp_path / "tls.crt", tmp_path / "tls.key")
    async with running(credentials=authority.server()) as fake, api_at(fake, files) as api:
        assert api.identity == SPIFFE
        await version(api)
        (tmp_path / "tls.key").write_text("torn")
        await until(lambda: api.refusals)
        await version(api)
        assert fake.peers == {SPIFFE: 2}
        # A call that is under way ends on the channel that it began on.
        entered, go = asyncio.Event(), asyncio.Event()

        async def hold(method: str, request: Any) -> None:
            entered.set()
            await go.wait()

        fake.before = hold
        held = asyncio.create_task(version(api))
        await entered.wait()
        fake.before = None
        client = authority.write(tmp_path, OTHER)
        await until(lambda: api.identity == OTHER)
        await version(api)
        go.set()
        assert await held == "v2026.11-fake"
        assert fake.peers == {SPIFFE: 3, OTHER: 1}
        assert api.reloads >= 1
    assert "torn" not in caplog.text
    assert client.key_text not in caplog.text


async def test_nobody_gets_in_with_a_certificate_of_somebody_else(tmp_path: Path) -> None:
    authority, other = Authority(), Authority()
    other.write(tmp_path)
    (tmp_path / "ca.crt").write_text(authority.made.text)
    files = Files(tmp_path / "ca.crt", tmp_path / "tls.crt", tmp_path / "tls.key")
    async with running(credentials=authority.server()) as fake, api_at(fake, files) as api:
        with pytest.raises(CallFailed) as caught:
            await version(api)
        assert caught.value.transient
    assert not fake.asked
