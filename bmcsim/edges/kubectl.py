"""What kubectl says of a cluster's networks. It only reads; the one command that could write is a dry run.

A cluster that does not answer is asked no more, so a look-up ends after one time limit.
"""

import re
from collections.abc import Iterator
from ipaddress import ip_address

from bmcsim.deploy.values import CONTROLLER
from bmcsim.edges.programs import ProgramError, run

MANAGED_BY = "app.kubernetes.io/managed-by"

_CIDRS = r"([0-9A-Fa-f.:/,]+)"
_SERVICE_FLAG = re.compile(rf"--service-cluster-ip-range={_CIDRS}")
_POD_FLAG = re.compile(rf"--cluster-cidr={_CIDRS}")
_SERVICE_SUBNET = re.compile(rf"^\s*serviceSubnet:\s*[\"']?{_CIDRS}", re.MULTILINE)
_POD_SUBNET = re.compile(rf"^\s*podSubnet:\s*[\"']?{_CIDRS}", re.MULTILINE)
_AWAY = re.compile(r"Unable to connect to the server|connection to the server .* was refused")
_VALID_RANGE = re.compile(rf"range of valid IPs is {_CIDRS}")


class Kubectl:
    """Asks a cluster. kubeconfig, context: as kubectl's flags, '' for its defaults. timeout: of one question, seconds.

    silent: why nothing is asked any more, '' while the cluster answers.
    """

    def __init__(
        self, kubeconfig: str = "", context: str = "", timeout: float = 15.0, program: str = "kubectl"
    ) -> None:
        self._program = program
        self._flags = [f"--request-timeout={max(1, round(timeout))}s"]
        self._flags += [f"--kubeconfig={kubeconfig}"] if kubeconfig else []
        self._flags += [f"--context={context}"] if context else []
        self._timeout = timeout
        self.silent = ""

    def service_cidrs(self) -> list[str]:
        """From ServiceCIDR objects, kubeadm's settings, the API server's flag, or its word on a wrong ClusterIP."""
        return (
            self._words("get", "servicecidrs", "-o", "jsonpath={.items[*].spec.cidrs[*]}")
            or _found(_SERVICE_SUBNET, self._kubeadm())
            or _found(_SERVICE_FLAG, self._system_pods())
            or _found(_VALID_RANGE, self._refusal())
        )

    def pod_cidrs(self) -> list[str]:
        """From nodes, kubeadm's settings, the controller manager's flag and Calico's pools, all of them together."""
        found = [
            *self._words("get", "nodes", "-o", "jsonpath={.items[*].spec.podCIDRs[*]}"),
            *_found(_POD_SUBNET, self._kubeadm()),
            *_found(_POD_FLAG, self._system_pods()),
            *self._words("get", "ippools.crd.projectcalico.org", "-o", "jsonpath={.items[*].spec.cidr}"),
        ]
        return list(dict.fromkeys(found))

    def node_addresses(self) -> list[str]:
        """The internal addresses of all nodes."""
        query = 'jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}'
        return self._words("get", "nodes", "-o", query)

    def cluster_ips(self) -> list[str] | None:
        """The ClusterIPs of all Services but the controller's own; None where the cluster does not say."""
        others = f"{MANAGED_BY}!={CONTROLLER}"
        query = "jsonpath={.items[*].spec.clusterIPs[*]}"
        out = self._ask("get", "services", "-A", "-l", others, "-o", query)[0]
        return None if out is None else list(_addresses(out))

    def _words(self, *arguments: str) -> list[str]:
        return (self._ask(*arguments)[0] or "").split()

    def _kubeadm(self) -> str:
        query = "jsonpath={.data.ClusterConfiguration}"
        return self._ask("get", "cm", "kubeadm-config", "-n", "kube-system", "-o", query)[0] or ""

    def _system_pods(self) -> str:
        query = "jsonpath={.items[*].spec.containers[*].command}{.items[*].spec.containers[*].args}"
        return self._ask("get", "pods", "-n", "kube-system", "-o", query)[0] or ""

    def _refusal(self) -> str:
        """What the API server says to a Service with an impossible ClusterIP; nothing is made of it."""
        wrong = ("--clusterip=240.0.0.1", "--tcp=1", "--dry-run=server")
        return self._ask("create", "service", "clusterip", "bmcsim-preflight", *wrong)[1]

    def _ask(self, *arguments: str) -> tuple[str | None, str]:
        """Standard output, None where the command failed, and standard error."""
        if self.silent:
            return None, ""
        try:
            done = run([self._program, *arguments, *self._flags], self._timeout)
        except ProgramError as error:
            self.silent = str(error)
            return None, ""
        if done.code == 0:
            return done.out.decode(errors="replace"), done.err
        if _AWAY.search(done.err):
            self.silent = done.why[:200]
        return None, done.err


def _found(pattern: re.Pattern[str], text: str) -> list[str]:
    match = pattern.search(text)
    return match[1].replace(",", " ").split() if match else []


def _addresses(text: str) -> Iterator[str]:
    for word in text.split():
        try:
            ip_address(word)
        except ValueError:
            # A headless Service has None.
            continue
        yield word
