from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flowguard.cli import COMMANDS, main

SAMPLES = Path(__file__).parents[2] / "samples" / "envelopes"


def run(*arguments: str | Path, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


def normalize(*arguments: str | Path, stdin: str | bytes = "") -> Result:
    return run("normalize", *arguments, stdin=stdin)


def messages(output: str) -> list[str]:
    return [json.loads(json.loads(line)["body"])["Message"] for line in output.split("\n") if line]


def test_each_record_is_one_line_of_json() -> None:
    result = normalize(SAMPLES / "fifo.json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [json.loads(message)["step"] for message in messages(result.stdout)] == [1, 2]


def test_every_good_sample_is_printed_in_one_go() -> None:
    result = normalize(*sorted(SAMPLES.glob("*.json")))
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(messages(result.stdout)) >= 12


def test_what_was_printed_is_printed_again_unchanged() -> None:
    once = normalize(*sorted(SAMPLES.glob("*.json"))).stdout
    assert normalize("-", stdin=once).stdout == once


def test_a_dash_is_standard_input() -> None:
    assert messages(normalize("-", stdin='{"cart_id": "cart-1001"}').stdout) == ['{"cart_id":"cart-1001"}']


def test_a_file_may_hold_an_event_a_line(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text('"one \u2028 line"\n\n{"cart_id": 1}\n')
    assert messages(normalize(file).stdout) == ["one \u2028 line", '{"cart_id":1}']


def test_files_of_other_shells_are_read_too(tmp_path: Path) -> None:
    file = tmp_path / "windows.json"
    file.write_bytes('{"note": "Müller"}'.encode("utf-16"))
    assert messages(normalize(file).stdout) == ['{"note":"Müller"}']


def test_half_a_surrogate_pair_is_printed_escaped() -> None:
    assert messages(normalize("-", stdin='"tea \\ud83d"').stdout) == ["tea \ud83d"]


def test_a_bad_record_is_named_and_the_others_are_printed() -> None:
    file = SAMPLES / "bad" / "one-bad-of-three.json"
    result = normalize(file)
    assert result.exit_code == 2
    assert len(messages(result.stdout)) == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"{file}: ")
    assert line.endswith(": messageAttributes.price.stringValue: 'cheap' is not a number")


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("bad/*.json")), ids=lambda path: path.stem)
def test_every_bad_sample_gets_one_line_on_stderr(path: Path) -> None:
    result = normalize(path)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1


def test_a_file_that_cannot_be_read_does_not_stop_the_next(tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text('{"Records": [')
    (tmp_path / "nan.json").write_text('{"messageId": "m-1", "receiptHandle": "", "body": "", "x": NaN}')
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "bytes.json").write_bytes(b'"\xff\xfe\xfd"')
    names = ["missing.json", "cut.json", "nan.json", "empty.json", "bytes.json"]
    result = normalize(*(tmp_path / name for name in names), tmp_path, SAMPLES / "plain-text.json")
    assert result.exit_code == 2
    assert len(messages(result.stdout)) == 1
    missing, cut, nan, empty, not_utf, folder = result.stderr.splitlines()
    assert missing == f"{tmp_path / 'missing.json'}: No such file or directory"
    assert cut.startswith(f"{tmp_path / 'cut.json'}: not JSON: ")
    assert nan == f"{tmp_path / 'nan.json'}: not JSON: NaN is no value of JSON"
    assert empty == f"{tmp_path / 'empty.json'}: empty"
    assert not_utf.startswith(f"{tmp_path / 'bytes.json'}: ")
    assert folder == f"{tmp_path}: Is a directory"


def test_a_bad_line_is_named_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text('{"cart_id": 1}\n{"cart_id": \n')
    result = normalize(file)
    assert (result.exit_code, len(messages(result.stdout))) == (2, 1)
    assert result.stderr.startswith(f"{file}:2: not JSON: ")


def test_without_a_file_it_says_so() -> None:
    result = normalize()
    assert result.exit_code == 2
    assert "Missing argument 'FILE...'" in result.stderr


# -- the command itself ----------------------------------------------------------------------------------------------


def test_the_help_lists_every_command_and_loads_none() -> None:
    code = "import sys; from flowguard.cli import main; main(['--help'], standalone_mode=False); print(*sys.modules)"
    shown = python(code).stdout
    listed, modules = shown.rsplit("\n", 2)[0], shown.split()
    assert all(f"  {name}  " in listed for name in COMMANDS)
    assert not {f"flowguard.cli.{name}" for name in COMMANDS} & set(modules)


def test_normalize_needs_no_boto3() -> None:
    assert python("import sys, flowguard.cli.normalize; print('boto3' in sys.modules)").stdout == "False\n"


def test_each_command_says_what_it_does() -> None:
    shown = normalize("--help").stdout
    assert "Usage: main normalize [OPTIONS] FILE..." in shown
    assert "A dash is standard input." in shown


def test_an_unknown_command_is_named() -> None:
    result = run("normalise")
    assert result.exit_code == 2
    assert "No such command 'normalise'" in result.stderr


def test_as_a_process_it_answers_with_its_exit_code() -> None:
    code = "from flowguard.cli import main; main(prog_name='flowguard')"
    good = python(code, "normalize", SAMPLES / "direct-sqs.json")
    assert (good.returncode, good.stderr, len(messages(good.stdout))) == (0, "", 1)
    bad = python(code, "normalize", SAMPLES / "bad" / "missing-body.json", SAMPLES / "direct-sqs.json")
    assert (bad.returncode, bad.stdout) == (2, good.stdout)
    assert bad.stderr.endswith(": body: missing\n")


def test_without_click_it_says_what_to_install() -> None:
    result = python("import sys; sys.modules['click'] = None; import flowguard.cli")
    assert result.returncode == 2
    assert result.stderr == "The flowguard command needs its extra: pip install 'flowguard-aws[cli]'\n"


def python(code: str, *arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    root = SAMPLES.parents[1]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, encoding="utf-8", cwd=root, check=False)
