"""The head of an answer is read as Python's own client reads it, whatever its form."""

from __future__ import annotations

import io
from http.client import HTTPException, HTTPResponse
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowguard.aws.transport import odd_answers
from flowguard.aws.transport.http_answers import read_answer


class Received:
    """Stands for a connection over which these bytes come in pieces of ``most``, and nothing more will."""

    def __init__(self, sent: bytes, most: int = 1 << 20) -> None:
        self._sent = io.BytesIO(sent)
        self._most = most

    def makefile(self, _: str) -> Any:
        return io.BufferedReader(self._sent)

    def __call__(self) -> bytes:
        return self._sent.read(min(65_536, self._most))

    @property
    def left(self) -> bytes:
        return self._sent.read()


def ours(sent: bytes, most: int = 1 << 20) -> Any:
    """Return the status, headers and body."""
    received: Any = Received(sent, most)
    try:
        return tuple(read_answer(received))[:3]
    except ConnectionError as error:
        return str(error) and ConnectionError


def pythons(sent: bytes) -> Any:
    received: Any = Received(sent)
    response: Any = HTTPResponse(received, method="POST")
    try:
        response.begin()
        body = response.read()
    except (HTTPException, ValueError):
        return ConnectionError
    headers = {name.lower(): response.getheader(name) for name, _ in response.getheaders()}
    return response.status, headers, body


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
    "a choice without a length": b"HTTP/1.1 300 Many\r\n\r\n{}",
    "an error without a length": b"HTTP/1.1 400 No\r\n\r\n{}",
    "an error whose length is none": b"HTTP/1.1 400 No\r\nContent-Length: x\r\n\r\n{}",
    "an error of a negative length": b"HTTP/1.1 400 No\r\nContent-Length: -1\r\n\r\n{}",
    "a line that goes on": b"HTTP/1.1 200 OK\r\nX-A: b\r\n c: d\r\n" + SIZED + b"\r\n{}",
    "letters of Europe": b"HTTP/1.1 200 OK\r\nX-A: \xe9\r\n" + SIZED + b"\r\n{}",
    "a value with colons": b"HTTP/1.1 200 OK\r\nDate: 12:00:00\r\n" + SIZED + b"\r\n{}",
    "a value that is empty": b"HTTP/1.1 200 OK\r\nX-A:\r\n" + SIZED + b"\r\n{}",
    "a hundred lines": b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: a\r\n" % n for n in range(98)) + SIZED + b"\r\n{}",
    "an end of a line in a line": b"HTTP/1.1 200 OK\r\n"
    + SIZED
    + b"X: a\rTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a long line": b"HTTP/1.1 200 OK\r\n" + SIZED + b"x: " + b"a" * 65_531 + b"\r\n\r\n{}",
}


@pytest.mark.parametrize("most", [1 << 20, 30, 1], ids="in pieces of {}".format)
@pytest.mark.parametrize("head", HEADS)
def test_an_answer_is_read_as_python_reads_it(head: str, most: int) -> None:
    assert ours(HEADS[head], most) == pythons(HEADS[head])


FORMS: Final[dict[str, bool]] = {
    "a success": True,
    "no reason": True,
    "the end of a connection": True,
    "nothing": True,
    "a value that is empty": True,
    "letters of Europe": True,
    "an old version": False,
    "a version between": False,
    "short ends of lines": False,
    "go on": False,
    "pieces": False,
    "pieces with a length": False,
    "no content": False,
    "an error without a length": False,
}


@pytest.mark.parametrize(("head", "is_plain"), FORMS.items())
def test_python_reads_what_has_another_form_than_that_of_services(
    head: str, is_plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads all, so that what is read here is what it reads too."""
    read: list[str] = []
    genuine = odd_answers.read_odd

    def noted(begun: bytes, receive: Any) -> Any:
        read.append(head)
        return genuine(begun, receive)

    monkeypatch.setattr(odd_answers, "read_odd", noted)
    received: Any = Received(HEADS[head])
    read_answer(received)
    assert read == ([] if is_plain else [head])


def test_a_body_is_read_to_its_end_and_no_further() -> None:
    sent = b"HTTP/1.1 200 OK\r\n" + SIZED + b"\r\n{}HTTP/1.1 "
    assert ours(sent) == (200, {"content-length": "2"}, b"{}")
    long = b"a" * 200_000
    assert ours(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + long)[2] == long


def test_interim_answers_are_none() -> None:
    """The answer comes after them."""
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    for sent in (early + HEADS["a success"], early + HEADS["go on"]):
        assert ours(sent, 30) == pythons(HEADS["a success" if sent.endswith(HEADS["a success"]) else "go on"])


@pytest.mark.parametrize("second", [b"3", b"2"])
def test_of_two_lengths_the_first_counts_as_for_python(second: bytes) -> None:
    sent = b"HTTP/1.1 200 OK\r\n" + SIZED + b"Content-Length: " + second + b"\r\n\r\n{}"
    assert ours(sent)[2] == pythons(sent)[2] == b"{}"


LAST: Final[dict[str, bool]] = {
    "a success": False,
    "no reason": False,
    "an old version that is kept": True,
    "the end of a connection": True,
    "pieces": True,
    "go on": True,
}


@pytest.mark.parametrize(("head", "is_last"), LAST.items())
def test_an_answer_of_another_form_is_the_last_of_its_connection(head: str, is_last: bool) -> None:
    """Something of the next one may have been read with it."""
    received: Any = Received(HEADS[head])
    assert read_answer(received).is_last is is_last


def test_so_is_one_behind_which_something_comes_unasked() -> None:
    received: Any = Received(HEADS["a success"] + b"HTTP/1.1 ")
    assert read_answer(received).is_last


REFUSED: Final[dict[str, bytes]] = {
    "nothing at all": b"",
    "no version": b"garbage\r\n\r\n",
    "an unknown version": b"HTTP/2.0 200 OK\r\n" + SIZED + b"\r\n{}",
    "no status": b"HTTP/1.1 abc\r\n\r\n",
    "a success without a length": b"HTTP/1.1 200 OK\r\n\r\n{}",
    "a success whose length is none": b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}",
    "a success that is cut in its head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "an error that is cut in its head": b"HTTP/1.1 400 No\r\nX-A: b",
    "an error that is cut within a name": b"HTTP/1.1 400 No\r\nX-A",
    "a success whose length has a sign": b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n{}",
    "a success whose length is no number that fits": b"HTTP/1.1 200 OK\r\nContent-Length: "
    + b"9" * 5_000
    + b"\r\n\r\n{}",
    "another protocol": b"HTTP/1.1 101 Switching\r\n\r\nabc",
    "an interim answer alone": b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n",
    "a head without an end": b"HTTP/1.1 200 OK\r\n" + SIZED + b"x: a\r\n" * 50_000,
    "a line that is no header": b"HTTP/1.1 200 OK\r\nwhat is this\r\n" + SIZED + b"\r\n{}",
    "an error with a line that is no header": b"HTTP/1.1 400 No\r\nwhat is this\r\n" + SIZED + b"\r\n{}",
    "a space before a colon": b"HTTP/1.1 200 OK\r\nX-A : b\r\n" + SIZED + b"\r\n{}",
    "a line too long": b"HTTP/1.1 200 OK\r\n" + SIZED + b"x: " + b"a" * 65_532 + b"\r\n\r\n{}",
    "too many lines": b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: a\r\n" % n for n in range(99)) + SIZED + b"\r\n{}",
}


@pytest.mark.parametrize("most", [1 << 20, 30], ids="in pieces of {}".format)
@pytest.mark.parametrize("head", REFUSED)
def test_what_is_no_whole_answer_is_none(head: str, most: int) -> None:
    assert ours(REFUSED[head], most) is ConnectionError


def test_a_head_without_an_end_is_not_read_for_ever() -> None:
    sent = b"HTTP/1.1 200 OK\r\n" + b"x: a\r\n" * 100_000
    received: Any = Received(sent)
    with pytest.raises(ConnectionError, match="not whole"):
        read_answer(received)
    assert len(sent) - len(received.left) == 6 * 65_536


def test_interim_answers_are_not_read_for_ever() -> None:
    sent = b"HTTP/1.1 100 Continue\r\n\r\n" * 40_000
    received: Any = Received(sent)
    with pytest.raises(ConnectionError, match="not whole"):
        read_answer(received)
    assert len(sent) - len(received.left) == 6 * 65_536


def test_a_name_that_comes_twice_has_both_values() -> None:
    assert ours(b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\n" + SIZED + b"\r\n{}")[1]["x-a"] == "1, 2"


def test_an_answer_that_takes_too_long_is_no_wrong_answer() -> None:
    """It is the error of the connection, whose retries are others."""

    class Silent(Received):
        def __call__(self) -> bytes:
            if received := super().__call__():
                return received
            raise TimeoutError

    received: Any = Silent(b"HTTP/1.0 400 No\r\nContent-Length: 9\r\n\r\n{}")
    with pytest.raises(TimeoutError):
        read_answer(received)


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
