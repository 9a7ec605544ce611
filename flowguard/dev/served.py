"""The engine on a port: moto, for every process of this machine.

boto3 in other processes and the AWS CLI use it by ``--endpoint-url``. Nothing is kept when it stops.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import boto3

from flowguard.dev.cannot_serve import CannotServe
from flowguard.dev.local_pages import ANSWERS, MAILBOX, LocalPages
from flowguard.dev.port_requests import OneAtATime
from flowguard.dev.unread_queues import Mailbox
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.strict.state import items_of_any_size
from flowguard.text.printable import printable

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer

LOOPBACK: Final = "127.0.0.1"
ACCESS_KEY: Final = "local"
"""The credentials of the engine, both key and secret. It takes any."""


class ServedEngine:
    """An AWS on a port for the block, with one account. There can be one in a process.

    Port 0 takes one that is free. Raises :class:`CannotServe` where the port cannot be had, and where the extra is not
    installed.
    """

    def __init__(self, host: str = LOOPBACK, port: int = 0, *, region: str = REGION, account: str = ACCOUNT_ID) -> None:
        self.host = host
        self.port = port
        self.region = region
        self.account = account
        self._exit = ExitStack()
        self._pages: LocalPages | None = None

    @property
    def url(self) -> str:
        """Return the URL by which this machine reaches it."""
        host = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(self.host, self.host)  # noqa: S104 - compared, not bound
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def answers_url(self) -> str:
        """Return the base of links that are answered here."""
        return f"{self.url}{ANSWERS}"

    @property
    def mailbox_url(self) -> str:
        """Return where a browser sees what nobody reads."""
        return f"{self.url}{MAILBOX}"

    @property
    def pages(self) -> LocalPages:
        """Return the pages on the port of an engine that is open."""
        if self._pages is None:
            raise CannotServe(self.host, "it is not open")
        return self._pages

    def __enter__(self) -> Self:
        os.environ["MOTO_ACCOUNT_ID"] = self.account  # read when moto is imported
        try:
            # here, since they are heavy and come with an extra
            import moto.moto_server.werkzeug_app as moto_app
            from werkzeug.serving import WSGIRequestHandler, make_server  # comes with an extra
        except ImportError as error:
            missing = (error.name or "moto").partition(".")[0]
            problem = f"{missing} is not installed; pip install 'flowguard-aws[serve]'"
            raise CannotServe("flowguard dev", problem) from None
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it writes a line for each request
        with ExitStack() as opened:
            opened.enter_context(items_of_any_size())
            listening = opened.enter_context(self._listening())
            self.port = listening.getsockname()[1]
            engine = OneAtATime(moto_app.DomainDispatcherApplication(moto_app.create_backend_app), self.host)
            app = LocalPages(engine, self.host, Mailbox(self.account, self.region, self.answers_url))
            self._pages = app
            reads = getattr(moto_app, "MotoRequestHandler", WSGIRequestHandler)  # moto has none of its own before 5.2.5
            server = make_server(self.host, self.port, app, threaded=True, request_handler=reads, fd=listening.fileno())
            opened.callback(_stop, server, _started(server))
            self._exit = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()

    def _listening(self) -> socket.socket:
        # werkzeug itself would print its own words and leave the process where the port is taken
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        if not (self.host.isascii() and self.host.isprintable()):
            raise CannotServe(printable(self.host), "this is no name of a host")
        try:
            return socket.create_server((self.host, self.port), family=family)
        except OSError as error:
            problem = f"{getattr(error, 'strerror', None) or error}; give another with --port, or 0 for any"
            raise CannotServe(f"{printable(self.host)} port {self.port}", problem) from None

    def client(self, service: str) -> Any:
        """Return a new client of the engine."""
        session: Any = boto3.session.Session(ACCESS_KEY, ACCESS_KEY, region_name=self.region)
        return session.client(service, endpoint_url=self.url)

    def environment(self) -> dict[str, str]:
        """Return the variables by which a process uses the engine, and nothing of the machine's own AWS setup."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": self.region,
            "AWS_SECRET_ACCESS_KEY": ACCESS_KEY,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }


def _started(server: BaseWSGIServer) -> threading.Thread:
    thread = threading.Thread(target=server.serve_forever, name="engine", daemon=True)
    thread.start()
    return thread


def _stop(server: BaseWSGIServer, thread: threading.Thread) -> None:
    server.shutdown()
    thread.join()
    server.server_close()
