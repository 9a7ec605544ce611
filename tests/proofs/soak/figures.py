"""What a reader of a soak wants to know beside the sums. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tests.proofs.soak.outcome import Outcome
from tests.proofs.soak.pages.sums import history
from tests.proofs.soak.waits.sums import ends

Figures = dict[str, int | float | str]


def figures(outcome: Outcome) -> Figures:
    """By name, each once; an indented one is a part of the one above it."""
    told, failed, completed = outcome.chronicle, outcome.failed().keys(), outcome.completed()
    pages, orders = outcome.pages.keys(), outcome.orders.keys()
    attempts = told.attempts
    waits, stages = outcome.waits.keys(), ends(outcome)
    return {
        "accepted": len(orders) + len(pages) + len(waits),
        "orders": len(orders),
        "  orders completed": len(orders & completed),
        "  orders dead-lettered": len(orders & failed),
        "page requests": len(pages),
        "  for so many pages": len(outcome.page_rows),
        "  page requests completed": len(pages & completed),
        "  page requests dead-lettered": len(pages & failed),
        "  passed by a newer one": len(pages - completed - failed),
        "    of these after a commit": len({_request(line) for line in history(outcome)} - completed - failed),
        "waits": len(waits),
        "  waits answered": stages["settle"],
        "  waits failed": stages["sorry"],
        "  waits timed out": stages["late"],
        "  waits dead-lettered": len(waits & failed),
        **{f"  answers told {verdict}": n for verdict, n in sorted(told.answered.items())},
        "forged": len(outcome.forged),
        "  told untrusted": told.what["untrusted"],
        "given up by SQS": len(outcome.dead_lettered()),
        "copies of dead letters": _copies(outcome.mail.letters),
        "copies of Complete messages": _copies([one.id for one in outcome.mail.told]),
        "copies of the stages' messages": _copies(outcome.mail.news),
        "effects": len(outcome.effects),
        "attempts": attempts.total(),
        "  begun again": sum(times - 1 for times in attempts.values()),
        "retries": len(told.retries),
        "workers killed": told.points.total(),
        **{f"  {point}": times for point, times in sorted(told.points.items())},
        "workers stalled beyond their lease": told.what["stalled"],
        "calls refused or unanswered": told.faults_by.total(),
        **{f"  {how}": times for how, times in sorted(told.faults_by.items())},
        "deliveries": told.what["received"],
        **{f"  told {what}": told.what[what] for what in ("busy", "done", "duplicate", "stale", "superseded")},
        "  left in the queue by an error": told.what["broken"],
        "runs taken over": told.what["took_over"],
        "  their messages sent for them": told.what["flushed"],
        "commits fenced": told.fenced_by.total(),
        **{f"  by {by}": times for by, times in sorted(told.fenced_by.items())},
        "seconds": round(outcome.seconds, 1),
        "  of a CPU in the workers": round(sum(told.cpu.values()), 1),
    }


def _copies(ids: Sequence[str]) -> int:
    return len(ids) - len(set(ids))


def _request(line: str) -> str:
    return line.partition(".")[0]
