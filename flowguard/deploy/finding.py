"""A finding of ``flowguard doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How bad a finding is."""

    ERROR = "error"
    """Something is lost, done twice or never done."""
    WARNING = "warning"
    """A guarantee has no margin, or somebody should look."""
    NOTE = "note"
    """Something could not be looked at, or has no bound, which may be meant."""


@dataclass(frozen=True)
class LiveFinding:
    """A difference between what is live and what the flows need."""

    rule: str
    severity: Severity
    resource: str
    what: str
    why: str
    fix: str

    def as_json(self) -> dict[str, str]:
        """Return the finding as JSON values."""
        facts = {name: getattr(self, name) for name in ("rule", "resource", "what", "why", "fix")}
        return {**facts, "severity": self.severity.value}


def error(rule: str, resource: str, what: str, why: str, fix: str) -> LiveFinding:
    return LiveFinding(rule, Severity.ERROR, resource, what, why, fix)


def warning(rule: str, resource: str, what: str, why: str, fix: str) -> LiveFinding:
    return LiveFinding(rule, Severity.WARNING, resource, what, why, fix)


def note(rule: str, resource: str, what: str, why: str, fix: str) -> LiveFinding:
    return LiveFinding(rule, Severity.NOTE, resource, what, why, fix)
