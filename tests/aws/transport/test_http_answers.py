"""The head of an answer is read as Python's own client reads it, whatever its form."""

from __future__ import annotations

import io
from http.client import HTTPException, HTTPResponse
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowguard.aws.transport.http_answers import HTTPAnswer


class Received:
    """Stands for a connection over which these bytes have come, and nothing more will."""

    def __init__(self, sent: bytes) -> None:
        self._sent = sent

    def makefile(self, _: str) -> Any:
        return io.BufferedReader(io.BytesIO(self._sent))


def ours(sent: bytes) -> Any:
    received: Any = Received(sent)
    response = HTTPAnswer(received)
    try:
        answer = response.whole()
    except (HTTPException, ValueError) as error:
        return type(error)
    return *answer, response.version, response.will_close


def pythons(sent: bytes) -> Any:
    received: Any = Received(sent)
    response: Any = HTTPResponse(received, method="POST")
    try:
        response.begin()
        body = response.read()
    except (HTTPException, ValueError) as error:
        return type(error)
    headers = {name.lower(): value for name, value in response.getheaders()}
    return response.status, headers, body, response.version, response.will_close


SIZED: Final = b"Content-Length: 2\r\n"

HEADS: Final[dict[str, bytes]] = {
    "a success": b"HTTP/1.1 200 OK\r\n" + SIZED + b"X-A:  b c \r\n\r\n{}",
    "no reason": b"HTTP/1.1 200\r\n" + SIZED + b"\r\n{}",
    "an old version": b"HTTP/1.0 200 OK\r\n" + SIZED + b"\r\n{}",
    "an old version that is kept": b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n" + SIZED + b"\r\n{}",
    "a version between": b"HTTP/1.2 200 OK\r\n" + SIZED + b"\r\n{}",
    "the end of a connection": b"HTTP/1.1 200 OK\r\nconnection: Close\r\n" + SIZED + b"\r\n{}",
    "short ends of lines": b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}",
    "go on": b"HTTP/1.1 100 Continue\r\nX-B: c\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"
    + SIZED
    + b"\r\n{}",
    "pieces": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\n{}\r\n3;a=b\r\nabc\r\n0\r\nX-T: u\r\n\r\n",
    "pieces with a length": b"HTTP/1.1 200 OK\r\n" + SIZED + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "a piece that is cut": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
    "nothing": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "no content": b"HTTP/1.1 204 No\r\n\r\n",
    "no content, with a length": b"HTTP/1.1 304 No\r\n" + SIZED + b"\r\n{}",
    "a body that is cut": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
    "an error without a length": b"HTTP/1.1 400 No\r\n\r\n{}",
    "an error whose length is none": b"HTTP/1.1 400 No\r\nContent-Length: x\r\n\r\n{}",
    "an error of a negative length": b"HTTP/1.1 400 No\r\nContent-Length: -1\r\n\r\n{}",
    "an error that is cut in its head": b"HTTP/1.1 400 No\r\nX-A: b",
    "letters of Europe": b"HTTP/1.1 200 OK\r\nX-A: \xe9\r\n" + SIZED + b"\r\n{}",
    "a value with colons": b"HTTP/1.1 200 OK\r\nDate: 12:00:00\r\n" + SIZED + b"\r\n{}",
    "a value that is empty": b"HTTP/1.1 200 OK\r\nX-A:\r\n" + SIZED + b"\r\n{}",
    "a hundred lines": b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: a\r\n" % n for n in range(98)) + SIZED + b"\r\n{}",
    "a long line": b"HTTP/1.1 200 OK\r\n" + SIZED + b"x: " + b"a" * 65_531 + b"\r\n\r\n{}",
}


@pytest.mark.parametrize("head", HEADS)
def test_an_answer_is_read_as_python_reads_it(head: str) -> None:
    assert ours(HEADS[head]) == pythons(HEADS[head])


REFUSED: Final[dict[str, bytes]] = {
    "nothing at all": b"",
    "no version": b"garbage\r\n\r\n",
    "an unknown version": b"HTTP/2.0 200 OK\r\n" + SIZED + b"\r\n{}",
    "no status": b"HTTP/1.1 abc\r\n\r\n",
    "a success without a length": b"HTTP/1.1 200 OK\r\n\r\n{}",
    "a success whose length is none": b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}",
    "a success that is cut in its head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "an error that is cut within a name": b"HTTP/1.1 400 No\r\nX-A",
    "a line that is no header": b"HTTP/1.1 200 OK\r\nwhat is this\r\n" + SIZED + b"\r\n{}",
    "a line that goes on": b"HTTP/1.1 200 OK\r\nX-A: b\r\n c: d\r\n" + SIZED + b"\r\n{}",
    "a space before a colon": b"HTTP/1.1 200 OK\r\nX-A : b\r\n" + SIZED + b"\r\n{}",
    "a line too long": b"HTTP/1.1 200 OK\r\n" + SIZED + b"x: " + b"a" * 65_532 + b"\r\n\r\n{}",
    "too many lines": b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: a\r\n" % n for n in range(99)) + SIZED + b"\r\n{}",
}


@pytest.mark.parametrize("head", REFUSED)
def test_what_is_no_whole_answer_is_none(head: str) -> None:
    """Python takes some of these, and leaves out what it does not understand."""
    seen = ours(REFUSED[head])
    assert isinstance(seen, type)
    assert issubclass(seen, HTTPException)


NAMES: Final = st.text(st.characters(categories=("Ll", "Lu", "Nd"), max_codepoint=127), min_size=1, max_size=9).map(
    "x-{}".format
)
VALUES: Final = st.text(
    st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f\x85\xa0"), max_size=20
)


@given(st.dictionaries(NAMES, VALUES, max_size=9), st.binary(max_size=20), st.integers(200, 599))
def test_so_is_any(headers: dict[str, str], body: bytes, status: int) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} Some\r\n{lines}content-length: {len(body)}\r\n\r\n"
    sent = head.encode("latin-1") + body
    assert ours(sent) == pythons(sent)
