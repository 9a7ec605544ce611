"""Findings about a file, in words for people."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Final

from flowguard.deploy.finding import LiveFinding
from flowguard.deploy.imports import Imports, shown
from flowguard.deploy.planned.resources import HERE, STREAM_HERE

_WORDS: Final = ((HERE.region, "REGION"), (HERE.account, "ACCOUNT"), (STREAM_HERE, "TIME"))


def legible(finding: LiveFinding, imports: Imports = MappingProxyType({})) -> LiveFinding:
    """Return a finding whose ARNs say REGION and ACCOUNT for those of the deployment, and imports as the options do."""
    return replace(
        finding,
        resource=_said(finding.resource, imports),
        what=_said(finding.what, imports),
        why=_said(finding.why, imports),
        fix=_said(finding.fix, imports),
    )


def _said(text: str, imports: Imports) -> str:
    text = shown(text, imports)
    for place, word in _WORDS:
        text = text.replace(place, word)
    return text
