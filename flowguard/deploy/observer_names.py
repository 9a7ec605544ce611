"""The observers that options name. What they load, a function looks for when it starts."""

from __future__ import annotations

import re
from typing import Final

from flowguard.errors import shown
from flowguard.observers.named import BUILT_IN

_OWN: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def checked_names(names: str) -> str:
    """Return the names of observers. Raises :class:`ValueError` where one can be none."""
    known = ("logs", *BUILT_IN)
    for name in (part.strip() for part in names.split(",")):
        if name and name not in known and _OWN.fullmatch(name) is None:
            raise ValueError(
                f"names {shown(name)}, which is no observer: there are {', '.join(known)}, and your own as "
                "module:attribute"
            )
    return names
