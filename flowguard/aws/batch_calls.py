"""Claims, reads and commits of several runs in one request. Transactions are calls of their own.

Each is judged and answered on its own. What is answered here is what DynamoDB has said of one item: granted, or a
failed condition with the item that stood in its way. Everything else (throttling, a conflict, a server's error, an
answer that got lost, an item that is not shown) is left unanswered, and is asked again by a call of its own: claims
and commits may be repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws import botocore_errors
from flowguard.aws.batch_reads import BatchReads
from flowguard.aws.commit_threads import Transact, transactions
from flowguard.aws.faults import error_code
from flowguard.aws.items import Item, message_problem, run_key
from flowguard.aws.partiql import Unsayable, insert_statement, update_statement
from flowguard.errors import shown
from flowguard.protocol.claims import taken
from flowguard.protocol.run import Claim, ClaimRequest, Commit, Committed, Fenced, Refused, RunItem
from flowguard.startup.named_tuple import NamedTuple
from flowguard.text.printable import bounded
from flowguard.worker.asks import CommitAnswer

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

STATEMENTS_A_CALL: Final = 25
"""What BatchExecuteStatement takes."""

LARGEST_CALL: Final = 1_000_000
"""How long the texts may be in one request, unless a single statement has more."""

MOST_INVALID: Final = 3
"""How many requests in turn may have no statement that is valid: where DynamoDB does not read what is said here."""

_NOT_HERE: Final = frozenset({"AccessDenied", "AccessDeniedException", "UnknownOperationException"})
"""Answers to the first request that will not change: no permission, or an engine without PartiQL."""

logger = logging.getLogger("flowguard")


class RunCalls(NamedTuple):
    """The store's own calls for single runs, and what their answers mean."""

    claim: Callable[[ClaimRequest], Any]
    claimed: Callable[[ClaimRequest, Item], RunItem]
    refused: Callable[[ClaimRequest, Item], Refused]
    judged: Callable[[ClaimRequest, Item | None], Claim | Refused]
    commit: Callable[[Claim, Commit], Any]
    transact: Transact
    fenced: Callable[[Claim, Commit, Item], Committed | Fenced | Refused]
    release: Callable[[Claim, int], Any]


class DynamoDBBatches:
    """Claims, reads and commits of several runs in few requests.

    It implements :class:`flowguard.worker.ports.Batches`. Once an answer shows that the service takes no such requests
    from here, it sends no more of them.
    """

    def __init__(self, client: DynamoDBClient, table: str, calls: RunCalls) -> None:
        self._client = client
        self._reads = BatchReads(client, table)
        self._calls = calls
        self._available = True
        self._invalid = 0
        self._met: set[str] = set()
        self._refusals: list[str] = []

    def refusals(self) -> list[str]:
        refusals = [*self._reads.refusals, *self._refusals]
        self._reads.refusals, self._refusals = [], []
        return refusals

    def claim(self, requests: Sequence[ClaimRequest]) -> list[Claim | Refused | None]:
        """Claim runs of different objects, in one request or two.

        An update creates no item, and an insert changes none. A first attempt of a first hop is expected to meet none,
        unless those of its flow did lately; where the guess is wrong, a second request has the other statement.
        """
        calls = {
            place: self._calls.claim(request)
            for place, request in enumerate(requests)
            if message_problem(request.message) is None
        }
        new = {place for place in calls if self._may_be_new(requests[place])}
        first = {
            **_said(insert_statement, {place: calls[place] for place in new}),
            **_said(update_statement, {place: calls[place] for place in calls if place not in new}),
        }
        answers: list[Claim | Refused | None] = [None] * len(requests)
        wrong: list[int] = []
        for place, answer in self._execute(dict(sorted(first.items()))):
            if _is_absent(answer) if place not in new else _code(answer) == "DuplicateItem":
                wrong.append(place)
            else:
                answers[place] = self._claimed(requests[place], answer, inserted=place in new)
        self._learn(requests, new, wrong)
        again = {
            **_said(update_statement, {place: calls[place] for place in wrong if place in new}),
            **_said(insert_statement, {p: calls[p] for p in wrong if p not in new and requests[p].message.hop == 1}),
        }
        for place, answer in self._execute(again):
            answers[place] = self._claimed(requests[place], answer, inserted=place not in new)
        return answers

    def _may_be_new(self, request: ClaimRequest) -> bool:
        m = request.message
        return m.hop == 1 and m.attempt == (0, 0) and m.flow not in self._met

    def _learn(self, requests: Sequence[ClaimRequest], new: Collection[int], wrong: Collection[int]) -> None:
        """Note which flows' first hops meet items. A wrong guess costs a request and a write unit each."""
        for flow in {requests[place].message.flow for place in wrong}:
            mine = [
                at for at, request in enumerate(requests) if request.message.flow == flow and request.message.hop == 1
            ]
            met = sum((at in wrong) == (at in new) for at in mine)
            (self._met.add if 2 * met > len(mine) else self._met.discard)(flow)

    def _claimed(self, request: ClaimRequest, answer: Item, *, inserted: bool) -> Claim | Refused | None:
        """Return what the answer to one statement means. None where the claim has to be asked for once more."""
        if inserted:
            return None if "Error" in answer else Claim(request.message, taken(None, request), None, at=request.now)
        code, item = _code(answer), _item(answer)
        if not item:
            return None
        with suppress(Exception):  # what cannot be read is reported for this run alone, by its own call
            if code is None:
                before = self._calls.claimed(request, item)
                return Claim(request.message, taken(before, request), before, at=request.now)
            if code == "ConditionalCheckFailed":
                return self._calls.refused(request, item)
        return None

    def judge(self, requests: Sequence[ClaimRequest]) -> list[Claim | Refused | None]:
        """Decide claims of different objects by consistent reads in one request. Nothing is written."""
        asked = [
            (place, request.message)
            for place, request in enumerate(requests)
            if message_problem(request.message) is None
        ]
        answers: list[Claim | Refused | None] = [None] * len(requests)
        for place, item in self._reads.read({place: run_key(m.flow, m.object_id) for place, m in asked}):
            with suppress(Exception):  # what cannot be read is reported for this run alone, by its own call
                answers[place] = self._calls.judged(requests[place], item)
        return answers

    def commit(self, commits: Sequence[tuple[Claim, Commit]], *, in_threads: bool = False) -> list[CommitAnswer]:
        """Commit hops of different objects in one request. Those that write more than that are a transaction each."""
        shared = {place: pair for place, pair in enumerate(commits) if not pair[1].is_transaction}
        alone = {place: pair for place, pair in enumerate(commits) if pair[1].is_transaction}
        answers: list[CommitAnswer] = [None] * len(commits)
        for place, answer in self._commit_shared(shared):
            answers[place] = answer
        for place, answer in transactions(self._calls.transact, alone, in_threads=in_threads):
            answers[place] = answer
        return answers

    def _commit_shared(self, commits: Mapping[int, tuple[Claim, Commit]]) -> Iterator[tuple[int, CommitAnswer]]:
        """Make commits that are one write each in one request.

        A hop that was only read where there was no item is inserted.
        """
        calls: dict[int, Any] = {}
        for place, (claim, commit) in commits.items():
            with suppress(Exception):  # one that is too large, or whose text cannot be kept: its own call says so
                calls[place] = self._calls.commit(claim, commit)
        new = {place for place in calls if (claim := commits[place][0]).unwritten is not None and claim.before is None}
        statements = {
            **_said(insert_statement, {place: calls[place] for place in new}),
            **_said(update_statement, {place: calls[place] for place in calls if place not in new}),
        }
        for place, answer in self._execute(dict(sorted(statements.items()))):
            yield place, self._committed(*commits[place], answer)

    def _committed(self, claim: Claim, commit: Commit, answer: Item) -> Committed | Fenced | Refused | None:
        code, item = _code(answer), _item(answer)
        if code is None:
            return Committed()
        with suppress(Exception):
            if code == "ConditionalCheckFailed" and item:
                return self._calls.fenced(claim, commit, item)
        return None

    def release(self, claims: Sequence[Claim], now: int) -> None:
        """End the leases of hops that were not begun. One that is not answered ends by itself."""
        calls = {place: self._calls.release(claim, now) for place, claim in enumerate(claims)}
        for _ in self._execute(_said(update_statement, calls)):
            pass

    # -- requests

    def _execute(self, statements: Mapping[int, Any]) -> Iterator[tuple[int, Item]]:
        """Yield the answers by the places of their statements. A request that fails as a whole answers none."""
        for places in _requests(statements):
            answers = self._request([statements[place] for place in places])
            if len(answers) == len(places):
                yield from zip(places, answers, strict=True)

    def _request(self, statements: list[Any]) -> Sequence[Any]:
        if not self._available:
            return ()
        try:
            answers: Sequence[Any] = self._client.batch_execute_statement(Statements=statements)["Responses"]
        except botocore_errors.ClientError as error:
            if error_code(error) in _NOT_HERE:
                self._give_up(str(error))
            return self._refused(error)
        except (AssertionError, NotImplementedError, TypeError) as error:  # as engines say what they do not know
            self._give_up(f"{type(error).__name__}: {error}")
            return ()
        except Exception as error:  # the network: what was written shows when each asks on its own
            return self._refused(error)
        self._judge(answers)
        return answers

    def _refused(self, error: Exception) -> Sequence[Any]:
        self._refusals.append(bounded(f"{type(error).__name__}: {error}"))
        return ()

    def _judge(self, answers: Sequence[Any]) -> None:
        """Give up where every statement is refused for want of a permission, or several times as not valid."""
        codes = {_code(answer) for answer in answers}
        self._invalid = self._invalid + 1 if codes == {"ValidationError"} else 0
        if answers and (codes <= _NOT_HERE or self._invalid >= MOST_INVALID):
            self._give_up(str(answers[0]["Error"].get("Message", "")))

    def _give_up(self, why: str) -> None:
        self._available = False
        text = "claims and commits are made one by one, since BatchExecuteStatement is refused: %s; %s"
        fix = "on AWS, allow dynamodb:PartiQLUpdate and dynamodb:PartiQLInsert on the table"
        logger.warning(text, shown(why), fix)


def _said(say: Callable[[Any], Any], calls: Mapping[int, Any]) -> dict[int, Any]:
    """Return the statements of those calls that PartiQL can say."""
    statements: dict[int, Any] = {}
    for place, call in calls.items():
        with suppress(Unsayable):
            statements[place] = say(call)
    return statements


def _requests(statements: Mapping[int, Any]) -> Iterable[list[int]]:
    """Yield the places of the statements of each request."""
    places: list[int] = []
    size = 0
    for place, statement in statements.items():
        length = _length(statement["Parameters"])
        if places and (len(places) == STATEMENTS_A_CALL or size + length > LARGEST_CALL):
            yield places
            places, size = [], 0
        places.append(place)
        size += length
    if places:
        yield places


def _length(values: Sequence[Item]) -> int:
    """Return how long the texts are among these values, and what is sealed in their maps."""
    length = 0
    for value in values:
        for data in value.values():
            if isinstance(data, str):
                length += len(data)
            elif isinstance(data, dict):
                length += _length([*data.values()])
            elif isinstance(data, bytes):
                length += len(data)
    return length


def _code(answer: Item) -> str | None:
    return str(answer["Error"].get("Code")) if "Error" in answer else None


def _item(answer: Item) -> Item | None:
    item: Item | None = answer.get("Error", answer).get("Item")
    return item


def _is_absent(answer: Item) -> bool:
    return _code(answer) == "ConditionalCheckFailed" and not _item(answer)
