"""Files as machine-a-tron's chart renders them: each profile of its values, with the keys of August and of October."""

from collections.abc import Mapping
from typing import Any, NamedTuple

AUGUST, OCTOBER = "august", "october"


class Group(NamedTuple):
    """A [machines.NAME] table."""

    name: str
    hw_type: str
    hosts: int
    dpus: int
    relay: str = "192.168.192.1"
    underlay: str = "192.168.176.1"


class Pod(NamedTuple):
    """What one pod has. index: of it among the active pods, None where the MAC pools are the program's own.

    intervals: scout, working, idle and network status. racks: ids.
    """

    groups: tuple[Group, ...]
    index: int | None = None
    password: str = ""
    proxy: str = ""
    intervals: tuple[str, str, str, str] = ("60s", "1s", "10s", "20s")
    racks: tuple[str, ...] = ()
    relay_server: str = ""


_SLOW = ("300s", "5s", "60s", "120s")
_DELL, _TRAY = "dell_poweredge_r750", "wiwynn_gb200_nvl"


def _of_4500(number: int, hosts: int, relay: str, proxy: str = "") -> Pod:
    group = Group("scale-hosts", _DELL, hosts, 2, relay, "10.102.0.1")
    return Pod((group,), number, intervals=_SLOW, proxy=proxy)


PODS: Mapping[str, Pod] = {
    "default": Pod((Group("rack-machines", _TRAY, 10, 2),)),
    "override": Pod((Group("default", _DELL, 3, 2),), proxy="nico-machine-a-tron-default-bmc-mock.nico-mat.svc"),
    "multipod-0": Pod((Group("gb200", _TRAY, 100, 2, "10.96.64.1"),), 0, password="NicoSiteRoot1"),
    "multipod-1": Pod((Group("gb200", _TRAY, 100, 2, "10.96.64.1"),), 1, password="NicoSiteRoot1"),
    "scale": Pod((Group("scale-hosts", _DELL, 100, 2),), 0, intervals=_SLOW),
    "scale-4500-0": _of_4500(0, 1350, "10.233.16.1"),
    "scale-4500-1": _of_4500(1, 2700, "10.233.32.1"),
    "scale-4500-2": _of_4500(2, 450, "10.233.8.1"),
    "scale-4500-proxy": _of_4500(0, 4500, "10.200.0.1", "bmc-proxy.nico-mat.svc"),
    "10racks": Pod((), 0, racks=tuple(f"rack-{number}" for number in range(1, 11))),
    "relay": Pod((Group("scale-hosts", _DELL, 2, 2),), 0, relay_server="127.0.0.1:6767"),
}
"""Name of a profile, and of its pod where it has several -> the pod."""

RELAYS = sorted({relay for pod in PODS.values() for group in pod.groups for relay in (group.relay, group.underlay)})


def rendered(pod: Pod, when: str, **top: Any) -> str:
    """The file of a pod. top: more keys of the top level, before all others, or in place of them."""
    values: dict[str, Any] = {
        "carbide_api_url": "https://nico-api.nico-system.svc.cluster.local:1079",
        "bmc_mock_port": 1266,
        "mock_bmc_ssh_server": True,
        "persist_dir": "/tmp/machine-a-tron-data",
        "cleanup_on_quit": False,
        "register_expected_machines": True,
        "api_refresh_interval": "2s",
    }
    if when == AUGUST:
        values |= {"interface": "NOTUSED", "tui_enabled": False, "use_single_bmc_mock": True, "mock_bmc_ssh_port": 2222}
        values |= {"use_pxe_api": True, "pxe_server_host": "127.0.0.1", "mat_api_server_enabled": False}
    else:
        values |= {"log_format": "logfmt", "ufm_mock": {"enabled": True, "include_local_inventory": True}}
    if pod.proxy:
        values["configure_carbide_bmc_proxy_host"] = pod.proxy
    if pod.password:
        values |= {"host_bmc_password": pod.password, "dpu_bmc_password": pod.password}
    if pod.index is not None:
        values["mac_address_pool"] = {"base": f"02:00:{pod.index:02x}:00:00:00", "host_bits": 16}
        values["hw_mac_address_ranges"] = {
            "base": f"02:01:{pod.index:02x}:00:00:00",
            "host_bits": 24,
            "range_host_bits": 8,
        }
    if pod.relay_server:
        values["dhcp"] = {"type": "udp_relay", "server_address": pod.relay_server}
        values["dhcp"] |= {"listen_address": "127.0.0.1:6768", "advertise_address": "127.0.0.1"}
    if pod.groups:
        values["machines"] = {group.name: _machines(group, pod, when) for group in pod.groups}
    else:
        values["machines"] = {}
    if pod.racks:
        rack = {"type": "wiwynn_gb200_nvl72", "ids": list(pod.racks), **_relays("10.200.0.1", "10.201.0.1", when)}
        if when == AUGUST:
            rack |= {"rack_profile_id": "NVL72", "dpu_reboot_delay": 1, "host_reboot_delay": 1}
        values["racks"] = {"gb200": rack}
    return _toml({**values, **top})


def _relays(bmc: str, underlay: str, when: str) -> dict[str, str]:
    names = ("oob", "admin") if when == AUGUST else ("bmc", "underlay")
    return dict(zip([f"{name}_dhcp_relay_address" for name in names], (bmc, underlay), strict=True))


def _machines(group: Group, pod: Pod, when: str) -> dict[str, Any]:
    keys = ("scout_run_interval", "run_interval_working", "run_interval_idle", "network_status_run_interval")
    values: dict[str, Any] = {
        "hw_type": group.hw_type,
        "host_count": group.hosts,
        "dpu_per_host_count": group.dpus,
        **dict(zip(keys, pod.intervals, strict=True)),
        **_relays(group.relay, group.underlay, when),
        "dpus_in_nic_mode": False,
    }
    if when == AUGUST:
        return values | {"vpc_count": 0, "subnets_per_vpc": 0, "dpu_reboot_delay": 1, "host_reboot_delay": 1}
    return values | {"acceleration_factor": 1.0, "discovery_retry_interval": "60s", "dpf_enabled": True}


def _toml(values: Mapping[str, Any], path: str = "") -> str:
    """TOML of tables of texts, numbers, flags and lists of texts."""
    plain = [f"{key} = {_value(value)}" for key, value in values.items() if not isinstance(value, dict)]
    tables = [
        _toml(value, f"{path}.{key}" if path else key) for key, value in values.items() if isinstance(value, dict)
    ]
    return "\n".join([*([f"\n[{path}]"] if path else []), *plain, *tables])


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
