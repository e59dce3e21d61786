"""Where the API server is and as whom it is asked: from inside a pod, or by a kubeconfig file.

Files of a certificate authority, a client certificate or a token may change while they are used. What does not load is
refused, and what was there before stays.
"""

import base64
import binascii
import logging
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import yaml

from bmcsim.edges.files import Seen, look

log = logging.getLogger(__name__)

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its service account."""

_MAX_FILE = 1024 * 1024
_LOOK_EVERY = 1.0


class AccessError(Exception):
    """The API server cannot be asked as it is configured; the text says what would be right."""


class Trust:
    """A TLS client context that follows its files. reloads, refusals: how often they changed, and could be used or
    could not.

    ca: authorities, None for the system's. pair: client certificate and key. insecure: whether no server is verified.
    Raises AccessError for files that cannot be used.
    """

    def __init__(
        self, ca: Path | None = None, pair: tuple[Path, Path] | None = None, *, insecure: bool = False
    ) -> None:
        self._ca, self._pair, self._insecure = ca, pair, insecure
        self._files = tuple(path for path in (ca, *(pair or ())) if path is not None)
        self._looked = 0.0
        self.reloads = self.refusals = 0
        self._seen: Seen = look(self._files)
        self._context = self._load()

    def context(self, now: float) -> ssl.SSLContext:
        """The context for new connections. now: monotonic seconds."""
        if self._files and now - self._looked >= _LOOK_EVERY:
            self._looked = now
            seen = look(self._files)
            if seen != self._seen:
                self._seen = seen
                self._reload()
        return self._context

    def _reload(self) -> None:
        try:
            self._context = self._load()
        except AccessError as error:
            self.refusals += 1
            log.warning("the changed certificates are refused, those of before stay: %s", error)
        else:
            self.reloads += 1
            log.info("new connections use the certificates that %s has now", self._files[0])

    def _load(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cadata=read_text(self._ca) if self._ca is not None else None)
        except ssl.SSLError as error:
            raise AccessError(f"{self._ca}: is no PEM file with certificates: {error}") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self._insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self._pair is not None:
            try:
                # A key with a passphrase would make OpenSSL ask the terminal.
                context.load_cert_chain(*self._pair, password=lambda: "")
            except (OSError, ssl.SSLError) as error:
                raise AccessError(f"{self._pair[0]}, {self._pair[1]}: no certificate and its key: {error}") from error
        return context


class Access(NamedTuple):
    """server: URL without a path at its end. token_file: read anew when it changes. basic: value of a Basic field.
    server_name: that the server's certificate is for, '' for its host."""

    server: str
    trust: Trust
    token: str = ""
    token_file: Path | None = None
    basic: str = ""
    server_name: str = ""


class Token:
    """The token of a file as it is now."""

    def __init__(self, access: Access) -> None:
        self._file, self._token = access.token_file, access.token
        self._seen: Seen = ()

    def current(self) -> str:
        """The token, '' for none; the one of before while the file cannot be read."""
        if self._file is not None and (seen := look((self._file,))) and seen != self._seen:
            try:
                self._token = read_text(self._file).strip()
                self._seen = seen
            except AccessError as error:
                log.warning("%s", error)
        return self._token


def read_text(path: Path) -> str:
    """A small file. Raises AccessError."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE + 1)
        text = data.decode()
    except OSError as error:
        raise AccessError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise AccessError(f"{path}: is no text") from error
    if len(data) > _MAX_FILE:
        raise AccessError(f"{path}: larger than {_MAX_FILE} bytes")
    return text


def in_cluster(environment: Mapping[str, str], account: Path = ACCOUNT) -> Access:
    """As a pod's service account. Raises AccessError."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise AccessError(
            "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, so this is no pod; outside a cluster "
            "name a file with --kubeconfig"
        )
    token = account / "token"
    read_text(token)
    shown = f"[{host}]" if ":" in host else host
    return Access(f"https://{shown}:{port}", Trust(account / "ca.crt"), token_file=token)


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""


class _User(msgspec.Struct, rename={"token_file": "tokenFile"}):
    token: str = ""
    token_file: str = ""
    client_certificate: str = msgspec.field(name="client-certificate", default="")
    client_certificate_data: str = msgspec.field(name="client-certificate-data", default="")
    client_key: str = msgspec.field(name="client-key", default="")
    client_key_data: str = msgspec.field(name="client-key-data", default="")
    username: str = ""
    password: str = ""
    exec: object = None
    auth_provider: object = msgspec.field(name="auth-provider", default=None)


class _Context(msgspec.Struct):
    cluster: str
    user: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster


class _NamedUser(msgspec.Struct):
    name: str
    user: _User


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context


class _Kubeconfig(msgspec.Struct):
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []
    contexts: list[_NamedContext] = []
    current_context: str = msgspec.field(name="current-context", default="")


def by_kubeconfig(path: Path) -> Access:
    """As the current context of a kubeconfig file says. Raises AccessError."""
    try:
        config = msgspec.convert(yaml.load(read_text(path), getattr(yaml, "CSafeLoader", yaml.SafeLoader)), _Kubeconfig)
    except yaml.YAMLError as error:
        raise AccessError(f"{path}: is no YAML") from error
    except msgspec.ValidationError as error:
        raise AccessError(f"{path}: is no kubeconfig file: {error}") from error
    context = next((one.context for one in config.contexts if one.name == config.current_context), None)
    if context is None:
        raise AccessError(f"{path}: current-context must name one of its contexts, not {config.current_context!r}")
    cluster = next((one.cluster for one in config.clusters if one.name == context.cluster), None)
    if cluster is None:
        raise AccessError(f"{path}: there is no cluster {context.cluster!r}, which the current context names")
    user = next((one.user for one in config.users if one.name == context.user), None) or _User()
    if user.exec is not None or user.auth_provider is not None:
        raise AccessError(
            f"{path}: user {context.user!r} gets its credentials from a program, which is not supported; "
            "use a token (kubectl create token) or a client certificate"
        )
    if not cluster.server.startswith(("http://", "https://")):
        raise AccessError(f"{path}: server must begin with https://, not {cluster.server!r}")
    ca = _file(path, cluster.certificate_authority, cluster.certificate_authority_data)
    certificate = _file(path, user.client_certificate, user.client_certificate_data)
    key = _file(path, user.client_key, user.client_key_data)
    if (certificate is None) != (key is None):
        raise AccessError(f"{path}: user {context.user!r} needs both client-certificate and client-key, or neither")
    pair = (certificate, key) if certificate is not None and key is not None else None
    basic = base64.b64encode(f"{user.username}:{user.password}".encode()).decode() if user.username else ""
    token_file = path.parent / user.token_file if user.token_file else None
    trust = Trust(ca, pair, insecure=cluster.insecure_skip_tls_verify)
    return Access(cluster.server.rstrip("/"), trust, user.token, token_file, basic, cluster.tls_server_name)


def _file(config: Path, name: str, data: str) -> Path | None:
    """The file of a name beside the kubeconfig, or one in memory with what stands in the kubeconfig itself."""
    if not data:
        return config.parent / name if name else None
    try:
        content = base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise AccessError(f"{config}: a field that ends in -data must be Base64: {error}") from error
    # OpenSSL reads certificates and keys from files alone. It stays open for as long as the process lives.
    descriptor = os.memfd_create("bmcsim-kubeconfig")
    os.write(descriptor, content)
    return Path(f"/proc/self/fd/{descriptor}")
