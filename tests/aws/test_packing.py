"""The form in which each text is stored: the one that takes the fewest bytes of the item."""

from __future__ import annotations

import functools
import random
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.clients import Clients
from flowguard.aws.packing import SHORT, Packing
from flowguard.errors import SettingsError, TextGone
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from tests.aws.engines import on_memory


@pytest.fixture
def clients() -> Iterator[Clients]:
    """In memory alone: which form a text is stored in is no engine's business."""
    with on_memory() as found:
        yield found


BESIDE = {"request_id": {"S": "r-1"}}


@functools.cache
def noise(length: int) -> str:
    """A text that no compression makes much smaller."""
    return "".join(chr(one) for one in random.Random(1).choices(range(0x4E00, 0x9FFF), k=length))


def packing(clients: Clients, bucket: str | None = "long-texts", offload_above: int = 1_024) -> Packing:
    return Packing(lambda: clients.s3, bucket, offload_above)


def form(value: dict[str, Any]) -> str:
    [kind] = value
    return kind


@pytest.mark.parametrize(("length", "kind"), [(0, "S"), (SHORT, "S"), (SHORT + 1, "B")])
def test_a_short_text_is_left_as_it_is(clients: Clients, length: int, kind: str) -> None:
    packed = packing(clients).pack("a" * length, "key")
    assert form(packed.value) == kind
    assert packed.size <= length
    assert packing(clients).unpack(packed.value) == "a" * length


def test_a_text_that_compression_makes_longer_is_left_as_it_is(clients: Clients) -> None:
    text = "".join(chr(one) for one in random.Random(1).choices(range(128), k=SHORT + 1))
    assert len(zlib.compress(text.encode(), 6)) > len(text)
    packed = packing(clients).pack(text, "key")
    assert packed == ({"S": text}, len(text))
    assert packing(clients).size_of(text) == len(text)


def test_a_text_goes_to_the_bucket_when_it_is_longer_than_was_allowed_even_compressed(clients: Clients) -> None:
    text = noise(1_000)
    size = len(zlib.compress(text.encode(), 6))
    assert form(packing(clients, offload_above=size).pack(text, "key").value) == "B"
    packed = packing(clients, offload_above=size - 1).pack(text, "key", BESIDE)
    assert packed.value == {"M": {"bucket": {"S": "long-texts"}, "key": {"S": "key"}, **BESIDE}}
    assert packing(clients).unpack(packed.value) == text


@pytest.mark.parametrize(("bucket", "key"), [(None, "key"), ("long-texts", None)])
def test_a_text_of_no_key_or_no_bucket_stays_in_the_item(clients: Clients, bucket: str | None, key: str | None) -> None:
    with intercept(Recorder()) as calls:
        assert form(packing(clients, bucket).pack(noise(1_000), key).value) == "B"
    assert calls.calls == []


@pytest.mark.parametrize("bucket", [None, "long-texts"])
@pytest.mark.parametrize("text", ["", "a" * SHORT, "a" * 10_000, noise(100), noise(1_000)], ids=len)
def test_the_size_of_a_text_is_what_it_takes_and_of_one_outside_at_most_what_its_pointer_may(
    clients: Clients, bucket: str | None, text: str
) -> None:
    own = packing(clients, bucket)
    packed = own.pack(text, "key")
    if form(packed.value) == "M":
        assert packed.size <= own.size_of(text) == 1_024
    else:
        assert packed.size == own.size_of(text)


@pytest.mark.parametrize("less", [0, 1])
def test_the_size_is_of_the_pointer_from_the_very_length_at_which_the_text_goes_outside(
    clients: Clients, less: int
) -> None:
    text = noise(1_000)
    size = len(zlib.compress(text.encode(), 6))
    assert packing(clients, offload_above=size - less).size_of(text) == (1_024 if less else size)


@pytest.mark.parametrize("bucket", ["no-such-bucket", "no bucket's name"])
def test_a_bucket_that_refuses_for_good_leaves_the_text_in_the_item(clients: Clients, bucket: str) -> None:
    """Also one of a name that boto3 does not even send."""
    assert form(packing(clients, bucket).pack(noise(1_000), "key").value) == "B"


@pytest.mark.parametrize("operation", ["PutObject", "GetObject"])
def test_a_mistake_in_the_code_is_not_taken_for_a_refusal(clients: Clients, operation: str) -> None:
    def broken(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == operation:
            raise TypeError("a mistake")
        return proceed()

    own = packing(clients)
    with intercept(broken), pytest.raises(TypeError, match="a mistake"):
        own.unpack(own.pack(noise(1_000), "key").value)


@pytest.mark.parametrize(("status", "error"), [(400, TextGone), (503, ClientError)])
def test_a_text_is_gone_only_where_that_is_for_good(clients: Clients, status: int, error: type[Exception]) -> None:
    def refuses(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "GetObject":
            response: Any = {"Error": {"Code": "No"}, "ResponseMetadata": {"HTTPStatusCode": status}}
            raise ClientError(response, call.operation)
        return proceed()

    own = packing(clients)
    packed = own.pack(noise(1_000), "key")
    with intercept(refuses), pytest.raises(error):
        own.unpack(packed.value)


def test_a_form_that_this_version_does_not_know_is_named(clients: Clients) -> None:
    with pytest.raises(SettingsError, match="a text in a form unknown here"):
        packing(clients).unpack({"Z": "x"})


def test_a_text_that_has_no_room_goes_to_s3_whatever_its_length(clients: Clients) -> None:
    aside = packing(clients).pack_aside("x", "key")
    assert aside.value == {"M": {"bucket": {"S": "long-texts"}, "key": {"S": "key"}}}
    assert packing(clients).unpack(aside.value) == "x"


def test_a_text_that_has_no_room_stays_in_the_item_where_there_is_no_bucket_or_it_refuses(clients: Clients) -> None:
    with intercept(Recorder()) as calls:
        assert packing(clients, None).pack_aside("x", "key").value == {"S": "x"}
    assert calls.calls == []
    assert packing(clients, "no-such-bucket").pack_aside("x", "key").value == {"S": "x"}
