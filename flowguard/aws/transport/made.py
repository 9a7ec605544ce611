"""The lean clients of a process, made of its environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from typing import Any

import botocore

from flowguard.aws.transport.choice import endpoint_in
from flowguard.aws.transport.connections import Connections
from flowguard.aws.transport.credentials import Credentials
from flowguard.aws.transport.json_client import JSONClient, Place
from flowguard.aws.transport.services import SERVICES


def json_client(
    service: str,
    environment: Mapping[str, str],
    session: Callable[[], Any],
    botocore: Callable[[], Any],
    *,
    once: bool = False,
) -> JSONClient | None:
    """Make the client of a service for an environment in which botocore is not needed.

    None for other services, and where nobody has credentials: botocore says so with each call. None too where a
    container's credentials name their account, for botocore then calls DynamoDB at an endpoint of the account's own.
    Raises :class:`SettingsError` where a container's token can be in no header.

    ``session`` returns the process' session of botocore, ``botocore`` makes botocore's client.
    """
    spoken = SERVICES.get(service)
    region = environment["AWS_DEFAULT_REGION"]
    endpoint = endpoint_in(environment, service)
    if spoken is None or endpoint is None or (credentials := _credentials(environment, session)) is None:
        return None
    connections = Connections(endpoint, environment.get("AWS_CA_BUNDLE") or _roots())
    return JSONClient(spoken, Place(region, connections, credentials), botocore, once=once)


def _credentials(environment: Mapping[str, str], session: Callable[[], Any]) -> Callable[[], Credentials] | None:
    """Return what knows the credentials at any time. Those of a container end, and botocore renews them before."""
    if environment.get("AWS_ACCESS_KEY_ID"):
        fixed = Credentials(
            environment["AWS_ACCESS_KEY_ID"],
            environment["AWS_SECRET_ACCESS_KEY"],
            environment.get("AWS_SESSION_TOKEN"),
        )
        return lambda: fixed
    from flowguard.aws.transport.container_token import wrong_token  # functions of Lambda mostly have keys

    if (wrong := wrong_token(environment)) is not None:
        raise wrong
    if (kept := session().get_credentials()) is None or kept.get_frozen_credentials().account_id:
        return None

    def renewed() -> Credentials:
        try:
            frozen = kept.get_frozen_credentials()
        except Exception:  # the token may be another by now, and botocore may say what it is
            if (wrong := wrong_token(environment)) is not None:
                raise wrong from None
            raise
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)

    return renewed


def _roots() -> str:
    """Return botocore's file of certificates, or certifi's where that is installed."""
    certifi = PathFinder.find_spec("certifi")
    origins = [botocore.__file__] if certifi is None or certifi.origin is None else [certifi.origin, botocore.__file__]
    files = [os.path.join(os.path.dirname(origin), "cacert.pem") for origin in origins]  # noqa: PTH118, PTH120 - loads no pathlib
    return files[0] if os.path.exists(files[0]) else files[-1]  # noqa: PTH110 - loads no pathlib
