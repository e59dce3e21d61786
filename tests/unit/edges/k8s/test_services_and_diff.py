"""The pure parts: what there should be, what there is, and what has to be done."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.edges.k8s.diff import Plan, plan
from bmcsim.edges.k8s.objects import OwnerReference, Service
from bmcsim.edges.k8s.services import (
    ANNOTATIONS,
    LABELS,
    MANAGED_BY,
    MANAGER,
    STATES,
    Device,
    Digest,
    Digester,
    Endpoint,
    Endpoints,
    MachinesStatus,
    Settings,
    Source,
    Spec,
    Wanted,
    candidates,
    combine,
    created,
    foreign,
    patched,
    patched_states,
    service_name,
)
from bmcsim.fleet import devices as devices_of
from tests.k8s_api import _merge, device

OWNER = OwnerReference("apps/v1", "Deployment", "mat", "uid-1")
SOURCE = Source({"app": "mat", "pod": "0"}, OWNER)
STATEFUL = Settings(states=True)


def devices(*given: dict[str, Any]) -> list[Device]:
    return msgspec.convert(list(given), list[Device])


def wanted(*given: dict[str, Any], source: Source = SOURCE, settings: Settings = Settings()) -> Wanted:  # noqa: B008
    return combine(candidates(devices(*given), source, settings))


class Cluster:
    """Services as an API server has them, without the server."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 0
        self.digester = Digester()

    def digests(self) -> dict[str, Digest]:
        ours = {name: one for name, one in self.objects.items() if one["metadata"]["labels"].get(MANAGED_BY) == MANAGER}
        return {name: self.digester(msgspec.convert(one, Service)) for name, one in ours.items()}

    def store(self, body: dict[str, Any]) -> None:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        body["spec"].setdefault("clusterIP", f"10.96.{self.version >> 8 & 255}.{self.version & 255}")
        self.objects[body["metadata"]["name"]] = body

    def create(self, spec: Spec, kept: dict[str, Any] | None = None) -> None:
        assert spec.name not in self.objects
        meta = kept["metadata"] if kept else {}
        self.store(created(spec, "ns", meta.get("labels", {}), meta.get("annotations", {})))

    def patch(self, spec: Spec, states: bool = False) -> None:
        digest = self.digests()[spec.name]
        patch = patched_states(spec, digest) if states else patched(spec, digest)
        self.store(_merge(self.objects[spec.name], patch))

    def apply(self, todo: Plan, fails: Any = lambda: False) -> None:
        """fails: whether the next call does."""
        for name in todo.deletes:
            if not fails():
                del self.objects[name]
        for spec in todo.recreates:
            if not fails():
                old = self.objects.pop(spec.name)
                self.create(spec, old)
        for spec in todo.creates:
            if not fails() and spec.name not in self.objects:
                self.create(spec)
        for spec in todo.patches:
            if not fails():
                self.patch(spec)
        for spec in todo.states:
            if not fails():
                self.patch(spec, states=True)


@pytest.mark.parametrize(
    ("prefix", "mat_id", "name"),
    [
        ("mat-bmc-host", "12345678-1234-1234-1234-123456789abc", "mat-bmc-host-12345678-123-0cdd56f0"),
        ("mat-bmc-dpu", "short-id", "mat-bmc-dpu-short-id"),
        ("mat-nvos", "123456789012", "mat-nvos-123456789012"),
    ],
)
def test_names(prefix: str, mat_id: str, name: str) -> None:
    assert service_name(prefix, mat_id) == name


def test_names_of_ids_that_begin_alike_differ() -> None:
    names = {service_name("mat-bmc-host", f"12345678-1234-1234-1234-{number:012x}") for number in range(5000)}
    assert len(names) == 5000


def test_nothing_without_an_address() -> None:
    found = wanted(device(1, None, dpus=1), device(5, "", device_kind="switch"), device(9, "10.0.0.1"))
    assert next(iter(found.specs.values())).ip == "10.0.0.1"
    assert (len(found.specs), len(found.held)) == (1, 4)


def test_an_address_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="must be an IP address, not 'x'"):
        wanted(device(1, None, bmc={"ip": "x", "redfish": {"reachable_port": 443, "listen_port": 1}}))


def test_a_switch_has_two_services_and_a_shelf_one() -> None:
    found = wanted(
        device(1, "10.0.0.1", device_kind="switch", nvos_ip="10.1.0.1", machine_id="m"),
        device(2, "10.0.0.2", device_kind="power_shelf", nvos_ip="10.1.0.2"),
    )
    assert sorted((spec.type, spec.ip) for spec in found.specs.values()) == [
        ("host", "10.0.0.1"),
        ("host", "10.0.0.2"),
        ("nvos", "10.1.0.1"),
    ]
    nvos = next(spec for spec in found.specs.values() if spec.type == "nvos")
    assert nvos.annotations["nvidia-infra-controller/mat-nvos-ip"] == "10.1.0.1"
    assert "nvidia-infra-controller/mat-bmc-ip" not in nvos.annotations
    assert "nvidia-infra-controller/mat-machine-id" not in nvos.labels


def test_what_bmcsim_says_is_understood() -> None:
    bmc = devices_of.Endpoints(ip="10.0.0.1", redfish=devices_of.Endpoint(443, 1266))
    said = devices_of.DeviceStatus(
        mat_id="a", device_kind="switch", device_id="a", hardware_type="h", mat_state="m", api_state="Unknown",
        power_state="On", nvos_ip="10.1.0.1", bmc=bmc, dpus=[],
    )  # fmt: skip
    document = msgspec.json.encode({"inventory_id": "mat-1", "generation": 1, "machines": [said]})
    (read,) = msgspec.json.decode(document, type=MachinesStatus).machines
    assert read == Device(
        "a", Endpoints(Endpoint(443, 1266), "10.0.0.1"), "switch", None, "h", "Unknown", "On", "10.1.0.1"
    )


CHANGES: list[tuple[str, Any, str]] = [
    ("nothing", lambda one: None, ""),
    ("port", lambda one: one["spec"]["ports"][0].update(targetPort=9), "patches"),
    ("port name", lambda one: one["spec"]["ports"][0].update(name="x"), "patches"),
    ("protocol", lambda one: one["spec"]["ports"][0].update(protocol="UDP"), "patches"),
    ("another port", lambda one: one["spec"]["ports"].append({"name": "y", "port": 1}), "patches"),
    ("what the server fills in", lambda one: one["spec"]["ports"][0].update(nodePort=0), ""),
    ("selector", lambda one: one["spec"]["selector"].update(more="1"), "patches"),
    ("external", lambda one: one["spec"].update(externalIPs=["10.9.9.9"]), "patches"),
    ("no external", lambda one: one["spec"].pop("externalIPs"), "patches"),
    ("our label", lambda one: one["metadata"]["labels"].update({LABELS[2]: "x"}), "patches"),
    ("a stale label", lambda one: one["metadata"]["labels"].update({LABELS[1]: "x"}), "patches"),
    ("their label", lambda one: one["metadata"]["labels"].update(team="x"), ""),
    ("our annotation", lambda one: one["metadata"]["annotations"].update({ANNOTATIONS[3]: "1"}), "patches"),
    ("a stale annotation", lambda one: one["metadata"]["annotations"].update({ANNOTATIONS[1]: "1"}), "patches"),
    ("their annotation", lambda one: one["metadata"]["annotations"].update(note="x"), ""),
    ("a state", lambda one: one["metadata"]["annotations"].update({STATES[0]: "x"}), "states"),
    ("no owner", lambda one: one["metadata"].pop("ownerReferences"), "patches"),
    ("another owner", lambda one: one["metadata"]["ownerReferences"][0].update(uid="uid-2"), "patches"),
    ("cluster IP of another BMC", lambda one: one["spec"].update(clusterIP="10.0.0.2"), "recreates"),
    (
        "the older layout",
        lambda one: (one["spec"].pop("externalIPs"), one["spec"].update(clusterIP="10.0.0.1")),
        "recreates",
    ),
    (
        "the older layout at another address",
        lambda one: (
            one["spec"].pop("externalIPs"),
            one["spec"].update(clusterIP="10.0.0.77"),
            one["metadata"]["annotations"].update({ANNOTATIONS[0]: "10.0.0.77"}),
        ),
        "recreates",
    ),
    ("on its way out", lambda one: one["metadata"].update(deletionTimestamp="2026-11-30T00:00:00Z"), ""),
    ("not ours", lambda one: one["metadata"]["labels"].update({MANAGED_BY: "helm"}), "creates"),
]


@pytest.mark.parametrize(("change", "expected"), [case[1:] for case in CHANGES], ids=[case[0] for case in CHANGES])
def test_what_a_difference_leads_to(change: Any, expected: str) -> None:
    cluster, both = Cluster(), wanted(device(1, "10.0.0.1"), device(2, "10.0.0.2"))
    cluster.apply(plan({}, both))
    assert plan(cluster.digests(), both, states_budget=9).empty
    first = next(iter(cluster.objects.values()))
    change(first)
    todo = plan(cluster.digests(), both, states_budget=9)
    done = {field: len(getattr(todo, field)) for field in ("deletes", "recreates", "creates", "patches", "states")}
    assert {field: count for field, count in done.items() if count} == ({expected: 1} if expected else {})


def test_what_is_not_wanted_is_deleted_but_not_while_somebody_is_missing() -> None:
    cluster = Cluster()
    cluster.apply(plan({}, wanted(device(1, "10.0.0.1"), device(2, "10.0.0.2"))))
    todo = plan(cluster.digests(), wanted(device(1, "10.0.0.1")))
    assert len(todo.deletes) == 1
    todo = plan(cluster.digests(), wanted(device(1, "10.0.0.1")), partial=True)
    assert (todo.deletes, todo.skipped) == ([], 1)
    for one in cluster.objects.values():
        one["metadata"]["deletionTimestamp"] = "2026-11-30T00:00:00Z"
    todo = plan(cluster.digests(), wanted(device(1, "10.0.0.1")))
    assert (todo.empty, todo.waiting) == (True, 2)


def test_of_two_that_kept_one_lost_address_one_goes() -> None:
    cluster = Cluster()
    # The first was not deleted when the second got its address, and then the second lost it as well.
    cluster.apply(plan({}, wanted(device(1, "10.0.0.1"))))
    (old,) = cluster.objects
    cluster.apply(plan({}, wanted(device(2, "10.0.0.1"))))
    todo = plan(cluster.digests(), wanted(device(1, None), device(2, None)))
    assert todo.deletes == [max(cluster.objects)]
    cluster.apply(todo)
    assert list(cluster.objects) == [old]
    assert plan(cluster.digests(), wanted(device(1, None), device(2, None))).empty


def test_what_others_have_is_kept_by_a_patch_and_by_a_recreation() -> None:
    cluster = Cluster()
    cluster.apply(plan({}, wanted(device(1, "10.0.0.1"))))
    (one,) = cluster.objects.values()
    one["metadata"]["labels"]["team"] = one["metadata"]["annotations"]["note"] = "x"
    one["metadata"]["finalizers"] = ["a/b"]
    cluster.apply(plan(cluster.digests(), wanted(device(1, "10.0.0.9"))))
    (one,) = cluster.objects.values()
    assert (one["metadata"]["labels"]["team"], one["metadata"]["annotations"]["note"]) == ("x", "x")
    assert one["metadata"]["finalizers"] == ["a/b"]
    old = Settings("cluster-ip")
    cluster.apply(plan(cluster.digests(), wanted(device(1, "10.0.0.9"), settings=old)))
    (one,) = cluster.objects.values()
    assert (one["metadata"]["labels"]["team"], one["spec"]["clusterIP"]) == ("x", "10.0.0.9")


def test_states_go_on_where_the_last_plan_ended() -> None:
    cluster, names = Cluster(), []
    on = [device(number, f"10.0.0.{number}") for number in range(1, 8)]
    cluster.apply(plan({}, wanted(*on, settings=STATEFUL)))
    off = wanted(*[{**one, "power_state": "Off"} for one in on], settings=STATEFUL)
    after = ""
    for _ in range(4):
        todo = plan(cluster.digests(), off, states_budget=2, after=after)
        after = todo.after
        names += [spec.name for spec in todo.states]
    # Nothing was applied, so the seven come round again.
    assert names == [*sorted(off.specs), min(off.specs)]
    assert plan(cluster.digests(), off, states_budget=0).states == []


# anything

numbers = st.integers(1, 6)
machines = st.builds(
    lambda number, ip, kind, state, nvos: device(
        number * 10,
        f"10.0.0.{ip}" if ip else None,
        dpus=number % 3 if ip else 0,
        device_kind=kind,
        power_state=state,
        nvos_ip=f"10.1.0.{nvos}" if nvos else None,
    ),
    numbers,
    st.sampled_from([0, 10, 20, 30, 40]),
    st.sampled_from(["machine", "switch", "power_shelf"]),
    st.sampled_from(["On", "Off"]),
    st.integers(0, 2),
)
fleets = st.lists(machines, max_size=5)
how = st.builds(Settings, st.sampled_from(["external-ips", "cluster-ip"]), st.booleans())
owners = st.sampled_from([OWNER, "", None])


def foreign_object(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"app": "x"}}, "spec": {"ports": [{"port": 1}]}}


@settings(max_examples=300, deadline=None)
@given(before=fleets, after=fleets, first=how, second=how, owner=owners, kept=st.booleans())
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(
    before: list[Any], after: list[Any], first: Settings, second: Settings, owner: Any, kept: bool
) -> None:
    cluster = Cluster()
    cluster.store(foreign_object("mat-bmc-host-of-somebody"))
    cluster.apply(plan({}, wanted(*before, settings=first)))
    for one in cluster.objects.values():
        one["metadata"]["labels"]["team"] = "x"
    names = set(cluster.objects)
    target = wanted(*after, source=Source({"app": "mat"} if kept else {"app": "y", "z": "1"}, owner), settings=second)
    cluster.apply(plan(cluster.digests(), target, states_budget=99))
    again = plan(cluster.digests(), target, states_budget=99)
    assert again.empty, again
    assert cluster.objects["mat-bmc-host-of-somebody"]["metadata"]["labels"] == {"app": "x", "team": "x"}
    assert target.specs.keys() <= cluster.objects.keys()
    for name, spec in target.specs.items():
        one = cluster.objects[name]
        external = [spec.ip] if second.addressing == "external-ips" else []
        assert (one["spec"].get("externalIPs") or []) == external
        assert external or one["spec"]["clusterIP"] == spec.ip
        assert {key: value for key, value in one["metadata"]["labels"].items() if key in LABELS} == spec.labels
        assert foreign(one["metadata"]["labels"], LABELS) == ({"team": "x"} if name in names else {})
    published = [spec.ip for spec in target.specs.values()]
    assert len(published) == len(set(published))


@settings(max_examples=200, deadline=None)
@given(fleets=st.lists(fleets, min_size=1, max_size=4), failures=st.lists(st.booleans(), max_size=60), mode=how)
def test_whatever_fails_in_between_it_converges(fleets: list[Any], failures: list[bool], mode: Settings) -> None:
    cluster, pending = Cluster(), list(failures)
    for fleet in fleets:
        cluster.apply(
            plan(cluster.digests(), wanted(*fleet, settings=mode), states_budget=2),
            lambda: bool(pending) and pending.pop(),
        )
    target = wanted(*fleets[-1], settings=mode)
    cluster.apply(plan(cluster.digests(), target, states_budget=99))
    assert plan(cluster.digests(), target, states_budget=99).empty
    held = {name for name in cluster.objects if name not in target.specs}
    assert held <= target.held
    addresses = [digest.ip for digest in cluster.digests().values()]
    assert len(addresses) == len(set(addresses))


@given(fleets, how)
def test_while_somebody_is_missing_nothing_is_deleted(fleet: list[Any], mode: Settings) -> None:
    cluster = Cluster()
    cluster.apply(plan({}, wanted(*fleet, settings=mode)))
    names = set(cluster.objects)
    cluster.apply(plan(cluster.digests(), wanted(settings=mode), partial=True))
    assert set(cluster.objects) == names
