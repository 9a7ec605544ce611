"""Clients of botocore, set as flowguard's calls need them. To load botocore takes a third of a cold start."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.config import Config

from flowguard.aws.botocore_time import end_in_time
from flowguard.aws.request_bodies import write_bodies
from flowguard.aws.service_models import ServiceModels
from flowguard.aws.transport.agent import AGENT
from flowguard.aws.transport.connections import CONNECT_SECONDS, READ_SECONDS

if TYPE_CHECKING:
    from boto3.session import Session

_CONFIG = Config(
    retries={"mode": "standard", "max_attempts": 3},
    connect_timeout=CONNECT_SECONDS,
    read_timeout=READ_SECONDS,
    user_agent=AGENT,
)
"""A call that hangs must not use up the lease: botocore's own defaults wait for a minute. It would also put the user
agent together anew each time: a quarter of a call's CPU."""

_BY_CONSTRUCTION = _CONFIG.merge(Config(parameter_validation=False, max_pool_connections=20))
"""The settings for DynamoDB. botocore checks no parameters of it: flowguard writes them itself, and the check costs a
fifth of a call's CPU. An error in a write that a user records is reported by DynamoDB.

The pool has room for ten handlers and ten commits at once."""

_ONCE = _BY_CONSTRUCTION.merge(Config(retries={"mode": "standard", "total_max_attempts": 1}))
"""For writes that must not come late: botocore repeats what was not answered, and the first one may still be done."""


class BotocoreClients:
    """Makes clients of one session. Without one of the caller's, boto3 itself is not loaded.

    boto3's clients are botocore's, and the rest of it (resources, transfers) costs a tenth of a cold start.
    """

    def __init__(self, session: Session | None = None) -> None:
        self._session = session

    @cached_property
    def session(self) -> botocore.session.Session:
        """Return botocore's session. Each reads its tables of endpoints and defaults anew: 40 ms of CPU."""
        session = botocore.session.Session()
        session.register_component("data_loader", ServiceModels(session.get_component("data_loader")))
        return session

    def client(self, service: str, endpoint_url: str | None = None, *, once: bool = False) -> Any:
        """Make a client, whose calls end before their invocation does.

        One of DynamoDB makes no call twice by itself where it is for calls made ``once``.
        """
        create: Callable[..., Any] = self.session.create_client if self._session is None else self._session.client
        config = _CONFIG if service != "dynamodb" else _ONCE if once else _BY_CONSTRUCTION
        client = create(service, config=config, endpoint_url=endpoint_url)
        end_in_time(client)
        if service == "dynamodb":
            write_bodies(client)
        return client
