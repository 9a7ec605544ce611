"""MiniStack: many of AWS's services in one process, with real Lambda processes and event source mappings.

It has no message-move task, and it is not from AWS: where it differs from AWS's documents, the documents win.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tests.engines.process import LOOPBACK, engine_home, free_port, over_http, running


@contextmanager
def ministack(*, enforced: bool = False) -> Iterator[str]:
    """The endpoint URL of a MiniStack that lives as long as the block.

    Where the permissions are ``enforced``, the account's number and ``test`` are the keys that may do everything.
    """
    home = engine_home("ministack")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="ministack-") as scratch:
        env = {
            "GATEWAY_PORT": str(port),
            "BIND_HOST": LOOPBACK,
            "IOT_MTLS_ENABLED": "0",  # or it listens on 8883 too, on all interfaces
            "SFTP_ENABLED": "0",
            "MINISTACK_ACCOUNT_ID": "123456789012",
            "TMPDIR": scratch,
            **({"AUTH": "true", "AWS_SECRET_ACCESS_KEY": "test", "AWS_SESSION_TOKEN": ""} if enforced else {}),
        }
        answers = over_http("/_ministack/health")
        command = [str(home / "bin" / "python"), "-m", "ministack"]  # the script has its first place written into it
        with running(home, command, port=port, answers=answers, env=env) as endpoint_url:
            yield endpoint_url
