"""Each shipped flow with its own samples: what these are meant to end as is no violation, and all of them run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from flowguard.cli import main
from flowguard.project.loading import SHIPPED

SAMPLES: Final = Path(__file__).parents[3] / "samples"
FLOWS: Final = (*SHIPPED, "flows.answer_ticket.flow:AnswerTicket")
"""The last is not among those that a command takes where none is named: it needs an extra."""

FOLDERS: Final = sorted({name.split(".")[1] for name in FLOWS})


QUICK: Final = ("--bound", "0", "--walks", "0")


def explored(folder: str, *options: str) -> dict[str, object]:
    flows = [part for name in FLOWS if name.split(".")[1] == folder for part in ("--flow", name)]
    shown = CliRunner().invoke(main, ["explore", str(SAMPLES / folder), *flows, "--json", *options])
    report: dict[str, object] = json.loads(shown.stdout)
    return report


def test_each_shipped_flow_has_samples() -> None:
    assert [folder for folder in FOLDERS if not (SAMPLES / folder).is_dir()] == []


def test_a_link_is_used_only_after_its_row_was_saved() -> None:
    """Here the worker that made it is held up before that, and so before the commit after which it is sent."""
    assert explored("answer_ticket", "--schedule", "1+2/z6")["violations"] == []


@pytest.mark.proof("explores each shipped flow for some seconds")
@pytest.mark.parametrize("folder", [*FOLDERS])
def test_no_sample_of_a_shipped_flow_is_a_violation(folder: str) -> None:
    report = explored(folder, *QUICK, "--seconds", "8")
    assert report["violations"] == []
    assert report["not_run"] == []


@pytest.mark.long("the same to the end")
@pytest.mark.parametrize("folder", [*FOLDERS])
def test_without_an_option_the_verdict_on_its_samples_is_clean(folder: str) -> None:
    report = explored(folder)
    assert (report["verdict"], report["singles_left"], report["unjudged"]) == ("clean", 0, 0)
