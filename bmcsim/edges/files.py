"""Files that may change while they are used: written anew, renamed, or behind a symbolic link that is moved, as
Kubernetes does it."""

from pathlib import Path

Seen = tuple[tuple[int, int, int, int], ...]


def look(files: tuple[Path, ...]) -> Seen:
    """What tells the present content of files from a former one; () where one is not there."""
    try:
        facts = [path.stat() for path in files]
    except OSError:
        return ()
    return tuple([(one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns) for one in facts])
