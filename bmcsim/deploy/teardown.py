"""How a simulated site is made empty between two runs: steps, and the commands of each. Nothing here runs.

Commands are as one would type them, so a step that is printed does what the same step does when it is carried out.
"""

import base64
import binascii
import re
import shlex
from collections.abc import Callable, Sequence

import msgspec
import orjson

from bmcsim.deploy import database
from bmcsim.deploy.values import CONTROLLER

RELEASE, NAMESPACE = "bmcsim", "nico-mat"
CORE_NAMESPACE, VAULT_NAMESPACE, DPF_NAMESPACE = "nico-system", "vault", "dpf-operator-system"
VAULT_MOUNT, VAULT_TOKEN = "secrets", "nico-vault-token"
CORE_CONFIG = "nico-api-site-config-files"
LEASE = "bmcsim-controller"

_UNTIL_GONE = 300
_POD = "{pod}"
_DPF = "dpudevices,dpunodes,dpus,dpunodemaintenances"
_PROXY = r"^\s*(bmc_proxy|override_target_(host|ip|port))\s*="
_MOUNT = re.compile(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*")
_PROXY_LINE = re.compile(_PROXY)


class Filter(msgspec.Struct, frozen=True):
    """What stands between two commands. shell: how one types it. apply: the same; None where nothing is to be done.
    Raises ValueError for what it cannot read."""

    shell: str
    apply: Callable[[bytes], bytes | None]


class Command(msgspec.Struct, frozen=True):
    """A program with its arguments.

    pod: a command whose first word stands for the argument {pod}. source, through: a command whose output comes through
    a filter on the standard input; where the filter has nothing, the rest of the step is left out.
    tries: how often to try. tolerates: a pattern of complaints that mean that there is nothing to do. expects: what it
    must say, '' for anything. seconds: that it may take.
    """

    arguments: tuple[str, ...]
    pod: "Command | None" = None
    source: "Command | None" = None
    through: Filter | None = None
    tries: int = 1
    tolerates: str = ""
    expects: str = ""
    seconds: float = 60.0

    def resolved(self, pod: str) -> list[str]:
        """The arguments with the name of the pod."""
        return [pod if one == _POD else one for one in self.arguments]

    def shell(self) -> str:
        """As one types it."""
        pod = f'"$({self.pod.shell()})"' if self.pod is not None else ""
        line = " ".join([pod if one == _POD else shlex.quote(one) for one in self.arguments])
        if self.source is not None and self.through is not None:
            return f"{self.source.shell()} | {self.through.shell} | {line}"
        return line


class Unless(msgspec.Struct, frozen=True):
    """A step is left out where a command says something. pattern: of a line."""

    command: Command
    pattern: str
    why: str


class Step(msgspec.Struct, frozen=True):
    """One step. text: what it does."""

    name: str
    text: str
    commands: tuple[Command, ...]
    unless: Unless | None = None


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What is made empty, and what is kept.

    kubeconfig, context: as kubectl's flags, '' for its defaults. release, namespace: of the simulator.
    delete_namespace: with everything in it, in place of its certificates alone. clear_database: whether to empty it;
    database_*: its name, and its pod; tables: more of them to empty. dpf_crs: whether to delete DPF's objects.
    core_config: whether to take the proxy out of NICo's configuration. vault: whether to delete passwords.
    """

    kubeconfig: str = ""
    context: str = ""
    release: str = RELEASE
    namespace: str = NAMESPACE
    delete_namespace: bool = False
    clear_database: bool = True
    database_name: str = database.DATABASE
    database_namespace: str = database.NAMESPACE
    database_selector: str = database.PRIMARY
    database_container: str = database.CONTAINER
    tables: tuple[str, ...] = ()
    dpf_crs: bool = True
    dpf_namespace: str = DPF_NAMESPACE
    core_config: bool = True
    core_namespace: str = CORE_NAMESPACE
    vault: bool = True
    vault_namespace: str = VAULT_NAMESPACE
    vault_mount: str = VAULT_MOUNT


def kubectl_flags(kubeconfig: str, context: str) -> list[str]:
    """Which cluster, for kubectl."""
    return [*([f"--kubeconfig={kubeconfig}"] if kubeconfig else []), *([f"--context={context}"] if context else [])]


def steps(site: Site) -> list[Step]:
    """The steps in their order. Raises ValueError for what is no name of a table or of a mount."""
    found = [_release(site), _services(site), _namespace(site)]
    if site.clear_database:
        found += _database(site)
    if site.dpf_crs:
        found.append(_dpf(site))
    if site.core_config:
        found.append(_core(site))
    if site.vault:
        found.append(_vault(site))
    return found


def _kubectl(site: Site, *arguments: str, **others: object) -> Command:
    flags = kubectl_flags(site.kubeconfig, site.context)
    return msgspec.structs.replace(Command(("kubectl", *flags, *arguments)), **others)


def _release(site: Site) -> Step:
    flags = [f"--kubeconfig={site.kubeconfig}"] if site.kubeconfig else []
    flags += [f"--kube-context={site.context}"] if site.context else []
    uninstall = Command(
        ("helm", *flags, "uninstall", site.release, "-n", site.namespace, "--wait", f"--timeout={_UNTIL_GONE}s"),
        tries=3,
        tolerates=r"release: not found",
        seconds=_UNTIL_GONE + 60,
    )
    return Step("release", "uninstall the simulator's release", (uninstall,))


def _services(site: Site) -> Step:
    ours = f"app.kubernetes.io/managed-by={CONTROLLER}"
    delete = ("delete", "-n", site.namespace, "--ignore-not-found")
    return Step(
        "services",
        "delete the Services of BMCs and the controller's Lease, where they outlived it",
        (
            _kubectl(site, *delete, "services", "-l", ours, "--wait=false", seconds=1800.0),
            _kubectl(site, *delete, "leases.coordination.k8s.io", LEASE),
        ),
    )


def _namespace(site: Site) -> Step:
    if site.delete_namespace:
        delete = _kubectl(site, "delete", "namespace", site.namespace, "--ignore-not-found", "--wait=false")
        return Step("namespace", "delete the simulator's namespace with its secrets and volumes", (delete,))
    issued = ("secrets", "-l", "controller.cert-manager.io/fao=true")
    delete = _kubectl(site, "delete", "-n", site.namespace, "--ignore-not-found", *issued)
    return Step("certificates", "delete TLS Secrets, so that the next ones are of the CA of then", (delete,))


def _database(site: Site) -> list[Step]:
    def asked(statements: Sequence[str], expects: str = "") -> Command:
        psql = database.psql(site.database_name, statements, user="postgres", together=not expects)
        where = ("-n", site.database_namespace)
        pod = _kubectl(
            site, "get", "pods", *where, "-l", site.database_selector, "--field-selector=status.phase=Running",
            "-o", "name",
        )  # fmt: skip
        inside = ("exec", *where, _POD, "-c", site.database_container, "--", *psql)
        return _kubectl(site, *inside, pod=pod, expects=expects, seconds=600.0)

    return [
        Step(
            "database",
            "empty NICo's tables of machines and racks in one transaction, and note that leases are void",
            (asked(database.truncation(site.tables)),),
        ),
        Step(
            "database-check",
            "see that there is no machine left, and that the control row of leases is there (0 and 1)",
            (asked(database.reading(database.LEFT), "0\t1"),),
        ),
    ]


def _dpf(site: Site) -> Step:
    where = ("-n", site.dpf_namespace)
    delete = _kubectl(
        site,
        *("delete", _DPF, "--all", *where, "--ignore-not-found", "--timeout=120s"),
        tolerates=r"the server doesn't have a resource type",
        seconds=180.0,
    )
    deployed = _kubectl(site, "get", "deployments", *where, "-o", "name", "--ignore-not-found")
    return Step(
        "dpf",
        "delete the objects that DPF made for the machines",
        (delete,),
        Unless(
            deployed, r"^(?!.*/dpf-sim-controller$).*(dpf.*operator|operator.*dpf)", "DPF's own operator runs there"
        ),
    )


def without_proxy(config_map: bytes) -> bytes | None:
    """A ConfigMap as JSON without the lines that send NICo to a proxy of BMCs; None where it has none.

    Raises ValueError where it is no ConfigMap.
    """
    try:
        document = orjson.loads(config_map)
        before: dict[str, str] = document["data"]
        after = {
            name: "\n".join([line for line in text.split("\n") if not _PROXY_LINE.match(line)])
            for name, text in before.items()
        }
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{CORE_CONFIG} is no ConfigMap with data") from error
    if after == before:
        return None
    document["data"] = after
    return orjson.dumps(document)


def _core(site: Site) -> Step:
    where = ("-n", site.core_namespace)
    test = orjson.dumps(_PROXY.replace(r"\s", "[[:space:]]")).decode()
    jq = f'.data |= map_values(split("\\n") | map(select(test({test}) | not)) | join("\\n"))'
    return Step(
        "core-config",
        "take bmc_proxy and override_target_* out of NICo's configuration, and restart nico-api; nothing without them",
        (
            _kubectl(
                site,
                *("replace", "-f", "-"),
                source=_kubectl(site, "get", "configmap", CORE_CONFIG, *where, "-o", "json"),
                through=Filter(f"jq {shlex.quote(jq)}", without_proxy),
            ),
            _kubectl(site, "rollout", "restart", "deployment/nico-api", *where),
            _kubectl(site, "rollout", "status", "deployment/nico-api", *where, "--timeout=180s", seconds=200.0),
        ),
    )


def decoded(data: bytes) -> bytes:
    """Base64 as Secrets have it. Raises ValueError for what is none, or empty."""
    try:
        plain = base64.b64decode(data.strip(), validate=True)
    except binascii.Error as error:
        raise ValueError(f"{VAULT_TOKEN} has no token in base64") from error
    if not plain:
        raise ValueError(f"{VAULT_TOKEN} has an empty token")
    return plain


# The token comes on the standard input, where no list of processes shows it. One call for each of thousands of BMCs,
# from here and one after the other, would take hours. That there is nothing to list is no error; any other is one.
_VAULT_SCRIPT = (
    "read -r VAULT_TOKEN || :; export VAULT_TOKEN VAULT_ADDR=https://127.0.0.1:8200 VAULT_SKIP_VERIFY=true; "
    "macs() {{ found=$(vault kv list -format=json {mount}/machines/bmc 2>&1) || "
    'case $found in *"No value found"*|"{{}}"|"[]") ;; *) echo "$found" >&2; exit 1;; esac; '
    "echo \"$found\" | tr -d '\", /' | grep -iE '^([0-9a-f]{{2}}[:-]?){{6}}$' || :; }}; "
    "for path in bmc/site/root all_hosts/factory_default/bmc-metadata-items/dell; "
    'do vault kv metadata delete "{mount}/machines/$path" >/dev/null || exit 1; done; '
    "left=$(macs) || exit 1; "
    'echo "$left" | xargs -r -P 32 -I MAC vault kv metadata delete {mount}/machines/bmc/MAC/root >/dev/null || exit 1; '
    'left=$(macs) || exit 1; printf %s "$left" | grep -c . || :'
)


def _vault(site: Site) -> Step:
    if not _MOUNT.fullmatch(site.vault_mount):
        raise ValueError(f"{site.vault_mount!r} is no mount of Vault, such as {VAULT_MOUNT}")
    token = _kubectl(site, "get", "secret", VAULT_TOKEN, "-n", site.core_namespace, "-o", "jsonpath={.data.token}")
    script = _VAULT_SCRIPT.format(mount=site.vault_mount)
    delete = _kubectl(
        site,
        *("exec", "-i", "-n", site.vault_namespace, "vault-0", "-c", "vault", "--", "sh", "-c", script),
        source=token,
        through=Filter("base64 -d", decoded),
        expects="0",
        seconds=900.0,
    )
    return Step(
        "vault",
        "delete the passwords of the site, of the hosts' factory and of each BMC; says how many are left",
        (delete,),
    )
