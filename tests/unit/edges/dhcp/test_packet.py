"""DHCP messages, against scapy's reading and writing of them."""

import struct
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.dhcp import BOOTP, DHCP

from bmcsim.edges.dhcp.packet import MAX_REPLY, Malformed, decode, encode
from bmcsim.machine.dhcp.messages import Ask, Interface, Kind, Lease, Port, Reply, Segment

RELAY = "192.0.2.67"
SERVER = "192.0.2.1"
MAC = 0x0200_5E00_0001
UUID = "2b0c1a52-97ad-4bd1-8b51-3bd3a0f3a6c6"

addresses = st.integers(1 << 24, (224 << 24) - 1).map(lambda number: str(IPv4Address(number)))
maybe = st.just("") | addresses
texts = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=255)
names = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=63)
periods = st.integers(1, 0xFFFFFFFE)
interfaces = st.builds(
    Interface,
    st.just("a"),
    st.just(Port.BMC),
    st.integers(0, (1 << 48) - 1),
    st.just(Segment.BMC),
    texts,
    maybe,
    texts,
    texts,
)
asks = st.builds(Ask, st.sampled_from(Kind), st.integers(0, 0xFFFFFFFF), st.integers(0, 1 << 17), maybe, maybe, maybe)
leases = st.builds(
    Lease,
    address=addresses,
    server=addresses,
    seconds=periods.map(float) | st.just(float("inf")),
    renew=st.just(0.0) | periods.map(float),
    rebind=st.just(0.0) | periods.map(float),
    prefix=st.integers(0, 32),
    gateway=maybe,
    name_servers=st.lists(addresses, max_size=3).map(tuple),
    ntp_servers=st.lists(addresses, max_size=3).map(tuple),
    host_name=names,
    domain=names,
    mtu=st.just(0) | st.integers(68, 65535),
    interface_id=st.just("") | st.uuids().map(str),
)


def reply(options: list[Any], **header: Any) -> bytes:
    """A reply as scapy writes it."""
    fields = {"op": 2, "xid": 7, "yiaddr": "192.0.2.100", "giaddr": RELAY, "chaddr": MAC.to_bytes(6), **header}
    return bytes(BOOTP(**fields) / DHCP(options=[*options, "end"]))


def offer(*options: Any, **header: Any) -> bytes:
    """An OFFER with more options."""
    return reply([("message-type", "offer"), ("server_id", SERVER), *options], **header)


def lease_of(data: bytes) -> Lease:
    """The lease in a reply that has one."""
    lease = decode(data).reply.lease
    assert lease is not None
    return lease


@given(interfaces, asks, addresses)
def test_scapy_reads_what_we_write(interface: Interface, ask: Ask, advertise: str) -> None:
    data = encode(interface, ask, advertise)
    read = BOOTP(data)
    assert (read.op, read.htype, read.hlen, read.hops, read.xid, read.flags) == (1, 1, 6, 1, ask.xid, 0)
    assert read.secs == min(ask.elapsed, 0xFFFF)
    assert (read.ciaddr, read.yiaddr, read.siaddr, read.giaddr) == (
        ask.client or "0.0.0.0",
        "0.0.0.0",
        "0.0.0.0",
        advertise,
    )
    assert read.chaddr == interface.mac.to_bytes(6) + bytes(10)
    assert len(data) >= 300
    options = [one for one in read[DHCP].options if one != "pad"]
    assert options[-1] == "end"
    agent = b"".join(value for code, value in options[:-1] if code == "relay_agent_information")
    said = [(code, value) for code, value in options[:-1] if code != "relay_agent_information"]
    assert said == [
        ("message-type", int(ask.kind)),
        *([("requested_addr", ask.requested)] if ask.requested else []),
        *([("server_id", ask.server)] if ask.server else []),
        *([("vendor_class_id", interface.vendor_class.encode())] if interface.vendor_class else []),
    ]
    subs = ((1, interface.circuit.encode()), (2, interface.remote.encode()))
    expected = b"".join(bytes((code, len(text))) + text for code, text in subs if text)
    if interface.relay:
        expected += b"\x05\x04" + IPv4Address(interface.relay).packed
    assert agent == expected


@pytest.mark.parametrize(
    ("interface", "ask"),
    [
        (Interface("a", Port.BMC, MAC, Segment.BMC, vendor_class="x" * 256), Ask(Kind.DISCOVER, 1)),
        (Interface("a", Port.BMC, MAC, Segment.BMC, circuit="x" * 256), Ask(Kind.DISCOVER, 1)),
        (Interface("a", Port.BMC, MAC, Segment.BMC, relay="192.0.2"), Ask(Kind.DISCOVER, 1)),
        (Interface("a", Port.BMC, MAC, Segment.BMC), Ask(Kind.REQUEST, 1, requested="::1")),
    ],
)
def test_what_no_packet_can_say_is_not_written(interface: Interface, ask: Ask) -> None:
    with pytest.raises((ValueError, OSError)):
        encode(interface, ask, RELAY)


def options_of(lease: Lease) -> list[Any]:
    """A lease as scapy's options; what it does not have is left out."""
    mask = str(IPv4Network((0, lease.prefix)).netmask)
    infinite = lease.seconds == float("inf")
    vendor = (
        b"\x06\x04\0\0\0\x08\x00" + (b"\x46\x24" + lease.interface_id.encode() if lease.interface_id else b"") + b"\xff"
    )
    everything = [
        ("subnet_mask", mask if lease.prefix else ""),
        ("router", lease.gateway),
        ("name_server", *lease.name_servers) if lease.name_servers else ("", ""),
        ("NTP_server", *lease.ntp_servers) if lease.ntp_servers else ("", ""),
        ("hostname", lease.host_name.encode()),
        ("domain", lease.domain.encode()),
        ("interface-mtu", lease.mtu),
        ("vendor_specific", vendor),
        ("server_id", lease.server),
        ("lease_time", 0xFFFFFFFF if infinite else int(lease.seconds)),
        ("renewal_time", int(lease.renew)),
        ("rebinding_time", int(lease.rebind)),
    ]
    return [one for one in everything if one[1]]


@given(leases, st.sampled_from((Kind.OFFER, Kind.ACK)), st.integers(0, 0xFFFFFFFF), addresses)
def test_we_read_what_scapy_writes(lease: Lease, kind: Kind, xid: int, relay: str) -> None:
    data = reply([("message-type", int(kind)), *options_of(lease)], xid=xid, yiaddr=lease.address, giaddr=relay)
    assert decode(data) == (Reply(kind, xid, lease, server=lease.server), MAC, relay)


def test_a_nak_says_why_and_no_control_characters() -> None:
    said = [("message-type", "nak"), ("server_id", SERVER), ("error_message", b"not\x1b[31m yours\n\0\0")]
    assert decode(reply(said, yiaddr="0.0.0.0")).reply == Reply(Kind.NAK, 7, server=SERVER, text="not?[31m yours?")
    assert decode(reply(said[:1], yiaddr="0.0.0.0")).reply == Reply(Kind.NAK, 7)


def test_a_lease_without_an_end_is_for_ever() -> None:
    assert lease_of(offer()).seconds == float("inf")
    assert lease_of(offer(("lease_time", 0xFFFFFFFF))).seconds == float("inf")
    assert lease_of(offer(("lease_time", 60), ("renewal_time", 0xFFFFFFFF))).renew == 0


def test_names_may_end_with_a_nul_and_uuids_are_in_lower_case() -> None:
    lease = lease_of(offer(("hostname", b"a-1\0"), (43, b"\x46\x24" + UUID.upper().encode())))
    assert (lease.host_name, lease.interface_id) == ("a-1", UUID)


def test_options_continue_in_the_fields_of_boot_files() -> None:
    uuid = b"\x46\x24" + UUID.encode()
    file = b"\x2b\x10" + uuid[20:36] + b"\x06\x04\xc0\x00\x02\x02\xff"
    sname = b"\x2b\x02" + uuid[36:] + b"\xff"
    sent = offer(("vendor_specific", uuid[:20]), ("dhcp-option-overload", 3), file=file, sname=sname)
    assert lease_of(sent).interface_id == UUID
    assert lease_of(sent).name_servers == ("192.0.2.2",)
    # Without option 52 the fields are names of files.
    with pytest.raises(Malformed, match="cut off"):
        decode(offer(("vendor_specific", uuid[:20]), file=file, sname=sname))
    assert lease_of(offer(file=file, sname=sname)).name_servers == ()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "too short"),
        (offer()[:239], "too short"),
        (offer() + bytes(MAX_REPLY), "too long"),
        (offer(op=1), "no DHCP reply"),
        (offer(htype=6), "no DHCP reply"),
        (offer(hlen=8), "no DHCP reply"),
        (offer().replace(b"c\x82Sc", b"c\x82Sd"), "no DHCP reply"),
        (offer()[:-1], "no end"),
        (offer()[:-2], "cut off"),
        (offer()[:-1] + b"\x33", "cut off"),
        (offer()[:-1] + b"\x33\x04\0\0\0", "cut off"),
        (offer(yiaddr="0.0.0.0"), "no address"),
        (offer(yiaddr="255.255.255.255"), "no address"),
        (offer(yiaddr="224.0.0.1"), "no address"),
        (reply([("message-type", "offer")]), "no server identifier"),
        (reply([("message-type", "ack"), ("server_id", "0.0.0.0")]), "option 54"),
        (reply([("server_id", SERVER)]), "not an OFFER"),
        (reply([("message-type", "discover"), ("server_id", SERVER)]), "not an OFFER"),
        (reply([("message-type", 77), ("server_id", SERVER)]), "not an OFFER"),
        (reply([(53, b"\x02\x02"), ("server_id", SERVER)]), "option 53"),
        (offer(("message-type", "offer")), "option 53"),
        (offer((51, b"\0\0\x01")), "option 51"),
        (offer(("lease_time", 0)), "no time"),
        (offer((58, b"\x01")), "option 58"),
        (offer((59, b"")), "option 59"),
        (offer((52, b"\x01\x01")), "option 52"),
        (offer(("dhcp-option-overload", 1)), "no end"),
        (offer((1, b"\xff\xff\xff")), "option 1 "),
        (offer(("subnet_mask", "255.0.255.0")), "option 1 "),
        (offer((3, b"")), "option 3 "),
        (offer((3, b"\0\0\0\0\0")), "option 3 "),
        (offer((6, b"\0")), "option 6 "),
        (offer((42, b"\0")), "option 42"),
        (offer((12, b"")), "option 12"),
        (offer((12, b"a b")), "option 12"),
        (offer((15, b"a\xff")), "option 15"),
        (offer((26, b"\0")), "option 26"),
        (offer((26, b"\0\0")), "option 26"),
        (offer((43, b"\x46\x24" + UUID.encode()[1:])), "cut off"),
        (offer((43, b"\x46\x23" + UUID.encode()[1:])), "option 43"),
        (offer((43, b"\x46")), "cut off"),
    ],
)  # fmt: skip
def test_what_is_broken_is_malformed_with_a_reason(data: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        decode(data)


def test_a_reply_that_is_cut_off_anywhere_is_malformed() -> None:
    whole = offer(("lease_time", 60), ("router", SERVER), ("vendor_specific", b"\x46\x24" + UUID.encode()))
    assert lease_of(whole).interface_id == UUID
    for length in range(len(whole)):
        with pytest.raises(Malformed):
            decode(whole[:length])


def test_padding_counts_nowhere() -> None:
    plain = offer(("lease_time", 60))
    assert decode(plain[:240] + b"\0\0" + plain[240:] + bytes(60)) == decode(plain)
    assert struct.unpack_from("!I", plain, 236) == (0x63825363,)


@pytest.mark.parametrize("kind", [Kind.RELEASE, Kind.DECLINE])
def test_giving_back_goes_by_the_relay_too(kind: Kind) -> None:
    interface = Interface("a", Port.BMC, MAC, Segment.BMC, relay="198.51.100.1")
    read = BOOTP(encode(interface, Ask(kind, 7, client="192.0.2.100", server=SERVER), RELAY))
    assert (read.giaddr, read.ciaddr, read[DHCP].options[:2]) == (
        RELAY, "192.0.2.100", [("message-type", int(kind)), ("server_id", SERVER)],
    )  # fmt: skip
