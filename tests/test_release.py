"""What is published: the same bytes for the same commit, whole by itself, on each Python that it says."""

from __future__ import annotations

import json
import re
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.packaging.test_package import packed, shelf, teahouse
from tests.pythons import PROJECT, PYTHONS, with_installed
from tests.release import ROOT, TOOLS, bill_of, built, check_bill, main, said

__all__ = ["shelf", "teahouse"]

CYCLONEDX = TOOLS.with_name("cyclonedx-py")

pytestmark = [
    pytest.mark.long("what is published is built and installed before a release"),
    pytest.mark.skipif(not TOOLS.is_file(), reason="needs what builds releases: make .engines/release/ready"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    to = tmp_path_factory.mktemp("dist")
    main(to)
    return [next(to.glob(pattern)) for pattern in ("*.whl", "*.tar.gz")]


def test_the_same_commit_makes_the_same_bytes(files: list[Path], tmp_path: Path) -> None:
    again = built(ROOT, tmp_path)
    assert [one.name for one in again] == [one.name for one in files]
    assert [one.read_bytes() for one in again] == [one.read_bytes() for one in files]


def test_the_sdist_makes_the_same_wheel(files: list[Path], tmp_path: Path) -> None:
    wheel, sdist = files
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    assert built(source, tmp_path / "again")[0].read_bytes() == wheel.read_bytes()


def test_the_wheel_has_the_package_its_licence_and_nothing_beside(files: list[Path]) -> None:
    with zipfile.ZipFile(files[0]) as wheel:
        names = set(wheel.namelist())
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        about = message_from_bytes(wheel.read(metadata))
    package = {f"flowguard/{path.relative_to(ROOT / 'flowguard')}" for path in (ROOT / "flowguard").rglob("*")}
    assert {name for name in names if ".dist-info/" not in name} == {
        name for name in package if (ROOT / name).is_file() and "__pycache__" not in name
    }
    assert [name for name in names if name.endswith("licenses/LICENSE")] != []
    assert (about["Name"], about["Requires-Python"], about["License-Expression"]) == ("flowguard-aws", ">=3.11", "MIT")


def bill_beside(wheel: Path) -> Any:
    return json.loads(wheel.with_suffix(".cdx.json").read_text(encoding="utf-8"))


def test_a_bill_of_materials_is_beside_the_wheel(files: list[Path]) -> None:
    bill = bill_beside(files[0])
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert [*map(str, files[0].parent.iterdir())] != []
    assert {file.suffix for file in files[0].parent.iterdir()} == {".whl", ".gz", ".json"}
    named = {part["name"] for part in bill["components"]}
    assert named >= {"boto3", "botocore", "s3transfer", "jmespath", "pydantic", "pydantic-core", "typing-extensions"}
    assert not named & {"flask", "click", "moto", "pytest"}


def test_the_same_wheel_has_the_same_bill(files: list[Path], tmp_path: Path) -> None:
    copied = tmp_path / files[0].name
    copied.write_bytes(files[0].read_bytes())
    assert bill_of(copied).read_bytes() == files[0].with_suffix(".cdx.json").read_bytes()


def _without(bill: Any) -> None:
    bill["components"] = [part for part in bill["components"] if part["name"] != "pydantic"]


def _old(bill: Any) -> None:
    next(part for part in bill["components"] if part["name"] == "boto3")["version"] = "1.0"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda bill: bill["metadata"]["component"].update(version="9"), "the bill is of flowguard-aws 9"),
        (lambda bill: bill["metadata"]["component"].update(name="other"), "the bill is of other"),
        (lambda bill: bill["metadata"]["component"]["hashes"][0].update(content="0"), "of other bytes"),
        (_without, "the bill has None"),
        (_old, r"needs boto3.*, and the bill has 1\.0"),
    ],
)
def test_a_bill_that_is_not_of_the_wheel_is_refused(change: Any, why: str, files: list[Path]) -> None:
    bill = bill_beside(files[0])
    change(bill)
    with pytest.raises(ValueError, match=why):
        check_bill(bill, files[0])


@pytest.mark.parametrize("version", PYTHONS)
def test_it_runs_its_demo_on_each_python_that_it_says(files: list[Path], version: str, tmp_path: Path) -> None:
    bare = with_installed(version, tmp_path / "venv", f"{files[0]}[cli,local]")
    assert said(bare, "-m", "flowguard", "--version", folder=tmp_path) == f"flowguard, version {PROJECT['version']}\n"
    said(bare, "-m", "flowguard", "init", "corner", folder=tmp_path)
    replay = ("replay", "samples", "--flow", "corner.flow:PlaceOrder", "--failing", "o-102")
    assert "COMPLETED" in said(bare, "-m", "flowguard", *replay, folder=tmp_path / "corner")


NEEDS = re.compile(r"What this\s+page runs\s+needs `pip install 'flowguard-aws\[([a-z,]+)\]'`")
BLOCKS = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if NEEDS.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_where_only_that_is_installed_what_it_names(files: list[Path], page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = NEEDS.search(text)
    assert found is not None
    bare = with_installed("{}.{}".format(*sys.version_info), tmp_path / "venv", f"{files[0]}[{found[1]}]")
    program = tmp_path / "page.py"
    program.write_text("\n".join(BLOCKS.findall(text)), encoding="utf-8")
    said(bare, program, folder=tmp_path)


def test_each_page_of_an_extra_names_what_it_needs() -> None:
    assert {page.stem for page in PAGES} >= {
        "ai-steps",
        "encryption",
        "forgetting",
        "sql",
        "start-over-http",
        "streams",
    }


@pytest.mark.parametrize("version", [one for one in PYTHONS if one != "{}.{}".format(*sys.version_info)])
def test_the_quick_tests_pass_on_each_other_python(version: str, tmp_path: Path) -> None:
    other = with_installed(version, tmp_path / "venv", "--editable", f"{ROOT}[dev]", "pip")
    spread = ("--numprocesses=auto", "--dist=worksteal", "-p", "no:cacheprovider")
    quick = ("-m", "not slow and not proof and not long")
    said(other, "-m", "pytest", "--quiet", *spread, *quick, PYTHONDONTWRITEBYTECODE="1")


def test_a_bill_of_materials_has_each_wheel_of_a_zip_with_its_hash(teahouse: Path, shelf: Path, tmp_path: Path) -> None:
    (teahouse / "requirements.txt").write_text("tiny\n")
    locked = (teahouse / packed(shelf)["lock"]).read_text()
    listed = tmp_path / "listed.txt"
    listed.write_text(f"{locked}flowguard-aws=={PROJECT['version']}\n")
    bill = json.loads(said(CYCLONEDX, "requirements", listed, "--output-format", "JSON"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    named = {(part["name"], part["version"]): part for part in bill["components"]}
    assert {name for name, _ in named} == {"boto3", "botocore", "flowguard-aws", "pydantic", "tiny"}
    del named["flowguard-aws", PROJECT["version"]]
    for (name, version), part in named.items():
        [hashed] = part["externalReferences"][0]["hashes"]
        assert f"{name}=={version} --hash=sha256:{hashed['content']}\n" in locked
