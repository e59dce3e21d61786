"""What the chart renders, kept: each profile, and values for what no profile has. `python -m tests.deploy --update`
renders them anew; read the difference before it is committed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.deploy import helm

FILES = Path(__file__).parent / "golden"

CASES: Mapping[str, Sequence[str]] = {
    **{path.stem: ["-f", str(path)] for path in helm.profiles()},
    "default": [],
    "everything": ["-f", str(FILES.parent / "everything.yaml")],
    "bmc-proxy": ["-f", str(helm.VALUES / "scale-4500-proxy.yaml"), "--set", "bmcProxy.enabled=true"],
    "shards": ["-f", str(FILES.parent / "shards.yaml")],
    "dhcp-relay": ["-f", str(FILES.parent / "dhcp-relay.yaml")],
}


def path(name: str) -> Path:
    """Where a case is kept."""
    return FILES / f"{name}.yaml"


def update() -> list[str]:
    """Render all anew. Returns those that changed."""
    FILES.mkdir(exist_ok=True)
    changed = []
    for name, arguments in CASES.items():
        text = helm.template(*arguments)
        if not path(name).is_file() or path(name).read_text() != text:
            path(name).write_text(text)
            changed.append(name)
    for stale in FILES.glob("*.yaml"):
        if stale.stem not in CASES:
            stale.unlink()
            changed.append(stale.stem)
    return changed
