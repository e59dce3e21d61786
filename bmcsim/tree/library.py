"""What comes with bmcsim beside its profiles: named YAML files in a folder of the profiles' directory."""

from bmcsim.tree.profile import directories
from bmcsim.tree.source import ProfileError, Source


def names(folder: str) -> list[str]:
    """The names of the files of a folder, sorted."""
    return sorted({path.stem for top in directories() for path in (top / folder).glob("*.yaml")})


def read(folder: str, name: str, what: str) -> Source:
    """A file of a folder. what: as messages call it. Raises ProfileError when there is none of that name."""
    if name not in names(folder):
        raise ProfileError(f"no {what} {name!r}; there are: {', '.join(names(folder))}")
    return Source(next(path for top in directories() if (path := top / folder / f"{name}.yaml").is_file()))
