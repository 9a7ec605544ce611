"""Texts of a flow with a codec in the run item and in S3: sealed, told by their form, and counted as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.batch_calls import _length
from flowguard.aws.clients import Clients
from flowguard.aws.items import about_of, run_key, shard_key, size_of_value
from flowguard.aws.packing import Packing, is_sealed
from flowguard.codecs import Compressed, Encrypted
from flowguard.errors import CannotOpen, SettingsError, TextGone
from flowguard.names.ids import ObjectId
from flowguard.payload.codec import About, Codec, Codecs
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.aws.engines import on_memory
from tests.codecs.fakes import Vault
from tests.payload.test_codec import Of

ABOUT = About("orders", "o1", "state run")
PLAIN = About("carts", "o1", "state run")


@pytest.fixture
def clients() -> Iterator[Clients]:
    with on_memory() as found:
        yield found


def packing(
    clients: Clients, bucket: str | None = "long-texts", above: int = 1_024, codec: Codec | None = None
) -> Packing:
    codec = Encrypted("k", data_keys=Vault(), compress=False) if codec is None else codec
    codecs = Codecs([Of("orders", codec), Of("carts", None)])
    return Packing(lambda: clients.s3, bucket, above, codecs=codecs)


@pytest.mark.parametrize("text", ["", "{}", "fge1", "x" * 900])
def test_a_text_is_sealed_in_the_item(clients: Clients, text: str) -> None:
    texts = packing(clients)
    packed = texts.pack(text, "key", about=ABOUT)
    assert packed.value.keys() == {"M"}
    assert packed.value["M"].keys() == {"sealed"}
    assert packed.size == size_of_value(packed.value)
    assert texts.unpack(packed.value, ABOUT) == text
    assert is_sealed(packed.value)


def test_a_long_one_is_sealed_in_s3_as_a_whole(clients: Clients) -> None:
    texts = packing(clients)
    packed = texts.pack("word " * 1_000, "key", {"request_id": {"S": "r1"}}, about=ABOUT)
    assert packed.value == {"M": {"sealed_in": {"S": "long-texts"}, "key": {"S": "key"}, "request_id": {"S": "r1"}}}
    assert packed.size == size_of_value(packed.value)
    stored = clients.s3.get_object(Bucket="long-texts", Key="key")["Body"].read()
    assert stored.startswith(b"fge1")
    assert texts.unpack(packed.value, ABOUT) == "word " * 1_000
    assert is_sealed(packed.value)


def test_what_is_known_without_reading_stands_beside_a_sealed_text_in_the_item_too(clients: Clients) -> None:
    packed = packing(clients).pack("text", "key", {"committed_at": {"N": "5"}}, about=ABOUT)
    assert packed.value["M"]["committed_at"] == {"N": "5"}


@pytest.mark.parametrize(("bucket", "key", "above"), [(None, "key", 1_024), ("long-texts", None, 1_024)])
def test_without_a_place_in_s3_a_long_one_stays_in_the_item(
    clients: Clients, bucket: str | None, key: str | None, above: int
) -> None:
    packed = packing(clients, bucket, above).pack("x" * 5_000, key, about=ABOUT)
    assert len(packed.value["M"]["sealed"]["B"]) > 5_000


@pytest.mark.parametrize(("bucket", "key"), [(None, "key"), ("long-texts", None)])
def test_nor_is_s3_asked_then(bucket: str | None, key: str | None) -> None:
    def asked() -> Any:
        raise AssertionError

    codecs = Codecs([Of("orders", Compressed())])
    packed = Packing(asked, bucket, 5, codecs=codecs).pack("text " * 5, key, about=ABOUT)
    assert packed.value["M"].keys() == {"sealed"}


def test_a_pointer_counts_in_bytes(clients: Clients) -> None:
    for text in ("text", "word " * 1_000):
        packed = packing(clients).pack(text, "key", {"request_id": {"S": "größe"}}, about=ABOUT)
        assert packed.size == size_of_value(packed.value)


def test_how_long_it_is_counts_as_it_is_sealed(clients: Clients) -> None:
    text = "x" * 2_000
    sealed = len(packing(clients, above=200_000).pack(text, "key", about=ABOUT).value["M"]["sealed"]["B"])
    assert packing(clients, above=sealed).pack(text, "key", about=ABOUT).value["M"].keys() == {"sealed"}
    assert packing(clients, above=sealed - 1).pack(text, "key", about=ABOUT).value["M"].keys() == {"sealed_in", "key"}
    assert packing(clients, above=sealed).size_of(text, about=ABOUT) > sealed
    assert packing(clients, above=sealed - 1).size_of(text, about=ABOUT) == 1_024


def test_its_size_is_told_without_storing_it(clients: Clients) -> None:
    texts = packing(clients, above=2_000)
    assert texts.size_of("text", about=ABOUT) == texts.pack("text", None, about=ABOUT).size
    assert texts.size_of("x" * 5_000, about=ABOUT) == 1_024
    assert packing(clients, None, 2_000).size_of("x" * 5_000, about=ABOUT) > 5_000
    assert texts.size_of("text", about=PLAIN) == 4


def refused(code: str, status: int = 403) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "PutObject")


def test_a_bucket_that_refuses_leaves_it_in_the_item(clients: Clients) -> None:
    def refusing(call: ApiCall, proceed: Proceed, /) -> Response:
        raise refused("AccessDenied")

    with intercept(refusing):
        packed = packing(clients).pack("x" * 5_000, "key", about=ABOUT)
        aside = packing(clients, codec=Compressed()).pack("x" * 5_000, "key", about=ABOUT)
    assert packed.value["M"].keys() == {"sealed"}
    assert aside.value["M"].keys() == {"sealed"}


def test_an_answer_that_has_no_room_goes_to_s3_whatever_its_length(clients: Clients) -> None:
    texts = packing(clients)
    packed = texts.pack_aside("text", "key", about=ABOUT)
    assert packed.value == {"M": {"sealed_in": {"S": "long-texts"}, "key": {"S": "key"}}}
    assert packed.size == size_of_value(packed.value)
    assert texts.unpack(packed.value, ABOUT) == "text"
    assert packing(clients, None).pack_aside("text", "key", about=ABOUT).value["M"].keys() == {"sealed"}
    plain = texts.pack_aside("text", "other", about=PLAIN)
    assert plain.value["M"].keys() == {"bucket", "key"}
    assert texts.unpack(plain.value, PLAIN) == "text"


@pytest.mark.parametrize("about", [ABOUT, PLAIN])
def test_a_bucket_that_denies_one_may_allow_it_later(clients: Clients, about: About) -> None:
    def refusing(call: ApiCall, proceed: Proceed, /) -> Response:
        raise refused("AccessDenied")

    with intercept(refusing), pytest.raises(ClientError):
        packing(clients).pack_aside("text", "key", about=about)


def test_a_flow_without_a_codec_stores_its_texts_as_before(clients: Clients) -> None:
    texts = packing(clients)
    for about in (PLAIN, None):
        assert texts.pack("text", "key", about=about).value == {"S": "text"}
    assert not is_sealed({"S": "text"})
    assert not is_sealed({"M": {"bucket": {"S": "b"}, "key": {"S": "k"}}})


@pytest.mark.parametrize("text", ["fge1", "fgz1", '{"sealed":"x"}', '{"flowguard.sealed":"x"}'])
def test_a_text_that_begins_like_a_sealed_one_comes_back_as_it_was(clients: Clients, text: str) -> None:
    texts = packing(clients)
    for about in (ABOUT, PLAIN):
        assert texts.unpack(texts.pack(text, "key", about=about).value, about) == text
    assert texts.unpack({"S": text}, ABOUT) == text


def test_what_was_plain_before_the_flow_had_a_codec_is_read_still(clients: Clients) -> None:
    texts = packing(clients)
    for text in ("text", "long " * 100, "word " * 100_000):
        assert texts.unpack(texts.pack(text, "key", about=PLAIN).value, ABOUT) == text


def test_what_is_sealed_is_not_read_as_something_else(clients: Clients) -> None:
    texts = packing(clients)
    value = texts.pack("text", "key", about=ABOUT).value
    for about in (ABOUT._replace(object_id="o2"), PLAIN, None):
        with pytest.raises(CannotOpen):
            texts.unpack(value, about)


def test_a_sealed_text_that_s3_has_no_more_is_gone(clients: Clients) -> None:
    with pytest.raises(TextGone):
        packing(clients).unpack({"M": {"sealed_in": {"S": "long-texts"}, "key": {"S": "gone"}}}, ABOUT)


def test_a_release_without_codecs_reads_neither_form(clients: Clients) -> None:
    """It matches texts, zlib and pointers by their keys alone."""
    texts = packing(clients)
    for value in (
        texts.pack("text", None, about=ABOUT).value,
        texts.pack("x" * 5_000, "key", about=ABOUT).value,
        texts.pack_aside("text", "key", about=ABOUT).value,
    ):
        assert not {"bucket", "S", "B"} & {*value, *value["M"]}
    with pytest.raises(SettingsError, match="an item holds a text in a form unknown here"):
        texts.unpack({"M": {"other": {"S": "x"}}}, ABOUT)


def test_nothing_of_a_sealed_text_follows_from_the_name_of_its_object(clients: Clients) -> None:
    texts = packing(clients)
    assert texts.tells_apart("text", "carts") == "text"
    first, second = texts.tells_apart("text", "orders"), texts.tells_apart("text", "orders")
    assert len({first, second, "text"}) == 3


def test_what_a_text_is_about_follows_from_its_key() -> None:
    assert about_of(run_key("orders", ObjectId("a#b")), "state") == About("orders", "a#b", "state run")
    row = {**shard_key("orders", "g-1", 0), "sk": {"S": "row#7"}}
    assert about_of(row, "request") == About("orders", "g-1#0", "request row#7")


def test_what_is_sealed_in_a_map_counts_in_a_request() -> None:
    assert _length([{"S": "abc"}, {"M": {"sealed": {"B": b"12345"}, "at": {"N": "7"}}}, {"BOOL": True}]) == 9
