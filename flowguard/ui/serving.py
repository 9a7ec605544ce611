"""The inspector on a port of this machine."""

from __future__ import annotations

import socket
from typing import Final

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from flowguard.ui.changes import Changes
from flowguard.ui.guards import hosts_of
from flowguard.ui.inspected import Inspected
from flowguard.ui.pages import inspector

ADDRESS: Final = "127.0.0.1"


class _Quiet(WSGIRequestHandler):
    """Handles a request without a line in the log for it."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""


def opened(inspected: Inspected, changes: Changes | None, port: int) -> BaseWSGIServer:
    """Open the inspector's port, a free one for 0. Threads serve it: a browser opens connections that it never uses.

    Raises OSError for a port that cannot be had.
    """
    with socket.create_server((ADDRESS, port)) as listening:
        address = listening.getsockname()[1]
        app = inspector(inspected, hosts_of(address), changes=changes)
        return make_server(ADDRESS, address, app, threaded=True, request_handler=_Quiet, fd=listening.fileno())
