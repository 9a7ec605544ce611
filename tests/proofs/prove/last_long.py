"""The figures of the last long run, which it writes into docs/proofs/proof.md with the commit that they are of."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from tests.proofs.prove.mutant import ROOT

PAGE: Final = ROOT / "docs" / "proofs" / "proof.md"
BLOCK: Final = re.compile(r"(?<=^<!-- the last long run -->\n```text\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def commit_here() -> str:
    """Return the commit that is checked out, and whether files differ from it."""
    command = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty= with changes"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def write_figures(figures: str, commit: str, page: Path = PAGE) -> None:
    """Put them in the place of those of the run before. Raises :class:`LookupError` where the page has no place."""
    text, places = BLOCK.subn(lambda _: f"commit       {commit}\n{figures}\n", page.read_text(encoding="utf-8"))
    if places != 1:
        raise LookupError(f"{page} has {places} blocks for the figures of the last long run, and not one")
    page.write_text(text, encoding="utf-8")
