"""What NVIDIA adds: modes of a BlueField, rshim, power of a tray, NVRAM."""

from bmcsim.machine import power, staging
from bmcsim.machine.actions import Happening
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.state import Staged
from bmcsim.redfish import bios
from bmcsim.redfish.exchange import Request, Response
from bmcsim.redfish.outcome import Given, Handler, done, reset
from bmcsim.tree.compile import Action


def _set_mode(bmc: Bmc, _action: Action, given: Given, request: Request) -> Response:
    """Mode.Set: the card starts in the mode when it gets power the next time; the last wish counts."""
    mode = Staged("mode", Happening.SYSTEM_POWERED_ON, _bios(bmc), {"Attributes": {"NicMode": given["Mode"]}})
    bmc.become(request.moment, staged=staging.staging(bmc.state.staged, mode))
    return done()


def _set_host_rshim(bmc: Bmc, action: Action, given: Given, request: Request) -> Response:
    bmc.change(bmc.tree.nodes[action.uri], {"HostRshim": given["HostRshim"]}, request.moment)
    return done()


def _force_reset(bmc: Bmc, _action: Action, _given: Given, request: Request) -> Response:
    """SOC.ForceReset: the processors of the card start anew."""
    return reset(bmc, power.Event.FORCE_RESTART, request.moment)


def _aux_power_reset(bmc: Bmc, _action: Action, _given: Given, request: Request) -> Response:
    """NvidiaChassis.AuxPowerReset: standby power goes and comes back."""
    return done(bmc.ac_cycle(request.moment))


def _clear_nvram(bmc: Bmc, _action: Action, _given: Given, request: Request) -> Response:
    """NvidiaUpdateService.ClearNVRAM: the next boot finds the settings of the firmware as they left the factory."""
    bios.reset_attributes(bmc, _bios(bmc), request)
    return done()


def _bios(bmc: Bmc) -> str:
    return f"{bmc.tree.head.roles.system}/Bios"


ACTIONS: dict[str, Handler] = {
    "HostRshim.Set": _set_host_rshim,
    "Mode.Set": _set_mode,
    "Oem.NvidiaChassis.AuxPowerReset": _aux_power_reset,
    "Oem.NvidiaUpdateService.ClearNVRAM": _clear_nvram,
    "SOC.ForceReset": _force_reset,
}
