"""Clients that are made once: it takes longer to make one than to explore a schedule."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from boto3.session import Session


class SameClients:
    """Reuses the clients that boto3 made in an earlier block of ``kept``.

    Clients keep nothing from call to call. One that is made with more than texts, such as a ``Config``, is made anew,
    and so is a resource's.
    """

    def __init__(self) -> None:
        self._made: dict[Any, Any] = {}

    @contextmanager
    def kept(self) -> Iterator[None]:
        make: Any = Session.client

        def client(session: Session, *names: Any, **options: Any) -> Any:
            key = (session.profile_name, *names, *sorted(options.items()))
            if not all(isinstance(one, str) for one in (*names, *options.values())):
                return make(session, *names, **options)
            if key not in self._made:
                self._made[key] = make(session, *names, **options)
            return self._made[key]

        Session.client = client  # type: ignore[assignment]  # for the block
        try:
            yield
        finally:
            Session.client = make  # type: ignore[method-assign]  # as it was
