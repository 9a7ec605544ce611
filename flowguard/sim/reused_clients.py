"""Clients that are made once: it takes longer to make one than to explore a schedule."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from boto3.session import Session
from botocore.config import Config


class SameClients:
    """Reuses the clients that boto3 made in an earlier block of ``kept``.

    Clients keep nothing from call to call. One that is made with more than texts and a ``Config``, such as a function,
    is made anew.
    """

    def __init__(self) -> None:
        self._made: dict[Any, Any] = {}

    @contextmanager
    def kept(self) -> Iterator[None]:
        make: Any = Session.client

        def client(session: Session, *names: Any, **options: Any) -> Any:
            given = [_known(one) for one in (*names, *options.values())]
            if None in given:
                return make(session, *names, **options)
            key = (session.profile_name, len(names), *options, *given)
            if key not in self._made:
                self._made[key] = make(session, *names, **options)
            return self._made[key]

        Session.client = client  # type: ignore[assignment]  # for the block
        try:
            yield
        finally:
            Session.client = make  # type: ignore[method-assign]  # as it was


def _known(option: Any) -> str | None:
    """Return a text that is equal for equal options. None for one of which that is not known."""
    if option is None or isinstance(option, str | bool):
        return repr(option)
    if not isinstance(option, Config):
        return None
    text = repr(sorted((name, repr(value)) for name, value in vars(option).items()))
    return None if " at 0x" in text else text
