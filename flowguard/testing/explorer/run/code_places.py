"""Where the code of a version lies."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Set
from functools import cache
from importlib.machinery import all_suffixes
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from flowguard.flow import AnyFlow
from flowguard.testing.explorer.record.site import is_user_code


def roots_of(flows: Iterable[AnyFlow]) -> frozenset[str]:
    """Return the import directories of flows."""
    return frozenset(root for flow in flows for root in _roots(flow.__module__))


def _roots(name: str) -> Iterator[str]:
    """Yield a module's import directory, also without links."""
    file, parts = getattr(sys.modules.get(name), "__file__", None), tuple(name.split("."))
    if file is None or not is_user_code(file):
        return
    place = Path(file).parent if Path(file).stem == "__init__" else Path(file).with_suffix("")
    if place.parts[-len(parts) :] == parts:
        root = place.parents[len(parts) - 1]
        yield from {str(root), str(root.resolve())}


def is_entry_of(entry: object, roots: Set[str]) -> bool:
    """Answer whether an entry of ``sys.path`` is one of these directories."""
    return isinstance(entry, str) and not roots.isdisjoint({str(Path(entry).absolute()), str(Path(entry).resolve())})


def places_of(module: Any) -> tuple[str, ...]:
    """Return the file of a module, or its directories."""
    file = getattr(module, "__file__", None)
    return (file,) if file else tuple(getattr(module, "__path__", ()))


def is_below(place: str, directories: Iterable[str]) -> bool:
    """Answer whether a file or directory lies in one of these."""
    return any(place.startswith(f"{directory.rstrip(os.sep)}{os.sep}") for directory in directories)


def is_installed_in_place(file: str, roots: Iterable[str]) -> bool:
    """Answer whether a file is of another editable project."""
    return any(
        is_below(file, [project])
        for project in _editable()
        if not any(is_below(f"{root}{os.sep}", [project]) for root in roots)
    )


@cache
def _editable() -> tuple[str, ...]:
    """Return the directories of editable projects."""
    texts = (distribution.read_text("direct_url.json") for distribution in distributions())
    sources = [json.loads(text) for text in texts if text]
    urls = (source["url"] for source in sources if source.get("dir_info", {}).get("editable"))
    return tuple(url2pathname(urlsplit(url).path) for url in urls)


def files_below(directory: Path) -> list[Path]:
    """Return the importable files below a directory."""
    importable: list[Path] = []
    for place, below, files in os.walk(directory):
        below[:] = [name for name in below if name.isidentifier() and name != "__pycache__"]
        importable += [Path(place, file) for file in files if _is_importable(file)]
    return sorted(importable)


def _is_importable(file: str) -> bool:
    return file.partition(".")[0].isidentifier() and file.endswith(tuple(all_suffixes()))
