"""A step to call a stage with: ``PriceCart().handle(payload, step_for(PriceCart))``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from flowguard.clock import Clock, ManualClock
from flowguard.names.ids import ObjectId, RequestId
from flowguard.recorded.table_writes import NOTHING_REFUSED, RefusedWrites
from flowguard.stage import Stage
from flowguard.step import Before, StateT, Step
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import Message
from flowguard.wire.signing import Keyring, Keys, KeySigner
from flowguard.wire.tokens import Tokens

FLOW = "flow-under-test"
_ANSWERS = "https://answers.example.com"
_KEYS = "under-test:a-key-that-is-no-secret-of-anybody"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def step_for(  # noqa: PLR0913 - everything but the stage has a default
    stage: type[Stage[Any, StateT]],
    *,
    state: StateT | None = None,
    object_id: str = "object-1",
    request_id: str = "request-1",
    hop: int = 1,
    retry: int = 0,
    requested_at: datetime | None = None,
    attributes: Mapping[str, Attribute] | None = None,
    clock: Clock | None = None,
    refused: RefusedWrites = NOTHING_REFUSED,
    superseded: StateT | None = None,
) -> Step[StateT]:
    """Build the step that the stage would get in the run ``request_id`` of ``object_id``.

    It is attempt ``retry`` + 1 of hop ``hop``. It has the state of a run that has just begun unless one is given. What
    the stage asks for is in the step's ``writes``, ``sends`` and ``state``. ``requested_at`` has a time zone; it is the
    time of ``clock`` by default, and that is one that stands still. ``attributes`` are those the flow carries.
    ``refused`` are the writes with ``else_go_on`` that did not hold, as ``step.refused`` has them.
    ``superseded`` is the state that the run before left.
    Tokens are made with a key that is no secret.
    """
    clock = ManualClock() if clock is None else clock
    message = Message(
        flow=FLOW,
        stage=stage.name,
        version=1,
        object_id=ObjectId(object_id),
        request_id=RequestId(request_id),
        requested_at=clock.now() if requested_at is None else _ms(requested_at),
        body="",
        hop=hop,
        retry=retry,
        carried=attributes or {},
    )
    left = None if superseded is None else superseded.model_dump_json(by_alias=True)
    before = Before(refused, left=None if left is None else lambda: left)
    began = cast("StateT", stage.state()) if state is None else state
    keyring = Keyring(lambda: Keys.parse(_KEYS), clock)
    return Step(
        message,
        state=began,
        clock=clock,
        committed_at=clock.now(),
        signer=KeySigner(keyring),
        tokens=Tokens(keyring, _ANSWERS),
        before=before,
    )


def _ms(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ValueError(f"requested_at={moment!r} has no time zone; give it one, such as datetime.UTC")
    return int((moment - _EPOCH).total_seconds() * 1000)
