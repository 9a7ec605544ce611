"""checkov on every template: what it finds is answered on the page, and the options of the page answer what they say.

checkov has an environment of its own: ``make .engines/checkov/ready``.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from flowguard.cli.iac import FORMATS
from flowguard.deploy.options import DeployOptions
from tests.deploy.exercised import needs
from tests.deploy.templates import MODULES, options_of
from tests.engines.process import ENGINES

PAGE: Final = Path("docs/operate/security.md")
CHECKOV: Final = ENGINES / "checkov"
FRAMEWORKS: Final = ("cloudformation", "terraform_json")
NO_OPTION: Final = "no option"


def answers(text: str) -> Mapping[str, str]:
    """The answer of the page to each finding."""
    rows = [line.strip("| \n").split(" | ", 2) for line in text.splitlines() if line.startswith("| `CKV")]
    return {name: answer for names, _, answer in rows for name in re.findall(r"CKV2?_AWS_\d+", names)}


def options_of_the_page() -> DeployOptions:
    [toml] = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return DeployOptions.model_validate(tomllib.loads(toml))


def write(directory: Path, name: str, options: DeployOptions) -> None:
    needed = needs(MODULES[name], options=options)
    (directory / name).mkdir(parents=True)
    (directory / f"{name}.json").write_text(FORMATS["cloudformation"](needed, options))
    (directory / name / "main.tf.json").write_text(FORMATS["terraform-json"](needed, options))


def findings(directory: Path) -> set[str]:
    """The checks that fail for any template of a directory. None of them is left unread."""
    command = [str(CHECKOV / "bin" / "checkov"), "-d", str(directory), "--framework", *FRAMEWORKS, "--output", "json"]
    command += ["--compact", "--quiet", "--skip-download"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    reports = json.loads(ran.stdout)
    assert {one["check_type"] for one in reports} == {*FRAMEWORKS}, ran.stderr
    assert [one["summary"]["parsing_errors"] for one in reports] == [0, 0]
    assert all(one["summary"]["passed"] for one in reports)
    return {check["check_id"] for one in reports for check in one["results"]["failed_checks"]}


@pytest.fixture
def checkov() -> None:
    if not (CHECKOV / "ready").exists():
        pytest.skip("checkov has not been fetched; run `make .engines/checkov/ready`")


@pytest.mark.long("lints once more, beside cfn-lint")
def test_each_finding_without_options_is_answered_and_each_answer_is_to_a_finding(
    tmp_path: Path, checkov: None
) -> None:
    for name in MODULES:
        write(tmp_path, name, options_of(name))
    assert findings(tmp_path) == answers(PAGE.read_text(encoding="utf-8")).keys()


@pytest.mark.long("lints once more, beside cfn-lint")
def test_with_the_options_of_the_page_only_that_is_found_for_which_there_is_none(tmp_path: Path, checkov: None) -> None:
    for name in ("approval", "everything", "take_payment", "ticking"):
        write(tmp_path, name, options_of_the_page())
    found = answers(PAGE.read_text(encoding="utf-8"))
    unanswered = {name for name, answer in found.items() if answer.startswith(NO_OPTION)}
    assert findings(tmp_path) == unanswered


def test_the_page_has_an_answer_in_each_row() -> None:
    found = answers(PAGE.read_text(encoding="utf-8"))
    assert len(found) > 10
    fields = {*DeployOptions.model_fields, "reserved"}
    for name, answer in found.items():
        option = re.match(r"`(\w+)", answer)
        assert answer.startswith(NO_OPTION) or (option is not None and option[1] in fields), name
    assert options_of_the_page().kms_key
