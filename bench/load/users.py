"""The locust users: each runs the scripts of one client, over the connections that this client would have."""

import base64
import select
import ssl
import time
from collections import Counter
from typing import Any, ClassVar

import gevent
import orjson
from gevent.monkey import get_original
from gevent.pool import Group
from geventhttpclient.client import HTTPClientPool
from locust import FastHttpUser, task
from locust.exception import StopUser

from bench.load import clients
from bench.load.clients import Hangup, Pause, Rules, Script
from bench.load.known import Answer, Ask, Known, Wrong, fault_of
from bench.load.phases import Phase
from bench.load.rota import Rota

_AGENT = "nv-redfish/v1"
_TEXTS = 20
_poll = get_original("select", "poll")
_NAP = 0.25  # longest sleep of an idle user, so that it notices the end of its phase


class Tally:
    """What the users of a worker counted in one phase. wrong: how often something was; texts: the first of them.

    longest: seconds of the longest turn. busy: percent of a core that the worker used.
    """

    def __init__(self) -> None:
        self.turns = 0
        self.statuses: Counter[int] = Counter()
        self.wrong = 0
        self.texts: list[str] = []
        self.longest = 0.0
        self.busy = 0.0

    def note(self, bmc: Known, row: str, text: str) -> None:
        self.wrong += 1
        if len(self.texts) < _TEXTS:
            self.texts.append(f"{bmc.endpoint.authority}, {row}: {text}")


class Stage:
    """What the users of the phase under way share: whose turn it is, the rules, the counts, kept connections."""

    def __init__(self, phase: Phase, rota: Rota, rules: Rules, proxy: str, users: int) -> None:
        self.phase = phase
        self.rota = rota
        self.rules = rules
        self.proxy = proxy
        self.tally = Tally()
        # One BMC is asked FAN_OUT things at a time; behind a proxy all BMCs share one address.
        self.pool = connections(users * clients.FAN_OUT if proxy else clients.FAN_OUT)


class _Pool(HTTPClientPool):
    """Keeps connections also where there are more than a thousand.

    Its own look at a kept one uses select(2), which takes no descriptor from 1024 on: all of those count as broken, and
    each request makes a connection.
    """

    def get_client(self, url: Any) -> Any:
        client = super().get_client(url)
        client._connection_pool._is_socket_alive = _is_alive
        return client


def _is_alive(sock: Any) -> bool:
    """Whether a kept connection can be used: one that has something to read has ended."""
    if sock is None or sock.fileno() < 0:
        return False
    poll = _poll()
    poll.register(sock.fileno(), select.POLLIN)
    return not poll.poll(0)


def connections(concurrency: int) -> HTTPClientPool:
    """Connections that verify no certificate, as no client of NICo does."""
    return _Pool(
        concurrency=concurrency,
        insecure=True,
        ssl_context_factory=_any_certificate,
        connection_timeout=10.0,
        network_timeout=60.0,
        headers={"User-Agent": _AGENT},
    )


def _any_certificate(**_: object) -> ssl.SSLContext:
    # One for all connections: making a context costs more than a handshake.
    return _CONTEXT


_CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_CONTEXT.check_hostname = False
_CONTEXT.verify_mode = ssl.CERT_NONE


class Client(FastHttpUser):
    """A client of NICo: takes turns until there are none."""

    abstract = True
    host = "https://unused.invalid"  # every request names its own
    stage: ClassVar[Stage]

    def on_start(self) -> None:
        """No client of NICo keeps cookies, and looking for them takes time."""
        self.client.client.cookiejar = None

    def scripts(self, bmc: Known, rules: Rules) -> list[Script[None]]:
        """What one turn is: scripts that run side by side."""
        raise NotImplementedError

    @task
    def turn(self) -> None:
        """One turn with the BMC that is due."""
        stage = Client.stage
        due = stage.rota.take(time.monotonic())
        if due is None:
            raise StopUser
        if isinstance(due, float):
            gevent.sleep(min(due, _NAP))
            return
        began = time.monotonic()
        try:
            self._together(stage, due, self.scripts(due, stage.rules))
        finally:
            stage.rota.give_back(due)
        stage.tally.turns += 1
        stage.tally.longest = max(stage.tally.longest, time.monotonic() - began)

    def _together(self, stage: Stage, bmc: Known, scripts: list[Script[None]]) -> None:
        if stage.phase.fresh:
            self.client.client.clientpool = connections(1)
        else:
            self.client.client.clientpool = stage.pool
        try:
            if len(scripts) == 1:
                self._act(stage, bmc, scripts[0])
            else:
                group = Group()
                for script in scripts:
                    group.spawn(self._act, stage, bmc, script)
                group.join()
        finally:
            if stage.phase.fresh:
                self.client.client.clientpool.close()

    def _act(self, stage: Stage, bmc: Known, script: Script[None]) -> None:
        row = "start"
        try:
            step = next(script)
            while True:
                answer = Answer(0)
                if isinstance(step, Ask):
                    row = step.row
                    answer = self._send(stage, bmc, step)
                elif isinstance(step, Pause):
                    gevent.sleep(step.seconds)
                elif isinstance(step, Hangup):
                    self.client.client.clientpool.close()
                step = script.send(answer)
        except StopIteration:
            pass
        except Wrong as wrong:
            stage.tally.note(bmc, row, str(wrong))

    def _send(self, stage: Stage, bmc: Known, ask: Ask) -> Answer:
        """The answer to one request. Raises Wrong when it is not what it must be."""
        endpoint = bmc.endpoint
        headers = dict(ask.headers)
        if ask.password is not None:
            headers["Authorization"] = _basic(endpoint.user, ask.password)
        if ask.token:
            headers["X-Auth-Token"] = ask.token
        if stage.proxy:
            headers["Forwarded"] = endpoint.forwarded
        headers["Accept-Encoding"] = "identity"
        body = None
        if ask.body is not None:
            headers["Content-Type"] = "application/json"
            body = (ask.body if isinstance(ask.body, bytes) else orjson.dumps(ask.body)).decode()
        with self.client.request(
            ask.method,
            f"https://{stage.proxy or endpoint.authority}{ask.path}",
            name=ask.row,
            data=body,
            headers=headers,
            catch_response=True,
            allow_redirects=False,
        ) as response:
            answer = _answer(response)
            stage.tally.statuses[answer.status] += 1
            fault = fault_of(bmc, ask, answer)
            if fault:
                response.failure(f"{answer.status}")
            else:
                response.success()
        if fault:
            raise Wrong(fault)
        return answer


def _answer(response: Any) -> Answer:
    if not response.status_code:
        return Answer(0, error=repr(getattr(response, "error", None)))
    return Answer(response.status_code, bytes(response.content or b""), response.headers or {}, at=time.time())


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class FirstLogin(Client):
    def scripts(self, bmc: Known, rules: Rules) -> list[Script[None]]:
        return [clients.login(bmc, rules)]


class SiteExplorer(Client):
    def scripts(self, bmc: Known, rules: Rules) -> list[Script[None]]:
        return [clients.storm(bmc, rules)]


class Surveyor(Client):
    def scripts(self, bmc: Known, rules: Rules) -> list[Script[None]]:
        return [clients.look(bmc, rules)]


class PreIngestion(Client):
    def scripts(self, bmc: Known, rules: Rules) -> list[Script[None]]:
        return [clients.reset(bmc, rules)]


class Ingestion(Client):
    def scripts(self, bmc: Known, rules: Rules) -> list[Script[None]]:
        return [clients.ingest(bmc, rules)]


class SteadyExplorer(Client):
    def scripts(self, bmc: Known, rules: Rules) -> list[Script[None]]:
        return [clients.explore(bmc, rules)]


class HealthMonitor(Client):
    def scripts(self, bmc: Known, rules: Rules) -> list[Script[None]]:
        del rules
        return [clients.health(bmc, part) for part in range(clients.FAN_OUT)]


class Observer(Client):
    def scripts(self, bmc: Known, rules: Rules) -> list[Script[None]]:
        return [clients.observe(bmc, rules)]


class SiteRotation(Client):
    def scripts(self, bmc: Known, rules: Rules) -> list[Script[None]]:
        return [clients.rotate(bmc, rules)]


class FaultFinder(Client):
    def scripts(self, bmc: Known, rules: Rules) -> list[Script[None]]:
        return [clients.faults(bmc, rules)]


CLIENTS: dict[str, type[Client]] = {
    each.__name__: each
    for each in (
        FirstLogin,
        SiteExplorer,
        Surveyor,
        PreIngestion,
        Ingestion,
        SteadyExplorer,
        HealthMonitor,
        Observer,
        SiteRotation,
        FaultFinder,
    )
}
