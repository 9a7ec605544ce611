"""The variables of a function are as many as Lambda takes, with those that the deployment fills in."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from flowguard.deploy.needs import Deployment
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.variables import LARGEST_ENVIRONMENT, _added, variable_problems
from tests.deploy import everything
from tests.deploy.exercised import needs
from tests.deploy.templates import MODULES, of_type, options_of

NAME: Final = "everything-pack"


def with_variable(needed: Deployment, length: int) -> Deployment:
    """The deployment of that function alone, with a variable of so many bytes."""
    function = needed.function(NAME)
    given = {**dict(function.environment), "SHOP": "x" * length}
    return replace(needed, functions=(replace(function, environment=tuple(sorted(given.items()))),))


def most(needed: Deployment) -> int:
    """The longest variable that may be added."""
    refused = partial(_is_refused, needed)
    return bisect_left(range(LARGEST_ENVIRONMENT), 1, key=refused) - 1


def _is_refused(needed: Deployment, length: int) -> bool:
    return bool([*variable_problems(with_variable(needed, length))])


def deployment(**given: Any) -> Deployment:
    return needs("tests.deploy.everything", options=DeployOptions.model_validate({**everything.OPTIONS, **given}))


def test_more_than_lambda_takes_is_refused_with_the_longest() -> None:
    chosen = {"functions": {"pack": {"environment": {"SHOP": "x" * 4_000, "BB": "y"}}}}
    with pytest.raises(CannotDeploy) as refused:
        deployment(**chosen)
    [problem] = refused.value.problems
    assert problem.startswith(f"the variables of {NAME} may have ")
    assert "bytes of 4,096 that Lambda takes, 4,000 of them in SHOP; " in problem


def test_bytes_count_and_not_characters() -> None:
    needed = deployment()
    length = most(needed)
    wide = replace(needed.function(NAME), environment=(*needed.function(NAME).environment, ("SHOP", "é" * length)))
    assert [*variable_problems(replace(needed, functions=(wide,)))]
    assert not [*variable_problems(with_variable(needed, length))]
    [problem] = variable_problems(with_variable(needed, length + 1))
    assert "may have 4,097 bytes of 4,096" in problem


def test_a_text_of_json_is_measured_with_its_escapes() -> None:
    needed = deployment()
    length = most(needed)
    quoted = replace(needed.function(NAME), environment=(*needed.function(NAME).environment, ("SHOP", '"' * length)))
    assert [*variable_problems(replace(needed, functions=(quoted,)))]


@pytest.mark.parametrize("name", MODULES)
def test_what_the_template_fills_in_is_all_that_it_adds(name: str) -> None:
    options = options_of(name)
    needed = needs(MODULES[name], options=options)
    made = {
        one["FunctionName"]: {*one["Environment"]["Variables"]} for _, one in of_type(name, "AWS::Lambda::Function")
    }
    for function in needed.functions:
        assert {*dict(function.environment), *_added(needed, function)} == made[function.name]


def test_what_the_template_fills_in_counts_as_long_as_it_may_be() -> None:
    needed = deployment()
    bare = replace(needed.function(NAME), environment=(), links_to=None)
    assert _added(needed, bare) == {}
    bucket = replace(bare, environment=(("FLOWGUARD_BUCKET", "texts"),))
    assert {name: len(text) for name, text in _added(needed, bucket).items()} == {"FLOWGUARD_BUCKET_OWNER": 12}
    late = replace(bare, environment=(("FLOWGUARD_SCHEDULER_GROUP", "flowguard"),))
    role = "arn:aws:iam::123456789012:role/clocks"
    alone = replace(needed, undelivered_schedules=None, scheduler_role=role)
    assert {name: len(text) for name, text in _added(alone, late).items()} == {"FLOWGUARD_SCHEDULER_ROLE": len(role)}
    assert _added(needed, late).keys() == {"FLOWGUARD_SCHEDULER_ROLE", "FLOWGUARD_SCHEDULER_UNDELIVERED"}
    assert _added(needed, replace(bare, links_to="x")).keys() == {"FLOWGUARD_ANSWERS_URL"}


def test_it_is_refused_where_only_that_is_too_much() -> None:
    needed = deployment()
    length = most(needed)
    without = tuple((name, text) for name, text in needed.function(NAME).environment if name != "FLOWGUARD_BUCKET")
    function = replace(needed.function(NAME), environment=without)
    there = len('"FLOWGUARD_BUCKET":"long-texts",') + len('"FLOWGUARD_BUCKET_OWNER":"123456789012",')
    assert most(replace(needed, functions=(function,))) == length + there
