"""`bmcsim reset`: a simulated site as it was before a run."""

import re
import time

import click

from bmcsim.cli.operating import at_terminal
from bmcsim.cli.remote import option
from bmcsim.deploy import database, teardown
from bmcsim.deploy.teardown import Command, Site, Step
from bmcsim.edges.programs import Done, ProgramError, run

_PAUSE = 5.0
_QUESTION = 15.0


class _StepError(Exception):
    """A step did not work; the text says why."""


@click.group("reset")
def reset_group() -> None:
    """Make something as it was before a run."""


@reset_group.command("site")
@option("--yes", "-y", is_flag=True, help="Do it. Without this the steps are only printed.")
@option("--kubeconfig", default="", metavar="FILE", help="Passed to kubectl and helm.")
@option("--context", default="", metavar="NAME", help="The cluster. Without it the current one, after a question.")
@option("--namespace", "-n", default=teardown.NAMESPACE, show_default=True, help="Of the simulator.")
@option("--release", default=teardown.RELEASE, show_default=True, help="Of the simulator.")
@option("--delete-namespace", is_flag=True, help="Delete the namespace with all that is in it.")
@option("--keep-db", is_flag=True, help="Leave NICo's database as it is.")
@option("--keep-nico-core-config", is_flag=True, help="Leave NICo's configuration as it is.")
@option("--keep-vault-cred", is_flag=True, help="Leave the passwords in Vault.")
@option("--keep-dpf-crs", is_flag=True, help="Leave DPF's objects.")
@option("--also-truncate", multiple=True, metavar="TABLE", help="A further table of NICo's to empty.")
@option("--database", "database_name", default=database.DATABASE, show_default=True, help="NICo's database.")
@option("--postgres-namespace", default=database.NAMESPACE, show_default=True, help="Of the database.")
@option("--postgres-selector", default=database.PRIMARY, show_default=True, help="Labels of its pod.")
@option("--postgres-container", default=database.CONTAINER, show_default=True, help="Container of its pod.")
@option("--nico-namespace", default=teardown.CORE_NAMESPACE, show_default=True, help="Of nico-api.")
@option("--dpf-namespace", default=teardown.DPF_NAMESPACE, show_default=True, help="Of DPF's objects.")
@option("--vault-namespace", default=teardown.VAULT_NAMESPACE, show_default=True, help="Of the pod vault-0.")
@option("--vault-mount", default=teardown.VAULT_MOUNT, show_default=True, help="Of NICo's passwords.")
def site(
    yes: bool,
    kubeconfig: str,
    context: str,
    namespace: str,
    release: str,
    delete_namespace: bool,
    keep_db: bool,
    keep_nico_core_config: bool,
    keep_vault_cred: bool,
    keep_dpf_crs: bool,
    also_truncate: tuple[str, ...],
    database_name: str,
    postgres_namespace: str,
    postgres_selector: str,
    postgres_container: str,
    nico_namespace: str,
    dpf_namespace: str,
    vault_namespace: str,
    vault_mount: str,
) -> None:
    """Take the simulator out of a cluster, and all that NICo knows of its machines.

    Only for sites where every machine is a simulated one. Without --yes the steps are printed as commands, and nothing
    is asked or done. With --yes they are carried out one after the other; the first one that fails ends it and is
    named. What is done already does no harm a second time.
    """
    wanted = Site(
        kubeconfig=kubeconfig,
        context=_checked(kubeconfig, context) if yes else context,
        release=release,
        namespace=namespace,
        delete_namespace=delete_namespace,
        clear_database=not keep_db,
        database_name=database_name,
        database_namespace=postgres_namespace,
        database_selector=postgres_selector,
        database_container=postgres_container,
        tables=also_truncate,
        dpf_crs=not keep_dpf_crs,
        dpf_namespace=dpf_namespace,
        core_config=not keep_nico_core_config,
        core_namespace=nico_namespace,
        vault=not keep_vault_cred,
        vault_namespace=vault_namespace,
        vault_mount=vault_mount,
    )
    try:
        steps = teardown.steps(wanted)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not yes:
        click.echo("\n\n".join(map(_text, steps)))
        click.echo("nothing was done: --yes carries this out", err=True)
        return
    for number, step in enumerate(steps, 1):
        click.echo(f"{number}/{len(steps)} {step.name}: {step.text}")
        try:
            click.echo(f"  {_carried_out(step)}")
        except _StepError as error:
            raise click.ClickException(
                f"step {step.name} failed: {error}. What comes after it was not done; the same command begins again."
            ) from error


def _text(step: Step) -> str:
    lines = [f"# {step.name}: {step.text}"]
    if step.unless is not None:
        lines.append(f"# not where {step.unless.why}: {step.unless.command.shell()}")
    return "\n".join([*lines, *[command.shell() for command in step.commands]])


def _checked(kubeconfig: str, context: str) -> str:
    """The context that is meant. Raises ClickException where there is none or nobody agrees."""
    flags = teardown.kubectl_flags(kubeconfig, "")
    try:
        if context:
            known = _said(["kubectl", *flags, "config", "get-contexts", "-o", "name"], _QUESTION).split()
            if context not in known:
                there = f"there are {', '.join(known)}" if known else "there is none"
                raise click.UsageError(f"--context: kubectl knows no context {context!r}; {there}")
            return context
        current = _said(["kubectl", *flags, "config", "current-context"], _QUESTION).strip()
    except _StepError as error:
        raise click.ClickException(f"nothing was done: {error}") from error
    if not at_terminal():
        raise click.UsageError(f"--yes needs --context, such as --context {current}: there is no terminal to ask at")
    typed = click.prompt(
        f"This empties the site of context {current}. Type its name", default="", show_default=False, err=True
    )
    if typed != current:
        raise click.ClickException(f"nothing was done: that is not {current}")
    return current


def _carried_out(step: Step) -> str:
    """What became of a step. Raises _StepError."""
    if (unless := step.unless) is not None:
        said = _said(list(unless.command.arguments), unless.command.seconds)
        if re.search(unless.pattern, said, re.MULTILINE):
            return f"left out: {unless.why}"
    for command in step.commands:
        given = b""
        if command.source is not None and command.through is not None:
            said = _said(list(command.source.arguments), command.source.seconds)
            try:
                filtered = command.through.apply(said.encode())
            except ValueError as error:
                raise _StepError(str(error)) from error
            if filtered is None:
                return "nothing to do"
            given = filtered
        if (outcome := _run(command, given)) != "done":
            return outcome
    return "done"


def _run(command: Command, given: bytes) -> str:
    pod = ""
    if command.pod is not None:
        pods = _said(list(command.pod.arguments), command.pod.seconds).split()
        if not pods:
            raise _StepError(f"there is no pod to do it in: {command.pod.shell()}")
        pod = pods[0]
    for left in reversed(range(command.tries)):
        done = _ended(command.resolved(pod), command.seconds, given)
        if done.code == 0:
            break
        if command.tolerates and re.search(command.tolerates, done.err):
            return "nothing to do"
        if not left:
            raise _StepError(done.why)
        click.echo(f"  once more: {done.why}", err=True)
        time.sleep(_PAUSE)
    said = done.out.decode(errors="replace").strip()
    if command.expects and said != command.expects:
        raise _StepError(f"it says {said[:200]!r}, and not {command.expects!r}")
    return "done"


def _said(arguments: list[str], seconds: float) -> str:
    done = _ended(arguments, seconds)
    if done.code != 0:
        raise _StepError(f"{arguments[0]}: {done.why}")
    return done.out.decode(errors="replace")


def _ended(arguments: list[str], seconds: float, given: bytes = b"") -> Done:
    try:
        return run(arguments, seconds, given)
    except ProgramError as error:
        raise _StepError(str(error)) from error
