"""Rows of the issue log of the public scale tests, and N49: where each is covered, so that none is forgotten.

Rows that are about NICo alone are in docs/kubernetes.md with what its operator does.
"""

import importlib
import re
import socket
import ssl
import time
from pathlib import Path

import pytest
from cryptography import x509

from bmcsim.edges.http.tls import CERTIFICATE, KEY
from tests.certificates import Made, make
from tests.serving import serving

ROOT = Path(__file__).resolve().parents[2]

COVERED = {
    1: (
        "tests.unit.edges.nico.test_channel:test_mutual_tls_and_a_certificate_that_changes",
        "tests.reports.test_issue_log:test_n49_new_certificates_are_used_and_half_ones_are_not",
        "tests.deploy.test_chart:test_names_of_the_incumbent_may_stay",
    ),
    2: (
        "tests.unit.edges.nico.test_settings:test_the_proxy_is_set_and_taken_back",
        "tests.deploy.test_chart:test_the_notes_tell_what_to_do_next",
    ),
    3: ("tests.deploy.test_chart:test_the_site_has_what_the_simulated_fleet_needs",),
    4: (
        "tests.reports.test_k2_credentials:test_n10_failed_logins_are_counted_for_the_bmc_that_was_asked",
        "tests.deploy.test_chart:test_the_sites_root_password_is_looked_up",
    ),
    5: (
        "tests.unit.edges.nico.test_registration:test_what_is_refused_is_named_and_the_others_go_on",
        "tests.deploy.test_chart:test_the_certificate_says_who_we_are_and_is_where_bmcsim_looks",
    ),
    6: (
        "tests.reports.test_k2_credentials:test_n05_a_changed_password_survives_the_death_of_the_process",
        "tests.deploy.test_chart:test_the_sites_root_password_is_looked_up",
    ),
    7: ("tests.unit.edges.nico.test_dhcp:test_a_refusal_for_now_is_silence",),
    8: ("tests.unit.deploy.test_preflight:test_a_configuration_gets_the_right_verdict",),
    10: ("tests.deploy.test_bmc_proxy:test_row_10_the_upstream_is_a_service_that_there_is",),
    11: (
        "tests.deploy.test_bmc_proxy:test_row_11_the_address_that_the_client_asked_for_arrives",
        "tests.reports.test_routing:test_n03_an_unknown_forwarded_host_is_never_another_bmc",
    ),
    12: ("tests.deploy.test_bmc_proxy:test_row_12_replicas_are_apart_and_a_rollout_cannot_wait_for_itself",),
    13: (
        "tests.unit.deploy.test_preflight:test_a_configuration_gets_the_right_verdict",
        "tests.deploy.test_chart:test_relays_of_all_profiles_are_gateways_of_the_site",
    ),
    14: (
        "tests.reports.test_k2_credentials:"
        "test_n07_a_reset_of_the_bmc_keeps_the_password_unless_the_policy_says_otherwise",
    ),
    16: ("tests.deploy.test_chart:test_the_site_has_what_the_simulated_fleet_needs",),
    17: ("tests.unit.deploy.test_preflight:test_a_configuration_gets_the_right_verdict",),
    18: ("tests.deploy.test_chart:test_the_sites_root_password_is_looked_up",),
}
OF_NICO = {9, 15}
"""Helm's own burst, and NICo's state machine: nothing that a simulator could show."""


@pytest.mark.parametrize("row", sorted(COVERED))
def test_the_tests_of_a_row_are_there(row: int) -> None:
    for place in COVERED[row]:
        module, _, name = place.partition(":")
        assert callable(getattr(importlib.import_module(module), name, None)), place


def test_every_row_is_in_the_troubleshooting_table() -> None:
    text = (ROOT / "docs" / "kubernetes.md").read_text().partition("## Troubleshooting")[2]
    rows = [int(number) for number in re.findall(r"^\| ([0-9]+) \|", text, re.MULTILINE)]
    assert rows == sorted(COVERED.keys() | OF_NICO) == list(range(1, 19))


def shown(port: int) -> x509.Certificate:
    """The certificate that a new connection is offered."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=5) as plain, context.wrap_socket(plain) as secured:
        der = secured.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der)


def projected(volume: Path, made: Made, *, key: str | None = None) -> None:
    """Put a pair there as the kubelet updates a Secret: files link to ..data/, which is replaced. key: another one."""
    real = volume / f"..{time.monotonic_ns()}"
    real.mkdir()
    (real / CERTIFICATE).write_text(made.text)
    (real / KEY).write_text(made.key_text if key is None else key)
    link = volume / "..data_tmp"
    link.symlink_to(real.name)
    link.replace(volume / "..data")
    for name in (CERTIFICATE, KEY):
        if not (volume / name).is_symlink():
            (volume / name).symlink_to(f"..data/{name}")


def test_n49_new_certificates_are_used_and_half_ones_are_not(tmp_path: Path) -> None:
    """N49: 30 seconds is what the gateway of the public simulator needs."""
    first, second, third = make("first"), make("second"), make("third")
    volume = tmp_path / "tls"
    volume.mkdir()
    projected(volume, first)
    files = ["--tls-cert", str(volume / CERTIFICATE), "--tls-key", str(volume / KEY)]
    with serving(tmp_path / "output", "--hosts", "1", "--dpus", "0", *files) as process:
        assert shown(process.port) == first.certificate
        projected(volume, second, key=third.key_text)
        deadline = time.monotonic() + 30
        while "the one of before stays" not in process.output:
            assert time.monotonic() < deadline, process.output
            time.sleep(0.1)
        assert shown(process.port) == first.certificate
        projected(volume, second)
        while shown(process.port) != second.certificate:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert process.stop() == 0
