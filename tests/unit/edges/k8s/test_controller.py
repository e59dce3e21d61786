import asyncio
import random
from collections.abc import Iterable
from typing import Any

import pytest

from bmcsim.edges.k8s.api import ApiError
from bmcsim.edges.k8s.controller import NotLeading, Options
from tests.k8s_api import Dropped, FakeKube, Refusal, device
from tests.unit.edges.k8s.conftest import LOCAL, controller_of, world

PREFIX = "nvidia-infra-controller/"


def shown(kube: FakeKube) -> list[list[str]]:
    return sorted(kube.published().values())


async def test_a_service_is_as_mat_k8s_controller_makes_it() -> None:
    async with world() as here:
        bmc = {
            "ip": "10.200.0.5",
            "redfish": {"reachable_port": 443, "listen_port": 1266},
            "ipmi": {"reachable_port": 16230, "listen_port": 16230},
            "ssh": {"reachable_port": 22, "listen_port": 2222},
        }
        here.pod.machines = [
            device(1, "10.200.0.5", mat_id="12345678-1234-1234-1234-123456789abc", machine_id="fm100h", bmc=bmc)
        ]
        result = await here.controller.one_pass()
        assert (result.done, result.settled) == ({"created": 1}, True)
        (service,) = here.kube.managed().values()
        metadata, spec = service["metadata"], service["spec"]
        assert metadata["name"] == "mat-bmc-host-12345678-123-0cdd56f0"
        assert metadata["labels"] == {
            "app.kubernetes.io/managed-by": "mat-k8s-controller",
            f"{PREFIX}mat-id": "12345678-1234-1234-1234-123456789abc",
            f"{PREFIX}mat-machine-type": "host",
            f"{PREFIX}mat-machine-id": "fm100h",
        }
        assert metadata["annotations"] == {
            f"{PREFIX}mat-bmc-ip": "10.200.0.5",
            f"{PREFIX}mat-hardware-type": "dell_poweredge_r750",
            f"{PREFIX}mat-redfish-listen-port": "1266",
            f"{PREFIX}mat-ipmi-listen-port": "16230",
            f"{PREFIX}mat-ssh-listen-port": "2222",
        }
        name, uid = "nico-machine-a-tron-mat-0", "uid-of-nico-machine-a-tron-mat-0"
        assert metadata["ownerReferences"] == [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid}
        ]
        assert (spec["type"], spec["externalIPs"]) == ("ClusterIP", ["10.200.0.5"])
        assert spec["selector"] == {"app.kubernetes.io/name": "nico-machine-a-tron", f"{PREFIX}pod-name": "mat-0"}
        assert [(port["name"], port["protocol"], port["port"], port["targetPort"]) for port in spec["ports"]] == [
            ("redfish", "TCP", 443, 1266),
            ("ipmi", "UDP", 16230, 16230),
            ("ssh", "TCP", 22, 2222),
        ]


async def test_hosts_dpus_and_nvos_have_services_and_a_second_pass_writes_nothing() -> None:
    async with world("mat-0", "mat-1") as here:
        here.pods[0].machines = [device(1, "10.200.0.1", dpus=2), device(10, None, dpus=1)]
        here.pods[1].machines = [device(20, "10.200.1.1", device_kind="switch", nvos_ip="10.201.0.9")]
        await here.controller.one_pass()
        assert shown(here.kube) == [["10.200.0.1"], ["10.200.0.2"], ["10.200.0.3"], ["10.200.1.1"], ["10.201.0.9"]]
        types = sorted(one["metadata"]["labels"][f"{PREFIX}mat-machine-type"] for one in here.kube.managed().values())
        assert types == ["dpu", "dpu", "host", "host", "nvos"]
        (nvos,) = [one for name, one in here.kube.managed().items() if name.startswith("mat-nvos-")]
        assert nvos["spec"]["ports"] == [{"name": "nmxc", "port": 9370, "protocol": "TCP", "targetPort": 1266}]
        (host,) = [one for one in here.kube.managed().values() if one["spec"]["externalIPs"] == ["10.200.0.1"]]
        dpus = [one for name, one in here.kube.managed().items() if name.startswith("mat-bmc-dpu-")]
        parent = host["metadata"]["labels"][f"{PREFIX}mat-id"]
        assert {one["metadata"]["labels"][f"{PREFIX}mat-parent-id"] for one in dpus} == {parent}

        await here.quiet()
        here.kube.writes.clear()
        lists = here.kube.asked["list services"]
        for _ in range(3):
            assert (await here.controller.one_pass()).settled
        assert here.kube.writes == []
        assert here.kube.asked["list services"] == lists
        assert [pod.asked for pod in here.pods] == [{200: 1, 304: 3}, {200: 1, 304: 3}]


async def test_another_address_is_a_patch_and_the_cluster_ip_stays() -> None:
    async with world() as here:
        here.pod.machines = [device(1, "10.200.0.1"), device(2, "10.200.0.2")]
        await here.controller.one_pass()
        before = {name: one["spec"]["clusterIP"] for name, one in here.kube.managed().items()}
        here.kube.writes.clear()
        here.pod.machines[0]["bmc"]["ip"] = "10.200.0.9"
        assert (await here.controller.one_pass()).done == {"patched": 1}
        assert shown(here.kube) == [["10.200.0.2"], ["10.200.0.9"]]
        assert {name: one["spec"]["clusterIP"] for name, one in here.kube.managed().items()} == before
        assert [verb for verb, _ in here.kube.writes] == ["patch"]


async def test_what_others_added_stays_and_what_is_ours_and_stale_goes() -> None:
    async with world() as here:
        here.pod.machines = [device(1, "10.200.0.1", machine_id="fm1")]
        await here.controller.one_pass()
        (name,) = here.kube.managed()
        theirs = {"metadata": {"labels": {"team": "x", f"{PREFIX}mat-parent-id": "old"}, "annotations": {"note": "y"}}}
        old = here.kube.services[name]
        for part, values in theirs["metadata"].items():
            old["metadata"][part] = {**old["metadata"][part], **values}
        old["spec"]["selector"]["stale"] = "yes"
        here.kube.put(name, old)
        await here.quiet()
        assert (await here.controller.one_pass()).done == {"patched": 1}
        one = here.kube.services[name]
        assert one["metadata"]["labels"]["team"] == "x"
        assert one["metadata"]["annotations"]["note"] == "y"
        assert f"{PREFIX}mat-parent-id" not in one["metadata"]["labels"]
        assert "stale" not in one["spec"]["selector"]
        here.pod.machines[0]["machine_id"] = None
        await here.controller.one_pass()
        assert f"{PREFIX}mat-machine-id" not in here.kube.services[name]["metadata"]["labels"]
        assert here.kube.services[name]["metadata"]["labels"]["team"] == "x"


async def test_no_simulator_touches_nothing() -> None:
    async with world() as here:
        here.pod.machines = [device(1, "10.200.0.1")]
        await here.controller.one_pass()
        here.pod.unregister()
        while here.controller.instances.items:
            await asyncio.sleep(0.005)
        here.kube.writes.clear()
        assert (await here.controller.one_pass()).instances == 0
        assert here.kube.writes == []
        assert shown(here.kube) == [["10.200.0.1"]]


async def test_a_simulator_that_is_gone_takes_its_services_with_it() -> None:
    async with world("mat-0", "mat-1") as here:
        here.pods[0].machines, here.pods[1].machines = [device(1, "10.200.0.1")], [device(2, "10.200.0.2")]
        await here.controller.one_pass()
        here.pods[1].unregister()
        while len(here.controller.instances.items) == 2:
            await asyncio.sleep(0.005)
        assert (await here.controller.one_pass()).done == {"deleted": 1}
        assert shown(here.kube) == [["10.200.0.1"]]


@pytest.mark.parametrize("refused", [(500, b""), (0, b"{}{}"), (0, b'{"machines":[{"mat_id":1}]}'), (-1, b"")])
async def test_what_cannot_be_read_is_a_failure_of_that_simulator_alone(refused: tuple[int, bytes]) -> None:
    async with world("mat-0", "mat-1") as here:
        here.pods[0].machines, here.pods[1].machines = [device(1, "10.200.0.1")], [device(2, "10.200.0.2")]
        here.pods[1].fails, here.pods[1].raw = refused[0], refused[1] or None
        result = await here.controller.one_pass()
        assert (result.done, result.errors) == ({"created": 1}, 1)


async def test_a_status_that_is_too_large_is_not_read() -> None:
    async with world() as here:
        here.pod.raw = b'{"machines":[]' + b" " * (10 * 1024 * 1024 + 1) + b"}"
        assert (await here.controller.one_pass()).errors == 1
        here.pod.raw = b'{"machines":[]' + b" " * (10 * 1024 * 1024 - 15) + b"}"
        assert (await here.controller.one_pass()).errors == 0


async def test_two_with_one_address_and_two_with_one_name() -> None:
    async with world("mat-0", "mat-1") as here:
        here.pods[0].machines = [device(1, "10.200.0.1"), device(2, "10.200.0.1")]
        here.pods[1].machines = [device(1, "10.200.0.7")]
        result = await here.controller.one_pass()
        assert shown(here.kube) == [["10.200.0.1"]]
        assert result.errors == 1
        await here.quiet()
        here.kube.writes.clear()
        await here.controller.one_pass()
        assert here.kube.writes == []


async def test_a_device_that_lost_its_address_keeps_its_service_until_another_has_it() -> None:
    async with world() as here:
        here.pod.machines = [device(1, "10.200.0.1")]
        await here.controller.one_pass()
        here.pod.machines = [device(1, None)]
        assert (await here.controller.one_pass()).done == {}
        assert shown(here.kube) == [["10.200.0.1"]]
        here.pod.machines = [device(1, None), device(2, "10.200.0.1")]
        assert (await here.controller.one_pass()).done == {"deleted": 1, "created": 1}
        assert [one["metadata"]["labels"][f"{PREFIX}mat-id"][:8] for one in here.kube.managed().values()] == [
            "00000002"
        ]


async def test_somebody_elses_service_of_the_name_is_left_alone() -> None:
    async with world() as here:
        here.pod.machines = [device(1, "10.200.0.1")]
        await here.controller.one_pass()
        (name,) = here.kube.managed()
        here.kube.drop(name)
        theirs = {"metadata": {"labels": {"app": "theirs"}}, "spec": {"ports": [{"name": "x", "port": 1}]}}
        here.kube.put(name, theirs)
        await here.quiet()
        here.kube.writes.clear()
        for machines in (here.pod.machines, []):
            here.pod.machines = machines
            await here.controller.one_pass()
        assert here.kube.writes == []
        assert here.kube.services[name]["metadata"]["labels"] == {"app": "theirs"}


async def test_one_of_ours_that_lost_our_label_is_adopted() -> None:
    async with world() as here:
        here.pod.machines = [device(1, "10.200.0.1")]
        await here.controller.one_pass()
        (name,) = here.kube.managed()
        here.kube.edit(name, **{"app.kubernetes.io/managed-by": None})
        await here.quiet()
        assert (await here.controller.one_pass()).settled
        assert list(here.kube.managed()) == [name]
        assert ("delete", name) not in here.kube.writes


async def test_a_service_that_somebody_takes_while_it_is_deleted_stays() -> None:
    async with world() as here:
        here.pod.machines = [device(1, "10.200.0.1"), device(2, "10.200.0.2")]
        await here.controller.one_pass()
        name = next(iter(here.kube.managed()))

        async def take(verb: str, _name: str) -> None:
            if verb == "delete" and name in here.kube.managed():
                here.kube.edit(name, **{"app.kubernetes.io/managed-by": "somebody"})

        here.kube.before = take
        here.pod.machines = [device(2, "10.200.0.2")]
        await here.controller.one_pass()
        assert name in here.kube.services
        assert ("delete", name) not in here.kube.writes


async def test_a_conflict_is_read_again_and_settled() -> None:
    async with world() as here:
        here.pod.machines = [device(1, "10.200.0.1")]
        await here.controller.one_pass()
        (name,) = here.kube.managed()
        left = [2]

        async def meddle(verb: str, _name: str) -> None:
            if verb == "patch" and left[0]:
                left[0] -= 1
                here.kube.edit(name, meddled=str(left[0]))

        here.kube.before = meddle
        here.pod.machines = [device(1, "10.200.0.9")]
        assert (await here.controller.one_pass()).done == {"patched": 1}
        assert here.kube.services[name]["spec"]["externalIPs"] == ["10.200.0.9"]
        assert here.kube.services[name]["metadata"]["labels"]["meddled"] == "0"


async def test_too_many_requests_waits_as_long_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as here:
        here.pod.machines = [device(number, f"10.200.0.{number}") for number in range(1, 30)]
        pauses = list[float]()
        pause = here.api.bucket.pause
        monkeypatch.setattr(here.api.bucket, "pause", lambda seconds: (pauses.append(seconds), pause(0.01)))
        refused = set[str]()

        async def busy(verb: str, name: str) -> None:
            if verb == "create" and name not in refused:
                refused.add(name)
                raise Refusal(429, "TooManyRequests", retry_after="7")

        here.kube.before = busy
        assert (await here.controller.one_pass()).done == {"created": 29}
        assert pauses == [7.0] * 29


async def test_a_refused_object_is_counted_and_the_others_are_made() -> None:
    async with world() as here:
        here.pod.machines = [device(number, f"10.200.0.{number}") for number in range(1, 11)]

        async def admit(verb: str, name: str) -> None:
            if verb == "create" and "00000003" in name:
                raise Refusal(403, "Forbidden", 'admission webhook "no" denied the request')

        here.kube.before = admit
        result = await here.controller.one_pass()
        assert (result.done, result.errors) == ({"created": 9}, 1)
        here.kube.before = None
        assert (await here.controller.one_pass()).done == {"created": 1}


async def test_a_phase_of_which_everything_is_refused_is_given_up() -> None:
    async with world() as here:
        here.pod.machines = [device(number, f"10.200.1.{number}") for number in range(250)]

        async def refuse(verb: str, name: str) -> None:
            if verb == "create":
                raise Refusal(403, "Forbidden", "DenyServiceExternalIPs")

        here.kube.before = refuse
        result = await here.controller.one_pass()
        assert result.errors == 250
        assert 100 <= here.kube.asked["create services"] < 200


async def test_whoever_does_not_lead_stops_writing() -> None:
    async with world() as here:
        here.pod.machines = [device(number, f"10.200.0.{number}") for number in range(1, 200)]

        async def lose(verb: str, name: str) -> None:
            here.led[0] = len(here.kube.writes) < 20

        here.kube.before = lose
        with pytest.raises(NotLeading):
            await here.controller.one_pass()
        assert 20 <= len(here.kube.writes) < 80
        here.kube.before, here.led[0] = None, True
        await here.quiet()
        assert (await here.controller.one_pass()).settled
        assert len(here.kube.managed()) == 199
        assert len(here.kube.writes) == 199


@pytest.mark.parametrize("done", [True, False])
async def test_answers_that_are_lost_are_asked_for_again(done: bool) -> None:
    async with world() as here:
        here.pod.machines = [device(number, f"10.200.0.{number}") for number in range(1, 20)]
        await here.controller.one_pass()
        here.pod.machines = [device(number, f"10.200.1.{number}") for number in range(10, 30)]
        lost = set[tuple[str, str]]()

        async def lose(verb: str, name: str) -> None:
            if verb in ("create", "patch", "delete") and (verb, name) not in lost:
                lost.add((verb, name))
                raise Dropped(done=done)

        here.kube.before = lose
        first = await here.controller.one_pass()
        # aiohttp itself repeats a DELETE.
        assert (len(lost), first.done, first.errors) == (29, {"deleted": 9}, 20)
        for _ in range(3):
            await here.quiet()
            last = await here.controller.one_pass()
        assert last.settled
        assert shown(here.kube) == sorted([f"10.200.1.{number}"] for number in range(10, 30))


async def test_a_watch_that_ends_or_is_too_old_goes_on() -> None:
    async with world() as here:
        here.pod.machines = [device(number, f"10.200.0.{number}") for number in range(1, 6)]
        await here.controller.one_pass()
        names = list(here.kube.managed())
        lists = here.kube.asked["list services"]
        here.kube.end_watches()
        here.kube.drop(names[0])
        await here.quiet()
        assert here.kube.asked["list services"] == lists
        here.kube.end_watches()
        here.kube.drop(names[1])
        here.kube.forget_history()
        await here.quiet()
        assert here.kube.asked["list services"] > lists
        while len(here.kube._watchers) < 2:
            await asyncio.sleep(0.005)
        lists = here.kube.asked["list services"]
        here.kube.expire_watches()
        here.kube.drop(names[2])
        await here.quiet()
        assert here.kube.asked["list services"] > lists
        assert (await here.controller.one_pass()).done == {"created": 3}


async def test_a_bookmark_spares_a_list() -> None:
    async with world() as here:
        here.pod.machines = [device(1, "10.200.0.1")]
        await here.controller.one_pass()
        await here.quiet()
        lists = here.kube.asked["list services"]
        here.kube.forget_history()
        here.kube.bookmark()
        await asyncio.sleep(0.05)
        watches = here.kube.asked["watch services"]
        here.kube.end_watches()
        while here.kube.asked["watch services"] < watches + 2:
            await asyncio.sleep(0.01)
        here.kube.drop(next(iter(here.kube.managed())))
        await here.quiet()
        assert here.kube.asked["list services"] == lists


async def test_lists_are_read_in_pages() -> None:
    async with world() as here:
        here.pod.machines = [device(number, f"10.200.{number // 250}.{number % 250}") for number in range(1100)]
        await here.controller.one_pass()
        before = here.kube.asked["list services"]
        async with controller_of(here.kube, here.pods) as other:
            await other.quiet()
            assert len(other.controller.services.items) == 1100
            assert here.kube.asked["list services"] == before + 4
            here.kube.writes.clear()
            assert (await other.controller.one_pass()).settled
            assert here.kube.writes == []


async def test_without_a_list_there_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmcsim.edges.k8s.controller._SYNC_SECONDS", 0.05)
    async with world() as here:

        async def down(verb: str, name: str) -> None:
            raise Refusal(503, "ServiceUnavailable", "etcd is away")

        here.kube.before = down
        with pytest.raises(ApiError, match="etcd is away"):
            await here.controller.one_pass()


async def test_a_service_with_a_finalizer_is_waited_for() -> None:
    async with world() as here:
        here.pod.machines = [device(1, "10.200.0.1")]
        await here.controller.one_pass()
        (name,) = here.kube.managed()
        old = here.kube.services[name]
        old["metadata"]["finalizers"] = ["x/y"]
        here.kube.put(name, old)
        await here.quiet()
        here.pod.machines = []
        await here.controller.one_pass()
        await here.quiet()
        here.pod.machines = [device(1, "10.200.0.1")]
        result = await here.controller.one_pass()
        assert (result.done, result.left, result.settled) == ({}, 1, False)
        here.kube.drop(name)
        await here.quiet()
        assert (await here.controller.one_pass()).done == {"created": 1}


async def test_a_list_whose_pages_are_too_old_is_begun_again() -> None:
    async with world() as here:
        here.pod.machines = [device(number, f"10.200.{number // 250}.{number % 250}") for number in range(600)]
        await here.controller.one_pass()
        late = [True]

        async def forget(verb: str, name: str) -> None:
            if verb == "list" and late and here.kube._pages:
                late.clear()
                here.kube.forget_history()

        async with controller_of(here.kube, here.pods) as other:
            here.kube._pages.clear()
            here.kube.before = forget
            await other.quiet()
            assert not late
            assert len(other.controller.services.items) == 600


async def test_a_server_whose_versions_are_of_another_time_is_listed_again() -> None:
    async with world() as here:
        here.pod.machines = [device(1, "10.200.0.1"), device(2, "10.200.0.2")]
        await here.controller.one_pass()
        await here.quiet()
        # It was restored from a backup, with one Service less.
        here.kube._version = 10
        here.kube._events.clear()
        gone = next(iter(here.kube.managed()))
        del here.kube.services[gone]
        for one in here.kube.services.values():
            one["metadata"]["resourceVersion"] = "5"

        async def refuse(verb: str, name: str) -> None:
            if verb == "watch" and here.kube.asked["list services"] < 4:
                raise Refusal(504, "Timeout", "Too large resource version")

        here.kube.before = refuse
        here.kube.end_watches()
        await here.quiet()
        assert (await here.controller.one_pass()).done == {"created": 1}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("addressing", ["external-ips", "cluster-ip"])
async def test_whatever_happens_in_between_it_converges(seed: int, addressing: Any) -> None:
    """Refusals, lost answers, watches that end, changes and deletions by others, and fleets that change."""
    rng = random.Random(seed)
    theirs = {"metadata": {"labels": {"app": "theirs"}}, "spec": {"ports": [{"name": "x", "port": 1}]}}
    async with world("mat-0", "mat-1", options=LOCAL._replace(addressing=addressing, states=True)) as here:
        here.kube.put("mat-bmc-host-00000001-000-theirs", theirs)
        names = lambda: [name for name in here.kube.managed() if "theirs" not in name]  # noqa: E731

        async def trouble(verb: str, name: str) -> None:
            dice = rng.random()
            if dice < 0.10:
                raise Refusal(rng.choice([403, 409, 422, 500, 503]), "Trouble")
            if dice < 0.20 and verb != "list":
                raise Dropped(done=rng.random() < 0.5)
            if dice < 0.25:
                raise Refusal(429, "TooManyRequests", retry_after="0")
            if dice < 0.35 and (those := names()):
                here.kube.edit(rng.choice(those), team=str(rng.random()))
            elif dice < 0.40 and (those := names()):
                here.kube.drop(rng.choice(those))
            elif dice < 0.45 and (those := names()):
                here.kube.edit(rng.choice(those), **{"app.kubernetes.io/managed-by": None})
            elif dice < 0.48:
                here.kube.end_watches()
            elif dice < 0.50:
                here.kube.expire_watches()

        here.kube.before = trouble
        for _ in range(6):
            for first, pod in enumerate(here.pods):
                pod.fails = rng.choice([0, 0, 0, 500])
                hosts = rng.sample(range(1, 12), rng.randint(0, 8))
                pod.machines = [
                    device(
                        first * 100 + number * 4,
                        rng.choice([None, f"10.96.{first}.{block * 4}"]),
                        dpus=rng.randint(0, 2),
                        power_state=rng.choice(["On", "Off"]),
                    )
                    for number, block in zip(hosts, rng.sample(range(1, 61), len(hosts)), strict=True)
                ]
            await here.controller.one_pass()
        here.kube.before = None
        for pod in here.pods:
            pod.fails = 0
        for _ in range(5):
            await here.quiet()
            last = await here.controller.one_pass()
        assert last.left == 0
        await here.quiet()
        here.kube.writes.clear()
        again = await here.controller.one_pass()
        assert again.deferred == 0
        assert here.kube.writes == []
        known = {one["bmc"]["ip"] for pod in here.pods for host in pod.machines for one in (host, *host["dpus"])} - {
            None
        }
        part = "externalIPs" if addressing == "external-ips" else "clusterIP"

        def addresses(services: Iterable[Any]) -> list[Any]:
            parts = [one["spec"].get(part) for one in services]
            return [one[0] if isinstance(one, list) else one for one in parts]

        managed = here.kube.managed()
        shown = addresses(managed.values())
        # A Service that somebody took over is left alone, even where it has the ClusterIP that a BMC needs.
        taken = addresses(one for name, one in here.kube.services.items() if name not in managed)
        missing = known - set(shown)
        assert missing <= (set(taken) if addressing == "cluster-ip" else set())
        assert again.errors == len(missing)
        assert len(shown) == len(set(shown))
        assert here.kube.services["mat-bmc-host-00000001-000-theirs"]["metadata"]["labels"] == {"app": "theirs"}


# the older layout

OLD = LOCAL._replace(addressing="cluster-ip")


async def test_cluster_ip_addressing_recreates_at_another_address() -> None:
    async with world(options=OLD) as here:
        here.pod.machines = [device(1, "10.96.64.1"), device(2, "10.96.64.2")]
        await here.controller.one_pass()
        assert sorted(one["spec"]["clusterIP"] for one in here.kube.managed().values()) == ["10.96.64.1", "10.96.64.2"]
        assert shown(here.kube) == [[], []]
        for name in here.kube.managed():
            here.kube.edit(name, team="x")
        await here.quiet()
        # They swap, so that either needs what the other still has.
        here.pod.machines = [device(1, "10.96.64.2"), device(2, "10.96.64.1")]
        for _ in range(3):
            last = await here.controller.one_pass()
            await here.quiet()
        assert last.settled
        addresses = {
            one["metadata"]["labels"][f"{PREFIX}mat-id"][7]: one["spec"]["clusterIP"]
            for one in here.kube.managed().values()
        }
        assert addresses == {"1": "10.96.64.2", "2": "10.96.64.1"}
        assert {one["metadata"]["labels"]["team"] for one in here.kube.managed().values()} == {"x"}


async def test_one_layout_becomes_the_other_once() -> None:
    async with world(options=OLD) as here:
        here.pod.machines = [device(1, "10.96.64.1"), device(2, "10.96.64.2")]
        await here.controller.one_pass()
        await here.quiet()
        async with controller_of(here.kube, here.pods) as new:
            assert (await new.controller.one_pass()).done == {"recreated": 2}
            assert shown(here.kube) == [["10.96.64.1"], ["10.96.64.2"]]
            assert not {one["spec"]["clusterIP"] for one in here.kube.managed().values()} & {"10.96.64.1", "10.96.64.2"}
            await new.quiet()
            here.kube.writes.clear()
            assert (await new.controller.one_pass()).settled
            assert here.kube.writes == []
        await here.quiet()
        assert (await here.controller.one_pass()).done == {"recreated": 2}


async def test_a_cluster_ip_that_is_a_bmcs_address_is_given_up() -> None:
    async with world() as here:
        here.pod.machines = [device(1, "10.200.0.1")]
        await here.controller.one_pass()
        (one,) = here.kube.managed().values()
        taken = one["spec"]["clusterIP"]
        here.pod.machines.append(device(2, taken))
        assert (await here.controller.one_pass()).done == {"recreated": 1, "created": 1}
        assert taken not in {one["spec"]["clusterIP"] for one in here.kube.managed().values()}


# states


async def test_states_are_written_a_few_at_a_time_and_in_turn() -> None:
    now = [0.0]
    options = LOCAL._replace(states=True, states_per_second=0.1)
    async with world(options=options) as here:
        here.controller._mono = lambda: now[0]
        here.pod.machines = [device(number, f"10.200.0.{number}") for number in range(1, 10)]
        await here.controller.one_pass()
        assert {one["metadata"]["annotations"][f"{PREFIX}mat-power-state"] for one in here.kube.managed().values()} == {
            "On"
        }
        for one in here.pod.machines:
            one["power_state"] = "Off"
        here.kube.writes.clear()
        deferred = []
        for _ in range(4):
            await here.quiet()
            now[0] += 30.0
            deferred.append((await here.controller.one_pass()).deferred)
        assert deferred == [6, 3, 0, 0]
        assert sorted(here.kube.writes) == sorted(("patch", name) for name in here.kube.managed())


async def test_states_are_no_matter_unless_asked_for() -> None:
    async with world() as here:
        here.pod.machines = [device(1, "10.200.0.1")]
        await here.controller.one_pass()
        await here.quiet()
        here.kube.writes.clear()
        here.pod.machines[0] |= {"power_state": "Off", "api_state": "Ready", "mat_state": "x"}
        assert (await here.controller.one_pass()).settled
        assert here.kube.writes == []


# others


async def test_a_statefulset_owns_and_its_own_selector_is_used() -> None:
    async with world("0", options=LOCAL._replace(target={})) as here:
        here.kube.apps.clear()
        here.kube.apps["statefulsets/nico-machine-a-tron"] = {"metadata": {"name": "nico-machine-a-tron", "uid": "s"}}
        here.pod.machines = [device(1, "10.200.0.1")]
        await here.controller.one_pass()
        (one,) = here.kube.managed().values()
        assert one["spec"]["selector"] == {"statefulset.kubernetes.io/pod-name": "nico-machine-a-tron-0"}
        (owner,) = one["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("StatefulSet", "nico-machine-a-tron", "s")


async def test_an_owner_that_cannot_be_read_leaves_owners_as_they_are() -> None:
    async with world() as here:
        here.pod.machines = [device(1, "10.200.0.1")]
        await here.controller.one_pass()
        async with controller_of(here.kube, here.pods) as other:

            async def forbid(verb: str, name: str) -> None:
                if name == "nico-machine-a-tron-mat-0":
                    raise Refusal(403, "Forbidden")

            here.kube.before = forbid
            here.kube.writes.clear()
            assert (await other.controller.one_pass()).done == {}
            here.pod.machines = [device(1, "10.200.0.2")]
            assert (await other.controller.one_pass()).done == {"patched": 1}
            (one,) = here.kube.managed().values()
            assert one["metadata"]["ownerReferences"][0]["uid"] == "uid-of-nico-machine-a-tron-mat-0"
            # A Deployment that is gone is another thing.
            here.kube.before = None
            here.kube.apps.clear()
            assert (await other.controller.one_pass()).done == {"patched": 1}
            (one,) = here.kube.managed().values()
            assert "ownerReferences" not in one["metadata"]


async def test_a_dry_run_says_everything_and_does_nothing() -> None:
    async with world() as here:
        here.pod.machines = [device(1, "10.200.0.1"), device(2, "10.200.0.2")]
        await here.controller.one_pass()
        here.kube.writes.clear()
        said = list[str]()
        async with controller_of(here.kube, here.pods, LOCAL._replace(dry_run=said.append)) as dry:
            here.pod.machines = [device(2, "10.200.0.9"), device(3, "10.200.0.3")]
            await dry.controller.one_pass()
            assert [line.split()[0] for line in said] == ["delete", "create", "patch"]
            assert [line.split()[-1] for line in said[1:]] == ["10.200.0.3", "10.200.0.9"]
            said.clear()
            here.pod.machines = [device(1, "10.200.0.1"), device(2, "10.200.0.2")]
            await dry.controller.one_pass()
            assert said == ["nothing to do"]
        assert here.kube.writes == []


async def test_writes_leave_at_the_rate() -> None:
    async with world(rate=200.0, burst=20) as here:
        here.pod.machines = [device(number, f"10.200.0.{number}") for number in range(1, 100)]
        began = asyncio.get_running_loop().time()
        await here.controller.one_pass()
        assert asyncio.get_running_loop().time() - began > (99 - 20) / 200 - 0.05
        assert here.kube.times[-1] - here.kube.times[0] > 0.3


def test_options_are_those_of_mat_k8s_controller() -> None:
    options: Any = Options()
    assert options.target == {"app.kubernetes.io/name": "nico-machine-a-tron"}
    assert options.url.format(name="n", namespace="s", port=1) == "https://n.s.svc.cluster.local:1"
