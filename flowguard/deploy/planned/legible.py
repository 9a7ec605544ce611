"""Findings about a file, in words for people."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from flowguard.deploy.finding import LiveFinding
from flowguard.deploy.planned.resources import HERE, STREAM_HERE

_WORDS: Final = ((HERE.region, "REGION"), (HERE.account, "ACCOUNT"), (STREAM_HERE, "TIME"))


def legible(finding: LiveFinding) -> LiveFinding:
    """Return a finding whose ARNs say REGION and ACCOUNT for those of the deployment."""
    return replace(
        finding,
        resource=_said(finding.resource),
        what=_said(finding.what),
        why=_said(finding.why),
        fix=_said(finding.fix),
    )


def _said(text: str) -> str:
    for place, word in _WORDS:
        text = text.replace(place, word)
    return text
