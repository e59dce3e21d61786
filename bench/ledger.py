"""What a BMC must remember: every value that it was told, as far as its answers say what became of that.

A write has three outcomes. Acknowledged, the new value must stay; refused, the old one must; without an answer either
is right, until a later read says which.
"""

from collections.abc import Collection
from typing import Generic, Literal, TypeVar

Outcome = Literal["done", "refused", "open"]

Value = TypeVar("Value")


class Fact(Generic[Value]):
    """One value. may: all that it may be now, the oldest first; never empty."""

    __slots__ = ("may", "name")

    def __init__(self, name: str, value: Value) -> None:
        self.name = name
        self.may = [value]

    @property
    def sure(self) -> bool:
        """Whether it is known."""
        return len(self.may) == 1

    @property
    def latest(self) -> Value:
        return self.may[-1]

    def told(self, value: Value, outcome: Outcome) -> None:
        """A write of `value` ended so."""
        if outcome == "done":
            self.may = [value]
        elif outcome == "open" and value not in self.may:
            self.may.append(value)

    def seen(self, value: Value) -> str:
        """What is wrong with reading `value`, empty if nothing is; it is what is known from then on."""
        if value not in self.may:
            return f"{self.name} is {value!r}, where it was told {' or '.join(map(repr, self.may))}"
        self.may = [value]
        return ""


class Things:
    """Things of one kind that clients make and delete, by a name that the client gives each."""

    __slots__ = ("kind", "maybe", "there")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.there: set[str] = set()
        self.maybe: set[str] = set()

    def made(self, name: str, outcome: Outcome) -> None:
        """The making of a new thing ended so."""
        if outcome == "done":
            self.there.add(name)
        elif outcome == "open":
            self.maybe.add(name)

    def deleted(self, name: str, outcome: Outcome) -> None:
        """A deletion ended so."""
        if outcome != "refused":
            self.there.discard(name)
            self.maybe.discard(name)
        if outcome == "open":
            self.maybe.add(name)

    def seen(self, names: Collection[str]) -> str:
        """What is wrong with finding these, empty if nothing is; they are what is known from then on."""
        found = set(names)
        lost, invented = self.there - found, found - self.there - self.maybe
        doubled = len(names) - len(found)
        if lost or invented or doubled:
            return f"{self.kind}: lost {sorted(lost)}, invented {sorted(invented)}, {doubled} twice"
        self.there, self.maybe = found, set()
        return ""
