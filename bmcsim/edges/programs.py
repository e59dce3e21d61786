"""Other programs, such as kubectl: run one to its end, within a time limit and a size."""

import subprocess
from collections.abc import Sequence
from tempfile import TemporaryFile
from typing import NamedTuple

MAX_OUTPUT = 64 * 2**20


class ProgramError(Exception):
    """A program cannot be run, did not end in time, or said too much."""


class Done(NamedTuple):
    """How a program ended. code: its exit code, negative for a signal. out, err: what it said."""

    code: int
    out: bytes
    err: str

    @property
    def why(self) -> str:
        """The last line of its complaint, or else its exit code."""
        return self.err.strip().rpartition("\n")[2][:500] or f"exit code {self.code}"


def run(arguments: Sequence[str], timeout: float, given: bytes = b"") -> Done:
    """Run a program. timeout: seconds. given: on its standard input. Raises ProgramError."""
    program = arguments[0]
    with TemporaryFile() as source, TemporaryFile() as out, TemporaryFile() as err:
        source.write(given)
        source.seek(0)
        try:
            done = subprocess.run(arguments, stdin=source, stdout=out, stderr=err, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise ProgramError(f"{program} did not answer within {timeout:g} s") from None
        except OSError as error:
            raise ProgramError(f"{program} cannot be run: {error.strerror}") from error
        out.seek(0)
        err.seek(0)
        said, complaint = out.read(MAX_OUTPUT + 1), err.read(MAX_OUTPUT).decode(errors="replace")
    if len(said) > MAX_OUTPUT:
        raise ProgramError(f"{program} says more than {MAX_OUTPUT} bytes")
    return Done(done.returncode, said, complaint)
