"""The clock of a test."""

from bmcsim.core.clock import Moment


class StepClock:
    """A clock that moves only when told to.

    `skip` moves real time along with the hardware's, so that the driver fires each timer at its own instant. together:
    False where hardware takes no time: then `skip` is of the hardware alone.
    """

    def __init__(self, wall: float, scale: float, *, together: bool) -> None:
        self._wall, self._scale, self._together = wall, scale, together
        self._mono = self._hardware = 0.0

    def now(self) -> Moment:
        return Moment(self._mono, self._wall, self._hardware, self._scale)

    def skip(self, seconds: float) -> None:
        """Move the hardware's time line forward."""
        self._hardware += seconds
        if self._together:
            self._pass(seconds / self._scale)

    def rescale(self, scale: float) -> None:
        """Let the hardware's time line run at another speed from now on."""
        self._scale = scale

    def advance(self, seconds: float) -> None:
        """Move all time lines forward. seconds: real ones."""
        self._hardware += seconds * self._scale
        self._pass(seconds)

    def _pass(self, seconds: float) -> None:
        self._mono += seconds
        self._wall += seconds
