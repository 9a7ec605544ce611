"""The figures that are the same on every machine are held here; the others are printed by ``make bench``."""

from __future__ import annotations

import gc
import json
import logging

import pytest

from flowguard.observers.named import BUILT_IN
from tests.aws.engines import on_dynamodb_local
from tests.proofs.bench import __main__ as bench
from tests.proofs.bench import batches, calls, cpu, memory, pictures, price, starts, waits, watched, wrus
from tests.proofs.bench.figure import Figure, State, table
from tests.proofs.bench.flow import PAYLOAD_BYTES, a_cart


@pytest.fixture(scope="module")
def made() -> dict[str, int]:
    return calls.calls_by_verdict()


@pytest.mark.slow("measures")
@pytest.mark.parametrize("said", ["claimed", "completed"])
def test_a_stage_costs_two_calls(made: dict[str, int], said: str) -> None:
    assert made[said] == 2


@pytest.mark.parametrize("said", ["done", "duplicate", "stale", "superseded"])
def test_a_message_that_is_not_let_in_costs_one_call(made: dict[str, int], said: str) -> None:
    assert made[said] == 1


def test_ten_records_that_share_their_calls_cost_at_most_three() -> None:
    assert [(made, most) for _, made, most in batches.calls_by_batch()] == [(2, 3), (2, 3), (2, 2), (1, 1)]


def test_a_stage_costs_two_write_units(dynamodb_local_url: str) -> None:
    units, size = wrus.units_of_a_stage(dynamodb_local_url)
    assert units <= wrus.MARK
    assert size <= 1024


def test_waiting_costs_what_is_said_of_it(dynamodb_local_url: str) -> None:
    """Two writes a stage, rows for ids of others alone, one call an answer, two from outside; no read to go on."""
    assert waits.costs(on_dynamodb_local(dynamodb_local_url)) == waits.MARKS


def test_the_payload_has_the_size_that_is_told() -> None:
    assert len(a_cart().model_dump_json()) == pytest.approx(PAYLOAD_BYTES, rel=0.1)


def test_an_item_is_as_large_as_dynamodb_says() -> None:
    assert wrus.item_size(
        {"pk": {"S": "é"}, "n": {"N": "123"}, "b": {"B": b"12"}, "m": {"M": {"x": {"BOOL": True}}}}
    ) == (2 + 2 + 1 + 3 + 1 + 2 + 1 + 3 + 1 + 1 + 1)


@pytest.mark.proof("measures each observer")
def test_each_shipped_observer_is_measured_and_none_is_left_behind() -> None:
    logger = logging.getLogger("flowguard")
    before = logger.level, logger.propagate, list(logger.handlers)
    figures = [figure.name for figure in watched.figures(rounds=1)]
    names = [name.split()[2].rstrip(",") for name in figures if name.startswith("CPU with")]
    assert names == ["logs", *BUILT_IN]
    assert (logger.level, logger.propagate, logger.handlers) == before


@pytest.mark.proof("works off hundreds of messages")
def test_the_bare_calls_are_the_very_calls_of_the_handler() -> None:
    message, by_hand, by_own_client = cpu.flowguard_and_bare()
    assert cpu.ratio(message, by_hand, rounds=1, messages=1) > 0
    assert cpu.ratio(message, by_own_client, rounds=1, messages=1) > 0


@pytest.mark.slow("measures")
def test_what_the_collector_was_to_leave_alone_is_left_alone_afterwards() -> None:
    before = gc.get_freeze_count()
    assert before  # tests/conftest.py
    cpu.ratio(lambda: None, lambda: sum(range(10_000)), rounds=1)
    assert gc.get_freeze_count() > before // 2  # some of them have ended


def test_a_cold_start_is_measured_in_a_process_of_its_own() -> None:
    found = starts.start(starts.Program("import json"))
    assert 0 <= found.cpu < 10_000
    assert found.memory > 1


@pytest.mark.slow("measures")
def test_a_worker_is_measured_in_a_process_of_its_own() -> None:
    first, last = memory.grown(40)
    assert 10_000 < first <= last


def test_ten_stages_that_share_their_calls_are_written_twice_and_sent_once() -> None:
    leased, unleased = (price.event_of(flow, cpu_ms=0) for flow in (price.TwoStages, price.Unleased))
    assert (leased.writes, leased.sends, leased.calls) == (20, 1, 3)
    assert (unleased.writes, unleased.sends) == (10, 1)
    assert unleased.dollars_a_million() < leased.dollars_a_million()


def test_the_whole_bill_has_lines_cold_starts_and_a_part_of_a_core() -> None:
    event = price.Event(writes=0, reads=0, sends=0, calls=0, cpu_ms=10, logged=400)
    whole = event.in_full()
    assert whole.cpu_ms == pytest.approx(10 * 1_769 / 256 + 0.01 * 500)
    assert whole.logged == 1_000
    added = (whole.cpu_ms - 10) / 1_000 / 4 * 13.3334 + 600 / 1e6 * 500
    assert whole.dollars_a_million() - event.dollars_a_million() == pytest.approx(added / 10)
    assert event.in_no_time().logged == 0
    assert price.event_of(price.TwoStages, cpu_ms=0).logged > 0


def test_polls_of_an_empty_queue_have_a_price_of_their_own() -> None:
    """Five pollers, each asks every 20 s: 648,000 requests in thirty days."""
    assert price.polls_a_month() == pytest.approx(0.2592)


FIGURES = [
    Figure("within", 1.004, 1.00, "×"),
    Figure("over", 3, 2, noise=0.1),
    Figure("nearly", 1.05, 1.00, "×", noise=0.05),
    Figure("compared", 1.5, None, "×"),
    Figure("at least", 0.85, 0.85, "×", is_least=True),
    Figure("too little", 0.7, 0.85, "×", noise=0.1, is_least=True),
    Figure("missing", None, 2, note="not there"),
]


def test_a_figure_is_judged_as_it_is_printed() -> None:
    states = [State.OK, State.MISSED, State.NEAR, State.COMPARED, State.OK, State.MISSED, State.SKIPPED]
    assert [figure.state for figure in FIGURES] == states


@pytest.mark.parametrize(
    ("measured", "floor", "state"),
    [
        (0.76, 0.74, State.OUT_OF_REACH),
        (0.80, 0.74, State.MISSED),  # far from its floor
        (0.76, 0.66, State.MISSED),  # it could keep its mark
        (0.68, 0.74, State.NEAR),
        (0.66, 0.74, State.OK),
    ],
)
def test_a_mark_below_what_can_be_is_out_of_reach_while_the_figure_is_near_that(
    measured: float, floor: float, state: State
) -> None:
    assert Figure("price", measured, 0.67, "×", noise=0.05, floor=floor).state is state


def test_the_table_has_a_row_for_each_figure() -> None:
    assert table(FIGURES).splitlines() == [
        "figure      measured   mark  noise",
        "within         1.00×  1.00×         ok",
        "over               3      2    10%  missed",
        "nearly         1.05×  1.00×     5%  near",
        "compared       1.50×      -         -",
        "at least       0.85×  0.85×         ok",
        "too little     0.70×  0.85×    10%  missed",
        "missing            -      2         skipped  not there",
    ]


def measures(*figures: Figure) -> dict[str, bench.Measure]:
    return {"some": lambda: list(figures), "others": lambda: []}


def test_a_missed_mark_fails_only_where_that_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main([], measures(*FIGURES)) == 0
    assert capsys.readouterr().out == f"{table(FIGURES)}\n"
    assert bench.main(["--check"], measures(*FIGURES)) == 1
    assert capsys.readouterr().err == "missed by more than its noise: over, too little\n"
    assert bench.main(["--check"], measures(FIGURES[0], FIGURES[2])) == 0
    assert bench.main(["--check", "--only", "others"], measures(*FIGURES)) == 0


def test_the_figures_can_be_had_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--json"], measures(*FIGURES[:2])) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["state"] for row in rows] == ["ok", "missed"]
    assert rows[0]["measured"] == 1.004


def test_a_panel_is_drawn_of_the_figures_that_are_there() -> None:
    rows = [
        Figure("CPU of a cold start", 1.1, 1.05, "×").as_json(),
        Figure("  of the durable execution SDK", 0.5, None, "×").as_json(),
        Figure("  of Powertools' batch and idempotency", None, None, "×").as_json(),
    ]
    [panel] = pictures.panels(rows)
    assert [(bar.label, round(bar.value, 2)) for bar in panel.bars] == [("flowguard", 1.1), ("durable SDK", 2.2)]
