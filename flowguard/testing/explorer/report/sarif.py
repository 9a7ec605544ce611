"""A report as SARIF 2.1.0, which code hosts show beside the lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, Final
from urllib.parse import quote

from flowguard.testing.explorer.report.findings import Report, Trace, Violation

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(report: Report | Trace, version: str) -> str:
    """Return a report or one schedule as a SARIF log with a result for each violation."""
    names = sorted({violation.rule for violation in report.violations})
    driver = {"name": "flowguard explore", "version": version, "rules": [{"id": name} for name in names]}
    results = [_result(violation) for violation in report.violations]
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, ensure_ascii=False, indent=2)


def _result(violation: Violation) -> dict[str, Any]:
    first = violation.problems[0]
    text = f"schedule {violation.schedule}: {first.where}, {first.text}. {violation.fix}"
    return {
        "ruleId": violation.rule,
        "level": "error",
        "message": {"text": text},
        "locations": list(_places(violation)),
    }


def _places(violation: Violation) -> Iterator[dict[str, Any]]:
    site = violation.site
    if site is None or not site.file:
        return
    path = Path(site.file)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    yield {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(PurePath(shown).as_posix(), errors="replace")},
            "region": {"startLine": site.line},
        }
    }
