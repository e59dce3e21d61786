"""The files of mutual TLS with NICo's API: where they are, and as whom they let the fleet speak.

The identity is the SPIFFE URI of the client certificate. NICo's RBAC knows machine-a-tron's; others may call `Version`
and nothing else.
"""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from cryptography import x509

SERVICE_ID = "machine-a-tron"
CLI_FILE = Path(".config/nico_api_cli.json")
"""In the home directory."""
MOUNTED = Path("/var/run/secrets/spiffe.io")
_MAX_FILE = 1024 * 1024
_SPIFFE = "spiffe://"


class NicoError(Exception):
    """NICo cannot be used as it is configured; the text says what would be right."""


class Files(NamedTuple):
    """root: certificates of authorities. certificate, key: of the client. All PEM."""

    root: Path
    certificate: Path
    key: Path


class Credentials(NamedTuple):
    """What is in the files, PEM. identity: the SPIFFE URI of the client certificate, '' where it has none."""

    root: bytes
    certificate: bytes
    key: bytes
    identity: str

    def __repr__(self) -> str:
        return f"Credentials({self.identity or 'no identity'})"


class _CliFile(msgspec.Struct):
    forge_root_ca_path: str | None = None
    nico_root_ca_path: str | None = None
    client_cert_path: str | None = None
    client_key_path: str | None = None


def find(root: Path | None, certificate: Path | None, key: Path | None, home: Path, mounted: Path = MOUNTED) -> Files:
    """Where the files are: as given, else as nico_api_cli.json says, else as Kubernetes mounts them.

    Raises NicoError.
    """
    if (certificate is None) != (key is None):
        raise NicoError("--client-cert-path and --client-key-path go together")
    said = _read_cli_file(home / CLI_FILE)
    if certificate is None and said.client_cert_path and said.client_key_path:
        certificate, key = Path(said.client_cert_path), Path(said.client_key_path)
    files = Files(_root(root, said, mounted), certificate or mounted / "tls.crt", key or mounted / "tls.key")
    for option, path in zip(("--forge-root-ca-path", "--client-cert-path", "--client-key-path"), files, strict=True):
        if not path.is_file():
            raise NicoError(
                f"{path}: there is no such file; name it with {option}, or in {home / CLI_FILE} "
                "(carbide_api_url starts with https, which needs a client certificate)"
            )
    return files


def root_of(root: Path | None, home: Path, mounted: Path = MOUNTED) -> Path:
    """Where the certificates of authorities are, by the same rules, whether they are there or not. Raises NicoError."""
    return _root(root, _read_cli_file(home / CLI_FILE), mounted)


def _root(root: Path | None, said: _CliFile, mounted: Path) -> Path:
    named = said.forge_root_ca_path or said.nico_root_ca_path
    return root or (Path(named) if named else mounted / "ca.crt")


def _read_cli_file(path: Path) -> _CliFile:
    try:
        return msgspec.json.decode(_read(path), type=_CliFile)
    except FileNotFoundError:
        return _CliFile()
    except OSError as error:
        raise NicoError(f"{path}: cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise NicoError(f"{path}: {error}; right is {{'forge_root_ca_path': ...}} and so on") from error


def _read(path: Path) -> bytes:
    """Raises OSError and NicoError."""
    with path.open("rb") as file:
        data = file.read(_MAX_FILE + 1)
    if len(data) > _MAX_FILE:
        raise NicoError(f"{path}: larger than {_MAX_FILE} bytes")
    return data


def read(files: Files) -> Credentials:
    """Raises NicoError, also for a certificate and a key that do not belong together."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    root, certificate, key = (_read_named(path) for path in files)
    try:
        x509.load_pem_x509_certificates(root)
    except ValueError as error:
        raise NicoError(f"{files.root}: is no PEM file with certificates") from error
    try:
        leaf = x509.load_pem_x509_certificates(certificate)[0]
    except ValueError as error:
        raise NicoError(f"{files.certificate}: is no PEM file with a certificate") from error
    try:
        private = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError) as error:
        # What the library says could repeat the file.
        raise NicoError(f"{files.key}: is no PEM file with a key without a passphrase") from error
    if private.public_key() != leaf.public_key():
        raise NicoError(f"{files.key}: is not the key of {files.certificate}")
    return Credentials(root, certificate, key, spiffe_id(leaf))


def _read_named(path: Path) -> bytes:
    try:
        return _read(path)
    except OSError as error:
        raise NicoError(f"{path}: cannot be read: {error.strerror}") from error


def spiffe_id(certificate: "x509.Certificate") -> str:
    """The SPIFFE URI among a certificate's names, '' for none."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ""
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    return next((uri for uri in uris if uri.startswith(_SPIFFE)), "")


def doubt(identity: str) -> str:
    """Why NICo will refuse an identity, '' if it will not."""
    if identity.rpartition("/")[2] == SERVICE_ID:
        return ""
    return (
        f"the client certificate's identity is {identity or 'none (it has no SPIFFE URI)'}, and NICo lets "
        f"{SERVICE_ID} alone register machines and ask for addresses; its SPIFFE URI has to end in /{SERVICE_ID}"
    )
