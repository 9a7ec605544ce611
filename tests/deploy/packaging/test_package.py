"""``flowguard package``: the zip holds what the handlers need, equal bytes each time, or nothing is written."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

import flowguard
from flowguard.cli import main
from flowguard.deploy.bundle import Bundle, BundleOrder, pack
from flowguard.deploy.found import find_functions
from flowguard.deploy.own_wheel import TOOLS, write_own_wheel
from flowguard.deploy.pip_download import LambdaPlatform, Pip
from flowguard.deploy.problems import CannotPackage
from flowguard.deploy.requirements import Requirements, requirements_of
from tests.deploy.packaging.wheels import RUNTIME, contents, wheel_of_installed, write_wheel

LICENSE: Final = Path(flowguard.__file__).parents[1] / "LICENSE"
FLOW: Final = """
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, lambda_handler


class Tea(BaseModel):
    order_id: str


class Brew(Stage[Tea], name="brew"):
    def handle(self, tea: Tea, step: Step) -> Outcome:
        step.put("cups", {"order_id": tea.order_id})
        return Done({"brewed": tea.order_id})


class MakeTea(Flow, name="make-tea", object_id="order_id"):
    stages = (Brew,)
"""
HANDLERS: Final = """
from flowguard import lambda_handler
from teahouse.flow import MakeTea
import tiny

make_tea = lambda_handler(MakeTea)
"""
CHARGING: Final = """
from flowguard import once


@once("charge", key="body.order_id")
def charge(record): ...


@once("refund", key="body.order_id")
def refund(event): ...


handler = charge.batch
"""
OPTIONS: Final = f'runtime = "{RUNTIME}"\narchitecture = "x86_64"\n'

# What Lambda does: it imports the handler from the code and the layers, and calls it with a record of SQS. The AWS that
# it meets is of flowguard's tools, which are not in the zip.
INVOKES: Final = """
import importlib, json, sys
sys.path[:0] = sys.argv[1:3]
import flowguard, pydantic, tiny
assert all(one.__file__.startswith(sys.argv[1]) for one in (flowguard, pydantic, tiny))
flowguard.__path__.append(sys.argv[4])
from flowguard.testing import FakeContext, MemoryAWS, sqs_event
module, _, attribute = sys.argv[3].rpartition(".")
from flowguard.sim.table_keys import create_table
with MemoryAWS() as aws:
    aws.create_table("flowguard")
    create_table(aws.client("dynamodb"), "cups", "order_id")
    aws.create_queue("make-tea")
    handler = getattr(importlib.import_module(module), attribute)
    answers = [handler(sqs_event("make-tea", {"order_id": "o-1"}), FakeContext()) for _ in "12"]
    found = aws.client("dynamodb").scan(TableName="cups")["Items"]
print(json.dumps([answers, found]))
"""


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small wheels: of the dependencies of flowguard there are only the names."""
    folder = tmp_path_factory.mktemp("shelf")
    for name in ("boto3", "pydantic", "botocore"):
        write_wheel(folder, name, "99.0", requires=("botocore",) if name == "boto3" else ())
    for version in ("1.0", "1.1"):
        cache: dict[str, bytes | str] = {
            "tiny.py": f"VERSION = {version!r}",
            "__pycache__/tiny.pyc": b"",
            "tiny-1.data/scripts/tiny": "#!x",
        }
        write_wheel(folder, "tiny", version, files=cache)
    return folder


@pytest.fixture
def teahouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project, which is the current directory. Its pip knows no settings of this machine."""
    for name in [one for one in os.environ if one.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "tiny.py").write_text("VERSION = 'installed'\n")
    monkeypatch.syspath_prepend(installed)
    before = set(sys.modules)
    yield enter(make_teahouse(tmp_path / "project"), monkeypatch)
    for name in set(sys.modules) - before:
        del sys.modules[name]


def make_teahouse(folder: Path) -> Path:
    (folder / "teahouse").mkdir(parents=True)
    (folder / "teahouse" / "flow.py").write_text(FLOW)
    (folder / "teahouse" / "handlers.py").write_text(HANDLERS)
    (folder / "pip.py").write_text("raise SystemExit('this is not pip')")
    (folder / "requirements.txt").write_text("tiny==1.0\n")
    (folder / "deploy.toml").write_text(OPTIONS)
    return folder


def enter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a directory the current one, as if this process had begun there."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if not (Path(one) / "teahouse").is_dir()])
    for name in [one for one in sys.modules if one.partition(".")[0] == "teahouse"]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def package(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["package", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


class Shelf:
    """All wheels of a directory, whatever is wanted of them. What pip would choose, pip's own tests below ask."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def download(self, wanted: Requirements, platform: LambdaPlatform, directory: Path) -> list[Path]:
        return [write_own_wheel(directory), *sorted(self.folder.glob("*.whl"))]


def pack_shelf(shelf: Path, *, lambda_boto3: bool = False, runtime: str = RUNTIME, compiled: bool = False) -> Bundle:
    """Compiling flowguard takes a second, so what is not about compiled code goes without."""
    order = BundleOrder(
        functions=find_functions(["teahouse.handlers"]),
        platform=LambdaPlatform(runtime, "x86_64"),
        requirements=requirements_of(None, directory=Path.cwd()),
        lambda_boto3=lambda_boto3,
        compiled=compiled,
    )
    return pack(order, Path("build"), wheels_from=Shelf(shelf))


def packed(shelf: Path, *arguments: str) -> Any:
    given = ("teahouse.handlers", "--options", "deploy.toml", "--no-index", "--find-links", str(shelf), "--json")
    result = package(*given, "--sources-only", *arguments)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


# -- what is in it


@pytest.mark.slow("packs a function and its wheels")
def test_the_zip_has_the_projects_code_flowguard_and_the_wheels_and_nothing_of_this_machine(
    teahouse: Path, shelf: Path
) -> None:
    said = packed(shelf, "-o", "build")
    files = contents(teahouse / said["zip"])
    assert said["handlers"] == ["teahouse.handlers.make_tea"]
    assert {"teahouse/flow.py", "teahouse/handlers.py", "tiny.py", "boto3.py", "pydantic.py"} <= files.keys()
    assert files["tiny.py"] == b"VERSION = '1.0'", "the pinned one, neither the newest nor the installed one"
    assert {"flowguard/handler.py", "flowguard/py.typed", "flowguard_aws-0.1.0.dist-info/METADATA"} <= files.keys()
    assert [path for path in files if "pycache" in path or path.endswith((".pyc", "scripts/tiny"))] == []
    assert [path for path, content in files.items() if str(teahouse.parent).encode() in content] == []
    assert said["unpacked"] == sum(map(len, files.values())) == sum(part["unpacked"] for part in said["parts"])
    assert said["bytes"] == (teahouse / said["zip"]).stat().st_size
    assert [note.partition(";")[0] for note in said["notes"]] == [
        "requirements.txt pins no version of boto3 99.0, botocore 99.0, pydantic 99.0"
    ]


def test_the_zip_has_the_licences_of_flowguard_and_of_the_wheels(teahouse: Path, shelf: Path) -> None:
    about = "tiny-1.0.dist-info/licenses"
    write_wheel(shelf, "tiny", files={"tiny.py": "VERSION = '1.0'", f"{about}/NOTICE": "made by others"})
    files = contents(teahouse / packed(shelf, "-o", "build")["zip"])
    assert files["flowguard_aws-0.1.0.dist-info/licenses/LICENSE"] == LICENSE.read_bytes()
    assert files[f"{about}/NOTICE"] == b"made by others"


@pytest.mark.slow("packs a function and its wheels")
def test_functions_under_once_alone_are_packed_and_what_their_callers_need_is_named(
    teahouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wheel(tmp_path, "pydantic")
    monkeypatch.setattr(Pip, "download", lambda _, *given: Shelf(tmp_path).download(*given))
    (teahouse / "teahouse" / "charging.py").write_text(CHARGING)
    both = json.loads(package("teahouse.charging", "--json").stdout)
    assert both["handlers"] == ["teahouse.charging.handler"]
    assert {"teahouse/charging.py", "flowguard/once_function.py"} <= contents(teahouse / both["zip"]).keys()
    called = package("teahouse.charging:refund")
    assert "handlers: none of a template" in called.stdout
    assert "teahouse.charging.refund is under @once('refund'), and what calls it is your own: give" in called.stderr


def of_flowguard(files: Iterable[str]) -> set[str]:
    """The names right under the package."""
    return {path.split("/")[1] for path in files if path.startswith("flowguard/")}


def test_the_zip_has_of_flowguard_what_runs_in_a_function_and_none_of_its_tools(teahouse: Path, tmp_path: Path) -> None:
    write_wheel(tmp_path, "pydantic")
    (teahouse / "teahouse" / "test_flow.py").write_text("from flowguard.testing import FlowRunner\n")
    bundle = pack_shelf(tmp_path)
    names = of_flowguard(contents(teahouse / bundle.zip))
    here = {one.name for one in Path(flowguard.__file__).parent.iterdir()} - {"__pycache__"}
    assert here - names == set(TOOLS)
    assert names < here
    assert [note for note in bundle.notes if "tools" in note] == [], "no handler imports the test"


@pytest.mark.slow("packs a function and its wheels")
@pytest.mark.parametrize("line", ["from flowguard.testing import View", "def late():\n    import flowguard.sim.moto"])
def test_the_tools_are_in_the_zip_where_a_handler_imports_them(teahouse: Path, tmp_path: Path, line: str) -> None:
    write_wheel(tmp_path, "pydantic")
    (teahouse / "teahouse" / "rules.py").write_text(f"{line}\n")
    (teahouse / "teahouse" / "handlers.py").write_text(f"from . import rules\n{HANDLERS}")
    bundle = pack_shelf(tmp_path)
    assert of_flowguard(contents(teahouse / bundle.zip)) >= TOOLS
    [note] = [note for note in bundle.notes if "tools" in note]
    assert note.startswith("teahouse.rules imports flowguard.")


def test_what_is_in_the_zip_imports_nothing_that_is_not() -> None:
    folder = Path(flowguard.__file__).parent
    packed = [file for file in folder.rglob("*.py") if file.relative_to(folder).parts[0] not in TOOLS]
    imports = re.compile(r"^\s*(?:from|import) flowguard\.(\w+)", re.MULTILINE)
    named = {name for file in packed for name in imports.findall(file.read_text())}
    assert len(packed) > 100
    assert named.isdisjoint({one.removesuffix(".py") for one in TOOLS})


def test_each_folder_in_the_zip_is_one_that_code_outside_it_imports() -> None:
    """Observers are named by a setting, what is for agents by stages of users, and codecs by their flows."""
    folder = Path(flowguard.__file__).parent
    packed = [file for file in folder.rglob("*.py") if file.relative_to(folder).parts[0] not in TOOLS]
    by_users = {"observers", "ai", "codecs"}
    folders = {file.relative_to(folder).parts[0] for file in packed if file.parent != folder} - by_users
    named = {
        name
        for file in packed
        for name in re.findall(r"^\s*(?:from|import) flowguard\.(\w+)", file.read_text(), re.MULTILINE)
        if file.relative_to(folder).parts[0] != name
    }
    assert folders - named == set()


@pytest.mark.proof("runs pip twice")
def test_equal_code_is_equal_bytes_from_another_directory_and_at_another_time(
    teahouse: Path, shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = packed(shelf)
    elsewhere = enter(make_teahouse(tmp_path / "a" / "copy of it"), monkeypatch)
    for place in (elsewhere, *elsewhere.rglob("*")):
        os.utime(place, (1_000_000_000, 1_000_000_000))
        place.chmod(0o700)
    (elsewhere / "teahouse" / "__pycache__").mkdir(exist_ok=True)
    (elsewhere / "teahouse" / "__pycache__" / "old.pyc").write_bytes(b"old")
    other = packed(shelf, "-o", "out/functions.zip", "-r", str(teahouse / one["lock"]))
    assert (elsewhere / "out" / "functions.zip").read_bytes() == (teahouse / "build" / "functions.zip").read_bytes()
    assert (elsewhere / "out" / "functions.lock").read_text() == (teahouse / "build" / "functions.lock").read_text()
    assert (other["sha256"], other["notes"]) == (one["sha256"], [])


@pytest.mark.proof("runs pip four times")
def test_a_lock_file_is_kept_to(teahouse: Path, shelf: Path, tmp_path: Path) -> None:
    (teahouse / "requirements.txt").write_text("tiny\n")
    said = packed(shelf)
    assert "tiny 1.1" in {part["name"] for part in said["parts"]}
    lock = teahouse / "build" / "functions.lock"
    assert packed(shelf, "-r", str(lock), "--locked")["sha256"] == said["sha256"]
    refused = package("teahouse.handlers", "--locked", "--no-index", "--find-links", str(shelf))
    assert refused.exit_code == 2
    assert "requirements.txt: boto3 99.0, botocore 99.0, pydantic 99.0, tiny 1.1 are not pinned there" in refused.stderr
    changed = shutil.copytree(shelf, tmp_path / "changed")
    write_wheel(changed, "tiny", "1.1", files={"tiny.py": "import evil"})
    given = ("teahouse.handlers", "-r", str(lock), "--no-index", "--find-links", str(changed))
    assert "DO NOT MATCH THE HASHES" in package(*given).stderr


def test_boto3_is_left_out_where_lambdas_own_is_wanted(teahouse: Path, tmp_path: Path) -> None:
    for name in ("boto3", "botocore", "urllib3"):
        write_wheel(tmp_path, name)
    said = pack_shelf(tmp_path, lambda_boto3=True)
    assert said.left_out == ("boto3 1.0", "botocore 1.0")
    files = contents(teahouse / said.zip)
    assert ("boto3.py" in files, "botocore.py" in files, "urllib3.py" in files) == (False, False, True)
    assert "boto3==1.0" in said.lock.read_text(), "pip wants to see it even so"


@pytest.mark.slow("packs a function and its wheels")
def test_what_a_function_would_lack_is_named(teahouse: Path, tmp_path: Path) -> None:
    write_wheel(tmp_path, "pydantic")
    assert "teahouse/handlers.py:4 imports tiny, which no requirement brings" in pack_shelf(tmp_path).notes
    write_wheel(tmp_path, "tiny")
    assert [note for note in pack_shelf(tmp_path).notes if "imports" in note] == []


@pytest.mark.slow("packs a function and its wheels")
def test_the_extra_that_a_codec_needs_is_named(teahouse: Path, tmp_path: Path) -> None:
    needs = "the codec of make-tea needs cryptography, which no requirement brings: each function of it fails; add"

    def named() -> list[str]:
        return [note for note in pack_shelf(tmp_path).notes if "codec" in note]

    assert named() == [], "it has none"
    sealed = FLOW.replace('object_id="order_id")', 'object_id="order_id", codec=Encrypted("alias/tea"))')
    (teahouse / "teahouse" / "flow.py").write_text(f"from flowguard.codecs import Encrypted\n{sealed}")
    enter_again()
    assert named() == [f"{needs} flowguard-aws[codec] to the requirements"]
    write_wheel(tmp_path, "cryptography", files={"cryptography/__init__.py": ""})
    assert named() == []


def enter_again() -> None:
    for name in [one for one in sys.modules if one.partition(".")[0] == "teahouse"]:
        del sys.modules[name]


@pytest.mark.slow("packs a function and its wheels")
def test_what_pip_chose_for_another_python_is_named(teahouse: Path, tmp_path: Path) -> None:
    write_wheel(tmp_path, "tiny", requires=('more ; python_version < "3.12"',))
    write_wheel(tmp_path, "pydantic", requires=('more ; python_version < "3.12" and extra == "all"',))
    of_another = [note for note in pack_shelf(tmp_path, runtime="python3.99").notes if "Pythons" in note]
    here = RUNTIME.removeprefix("python")
    assert of_another == [
        f"what tiny 1.0 need on some Pythons only was chosen for this one, {here}: run it on the runtime's"
    ]
    assert [note for note in pack_shelf(tmp_path).notes if "Pythons" in note] == []


@pytest.mark.proof("packs what a function needs as it is installed here, and runs it in a process of its own")
def test_lambda_imports_the_handler_from_the_zip_and_runs_a_record(teahouse: Path, shelf: Path, tmp_path: Path) -> None:
    real = Path(shutil.copytree(shelf, tmp_path / "real", ignore=shutil.ignore_patterns("pydantic*")))
    for name in ("pydantic", "pydantic-core", "typing-extensions", "typing-inspection", "annotated-types"):
        wheel_of_installed(real, name)
    said = packed(real, "--lambda-boto3")
    task, layer = tmp_path / "task", tmp_path / "layer"
    with zipfile.ZipFile(teahouse / said["zip"]) as opened:
        opened.extractall(task)
    layer.mkdir()
    for name in ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six", "urllib3"):  # Lambda's own
        found = Path(str(importlib.util.find_spec(name).origin))  # type: ignore[union-attr]  # they are installed
        (layer / (place := found.parent if found.name == "__init__.py" else found).name).symlink_to(place)

    command = [sys.executable, "-I", "-S", "-c", INVOKES, str(task), str(layer), *said["handlers"]]
    command.append(str(Path(flowguard.__file__).parent))
    region = {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=region)
    assert ran.returncode == 0, ran.stderr
    answers, cups = json.loads(ran.stdout.splitlines()[-1])
    assert answers == [{"batchItemFailures": []}] * 2
    assert cups == [{"order_id": {"S": "o-1"}}]


@pytest.mark.proof("asks the package index")
@pytest.mark.parametrize(
    "architecture", ["arm64", pytest.param("x86_64", marks=pytest.mark.long("the same of the other architecture"))]
)
def test_the_index_has_the_wheels_of_both_architectures(architecture: str, tmp_path: Path) -> None:
    given = ("flows.orders.handlers", "--architecture", architecture, "-o", str(tmp_path), "--json")
    said = json.loads(package(*given).stdout)
    compiled = [path for path in contents(tmp_path / "functions.zip") if path.endswith(".so")]
    machine = {"arm64": "aarch64", "x86_64": "x86_64"}[architecture]
    assert [path for path in compiled if f"cpython-313-{machine}" in path] == compiled != []
    assert said["architecture"] == architecture


# -- what is refused, and leaves no trace


def refused(teahouse: Path, *arguments: str) -> str:
    """What is said of a call after which nothing has changed."""
    before = sorted(one for one in teahouse.rglob("*") if "__pycache__" not in one.parts)
    result = package("--options", "deploy.toml", "--no-index", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    after = sorted(one for one in teahouse.rglob("*") if "__pycache__" not in one.parts)
    assert [one for one in after if one not in before and one != teahouse / "build"] == []
    assert {*before} <= {*after}
    assert "nothing was written" in result.stderr or "handler" in result.stderr or "module" in result.stderr
    return result.stderr


def test_dependencies_that_pip_does_not_find_are_named(teahouse: Path, shelf: Path) -> None:
    (teahouse / "requirements.txt").write_text("tiny==3.0\n")
    told = refused(teahouse, "teahouse.handlers", "--find-links", str(shelf))
    assert "pip: it found no wheels for" in told
    assert "tiny==3.0" in told
    assert "--find-links" in told


def test_a_file_that_was_there_is_kept_when_something_fails(teahouse: Path, tmp_path: Path) -> None:
    (teahouse / "build").mkdir()
    kept = teahouse / "build" / "functions.zip"
    kept.write_bytes(b"of yesterday")
    write_wheel(tmp_path, "pydantic", files={"../../evil.py": ""})
    with pytest.raises(CannotPackage, match=r"pydantic 1\.0 has the file '\.\./\.\./evil\.py'"):
        pack_shelf(tmp_path)
    assert [one.name for one in kept.parent.iterdir()] == ["functions.zip"]
    assert kept.read_bytes() == b"of yesterday"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nowhere",), "there is no module 'nowhere' here"),
        (("teahouse.flow",), "has no handler made by lambda_handler(…)"),
        (("teahouse.handlers:Coffee",), "no handler of teahouse.handlers serves 'Coffee'"),
        (("teahouse.handlers", "-o", "/proc/nowhere/x"), "/proc/nowhere/x/functions.zip: cannot be written"),
        (("teahouse.handlers", "-o", "deploy.toml"), "deploy.toml/functions.zip: cannot be written"),
        (("teahouse.handlers", "-r", "no\x1b.txt"), "cannot be read"),
        (("teahouse.handlers", "--include", "nowhere"), "nowhere: there is no such file"),
    ],
)
def test_what_cannot_be_packed_is_refused_before_pip_is_asked(
    arguments: tuple[str, ...], told: str, teahouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pip, "download", None)
    said = refused(teahouse, *arguments)
    assert told in said
    assert "\x1b" not in said


def test_a_directory_in_the_place_of_the_zip_is_refused(teahouse: Path) -> None:
    (teahouse / "taken.zip").mkdir()
    assert "taken.zip: cannot be written: it is a directory" in refused(
        teahouse, "teahouse.handlers", "-o", "taken.zip"
    )


def program(folder: Path, text: str) -> str:
    file = folder / "python"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("echo No module named pip >&2; exit 1", "this Python has none: install it with python -m ensurepip"),
        ("echo 'WARNING: connection broken by x' >&2; exit 1", "the package index is out of reach; name a directory"),
        ("printf 'ERROR: a\\033[2Jb\\n' >&2; exit 1", r"a\\x1b\[2Jb"),
        ("exec tail -f /dev/null", "it had not ended after 0 s, and was stopped"),
    ],
)
def test_a_pip_that_fails_is_a_clear_error(text: str, told: str, tmp_path: Path) -> None:
    pip = Pip(python=program(tmp_path, text), longest=0.4)
    with pytest.raises(CannotPackage, match=told):
        pip.download(Requirements("none"), LambdaPlatform("python3.13", "arm64"), tmp_path)


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("tiny==1.0", "flowguard-aws @ file://"),
        ("flowguard-aws==0.1.0", "flowguard-aws @ file://"),
        ("tiny==1.0 --hash=sha256:00", " --hash=sha256:"),
        ("FlowGuard_AWS[xray]==0.1.0 --hash=sha256:00", ""),
    ],
)
def test_this_flowguard_is_taken_unless_its_hash_is_in_the_requirements(text: str, own: str, tmp_path: Path) -> None:
    Pip(python=program(tmp_path, "exit 0")).download(
        Requirements("pyproject.toml", text), LambdaPlatform("python3.13", "arm64"), tmp_path
    )
    said = (tmp_path / "own.txt").read_text()
    assert own in said if own else said == ""
    assert ("--hash" in said) is ("--hash" in own)


@pytest.mark.parametrize("text", ["flowguard==0.1.3", "tiny==1.0\nFlowguard[x]>=0 ; python_version > '3'"])
def test_the_package_of_others_that_is_called_flowguard_is_not_packed(text: str, tmp_path: Path) -> None:
    with pytest.raises(CannotPackage, match=r"^requirements.txt: it asks for flowguard, which is another project"):
        Pip(python="/nowhere").download(
            Requirements("requirements.txt", text), LambdaPlatform("python3.13", "arm64"), tmp_path
        )


def test_a_python_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CannotPackage, match=r"nowhere cannot be run: No such file or directory; nothing was written"):
        Pip(python="/nowhere").download(Requirements("none"), LambdaPlatform("python3.13", "arm64"), tmp_path)


def test_each_runtime_takes_the_wheels_that_its_amazon_linux_can_load() -> None:
    newer, older = ([*LambdaPlatform(f"python3.{minor}", "arm64").arguments()] for minor in (12, 11))
    assert "--python-version=3.12" in newer
    assert "--platform=manylinux_2_34_aarch64" in newer
    assert "--platform=manylinux_2_28_aarch64" not in older
    assert {"--platform=manylinux_2_26_aarch64", "--platform=manylinux2014_aarch64"} <= {*older}
