"""Both clients of a service at one address: flowguard's lean one, and botocore's."""

from __future__ import annotations

from typing import Any, Final

import boto3
from boto3.session import Session

from flowguard.aws.botocore_clients import BotocoreClients
from flowguard.aws.clients import Clients
from flowguard.aws.transport.connections import Connections
from flowguard.aws.transport.credentials import Credentials
from flowguard.aws.transport.json_client import JSONClient, Place
from flowguard.aws.transport.services import SERVICES
from flowguard.clock import no_pause

KEYS: Final = Credentials("AKIAIOSFODNN7EXAMPLE", "a-secret", "a-token")
REGION: Final = "eu-west-1"


def session(keys: Credentials = KEYS, region: str = REGION) -> Session:
    return boto3.session.Session(keys.access_key, keys.secret_key, keys.token, region_name=region)


def lean(service: str, url: str, *, keys: Credentials = KEYS, region: str = REGION, **options: Any) -> JSONClient:
    """The lean client of a service. ``read_seconds`` is handed to its connections, all other options to itself."""
    timed = {name: options.pop(name) for name in ("read_seconds", "connect_seconds") if name in options}
    place = Place(region, Connections(url, **timed), lambda: keys)
    options = {"pause": no_pause, "once": False, **options}

    def botocores() -> Any:
        return BotocoreClients(session(keys, region)).client(service, url, once=options["once"])

    return JSONClient(SERVICES[service], place, botocores, **options)


class LeanClients(Clients):
    """Clients at the addresses of engines, of which those of DynamoDB and SQS are lean."""

    def __init__(self, keys: Credentials, region: str, endpoint_urls: dict[str, str]) -> None:
        super().__init__(session(keys, region), endpoint_urls)
        self._keys, self._region = keys, region

    def _client(self, service: str, *, once: bool = False) -> Any:
        if service in SERVICES and service in self._endpoint_urls:
            return lean(service, self._endpoint_urls[service], keys=self._keys, region=self._region, once=once)
        return super()._client(service, once=once)
