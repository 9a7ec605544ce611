"""Clients that are made once: it takes longer to make one than to explore a schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import botocore.session
from boto3.session import Session
from botocore.config import Config


class SameClients:
    """Reuses the clients that boto3 and botocore made in an earlier block of ``kept``.

    Clients keep nothing from call to call. One that is made with more than texts and a ``Config``, such as a function,
    is made anew.
    """

    def __init__(self) -> None:
        self._made: dict[Any, Any] = {}

    @contextmanager
    def kept(self) -> Iterator[None]:
        make: Any = Session.client
        create: Any = botocore.session.Session.create_client
        Session.client = self._reusing(make, _profile)  # type: ignore[method-assign]  # for the block
        botocore.session.Session.create_client = self._reusing(create, _place)  # type: ignore[method-assign]  # as well
        try:
            yield
        finally:
            Session.client = make  # type: ignore[method-assign]  # as it was
            botocore.session.Session.create_client = create  # type: ignore[method-assign]  # as it was

    def _reusing(self, make: Any, origin: Callable[[Any], Any]) -> Any:
        def client(session: Any, *names: Any, **options: Any) -> Any:
            given = [_known(value) for value in (*names, *options.values())]
            if None in given:
                return make(session, *names, **options)
            key = (make, origin(session), len(names), *options, *given)
            if key not in self._made:
                self._made[key] = make(session, *names, **options)
            return self._made[key]

        return client


def _profile(session: Session) -> Any:
    return session.profile_name


def _place(session: botocore.session.Session) -> Any:
    return session.profile, session.get_config_variable("region")


def _known(option: Any) -> str | None:
    """Return a text that is equal for equal options. None for one of which that is not known."""
    if option is None or isinstance(option, str | bool):
        return repr(option)
    if not isinstance(option, Config):
        return None
    text = repr(sorted((name, repr(value)) for name, value in vars(option).items()))
    return None if " at 0x" in text else text
