"""Draws the figures, which come as JSON through stdin: ``python pictures.py FILE``. Runs where matplotlib is."""

from __future__ import annotations

import json
import sys
from typing import Any, Final, NamedTuple

OURS: Final = "#2a6f97"
OTHERS: Final = "#b0b7bf"
LIMIT: Final = "#c1121f"


class Bar(NamedTuple):
    label: str
    value: float
    is_ours: bool = True


class Panel(NamedTuple):
    """``mark`` is where the line stands, ``said`` what it means."""

    title: str
    bars: list[Bar]
    mark: float
    said: str


def panels(figures: list[dict[str, Any]]) -> list[Panel]:
    """Those whose figures are there: rows of one heading follow it, indented."""
    found: dict[str, float] = {}
    heading = ""
    for figure in figures:
        name = figure["name"]
        heading = heading if name.startswith("  ") else name
        if figure["measured"] is not None:
            found[name if name == heading else f"{heading}|{name.strip()}"] = figure["measured"]
    return [panel for panel in (_peer(found), _starts(found), _rates(found)) if panel.bars]


def _peer(found: dict[str, float]) -> Panel:
    names = {
        "CPU": "CPU of their calls, of 20 bare ones|of Powertools' batch and idempotency",
        "time": "time of ten records, of one record's|of Powertools' batch and idempotency",
        "price": "dollars a million stages|of Powertools' batch and idempotency",
        "price, no lease": "dollars a million stages|without a lease, of the same",
    }
    bars = [Bar(label, found[name]) for label, name in names.items() if name in found]
    return Panel("Events of ten records,\nof Powertools' batch and idempotency", bars, 1, "Powertools")


def _starts(found: dict[str, float]) -> Panel:
    ours = found.get("CPU of a cold start")
    names = {
        "Powertools": "CPU of a cold start|of Powertools' batch and idempotency",
        "durable SDK": "CPU of a cold start|of the durable execution SDK",
    }
    bars = [] if ours is None else [Bar("flowguard", ours)]
    bars += [Bar(label, ours / found[name], False) for label, name in names.items() if ours and name in found]
    return Panel("CPU of a cold start,\nof bare clients and the same models", bars, 1, "bare")


def _rates(found: dict[str, float]) -> Panel:
    names = {f"events of {size}": f"messages a second, events of {size}, of bare calls" for size in (1, 10, 100)}
    bars = [Bar(label, found[name]) for label, name in names.items() if name in found]
    return Panel("Messages a second of one worker,\nof bare calls in the same batches", bars, 1, "bare")


def draw(shown: list[Panel], file: str) -> None:
    """One row of panels, as SVG; the same bytes for the same figures."""
    import matplotlib as mpl  # type: ignore[import-not-found]  # in an environment of its own

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "flowguard", "font.family": "sans-serif"})
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(shown), figsize=(4 * len(shown), 2.6), squeeze=False, layout="constrained")
    for place, panel in zip(axes[0], shown, strict=True):
        _fill(place, panel)
    figure.savefig(file, format="svg", facecolor="white", metadata={"Date": None})


def _fill(place: Any, panel: Panel) -> None:
    bars = panel.bars[::-1]
    drawn = place.barh([bar.label for bar in bars], [bar.value for bar in bars], color=[_colour(bar) for bar in bars])
    place.bar_label(drawn, labels=[f"{bar.value:.2f} ×" for bar in bars], padding=3, fontsize=9)
    place.axvline(panel.mark, color=LIMIT, linewidth=1)
    place.text(panel.mark, 1.0, panel.said, color=LIMIT, fontsize=8, transform=place.get_xaxis_transform())
    place.set_title(panel.title, fontsize=9, pad=14)
    place.set_xlim(0, 1.3 * max([panel.mark, *(bar.value for bar in bars)]))
    place.spines[["top", "right"]].set_visible(False)
    place.tick_params(labelsize=8)


def _colour(bar: Bar) -> str:
    return OURS if bar.is_ours else OTHERS


if __name__ == "__main__":
    draw(panels(json.load(sys.stdin)), sys.argv[1])
