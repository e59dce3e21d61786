"""The control API of a real process: against its OpenAPI document, and a scene over 4,500 hosts."""

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.serving import Process, serving

pytestmark = pytest.mark.system

TOKEN = "a-token-of-24-characters"
_SECONDS = 40.0
_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "ignored_auth",
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Two hosts with a DPU each, and a token."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "token").write_text(TOKEN)
    options = ("--hosts", "2", "--dpus", "1", "--token-file", str(folder / "token"))
    with serving(folder / "serve.log", *options) as process:
        yield process


def test_the_api_answers_as_its_document_says(small: Process) -> None:
    schemathesis.checks.load_all_checks()
    checks = schemathesis.checks.CHECKS.get_by_names(_CHECKS)
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{small.admin}/api/v1/openapi.json")
    operations = [result.ok() for result in schema.get_all_operations()]
    # A stream of events does not end; it has tests of its own.
    operations = [one for one in operations if "text/event-stream" not in str(one.definition.raw["responses"])]
    assert len(operations) > 10
    ends = time.monotonic() + _SECONDS
    asked = 0
    for number, operation in enumerate(operations):
        # What one operation leaves of its time the following ones have.
        share = (ends - time.monotonic()) / (len(operations) - number)
        asked += _ask(operation, checks, time.monotonic() + share)
    assert asked > 10 * len(operations)


def _ask(operation: Any, checks: Sequence[Any], until: float) -> int:
    """Ask in many ways, but no longer than until then; how often."""
    asked = 0

    @settings(
        max_examples=200, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(case=_cases(operation))
    def ask(case: schemathesis.Case) -> None:
        nonlocal asked
        if time.monotonic() < until:
            asked += 1
            case.call_and_validate(headers={"Authorization": f"Bearer {TOKEN}"}, checks=checks, timeout=10)

    ask()
    return asked


def _cases(operation: Any) -> st.SearchStrategy[schemathesis.Case]:
    """Requests that the document allows, and such that it does not, where there is something to get wrong."""
    positive, negative = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
    takes = operation.path_parameters or operation.query or operation.body
    return st.one_of(
        [operation.as_strategy(generation_mode=mode) for mode in ((positive, negative) if takes else (positive,))]
    )


class Live:
    """The fleet as a stream of server-sent events tells it. away: ids of BMCs that were ever not up."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self.away: set[str] = set()
        first = orjson.loads(self._data("fleet"))
        self.columns: dict[str, list[Any]] = first["columns"]
        self._names: list[str] = first["tables"]["state"]
        self._place = {i: at for at, i in enumerate(self.columns["i"])}

    def _data(self, event: str) -> bytes:
        name = b""
        for line in self._lines:
            if line.startswith(b"event:"):
                name = line[6:].strip()
            elif line.startswith(b"data:") and name == event.encode():
                return line[5:]
        raise AssertionError("the stream ended")

    def _state(self, status: int) -> str:
        return self._names[status & 7]

    def next(self) -> dict[str, list[Any]]:
        """The columns after the next change."""
        delta = orjson.loads(self._data("delta"))
        for name in ("status", "address", "faults", "errors"):
            for i, value in zip(delta["i"], delta[name], strict=True):
                self.columns[name][self._place[i]] = value
        for i, status in zip(delta["i"], delta["status"], strict=True):
            if self._state(status) != "up":
                self.away.add(self.columns["id"][self._place[i]])
        return self.columns

    def states(self) -> Counter[str]:
        """How many BMCs are in which state."""
        return Counter([self._state(status) for status in self.columns["status"]])


class Api:
    """The control API of a process."""

    def __init__(self, process: Process) -> None:
        self._url = f"http://127.0.0.1:{process.admin}/api/v1"
        self._session = requests.Session()

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of a GET."""
        answer = self._session.get(f"{self._url}/{path}", params=query, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def watch(self) -> Live:
        """The stream of what changes."""
        answer = self._session.get(f"{self._url}/events", params={"topics": "fleet"}, stream=True, timeout=30)
        assert answer.status_code == 200, answer.text
        return Live(answer.iter_lines(chunk_size=None))

    def snapshot(self) -> bytes:
        """The state of the fleet."""
        answer = self._session.get(f"{self._url}/snapshot", headers={"Content-Type": "application/json"}, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.content

    def restore(self, snapshot: bytes) -> None:
        """Take a snapshot back."""
        headers = {"Content-Type": "application/octet-stream"}
        answer = self._session.post(f"{self._url}/restore", data=snapshot, headers=headers, timeout=60)
        assert answer.status_code == 200, answer.text

    def operate(self, operation: dict[str, Any], wave: Any = None, **selection: Any) -> Any:
        """A job when it is over, all of whose BMCs must be done."""
        order = {"operation": operation, "selection": selection} | ({"wave": wave} if wave else {})
        answer = self._session.post(f"{self._url}/operations", json=order, timeout=30)
        assert answer.status_code == 202, answer.text
        job = answer.json()
        while job["state"] == "running":
            time.sleep(0.05)
            job = self.get(f"jobs/{job['id']}")
        assert (job["state"], job["done"]) == ("completed", job["total"]), job
        return job


def test_a_scene_over_4500_hosts(tmp_path: Path) -> None:
    with serving(tmp_path / "serve.log", "--time-scale", "60", "--no-tls") as process:
        api, hosts = Api(process), {"group": ["host"], "kind": ["host"]}
        assert api.operate({"type": "set_password", "password": "Scene-{id}-1"}, **hosts)["total"] == 4500
        began = time.monotonic()
        live = api.watch()
        assert live.states() == {"up": 13500}
        job = api.operate({"type": "bmc_reset"}, {"size": 500, "interval": 0.2}, **hosts)
        assert (job["total"], time.monotonic() - began > 8 * 0.2) == (4500, True)
        rule = {"id": "away", "selector": {"OdataId": "/redfish/v1/Systems"}, "action": {"Status": 503}}
        sample = {"share": 0.05, "seed": 11}
        assert api.operate({"type": "faults", "add": [rule]}, **hosts, sample=sample)["total"] == 225
        ends = time.monotonic() + 30
        while live.next()["faults"].count(1) != 225 or live.states() != {"up": 13500}:
            assert time.monotonic() < ends
        assert live.away == {live.columns["id"][at] for at in range(13500) if live.columns["parent"][at] == -1}
        fleet = api.get("fleet")
        assert (fleet["faulty"], fleet["by_credentials"]) == (225, {"current": 4500, "factory": 9000})
        away = api.get("bmcs", **hosts, share=0.05, seed=11, limit=20000)["items"]
        assert len(away) == 225 and all(one["faults"] == 1 for one in away)
        well = next(one for one in api.get("bmcs", **hosts)["items"] if not one["faults"])
        for bmc, status in ((away[0], 503), (away[-1], 503), (well, 200)):
            url = f"http://{bmc['address']}:{process.port}/redfish/v1/Systems"
            assert requests.get(url, auth=("root", f"Scene-{bmc['id']}-1"), timeout=10).status_code == status
        assert [change["path"] for change in api.get("audit")["changes"]] == ["/api/v1/operations"] * 3
        digest, snapshot = api.get("fleet/digest"), api.snapshot()
    with serving(tmp_path / "new.log", "--time-scale", "60", "--no-tls") as process:
        api = Api(process)
        assert api.get("fleet/digest") != digest
        api.restore(snapshot)
        assert api.get("fleet/digest") == digest
        assert api.get("bmcs", **hosts, share=0.05, seed=11, limit=20000)["items"] == [
            {**one, "last_contact": None, "requests": 0, "errors": 0} for one in away
        ]


def test_beyond_loopback_a_token_is_made_and_printed_once(tmp_path: Path) -> None:
    with serving(tmp_path / "serve.log", "--hosts", "1", "--dpus", "0") as process:
        assert "token" not in process.output
    with serving(tmp_path / "open.log", "--hosts", "1", "--dpus", "0", admin_on="0.0.0.0") as process:
        url = f"http://127.0.0.1:{process.admin}/api/v1/clock"
        assert requests.post(url, json={"step": 1}, timeout=10).status_code == 401
        assert requests.get(url, timeout=10).status_code == 200
        found = re.findall(r"token for changes over the control API: (\S+)", process.output)
        assert len(found) == 1
        headers = {"Authorization": f"Bearer {found[0]}"}
        assert requests.post(url, json={"step": 1}, headers=headers, timeout=10).status_code == 200
        assert process.output.count(found[0]) == 1
