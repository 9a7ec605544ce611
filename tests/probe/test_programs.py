"""Every engine does what the table says of it: what is expected to differ differs, and nothing else."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from botocore.exceptions import ClientError

import flowguard.probe
from flowguard.aws_facts.fact import CANNOT, MODELLED
from flowguard.aws_facts.fact_table import FACTS
from flowguard.probe import ask_objects
from flowguard.probe.engine_of import ProbedEngine, opened
from flowguard.probe.lab import Interrupted, Lab
from flowguard.probe.probed import IN_VAIN, Ended, Finding, as_json, can_run, chosen, run_all, run_one
from flowguard.probe.saw import PROBES, Probe, Saw, asks
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept

FORGETS = "sqs-fifo-deduplication"
"""It waits until a queue has forgotten a message, which takes five minutes on a real engine."""


def unexpected(engine: ProbedEngine, probes: Iterable[Probe]) -> list[str]:
    findings = run_all([probe for probe in probes if can_run(probe, engine)], engine)
    return [
        f"{one.name}: {one.ended}, {one.what}; the table says {one.expected}" for one in findings if not one.is_expected
    ]


@pytest.mark.slow("140 programs")
def test_the_memory_does_what_the_table_says() -> None:
    with opened("memory") as engine:
        assert unexpected(engine, PROBES.values()) == []


@pytest.mark.proof("140 programs on moto")
def test_moto_does_what_the_table_says() -> None:
    with opened("moto") as engine:
        assert unexpected(engine, PROBES.values()) == []


def check_served(name: str, names: Iterable[str], request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(f"{name.replace('-', '_')}_url")
    with opened(name, url, "us-east-1") as engine:
        assert engine.together, "they wait beside each other"
        assert unexpected(engine, [PROBES[one] for one in names]) == []


@pytest.mark.proof("some 140 programs of which some wait for a real engine", first=True)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("dynamodb-local", marks=pytest.mark.long("repeats it on an engine that has tables alone")),
        pytest.param("elasticmq", marks=pytest.mark.long("repeats it on an engine that has queues alone")),
        "ministack",
    ],
)
def test_a_served_engine_does_what_the_table_says(name: str, request: pytest.FixtureRequest) -> None:
    check_served(name, PROBES.keys() - {FORGETS}, request)


@pytest.mark.long("waits for five minutes")
@pytest.mark.parametrize("name", ["elasticmq", "ministack"])
def test_a_served_engine_forgets_copies_as_the_table_says(name: str, request: pytest.FixtureRequest) -> None:
    check_served(name, {FORGETS}, request)


# -- the programs and the table


def test_each_program_is_that_of_a_row() -> None:
    assert sorted(PROBES.keys() - FACTS.keys()) == []


def test_each_row_has_a_program_or_says_why_it_has_none() -> None:
    assert [name for name, fact in FACTS.items() if (name in PROBES) is bool(fact.by_hand)] == []


def test_each_program_says_what_it_does_and_costs() -> None:
    for probe in PROBES.values():
        assert probe.about.endswith("."), probe.name
        assert "\n" not in probe.about, probe.name
        assert probe.services, probe.name
        assert 0 < probe.cents <= 5, probe.name
        assert 0 < probe.seconds <= 900, probe.name


def test_all_of_them_cost_cents() -> None:
    assert sum(probe.cents for probe in PROBES.values()) < 50


def test_a_program_sees_nothing_of_flowguard() -> None:
    folder = Path(flowguard.probe.__file__).parent
    programs = [folder / f"{name}.py" for name in ("lab", "made", "saw")] + sorted(folder.glob("ask_*.py"))
    assert len(programs) > 10
    for path in programs:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            seen = [name for name in names if name.startswith("flowguard")]
            assert all(name.startswith("flowguard.probe") for name in seen), path.name


def test_two_programs_of_one_row_are_refused() -> None:
    with pytest.raises(ValueError, match="two programs for sqs-delay"):
        asks("sqs-delay", "sqs")(lambda lab: Saw(True, ""))


def test_programs_are_chosen_by_the_beginnings_of_their_names() -> None:
    assert [one.name for one in chosen(["sqs-delay"])] == ["sqs-delay"]
    assert len(chosen(["sqs-", "s3-"])) > 20
    assert len(chosen([])) == len(PROBES)


@pytest.mark.parametrize(("body", "ok"), [("for nobody", True), ("{}", False), (None, False)])
def test_the_program_of_lost_schedules_sees_where_their_input_ends(body: str | None, ok: bool) -> None:
    """No engine here delivers to the dead-letter queue of a schedule, so it is done in its place."""
    with opened("memory") as engine:

        def given_up(call: ApiCall, proceed: Proceed) -> Response:
            if call.operation == "CreateSchedule" and body is not None:
                target = call.params["Target"]
                assert target["RetryPolicy"] == {"MaximumRetryAttempts": 0}
                assert target["Arn"] != target["DeadLetterConfig"]["Arn"]
                kept = target["DeadLetterConfig"]["Arn"].rpartition(":")[2]
                sqs = engine.clients("sqs")
                sqs.send_message(QueueUrl=sqs.get_queue_url(QueueName=kept)["QueueUrl"], MessageBody=body)
            return proceed()

        services = ("scheduler", "sqs")
        with intercept(given_up), Lab(engine.clients, engine.pause, services=services, rest=engine.pause) as lab:
            seen = PROBES["scheduler-undelivered"].run(lab)
    assert seen.as_described is ok
    assert seen.what.startswith("taken; kept: [")


@pytest.mark.parametrize(
    ("answer", "ok"),
    [
        ("12.5 s, 40 calls, ['AccessDenied', 'taken']", True),
        ("0.1 s, 1 calls, ['taken']", False),
        ("never in 100 s: ['AccessDenied']", False),
    ],
)
def test_the_program_of_new_permissions_wants_them_refused_and_then_granted(
    monkeypatch: pytest.MonkeyPatch, answer: str, ok: bool
) -> None:
    monkeypatch.setattr(ask_objects, "function", lambda lab, source, **settings: lab.name())
    monkeypatch.setattr(ask_objects, "grant", lambda lab, arn, statements: None)
    monkeypatch.setattr(ask_objects, "_invoked", lambda lab, name, payload: answer)

    class Functions:
        meta = SimpleNamespace(method_to_api_mapping={})

        def get_function_configuration(self, **params: Any) -> Any:
            return {"Role": "arn:aws:iam::123456789012:role/r"}

    with opened("memory") as engine:
        clients: Any = lambda service: Functions() if service == "lambda" else engine.clients(service)  # noqa: E731
        with Lab(clients, engine.pause, rest=engine.pause) as lab:
            assert PROBES["iam-eventually-consistent"].run(lab).as_described is ok


def test_the_program_of_large_inputs_waits_until_the_role_of_its_schedules_is_known() -> None:
    refusals = iter([True, True])

    def new_role(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "CreateSchedule" and next(refusals, False):
            raise ClientError({"Error": {"Code": "ValidationException", "Message": "role"}}, call.operation)
        return proceed()

    with opened("memory") as engine, intercept(new_role), Lab(engine.clients, engine.pause, services=("sqs",)) as lab:
        assert PROBES["scheduler-input-size"].run(lab).as_described


# -- what a program ends with


def ended(run: Any) -> Finding:
    with opened("memory") as engine:
        return run_one(Probe("sqs-delay", "", ("sqs",), 0.01, 1, run), engine)


def test_what_differs_is_unexpected_where_the_table_says_modelled() -> None:
    assert FACTS["sqs-delay"].on("memory") == MODELLED
    assert ended(lambda lab: Saw(True, "x")).is_expected
    assert ended(lambda lab: Saw(False, "x"))[2:4] == (Ended.DIFFERS, "x")
    assert not ended(lambda lab: Saw(False, "x")).is_expected


@pytest.mark.parametrize(("error", "how"), [(KeyError("gone"), Ended.BROKEN), (Interrupted(), Ended.INTERRUPTED)])
def test_an_error_of_a_program_is_a_finding(error: Exception, how: Ended) -> None:
    def run(lab: Lab) -> NoReturn:
        raise error

    found = ended(run)
    assert found.ended is how
    assert not found.is_expected


@pytest.mark.parametrize(
    ("name", "engine", "seconds", "how"),
    [
        ("sqs-age-metric", "ministack", IN_VAIN, Ended.AS_DESCRIBED),
        ("sqs-age-metric", "ministack", IN_VAIN + 1, Ended.CANNOT),
        ("sqs-delay", "elasticmq", IN_VAIN + 1, Ended.AS_DESCRIBED),
        ("sqs-age-metric", "aws", IN_VAIN + 1, Ended.AS_DESCRIBED),
        ("sqs-age-metric", "moto", IN_VAIN + 1, Ended.AS_DESCRIBED),
    ],
)
def test_a_program_waits_a_minute_for_what_a_served_engine_cannot_do(
    name: str, engine: str, seconds: int, how: Ended
) -> None:
    waited: list[float] = []

    def run(lab: Lab) -> Saw:
        lab.pause(1)
        lab.pause(seconds - 1)
        return Saw(True, "")

    with opened("memory") as memory:
        probe = Probe(name, "", ("sqs",), 0.01, 1, run)
        assert run_one(probe, memory._replace(name=engine, pause=waited.append)).ended is how
    assert waited == ([1] if how is Ended.CANNOT else [1, seconds - 1])


def test_what_an_engine_does_not_have_is_no_fault_of_the_program() -> None:
    assert ended(lambda lab: lab.ask("sqs", "start_message_move_task", SourceArn=lab.name())).ended is Ended.CANNOT


@pytest.mark.parametrize(
    ("engine", "says", "how", "expected"),
    [
        ("memory", CANNOT, Ended.CANNOT, True),
        ("memory", CANNOT, Ended.AS_DESCRIBED, False),
        ("memory", CANNOT, Ended.DIFFERS, True),
        ("memory", CANNOT, Ended.BROKEN, False),
        ("memory", "breaks: no units", Ended.BROKEN, True),
        ("memory", "breaks: no units", Ended.DIFFERS, False),
        ("memory", "takes more", Ended.DIFFERS, True),
        ("memory", "takes more", Ended.AS_DESCRIBED, False),
        ("memory", "takes more", Ended.BROKEN, False),
        ("aws", MODELLED, Ended.DIFFERS, False),
        ("aws", MODELLED, Ended.AS_DESCRIBED, True),
    ],
)
def test_what_is_expected(engine: str, says: str, how: Ended, expected: bool) -> None:
    finding = Finding("sqs-delay", engine, how, "x", says, ())
    assert finding.is_expected is expected
    assert json.loads(json.dumps(as_json(finding)))["is_expected"] is expected
