"""A fleet in the formats of other tools, from its plan alone: no server has to run."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec
import yaml

from bmcsim.fleet.config import FleetConfig
from bmcsim.fleet.identities import plan
from bmcsim.machine.identity import Identity, Kind, mac_colons
from bmcsim.tree.profile import Head, load
from bmcsim.tree.source import ProfileError


class Row(msgspec.Struct, frozen=True):
    """One BMC as other tools want to know it; '' for what it has not.

    hardware: its profile. rack: its id. parent: id of the host that a DPU is in. system: URI. boot_macs: of the
    interfaces that a host boots from.
    """

    id: str
    kind: str
    group: str
    hardware: str
    rack: str
    address: str
    mac: str
    serial: str
    parent: str
    user: str
    password: str
    system: str
    boot_macs: tuple[str, ...]


class Options(msgspec.Struct, frozen=True):
    """How to reach the fleet. domain: of the names of BMCs, '' for none. with_passwords: whether they are in it."""

    port: int
    scheme: str = "https"
    domain: str = ""
    with_passwords: bool = False


def rows(config: FleetConfig) -> Iterator[Row]:
    """Every BMC in machine order. Raises ProfileError."""
    head_of = cache(lambda name: load(name).head)
    rack = ""
    for bmc in plan(config):
        identity, group = bmc.identity, bmc.group
        head: Head = head_of(group.hw_type)
        if bmc.parent is None:
            rack = identity.place.rack if identity.place is not None else group.rack_id or ""
        else:
            if not head.dpu:
                raise ProfileError(f"{group.name}: the profile {group.hw_type} does not say which DPUs it has")
            head = head_of(head.dpu)
        account = head.accounts[0]
        given = config.dpu_bmc_password if identity.kind is Kind.DPU else config.host_bmc_password
        pinned = given is not None and not head.behaviour.ignores_pinned_password
        yield Row(
            bmc.id,
            str(identity.kind),
            group.name,
            head.profile,
            rack,
            bmc.address,
            mac_colons(identity.bmc_mac),
            identity.serial,
            bmc.parent or "",
            account.user,
            given if pinned and given is not None else account.password,
            head.roles.system,
            _boot_macs(identity),
        )


def _boot_macs(identity: Identity) -> tuple[str, ...]:
    if identity.kind is not Kind.HOST:
        return ()
    macs = [dpu.host_mac for dpu in identity.dpus] or [identity.host_mac]
    return tuple([mac_colons(mac).lower() for mac in macs])


def hosts(fleet: Iterable[Row], options: Options) -> str:
    """Lines for /etc/hosts (hosts(5)): address, id, and with a domain the full name."""
    return "".join([f"{row.address}\t{' '.join(_names(row, options))}\n" for row in _reachable(fleet)])


def _names(row: Row, options: Options) -> list[str]:
    return [row.id, f"{row.id}.{options.domain}"] if options.domain else [row.id]


def ansible(fleet: Iterable[Row], options: Options) -> str:
    """An Ansible inventory in YAML, with groups by group, hardware, kind and rack.

    The variables are those of community.general.redfish_*: baseuri, username, password. Without passwords, password is
    a variable of the kind: bmcsim_host_password.
    """
    every: dict[str, dict[str, Any]] = {}
    groups: dict[str, dict[str, Any]] = {}
    for row in _reachable(fleet):
        every[row.id] = {
            "baseuri": f"{row.address}:{options.port}",
            "username": row.user,
            "password": _literal(row.password) if options.with_passwords else f"{{{{ bmcsim_{row.kind}_password }}}}",
            "bmc_kind": row.kind,
            "bmc_mac": row.mac,
            "bmc_serial": row.serial,
        }
        if row.system:
            every[row.id]["resource_id"] = row.system.rpartition("/")[2]
        for what in ("group", "hardware", "kind", "rack"):
            if value := getattr(row, what):
                groups.setdefault(_identifier(f"{what}_{value}"), {"hosts": {}})["hosts"][row.id] = {}
    connection = {"ansible_connection": "local"}
    return _yaml([{"all": {"vars": connection, "hosts": every, "children": groups}}])


def _literal(text: str) -> str:
    """A text that Ansible takes as it is."""
    return f"{{% raw %}}{text}{{% endraw %}}" if "{{" in text or "{%" in text or "{#" in text else text


def _identifier(text: str) -> str:
    """A name of a group: letters, digits and underscores."""
    return re.sub(r"\W", "_", text, flags=re.ASCII)


def prometheus(fleet: Iterable[Row], options: Options) -> str:
    """Targets for file_sd and http_sd of Prometheus, JSON: one for each BMC, labelled with what it is."""
    targets = [
        {
            "targets": [f"{row.address}:{options.port}"],
            "labels": {
                name: value
                for name, value in {
                    "bmc": row.id,
                    "group": row.group,
                    "hardware": row.hardware,
                    "kind": row.kind,
                    "rack": row.rack,
                }.items()
                if value
            },
        }
        for row in _reachable(fleet)
    ]
    return _json(targets)


def baremetalhost(fleet: Iterable[Row], options: Options) -> str:
    """Manifests of Metal3 (metal3.io/v1alpha1), YAML: a BareMetalHost for each host, with passwords a Secret too."""
    manifests: list[Any] = []
    for row in _bootable(fleet):
        name = re.sub(r"[^a-z0-9.-]", "-", row.id.lower())
        secret = f"{name}-bmc"
        if options.with_passwords:
            manifests.append(
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": secret},
                    "type": "Opaque",
                    "stringData": {"username": row.user, "password": row.password},
                }
            )
        manifests.append(
            {
                "apiVersion": "metal3.io/v1alpha1",
                "kind": "BareMetalHost",
                "metadata": {"name": name},
                "spec": {
                    "online": True,
                    "bootMACAddress": row.boot_macs[0],
                    "bmc": {
                        "address": f"redfish-virtualmedia+{_root(row, options)}{row.system}",
                        "credentialsName": secret,
                        "disableCertificateVerification": True,
                    },
                },
            }
        )
    return _yaml(manifests)


def ironic(fleet: Iterable[Row], options: Options) -> str:
    """Nodes for `openstack baremetal create`, JSON: each host, with a port for each interface that it boots from."""
    nodes = []
    for row in _bootable(fleet):
        info: dict[str, Any] = {
            "redfish_address": _root(row, options),
            "redfish_system_id": row.system,
            "redfish_username": row.user,
            "redfish_verify_ca": False,
        }
        if options.with_passwords:
            info["redfish_password"] = row.password
        nodes.append(
            {
                "name": row.id,
                "driver": "redfish",
                "driver_info": info,
                "ports": [{"address": mac} for mac in row.boot_macs],
            }
        )
    return _json({"nodes": nodes})


def _bootable(fleet: Iterable[Row]) -> Iterator[Row]:
    """The machines that a provisioner installs."""
    return (row for row in _reachable(fleet) if row.kind == Kind.HOST)


def _reachable(fleet: Iterable[Row]) -> Iterator[Row]:
    """The BMCs that have an address."""
    return (row for row in fleet if row.address)


def _root(row: Row, options: Options) -> str:
    return f"{options.scheme}://{row.address}:{options.port}"


def table(fleet: Iterable[Row], options: Options) -> str:
    """CSV (RFC 4180) with a header."""
    columns = ["id", "kind", "group", "hardware", "rack", "address", "port", "mac", "serial", "parent", "user"]
    if options.with_passwords:
        columns.append("password")
    if options.domain:
        columns.append("name")
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore")
    writer.writeheader()
    for row in fleet:
        name = f"{row.id}.{options.domain}"
        writer.writerow({**msgspec.structs.asdict(row), "port": options.port, "name": name})
    return out.getvalue()


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def _yaml(documents: list[Any]) -> str:
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump_all(documents, Dumper=dumper, sort_keys=False, explicit_start=len(documents) > 1))


FORMATS: Mapping[str, Callable[[Iterable[Row], Options], str]] = {
    "hosts": hosts,
    "ansible": ansible,
    "prometheus-sd": prometheus,
    "baremetalhost": baremetalhost,
    "ironic": ironic,
    "csv": table,
}
