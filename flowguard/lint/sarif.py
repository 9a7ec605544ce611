"""Findings as SARIF 2.1.0, which code hosts show beside the lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from flowguard.lint.rules import RULES, CodeFinding

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(findings: Iterable[CodeFinding], version: str) -> str:
    """Return one SARIF log with all rules and the findings."""
    driver = {
        "name": "flowguard check",
        "version": version,
        "rules": [
            {
                "id": rule.id,
                "name": rule.name,
                "shortDescription": {"text": f"Code that {rule.what}."},
                "fullDescription": {"text": f"{rule.why}. {rule.fix}."},
                "help": {"text": f"{rule.fix}. See docs/{rule.page}."},
                "defaultConfiguration": {"level": "error"},
            }
            for rule in RULES
        ],
    }
    run = {"tool": {"driver": driver}, "results": [_result(finding) for finding in findings]}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, ensure_ascii=False, indent=2)


def _result(finding: CodeFinding) -> dict[str, Any]:
    return {
        "ruleId": finding.rule_id,
        "level": "error",
        "message": {"text": f"{finding.text}: {finding.rule.why}. {finding.rule.fix}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(PurePath(finding.path).as_posix(), errors="replace")},
                    "region": {"startLine": finding.line, "startColumn": finding.column},
                }
            }
        ],
    }
