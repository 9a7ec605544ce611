"""The table of the run item's fields: what is made from it, word for word, and that it says what the writes do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from flowguard.aws import expressions, memos, run_pages
from flowguard.aws.claim_call import claim_call
from flowguard.aws.commit_call import back_off_call, note_kills_call, release_call
from flowguard.aws.items import FIXED, read_item, read_record, record_item
from flowguard.names.ids import RequestId
from flowguard.protocol import fields
from flowguard.protocol.callers import Callers
from flowguard.protocol.claims import taken
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.fields import FIELDS, Field, Kind, Writer, claiming
from flowguard.protocol.memo import Memo
from flowguard.protocol.outbox import Outbox
from flowguard.protocol.run import BackOff, Burst, Cancellation, Claim, ClaimRequest, Commit, NewWait, RunItem, Status
from flowguard.protocol.waiting import Late, Wait, WaitPlan
from flowguard.wire.message import ErrorNote
from flowguard.wire.turn import Turn
from tests.aws.states import NOW, STORED, item, request
from tests.aws.store.run import commit, commit_call

# -- what is made from the table -----------------------------------------------------------------------------------

_CLAIM = (
    "SET request_id = :request_id, requested_at = :requested_at, version = :version, #status = :running, "
    "stage = :stage, hop = :hop, retry = :retry, redrive = :redrive, epoch = if_not_exists(epoch, :zero) + :one, "
    "#owner = :owner, lease_until = :lease_until, done = :no, #ttl = :ttl"
)
_FIRST = f"{_CLAIM}, stages = :stages, first_text = :first_text, text_epoch = if_not_exists(epoch, :zero) + :one"
_LATER = f"{_CLAIM}, stages.#stage = :request_id"


def test_the_texts_of_the_claims() -> None:
    removed = "REMOVE #result, #error, waiting, #wait, late, back_off, kills"
    assert f"{_FIRST} {removed}" == expressions.CLAIM_FIRST_HOP
    removed = "REMOVE waiting, #wait, late, reset_at, back_off, kills"
    assert f"{_FIRST} {removed}" == expressions.CLAIM_FIRST_HOP_OF_CALLERS
    assert f"{_LATER} REMOVE outbox, #result, #error, back_off, kills" == expressions.CLAIM_LATER_HOP
    assert f"{_LATER} REMOVE #result, #error, back_off, kills" == expressions.CLAIM_RESUMED_HOP
    assert set(expressions.CLAIM_NAMES) == {"#status", "#owner", "#ttl", "#result", "#error", "#wait"}


def test_what_a_commit_writes_in_place_of_a_claim() -> None:
    assert expressions.TAKE == (
        "request_id = :request_id, requested_at = :requested_at, version = :version, stage = :stage, hop = :hop, "
        "retry = :retry, redrive = :redrive, epoch = :epoch, #owner = :owner, lease_until = :lease_until"
    )


def test_what_is_read_for_a_list() -> None:
    assert set(run_pages.PARTS.split(", ")) == {
        *("pk", "sk", "request_id", "requested_at", "version", "#status", "stage", "hop", "retry", "redrive", "epoch"),
        *("#owner", "lease_until", "done", "committed_at", "#ttl", "#error", "waiting", "#wait", "failed", "cancelled"),
        *("reset_at", "back_off", "burst"),
    }
    assert {f"#{one}": one for one in ("status", "owner", "ttl", "error", "wait")} == run_pages.NAMES


@pytest.mark.parametrize(
    ("policy", "hop", "resumed", "claim"),
    [
        (OnConflict.SUPERSEDE, 1, False, fields.FIRST_HOP),
        (OnConflict.IGNORE, 1, False, fields.FIRST_HOP),
        (OnConflict.ATTACH, 1, False, fields.CALLERS_FIRST_HOP),
        (OnConflict.ATTACH, 2, False, fields.LATER_HOP),
        (OnConflict.SUPERSEDE, 2, True, fields.RESUMED_HOP),
    ],
)
def test_which_claim_takes_a_hop(policy: OnConflict, hop: int, resumed: bool, claim: Writer) -> None:
    assert claiming(_asked(policy, hop, resumed)) is claim


# -- stored forms --------------------------------------------------------------------------------------------------

NOTE: Final = ErrorNote("Reject", "no", 9)
_NOTE: Final = {"M": {"type": {"S": "Reject"}, "text": {"S": "no"}, "at": {"N": "9"}}}
_RUN: Final = {
    "request_id": {"S": "r"},
    "requested_at": {"N": "1"},
    "hop": {"N": "2"},
    "redrive": {"N": "0"},
    "error": _NOTE,
}
FAILED: Final = FailedHop(RequestId("r"), 1, 2, 0, NOTE)

RECORDS: Final[list[tuple[Any, dict[str, Any]]]] = [
    (Callers("t"), {"term": {"S": "t"}, "held": {"M": {}}}),
    (
        Callers("t", {"k": "text"}, rows=True),
        {"term": {"S": "t"}, "held": {"M": {"k": {"S": "text"}}}, "rows": {"BOOL": True}},
    ),
    (Late(0, frozenset("ba")), {"hop": {"N": "0"}, "names": {"SS": ["a", "b"]}}),
    (Late(1, frozenset("a"), "g"), {"hop": {"N": "1"}, "names": {"SS": ["a"]}, "group": {"S": "g"}}),
    (
        Cancellation(RequestId("r"), 7, "a mistake"),
        {"request_id": {"S": "r"}, "at": {"N": "7"}, "why": {"S": "a mistake"}},
    ),
    (BackOff(NOTE, 8), {"error": _NOTE, "until": {"N": "8"}}),
    (BackOff(NOTE, 8, 7), {"error": _NOTE, "until": {"N": "8"}, "look": {"N": "7"}}),
    (FAILED, _RUN),
    (FAILED._replace(undone=True), {**_RUN, "undone": {"BOOL": True}}),
]


@pytest.mark.parametrize(("record", "parts"), RECORDS)
def test_a_record_is_stored_as_a_map_and_read_again(record: Any, parts: dict[str, Any]) -> None:
    assert record_item(record) == {"M": parts}
    assert read_record(type(record), {"M": parts}) == record


@pytest.mark.parametrize(("record", "parts"), RECORDS)
def test_a_record_without_a_part_that_it_needs_is_unreadable(record: Any, parts: dict[str, Any]) -> None:
    missing = next(iter(parts))
    with pytest.raises(KeyError, match=missing):
        read_record(type(record), {"M": {name: part for name, part in parts.items() if name != missing}})


STORED_FIELDS: Final[Mapping[str, tuple[Any, Any]]] = {
    "committed_at": ({"N": "5"}, 5),
    "ttl": ({"N": "6"}, 6),
    "stages": ({"M": {"a": {"S": "r"}}}, {"a": "r"}),
    "reset_at": ({"N": "7"}, 7),
    "reset_by": ({"S": "reset"}, "reset"),
    "kills": ({"N": "-1"}, -1),
    "by_look": ({"N": "0"}, 0),
    "answered_by": ({"S": "r"}, "r"),
    "answered_key": ({"S": "key"}, "key"),
    "history": ({"S": "lately"}, "lately"),
    "full_history": ({"BOOL": True}, True),
    "done": ({"BOOL": True}, True),
    "status": ({"S": "FAILED"}, Status.FAILED),
    "asker-key": ({"S": "text"}, {"key": "text"}),
    "late": (record_item(Late(1, frozenset("a"))), Late(1, frozenset("a"))),
    "cancelled": (record_item(Cancellation(RequestId("r"), 1, "")), Cancellation(RequestId("r"), 1, "")),
    "failed": (record_item(FAILED), FAILED),
    "callers": (record_item(Callers("t")), Callers("t")),
    "answered": (record_item(Callers("t")), Callers("t")),
    "back_off": (record_item(BackOff(NOTE, 8)), BackOff(NOTE, 8)),
    "burst": (record_item(Burst(1, 2, 3)), Burst(1, 2, 3)),
}


@pytest.mark.parametrize("attribute", STORED_FIELDS)
def test_a_field_is_read_from_its_attribute(attribute: str) -> None:
    stored, value = STORED_FIELDS[attribute]
    name = {"asker-key": "askers", "cancelled": "cancellation"}.get(attribute, attribute)
    assert getattr(read_item({**_item(), attribute: stored}), name) == value
    without = {key: one for key, one in _item().items() if key != attribute}
    if name in RunItem._field_defaults:
        assert getattr(read_item(without), name) == RunItem._field_defaults[name]
    else:
        with pytest.raises(KeyError, match=attribute):
            read_item(without)


def test_a_text_of_another_epoch_is_none() -> None:
    text = {"first_text": {"S": "digest"}}
    assert read_item({**_item(), **text, "text_epoch": {"N": "7"}}).first_text == "digest"
    assert read_item({**_item(), **text, "text_epoch": {"N": "6"}}).first_text is None
    assert read_item({**_item(), **text}).first_text is None


def test_the_table_has_every_value_of_the_item_but_those_that_are_made_of_others() -> None:
    assert {field.value_name for field in FIELDS} == set(RunItem._fields) - {"left", "left_end", "lost"}
    assert len({field.attribute for field in FIELDS}) == len(FIELDS)


# -- who writes what -----------------------------------------------------------------------------------------------


def test_each_write_sets_and_removes_what_the_table_says() -> None:
    written: dict[str, set[Writer]] = {field.attribute: set() for field in FIELDS}
    removed: dict[str, set[Writer]] = {field.attribute: set() for field in FIELDS}
    for writer, update, names in _updates():
        for section, name in _changes(update, names):
            where = removed if section == "REMOVE" else written
            where[name].add(writer)
    assert written == {field.attribute: field.written_by for field in FIELDS}
    assert removed == {field.attribute: field.removed_by for field in FIELDS}


def _updates() -> Iterator[tuple[Writer, str, Mapping[str, str]]]:
    """Yield the updates of run items: who writes, the text, and its placeholders."""
    calls: list[tuple[Writer, Any]] = [(claiming(one), claim_call("table", one)) for one in _requests()]
    claim = _claim(_asked(OnConflict.ATTACH, 2, False))
    calls += [(fields.COMMIT, one) for one in _commits()]
    calls.append(
        (
            fields.RELEASE,
            release_call("table", claim, NOW, failed=True, history="x", rest=BackOff(NOTE, NOW), called_attempt="n"),
        )
    )
    taken_over = claim._replace(item=claim.item._replace(outbox=Outbox(RequestId("another"), NOW, ())))
    calls.append((fields.RELEASE, release_call("table", taken_over, NOW, failed=False, rest=Burst(NOW, NOW, NOW))))
    calls.append((fields.BACK_OFF, back_off_call("table", claim, BackOff(NOTE, NOW))))
    calls.append((fields.KILLS, note_kills_call("table", claim)))
    calls += [(fields.MEMORY, memos._update("table", claim, "name", {}, first)) for first in (True, False)]
    for writer, call in calls:
        yield writer, call["UpdateExpression"], call["ExpressionAttributeNames"]
    yield fields.FAILED_ATTEMPT, "SET full_history = :yes", {}
    e = expressions
    for writer, texts in {
        fields.MEMORY: (e.FORGET,),
        fields.ANSWER: (e.KEEP_ANSWER, e.KEEP_FAILURE),
        fields.DEADLINE: (e.END_WAIT, e.LOOK),
        fields.GROUP: (e.ASKED, e.DROP_SHARD),
        fields.CALLER: (e.SET_CALLER, e.SET_ROWS),
        fields.RESET: (e.RESET,),
        fields.CANCELLATION: (e.CANCEL, e.CANCEL_OF_TEXT, e.CANCEL_RESTART, e.CANCEL_WAIT),
    }.items():
        for text in texts:
            yield writer, text, {}


def _changes(update: str, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each change of an update expression by its section and its attribute."""
    parts = re.split(r"\b(SET|REMOVE|ADD|DELETE) ", update)[1:]
    for section, actions in zip(parts[::2], parts[1::2], strict=True):
        for action in re.sub(r"\([^)]*\)", "", actions).split(", "):
            head = re.split(r"[. ]", action)[0]
            name = names.get(head, head.lstrip("#"))
            yield section, "asker-" if name.startswith("asker-") else name


def _requests() -> Iterator[ClaimRequest]:
    for policy, hop, resumed, redrive in product(OnConflict, (1, 2), (False, True), (0, 1)):
        asked = _asked(policy, hop, resumed and hop > 1)
        yield asked._replace(message=asked.message._replace(redrive=redrive, reply_to="sqs:replies"))


def _commits() -> Iterator[Any]:
    later = _claim(_asked(OnConflict.SUPERSEDE, 2, True))
    waited = later._replace(item=later.item._replace(wait=Wait(frozenset("a"), 0, NOW, timed_out=True)))
    has: dict[str, Any] = {
        "answered_by": RequestId("r"),
        "history": "x",
        "askers": {"key": "text"},
        "memo": Memo(RequestId("r"), 1, {}, 9),
        "failed": FAILED,
        "burst": Burst(NOW, NOW, NOW),
        "called_attempt": "0.1.0.1",
        "by_look": 7,
    }
    new = NewWait(WaitPlan("stage-2", {"a": None}), 0, NOW)
    ends: list[Commit] = [
        commit(first_message="text", told_until=NOW),
        commit(outbox=None, state=None, error=None),
        commit(status=Status.WAITING, wait=new),
        commit(status=Status.COMPLETED, result="{}", takes_callers=True),
        commit(status=Status.FAILED, error=NOTE, state=None),
        commit(failed=FAILED, state=None),
    ]
    looked = later._replace(message=later.message._replace(turn=Turn(NOW, "customer#0123", 7)))
    for claim in (later, waited, looked, later._replace(item=later.item._replace(**has))):
        yield from (commit_call(claim, end) for end in ends)
    for size in range(0, 1_024, 8):  # some leave no room for a history
        item_now = later.item._replace(history="x", stages={"s" * size: RequestId("r")})
        yield commit_call(later._replace(item=item_now), commit())


def _asked(policy: OnConflict, hop: int, resumed: bool) -> ClaimRequest:
    asked = request(STORED, hop=hop, policy=policy)
    return asked._replace(message=asked.message._replace(resumed=resumed))


def _item() -> dict[str, Any]:
    return item(1, "done", (0, 0), "over", "other")


def _claim(asked: ClaimRequest) -> Claim:
    before = read_item(_item())
    return Claim(asked.message, taken(before, asked), before)


def test_a_commit_of_a_hop_that_found_its_place_at_once_says_nothing_of_looks() -> None:
    assert "by_look" not in commit_call(_claim(_asked(OnConflict.SUPERSEDE, 2, False)), commit())["UpdateExpression"]


# -- how many modules name a field ------------------------------------------------------------------------------------

_ROOT: Final = Path(__file__).parents[2] / "flowguard"
NAMED_BY: Final = {
    "requested_at": 7,
    "lease_until": 5,
    "late": 3,
    "reset_at": 3,
    "reset_by": 2,
    "back_off": 4,
    "kills": 4,
    "by_look": 3,
    "first_text": 4,
    "text_epoch": 4,
    "answered_key": 3,
    "first_message": 2,
    "full_history": 4,
}
"""The modules of ``aws/`` and ``protocol/`` with the attribute in a text: this table, what writes it, what compares it,
what counts its bytes. What stays of a forgotten run names some too. Names that are ordinary words too are left out."""


def test_few_modules_name_an_attribute() -> None:
    texts = {path.stem: list(_texts(path)) for part in ("aws", "protocol") for path in (_ROOT / part).glob("*.py")}
    named = {
        name: [
            module for module, there in texts.items() if any(re.search(rf"(?<![\w:.]){name}\b", one) for one in there)
        ]
        for name in NAMED_BY
    }
    assert {name: len(modules) for name, modules in named.items()} == NAMED_BY, named


def _texts(path: Path) -> Iterator[str]:
    """Yield the texts of a module without its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


# -- sizes ---------------------------------------------------------------------------------------------------------

_NUMBER: Final = 21
_MOST: Final[Mapping[Any, int]] = {
    Kind.COUNT: _NUMBER,
    Kind.TIME: _NUMBER,
    Kind.SECONDS: _NUMBER,
    Kind.FLAG: 1,
    Kind.MARK: 1,
}
_COUNTED_APART: Final = {"request_id", "asker-"}


def test_the_room_for_what_every_item_has_holds_the_names_and_numbers_of_all_fields() -> None:
    most = sum(len(field.attribute) + _largest(field) for field in FIELDS if field.attribute not in _COUNTED_APART)
    assert most + len("pk") + len("sk") <= FIXED


def _largest(field: Field) -> int:
    """Return the bytes of a value that is not counted by itself."""
    if field.attribute == "owner":
        return len("0123456789abcdef" * 2) + 4
    if field.kind is Kind.STATUS:
        return len("COMPLETED")
    if field.kind is Kind.HISTORY:
        return 256
    return _MOST.get(field.kind, 0)
