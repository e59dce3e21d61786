"""`bmcsim fleet credentials`: passwords of accounts. None of them is ever an argument, which others could see."""

import os
from typing import IO

import click

from bmcsim.cli.operating import Over, at_terminal, change_options
from bmcsim.cli.remote import option

PASSWORD_VARIABLE = "BMCSIM_NEW_PASSWORD"
_MAX_FILE = 4096

account_option = option("--account", default="", metavar="NAME", help="Id or user name.  [default: the first account]")


@click.group("credentials")
def credentials() -> None:
    """Set passwords of BMCs."""


@credentials.command("set")
@account_option
@option("--password-file", type=click.File("rb"), metavar="FILE", help="File with the password; - for standard input.")
@change_options
def set_password(over: Over, account: str, password_file: IO[bytes] | None) -> None:
    """Give an account a password, as if an administrator of the BMC had set it.

    The password is in --password-file or in BMCSIM_NEW_PASSWORD, or is asked for. {id}, {mac} and {serial} in it stand
    for those of the BMC. Rules of the BMC (length, history) count.
    """
    operation = {"type": "set_password", "account": account}
    if not over.dry_run:
        operation["password"] = _password(password_file)
    over.run(operation, "set a password of")


@credentials.command("factory")
@account_option
@change_options
def factory(over: Over, account: str) -> None:
    """Give an account its factory password."""
    over.run({"type": "set_password", "account": account, "factory": True}, "set the factory password of")


def _password(file: IO[bytes] | None) -> str:
    if file is not None:
        data = file.read(_MAX_FILE + 1)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise click.UsageError(f"--password-file {file.name} must be UTF-8") from error
        password = text.removesuffix("\n").removesuffix("\r")
        if not password or len(data) > _MAX_FILE or "\n" in password:
            raise click.UsageError(f"--password-file {file.name} must have one line, the password")
        return password
    if password := os.environ.get(PASSWORD_VARIABLE, ""):
        return password
    if not at_terminal():
        raise click.UsageError(f"say --password-file FILE, or set {PASSWORD_VARIABLE}: there is no terminal to ask at")
    asked: str = click.prompt("New password", hide_input=True, confirmation_prompt=True, err=True)
    return asked
