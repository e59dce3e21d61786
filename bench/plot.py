"""Plots as PNG where matplotlib is installed; it is no dependency."""

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def panels(path: Path, label: str, times: Sequence[float], series: Mapping[str, Sequence[float]]) -> bool:
    """One panel for each series, one above the other, over the same times. False where there is no matplotlib."""
    try:
        matplotlib: Any = importlib.import_module("matplotlib")
    except ImportError:
        return False
    matplotlib.use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(len(series), 1, sharex=True, figsize=(9, 2 * len(series)), squeeze=False)
    for (name, values), (axis,) in zip(series.items(), axes, strict=True):
        axis.plot(times, values, linewidth=0.8)
        axis.set_ylabel(name, fontsize=8)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[-1][0].set_xlabel(label)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return True
