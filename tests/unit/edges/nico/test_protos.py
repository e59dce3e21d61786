from pathlib import Path

from bmcsim.edges.nico import forge_pb2 as forge
from tests import protos


def test_what_is_checked_in_is_what_the_protos_give(tmp_path: Path) -> None:
    protos.generate(tmp_path)
    made = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert len(made) == 2 * len(protos.sources())
    for path in made:
        beside = protos.ROOT / path.relative_to(tmp_path)
        assert beside.read_text() == path.read_text(), f"{beside}: make proto"


def test_bytes_on_the_wire() -> None:
    discovery = forge.DhcpDiscovery(mac_address="A", relay_address="B", vendor_string="C")
    assert discovery.SerializeToString() == b"\n\x01A\x12\x01B\x1a\x01C"
    record = forge.DhcpRecord.FromString(b"\x12\x03\n\x01I:\x01aH\x00J\x03p/8R\x01gj\x01n")
    assert (record.machine_interface_id.value, record.address, record.prefix) == ("I", "a", "p/8")
    assert (record.gateway, list(record.ntp_servers)) == ("g", ["n"])
