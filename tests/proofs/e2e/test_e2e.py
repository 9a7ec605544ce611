"""How scenes are played, and what is said of them. `make prove` plays them all."""

from __future__ import annotations

import json

import pytest

from tests.proofs.e2e.__main__ import as_json
from tests.proofs.e2e.play import Check, Play, Until


def test_a_scene_that_waits_in_vain_fails_and_the_others_go_on() -> None:
    def waiting() -> object:
        yield Until("a message comes", lambda: False)
        raise AssertionError("not reached")

    def quick() -> object:
        yield Until("nothing is missing", lambda: True)
        yield Check("a sum", 2, 2)

    scenes = {"waiting": waiting(), "quick": quick()}
    found = list(Play(scenes, longest=0).checks())  # type: ignore[arg-type]  # generators are made of functions here
    assert [(one.name, one.holds) for one in found] == [("waiting: a message comes", False), ("quick: a sum", True)]


@pytest.mark.parametrize(
    ("checks", "holds", "names"),
    [
        ([Check("a sum", 2, 2)], True, ["a sum"]),
        ([Check("a sum", 2, 2), Check("another", 2, 3)], False, ["a sum", "WRONG  another: 3, not 2"]),
        ([], False, []),
    ],
)
def test_scenes_hold_where_something_was_checked_and_nothing_failed(
    checks: list[Check], holds: bool, names: list[str]
) -> None:
    said = json.loads(as_json(["orders"], checks, 1.4))
    assert (said["holds"], [one["name"] for one in said["checks"]]) == (holds, names)
    assert said["figures"]["deployed scenes"] == 1
