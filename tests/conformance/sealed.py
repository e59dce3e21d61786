"""The inside of a sealed run: `unshare -rn python -m tests.conformance.sealed JOB.json`.

In a network namespace of its own there is loopback and nothing else, so nothing that a tool sends (SSDP, events to
private addresses) leaves the machine. A fresh service is started, the tool is run on it, both end.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from tests.conformance.tools import TOOLS
from tests.serving import serving

_NETWORK = (
    ("ip", "link", "set", "lo", "up"),
    ("ip", "link", "set", "lo", "multicast", "on"),
    ("ip", "route", "add", "239.0.0.0/8", "dev", "lo"),
)
_STEERS_REQUESTS = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")  # requests would check certificates in spite of options


class Job(msgspec.Struct, frozen=True):
    """A tool against a target. folder: of everything that is written; csdl: of the schemas.

    outside: the network namespace that it must not run in.
    """

    profile: str
    tool: str
    address: str
    user: str
    password: str
    arguments: tuple[str, ...]
    folder: str
    csdl: str
    outside: str


def namespace() -> str:
    """The network namespace of this process."""
    return str(Path("/proc/self/ns/net").readlink())


def why_not() -> str:
    """Why this machine cannot seal a run, '' if it can."""
    for program in ("unshare", "ip"):
        if shutil.which(program) is None:
            return f"the program {program} is not there"
    command = ["unshare", "-rn", "ip", "link", "set", "lo", "up"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"no network namespaces here (unshare -rn: {tried.stderr.strip()})"


def main(job: Job) -> int:
    """Run the tool, what it prints goes to FOLDER/printed.txt; its exit status, 124 when it took too long."""
    if namespace() == job.outside:
        print("this is not a network namespace of its own", file=sys.stderr)
        return 2
    for command in _NETWORK:
        subprocess.run(command, check=True)
    for name in _STEERS_REQUESTS:
        os.environ.pop(name, None)
    folder, tool = Path(job.folder), TOOLS[job.tool]
    with serving(folder / "service.log", *job.arguments) as service, (folder / "printed.txt").open("w") as printed:
        command_line = tool.command_line(
            Path(sys.executable).parent,
            url=service.url(job.address),
            user=job.user,
            password=job.password,
            report=str(folder / "report"),
            csdl=job.csdl,
        )
        try:
            done = subprocess.run(
                command_line, cwd=folder, stdout=printed, stderr=subprocess.STDOUT, timeout=tool.timeout, check=False
            )
        except subprocess.TimeoutExpired:
            return 124
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Job)))
