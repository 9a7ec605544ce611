"""Writes the graphs in the READMEs of the flows: ``python -m tests.deploy.readmes``.

A graph is the Mermaid block below a comment that names its flow. A test fails while one is out of date.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from flowguard.deploy.flow_graph import graph_of
from flowguard.deploy.graph_texts import mermaid
from flowguard.project.loading import load_flows

ROOT: Final = Path(__file__).parents[2]
_GRAPH: Final = re.compile(r"(<!-- graph: (\S+) -->\n```mermaid\n).*?(```\n)", re.DOTALL)


def pages() -> list[Path]:
    return sorted(ROOT.glob("flows/*/README.md"))


def graphs_in(text: str) -> list[str]:
    """The flows whose graphs a page has."""
    return [found[2] for found in _GRAPH.finditer(text)]


def brought_up_to_date(text: str) -> str:
    """A page with its graphs as the flows are now."""
    return _GRAPH.sub(lambda found: f"{found[1]}{mermaid(graph_of(*load_flows([found[2]])))}\n{found[3]}", text)


def main() -> None:
    for page in pages():
        page.write_text(brought_up_to_date(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
