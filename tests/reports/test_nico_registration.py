"""Reports about the registration with NICo."""

import asyncio
import contextlib
import json
import urllib.request
from pathlib import Path
from typing import Any

import grpc

from bmcsim.edges.nico.inventory import Record, record_of
from bmcsim.edges.nico.registration import Registration
from bmcsim.fleet.config import default
from bmcsim.fleet.identities import plan
from bmcsim.tree.profile import Account
from tests.nico_api import FakeApi, Refusal, api_at, running
from tests.serving import serving

HOSTS, OUTAGE = 4500, 600.0


async def test_n52_an_api_that_is_down_for_ten_minutes_ends_up_with_the_whole_fleet() -> None:
    account = Account("root", "root", "factory_password")
    found = [record_of(planned, account) for planned in plan(default(HOSTS))]
    records = [record for record in found if isinstance(record, Record)]
    async with running() as fake, api_at(fake) as api:
        passed, pending = 0.0, []

        async def sleep(seconds: float) -> None:
            nonlocal passed
            passed += seconds
            pending.append(HOSTS - registration.status()["registered"])

        async def down(method: str, request: Any) -> None:
            if passed < OUTAGE:
                raise Refusal(grpc.StatusCode.UNAVAILABLE)

        registration = Registration(api, random=lambda: 0.5, say=str, sleep=sleep)
        fake.before = down
        await registration.run([], records)
        assert len(fake.expected) == HOSTS
        assert registration.status() == {"registered": HOSTS, "already_present": 0, "failed_identifiers": []}
        assert OUTAGE <= passed < OUTAGE + 30
        assert set(pending) == {HOSTS}
        assert fake.count("AddExpectedMachine") < HOSTS + 24 * len(pending)


RACKS = """
carbide_api_url = "http://127.0.0.1:{port}"

[dhcp]
type = "pool"
prefix = "127.64.0.0/18"

[racks.a]
type = "wiwynn_gb200_nvl72"
ids = [{ids}]
"""


async def test_n53_a_slow_api_keeps_nobody_from_redfish(tmp_path: Path) -> None:
    fake, fleet = FakeApi(), tmp_path / "fleet.toml"

    async def slow(method: str, request: Any) -> None:
        await asyncio.sleep(2)

    fake.before = slow
    await fake.start()
    fleet.write_text(RACKS.format(port=fake.port, ids=", ".join(f'"r-{n}"' for n in range(25))))
    with contextlib.ExitStack() as opened:
        process = await asyncio.to_thread(opened.enter_context, serving(tmp_path / "output", str(fleet), "--no-tls"))

        async def get(url: str) -> Any:
            def read() -> Any:
                with urllib.request.urlopen(url, timeout=2) as response:
                    return json.loads(response.read())

            return await asyncio.to_thread(read)

        admin = f"http://127.0.0.1:{process.admin}"
        status = await get(f"{admin}/expected-inventory/status")
        assert status["registered"] < 25 * 35
        assert (await get(f"{admin}/readyz"))["bmcs"] == 1775
        assert "Managers" in await get(f"http://127.64.0.2:{process.port}/redfish/v1")
        # Several at once: one after the other would be a rack each two seconds.
        for _ in range(10):
            assert "Managers" in await get(f"http://127.64.0.2:{process.port}/redfish/v1")
            await asyncio.sleep(0.3)
        assert len(fake.racks) >= 8
        assert await asyncio.to_thread(process.stop) == 0
    await fake.stop()
