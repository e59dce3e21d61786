"""`python -m tests.protos`: the code of every .proto file of bmcsim, beside it."""

import importlib.resources
import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent


def sources() -> list[Path]:
    """All .proto files."""
    return sorted((ROOT / "bmcsim").rglob("*.proto"))


def generate(into: Path) -> None:
    """Compile all of them to modules and stubs below a directory, by their paths. Raises RuntimeError."""
    own = importlib.resources.files("grpc_tools") / "_proto"
    files = [str(path.relative_to(ROOT)) for path in sources()]
    arguments = ["protoc", f"-I{ROOT}", f"-I{own}", f"--python_out={into}", f"--pyi_out={into}", *files]
    if status := protoc.main(arguments):
        raise RuntimeError(f"protoc ended with status {status}")


if __name__ == "__main__":
    generate(ROOT)
    sys.exit(0)
