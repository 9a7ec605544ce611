"""The ids of what hops send, without the digest that tells flows, objects and times apart (docs/decisions/0015)."""

from __future__ import annotations

import re


def readable(name: str) -> str:
    """``run-1.2.0`` of ``run-1-0123456789abcdef.2.0``. Fails where there is no digest."""
    plain, digests = re.subn(r"-[0-9a-f]{16}(?=\.\d)", "", name)
    assert digests == 1, f"{name} has no digest"
    return plain
