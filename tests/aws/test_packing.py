"""The form in which each text is stored: the one that takes the fewest bytes of the item."""

from __future__ import annotations

import functools
import random
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError

from flowguard.aws import packing as module
from flowguard.aws.clients import Clients
from flowguard.aws.packing import HALF_AN_ITEM, SHORT, Packing
from flowguard.errors import SettingsError, TextGone
from flowguard.sim.account import ACCOUNT_ID
from flowguard.sim.calls import ApiCall, Interceptor, Proceed, Recorder, Response, intercept
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
    packed = packing(clients).pack("a" * length, "key", about=None)
    assert form(packed.value) == kind
    assert packed.size <= length
    assert packing(clients).unpack(packed.value, about=None) == "a" * length


def test_a_text_that_compression_makes_longer_is_left_as_it_is(clients: Clients) -> None:
    text = "".join(chr(one) for one in random.Random(1).choices(range(128), k=SHORT + 1))
    assert len(zlib.compress(text.encode(), 6)) > len(text)
    packed = packing(clients).pack(text, "key", about=None)
    assert packed == ({"S": text}, len(text))
    assert packing(clients).size_of(text, about=None) == len(text)


def test_a_text_goes_to_the_bucket_when_it_is_longer_than_was_allowed_even_compressed(clients: Clients) -> None:
    text = noise(1_000)
    size = len(zlib.compress(text.encode(), 6))
    assert form(packing(clients, offload_above=size).pack(text, "key", about=None).value) == "B"
    packed = packing(clients, offload_above=size - 1).pack(text, "key", BESIDE, about=None)
    assert packed.value == {"M": {"bucket": {"S": "long-texts"}, "key": {"S": "key"}, **BESIDE}}
    assert packing(clients).unpack(packed.value, about=None) == text


@pytest.mark.parametrize(("bucket", "key"), [(None, "key"), ("long-texts", None)])
def test_a_text_of_no_key_or_no_bucket_stays_in_the_item(clients: Clients, bucket: str | None, key: str | None) -> None:
    with intercept(Recorder()) as calls:
        assert form(packing(clients, bucket).pack(noise(1_000), key, about=None).value) == "B"
    assert calls.calls == []


@pytest.mark.parametrize("bucket", [None, "long-texts"])
@pytest.mark.parametrize("text", ["", "a" * SHORT, "a" * 10_000, noise(100), noise(1_000)], ids=len)
def test_the_size_of_a_text_is_what_it_takes_and_of_one_outside_at_most_what_its_pointer_may(
    clients: Clients, bucket: str | None, text: str
) -> None:
    own = packing(clients, bucket)
    packed = own.pack(text, "key", about=None)
    if form(packed.value) == "M":
        assert packed.size <= own.size_of(text, about=None) == 1_024
    else:
        assert packed.size == own.size_of(text, about=None)


@pytest.mark.parametrize("less", [0, 1])
def test_the_size_is_of_the_pointer_from_the_very_length_at_which_the_text_goes_outside(
    clients: Clients, less: int
) -> None:
    text = noise(1_000)
    size = len(zlib.compress(text.encode(), 6))
    assert packing(clients, offload_above=size - less).size_of(text, about=None) == (1_024 if less else size)


@pytest.mark.parametrize("bucket", ["no-such-bucket", "no bucket's name"])
def test_a_bucket_that_refuses_for_good_leaves_the_text_in_the_item(clients: Clients, bucket: str) -> None:
    assert form(packing(clients, bucket).pack(noise(1_000), "key", about=None).value) == "B"


def test_a_bucket_whose_name_boto3_does_not_even_send_leaves_the_text_in_the_item(clients: Clients) -> None:
    def unsent(call: ApiCall, proceed: Proceed) -> Response:
        raise ParamValidationError(report="Invalid bucket name")

    with intercept(unsent):
        assert form(packing(clients).pack(noise(1_000), "key", about=None).value) == "B"


def test_a_mistake_in_the_code_of_a_list_says_nothing_of_the_text(clients: Clients) -> None:
    def broken(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "ListObjectsV2":
            raise TypeError("a mistake")
        return proceed()

    pointer = {"M": {"bucket": {"S": "long-texts"}, "key": {"S": "key"}}}
    denied = refusing("GetObject", "AccessDenied", 403)
    with intercept(denied), intercept(broken), pytest.raises(TypeError, match="a mistake"):
        packing(clients).unpack(pointer, about=None)


@pytest.mark.parametrize("operation", ["PutObject", "GetObject"])
def test_a_mistake_in_the_code_is_not_taken_for_a_refusal(clients: Clients, operation: str) -> None:
    def broken(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == operation:
            raise TypeError("a mistake")
        return proceed()

    own = packing(clients)
    with intercept(broken), pytest.raises(TypeError, match="a mistake"):
        own.unpack(own.pack(noise(1_000), "key", about=None).value, about=None)


def refusing(operation: str, code: str, status: int) -> Interceptor:
    def refuses(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == operation:
            response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
            raise ClientError(response, call.operation)
        return proceed()

    return refuses


@pytest.mark.parametrize(
    ("code", "status"), [("AccessDenied", 403), ("NoSuchBucket", 404), ("InvalidRequest", 400), ("SlowDown", 503)]
)
def test_a_text_is_gone_only_where_s3_says_so(clients: Clients, code: str, status: int) -> None:
    """Whatever else S3 answers passes or is mended, and the text is there then."""
    own = packing(clients)
    packed = own.pack(noise(1_000), "key", about=None)
    with intercept(refusing("GetObject", code, status)), pytest.raises(ClientError, match=code):
        own.unpack(packed.value, about=None)
    assert own.unpack(packed.value, about=None) == noise(1_000)
    clients.s3.delete_object(Bucket="long-texts", Key="key")
    with pytest.raises(TextGone, match="gone: NoSuchKey"):
        own.unpack(packed.value, about=None)


def test_a_denial_for_a_text_that_a_list_lacks_says_that_it_is_gone(clients: Clients) -> None:
    """So S3 answers a role that may not list the whole bucket; this one may list its prefix."""
    own = packing(clients)
    own.pack(noise(1_000), "key-of-another", about=None)
    pointer = {"M": {"bucket": {"S": "long-texts"}, "key": {"S": "key"}}}
    denied = refusing("GetObject", "AccessDenied", 403)
    with intercept(denied), pytest.raises(TextGone, match="gone: NoSuchKey"):
        own.unpack(pointer, about=None)
    unlisted = refusing("ListObjectsV2", "AccessDenied", 403)
    with intercept(denied), intercept(unlisted), pytest.raises(ClientError, match="the GetObject operation"):
        own.unpack(pointer, about=None)
    with intercept(refusing("GetObject", "No", 400)), pytest.raises(ClientError, match="No"):
        own.unpack(pointer, about=None)


def test_a_denial_to_write_passes_where_the_item_has_no_room_for_the_text(clients: Clients) -> None:
    own = packing(clients)
    with intercept(refusing("PutObject", "AccessDenied", 403)):
        inside = own.pack(noise(HALF_AN_ITEM // 4), "key", about=None)
        assert (form(inside.value), inside.size <= HALF_AN_ITEM) == ("B", True)
        with pytest.raises(ClientError, match="AccessDenied"):
            own.pack(noise(HALF_AN_ITEM // 2), "key", about=None)
        with pytest.raises(ClientError, match="AccessDenied"):
            own.pack_aside("x", "key", about=None)
    with intercept(refusing("PutObject", "InvalidRequest", 400)):
        assert form(own.pack(noise(HALF_AN_ITEM // 2), "key", about=None).value) == "B"


def test_a_denial_to_write_leaves_half_an_item_inside_and_not_a_byte_more(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = noise(1_000)
    size = packing(clients, None).size_of(text, about=None)
    with intercept(refusing("PutObject", "AccessDenied", 403)):
        monkeypatch.setattr(module, "HALF_AN_ITEM", size)
        assert form(packing(clients).pack(text, "key", about=None).value) == "B"
        monkeypatch.setattr(module, "HALF_AN_ITEM", size - 1)
        with pytest.raises(ClientError, match="AccessDenied"):
            packing(clients).pack(text, "key", about=None)


def test_a_bucket_of_another_account_is_neither_read_nor_written(clients: Clients) -> None:
    ours, theirs = (Packing(lambda: clients.s3, "long-texts", 1_024, owner) for owner in (ACCOUNT_ID, "9" * 12))
    packed = ours.pack(noise(1_000), "key", about=None)
    with intercept(Recorder()) as calls:
        assert ours.unpack(packed.value, about=None) == noise(1_000)
        with pytest.raises(ClientError, match="AccessDenied"):
            theirs.unpack(packed.value, about=None)
        assert form(theirs.pack(noise(1_000), "key", about=None).value) == "B"
    owners = [call.params["ExpectedBucketOwner"] for call in calls.calls]
    assert owners == [ACCOUNT_ID, "9" * 12, "9" * 12, "9" * 12]


def test_a_form_that_this_version_does_not_know_is_named(clients: Clients) -> None:
    with pytest.raises(SettingsError, match="a text in a form unknown here"):
        packing(clients).unpack({"Z": "x"}, about=None)


def test_a_text_that_has_no_room_goes_to_s3_whatever_its_length(clients: Clients) -> None:
    aside = packing(clients).pack_aside("x", "key", about=None)
    assert aside.value == {"M": {"bucket": {"S": "long-texts"}, "key": {"S": "key"}}}
    assert packing(clients).unpack(aside.value, about=None) == "x"


def test_a_text_that_has_no_room_stays_in_the_item_where_there_is_no_bucket_or_it_refuses(clients: Clients) -> None:
    with intercept(Recorder()) as calls:
        assert packing(clients, None).pack_aside("x", "key", about=None).value == {"S": "x"}
    assert calls.calls == []
    assert packing(clients, "no-such-bucket").pack_aside("x", "key", about=None).value == {"S": "x"}
