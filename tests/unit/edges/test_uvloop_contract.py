"""What edges/http/gate.py relies on inside uvloop; an upgrade that changes it fails here first."""

from importlib.metadata import version

import uvloop.loop

from bmcsim.edges.http.gate import Gate


def test_the_minor_version_is_the_pinned_one() -> None:
    assert version("uvloop").startswith(("0.22.", "0.23."))


def test_tls_is_a_protocol_of_its_own_that_begins_with_its_connection() -> None:
    tls = uvloop.loop.SSLProtocol  # type: ignore[attr-defined]
    assert issubclass(Gate, tls)
    assert callable(tls.connection_made)
    signature = "SSLProtocol(loop, app_protocol, sslcontext, waiter, server_side=False, server_hostname=None,"
    assert tls.__doc__.startswith(signature)


def test_a_gate_costs_no_dictionary() -> None:
    """There is one for each of 13,500 idle connections."""
    assert Gate.__dictoffset__ == 0
