"""Errors: one tree, a sentence each, facts as attributes, and alive after pickling."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from datetime import timedelta

import pytest

from flowguard import errors
from flowguard.errors import (
    AskedOtherwise,
    Cancelled,
    CannotOpen,
    ConditionFailed,
    ConditionRejected,
    DefinitionError,
    EnvelopeError,
    FenceAhead,
    FlowguardError,
    GroupChanged,
    GroupUnsaved,
    InProgress,
    ItemChanged,
    KeyMissing,
    KeyReused,
    KeyUnavailable,
    LimitReached,
    NotABatch,
    NotForgotten,
    NotHeld,
    NotProcessed,
    OtherRelease,
    PayloadInvalid,
    PayloadLost,
    PlacesBusy,
    Reject,
    ResultRefused,
    ResultUnsaved,
    Retry,
    RowsUnwritten,
    RunFailed,
    RunTooBusy,
    SendFailed,
    SettingsError,
    TextGone,
    TokenProblem,
    TokenRefused,
    TooEarly,
    TooLarge,
    TooManyWrites,
    Untrusted,
    WorkerFenced,
    WriteDenied,
    WriteInvalid,
    shown,
)
from flowguard.worker.routing import Unroutable

SENTENCES: list[tuple[FlowguardError, str]] = [
    (FlowguardError("it broke"), "it broke"),
    (Retry(), "the stage asked for a retry"),
    (Retry("gateway down", after=timedelta(seconds=5)), "gateway down"),
    (Reject("empty cart"), "empty cart"),
    (Cancelled("ordered by mistake"), "ordered by mistake"),
    (
        PlacesBusy("customer#d1", "others have written them 50 times meanwhile"),
        "the places of customer#d1 were not changed: others have written them 50 times meanwhile; it is tried again",
    ),
    (RunTooBusy("orders", 8), "the run of orders was not cancelled: it moved on 8 times meanwhile; try again"),
    (NotForgotten("orders", "it goes on"), "the run of orders was not forgotten: it goes on"),
    (
        DefinitionError("stage Made", ("it has no name", "it has no handle")),
        "stage Made is not well defined:\n  - it has no name\n  - it has no handle",
    ),
    (
        AskedOtherwise("draft.2"),
        "'draft.2' is asked something else than is remembered; let a prompt depend on the payload and the step alone, "
        "or give the agent's calls another name to ask anew",
    ),
    (CannotOpen("state", "it was changed"), "the state cannot be opened: it was changed"),
    (KeyUnavailable("alias/a", "AccessDenied: no"), "the key alias/a cannot be used now: AccessDenied: no"),
    (
        GroupChanged("ask-shops", 1_980),
        "'ask-shops' cannot wait: its first 1,980 requests are not those that were saved before; let them come in a "
        "fixed order, or give its function the time to save all at once. Nothing was sent",
    ),
    (
        GroupUnsaved("ask-shops", 1_980),
        "'ask-shops' cannot wait: no time was left to save a request after 1,980 that were saved before; give its "
        "function more. Nothing was sent",
    ),
    (SettingsError("FLOWGUARD_TABLE", "is too short"), "FLOWGUARD_TABLE: is too short"),
    (EnvelopeError("m-1", "body", "missing"), "m-1: body: missing"),
    (TooEarly("m-1", "attributes.requestedat", "is a day ahead"), "m-1: attributes.requestedat: is a day ahead"),
    (Untrusted("m-1", "attributes.flowguard.sig", "it carries none"), "m-1: attributes.flowguard.sig: it carries none"),
    (TokenRefused(TokenProblem.EXPIRED), "the token is refused: its time is over"),
    (RunFailed("no stage 'pay'"), "no stage 'pay'"),
    (
        TooLarge("a message to sqs:q", {"body": 1_048_000, "attributes": 1_000}, 1_048_576),
        "a message to sqs:q is too large: 1,049,000 bytes of at most 1,048,576 (body 1,048,000, attributes 1,000)",
    ),
    (
        TooManyWrites("price", 99),
        "stage 'price' records more than 99 writes; one commit is one transaction: split the work over several hops",
    ),
    (WriteInvalid("no such table"), "no such table"),
    (WriteDenied("no such table"), "no such table"),
    (PayloadInvalid("the payload of price is no Order"), "the payload of price is no Order"),
    (PayloadLost("the state would not be read again: x"), "the state would not be read again: x"),
    (OtherRelease("orders does not read version 9"), "orders does not read version 9"),
    (TextGone("texts", "flowguard/a", "NoSuchKey"), "the text at s3://texts/flowguard/a is gone: NoSuchKey"),
    (
        ConditionFailed("carts", "attribute_exists(id)", None),
        "the condition on 'carts' does not hold (attribute_exists(id)): no such item",
    ),
    (
        ConditionRejected("carts", "total > :t", {"id": "secret"}),
        "the condition on 'carts' does not hold (total > :t): the item is there, but it does not match",
    ),
    (
        ItemChanged("carts", 3, {"id": "secret"}),
        "an item of 'carts' was changed by others at each of 3 tries to modify it",
    ),
    (NotHeld({"pen": None, "ink": {"id": "secret"}}), "these writes did not hold: pen, ink"),
    (
        ConditionFailed("carts", "total > :t", {"id": "secret"}),
        "the condition on 'carts' does not hold (total > :t): the item is there, but it does not match",
    ),
    (FenceAhead("flowguard_fence has a newer claim"), "flowguard_fence has a newer claim"),
    (RowsUnwritten(3, "requests of a group"), "3 requests of a group were not written; the hop is tried again"),
    (WorkerFenced("newer run"), "this worker no longer owns the hop: newer run"),
    (SendFailed({"sqs:a": "gone", "sns:b": "denied"}), "not sent: sqs:a: gone; sns:b: denied"),
    (NotProcessed({"m-1": "busy"}), "not processed: m-1: busy"),
    (
        InProgress("charge", "o-1", 30),
        "charge: 'o-1' is in progress elsewhere, for 30 s at most; try again then",
    ),
    (
        LimitReached("charge", "customer", 12),
        "charge: no place of the limit 'customer' is free for 12 s at least; try again then. "
        "The function was not called",
    ),
    (
        LimitReached("charge", "customer", 0),
        "charge: no place of the limit 'customer' is free now; try again later. The function was not called",
    ),
    (
        KeyReused("charge", "o-1"),
        "charge: 'o-1' was used with another payload; send another request under another key. "
        "The function was not called",
    ),
    (KeyMissing("charge", "no usable key at 'id'"), "charge: no usable key at 'id'. The function was not called"),
    (
        ResultRefused("charge", "o-1", "result is nan"),
        "charge: the result of 'o-1' cannot be stored: result is nan. "
        "The function was called, and the key is COMPLETED without a result: a repeat does not call it again",
    ),
    (
        ResultUnsaved("charge", "o-1", "DynamoDB is away"),
        "charge: the result of 'o-1' was not stored: DynamoDB is away. "
        "The function was called; a repeat may call it again",
    ),
    (
        NotABatch(),
        "the event has no Records of SQS, each with a messageId and a body; "
        "call the function itself with the event, or read it from SQS. Nothing was called",
    ),
    (Unroutable("a/b is not served here"), "a/b is not served here"),
]


@pytest.mark.parametrize(("error", "sentence"), SENTENCES)
def test_an_error_is_a_sentence(error: FlowguardError, sentence: str) -> None:
    assert str(error) == sentence


def pickled(error: FlowguardError) -> object:
    return pickle.loads(pickle.dumps(error))  # noqa: S301 - our own


@pytest.mark.parametrize("revive", [pickled, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("error", [error for error, _ in SENTENCES])
def test_an_error_keeps_its_words_and_facts_when_it_travels(
    error: FlowguardError, revive: Callable[[FlowguardError], FlowguardError]
) -> None:
    found = revive(error)
    assert type(found) is type(error)
    assert (str(found), vars(found), found.args) == (str(error), vars(error), error.args)


def test_a_commit_that_did_not_hold_for_a_change_says_so_in_its_words() -> None:
    changed = ItemChanged("carts", 3, None)
    assert str(NotHeld({}, changed)) == str(changed)


def test_the_table_above_has_every_error() -> None:
    defined = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)}
    assert defined <= {type(error) for error, _ in SENTENCES}


@pytest.mark.parametrize("error", [error for error, _ in SENTENCES])
def test_whoever_catches_the_base_catches_all(error: Exception) -> None:
    assert isinstance(error, FlowguardError)


@pytest.mark.parametrize("kind", [RunFailed, TooLarge, TooManyWrites, WriteInvalid, ConditionRejected])
def test_what_would_fail_again_is_a_reject(kind: type[FlowguardError]) -> None:
    assert issubclass(kind, Reject)


@pytest.mark.parametrize("kind", [ConditionFailed, NotHeld, SendFailed, Retry])
def test_what_may_succeed_when_tried_again_is_none(kind: type[FlowguardError]) -> None:
    assert not issubclass(kind, Reject)


@pytest.mark.parametrize("reason", TokenProblem)
def test_a_refused_token_says_why_in_words_of_its_own(reason: TokenProblem) -> None:
    others = {str(TokenRefused(other)) for other in TokenProblem if other is not reason}
    assert str(TokenRefused(reason)).startswith("the token is refused: it")
    assert str(TokenRefused(reason)) not in others


@pytest.mark.parametrize("after", [timedelta(seconds=-1), timedelta(days=15)])
def test_a_retry_that_no_one_could_keep_is_refused_where_it_is_raised(after: timedelta) -> None:
    with pytest.raises(ValueError, match="a message can be delayed by 0 to 14 days"):
        Retry(after=after)


@pytest.mark.parametrize("after", [None, timedelta(0), timedelta(days=14)])
def test_a_retry_says_how_long_to_wait(after: timedelta | None) -> None:
    assert Retry("later", after=after).after == after


def nested(depth: int) -> list[object]:
    found: list[object] = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("pay", "'pay'"),
        (7, "7"),
        ("x" * 38, f"'{'x' * 38}'"),
        ("x" * 39, f"'{'x' * 39} …"),
        ("x" * 1_000_000, f"'{'x' * 39} …"),
        ("a\nb\x00\ud800", r"'a\nb\x00\ud800'"),
    ],
    ids=range(6),
)
def test_an_error_shows_the_beginning_of_what_it_was_given(value: object, text: str) -> None:
    assert shown(value) == text


def test_what_has_no_text_of_its_own_is_shown_by_its_type() -> None:
    assert shown(10**5_000) == "int"
    assert shown(nested(100_000)) == "list"
