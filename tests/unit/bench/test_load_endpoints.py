"""Lists of endpoints: what is read from a file, a network, a fleet, and what is refused with a reason."""

import ipaddress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load import endpoints
from bench.load.endpoints import Endpoint, of_fleet, read, split
from bench.server import GB200, BenchError, Fleet

PORTS = st.integers(1, 65_535)


def listed(path: Path, text: str) -> list[Endpoint]:
    path.write_text(text)
    return read(str(path), 443, "root", "secret")


@given(st.ip_addresses(v=4), PORTS)
def test_ipv4_with_a_port(address: ipaddress.IPv4Address, port: int) -> None:
    assert split(f"{address}:{port}", 443) == (str(address), port)
    assert split(str(address), port) == (str(address), port)


@given(st.ip_addresses(v=6).filter(lambda address: address.scope_id is None), PORTS)
def test_ipv6_with_a_port_is_bracketed(address: ipaddress.IPv6Address, port: int) -> None:
    assert split(f"[{address}]:{port}", 443) == (str(address), port)
    assert split(str(address), port) == split(f"[{address}]", port) == (str(address), port)
    endpoint = Endpoint(str(address), port, "", "")
    assert split(endpoint.authority, 1) == (str(address), port)
    assert endpoint.forwarded == f'host="[{address}]"'


@given(st.text(max_size=30))
def test_anything_is_an_address_or_a_value_error(text: str) -> None:
    try:
        address, port = split(text, 443)
    except ValueError:
        return
    assert address
    assert 0 < port < 65_536


def test_a_file_has_a_bmc_a_line(tmp_path: Path) -> None:
    found = listed(
        tmp_path / "fleet", "# rack 1\n\n10.0.0.1\nbmc-2.example:1266  admin pass-word\n[2001:db8::1]:8443\n"
    )
    assert found == [
        Endpoint("10.0.0.1", 443, "root", "secret"),
        Endpoint("bmc-2.example", 1266, "admin", "pass-word"),
        Endpoint("2001:db8::1", 8443, "root", "secret"),
    ]
    assert [one.forwarded for one in found][:2] == ["host=10.0.0.1", "host=bmc-2.example"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10.0.0.1\n10.0.0.2 admin\n", "line 2: 2 words; a line is"),
        ("10.0.0.1:0\n", "line 1: the port of '10.0.0.1:0' is not between"),
        ("10.0.0.1:99999\n", "line 1: the port of"),
        ("10.0.0.1:\n", "line 1: the port of"),
        ("bmc/../x\n", "line 1: 'bmc/../x' is no address or name"),
        ("a\rForwarded:x\n", "line 2"),
        ("10.0.0.1\n10.0.0.1:443\n", "10.0.0.1:443 is there twice"),
        ("# nothing\n", "has no endpoint"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BenchError) as caught:
        listed(tmp_path / "fleet", text)
    assert said in str(caught.value)
    assert "fleet" in str(caught.value)


def test_a_file_that_is_no_text_or_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "fleet"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BenchError, match="no UTF-8 text"):
        read(str(path), 443, "root", "")
    monkeypatch.setattr(endpoints, "MAX_BYTES", 1)
    with pytest.raises(BenchError, match="more than 0 MiB"):
        read(str(path), 443, "root", "")


def test_a_network_is_its_hosts() -> None:
    assert [one.address for one in read("10.0.0.0/30", 1266, "root", "x")] == ["10.0.0.1", "10.0.0.2"]
    with pytest.raises(BenchError, match="neither a file nor a network"):
        read("no-such-file", 443, "root", "x")
    with pytest.raises(BenchError, match="at most 1,000,000"):
        read("10.0.0.0/8", 443, "root", "x")


def test_a_fleet_is_on_its_factory_passwords_until_it_is_rotated() -> None:
    factory = of_fleet(Fleet(2, 2, GB200), 0, 1266, None)
    assert [one.address for one in factory] == [f"127.64.0.{last}" for last in range(2, 8)]
    assert {one.password for one in factory} == {"factory_password", "0penBmc"}
    assert {one.password for one in of_fleet(Fleet(2, 2, GB200), 0, 1266, "Other-1")} == {"Other-1"}


def test_racks_have_all_their_kinds_of_bmc() -> None:
    rack = of_fleet(Fleet(1, 0), 1, 1266, None)
    assert len({one.password for one in rack}) > 1
    assert len({one.address for one in rack}) == len(rack) > 18
