"""The assertions of DMTF's protocol validator about SSDP (SERV_SSDP_*), each by its name."""

import re
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest

from bmcsim.core.clock import SystemClock
from bmcsim.fleet.build import Builder
from bmcsim.fleet.config import parse
from bmcsim.fleet.durability import Restorer
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.store import Store
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Hasher
from tests.unit.edges.ssdp.test_message import URN, search
from tests.unit.edges.ssdp.test_responder import FLEET, Edge


@pytest.fixture
def edge() -> Edge:
    """A host with two DPUs, both kinds of hardware that there are."""
    return Edge()


def replies(edge: Edge, target: str = URN) -> dict[str, dict[str, str]]:
    """BMC's address -> header fields of what it answers to a search."""
    edge.sent.clear()
    edge.ask(search(ST=target))
    found = {}
    for address, _, _, text, _ in edge.sent:
        lines = text.removesuffix("\r\n\r\n").split("\r\n")[1:]
        found[address] = dict(re.split(r":[ ]*", line, maxsplit=1) for line in lines)
    return found


def root(edge: Edge, bmc: Bmc) -> Any:
    """The service root."""
    return orjson.loads(edge.request(bmc, "GET", "/redfish/v1/").body)


def test_serv_ssdp_can_be_disabled(edge: Edge) -> None:
    for bmc in edge.bmcs:
        others = {other.address for other in edge.bmcs if other is not bmc}
        edge.patch(bmc, b'{"SSDP": {"ProtocolEnabled": false}}')
        assert replies(edge).keys() == others
        assert edge.ask(search(HOST=None), dialled=bmc.address) == []
        edge.patch(bmc, b'{"SSDP": {"ProtocolEnabled": true}}')
        assert replies(edge).keys() == {*others, bmc.address}


def test_serv_ssdp_can_be_disabled_in_the_middle_of_a_search(edge: Edge) -> None:
    edge.ask(seconds=0)
    edge.patch(edge.bmcs[2], b'{"SSDP": {"ProtocolEnabled": false}}')
    edge.run(6)
    assert [one[0] for one in edge.sent] == [bmc.address for bmc in edge.bmcs[:2]]


def test_serv_ssdp_can_be_disabled_for_good(tmp_path: Path) -> None:
    config = parse(FLEET.format(hosts=1, more=""), "f.toml")
    edge = Edge()
    edge.patch(edge.bmcs[0], b'{"SSDP": {"ProtocolEnabled": false}}')
    with_state = Store.open(tmp_path / "state", "x")
    with_state.write({edge.bmcs[0].id: edge.bmcs[0].encode()})
    restored = Fleet()
    for _ in Builder(config, Hasher(b"k" * 32), 0.0, Restorer(with_state, SystemClock())).populate(restored):
        pass
    with_state.close()
    assert [bmc.network_service("SSDP")["ProtocolEnabled"] for bmc in restored] == [False, True, True]


def test_serv_ssdp_usn_matches_service_root_uuid(edge: Edge) -> None:
    found = replies(edge)
    for bmc in edge.bmcs:
        assert found[bmc.address]["USN"].startswith(f"uuid:{root(edge, bmc)['UUID'].lower()}::")


def test_serv_ssdp_uuid_static(edge: Edge) -> None:
    before = {address: one["USN"] for address, one in replies(edge).items()}
    for bmc in edge.bmcs:
        bmc.reset_bmc(edge.clock.now())
        edge.driver.execute(bmc, ())
    assert replies(edge) == {}
    edge.clock.advance(200)
    edge.driver.run_due()
    assert {address: one["USN"] for address, one in replies(edge).items()} == before
    assert {address: one["USN"] for address, one in replies(Edge()).items()} == before


def test_serv_ssdp_uuid_in_canonical_format(edge: Edge) -> None:
    usns = [one["USN"] for one in replies(edge).values()]
    assert len({*usns}) == len(edge.bmcs)
    for usn in usns:
        form = re.fullmatch(r"uuid:([a-f0-9-]+)::urn:dmtf-org:service:redfish-rest:1(:\d+)?", usn)
        assert form is not None
        assert str(UUID(form[1])) == form[1]


def test_serv_ssdp_msearch_responds_to_redfish_or_all(edge: Edge) -> None:
    assert replies(edge).keys() == {bmc.address for bmc in edge.bmcs}
    assert replies(edge, "ssdp:all") == replies(edge)
    assert replies(edge, "upnp:rootdevice") == {}


def test_serv_ssdp_st_header_format(edge: Edge) -> None:
    found = replies(edge)
    for bmc in edge.bmcs:
        minor = int(root(edge, bmc)["RedfishVersion"].split(".")[1])
        assert found[bmc.address]["ST"] == f"{URN}:{minor}"


def test_serv_ssdp_al_header_points_to_service_root(edge: Edge) -> None:
    for address, one in replies(edge).items():
        assert one["AL"] == f"https://{address}:1266/redfish/v1/"


def test_serv_ssdp_m_search_response_format(edge: Edge) -> None:
    edge.ask()
    for _, _, _, text, _ in edge.sent:
        assert text.startswith("HTTP/1.1 200 OK\r\n")
        assert text.endswith("\r\n\r\n")
    for one in replies(edge).values():
        assert one.keys() == {"CACHE-CONTROL", "ST", "USN", "AL", "EXT"}
        assert int(one["CACHE-CONTROL"].removeprefix("max-age=")) >= 1800
        assert one["EXT"] == ""
