"""Rows 10 to 12 of the issue log of scale tests: nginx before the fleet, configured as the chart renders it."""

import os
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from bmcsim.edges.http.tls import CERTIFICATE, KEY
from tests.certificates import make
from tests.deploy import goldens, helm
from tests.deploy.helm import rendered
from tests.serving import Process, free_port, serving

PROXY = goldens.CASES["bmc-proxy"]
NAME = "bmcsim-default-bmc-mock.nico-mat.svc.cluster.local"


def configuration() -> str:
    return str(rendered(*PROXY).one("ConfigMap", "-bmc-proxy")["data"]["nginx.conf"])


def test_row_10_the_upstream_is_a_service_that_there_is() -> None:
    service = rendered(*PROXY).one("Service", "-bmc-mock")
    host = f"{service['metadata']['name']}.{helm.NAMESPACE}.svc.cluster.local"
    assert f"server {host}:{service['spec']['ports'][0]['port']};" in configuration()
    assert host == NAME


def test_row_12_replicas_are_apart_and_a_rollout_cannot_wait_for_itself() -> None:
    objects = rendered(*PROXY, "--set", "bmcProxy.replicas=3,bmcProxy.service.type=LoadBalancer")
    proxy = objects.one("Deployment", "-bmc-proxy")["spec"]
    assert proxy["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
    affinity = proxy["template"]["spec"]["affinity"]
    assert list(affinity) == ["podAntiAffinity"]
    (term,) = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"].items() <= proxy["template"]["metadata"]["labels"].items()
    # The simulator's own pods are somebody else's.
    simulator = objects.one("Deployment", "-default")["spec"]["template"]["metadata"]["labels"]
    assert not term["labelSelector"]["matchLabels"].items() <= simulator.items()
    assert objects.one("Service", "-bmc-proxy")["spec"]["externalTrafficPolicy"] == "Local"


class Nginx:
    """The proxy on this machine."""

    def __init__(self, port: int, simulator: Process) -> None:
        self.port, self.simulator = port, simulator

    def get(self, host: str, **fields: str) -> Any:
        """The serial number of the chassis of the BMC at an address, by the proxy's own address. Raises HTTPError."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}/redfish/v1/", headers={"Host": host, **fields})
        with urllib.request.urlopen(request, timeout=5, context=context) as response:
            return response.status, response.read()


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed; on Debian and Ubuntu: apt-get install nginx-light")
    directory = tmp_path_factory.mktemp("nginx")
    pair = make(NAME)
    (directory / CERTIFICATE).write_text(pair.text)
    (directory / KEY).write_text(pair.key_text)
    (directory / "ca.crt").write_text(pair.text)
    tls = ["--tls-cert", str(directory / CERTIFICATE), "--tls-key", str(directory / KEY)]
    with serving(directory / "output", "--hosts", "3", "--dpus", "0", *tls) as simulator:
        port = free_port()
        text = configuration()
        for old, new in {
            f"server {NAME}:1266;": f"server 127.0.0.1:{simulator.port};",
            "listen 8443": f"listen 127.0.0.1:{port}",
            " /tmp/": f" {directory}/",
            "/etc/bmc-proxy-tls/": f"{directory}/",
            "worker_processes auto;": "worker_processes 1;\nuser root;" if os.geteuid() == 0 else "worker_processes 1;",
        }.items():
            assert old in text
            text = text.replace(old, new)
        (directory / "nginx.conf").write_text(text)
        command = [program, "-e", "stderr", "-c", str(directory / "nginx.conf"), "-g", "daemon off;"]
        with (directory / "nginx.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            proxy = Nginx(port, simulator)
            try:
                for _ in range(100):
                    try:
                        proxy.get("127.64.0.2")
                        break
                    except urllib.error.HTTPError as error:
                        pytest.fail(f"{error}: {(directory / 'nginx.log').read_text()}")
                    except OSError:
                        assert process.poll() is None, (directory / "nginx.log").read_text()
                        time.sleep(0.1)
                yield proxy
            finally:
                process.terminate()
                process.wait(10)


def uuid(body: bytes) -> str:
    return body.partition(b'"UUID":"')[2].partition(b'"')[0].decode()


@pytest.mark.system
def test_row_11_the_address_that_the_client_asked_for_arrives(nginx: Nginx) -> None:
    seen = {uuid(nginx.get(host)[1]) for host in ("127.64.0.2", "127.64.0.3", "127.64.0.4")}
    assert len(seen) == 3 and "" not in seen
    assert uuid(nginx.get("127.64.0.3:443")[1]) in seen


@pytest.mark.system
def test_row_11_an_address_of_no_bmc_is_nobody_s(nginx: Nginx) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        nginx.get("10.233.64.17")
    assert caught.value.code == 404
    assert b"10.233.64.17" in caught.value.read()


@pytest.mark.system
def test_a_client_that_says_itself_whom_it_means_is_believed(nginx: Nginx) -> None:
    direct = nginx.get("127.64.0.3")[1]
    assert nginx.get("bmc-proxy.example", Forwarded="host=127.64.0.3")[1] == direct


@pytest.mark.system
def test_the_probe_is_the_proxy_s_own(nginx: Nginx) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    probe = rendered(*PROXY).container("-bmc-proxy")["livenessProbe"]["httpGet"]
    headers = {one["name"]: one["value"] for one in probe["httpHeaders"]}
    request = urllib.request.Request(f"https://127.0.0.1:{nginx.port}{probe['path']}", headers=headers)
    with urllib.request.urlopen(request, timeout=5, context=context) as response:
        assert response.read() == b"ok\n"
