"""A worker of locust: `python -m bench.load.worker HOST PORT` plays the users that its master tells it to."""

# First of all, because it makes gevent's the sockets that everything after it imports.
import locust.env  # isort: skip

import logging
import sys
import time
from typing import Any

import gevent
from locust import runners

from bench.load.clients import Rules
from bench.load.endpoints import Endpoint
from bench.load.known import Known
from bench.load.phases import PHASES
from bench.load.rota import Once, Steady
from bench.load.users import CLIENTS, Client, Stage

runners.WORKER_REPORT_INTERVAL = 0.5
runners.CPU_MONITOR_INTERVAL = 1.0
logging.getLogger().setLevel(logging.ERROR)  # a busy processor is in the report


class Worker:
    """Its share of the BMCs, for all phases of a run."""

    def __init__(self, host: str, port: int) -> None:
        self._environment = locust.env.Environment(user_classes=list(CLIENTS.values()))
        self._runner = self._environment.create_worker_runner(host, port)
        self._bmcs: list[Known] = []
        self._runner.register_message("bmcs", self._take)
        self._runner.register_message("phase", self._prepare)
        self._runner.register_message("drain", self._drain)
        self._runner.register_message("report", self._report)

    def run(self) -> None:
        """Until the master says that it is over, or is gone."""
        # A worker counts as connected before it can register for messages; this says that it has.
        self._runner.send_message("ready", {})
        self._runner.greenlet.join()

    def _take(self, environment: object, msg: Any) -> None:
        del environment
        for number, *endpoint in msg.data["bmcs"]:
            self._bmcs.append(Known(number, Endpoint(*endpoint)))
        self._runner.send_message("ready", {})

    def _prepare(self, environment: object, msg: Any) -> None:
        del environment
        phase = PHASES[msg.data["phase"]]
        steady = phase.pace == "steady"
        rota = Steady(self._bmcs, msg.data["period"], time.monotonic()) if steady else Once(self._bmcs)
        Client.stage = Stage(phase, rota, Rules(*msg.data["rules"]), msg.data["proxy"], msg.data["users"])
        gevent.spawn(self._watch, Client.stage)
        self._runner.send_message("ready", {})

    def _watch(self, stage: Stage) -> None:
        """Tell the master when the last turn is over."""
        began, used = time.monotonic(), time.process_time()
        while not stage.rota.over:
            gevent.sleep(0.02)
        stage.tally.busy = 100 * (time.process_time() - used) / (time.monotonic() - began)
        self._runner.send_message("through", {})

    def _drain(self, environment: object, msg: Any) -> None:
        del environment, msg
        Client.stage.rota.close()

    def _report(self, environment: object, msg: Any) -> None:
        del environment, msg
        stage = Client.stage
        stage.pool.close()
        tally = stage.tally
        self._runner.send_message(
            "tally",
            {
                "turns": tally.turns,
                "statuses": dict(tally.statuses),
                "wrong": tally.wrong,
                "texts": tally.texts,
                "busy": tally.busy,
                "longest": tally.longest,
                "late": stage.rota.late,
                "who": [bmc.who for bmc in self._bmcs],
            },
        )


if __name__ == "__main__":
    Worker(sys.argv[1], int(sys.argv[2])).run()
