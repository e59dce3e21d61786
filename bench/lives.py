"""A bmcsim with several lives: killed and started again on the same ports, with the same state directory."""

from collections.abc import Sequence
from contextlib import ExitStack

from bench.server import Server, Settings, Started, bmcsim, free_ports

_COMPLAINTS = ("Traceback", " ERROR ", " CRITICAL ", "Exception ignored", "was never awaited", "ResourceWarning")


class Lives:
    """count: how often it was started. running: whether it is ready."""

    def __init__(self, settings: Settings, options: Sequence[str]) -> None:
        self.ports = free_ports(2)
        self.count = 0
        self.running = False
        self._settings, self._options = settings, options
        self._life = ExitStack()
        self._started: Started | None = None

    @property
    def port(self) -> int:
        return self.ports[0]

    @property
    def admin_port(self) -> int:
        return self.ports[1]

    @property
    def server(self) -> Server:
        """The process of the present life, or of the last one."""
        if self._started is None:
            raise RuntimeError("it was never started")
        return self._started.server

    def start(self) -> Started:
        """Start it and return when every BMC is ready, which blocks. Raises BenchError."""
        self.count += 1
        self._started = self._life.enter_context(
            bmcsim(self._settings, options=self._options, ports=self.ports, log=self._log(self.count))
        )
        self.running = True
        return self._started

    def kill(self) -> None:
        """End it as a crash would."""
        self.running = False
        self.server.kill()
        self._life.close()

    def stop(self) -> None:
        """End it politely."""
        self.running = False
        self._life.close()

    def complaints(self) -> list[str]:
        """Lines of all logs that no run may leave."""
        return [
            f"{self._log(life)}: {line}"
            for life in range(1, self.count + 1)
            for line in self._lines(life)
            if any(word in line for word in _COMPLAINTS)
        ]

    def log(self) -> str:
        """What was logged in all lives."""
        return "".join(
            f"--- life {life}\n" + "".join(f"{line}\n" for line in self._lines(life))
            for life in range(1, self.count + 1)
        )

    def _lines(self, life: int) -> list[str]:
        return (self._settings.work / self._log(life)).read_text(errors="replace").splitlines()

    @staticmethod
    def _log(life: int) -> str:
        return f"bmcsim-{life}.log"
