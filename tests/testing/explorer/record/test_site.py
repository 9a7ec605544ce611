"""Whose line it is that makes a call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flowguard
from flowguard.testing.explorer.record.site import _STEPS, Site, calling_site

LIBRARY = "/venv/lib/python3.11/site-packages/tool/store.py"
BOTO = "/venv/lib/python3.11/site-packages/botocore/client.py"
MINE = "/app/handler.py"
OURS = f"{Path(flowguard.__file__).parent}/aws/memos.py"
BESIDE = f"{Path(flowguard.__file__).parent}_shop/handler.py"
SIMULATED = f"{Path(flowguard.__file__).parent}/sim/calls.py"


def outermost(call: Any) -> Site:
    found: Site = call()
    return found


def called_through(*files: str) -> Site:
    """The site of a call whose frames are in these files, the outermost first."""
    call: Any = None
    for file in reversed(files):
        source = "def ask():\n    return call()" if call else "def ask():\n    return calling_site(until='outermost')"
        names: dict[str, Any] = {"call": call, "calling_site": calling_site}
        exec(compile(source, file, "exec"), names)  # noqa: S102 - the files are not there
        call = names["ask"]
    return outermost(call)


@pytest.mark.parametrize(
    ("files", "site"),
    [
        ((MINE, BOTO), Site(MINE, 2, "ask")),
        ((MINE, LIBRARY, BOTO), Site(MINE, 2, "ask", by_library=True)),
        ((MINE, LIBRARY, MINE, BOTO), Site(MINE, 2, "ask")),
        ((MINE, BOTO, SIMULATED), Site(MINE, 2, "ask")),
        ((MINE, OURS, BOTO), Site(MINE, 2, "ask", by_flowguard=True)),
        ((MINE, OURS, MINE, BOTO), Site(MINE, 2, "ask")),
        ((LIBRARY, BOTO), Site(LIBRARY, 2, "ask")),
        ((BOTO,), Site("", 0, "flowguard")),
        ((BESIDE, BOTO), Site(BESIDE, 2, "ask")),
    ],
    ids=[
        "my own",
        "a library's for me",
        "mine for a library",
        "simulated",
        "a step's",
        "mine in a step's",
        "all is installed",
        "nobody's",
        "mine in a folder beside flowguard's, whose name begins alike",
    ],
)
def test_a_call_is_the_innermost_line_that_is_not_installed(files: tuple[str, ...], site: Site) -> None:
    assert called_through(*files) == site


@pytest.mark.parametrize(("file", "function"), _STEPS)
def test_each_step_is_a_function_that_is_there(file: str, function: str) -> None:
    sources = [path.read_text(encoding="utf-8") for path in Path(flowguard.__file__).parent.rglob(file)]
    assert any(f"def {function}(" in source for source in sources)
