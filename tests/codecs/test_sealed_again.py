"""A request that its sender repeats is sealed into another text, and is the same request by what it says."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from flowguard.clock import ManualClock
from flowguard.codecs import Compressed, Encrypted
from flowguard.errors import CannotOpen, KeyUnavailable
from flowguard.events import EventType
from flowguard.names.ids import ObjectId
from flowguard.payload.codec import About, Codec
from flowguard.protocol.claims import other_text
from flowguard.protocol.run import Status
from flowguard.sim.calls import intercept
from flowguard.wire.message import TEXT_DIGEST, Message
from flowguard.wire.sealed_message import first_text, says_the_same, sealed_message
from tests.codecs.fakes import Vault
from tests.codecs.test_messages import CODEC, MESSAGE, SEALED
from tests.codecs.test_outage import sealed_scene
from tests.scene import Scene
from tests.worker.runtime.mishaps import Died, dies_at
from tests.worker.runtime.test_first_texts import HERS, HIS, _stored


class Salted:
    """A codec of a user's: no two of its texts are alike, and it has nothing but the two methods."""

    def seal(self, data: bytes, about: About) -> bytes:
        return os.urandom(8) + data

    def open(self, sealed: bytes, about: About) -> bytes:
        return sealed[8:]


class Settable:
    """A codec whose opening fails with this error, while there is one."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.kinds: tuple[str, ...] = ("first text",)

    def seal(self, data: bytes, about: About) -> bytes:
        return Salted().seal(data, about)

    def open(self, sealed: bytes, about: About) -> bytes:
        if self.error is not None and about.kind in self.kinds:
            raise self.error
        return Salted().open(sealed, about)


def encrypted() -> Encrypted:
    return Encrypted("k", data_keys=Vault(), clock=ManualClock())


def dies(at: Scene, message: Message) -> None:
    """Let the worker of the first attempt die, and its lease end."""
    with intercepted(at), pytest.raises(Died):
        at.deliver(message)
    at.clock.advance(seconds=31)
    assert at.priced() == 0


def intercepted(at: Scene) -> Any:
    return intercept(dies_at("TransactWriteItems", after=False))


@pytest.fixture(params=[encrypted, Compressed, Salted], ids=["Encrypted", "Compressed", "a user's"])
def codec(request: pytest.FixtureRequest) -> Codec:
    made: Codec = request.param()
    return made


@pytest.fixture
def at(codec: Codec) -> Iterator[Scene]:
    with sealed_scene(codec) as found:
        yield found


def test_a_request_that_is_sealed_anew_is_carried_out_where_the_first_ones_worker_died(at: Scene, codec: Codec) -> None:
    dies(at, sealed_message(codec, at.message(body=HERS)))
    assert at.deliver(sealed_message(codec, at.message(body=HERS))) == [True]
    assert (at.priced(), at.told(EventType.DUPLICATE)) == (1, 0)


@pytest.mark.parametrize("changes", [{"body": HIS}, {"reply_to": "sqs:completed"}], ids=str)
def test_one_that_says_something_else_is_not(at: Scene, codec: Codec, changes: dict[str, Any]) -> None:
    hers = sealed_message(codec, at.message(body=HERS))
    dies(at, hers)
    assert at.deliver(sealed_message(codec, at.message(**{"body": HERS, **changes}))) == [True]
    assert (at.priced(), at.told(EventType.DUPLICATE)) == (0, 1)
    assert at.deliver(hers) == [True]
    assert at.priced() == 1


def test_a_plain_one_is_not_compared_with_what_was_sealed(at: Scene, codec: Codec) -> None:
    """Else who may send, and may not open, could guess what is in it."""
    dies(at, sealed_message(codec, at.message(body=HERS)))
    assert at.deliver(at.message(body=HERS)) == [True]
    assert (at.priced(), at.told(EventType.DUPLICATE)) == (0, 1)


def test_one_that_came_plain_may_come_again_sealed(at: Scene, codec: Codec) -> None:
    dies(at, at.message(body=HERS))
    assert at.deliver(sealed_message(codec, at.message(body=HIS))) == [True]
    assert at.priced() == 0
    assert at.deliver(sealed_message(codec, at.message(body=HERS))) == [True]
    assert at.priced() == 1


def test_while_the_first_ones_worker_lives_it_waits(at: Scene, codec: Codec) -> None:
    with intercepted(at), pytest.raises(Died):
        at.deliver(sealed_message(codec, at.message(body=HERS)))
    assert at.deliver(sealed_message(codec, at.message(body=HERS))) == [False]
    assert at.told(EventType.BUSY) == 1


def test_its_second_copy_is_known_by_the_text_that_came_first(at: Scene, codec: Codec) -> None:
    first = sealed_message(codec, at.message(body=HERS))
    dies(at, first)
    kept = _stored(at)["first_text"]
    dies(at, sealed_message(codec, at.message(body=HERS)))
    assert _stored(at)["first_text"] == kept
    assert at.deliver(first) == [True]
    assert (at.priced(), at.calls[0]) == (1, "UpdateItem")


def test_the_item_holds_no_digest_of_what_is_sealed() -> None:
    codec = encrypted()
    with sealed_scene(codec) as at:
        message = sealed_message(codec, at.message(body=HERS))
        dies(at, message)
        kept = _stored(at)["first_text"]["S"]
        assert kept.startswith(message.text_digest)
        assert len(kept) > 2 * TEXT_DIGEST
        assert at.message(body=HERS).text_digest not in str(_stored(at))
        at.deliver(message)
        assert "first_text" not in _stored(at)


@pytest.mark.parametrize(
    "error", [KeyUnavailable("k", "disabled"), CannotOpen("first text", "of another key")], ids=str
)
def test_where_nobody_can_say_whether_it_is_the_same_it_stays(error: Exception) -> None:
    codec = Settable()
    with sealed_scene(codec) as at:
        dies(at, sealed_message(codec, at.message(body=HERS)))
        again = sealed_message(codec, at.message(body=HERS))
        codec.error = error
        assert at.deliver(again, at.order("o2")) == [False, True]
        codec.error = None
        assert at.deliver(again) == [True]
        assert at.priced() == 1


def test_where_nobody_can_say_so_for_long_it_is_parked_and_the_run_stays() -> None:
    codec = Settable()
    with sealed_scene(codec) as at:
        dies(at, sealed_message(codec, at.message(body=HERS)))
        codec.error = CannotOpen("first text", "of another key")
        at.receives = 90
        at.clock.advance(seconds=3 * 86_400)
        again = sealed_message(codec, at.message(body=HERS))
        assert at.deliver(again) == [True]
        [letter] = at.sent("dead")
        assert json.dumps(again.sealed)[1:-1] in letter["Body"]
        codec.error = None
        assert (at.item_of(codec).status, at.priced()) == (Status.RUNNING, 0)


def test_what_cannot_be_opened_says_nothing_that_could_be_the_same() -> None:
    codec = Settable()
    with sealed_scene(codec) as at:
        codec.error, codec.kinds = CannotOpen("payload", "of another key"), ("payload",)
        at.receives = 90
        at.clock.advance(seconds=3 * 86_400)
        assert at.deliver(sealed_message(codec, at.message(body=HERS))) == [True]
        assert len(at.sent("dead")) == 1
        codec.error, at.receives = None, 1
        assert at.deliver(sealed_message(codec, at.message(body=HERS))) == [True]
        item = at.item_of(codec)
        assert (item.status, at.priced()) == (Status.RUNNING, 1)


# -- the parts


def test_only_a_sealed_request_of_a_flow_with_a_codec_is_kept_so() -> None:
    assert first_text(CODEC, SEALED)[:TEXT_DIGEST] == SEALED.text_digest
    assert first_text(None, SEALED) == first_text(CODEC, MESSAGE) == first_text(CODEC, SEALED._replace(hop=2)) == ""


def test_what_is_kept_is_of_its_object() -> None:
    kept, anew = first_text(CODEC, SEALED), SEALED._replace(sealed=f"{SEALED.sealed} anew")
    assert says_the_same(CODEC, anew, kept)
    with pytest.raises(CannotOpen):
        says_the_same(CODEC, anew._replace(object_id=ObjectId("o2")), kept)
    with pytest.raises(CannotOpen, match="has no codec here"):
        says_the_same(None, anew, kept)
    assert says_the_same(None, SEALED, kept), "the very text, which nobody need open"


def test_another_text_is_one_of_the_same_attempt_that_is_not_committed() -> None:
    codec = Salted()
    with sealed_scene(codec) as at:
        message = sealed_message(codec, at.message(body=HERS))
        dies(at, message)
        item = at.item_of(codec)
        kept = item.first_text
        assert kept is not None
        assert other_text(item, message, "another") == kept
        assert other_text(item, message, kept) is None
        assert other_text(item, message, kept[:TEXT_DIGEST] + "sealed anew") == kept
        assert other_text(None, message, "another") is None
        assert other_text(item._replace(done=True), message, "another") is None
        assert other_text(item._replace(first_text=None), message, "another") is None
        for changes in ({"request_id": "r2"}, {"hop": 2}, {"retry": 1}, {"redrive": 1}):
            assert other_text(item, message._replace(**changes), "another") is None, changes
