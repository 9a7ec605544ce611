"""``flowguard waits`` and ``flowguard callback``: what a run waits for, and an answer by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flowguard.cli import main
from flowguard.destinations import Queue
from flowguard.operate.no_run import no_run
from flowguard.outcome import AwaitedToken, Outcome
from flowguard.protocol.run import Status
from flowguard.sim.account import SIMULATED_KEYS
from flowguard.step import Step
from flowguard.wire.signing import Keyring, Keys
from flowguard.wire.tokens import Tokens, token_row_id
from tests.waits import SCRIPT, START, Admits, AnyOf, Cart, Late, Progress, Search, WaitScene, asks, wait_scene

FLOW = "tests.waits:Carts"
HOSTILE = "\x1b]52;c;\x07\u202e\nx"
FAR = 4_000_000_000_000
"""Of the year 2096, ms: a command reads the machine's clock."""


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Iterator[WaitScene]:
    monkeypatch.setenv("FLOWGUARD_TOKEN_KEYS", SIMULATED_KEYS)
    with wait_scene() as found:
        yield found


def run(*arguments: str, stdin: str | bytes = "") -> Result:
    result = CliRunner().invoke(main, arguments, input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def waits(*arguments: str) -> Result:
    return run("waits", "carts", "c1", *arguments)


def answer(awaited: str, text: str | bytes = "1", *options: str) -> Result:
    return run("callback", awaited, "-", "--flow", FLOW, *options, stdin=text)


def for_some(step: Step[Progress]) -> Outcome:
    row = token_row_id("carts", "c1", "run-1", START, 1, "b")
    token = AwaitedToken("unused", row)
    return AnyOf.when(quorum=2, a=step.event("paid/c1"), b=token, **asks(step, "c"), within=_days(3), on_timeout="late")


def _days(count: int) -> timedelta:
    return timedelta(days=count)


def token(expires_at: int = FAR, keys: str = SIMULATED_KEYS) -> str:
    row = token_row_id("carts", "c1", "run-1", START, 1, "b")
    return Tokens(Keyring(lambda: Keys.parse(keys), _Standing())).make("carts", row, expires_at)


class _Standing:
    def now(self) -> int:
        return 0


def for_a_group(step: Step[Progress]) -> Outcome:
    requests = ((f"s{number}", Cart(cart_id=f"s{number}")) for number in range(100))
    return Late.when_group(step.group(Search, requests), within=_days(3))


# -- groups -----------------------------------------------------------------------------------------------------------


def test_a_group_is_shown_with_its_shards(at: WaitScene) -> None:
    at.begin(for_a_group)
    shown = waits().output
    assert "goes on at late after a group of 100; 0 were asked\n2 of its 2 shards are open\n" in shown
    facts = json.loads(waits("--json").output)["wait"]
    assert facts["group"] == {"requests": 100, "asked": 0, "shards": 2, "open_shards": 2}
    assert facts["names"] == []
    assert at.deliver(*(one for one in at.waiting("answers") if "group.0.0" in str(one)))
    assert json.loads(waits("--json").output)["wait"]["group"]["asked"] == 100
    assert "a group, of which 2 shards are open" in run("waits").output


# -- waits ------------------------------------------------------------------------------------------------------------


def test_a_run_that_waits_is_shown_with_its_names_and_its_deadline(at: WaitScene) -> None:
    at.begin(for_some)
    ref = f"c#{at.item().request_id}"
    result = waits()
    assert (result.exit_code, result.stderr) == (0, "")
    first, until, more, heading, *rows = result.stdout.splitlines()
    assert first == "carts of c1: WAITING at begin, hop 1, request run-1"
    assert until.startswith("until 2027-01-18 08:00:00 UTC (in ")
    assert until.endswith(", then at late")
    assert more == "goes on at some with 2 more of these answers"
    assert heading.split() == ["name", "what", "answer", "under", "the", "id"]
    assert [row.split()[:3] for row in rows] == [
        ["a", "event", "awaited"],
        ["b", "token", "awaited"],
        ["c", "asked", "awaited"],
    ]
    assert "paid/c1" in rows[0]
    assert ref[:6] in rows[2]


def test_a_token_without_a_wait_is_early_and_its_answer_is_not_kept(at: WaitScene) -> None:
    early = answer(token())
    assert (early.stdout, early.exit_code) == ("EARLY\n", 1)
    at.begin(for_some)
    assert (answer(token()).stdout, answer(token()).exit_code) == ("RECORDED\n", 0)


def test_answers_are_counted_and_shown_only_if_asked_for_and_tokens_never(at: WaitScene) -> None:
    at.begin(for_some)
    assert answer("paid/c1", "4711").stdout == "RECORDED\n"
    plain, shown, as_json = waits().stdout, waits("--payload").stdout, waits("--json", "--payload").stdout
    assert "4711" not in plain
    assert "4711" not in waits("--json").stdout
    assert "4711" in shown
    found = json.loads(as_json)
    assert found["wait"]["deadline"] == "2027-01-18T08:00:00.000Z"
    assert (found["wait"]["missing"], found["wait"]["names"][0]) == (
        1,
        {"name": "a", "what": "event", "id": "paid/c1", "answer": "answered", "payload": 4711},
    )
    row = token_row_id("carts", "c1", "run-1", START, 1, "b")
    assert not any(row in text for text in (plain, shown, as_json))


def test_a_wait_that_failed_or_is_over_says_where_the_run_goes_on(at: WaitScene) -> None:
    at.begin(lambda step: AnyOf.when_any(**asks(step, "a"), within=_days(1), on_error="sorry"))
    at.fail("a")
    assert "the wait is over (failed); the run goes on at sorry" in waits().stdout
    assert json.loads(waits("--json").stdout)["wait"]["names"][0]["answer"] == "failed"


def test_an_ask_of_another_flow_has_no_id(at: WaitScene) -> None:
    at.begin(lambda step: Admits.when_all(**_flows(step), within=_days(1)))
    assert [one["what"] for one in json.loads(waits("--json").stdout)["wait"]["names"]] == ["flow"] * 3


def _flows(step: Step[Progress]) -> Any:
    return {name: step.ask(Search, Cart(cart_id=name)) for name in "abc"}


def test_a_run_that_waits_for_nothing_is_shown_too(at: WaitScene) -> None:
    at.begin(for_some)
    at.answer("a")
    at.answer("c")
    at.resume()
    result = run("waits", FLOW, "c1")
    assert (result.exit_code, result.stdout.splitlines()[1]) == (0, "it waits for nothing")
    assert json.loads(waits("--json").stdout)["wait"] is None


def test_where_there_is_no_run_it_says_so(at: WaitScene) -> None:
    result = run("waits", "carts", "nobody")
    assert (result.exit_code, result.stderr) == (
        1,
        f"carts of nobody: {no_run(None)}\n",
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("waits", "carts", ""), "OBJECT: it is empty"),
        (("waits", "carts", "x" * 2_000), "OBJECT: it "),
        (("waits", "\udc80", "c1"), "FLOW: it "),
        (("waits", "carts", HOSTILE), "OBJECT: it has the character U+001B"),
        (("waits", "nowhere:Carts", "c1"), "there is no module 'nowhere'"),
        (("waits", "carts", "c1", "--table", "not-there"), "not-there"),
        (("callback", "", "-", "--flow", FLOW), "TOKEN|ID: it is empty"),
        (("callback", "\udc80", "-", "--flow", FLOW), "TOKEN|ID: it "),
        (("callback", "paid/c1", "nowhere.json", "--flow", FLOW), "nowhere.json: No such file"),
        (("callback", "paid/c1", "-"), "Missing option '--flow'"),
        (("callback", "paid/c1", "-", "--flow", "nowhere:Carts"), "there is no module 'nowhere'"),
        (("callback", "paid/c1", "-", "--flow", FLOW, "--table", "not-there"), "table not-there: does not exist"),
    ],
)
def test_what_cannot_be_run_is_named(at: WaitScene, arguments: tuple[str, ...], told: str) -> None:
    result = run(*arguments, stdin="1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr


# -- callback ---------------------------------------------------------------------------------------------------------


def test_an_answer_by_hand_gets_its_verdict_and_the_run_goes_on(at: WaitScene, tmp_path: Path) -> None:
    at.begin_and_look(for_some)
    (tmp_path / "answer.json").write_text("7", encoding="utf-16")
    assert answer(token()).stdout == "RECORDED\n"
    assert answer(token()).stdout == "DUPLICATE\n"
    assert answer(f"https://a.example/answers/{token()}?{'a' * 2_000}").stdout == "DUPLICATE\n", "its link says it too"
    last = run("callback", "paid/c1", str(tmp_path / "answer.json"), "--flow", FLOW, "--json")
    assert (last.exit_code, json.loads(last.stdout)) == (0, {"verdict": "RESUMED"})
    at.resume()
    assert [(name, payload.a, payload.b) for name, payload in SCRIPT.got] == [("some", 7, 1)]


def test_a_failure_by_hand_has_its_text_and_type(at: WaitScene) -> None:
    at.begin(lambda step: Admits.when_all(a=step.event("x"), **asks(step, "bc"), within=_days(1)))
    assert answer("x", f"no {HOSTILE}\n", "--fail", "--kind", "Broken").stdout == "RECORDED\n"
    for options in (("--payload",), ("--payload", "--json")):
        shown = waits(*options).stdout
        assert "Broken" in shown
        assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    at.answer("b")
    at.answer("c")
    at.resume()
    [(_, payload)] = SCRIPT.got
    assert (payload.a.type, payload.a.text[:3]) == ("Broken", "no ")


def test_an_answer_that_was_not_used_ends_with_one(at: WaitScene) -> None:
    for awaited, verdict in (("nobody/waits", "UNKNOWN"), (token(expires_at=1), "EXPIRED")):
        result = answer(awaited)
        assert (result.exit_code, result.stdout) == (1, f"{verdict}\n")


@pytest.mark.parametrize(
    ("awaited", "text", "told"),
    [
        (token(keys="other:a-key-that-this-command-does-not-have"), "1", "the token is refused: it names a key"),
        ("paid/c1", '"no number"', "a: Input should be a valid integer"),
        ("paid/c1", "", "-: empty; nothing was answered"),
        ("paid/c1", "{", "-: not JSON: "),
        ("paid/c1", "NaN", "-: not JSON: NaN is no value of JSON"),
        ("paid/c1", "[" * 100_000, "-: not JSON: "),
        ("paid/c1", b"\xff\x00\xff", "-: "),
        ("paid/c1", json.dumps(HOSTILE), "a: Input should be"),
        ("paid/c1", json.dumps("\ud800"), "-: not JSON: "),
    ],
)
def test_an_answer_that_cannot_be_used_changes_nothing(at: WaitScene, awaited: str, text: Any, told: str) -> None:
    at.begin(for_some)
    result = answer(awaited, text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr
    assert "\x1b" not in result.stderr
    assert at.wait.answered == frozenset()


def test_where_its_copy_cannot_be_sent_nothing_is_answered(at: WaitScene) -> None:
    at.begin(for_some)
    sqs = at.aws.client("sqs")
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName="answers")["QueueUrl"])
    assert isinstance(at.flow.answers, Queue)
    result = answer("paid/c1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "nothing was answered" in result.stderr
    assert at.item().status is Status.WAITING
    assert at.wait.answered == frozenset()
