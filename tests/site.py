"""Builds the documentation site: ``make docs``, or ``python -m tests.site``.

The project's pages are laid out as the site has them, and Sphinx makes HTML of them, as ``.ci/site/conf.py`` says. A
link that leads nowhere, and a page that the navigation does not have, fail the build. The site needs no network: it
is read from a folder too.
"""

from __future__ import annotations

import argparse
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SITE: Final = ROOT / "build" / "site"
CONFIGURATION: Final = ROOT / ".ci" / "site"
TOOLS: Final = ROOT / ".engines" / "docs"
MERMAID: Final = ROOT / ".engines" / "mermaid"

WHERE: Final = ("CHANGELOG.md", "docs/**/*", "flows/*/README.md", "samples/**/README.md")
NOTES: Final = "docs/changes/+*.{kind}.md"
KINDS: Final = ("added", "changed", "fixed", "removed")

NAVIGATION: Final[Mapping[str, tuple[str, ...]]] = {
    "Start": (
        "start/install",
        "start/quick-start",
        "start/develop-locally",
        "start/choosing",
        "start/when-not-to-use-flowguard",
        "start/if-you-come-from",
        "start/from-powertools",
        "start/from-step-functions",
        "start/from-temporal",
        "start/from-durable-functions",
        "start/from-nservicebus",
    ),
    "Guides: write a flow": (
        "guides/waiting-for-others",
        "guides/groups",
        "guides/callbacks-over-http",
        "guides/start-over-http",
        "guides/objects-of-s3",
        "guides/streams",
        "guides/by-the-clock",
        "guides/collect",
        "guides/limits",
        "guides/fairness",
        "guides/lanes",
        "guides/caches",
        "guides/once-per-key",
        "guides/without-a-lease",
        "guides/batches",
        "guides/async-handlers",
        "guides/writing-your-own-tables",
        "guides/side-effects-outside-aws",
        "guides/sql",
        "guides/ai-steps",
        "guides/encryption",
        "guides/sagas",
        "guides/without-a-flow",
    ),
    "Guides: test and prove": (
        "guides/test-your-flow",
        "guides/prove-your-flow",
        "guides/prove-a-release",
        "guides/prove-any-handler",
        "guides/check-your-handlers",
        "guides/replay",
    ),
    "Explain": (
        "explain/way-of-a-message",
        "explain/guarantees",
        "explain/when-a-stage-fails",
        "explain/envelopes",
        "explain/trust",
        "explain/security-of-tokens",
        "explain/what-aws-does",
        "explain/comparison",
        "explain/glossary",
    ),
    "Operate": (
        "operate/deploy",
        "guides/your-own-infrastructure",
        "operate/security",
        "operate/upgrading",
        "operate/operating",
        "operate/dead-letters",
        "operate/find-one-order",
        "operate/many-runs",
        "operate/pause",
        "operate/forgetting",
        "operate/inspector",
        "operate/observing",
        "operate/lean-client",
        "operate/command-line",
        "operate/probe",
        "operate/leaving",
    ),
    "Reference": ("reference/index",),
    "Proofs": (
        "proofs/proof",
        "proofs/model",
        "proofs/races",
        "proofs/soak",
        "proofs/end-to-end",
        "proofs/performance",
    ),
    "Examples": (
        "flows/validate_cart/index",
        "flows/triggered_cache/index",
        "flows/take_payment/index",
        "flows/approval/index",
        "flows/answer_ticket/index",
        "flows/appointments/index",
        "flows/orders/index",
        "flows/page_cache/index",
        "flows/nightly_recount/index",
        "samples/index",
    ),
    "Decisions": ("decisions/index",),
    "Project": ("changelog", "contributing", "releasing", "changes/index"),
}
"""The pages of each group. An ``index`` has the other pages of its folder below it."""


class SiteBroken(Exception):
    """The site was not built: what it is made with is missing, or a page has faults."""


# -- the pages --------------------------------------------------------------------------------------------------------


def sources() -> dict[str, Path]:
    """Return the files that the site is made of, each under its place on the site."""
    found = sorted({file for pattern in WHERE for file in ROOT.glob(pattern) if file.is_file()})
    return {place_of(file): file for file in found if not file.name.startswith("+")}


def place_of(file: Path) -> str:
    """Return where a file stands on the site: ``docs/`` is its top, and a ``README.md`` the index of its folder."""
    place = file.relative_to(ROOT).as_posix().removeprefix("docs/").lower()
    return re.sub(r"\breadme\.md$", "index.md", place)


def lay_out(folder: Path, files: Mapping[str, Path]) -> None:
    """Write the pages as Sphinx reads them. What is no page, such as a picture, is copied."""
    for place, file in files.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".md":
            target.write_text(page(place, file, files), encoding="utf-8")
        else:
            shutil.copyfile(file, target)


def page(place: str, file: Path, files: Mapping[str, Path]) -> str:
    """Return a page with the site's links, drawings and contents."""
    text = drawn(linked(file.read_text(encoding="utf-8"), file, place, files), place)
    if place == "changelog.md":
        text += "".join(unreleased(place, files))
    return text + "".join(contents(place, files))


def unreleased(place: str, files: Mapping[str, Path]) -> Iterator[str]:
    """Yield the notes of the next release, by their kinds."""
    if any(ROOT.glob(NOTES.format(kind="*"))):
        yield "\n## Not released yet\n"
    for kind in KINDS:
        notes = sorted(ROOT.glob(NOTES.format(kind=kind)))
        if notes:
            yield f"\n### {kind.capitalize()}\n\n"
        for note in notes:
            text = linked(note.read_text(encoding="utf-8").strip(), note, place, files)
            yield "- " + text.replace("\n", "\n  ") + "\n"


def contents(place: str, files: Mapping[str, Path]) -> Iterator[str]:
    """Yield the part of the navigation that an index has below it."""
    folder, _, name = place.rpartition("/")
    if place == "index.md":
        for caption, pages in NAVIGATION.items():
            yield _toctree([one for one in pages if f"{one}.md" in files], f":caption: {caption}\n")
    elif name == "index.md":
        inside = [one.removeprefix(f"{folder}/") for one in files if one.startswith(f"{folder}/") and one != place]
        yield _toctree(sorted(one.removesuffix(".md") for one in inside if one.endswith(".md")))


def _toctree(pages: list[str], options: str = "") -> str:
    return (
        "\n```{toctree}\n:hidden:\n" + options + "\n" + "".join(f"{one}\n" for one in pages) + "```\n" if pages else ""
    )


# -- links ------------------------------------------------------------------------------------------------------------

_PARTS: Final = re.compile(
    r"^[ ]*(?P<fence>`{3,}|~{3,}).*?^[ ]*(?P=fence)[ ]*$"
    r"|<!--.*?-->"
    r"|\[(?P<text>(?:[^\[\]`]|`[^`]*`|\[[^\[\]]*\])*)\]\((?P<target>[^)\s]+)\)"
    r"|(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)",
    re.MULTILINE | re.DOTALL,
)


def linked(text: str, file: Path, place: str, files: Mapping[str, Path]) -> str:
    """Return the text with its links as the site has them. Code is left alone."""
    places = {there.resolve(): found for found, there in files.items()}

    def moved(part: re.Match[str]) -> str:
        if part["target"] is None or re.match(r"\w+:|#", part["target"]):
            return part[0]
        path, hash_, heading = part["target"].partition("#")
        there = (file.parent / path).resolve()
        there = there / "README.md" if (there / "README.md").is_file() else there
        if there in places:
            return f"[{part['text']}]({os.path.relpath(places[there], Path(place).parent)}{hash_}{heading})"
        return _as_code(part["text"], there, file)

    return _PARTS.sub(moved, text)


def _as_code(text: str, there: Path, file: Path) -> str:
    """Return the words of a link to a file which is not on the site, with the file's place in the repository."""
    if not there.exists():
        raise SiteBroken(f"{file.relative_to(ROOT)} links to {there}, which is not there")
    name = there.relative_to(ROOT).as_posix() + "/" * there.is_dir()
    return text if f"`{name}`" in text else f"{text} (`{name}`)"


# -- drawings ---------------------------------------------------------------------------------------------------------

_DRAWING: Final = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def drawn(text: str, place: str) -> str:
    """Return the text with its diagrams as Mermaid draws them, and with the scripts that do it."""
    text, drawings = _DRAWING.subn(lambda one: f'<pre class="mermaid">\n{html.escape(one[1])}</pre>', text)
    if drawings:
        static = "../" * place.count("/") + "_static"
        for script in ("mermaid.min.js", "drawings.js"):
            text += f'\n<script src="{static}/{script}"></script>\n'
    return text


def add_mermaid(site: Path) -> None:
    """Unpack Mermaid's script, which ``make docs`` has fetched."""
    for jar in MERMAID.glob("*.jar"):
        with zipfile.ZipFile(jar) as packed:
            [script] = [one for one in packed.namelist() if one.endswith("/dist/mermaid.min.js")]
            (site / "_static" / "mermaid.min.js").write_bytes(packed.read(script))


# -- the site ---------------------------------------------------------------------------------------------------------


def build(site: Path, files: Mapping[str, Path] | None = None) -> None:
    """Build the site into a folder, which is emptied first."""
    for tool in (TOOLS, MERMAID):
        if not (tool / "ready").exists():
            raise SiteBroken(f"{tool.name} has not been fetched into {tool.parent}; run `make docs`")
    shutil.rmtree(site, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="flowguard-site-") as scratch:
        pages = Path(scratch, "pages")
        lay_out(pages, sources() if files is None else files)
        _run_sphinx(pages, Path(scratch, "read"), site)
    add_mermaid(site)


def _run_sphinx(pages: Path, read: Path, site: Path) -> None:
    """Make HTML of the pages. A warning is an error, and all are shown."""
    options = ("-b", "html", "--fail-on-warning", "--keep-going", "--quiet", "-j", "auto")
    folders = ("-c", str(CONFIGURATION), "-d", str(read), str(pages), str(site))
    done = subprocess.run(
        [str(TOOLS / "bin" / "python"), "-m", "sphinx", *options, *folders],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise SiteBroken("the pages have faults:\n" + done.stdout.replace(f"{pages.resolve()}/", ""))


def needs() -> list[str]:
    """Return what the extra ``docs`` requires."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["optional-dependencies"]["docs"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the site, and say where it is or what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.site", description=__doc__)
    parser.add_argument(
        "--needs", action="store_true", help="print the requirements of what builds it, and build nothing"
    )
    if parser.parse_args(arguments).needs:
        sys.stdout.write("".join(f"{one}\n" for one in needs()))
        return 0
    try:
        build(SITE)
    except SiteBroken as broken:
        sys.stderr.write(f"{broken}\n")
        return 1
    sys.stdout.write(f"the site is in {SITE.relative_to(ROOT)}: open index.html\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
