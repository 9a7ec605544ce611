"""AWS inside this process, on moto. Its tables, queues and topics are gone when the block ends.

Calls are made one at a time. Functions are not run here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakSet

from botocore.client import BaseClient
from botocore.credentials import Credentials

from flowguard.errors import SettingsError
from flowguard.sim.account import REGION
from flowguard.sim.calls import ApiCall, Interceptor, Proceed, Response, intercept, one_at_a_time
from flowguard.sim.in_process import AWSInProcess
from flowguard.sim.strict.interceptor import Strict
from flowguard.sim.strict.state import items_of_any_size


class EmbeddedAWS(AWSInProcess):
    """A whole AWS for one block, in ``region``.

    Equal values of ``seed`` and equal calls give equal ids: message ids, receipts, subscriptions.

    There can be one at a time in a process, for moto keeps its state in the process. What AWS documents as too large
    or malformed is refused as AWS refuses it; ``refusing`` makes destinations refuse for good:
    ``aws.refusing.deny("sqs:emails")``.
    """

    def __init__(self, *, seed: int = 0, region: str = REGION) -> None:
        super().__init__(seed=seed, region=region)
        self._strict = Strict(self.refusing)

    def _open(self, opened: ExitStack) -> None:
        opened.enter_context(moto_engines(self.seed))
        opened.enter_context(intercept(one_at_a_time(), innermost=True))
        opened.enter_context(intercept(adopting(), innermost=True))
        opened.enter_context(intercept(self._strict, innermost=True))

    def create_function(self, name: str) -> None:
        """Let a function exist. It is not run: an invocation is accepted, and a synchronous one returns null."""
        self._strict.functions.add(name)


@contextmanager
def moto_engines(seed: int) -> Iterator[None]:
    """Run moto's engines with its dummy credentials for the block.

    Its source of ids is seeded, and put back afterwards as it was.
    """
    try:
        # here, since it is heavy and comes with an extra
        from moto import mock_aws
        from moto.moto_api._internal import mock_random
    except ImportError as error:
        raise SettingsError("EmbeddedAWS", "moto is not installed; pip install 'flowguard-aws[local]'") from error
    ids = mock_random.getstate()
    with mock_aws(config={"lambda": {"use_docker": False}}):
        mock_random.seed(seed)
        try:
            with items_of_any_size():
                yield
        finally:
            mock_random.setstate(ids)


def empty(services: Iterable[str], seed: int) -> None:
    """Empty moto's engines of these services, and reset their ids."""
    # here, since it is heavy and comes with an extra
    from moto.backends import get_backend
    from moto.moto_api._internal import mock_random

    for service in sorted(services):
        try:
            engine: Any = get_backend(service.replace("-", ""))  # type: ignore[call-overload]  # whatever moto has
        except (ImportError, KeyError):
            continue
        engine.reset()
    mock_random.seed(seed)


def adopting() -> Interceptor:
    """Return an interceptor that brings each client under moto.

    A client that was made before moto was imported would go to the real AWS otherwise, and one that was made without
    credentials could sign nothing.
    """
    from moto.core.models import patch_client  # heavy

    adopted: WeakSet[BaseClient] = WeakSet()

    def adopt(call: ApiCall, proceed: Proceed) -> Response:
        if call.client not in adopted:
            patch_client(call.client)
            client: Any = call.client  # its signer is private: boto3 has no other way to give it credentials
            signer = client._request_signer
            if signer._credentials is None:
                signer._credentials = Credentials("embedded", "embedded")
            adopted.add(call.client)
        return proceed()

    return adopt
