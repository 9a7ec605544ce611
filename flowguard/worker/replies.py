"""The Complete messages that answer requests. They are made of the request and the end alone, the same at each try."""

from __future__ import annotations

from flowguard.destinations import parse_destination
from flowguard.errors import Reject
from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.payload.encoding import encode, encode_json
from flowguard.protocol.callers import Caller, StoredEnd
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run_orders import ANSWER
from flowguard.text.printable import bounded
from flowguard.verdicts import Verdict
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import PLACE, REQUEST_ID, REQUESTED_AT, SEALED, Message, place_at_depth
from flowguard.wire.sealed_end import sealed_end
from flowguard.wire.tenant import TENANT

FAILED = "FAILED"
SUPERSEDED = "SUPERSEDED"
IGNORED = "IGNORED"

_LONGEST_WHY = 200


def takes_callers(flow: AnyFlow) -> bool:
    """Answer whether requests that meet a run of the flow are answered with its end."""
    return flow.on_conflict is OnConflict.ATTACH


def end_body(
    flow: AnyFlow, object_id: ObjectId, request_id: RequestId, end: StoredEnd, *, is_answer: bool = False
) -> str:
    """Return the text of a Complete message to ``request_id``. ``run`` says which request was carried out for it.

    Of a flow with a codec the result and the error are sealed; of an ``is_answer``, which a run waits for, the status
    is too.
    """
    about = {
        "flow": flow.name,
        "object_id": object_id,
        "request_id": request_id,
        "status": end.status,
        **({"run": end.request_id} if takes_callers(flow) else {}),
    }
    failed = "" if end.error is None else f',"error":{encode_json(end.error)}'
    done = "" if end.error is not None and end.result is None else f',"result":{end.result or "null"}'
    if flow.codec is None:
        return f"{encode(about)[:-1]}{failed}{done}}}"
    text = f'{{"status":{encode_json(end.status)}{failed}{done}}}'
    clear = {name: value for name, value in about.items() if not (is_answer and name == "status")}
    return sealed_end(flow.codec, flow.name, object_id, clear, text)


def not_carried_out(caller: Caller, verdict: Verdict) -> StoredEnd:
    """Return the end of a request whose object another request has: a newer one, or one that is not to be disturbed."""
    if verdict is Verdict.IGNORED:
        status, error = IGNORED, "Ignored: another request has the object, and its run has not ended"
    else:
        status, error = SUPERSEDED, "Superseded: a newer request has the object"
    return StoredEnd(caller.request_id, caller.requested_at, status, error=error)


def at_work(caller: Caller) -> StoredEnd:
    """Return the end for an asker whose request is at work already, for another one."""
    error = "Ignored: the request is at work already, for another asker; ask again after its end"
    return StoredEnd(caller.request_id, caller.requested_at, IGNORED, error=error)


def was_reset(caller: Caller) -> StoredEnd:
    """Return the end for an asker of a request whose result was reset before it asked."""
    error = "Ignored: the result of this request id was reset; only a request with another id is carried out"
    return StoredEnd(caller.request_id, caller.requested_at, IGNORED, error=error)


def answer_place(flow: AnyFlow, answer_to: str | None, request: Caller | Message) -> dict[str, Attribute]:
    """Return the attribute that says what an answer of the flow is for, and whose work it was.

    What goes to no run that waits may become a request: one deeper than the run of the ``request``, which has ended.
    """
    if answer_to is None:
        return place_at_depth(request.depth + 1, request.tenant)
    sealed = "" if flow.codec is None else f',"{SEALED}":true'
    of = "" if request.tenant is None else f',"{TENANT}":{encode_json(request.tenant)}'
    return {PLACE: Attribute.string(f'{{"{ANSWER}":{answer_to}{sealed}{of}}}')}


def reply(flow: AnyFlow, object_id: ObjectId, caller: Caller, end: StoredEnd) -> Send:
    """Build the answer to a caller. A result that is too large for its way is a failure that says so.

    Raises :class:`Reject` where no answer at all can go there.
    """
    try:
        return _reply(flow, object_id, caller, end)
    except Reject as refusal:
        why = f"the result cannot be sent: {bounded(ascii(str(refusal))[1:-1], _LONGEST_WHY)}"
        return _reply(flow, object_id, caller, end._replace(status=FAILED, result=None, error=f"TooLarge: {why}"))


def _reply(flow: AnyFlow, object_id: ObjectId, caller: Caller, end: StoredEnd) -> Send:
    message_id = caller.reply_id(flow.name, object_id)
    attributes = {
        REQUEST_ID: Attribute.string(message_id),
        REQUESTED_AT: Attribute.number(end.committed_at),
        **answer_place(flow, caller.answer_to, caller),
        **caller.carried,
    }
    body = end_body(flow, object_id, caller.request_id, end, is_answer=caller.answer_to is not None)
    return Send(
        Kind.COMPLETE, parse_destination(caller.reply_to), body, message_id, attributes, group=object_id
    ).checked()
