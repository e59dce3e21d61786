"""What else is said to NICo: the proxy of its explorer, what firmware it desires, and what goes at the end."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from bmcsim.edges.nico import forge_pb2 as forge
from bmcsim.edges.nico.calls import (
    DESIRED_FIRMWARE,
    FORCE_DELETE,
    SET_CONFIG,
    Answer,
    CallFailed,
    Method,
    Request,
    backoff,
)
from bmcsim.edges.nico.channel import Api
from bmcsim.fleet.desired import Desired

_AT_ONCE = 8
_AGAIN = 1.0

Sleep = Callable[[float], Awaitable[None]]


async def persist(
    api: Api,
    method: Method[Request, Answer],
    request: Request,
    random: Callable[[], float],
    sleep: Sleep = asyncio.sleep,
) -> Answer:
    """The answer to a request, asked until there is one. Raises CallFailed for what is refused for good."""
    failures = 0
    while True:
        try:
            return await api.call(method, request)
        except CallFailed as error:
            if not error.transient:
                raise
        failures += 1
        await sleep(backoff(failures, random))


async def desired_firmware(api: Api, random: Callable[[], float], sleep: Sleep = asyncio.sleep) -> list[Desired]:
    """The versions that NICo wants. Raises CallFailed for a NICo that does not say."""
    answer = await persist(api, DESIRED_FIRMWARE, forge.GetDesiredFirmwareVersionsRequest(), random, sleep)
    return [Desired(entry.vendor, entry.model, dict(entry.component_versions)) for entry in answer.entries]


def proxy_request(address: str) -> forge.SetDynamicConfigRequest:
    """Where NICo's explorer reaches all BMCs, HOST:PORT; '' for by their own addresses."""
    return forge.SetDynamicConfigRequest(setting=forge.ConfigSetting.BMC_PROXY, value=address)


async def clear_proxy(api: Api, seconds: float) -> str:
    """Take the proxy back; why that failed, '' if it did not."""
    try:
        await api.call(SET_CONFIG, proxy_request(""), seconds)
    except CallFailed as error:
        return str(error)
    return ""


class Cleanup:
    """Deletes machines from NICo. left: how many are still there."""

    def __init__(self, api: Api, macs: Iterable[str], sleep: Sleep = asyncio.sleep) -> None:
        """macs: of the hosts' systems, as NICo knows them."""
        self._api, self._sleep = api, sleep
        self._waiting = deque(macs)
        self.left = len(self._waiting)
        self.failed: dict[str, str] = {}

    async def run(self, seconds: float) -> None:
        """Delete as many as can be in so much time."""
        try:
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                for _ in range(min(_AT_ONCE, self.left)):
                    group.create_task(self._work())
        except TimeoutError:
            pass

    async def _work(self) -> None:
        while self._waiting:
            mac = self._waiting.popleft()
            try:
                while not await self._delete(mac):
                    await self._sleep(_AGAIN)
            except CallFailed as error:
                self.failed[mac] = str(error)
            else:
                self.left -= 1

    async def _delete(self, mac: str) -> bool:
        """Whether it is gone. Raises CallFailed."""
        request = forge.AdminForceDeleteMachineRequest(
            host_query=mac, delete_interfaces=True, delete_bmc_interfaces=True
        )
        try:
            return (await self._api.call(FORCE_DELETE, request)).all_done
        except CallFailed as error:
            if error.code == "NOT_FOUND":
                return True
            raise
