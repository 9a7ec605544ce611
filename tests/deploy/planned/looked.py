"""Looks at files as ``flowguard doctor`` does."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from flowguard.cli.iac import FORMATS
from flowguard.deploy.examination import examine
from flowguard.deploy.finding import LiveFinding
from flowguard.deploy.needs import Deployment
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.planned import template_file, terraform_plan
from flowguard.deploy.planned.account import PlannedAccount
from flowguard.deploy.planned.resources import Resources
from tests.deploy.exercised import needs
from tests.deploy.planned.plans import plan_of
from tests.deploy.templates import MODULES, options_of, text_of

Text = tuple[str, str, str]

FILE: Final = "file.json"


def read(text: str, form: str, parameters: Mapping[str, str] | None = None) -> Resources:
    """What a file of that form will make."""
    if form == "terraform-json":
        return terraform_plan.resources_of(FILE, plan_of(json.loads(text)))
    return template_file.resources_of(FILE, json.loads(text), parameters or {})


def findings(resources: Resources, needed: Deployment, options: DeployOptions) -> list[LiveFinding]:
    account = PlannedAccount(resources, needed)
    return list(examine(needed, options, account, now=0, most_runs=100))


def found_in(name: str, form: str = "cloudformation", change: Callable[[Any], None] | None = None) -> list[Text]:
    """What is found in the file of a deployment, of which ``change`` breaks something: rule, severity, resource.

    What no file says, that queues have no bound, and that the options name no account, is left out.
    """
    template = copy.deepcopy(json.loads(text_of(name, form)))
    if change is not None:
        change(template)
    options = options_of(name)
    looked = findings(read(json.dumps(template), form), needs(MODULES[name], options=options), options)
    return [
        (each.rule, each.severity.value, each.resource)
        for each in looked
        if each.rule not in ("not-in-a-file", "concurrency-open", "account-open")
    ]


def made(module: str, options: DeployOptions, form: str) -> tuple[str, Deployment]:
    needed = needs(module, options=options)
    return FORMATS[form](needed, options), needed
