"""Gives the BMCs of a fleet the addresses that they are to have: a static one, or what DHCP gives."""

import logging

from bmcsim.fleet.driver import Leasing
from bmcsim.fleet.registry import Fleet
from bmcsim.machine import addressing
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.dhcp.messages import Port

log = logging.getLogger(__name__)


def readdress(fleet: Fleet, bmc: Bmc, leases: Leasing | None = None) -> None:
    """Move a BMC to the address that it is to have. leases: None where addresses are planned.

    A static address that another BMC has or is to have is left alone (RFC 5227 2.1.1), and said in the log.
    """
    if fleet.by_id(bmc.id) is not bmc:
        # It was removed while the change that moves it was being stored.
        return
    static = addressing.static(bmc)
    if static is not None and fleet.taken(static.address, bmc.identity.bmc_mac):
        log.warning("%s does not use its static address %s, which is another BMC's", bmc.id, static.address)
        static = None
    if leases is not None:
        if static is None:
            fleet.unbind(bmc)
            leases.restart(bmc, Port.BMC)
        else:
            leases.stop(bmc, Port.BMC, release=True)
            fleet.bind(bmc, static.address)
    elif static is None:
        fleet.go_home(bmc)
    else:
        fleet.move(bmc, static.address)
