"""The plan of a group.

Its requests are saved a shard at a time before the commit. Its message sends them after it.

::

    rows, shard 0   rows, shard 1   …   COMMIT (open shards, plan)   side messages, deadline, the group's own message

Where time is short, what was saved is a part. The next invocation makes the requests again, finds that they begin with
those of the parts, and saves the rest.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flowguard.destinations import Destination, parse_destination
from flowguard.errors import GroupChanged, GroupUnsaved, RunFailed, shown
from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId, RequestId, name_problem
from flowguard.outcome import AskGroup, WaitForGroup
from flowguard.payload.codec import codec_problems
from flowguard.payload.encoding import encode
from flowguard.payload.readable import comparable
from flowguard.protocol.groups import (
    GROUP,
    LONGEST_GROUP_NAME,
    MOST_IN_GROUP,
    MOST_IN_SHARD,
    MOST_PARTS,
    GroupPlan,
    GroupRequest,
    Member,
    NewShard,
    SavedPart,
    bound_key,
    spare_of,
    whole_key,
)
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import AwaitingRow, NewWait
from flowguard.protocol.run_orders import order_attributes
from flowguard.stage import AnyStage
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import Message
from flowguard.wire.send_ids import IdKind, id_of
from flowguard.wire.signing import Signer
from flowguard.wire.tenant import of_tenant
from flowguard.worker.group_parts import SavedGroup
from flowguard.worker.resumed_payload import OF_GROUPS
from flowguard.worker.wait_planner import WaitPlanner, ask_attributes, ask_of_flow, deadline_message


class GroupPlanner(NamedTuple):
    """Plans the wait of one hop for a group. ``key`` is of this attempt alone: another one's rows are others."""

    planner: WaitPlanner
    key: str

    # -- before the commit

    def saved(
        self,
        outcome: WaitForGroup,
        save: Callable[[NewShard], None],
        in_time: Callable[[], bool],
        parts: Sequence[SavedPart] = (),
    ) -> SavedGroup | SavedPart:
        """Save the requests that come after the ``parts``, a shard at a time. No more of them are held at once.

        ``in_time`` says whether there is time for more. Where there is not, the part that was saved is returned. Raises
        :class:`RunFailed`, naming what is wrong, and :class:`GroupUnsaved` where no part was saved. Nothing was sent
        then.
        """
        self.planner.check_signs()
        if problems := list(self._problems(outcome)):
            raise self._refused("; ".join(problems))
        if parts and self.planner.moment - parts[0].begun_at > self.planner.keep_for // 2:
            raise self._refused("its first requests were saved so long ago that they expire before its end")
        plan = self._plan(outcome.group)
        plan = plan._replace(key=whole_key(parts, plan.key))
        if outcome.group.cancel_too and not plan.is_bound:
            raise self._changed(parts[-1].end)
        first, size, digest = parts[-1].end if parts else 0, 0, hashlib.sha256()
        for shard, plain in self._shards(outcome, plan):
            if not in_time():
                return self._part(parts, shard, digest.hexdigest())
            size += len(shard.requests)
            digest.update(json.dumps([shard.spare, plain]).encode())
            if shard.number >= first:
                self._check_sends(plan, shard)
                save(shard)
            elif shard.number == first - 1 and digest.hexdigest() != parts[-1].digest:
                raise self._changed(first)
        if size < first * MOST_IN_SHARD:
            raise self._changed(first)
        if not size:
            raise self._refused("its group has no requests; go on without it where there are none")
        return SavedGroup(outcome, plan._replace(size=size))

    def _shards(self, outcome: WaitForGroup, plan: GroupPlan) -> Iterator[tuple[NewShard, Sequence[GroupRequest]]]:
        """Yield the shards of all requests, checked, while these are made, and beside each its requests unsealed.

        A codec seals one text into another each time: only what is not sealed tells whether the requests are the same.
        """
        ask, expires_at = outcome.group, self.planner.deadline(outcome) + self.planner.keep_for
        pairs, names = iter(ask.requests), set[int]()
        for shard in itertools.count():
            if not (page := tuple(itertools.islice(pairs, MOST_IN_SHARD))):
                return
            if shard * MOST_IN_SHARD + len(page) > MOST_IN_GROUP:
                raise self._refused(f"it asks more than {MOST_IN_GROUP:,} requests, the most of a group")
            made = (self._request(ask, plan, Member(shard, n), pair) for n, pair in enumerate(page))
            requests, plain = map(list, zip(*made, strict=True))
            self._check_names(plan, requests, names)
            spare = 0 if outcome.quorum is None else spare_of(len(requests), outcome.quorum)
            key, asker = plan.key.rpartition(" ")[2], self.planner.message.object_id
            yield NewShard(self.planner.flow.name, key, shard, spare, requests, expires_at, asker), plain

    def _changed(self, shards: int) -> GroupChanged:
        return GroupChanged(self.planner.message.stage, shards * MOST_IN_SHARD)

    def _part(self, parts: Sequence[SavedPart], to_come: NewShard, digest: str) -> SavedPart:
        """Return what this invocation has saved after the ``parts``, for the next one to go on from."""
        end, before = to_come.number, parts[-1] if parts else SavedPart("", 0, "", self.planner.moment)
        if end <= before.end:
            raise GroupUnsaved(self.planner.message.stage, before.requests)
        if len(parts) + 1 >= MOST_PARTS:
            raise self._refused(f"its group was not saved in {MOST_PARTS} invocations; give its function more time")
        return SavedPart(to_come.key, end, digest, before.begun_at)

    def _plan(self, ask: AskGroup) -> GroupPlan:
        plan = GroupPlan(self.key, 0, "", self.planner.moment, attributes=ask.attributes)
        if isinstance(ask.to, Destination):
            return plan._replace(to=str(ask.to))
        stage, inbox = ask.to.entrance(self.planner.message.carried)
        plan = plan._replace(to=str(inbox), flow=ask.to.name, stage=stage, version=ask.to.version)
        key = bound_key(self.key, plan.to, plan.flow, plan.stage) if ask.cancel_too else self.key
        return plan._replace(is_sealed=ask.to.codec is not None, key=key)

    def _request(self, ask: AskGroup, plan: GroupPlan, member: Member, pair: Any) -> tuple[GroupRequest, GroupRequest]:
        """Return a request as its row holds it, and the same unsealed, as it is compared."""
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise self._refused(f"its requests are pairs of a name and a payload, and one is {type(pair).__name__}")
        name, payload = pair
        if problem := _name_problem(name):
            raise self._refused(f"the name {shown(name)} {problem}")
        if not plan.flow:
            plain = GroupRequest(name, encode(payload))
            return plain, plain._replace(body=comparable(payload, plain.body))
        own_id = request_id(self.planner.message, member)
        message, _ = ask.to.request(
            payload,
            request_id=lambda: RequestId(own_id),
            requested_at=plan.moment,
            reply_to=self.planner.flow.answers,
            signed=self.planner.signer.is_on,
        )
        given_id = "" if message.request_id == own_id else message.request_id
        plain = GroupRequest(name, message.body, message.object_id, given_id)
        return plain._replace(body=message.text), plain._replace(body=comparable(payload, message.body))

    def _check_sends(self, plan: GroupPlan, shard: NewShard) -> None:
        """Build the message of each request once, so that one that cannot go is refused before it is saved."""
        asker, signer = self.planner.message, self.planner.signer
        for number, request in enumerate(shard.requests):
            member = Member(shard.number, number)
            own_id, address = request_id(asker, member), self.planner.address(member.text, admits=True)
            group_ask(plan, request, own_id, address, self.planner.flow, asker.carried, signer, asker)

    def _check_names(self, plan: GroupPlan, requests: Sequence[GroupRequest], names: set[int]) -> None:
        """Check that no two requests have one name, or take each other's object. ``names`` are those before them."""
        this = self.planner.message
        for request in requests:
            texts = [("name", request.name), *([("object", request.object_id)] if plan.flow else [])]
            for kind, text in texts:
                if hash((kind, text)) in names:
                    raise self._refused(f"two requests of its group have the {kind} {shown(text)}")
                names.add(hash((kind, text)))
            if (plan.flow, request.object_id) == (this.flow, this.object_id):
                raise self._refused(f"the request {shown(request.name)} would take the object from this very run")

    # -- the commit

    def planned(self, saved: SavedGroup) -> tuple[list[Send], NewWait]:
        """Plan the wait for a group that is saved. The deadline comes before the message that asks."""
        outcome, plan = saved
        planner, m, deadline = self.planner, self.planner.message, self.planner.deadline(outcome)
        first = planner.address(Member(0, 0).text, admits=True)
        sends = [
            deadline_message(planner.flow, planner.of_deadline(), deadline, planner.moment, m),
            group_message(planner.flow, first, m, planner.moment),
        ]
        rows: tuple[AwaitingRow, ...] = ()
        if not plan.flow:
            address = planner.address(GROUP, admits=True)._replace(signature=None)
            rows = (AwaitingRow(id_of(IdKind.GROUP, m), address, outcome.stage, deadline + planner.keep_for),)
        whole = planner.wait_plan(outcome, {})._replace(group=plan, cancels_group=outcome.group.cancel_too)
        return sends, NewWait(whole, 0, deadline, rows)

    # -- what may be wrong

    def _refused(self, why: str) -> RunFailed:
        return RunFailed(f"{self.planner.message.stage!r} cannot wait: {why}. Nothing was sent")

    def _problems(self, outcome: WaitForGroup) -> Iterator[str]:
        quorum, group = outcome.quorum, outcome.group
        if type(group) is not AskGroup:
            yield f"its group is {type(group).__name__}; write step.group(…)"
        elif not isinstance(group.to, Destination):
            yield from codec_problems(self.planner.flow, group.to)
        if quorum is not None and not (type(quorum) in (int, float) and 0 < quorum <= 1):
            yield f"quorum is {shown(quorum)}; it is the share of the requests that is enough, such as 0.95"
        targets = {outcome.stage: "", outcome.on_timeout: "on_timeout="}
        yield from self.planner.problems(outcome, targets, _payload_problems)


def _payload_problems(stage: AnyStage) -> Iterator[str]:
    if stage.payload not in OF_GROUPS:
        yield f"{stage.name!r} takes {stage.payload.__name__}; after a group a stage takes GroupEnd"


def signed_address(address: AnswerAddress, by: Any) -> AnswerAddress:
    """Return the address with its signature, where messages are signed."""
    return address._replace(signature=by.signer.sign(address.statement))


def group_message(flow: AnyFlow, address: AnswerAddress, message: Message, moment: int) -> Send:
    """Build the message that comes back to the flow and asks the group's requests from the address's shard on."""
    message_id = id_of(IdKind.GROUP_ON, message, address.name)
    attributes = order_attributes(message_id, moment, {GROUP: address.as_json(), **of_tenant(message.tenant)})
    return Send(Kind.ASK, flow.answers, json.dumps({GROUP: address.name}), message_id, attributes).checked()


def request_id(message: Message, member: Member) -> str:
    """Return the id of a group's request, the same in each attempt. A party outside answers under it."""
    return id_of(IdKind.MEMBER, message, member.text)


def group_ask(
    plan: GroupPlan,
    request: GroupRequest,
    message_id: str,
    address: AnswerAddress,
    flow: AnyFlow,
    carried: Mapping[str, Attribute],
    signer: Signer,
    asker: Message,
) -> Send:
    """Build the message of one request. Raises :class:`flowguard.errors.Reject` for one that no service takes.

    ``flow`` is the one that asks, and ``asker`` the message of its run.
    """
    to = parse_destination(plan.to)
    if not plan.flow:
        attributes = ask_attributes(message_id, plan.moment, {**carried, **plan.attributes}, asker)
        return Send(Kind.ASK, to, request.body, message_id, attributes).checked()
    asked = Message(
        flow=plan.flow,
        stage=plan.stage,
        version=plan.version,
        object_id=ObjectId(request.object_id),
        request_id=RequestId(request.request_id or message_id),
        requested_at=plan.moment,
        body=request.body,
        sealed=request.body if plan.is_sealed else None,
        reply_to=str(flow.answers),
    )
    return ask_of_flow(asked, to, message_id, address, carried, signer, asker)


def _name_problem(name: object) -> str | None:
    if not isinstance(name, str):
        return f"is {type(name).__name__}, and no text"
    if len(name) > LONGEST_GROUP_NAME:
        return f"has {len(name):,} characters of at most {LONGEST_GROUP_NAME}"
    return name_problem(name)
