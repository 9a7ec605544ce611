"""Each schedule that a report names shows the same violation in another process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

import pytest

from flowguard.testing import replay
from flowguard.testing.explorer import explore
from tests.proofs.recall import cases
from tests.proofs.recall.case import TABLES

BUDGET: Final[Any] = {"bound": 0, "walks": 0, "patience": 1.0}
KINDS: Final = {
    "adds without a condition": "equivalence",
    "keeps whichever arrives last": "not one after the other",
    "keeps records in its module": "module state",
    "keeps records in an object": "module state",
    "a stage never works": "undisturbed",
    "a stage writes what the stage before it read": "not one after the other",
    "asks for a secret": "undisturbed",
    "waits for ever": "undisturbed",
}
BY_KIND: Final = {case.kind: case for case in cases.BUGS}


def again(kind: str, schedule: str) -> list[str]:
    case = BY_KIND[kind]
    about = {"tables": TABLES, **case.about}
    return sorted({one.rule for one in replay(case.of, case.messages, schedule, **about).violations})


@pytest.mark.proof("explores in a process of its own")
def test_a_violation_is_there_again_in_a_fresh_process() -> None:
    said = []
    for kind, rule in KINDS.items():
        case = BY_KIND[kind]
        report = explore(case.of, case.messages, **{"tables": TABLES, **case.about, **BUDGET})
        assert rule in [one.rule for one in report.violations], str(report)
        said += [(kind, one.schedule, one.rule) for one in report.violations]
    answer = subprocess.run(
        [sys.executable, "-m", "tests.testing.explorer.test_replayed", json.dumps(said)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(answer.stdout)
    assert [one for one, rules in zip(said, found, strict=True) if one[2] not in rules] == []


if __name__ == "__main__":
    sys.stdout.write(json.dumps([again(kind, schedule) for kind, schedule, _ in json.loads(sys.argv[1])]))
