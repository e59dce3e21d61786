"""Boot order: which option of a system's firmware is tried first."""

from collections.abc import Sequence


def completed(wanted: Sequence[str], present: Sequence[str]) -> list[str]:
    """The whole order after a client asked for one: what it names goes first, the rest follows as it was."""
    return [*wanted, *(option for option in present if option not in wanted)]


def repeated(wanted: Sequence[str]) -> str | None:
    """The first option that an order names twice, None where it is fine."""
    seen: set[str] = set()
    for option in wanted:
        if option in seen:
            return option
        seen.add(option)
    return None
