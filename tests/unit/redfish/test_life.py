"""Whatever a client does to a host and its DPUs, and whenever: documented states, no 500, nobody else is touched."""

from functools import cache
from typing import Any

import orjson
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from bmcsim.core.clock import ManualClock
from bmcsim.fleet.build import Builder
from bmcsim.fleet.config import parse
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.power import TRANSITIONS, Power
from bmcsim.machine.state import Row, decode
from bmcsim.redfish.exchange import Head, Request, Response
from bmcsim.redfish.service import handle
from tests.conftest import basic

HOST, DPU, NEIGHBOUR = "a-0", "a-0-dpu-0", "a-1"
FACTORY = {HOST: "factory_password", DPU: "0penBmc", NEIGHBOUR: "factory_password"}
SYSTEM = {HOST: "/redfish/v1/Systems/System.Embedded.1", DPU: "/redfish/v1/Systems/Bluefield"}
MANAGER = {HOST: "/redfish/v1/Managers/iDRAC.Embedded.1", DPU: "/redfish/v1/Managers/Bluefield_BMC"}
ACCOUNT = "/redfish/v1/AccountService/Accounts/root"
PASSWORDS = st.sampled_from(["One-1", "Two-2", "factory_password", "0penBmc", ""])
RESETS = [
    "On", "ForceOff", "ForceOn", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle",
    "PushPowerButton", "Nmi", "Pause", 7,
]  # fmt: skip
BOOT_STATES = {
    "None", "PrimaryProcessorInitializationStarted", "MemoryInitializationStarted", "PCIResourceConfigStarted",
    "SystemHardwareInitializationComplete", "OSBootStarted", "OSRunning",
}  # fmt: skip

bmcs = st.sampled_from([HOST, DPU])


@cache
def builder(policy: str, mode: str) -> Builder:
    """What makes the fleet; it keeps its trees."""
    config = parse(
        f'[bmcsim]\ncredentials = "{policy}"\nwhile_resetting = "{mode}"\n'
        "[machines.a]\nhost_count = 2\ndpu_per_host_count = 1\n",
        "life.toml",
    )
    return Builder(config, Hasher(b"k" * 32), ManualClock().now().wall)


class Life(RuleBasedStateMachine):
    """A host with a DPU, and a neighbour that nobody speaks to."""

    tokens = Bundle("tokens")

    @initialize(
        policy=st.sampled_from(["persist", "factory"]), mode=st.sampled_from(["close", "503", "hang", "staged"])
    )
    def start(self, policy: str, mode: str) -> None:
        self.clock, self.fleet = ManualClock(), Fleet()
        for _ in builder(policy, mode).populate(self.fleet):
            pass
        self.driver = Driver(self.clock)
        self.bmcs = {id_: self._bmc(id_) for id_ in (HOST, DPU, NEIGHBOUR)}
        self.untouched = self.bmcs[NEIGHBOUR].state
        self.password = dict(FACTORY)

    def _bmc(self, id_: str) -> Bmc:
        found = self.fleet.by_id(id_)
        assert found is not None
        return found

    def call(self, id_: str, method: str, path: str, body: Any = None, *, token: bytes = b"") -> Response:
        """A request with the present password, or with a token."""
        bmc = self.bmcs[id_]
        authorization = b"" if token else basic("root", self.password[id_])
        content = b"" if body is None else orjson.dumps(body)
        head = Head(authorization, token, content_type=b"application/json" if content else b"", plain=not token)
        response = handle(bmc, Request(method, path, self.clock.now(), head, "", content))
        assert response.status != 500
        assert response.status < 500 or response.delivery is not None or response.status in (501, 503)
        self.driver.execute(bmc, response.actions)
        return response

    def serves(self, id_: str) -> bool:
        """Whether a BMC is in service."""
        return self.bmcs[id_].state.service is Service.UP

    @rule(id_=bmcs, password=PASSWORDS)
    def rotate(self, id_: str, password: str) -> None:
        response = self.call(id_, "PATCH", ACCOUNT, {"Password": password})
        if response.status == 204:
            self.password[id_] = password

    @rule(id_=bmcs, type_=st.sampled_from(RESETS))
    def reset_system(self, id_: str, type_: Any) -> None:
        before = self.bmcs[id_].power
        response = self.call(id_, "POST", SYSTEM[id_] + "/Actions/ComputerSystem.Reset", {"ResetType": type_})
        if response.status >= 300:
            assert self.bmcs[id_].power is before

    @rule(id_=bmcs, type_=st.sampled_from(["GracefulRestart", "ForceRestart", "Nope"]))
    def reset_bmc(self, id_: str, type_: str) -> None:
        power = self.bmcs[id_].power
        served = self.serves(id_)
        response = self.call(id_, "POST", MANAGER[id_] + "/Actions/Manager.Reset", {"ResetType": type_})
        assert self.bmcs[id_].power is power
        assert self.serves(id_) == (served and response.status != 204)

    @rule(id_=bmcs)
    def reset_to_defaults(self, id_: str) -> None:
        response = self.call(id_, "POST", MANAGER[id_] + "/Actions/Manager.ResetToDefaults", {"ResetType": "ResetAll"})
        if response.status in (200, 204):
            assert not self.serves(id_)
            self.password[id_] = FACTORY[id_]

    @rule(target=tokens, id_=bmcs)
    def log_in(self, id_: str) -> Any:
        body = {"UserName": "root", "Password": self.password[id_]}
        response = self.call(id_, "POST", "/redfish/v1/SessionService/Sessions", body)
        if response.status != 201:
            return multiple()
        token = next(line[14:] for line in response.head.split(b"\r\n") if line.startswith(b"X-Auth-Token: "))
        return id_, token, self.bmcs[id_].state.resets

    @rule(session=tokens)
    def use_a_token(self, session: tuple[str, bytes, int]) -> None:
        id_, token, resets = session
        response = self.call(id_, "GET", SYSTEM[id_], token=token)
        if self.bmcs[id_].state.resets != resets:
            assert response.status in (401, 503)

    @rule(session=tokens)
    def a_reset_ends_a_session(self, session: tuple[str, bytes, int]) -> None:
        id_, token, resets = session
        self.reset_bmc(id_, "ForceRestart")
        self.wait(400.0)
        if self.bmcs[id_].state.resets != resets:
            assert self.call(id_, "GET", SYSTEM[id_], token=token).status == 401

    @rule(id_=bmcs, enabled=st.sampled_from(["Once", "Continuous", "Disabled", "Sometimes"]))
    def override_the_boot(self, id_: str, enabled: str) -> None:
        self.call(id_, "PATCH", SYSTEM[id_], {"Boot": {"BootSourceOverrideEnabled": enabled}})

    @rule(seconds=st.sampled_from([0.1, 2.0, 5.0, 30.0, 95.0, 400.0]))
    def wait(self, seconds: float) -> None:
        end = self.clock.now().mono + seconds
        while (deadline := self.driver._heap.next_deadline()) is not None and deadline <= end:
            self.clock.advance(max(0.0, deadline - self.clock.now().mono))
            self.driver.run_due()
        self.clock.advance(max(0.0, end - self.clock.now().mono))
        for id_ in (HOST, DPU):
            bmc = self.bmcs[id_]
            if bmc.shared.policy == "factory" and bmc.state.accounts == bmc.shared.accounts:
                self.password[id_] = FACTORY[id_]

    @invariant()
    def states_are_documented_and_transitions_have_an_end(self) -> None:
        for id_ in (HOST, DPU):
            bmc = self.bmcs[id_]
            assert bmc.power in TRANSITIONS
            moving = bmc.power not in (Power.OFF, Power.RUNNING)
            assert ("power" in bmc.state.timers) == moving
            assert ("bmc_reset" in bmc.state.timers) == (not self.serves(id_))
            assert {name: timer.deadline for name, timer in (bmc.timers or {}).items()} == bmc.state.timers

    @invariant()
    def the_present_password_opens_and_shows_documented_values(self) -> None:
        for id_ in (HOST, DPU):
            if not self.serves(id_):
                continue
            response = self.call(id_, "GET", SYSTEM[id_])
            if self.password[id_] == FACTORY[id_]:
                assert response.status == 403
                continue
            assert response.status == 200
            shown = orjson.loads(response.body)
            assert shown["PowerState"] in ("On", "Off", "PoweringOn", "PoweringOff")
            assert shown["BootProgress"]["LastState"] in BOOT_STATES

    @invariant()
    def a_row_brings_the_same_state_back(self) -> None:
        for id_ in (HOST, DPU):
            bmc = self.bmcs[id_]
            row: Row = decode(bmc.encode())
            assert row.state == bmc.state

    @invariant()
    def the_neighbour_is_as_it_was(self) -> None:
        assert self.bmcs[NEIGHBOUR].state is self.untouched
        assert self.bmcs[NEIGHBOUR].uncommitted is None


Life.TestCase.settings = settings(deadline=None, max_examples=40, stateful_step_count=25)
TestLife = Life.TestCase
