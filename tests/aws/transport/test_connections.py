"""A connection is kept from call to call, and one that has become useless is noticed before anything is sent."""

from __future__ import annotations

import os
import select
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
    SSLError,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from flowguard.aws.transport.connections import KEPT_SECONDS, MOST_KEPT, READ_SECONDS, Connections, trusted
from tests.aws.transport.served import Reply, Server, answer, served

FINE: Final = Reply(answer(200, {}))
HELLO: Final = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"


class Now:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def used(server: Server) -> list[int]:
    """The connections that the requests came over, in turn."""
    return [request.connection for request in server.requests]


def test_calls_share_a_connection() -> None:
    with served(FINE) as server:
        connections = Connections(server.url)
        for _ in range(3):
            assert connections.exchange(HELLO).body == b"{}"
        assert used(server) == [1, 1, 1]


def test_the_first_call_has_the_connection_that_was_opened_before() -> None:
    with served(FINE) as server:
        connections = Connections(server.url)
        connections.open()
        [kept] = connections._kept
        assert kept.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), "small requests wait for nothing"
        connections.exchange(HELLO)
        assert [one.connection for one in connections._kept] == [kept.connection]
        assert kept.connection.gettimeout() == READ_SECONDS


@pytest.mark.parametrize("how", ["closed", "reset", "spoken out of turn"])
def test_what_the_service_has_done_meanwhile_is_noticed_and_the_request_is_sent_once(how: str) -> None:
    with served(FINE) as server:
        connections = Connections(server.url)
        connections.exchange(HELLO)
        [kept] = connections._kept
        if how == "closed":
            server.drop()
        elif how == "reset":
            server._connections[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            server.drop(politely=False)
        else:
            server._connections[0].sendall(b"HTTP/1.1 408 Gone\r\n\r\n")
        wait_until_readable(kept.connection)
        assert connections.exchange(HELLO).status == 200
        assert len(server.requests) == 2


def wait_until_readable(connection: socket.socket) -> None:
    """Wait for what comes by itself, without reading it."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    assert poll.poll(5_000)


@pytest.mark.parametrize(
    ("later", "expected"), [(0, [1, 1]), (KEPT_SECONDS, [1, 1]), (KEPT_SECONDS + 0.1, [1, 2]), (-1, [1, 2])]
)
def test_one_that_was_kept_for_long_is_not_used(later: float, expected: list[int]) -> None:
    """A frozen function hears nothing. A clock that jumps back says nothing of how long it was."""
    now = Now()
    with served(FINE) as server:
        connections = Connections(server.url, clock=now)
        connections.exchange(HELLO)
        now.now += later
        connections.exchange(HELLO)
        assert used(server) == expected


def test_an_answer_that_ends_the_connection_ends_it() -> None:
    with served(Reply(answer(200, {}, {"Connection": "close"}), "close"), FINE) as server:
        connections = Connections(server.url)
        connections.exchange(HELLO)
        assert connections._kept == []
        connections.exchange(HELLO)
        assert used(server) == [1, 2]


@pytest.mark.parametrize("then", ["close", "reset"])
def test_a_connection_that_failed_is_not_kept(then: str) -> None:
    with served(Reply(b"HTTP/1.1 20", then), FINE) as server:
        connections = Connections(server.url)
        with pytest.raises(ConnectionClosedError) as raised:
            connections.exchange(HELLO)
        assert vars(raised.value)["request"] is None, "it would have the signature"
        assert connections._kept == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_a_call_that_is_broken_off_leaves_no_connection_for_others(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to it would be taken for that to the next call. An error that is no service's is not hidden."""

    def broken(receive: Any) -> Any:
        receive()  # the server has the request by now
        raise error

    with served(FINE) as server:
        connections = Connections(server.url)
        with monkeypatch.context() as patch:
            patch.setattr("flowguard.aws.transport.connections.read_answer", broken)
            with pytest.raises(error):
                connections.exchange(HELLO)
        connections.exchange(HELLO)
        assert sorted(used(server)) == [1, 2]


def test_no_more_are_kept_than_may_be_used_at_once() -> None:
    with served(FINE) as server:
        connections = Connections(server.url)
        for _ in range(MOST_KEPT + 3):
            connections.open()
        assert len(connections._kept) == MOST_KEPT


def test_each_thread_gets_the_answer_to_its_own_request() -> None:
    with served(FINE) as server:
        server.echoes = True
        connections = Connections(server.url)

        def asked(number: int) -> bytes:
            body = str(number).encode()
            head = f"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            return connections.exchange(head + body).body

        with ThreadPoolExecutor(16) as threads:
            assert [*threads.map(asked, range(400))] == [str(number).encode() for number in range(400)]


def test_a_forked_process_has_connections_of_its_own() -> None:
    with served(FINE) as server:
        connections = Connections(server.url)
        connections.exchange(HELLO)
        if (child := os.fork()) == 0:
            try:
                connections.exchange(HELLO)
                os._exit(0 if connections.exchange(HELLO).status == 200 else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        connections.exchange(HELLO)
        assert used(server) == [1, 2, 2, 1]


# -- where an answer ends

CHUNKED: Final = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"


def test_an_answer_in_chunks_is_whole_and_the_last_of_its_connection() -> None:
    with served(Reply(CHUNKED), FINE) as server:
        connections = Connections(server.url)
        assert [connections.exchange(HELLO).body for _ in range(2)] == [b"{}", b"{}"]
        assert used(server) == [1, 2]


def test_a_success_that_does_not_say_where_it_ends_is_no_answer() -> None:
    with served(Reply(b"HTTP/1.1 200 OK\r\n\r\n{}", "close")) as server, pytest.raises(ConnectionClosedError):
        Connections(server.url).exchange(HELLO)


def test_an_error_that_does_not_say_it_is_one_all_the_same() -> None:
    with served(Reply(b"HTTP/1.1 503 Busy\r\n\r\nbusy", "close")) as server:
        answered = Connections(server.url).exchange(HELLO)
        assert (answered.status, answered.body) == (503, b"busy")


# -- what cannot be connected


def test_nobody_listens() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(EndpointConnectionError, match=f"http://127.0.0.1:{port}/"):
        Connections(f"http://127.0.0.1:{port}").open()


def test_nobody_has_the_name() -> None:
    with pytest.raises(EndpointConnectionError):
        Connections("https://nobody.invalid").open()


def test_nobody_accepts() -> None:
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        connections = Connections(url, connect_seconds=0.05)
        with pytest.raises(ConnectTimeoutError):
            _opened_until_there_is_no_room(connections)


def _opened_until_there_is_no_room(connections: Connections) -> None:
    for _ in range(4):
        connections.open()


def test_no_answer_comes_in_time() -> None:
    """The connection is closed at once, though the error still knows of it."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(ReadTimeoutError) as raised:
            Connections(url, read_seconds=0.05).exchange(HELLO)
        with closing(listening.accept()[0]) as accepted:
            accepted.settimeout(5)
            while accepted.recv(65_536):
                pass
    assert raised.value is not None


class Emptied(list[Any]):
    """A list from which another thread has taken the last element between two steps of this one."""

    def __bool__(self) -> bool:
        return True


def test_another_thread_was_quicker() -> None:
    with served(FINE) as server:
        connections = Connections(server.url)
        connections._kept = Emptied()
        assert connections.exchange(HELLO).status == 200
        connections._kept[0].connection.close()


# -- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate of localhost, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "localhost.pem"
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    file.write_bytes(pem + made.public_bytes(serialization.Encoding.PEM))
    return file


@contextmanager
def secure(certificate: Path, *, damaged: bool = False) -> Iterator[tuple[str, list[int]]]:
    """A server that speaks TLS. Its URL, and over which connection each request came.

    What it answers may be ``damaged`` on its way: no record of TLS that the client can read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    listening, came = socket.create_server(("127.0.0.1", 0)), []

    def serve(plain: socket.socket, number: int) -> None:
        try:
            with context.wrap_socket(plain, server_side=True) as connection:
                while connection.recv(65_536):
                    came.append(number)
                    if damaged:
                        os.write(connection.fileno(), b"\x17\x03\x03\x00\x20" + b"x" * 32)
                    else:
                        connection.sendall(FINE.sent)
        except OSError:
            pass

    def accept() -> None:
        number = 0
        while True:
            try:
                plain, _ = listening.accept()
            except OSError:
                return
            number += 1
            threading.Thread(target=serve, args=(plain, number), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with closing(listening):
        yield f"https://localhost:{listening.getsockname()[1]}", came
        listening.shutdown(socket.SHUT_RDWR)


def test_a_service_is_believed_by_its_certificate_and_tickets_end_no_connection(certificate: Path) -> None:
    """A ticket of TLS 1.3 comes after the handshake: there is something to read before the first request."""
    with secure(certificate) as (url, came):
        connections = Connections(url, str(certificate))
        connections.open()
        [kept] = connections._kept
        wait_until_readable(kept.connection)
        for _ in range(3):
            assert connections.exchange(HELLO).status == 200
        assert came == [1, 1, 1]
        secured: Any = kept.connection
        assert secured.gettimeout() == READ_SECONDS
        assert secured.selected_alpn_protocol() == "http/1.1"


def test_certificates_are_judged_no_stricter_than_by_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13 refuses those of private authorities that lack an extension."""
    default = ssl.create_default_context

    def as_of_3_13(**options: Any) -> ssl.SSLContext:
        context = default(**options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", as_of_3_13)
    assert not trusted.__wrapped__(None).verify_flags & ssl.VERIFY_X509_STRICT


def test_one_that_nobody_vouches_for_is_not(certificate: Path) -> None:
    with secure(certificate) as (url, came):
        with pytest.raises(SSLError, match="certificate"):
            Connections(url).open()
        with pytest.raises(SSLError, match=r"mismatch|127\.0\.0\.1"):
            Connections(url.replace("localhost", "127.0.0.1"), str(certificate)).open()
        assert came == []


def test_what_tls_cannot_read_of_an_answer_is_no_failed_handshake(certificate: Path) -> None:
    """The service has got the request: who believes that nothing was sent would make it again."""
    with secure(certificate, damaged=True) as (url, came):
        with pytest.raises(ConnectionClosedError):
            Connections(url, str(certificate)).exchange(HELLO)
        assert came == [1]


def test_a_handshake_that_is_reset_is_a_connection_that_was_closed() -> None:
    def reset() -> None:
        accepted, _ = listening.accept()
        accepted.recv(65_536)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()

    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        threading.Thread(target=reset, daemon=True).start()
        with pytest.raises(ConnectionClosedError):
            Connections(f"https://127.0.0.1:{listening.getsockname()[1]}").open()


def test_a_handshake_that_is_not_answered_ends() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        url = f"https://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(ReadTimeoutError) as raised:
            Connections(url, connect_seconds=0.05).open()
        with closing(listening.accept()[0]) as accepted:
            accepted.settimeout(5)
            while accepted.recv(65_536):
                pass
    assert raised.value is not None, "what still knows the connection keeps it open no longer"


def test_a_file_of_certificates_that_is_not_there_is_said() -> None:
    with served(FINE) as server, pytest.raises(SSLError, match="No such file"):
        Connections(server.url.replace("http:", "https:"), "/nowhere/roots.pem").open()


class Breaks:
    """Is a context of TLS, or a function of sockets, with a mistake in it."""

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise ZeroDivisionError

    def wrap_socket(self, connection: socket.socket, **_: Any) -> Any:
        connection.close()
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("place", "broken"),
    [
        ("flowguard.aws.transport.connections.trusted", Breaks()),
        ("flowguard.aws.transport.connections.trusted", lambda _: Breaks()),
        ("socket.create_connection", Breaks()),
    ],
)
def test_an_error_that_is_no_services_is_not_hidden(place: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(FINE) as server:
        connections = Connections(server.url.replace("http:", "https:"))
        monkeypatch.setattr(place, broken)
        with pytest.raises(ZeroDivisionError):
            connections.open()
