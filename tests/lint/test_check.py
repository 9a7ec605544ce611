"""``flowguard check``: each bad handler of the corpus is found, at its line and nowhere else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from flowguard.cli import main
from flowguard.lint.checking import check_source, files_of
from flowguard.lint.checks import CHECKS
from flowguard.lint.rules import RULES, Rule

ROOT: Final = Path(__file__).parents[2]
CORPUS: Final = sorted((Path(__file__).parent / "corpus").glob("*.txt"))
_EXPECTED: Final = re.compile(r"# ((?:FG\d{3} ?)+)$")


def source_of(file: Path) -> str:
    """The handlers without the comments that say what is expected."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return "".join(f"{_EXPECTED.sub('', line).rstrip()}\n" for line in lines)


def expected(file: Path) -> list[tuple[int, str]]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [
        (number, rule)
        for number, line in enumerate(lines, 1)
        if (found := _EXPECTED.search(line))
        for rule in sorted(found[1].split())
    ]


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_each_bad_handler_is_found_and_nothing_else(file: Path) -> None:
    found = check_source(source_of(file), file.name)
    assert [(one.line, one.rule_id) for one in found] == expected(file)


def test_the_corpus_breaks_every_rule() -> None:
    broken = {rule for file in CORPUS for _, rule in expected(file)}
    assert broken | {"FG001", "FG004"} == {rule.id for rule in RULES}
    assert {rule.id for rule in CHECKS} | {"FG001", "FG002", "FG003", "FG004", "FG113"} == {rule.id for rule in RULES}


@pytest.mark.slow("reads the shipped flows")
def test_the_shipped_flows_break_none() -> None:
    shown = check(str(ROOT / "flows"), imports=True)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert re.fullmatch(r"0 findings in \d+ files", shown.stdout.splitlines()[-1])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_has_its_page_and_stands_on_that_of_all(rule: Rule) -> None:
    assert (ROOT / "docs" / rule.page).is_file()
    table = (ROOT / "docs" / "guides" / "check-your-handlers.md").read_text(encoding="utf-8")
    assert f"| {rule.id} | `{rule.name}` |" in table


@pytest.mark.parametrize(
    "text",
    [
        "def broken(:\n",
        "x = '\x00'\n",
        "(" * 10_000,
        "\ud800",
        "class A(Stage[int], name='a'):\n  def handle(self, a, step):\n    " + "-" * 5_000 + "1\n",
    ],
    ids=["syntax", "null", "deep", "surrogate", "nested"],
)
def test_a_source_that_cannot_be_read_is_a_finding_and_no_crash(text: str) -> None:
    found = check_source(text, "x.py")
    assert {one.rule_id for one in found} <= {"FG001"}


def test_long_code_is_cut_and_on_one_line() -> None:
    name = "x" * 500
    text = f"class A:\n  def handle(self, a, step: Step):\n    boto3.{name}.put_item()\n"
    [found] = check_source(text, "x.py")
    assert len(found.code) < 70
    assert "\n" not in found.text


# -- the command


def check(*arguments: str, imports: bool = False) -> Result:
    result = CliRunner().invoke(main, ["check", *arguments, *([] if imports else ["--no-import"])])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """A directory with one bad file, and others that are left out."""
    (tmp_path / "shop.py").write_text(
        source_of(next(file for file in CORPUS if file.stem == "sleeps")), encoding="utf-8"
    )
    for hidden in (".venv", "__pycache__"):
        (tmp_path / hidden).mkdir()
        (tmp_path / hidden / "worse.py").write_text("def broken(:\n", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no python", encoding="utf-8")
    return tmp_path


def test_a_finding_has_its_place_its_reason_and_its_cure(bad: Path) -> None:
    shown = check(str(bad))
    assert shown.exit_code == 1
    assert f"{bad}/shop.py:9:9: FG110 time.sleep(…) sleeps" in shown.stdout
    assert "or send with delay= (docs/explain/when-a-stage-fails.md)" in shown.stdout
    assert shown.stdout.endswith("2 findings in 1 file\n")


def test_json_is_a_line_for_each_finding(bad: Path) -> None:
    told = [json.loads(line) for line in check(str(bad), "--json").stdout.splitlines()]
    assert [(one["line"], one["rule"], one["name"]) for one in told] == [
        (9, "FG110", "sleeps"),
        (10, "FG110", "sleeps"),
    ]


def test_sarif_names_each_rule_and_place(bad: Path) -> None:
    shown = check(str(bad), "--sarif")
    log = json.loads(shown.stdout)
    [run] = log["runs"]
    assert (shown.exit_code, log["version"]) == (1, "2.1.0")
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [rule.id for rule in RULES]
    [first, _] = run["results"]
    assert first["ruleId"] == "FG110"
    place = first["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 9, "startColumn": 9}
    assert place["artifactLocation"]["uri"].endswith("shop.py")


STAGES: Final = """
from flowguard import Done, Outcome, Stage, Step

class Reserve(Stage[dict[str, str]], name="reserve"):
    def handle(self, order: dict[str, str], step: Step) -> Outcome:
        return Done(bool(step.superseded))
"""
ORDERS: Final = """
from datetime import timedelta
from flowguard import Flow
{imported}

class Orders(Flow, name="orders", object_id="order_id"{remembered}):
    stages = ({stage},)
"""


@pytest.mark.slow("reads the shipped flows")
@pytest.mark.parametrize(
    ("imported", "stage"),
    [
        ("from shop.stages import Reserve", "Reserve"),
        ("from .stages import Reserve as First", "First"),
        ("from shop import stages", "stages.Reserve"),
    ],
)
@pytest.mark.parametrize(("remembered", "code"), [("", 1), (", remember=timedelta(days=365)", 0)])
def test_a_stage_of_another_module_is_of_the_flow_that_forgets_it(
    imported: str, stage: str, remembered: str, code: int, tmp_path: Path
) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "stages.py").write_text(STAGES, encoding="utf-8")
    flow = ORDERS.format(imported=imported, stage=stage, remembered=remembered)
    (package / "flow.py").write_text(flow, encoding="utf-8")
    shown = check(str(package), imports=True)
    assert (shown.exit_code, "stages.py:6:26: FG112 step.superseded" in shown.stdout) == (code, bool(code))
    assert check(str(package / "stages.py")).exit_code == 0, "nothing says of which flow it is"


@pytest.mark.parametrize(
    ("text", "line", "error"),
    [
        ("import flowguard\n\nimport no_such_library\n", 3, "ModuleNotFoundError: No module named 'no_such_library'"),
        ("from flowguard import Flow\n\n\nclass A(Flow, name='a'):\n    stages = ()\n", 4, "DefinitionError"),
        ("import flowguard, sys\nprint('loud')\nsys.exit('stop')\n", 3, "SystemExit: stop"),
    ],
)
def test_a_module_whose_import_fails_is_named_with_its_error(text: str, line: int, error: str, tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(text, encoding="utf-8")
    (tmp_path / "other.py").write_text("raise ValueError('uses no flowguard')", encoding="utf-8")
    (tmp_path / "not-a-module.py").write_text("import flowguard, no_such_library", encoding="utf-8")
    shown = check(str(tmp_path), imports=True)
    assert shown.exit_code == 2
    assert f"orders.py:{line}:1: FG004 cannot be imported: orders: {error}" in shown.stdout
    assert shown.stdout.endswith("1 finding in 3 files\n")
    assert check(str(tmp_path)).exit_code == 0, "without an import nothing is run"


def test_two_modules_of_one_name_are_imported_each(tmp_path: Path) -> None:
    for name, text in (("a", "import flowguard\n"), ("b", "import flowguard\nimport no_such_library\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "handlers.py").write_text(text, encoding="utf-8")
    assert "b/handlers.py:2:1: FG004" in check(str(tmp_path), imports=True).stdout


def test_a_module_that_ends_its_process_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text("import flowguard, os\nos._exit(3)\n", encoding="utf-8")
    shown = check(str(tmp_path), imports=True)
    assert (shown.exit_code, "exit code 3" in shown.stdout) == (2, True)


def test_no_control_of_a_name_or_a_source_reaches_the_terminal(tmp_path: Path) -> None:
    name = "\x1b]52;c;\x07\u202e.py"
    text = 'class A:\n  def handle(self, a, step: Step):\n    boto3["\x9b31m\u202e"].put_item()\n'
    (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / f"worse{name}").write_text("def \u202e broken(:\n", encoding="utf-8")
    for options in ((), ("--json",), ("--sarif",)):
        shown = check(str(tmp_path), *options)
        assert shown.exit_code == 2
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown.stdout + shown.stderr)


def test_a_file_that_cannot_be_read_is_exit_code_2(bad: Path) -> None:
    (bad / "broken.py").write_bytes(b"\xff\xfe\x00")
    assert check(str(bad)).exit_code == 2
    nowhere = check(str(bad / "nowhere.py"))
    assert nowhere.exit_code == 2
    assert "nowhere.py:1:1: FG001 cannot be read: No such file or directory\n" in nowhere.stdout
    empty = bad / "empty"
    empty.mkdir()
    assert (check(str(empty)).exit_code, check(str(empty)).stdout) == (2, "")


def test_files_are_checked_in_one_order(bad: Path) -> None:
    (bad / "a.py").write_text("", encoding="utf-8")
    assert [file.name for file in files_of([bad])] == ["a.py", "shop.py"]


def test_neither_hidden_files_nor_virtual_environments_nor_what_is_installed_is_checked(tmp_path: Path) -> None:
    left_out = [".hidden", "__pycache__", "node_modules", "lib/site-packages", "shop/my-env/lib/deep", "shop/my-env"]
    for folder in (*left_out, "shop", "shop/lib"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "a.py").touch()
    (tmp_path / "shop" / "my-env" / "pyvenv.cfg").touch()
    (tmp_path / "folder.py").mkdir()
    checked = [str(file.relative_to(tmp_path)) for file in files_of([tmp_path])]
    assert checked == ["shop/a.py", "shop/lib/a.py"]


def test_what_is_named_itself_is_checked_wherever_it_is(tmp_path: Path) -> None:
    place = tmp_path / ".venv" / "site-packages" / "shop"
    place.mkdir(parents=True)
    for file in (place / "a.py", place / "pyvenv.cfg", tmp_path / ".venv" / "pyvenv.cfg"):
        file.touch()
    assert list(files_of([place, place / "a.py"])) == [place / "a.py"] * 2


def test_no_module_of_a_virtual_environment_is_imported(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text("import flowguard\n", encoding="utf-8")
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    (tmp_path / "venv" / "evil.py").write_text("import flowguard, os\nos._exit(3)\n", encoding="utf-8")
    shown = check(str(tmp_path), imports=True)
    assert (shown.exit_code, shown.stdout) == (0, "0 findings in 1 file\n")


LEASES = """
from flowguard import Done, Flow, Stage, IGNORE

class Records(Stage[dict], name="records", then="charges"):
    def handle(self, order, step):
        step.put("orders", {"id": order["id"]})
        return Charges.message(order)

class Charges(Stage[dict], name="charges", then="says-so"):
    def handle(self, order, step):
        step.once("charge", lambda: open("/dev/null"))
        return SaysSo.message(order)

class SaysSo(Stage[dict], name="says-so", lease=True):
    def handle(self, order, step):
        return Done()

class Orders(Flow, name="orders", object_id="id"):
    stages = (Records, Charges, SaysSo)

class Alone(Stage[dict], name="alone"):
    def handle(self, order, step):
        return Done()

class Kept(Flow, name="kept", object_id="id", on_conflict=IGNORE):
    stages = (Alone,)
"""


def test_a_stage_that_needs_no_lease_is_named_with_what_it_would_save(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(LEASES, encoding="utf-8")
    result = check(str(file), imports=True)
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"{file}:4: orders/records needs no lease",
        '    it does only what its step records; lease="auto" saves the write of each claim, $0.50 of $1.25 for a '
        "million hops, and the work may run twice at once (docs/guides/without-a-lease.md)",
        "0 findings in 1 file",
    ]


def test_a_stage_whose_lease_is_auto_is_not_named(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(LEASES.replace('then="charges"', 'then="charges", lease="auto"'), encoding="utf-8")
    assert check(str(file), imports=True).output == "0 findings in 1 file\n"


def test_it_is_asked_of_what_is_imported_alone(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(LEASES, encoding="utf-8")
    assert check(str(file)).output == "0 findings in 1 file\n"
