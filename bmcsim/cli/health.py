"""`bmcsim health`: whether a server lives, for container runtimes. It imports little, since it is run every few
seconds."""

import http.client

import click

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@click.command()
@click.option(
    "--admin",
    envvar="BMCSIM_SERVE_ADMIN",
    default="127.0.0.1:9090",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Admin listener of the server, as --admin of `bmcsim serve`; of 0.0.0.0 it is asked on loopback.",
)
@click.option("--ready", is_flag=True, help="Ask whether every BMC is there: /readyz in place of /healthz.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, 60, min_open=True),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the answer.",
)
def health(admin: str, ready: bool, timeout: float) -> None:
    """Ask a server whether it lives. Exit code 0 if it says so, 1 if not."""
    if admin == "off":
        raise click.ClickException("there is no admin listener (BMCSIM_SERVE_ADMIN is off), so nobody can be asked")
    host, port = _address(admin)
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    path = "/readyz" if ready else "/healthz"
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise click.ClickException(f"http://{admin}{path}: {error or type(error).__name__}") from error
    finally:
        connection.close()
    if status != http.HTTPStatus.OK:
        raise click.ClickException(f"http://{admin}{path}: {status}")
    click.echo("ok")


def _address(text: str) -> tuple[str, int]:
    """Where to ask a listener that is configured so. Raises BadParameter."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (host and port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65536):
        raise click.BadParameter(f"{text!r} must be ADDRESS:PORT, such as 127.0.0.1:9090.", param_hint="'--admin'")
    return _WILDCARDS.get(host, host), int(port)
