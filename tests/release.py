"""``python -m tests.release DIRECTORY``: build the wheel and the sdist that are published, and check them.

Their files have the moment of the last commit, so that who builds the same commit gets the same bytes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
TOOLS: Final = ROOT / ".engines" / "release" / "bin" / "python"


def said(*command: str | Path, folder: Path = ROOT, **environment: str) -> str:
    """Run a command to its end, and return what it printed. Raises CalledProcessError where it fails."""
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.stderr.write(f"{done.stdout}{done.stderr}")
    done.check_returncode()
    return done.stdout


def built(source: Path, to: Path) -> list[Path]:
    """Build the wheel and the sdist of a source tree, and return both, the wheel first."""
    moment = said("git", "log", "-1", "--format=%ct").strip()
    said(TOOLS, "-m", "build", "--no-isolation", "--outdir", to, source, SOURCE_DATE_EPOCH=moment)
    return [next(to.glob(pattern)) for pattern in ("*.whl", "*.tar.gz")]


def main(to: Path) -> None:
    files = built(ROOT, to)
    said(TOOLS, "-m", "twine", "check", "--strict", *files)
    sys.stdout.write("".join(f"{file}\n" for file in files))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
