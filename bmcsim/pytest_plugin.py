"""pytest fixtures of bmcsim, which pytest finds by itself. Nothing of bmcsim is imported before a test asks for one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from bmcsim.testing import Fleet


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "bmcsim(**options): the fleet of bmcsim_fleet; see bmcsim.testing.Fleet")


@pytest.fixture
def bmcsim_fleet_factory() -> "Iterator[Callable[..., Fleet]]":
    """Makes fleets: called with the arguments of `bmcsim.testing.Fleet`. They are closed after the test."""
    from bmcsim.testing import Fleet

    with ExitStack() as opened:

        def make(*arguments: Any, **options: Any) -> Fleet:
            return opened.enter_context(Fleet(*arguments, **options))

        yield make


@pytest.fixture
def bmcsim_fleet(request: pytest.FixtureRequest, bmcsim_fleet_factory: "Callable[..., Fleet]") -> "Fleet":
    """A fleet: one host, or what `@pytest.mark.bmcsim(hosts=2, ...)` says. The marker nearest to the test counts."""
    marker = request.node.get_closest_marker("bmcsim")
    if marker is None:
        return bmcsim_fleet_factory()
    return bmcsim_fleet_factory(*marker.args, **marker.kwargs)
