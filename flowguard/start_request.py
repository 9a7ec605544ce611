"""A request over HTTP that is to start a run, as the code sees it that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowguard.startup.named_tuple import NamedTuple


class StartRequest(NamedTuple):
    """A request to start a run, or to watch one.

    ``body`` is its JSON, parsed; None where a run is watched. ``claims`` is what the gateway's authorizer says of the
    sender, such as ``claims["sub"]``, or else the client's certificate, ``claims["subjectDN"]``: no request can set it.
    ``caller`` is the name that follows from them, empty where nobody was authorized, or where they name nobody. The
    names in ``headers`` are in lower case. ``query`` has each field in its order.
    """

    body: Any
    claims: Mapping[str, Any]
    caller: str
    path: str
    path_parameters: Mapping[str, str]
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
