"""Scenes that CI plays: the generated template and the zip, on functions that are processes."""

from __future__ import annotations

import os

import pytest

from tests.engines.process import EngineMissing
from tests.proofs.e2e.play import Check, Play, Until
from tests.proofs.e2e.run import played


@pytest.mark.proof("deploys a flow to MiniStack, whose functions are processes that are killed")
def test_deployed_functions_that_are_killed_do_once_what_comes_twice() -> None:
    try:
        checks = list(played(["payments"]))
    except EngineMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    assert [str(check) for check in checks if not check.holds] == []
    assert len(checks) == 12


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
