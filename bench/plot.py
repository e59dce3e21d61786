"""Plots as PNG where matplotlib is installed; it is no dependency."""

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MISSING = "no plot: matplotlib is not installed (requirements-bench.lock has it: make load)"

Curve = tuple[Sequence[float], Sequence[float]]
"""Where its points are: x and y."""


def panels(path: Path, label: str, times: Sequence[float], series: Mapping[str, Sequence[float]]) -> bool:
    """One panel for each series, one above the other, over the same times. False where there is no matplotlib."""
    pyplot = _pyplot()
    if pyplot is None:
        return False
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


def curves(path: Path, label: str, panels: Mapping[str, Mapping[str, Curve]]) -> bool:
    """Two panels in each row, with curves by name. False where there is no matplotlib."""
    pyplot = _pyplot()
    if pyplot is None:
        return False
    figure, axes = pyplot.subplots(-(-len(panels) // 2), 2, sharex=True, figsize=(9, 5), squeeze=False)
    for (name, drawn), axis in zip(panels.items(), axes.flat, strict=False):
        for title, (across, up) in drawn.items():
            axis.plot(across, up, marker="o", linewidth=1, label=title)
        axis.set_ylabel(name, fontsize=8)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel(label)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
    return True


def _pyplot() -> Any | None:
    try:
        matplotlib: Any = importlib.import_module("matplotlib")
    except ImportError:
        return None
    matplotlib.use("Agg")
    return importlib.import_module("matplotlib.pyplot")
