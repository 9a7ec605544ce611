"""Every template that the tests look at: of each shipped flow, and of the one that needs everything."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from flowguard.cli.iac import FORMATS
from flowguard.deploy.options import DeployOptions
from tests.deploy import charging, starting, streaming, ticking, topics, uploading
from tests.deploy.everything import OPTIONS
from tests.deploy.exercised import needs

SHIPPED: Final = sorted(path.parent.name for path in Path("flows").glob("*/handlers.py"))
MODULES: Final[Mapping[str, str]] = {
    **{name: f"flows.{name}.handlers" for name in SHIPPED},
    "everything": "tests.deploy.everything",
    "charging": "tests.deploy.charging",
    "starting": "tests.deploy.starting",
    "streaming": "tests.deploy.streaming",
    "ticking": "tests.deploy.ticking",
    "topics": "tests.deploy.topics",
    "uploading": "tests.deploy.uploading",
}


def options_of(name: str) -> DeployOptions:
    given = {
        "everything": OPTIONS,
        "charging": tomllib.loads(charging.OPTIONS),
        "starting": tomllib.loads(starting.OPTIONS),
        "streaming": streaming.OPTIONS,
        "ticking": ticking.OPTIONS,
        "topics": topics.OPTIONS,
        "uploading": uploading.OPTIONS,
    }
    return DeployOptions.model_validate(given.get(name, {}))


@cache
def text_of(name: str, form: str) -> str:
    options = options_of(name)
    return FORMATS[form](needs(MODULES[name], options=options), options)


def template(name: str, form: str = "cloudformation") -> Any:
    return json.loads(text_of(name, form))


def of_type(name: str, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The resources of a type, with their properties."""
    for key, resource in template(name)["Resources"].items():
        if resource["Type"] == kind:
            yield key, resource["Properties"]
