"""`bmcsim mat`: what machine-a-tron's command line, environment and file mean, as a `bmcsim serve`.

It is also behind machine-a-tron's path in the image, so that an installation changes its image and nothing else.
"""

import logging
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import click

from bmcsim.cli import logs
from bmcsim.cli.logs import LogOptions
from bmcsim.cli.nico import NicoOptions, nico_options
from bmcsim.cli.serve import serve
from bmcsim.edges.http.tls import CERTIFICATE, KEY
from bmcsim.edges.nico.certificates import NicoError, root_of
from bmcsim.fleet import config as fleet_config
from bmcsim.fleet import mat_import
from bmcsim.fleet.config import FleetConfig
from bmcsim.fleet.mat_config import MatConfig
from bmcsim.fleet.registry import DuplicateBmc
from bmcsim.fleet.store import StateError
from bmcsim.fleet.tables import ConfigError
from bmcsim.tree.source import ProfileError

OWN_FOLDER = "bmcsim"
"""In the persist_dir."""

_LEVELS = {
    "trace": "debug", "debug": "debug", "info": "info", "warn": "warning", "warning": "warning", "error": "error",
    "off": "error",
}  # fmt: skip
_OWN_TARGETS = ("machine_a_tron", "bmc_mock", "bmcsim")
_PORT_OF_ADMIN = 9090


class Plan(NamedTuple):
    """arguments: of `bmcsim serve`. state: its directory in the persist_dir, None without. warnings: for the user."""

    arguments: list[str]
    state: Path | None
    warnings: list[str]


@click.command("mat", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", envvar="MACHINE_A_TRON_CONFIG_PATH", type=click.Path(path_type=Path), metavar="FILE")
@nico_options
def mat(file: Path, nico: NicoOptions) -> None:
    """Serve FILE, a mat.toml, as machine-a-tron does: with its environment, its certificates and its persist_dir.

    FILE may be in MACHINE_A_TRON_CONFIG_PATH. RUST_LOG is the log level. BMCSIM_SERVE_... are the options of
    `bmcsim serve` and go before the file.
    """
    try:
        config = fleet_config.load(file, mat=True)
        of_mat = config.mat or MatConfig()
        planned = plan(file, config, nico, os.environ, contained=in_container(os.environ), home=_home())
        _log(of_mat, level_of(os.environ.get("RUST_LOG", "")), os.environ)
        if planned.state is not None and of_mat.persist_dir is not None:
            planned = _taken_over(config, Path(of_mat.persist_dir), planned, planned.state)
    except (ConfigError, ProfileError, DuplicateBmc, StateError, NicoError) as error:
        raise click.ClickException(str(error)) from error
    for warning in planned.warnings:
        click.echo(f"warning: {warning}", err=True)
    serve.main(planned.arguments, prog_name="bmcsim serve", auto_envvar_prefix="BMCSIM_SERVE")


def main() -> None:
    """What machine-a-tron's path runs."""
    mat(prog_name=Path(sys.argv[0]).name)


def in_container(environ: Mapping[str, str], root: Path = Path("/")) -> bool:
    """Whether this is a container: Kubernetes, Docker, Podman and our own image say so."""
    if "KUBERNETES_SERVICE_HOST" in environ or environ.get("container"):
        return True
    return (root / ".dockerenv").exists() or (root / "run/.containerenv").exists()


def level_of(rust_log: str) -> str:
    """The log level that directives such as 'info,machine_a_tron=debug' mean for us: the one of machine-a-tron's own
    modules, else the one for all, else info."""
    general = own = ""
    for directive in rust_log.lower().split(","):
        target, is_target, level = directive.strip().rpartition("=")
        if level not in _LEVELS:
            continue
        if not is_target:
            general = level
        elif re.split(r"::|\[", target)[0] in _OWN_TARGETS:
            own = level
    return _LEVELS[own or general or "info"]


def plan(
    file: Path, config: FleetConfig, nico: NicoOptions, environ: Mapping[str, str], *, contained: bool, home: Path
) -> Plan:
    """How to serve a file. contained: this is a container. home: may have nico_api_cli.json. Raises NicoError.

    All addresses are listened on where the file says that one listener serves all BMCs, and in a container, where
    loopback would reach nobody. Newer files do not say it, since it is always so. Elsewhere loopback is enough.
    """
    of_mat = config.mat or MatConfig()
    arguments, warnings = [str(file), "--mat"], []
    everywhere = contained or bool(of_mat.single)
    if everywhere and not (environ.get("BMCSIM_SERVE_LISTEN") or config.listen):
        arguments += ["--listen", f"0.0.0.0:{config.port}"]
    if of_mat.single is False:
        warnings.append(
            f"{file}: use_single_bmc_mock: one listener serves all BMCs here, also with false; "
            "interface gets no addresses, so route those of the BMCs to this machine"
        )
    if contained and not (environ.get("BMCSIM_SERVE_ADMIN") or config.admin):
        arguments += ["--admin", f"0.0.0.0:{_PORT_OF_ADMIN}"]
    arguments += _certificates(of_mat, nico, environ, home, warnings)
    state = None
    given = environ.get("BMCSIM_SERVE_STATE_DIR") or config.state_dir
    if given is None and of_mat.persist_dir is not None:
        state = Path(of_mat.persist_dir) / OWN_FOLDER
        if _writable(state):
            arguments += ["--state-dir", str(state)]
        else:
            warnings.append(
                f"persist_dir: {of_mat.persist_dir}: is not writable for user {os.geteuid()}, so a restart forgets "
                "what BMCs changed; in Kubernetes set the pod's securityContext.fsGroup to that of the image, 65532"
            )
    options = {"--forge-root-ca-path": nico.forge_root_ca_path, "--client-cert-path": nico.client_cert_path}
    options["--client-key-path"] = nico.client_key_path
    arguments += [text for option, path in options.items() if path is not None for text in (option, str(path))]
    if nico.strict_registration:
        arguments.append("--strict-registration")
    return Plan(arguments, state, warnings)


def _certificates(
    of_mat: MatConfig, nico: NicoOptions, environ: Mapping[str, str], home: Path, warnings: list[str]
) -> list[str]:
    """Options for the certificate of the Redfish port."""
    if environ.get("BMCSIM_SERVE_TLS_CERT") or environ.get("BMCSIM_SERVE_NO_TLS", "0") not in ("", "0"):
        return []
    named = of_mat.certs_dir
    directory = Path(named) if named is not None else root_of(nico.forge_root_ca_path, home).parent
    certificate, key = directory / CERTIFICATE, directory / KEY
    if named is None and not (certificate.is_file() and key.is_file()):
        warnings.append(
            f"{directory}: has no {CERTIFICATE} and {KEY}, so BMCs show a certificate that bmcsim made; "
            "bmc_mock_certs_dir names the directory of yours"
        )
        return []
    return ["--tls-cert", str(certificate), "--tls-key", str(key)]


def _writable(directory: Path) -> bool:
    """Whether a directory can be used, or made."""
    there = directory
    while not there.exists() and there != there.parent:
        there = there.parent
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _taken_over(config: FleetConfig, persisted: Path, planned: Plan, state: Path) -> Plan:
    """What to do with what machine-a-tron kept: take it over at the first start. Raises StateError where a machine
    would become another one."""
    if not mat_import.has_machines(persisted) or (state.is_dir() and any(state.iterdir())):
        return planned
    saved, unknown = mat_import.read(persisted)
    try:
        matched = mat_import.match(config, saved, unknown, ignore_unknown=True)
    except StateError as error:
        away = f"move {persisted / mat_import.FOLDER} away to start these machines as new ones"
        raise StateError(f"{error}\n{away}") from error
    if "--state-dir" in planned.arguments:
        click.echo(
            "\n".join([f"{persisted}: was machine-a-tron's", *mat_import.take_over(config, matched, state).lines()])
        )
    return planned


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


# the log


def _log(of_mat: MatConfig, level: str, environ: Mapping[str, str]) -> None:
    """Log as the file says; the environment variables for the format go before it, as for `bmcsim serve`. Raises
    ConfigError for a file that cannot be written."""
    handler: logging.Handler = logging.StreamHandler(sys.stdout)
    if of_mat.log_file is not None:
        try:
            handler = logging.FileHandler(of_mat.log_file)
        except OSError as error:
            raise ConfigError(f"log_file: {of_mat.log_file}: cannot be written: {error.strerror}") from error
    given = environ.get("BMCSIM_SERVE_LOG_FORMAT") or environ.get("BMCSIM_LOG_FORMAT") or ""
    in_file = "logfmt" if of_mat.log_format == "logfmt" else "text"
    logs.configure(LogOptions(given if given in logs.FORMATS else in_file, level), handler)
