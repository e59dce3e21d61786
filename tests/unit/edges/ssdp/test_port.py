"""The interface that searches come in by. Sockets that hear something are in tests/system/test_ssdp.py."""

import pytest
from click.testing import CliRunner

from bmcsim.cli import main
from bmcsim.edges.ssdp.port import SsdpError, interface_of, open_socket


def test_an_interface_is_named_by_its_name_or_by_its_address() -> None:
    assert interface_of("lo") == "lo"
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("127.64.0.2") == "lo"


@pytest.mark.parametrize("text", ["", "nothing0", "192.0.2.1", "::1", "fleet.toml"])
def test_what_is_no_interface_is_refused_with_the_names_of_those_that_are(text: str) -> None:
    with pytest.raises(SsdpError, match=r"--ssdp .*network interface.*\blo\b"):
        interface_of(text)


def test_a_socket_that_cannot_be_had_is_named() -> None:
    with pytest.raises(SsdpError, match="--ssdp nothing0: cannot listen on UDP port 1900 there"):
        open_socket("nothing0")


def test_a_wrong_interface_ends_serve_with_one_line() -> None:
    arguments = ["serve", "--hosts", "1", "--dpus", "0", "--listen", "127.0.0.0/8:0", "--admin", "off"]
    done = CliRunner().invoke(main, [*arguments, "--ssdp", "nothing0"])
    assert done.exit_code == 1
    assert done.output.startswith("Error: --ssdp nothing0: is neither a network interface nor the address of one")
