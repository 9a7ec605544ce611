"""Runs that are started over HTTP: once for each key, whatever dies and however often the request comes."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from flowguard import PER_REQUEST, Reject, Settings, StartRequest
from flowguard.aws.services import aws_services
from flowguard.codecs import Encrypted
from flowguard.codecs.kept_keys import standing_in
from flowguard.errors import DefinitionError, EnvelopeError
from flowguard.flow import IGNORE, Flow
from flowguard.protocol.entry import Completion, Entry, EntryStatus, KeyAsk, KeyClaim, KeyVerdict, Met
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.start_function import StartHandler, start_handler
from flowguard.worker.start_rule import LONGEST_BODY, header_key
from tests.codecs.fakes import Vault
from tests.codecs.test_outage import sealing
from tests.scene import START, Order, Orders, Scene, Script, scene, two_stages
from tests.start_door import FORMATS, SIGNED, At, Died, Door, Reply, ask_with_secrets, event_of, record_of, throttled

A_YEAR = timedelta(days=365)


@pytest.fixture
def shop() -> Iterator[Scene]:
    with scene() as made:
        yield made


# -- once for each key ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_a_repeat_starts_nothing_and_gets_the_same_answer(shop: Scene, form: str) -> None:
    door = Door(shop)
    first = door.post(form=form)
    shop.clock.advance(seconds=60)
    again = door.post(form=form)
    assert first.status == 202
    assert first == again
    assert first.headers["Location"] == first.watch
    assert len(door.started()) == 1


def test_a_start_costs_two_writes_and_a_message_and_a_repeat_one_write(shop: Scene) -> None:
    door = Door(shop)
    door.post()
    assert [call.operation for call in door.calls.calls if call.service == "dynamodb"] == ["UpdateItem"] * 2
    assert door.calls.count("sqs", "SendMessage") + door.calls.count("sqs", "SendMessageBatch") == 1
    door.post()
    assert [call.operation for call in door.calls.calls] == ["UpdateItem"]


@pytest.mark.parametrize("name", ["Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY"])
def test_the_header_is_known_in_any_case_and_as_a_structured_string(shop: Scene, name: str) -> None:
    door = Door(shop)
    first = door.post("a b\\")
    headers = {"Content-Type": "application/json", name: '"a b\\\\"'}
    assert door.ask(event_of("url", "POST", '{"order_id":"o1"}', headers)) == first
    assert len(door.started()) == 1


@pytest.mark.parametrize("key", ["k, k", "k,k", "k," * 1_020, '"k","k"', '"k", k', '"k","k","k"', "k,"])
def test_a_header_that_was_sent_twice_is_one_key(shop: Scene, key: str) -> None:
    """A function URL and an HTTP API join what has one name, REST APIs list it."""
    door = Door(shop)
    first = door.post("k")
    headers = {"Content-Type": "application/json", "idempotency-key": "k"}
    listed = {**event_of("rest", "POST", '{"order_id":"o1"}', headers), "headers": None}
    listed["multiValueHeaders"] = {name: [value] for name, value in headers.items()} | {"IDEMPOTENCY-KEY": ['"k"']}
    assert door.post(key) == door.ask(listed) == first
    assert len(door.started()) == 1


@pytest.mark.parametrize("several", [False, True], ids=["single", "multi-value"])
@pytest.mark.parametrize("form", ["rest", "load balancer", "http", "url"])
def test_each_gateway_may_write_the_header_in_its_case(shop: Scene, form: str, several: bool) -> None:
    """REST APIs keep the client's case, the others do not. A load balancer may write lists alone, REST APIs both."""
    door, first = Door(shop), None
    for name in ("idempotency-key", "Idempotency-Key", "IDEMPOTENCY-KEY", "iDEMPOTENCY-kEY"):
        headers = {"CONTENT-type": "application/json", name: "k-1"}
        event = event_of(form, "POST", '{"order_id":"o1"}', headers)
        if several and form in ("rest", "load balancer"):
            event["multiValueHeaders"] = {each: [value] for each, value in headers.items()}
            event["headers"] = None if form == "load balancer" else headers
        reply = door.ask(event)
        first = first or reply
        assert reply == first
        assert reply.status == 202
    assert len(door.started()) == 1


def test_two_headers_of_a_name_in_two_cases_are_one_key(shop: Scene) -> None:
    """Neither is dropped: who names a caller by a header sees both values."""
    door = Door(shop, caller=lambda request: request.headers["x-tenant"])
    headers = {"Content-Type": "application/json", "idempotency-key": "k", "x-tenant": "a", "X-Tenant": "b"}
    both = door.ask(event_of("rest", "POST", '{"order_id":"o1"}', headers))
    assert both.watch not in (door.post("k", x_tenant="a").watch, door.post("k", x_tenant="b").watch)


@pytest.mark.parametrize(
    ("operation", "number", "after"),
    [
        ("UpdateItem", 1, True),
        ("SendMessageBatch", 1, False),
        ("SendMessageBatch", 1, True),
        ("UpdateItem", 2, False),
        ("UpdateItem", 2, True),
    ],
)
def test_whenever_the_function_dies_a_repeat_is_the_same_request(
    shop: Scene, operation: str, number: int, after: bool
) -> None:
    door = Door(shop)
    door.fault = At(operation, number, after=after)
    with pytest.raises(Died):
        door.post()
    door.fault = None
    shop.clock.advance(seconds=600)
    reply = door.post()
    assert reply.status == 202
    messages = door.started()
    assert {(message["id"], message["at"]) for message in messages} == {(messages[0]["id"], str(START))}
    assert door.post() == reply
    assert door.started() == []


def test_as_long_as_a_key_is_known_so_is_the_run_that_a_dead_function_has_started() -> None:
    """The repeat sends the request again, and the run item says that it was carried out."""

    def remembering(script: Script) -> Any:
        class Remembering(Flow, name="orders", object_id="order_id", dead_letters="dead", remember=A_YEAR):
            stages = two_stages(script)

        return Remembering

    with scene(remembering) as shop:
        door = Door(shop, keep=A_YEAR)
        door.fault = At("UpdateItem", 2)
        with pytest.raises(Died):
            door.post()
        door.fault = None
        door.work()
        handled, item = list(shop.script.handled), shop.item()
        shop.clock.advance(seconds=int(A_YEAR.total_seconds()) - 1)
        assert item is not None
        assert item.ttl * 1000 >= shop.clock.now()
        door.post()
        assert door.calls.count("sqs", "SendMessageBatch") == 1
        door.work()
        assert shop.script.handled == handled


@pytest.mark.parametrize("number", [1, 2, 3, 4], ids=["claim", "queue", "send", "completion"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_two_at_once_are_one_request_with_one_answer(shop: Scene, number: int, after: bool) -> None:
    """The other request comes and is answered before or after any call of the first."""
    door, other = Door(shop), Door(shop)
    replies: list[Reply] = []
    made: list[str] = []

    def come() -> None:
        shop.clock.advance(seconds=1)
        replies.append(other.post())

    class Beside:
        def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
            made.append(call.operation)
            comes = len(made) == number
            if comes and not after:
                come()
            answer = proceed()
            if comes and after:
                come()
            return answer

    door.fault = Beside()
    first = door.post()
    assert [first] == replies
    assert first.status == 202
    assert len(made) >= 4
    assert len({(message["id"], message["at"]) for message in door.started()}) == 1


def test_after_the_end_of_its_run_a_repeat_gets_the_same_link_as_long_as_the_key_is_known(shop: Scene) -> None:
    door = Door(shop)
    first = door.post()
    door.work()
    shop.clock.advance(seconds=28 * 86_400 - 1)
    assert door.post() == first
    assert door.started() == []
    shop.clock.advance(seconds=1)
    late = door.post()
    assert (late.status, late.watch == first.watch) == (202, False)
    assert len(door.started()) == 1


def test_a_repeat_never_becomes_a_newer_request_than_one_that_came_between(shop: Scene) -> None:
    door = Door(shop)
    door.fault = At("SendMessageBatch", 1)
    with pytest.raises(Died):
        door.post("a")
    door.fault = None
    shop.clock.advance(seconds=5)
    door.post("b")
    shop.clock.advance(seconds=5)
    door.post("a")
    assert sorted(message["at"] for message in door.started()) == [str(START), str(START + 5_000)]


def test_the_same_key_with_another_body_is_refused(shop: Scene) -> None:
    door = Door(shop)
    door.post()
    for body in ({"order_id": "o2"}, {"order_id": "o1", "note": "x"}):
        reply = door.post(body=body)
        assert (reply.status, reply.content["error"]) == (422, "KEY_REUSED")
    assert door.post(body='{ "order_id" : "o1" }').status == 202
    assert len(door.started()) == 1


def test_another_body_is_refused_also_while_nobody_knows_what_became_of_the_first(shop: Scene) -> None:
    door = Door(shop)
    door.fault = At("SendMessageBatch", 1, after=True)
    with pytest.raises(Died):
        door.post()
    door.fault = None
    shop.clock.advance(seconds=13 * 3_600)
    assert door.post(body={"order_id": "o2"}).content["error"] == "KEY_REUSED"
    assert door.post().status == 202


def test_a_request_whose_message_no_queue_takes_has_not_used_its_key(shop: Scene) -> None:
    """Its function has made more of it."""

    def read(request: StartRequest) -> tuple[str, dict[str, Any]]:
        assert isinstance(request.body, dict)
        return "o1", {**request.body, "note": request.body["note"] * 6}

    door = Door(shop, object_field=None, read=read)
    long = random.Random(1).randbytes(LONGEST_BODY * 2 // 5).hex()
    assert door.post(body={"order_id": "o1", "note": long}).content["error"] == "TOO_LARGE"
    assert door.started() == []
    assert door.post(body={"order_id": "o1", "note": "x"}).status == 202
    assert len(door.started()) == 1


def test_a_mistake_in_what_shows_results_is_no_reason_to_deny_that_a_run_was_started(shop: Scene) -> None:
    door = Door(shop, shows_result=lambda request, object_id: bool(1 / 0), wait=timedelta(seconds=5))
    door.on_pause = [door.work, door.work]
    reply = door.post()
    assert (reply.status, reply.content["state"]) == (200, "done")
    assert "result" not in reply.content
    [(kind, facts)] = door.events
    assert kind == "broken"
    assert facts["why"].startswith(
        "a run is started, and its result is not shown: shows_result= raised ZeroDivisionError"
    )


@pytest.mark.parametrize(("waits", "status"), [("5", 410), ("0", 202)])
def test_a_repeat_that_looks_for_a_run_of_which_nothing_is_known_is_told_so(
    shop: Scene, waits: str, status: int
) -> None:
    door = Door(shop, wait=timedelta(seconds=5))
    door.post(prefer="wait=0")
    shop.clock.advance(seconds=20 * 86_400)
    assert door.post(prefer=f"wait={waits}").status == status


def test_keys_of_two_callers_are_two_keys(shop: Scene) -> None:
    door = Door(shop)

    def reply_to(claims: dict[str, str]) -> Reply:
        event = event_of(
            "http", "POST", '{"order_id":"o1"}', {"content-type": "application/json", "idempotency-key": "k"}
        )
        event["requestContext"]["authorizer"] = {"jwt": {"claims": claims}}
        return door.ask(event)

    ann, bob = {"iss": "i", "sub": "ann"}, {"iss": "i", "sub": "bob"}
    first = reply_to(ann)
    assert first.watch == reply_to({**ann, "iat": "later"}).watch
    assert first.watch != reply_to(bob).watch
    assert len(door.started()) == 2


def by_certificate(form: str, **names: str) -> dict[str, Any]:
    """Return the event of a gateway that asks its clients for a certificate."""
    headers = {"content-type": "application/json", "idempotency-key": "k"}
    event = event_of(form, "POST", '{"order_id":"o1"}', headers)
    certificate = {"subjectDN": "CN=a", "issuerDN": "CN=ca", "serialNumber": "1", **names}
    event["requestContext"]["authentication" if form == "http" else "identity"] = {"clientCert": certificate}
    return event


@pytest.mark.parametrize("form", ["http", "rest"])
def test_clients_with_two_certificates_share_no_key(shop: Scene, form: str) -> None:
    door = Door(shop)
    first = door.ask(by_certificate(form))
    assert door.ask(by_certificate(form, serialNumber="2")) == first
    others = [by_certificate(form, subjectDN="CN=b"), by_certificate(form, issuerDN="CN=another")]
    assert len({first.watch, *(door.ask(other).watch for other in others)}) == 3
    assert len(door.started()) == 3


def test_a_certificate_without_a_subject_names_nobody_but_by_a_function(shop: Scene) -> None:
    event = by_certificate("http", subjectDN="")
    door = Door(shop)
    assert (door.ask(event).status, door.started()) == (500, [])
    assert "a certificate without a subject" in door.events[-1][1]["why"]
    by_number = Door(shop, caller=lambda request: request.claims["serialNumber"])
    assert by_number.ask(event).watch != by_number.ask(by_certificate("http", subjectDN="", serialNumber="2")).watch


def test_a_function_may_name_the_caller(shop: Scene) -> None:
    door = Door(shop, caller=lambda request: request.headers["x-tenant"])
    first = door.post(x_tenant="a")
    assert door.post(x_tenant="b").watch != first.watch
    assert door.post(x_tenant="a") == first


def by_lambda(context: dict[str, str] | None, key: str | None) -> dict[str, Any]:
    """Return the event of an HTTP API whose authorizer is a function that returned this context."""
    headers = {"content-type": "application/json", **({} if key is None else {"idempotency-key": key})}
    event = event_of("http", "POST", '{"order_id":"o1"}', headers)
    event["requestContext"]["authorizer"] = {"lambda": context}
    return event


@pytest.mark.parametrize("context", [None, {"tenant": "a"}, {"sub": ""}])
def test_no_key_is_taken_of_a_caller_whom_the_authorizer_does_not_name(
    shop: Scene, context: dict[str, str] | None
) -> None:
    door = Door(shop, key_required=False)
    refused = door.ask(by_lambda(context, "k"))
    assert (refused.status, refused.content["error"], door.started()) == (500, "BROKEN", [])
    why = (
        "the gateway names no sender: what its authorizer says has no principalId and no sub, or it is a certificate "
        "without a subject; name it by caller="
    )
    assert door.events == [("broken", {"record": "HTTP", "flow": "orders", "why": f"500: ReaderBroken: {why}"})]
    assert door.ask(by_lambda(context, None)).status == 202  # without a key nobody meets another's run


def test_a_function_may_name_whom_the_authorizer_does_not(shop: Scene) -> None:
    door = Door(shop, caller=lambda request: request.claims["tenant"])
    first = door.ask(by_lambda({"tenant": "a"}, "k"))
    assert door.ask(by_lambda({"tenant": "b"}, "k")).watch != first.watch
    nobody = door.ask(by_lambda({"tenant": ""}, "k"))
    assert (nobody.status, len(door.started())) == (500, 2)
    assert door.events[-1][1]["why"] == "500: ReaderBroken: caller= returned an empty text, which names nobody"


# -- which key --------------------------------------------------------------------------------------------------------

OUT_OF_PLACE = (
    "has a quote out of place: one in quotes has no comma, and a backslash before each quote or backslash within"
)


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ("k", "k"),
        ("\t k  ", "k"),
        ('"k"', "k"),
        ('" k "', " k "),
        ("a b", "a b"),
        ("a\\b", "a\\b"),
        ('"a\\\\b"', "a\\b"),
        ('"\\"a\\" b\\\\"', '"a" b\\'),
        ("k;v=1", "k;v=1"),
        ("k, k", "k"),
        ('k ,\t"k",, k', "k"),
        ("k,", "k"),
        ('"' + '\\"' * 255 + '", "' + '\\"' * 255 + '"', '"' * 255),
        ("k," * 1_020, "k"),
    ],
)
def test_each_form_of_a_header_is_one_key(header: str, key: str) -> None:
    assert header_key(header) == ("header", key)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (None, "is missing; send a new one with each new request"),
        ("", "is empty"),
        ('""', "is empty"),
        ("  ", "is empty"),
        ('"', OUT_OF_PLACE),
        ('"open', OUT_OF_PLACE),
        ('open"', OUT_OF_PLACE),
        ('a"b', OUT_OF_PLACE),
        ('a"b, c"d', OUT_OF_PLACE),  # two keys whose comma is between quotes
        ('"a, b"', OUT_OF_PLACE),  # the same, or one key
        ('"a"b"', OUT_OF_PLACE),
        ('"a""b"', OUT_OF_PLACE),
        ('"k";v=1', OUT_OF_PLACE),
        ('"a\\"', OUT_OF_PLACE),
        ('"a\\b"', OUT_OF_PLACE),
        ("k" * 256, "is longer than 255 characters"),
        ("k\x07", "has a character that is not printable ASCII"),
        ("schlüssel", "has a character that is not printable ASCII"),
        ("k\xa0", "has a character that is not printable ASCII"),
        ("k\x85", "has a character that is not printable ASCII"),
        ("k, k-2", "has several values that differ; send one key"),
        ('"k", "k-2"', "has several values that differ; send one key"),
        ('k, "k\\\\"', "has several values that differ; send one key"),
        (" , ", "is empty"),
        ('"' + "k" * 256 + '"', "is longer than 255 characters"),
        ("k," * 1_021, "is longer than 255 characters"),
    ],
)
def test_a_key_that_is_none_is_a_400(shop: Scene, key: str | None, problem: str) -> None:
    door = Door(shop)
    reply = door.post(key)
    detail = f"Idempotency-Key {problem}. Nothing was started."
    assert (reply.status, reply.content) == (400, {"error": "MALFORMED", "detail": detail})
    assert door.started() == []
    assert door.post("k" * 255).status == 202


def test_a_field_of_the_body_may_name_the_request(shop: Scene) -> None:
    door = Door(shop, key_field="order_id")
    first = door.post(None)
    assert door.post(None) == first
    assert door.post("o1").watch != first.watch  # the header's key is another one
    assert len(door.started()) == 2
    assert Door(shop, key_field="order.id").post(None).status == 400
    assert door.post("", {"order_id": "o1"}).status == 400


def test_where_no_key_is_required_each_request_without_one_is_new(shop: Scene) -> None:
    door = Door(shop, key_required=False)
    with intercept(calls := Recorder()):
        assert door.post(None).watch != door.post(None).watch
    assert len(door.started()) == 2
    assert [call for call in calls.calls if call.service == "dynamodb"] == [], "no key is claimed"


def test_a_flow_that_names_its_requests_names_these_too() -> None:
    def by_order(script: Script) -> Any:
        class ByOrder(Flow, name="orders", object_id="order_id", request_id="order_id", dead_letters="dead"):
            stages = two_stages(script)

        return ByOrder

    with scene(by_order) as shop:
        door = Door(shop)
        first = door.post()
        assert door.post() == first
        assert [message["id"] for message in door.started()] == ["o1"]


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_payload_that_the_model_refuses_is_a_422_that_names_fields_and_quotes_nothing(shop: Scene) -> None:
    door = Door(shop)
    reply = door.post(body={"order_id": 7, "note": ["s3cret"]})
    assert (reply.status, reply.content["error"]) == (422, "NOT_TAKEN")
    assert "order_id" in reply.content["detail"]
    assert "s3cret" not in json.dumps(reply)
    assert door.post().status == 202  # the key is still free


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("{", "Expecting property name enclosed in double quotes"),
        ('{"order_id": NaN}', "nested too deeply, or a number that is none"),
        ("[" * 100_000, "nested too deeply, or a number that is none"),
    ],
)
def test_a_body_that_is_no_json_is_said_to_be_none(shop: Scene, body: str, why: str) -> None:
    assert Door(shop).post(body=body).content["detail"] == f"body is not JSON: {why}. Nothing was started."


def test_what_the_flow_refuses_has_not_used_its_key(shop: Scene) -> None:
    door = Door(shop)
    assert door.post(body={"order_id": ""}).status == 422
    assert door.post().status == 202


@pytest.mark.parametrize("changes", [{"rawPath": "/other"}, {"rawQueryString": "dry=1"}])
def test_another_path_or_query_is_another_request(shop: Scene, changes: dict[str, str]) -> None:
    door = Door(shop)
    door.post()
    headers = {"content-type": "application/json", "idempotency-key": "k"}
    reply = door.ask({**event_of("url", "POST", '{"order_id":"o1"}', headers), **changes})
    assert reply.content["error"] == "KEY_REUSED"


def test_a_key_whose_entry_changes_all_the_time_is_tried_again_later(shop: Scene) -> None:
    class Changing:
        def claim(self, ask: KeyAsk) -> Met:
            return Met(KeyVerdict.BUSY, Entry(EntryStatus.RUNNING, None, 0, 0, 0, 0))

        def finish(self, claim: KeyClaim, end: Completion) -> None:
            raise AssertionError

    door = Door(shop)
    headers = {"content-type": "application/json", "idempotency-key": "k"}
    services = aws_services(SIGNED, clock=shop.clock, observer=door.tally)
    answer = door.handler.using(services, Changing(), door.pause)(event_of("url", "POST", '{"order_id":"o1"}', headers))
    assert answer["statusCode"] == 503
    assert answer["headers"]["Content-Type"] == "application/json"
    assert door.events[-1][1]["why"].startswith("503: KeyBusy: ")


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ("{", 400, "MALFORMED"),
        ("", 400, "MALFORMED"),
        ('{"order_id": NaN}', 400, "MALFORMED"),
        ("[" * 100_000, 400, "MALFORMED"),
        ("[]", 422, "NOT_TAKEN"),
        ('{"order_id":""}', 422, "NOT_TAKEN"),
        (json.dumps({"order_id": "o1", "note": "x" * LONGEST_BODY}), 413, "TOO_LARGE"),
    ],
)
def test_a_body_that_cannot_be_taken_starts_nothing(shop: Scene, body: str, status: int, error: str) -> None:
    door = Door(shop)
    reply = door.post(body=body)
    assert (reply.status, reply.content["error"]) == (status, error)
    assert door.started() == []


def test_a_body_may_come_in_base64(shop: Scene) -> None:
    door = Door(shop)
    headers = {"content-type": "application/json", "idempotency-key": "k"}
    event = event_of("url", "POST", base64.b64encode(b'{"order_id":"o1"}').decode(), headers)
    assert door.ask({**event, "isBase64Encoded": True}) == door.post()
    assert door.ask({**event, "isBase64Encoded": True, "body": "%"}).status == 400


def test_another_type_and_another_method_are_refused(shop: Scene) -> None:
    door = Door(shop)
    assert door.post(content_type="text/plain").status == 415
    for method in ("PUT", "DELETE", "HEAD"):
        reply = door.ask(event_of("url", method, None, {}))
        assert (reply.status, reply.headers["Allow"]) == (405, "GET, POST")
        detail = "POST starts a run, GET of its link watches it."
        assert reply.content == {"error": "METHOD", "detail": detail}
    broken = event_of("url", "POST", "{}", {})
    assert door.ask({**broken, "headers": {"content-type": 7}}).status == 400


def test_an_event_that_is_no_request_is_raised(shop: Scene) -> None:
    with pytest.raises(EnvelopeError):
        Door(shop).ask({"Records": []})


# -- our own trouble --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["UpdateItem", "SendMessageBatch"])
def test_an_outage_is_a_503_that_says_when_and_is_logged(shop: Scene, operation: str) -> None:
    door = Door(shop)
    door.fault = At(operation, 1, raises=throttled(operation))
    reply = door.post()
    assert (reply.status, reply.content["error"], reply.headers["Retry-After"]) == (503, "UNAVAILABLE", "2")
    assert door.events[-1][0] == "broken"
    assert "ThrottlingException" in door.events[-1][1]["why"] or "SendFailed" in door.events[-1][1]["why"]
    door.fault = None
    assert door.post().status == 202
    assert len(door.started()) == 1


def test_a_key_that_cannot_be_noted_as_done_is_still_a_202(shop: Scene) -> None:
    door = Door(shop)
    door.fault = At("UpdateItem", 2, raises=throttled())
    first = door.post()
    assert first.status == 202
    why = "ClientError: a run is started, and its key is not noted as done"
    assert door.events == [("broken", {"record": "HTTP", "flow": "orders", "why": why})]
    door.fault = None
    assert door.post() == first
    assert len({message["id"] for message in door.started()}) == 1


def test_where_no_keys_are_set_for_links_nothing_is_started(shop: Scene) -> None:
    door = Door(shop, settings=Settings())
    reply = door.post()
    assert reply.status == 503
    assert "FLOWGUARD_TOKEN_KEYS" in door.events[-1][1]["why"]
    assert "FLOWGUARD" not in json.dumps(reply)
    assert door.started() == []


def test_no_event_has_a_key_or_a_payload(shop: Scene) -> None:
    door = Door(shop)
    ask_with_secrets(door)
    assert [kind for kind, _ in door.events] == ["refused", "refused", "refused", "broken"]
    assert door.events[0] == ("refused", {"record": "HTTP", "flow": "orders", "why": "422: KeyTaken"})
    assert "s3cret" not in json.dumps(door.events)


# -- who chooses the object -------------------------------------------------------------------------------------------


def of_tenant(request: StartRequest) -> tuple[str, dict[str, str]] | None:
    """Let each tenant name its own orders alone."""
    tenant = request.claims.get("tenant")
    if tenant is None:
        return None
    if request.body.get("note") == "reject":
        raise Reject("s3cret")
    object_id = f"{tenant}/{request.body['order_id']}"
    return object_id, {"order_id": object_id, "note": request.body.get("note", "")}


def claimed(door: Door, body: Any, *, key: str = "k", **claims: str) -> Reply:
    """Post as somebody whom the authorizer of an HTTP API knows."""
    headers = {"content-type": "application/json", "idempotency-key": key, "tenant": "forged"}
    event = event_of("http", "POST", json.dumps(body), headers)
    event["requestContext"]["authorizer"] = {"jwt": {"claims": claims}}
    return door.ask(event)


def test_the_users_code_alone_chooses_the_object(shop: Scene) -> None:
    door = Door(shop, object_field=None, read=of_tenant)
    assert claimed(door, {"order_id": "o1"}, sub="ann", tenant="t1").status == 202
    [message] = door.started()
    assert json.loads(message["body"])["order_id"] == "t1/o1"


def test_who_may_not_start_a_run_gets_a_403(shop: Scene) -> None:
    door = Door(shop, object_field=None, read=of_tenant)
    for reply in (claimed(door, {"order_id": "o1", "tenant": "t1"}, sub="ann"), door.post(tenant="t1")):
        assert (reply.status, reply.content["error"]) == (403, "FORBIDDEN")
    assert door.started() == []


def test_a_payload_for_another_object_than_the_functions_is_refused(shop: Scene) -> None:
    door = Door(shop, object_field=None, read=lambda request: ("t1/o1", request.body))
    assert door.post(body={"order_id": "t2/o1"}).status == 422
    assert door.started() == []


def test_an_object_that_follows_from_other_claims_is_another_request(shop: Scene) -> None:
    door = Door(shop, object_field=None, read=of_tenant)
    assert claimed(door, {"order_id": "o1"}, sub="ann", tenant="t1").status == 202
    assert claimed(door, {"order_id": "o1"}, sub="ann", tenant="t2").content["error"] == "KEY_REUSED"


def test_a_model_that_refuses_in_the_users_function_is_a_422(shop: Scene) -> None:
    def read(request: StartRequest) -> tuple[str, Order]:
        order = Order.model_validate(request.body)
        return order.order_id, order

    reply = Door(shop, object_field=None, read=read).post(body={"note": "s3cret"})
    assert (reply.status, reply.content["error"]) == (422, "NOT_TAKEN")
    assert "order_id: Field required" in reply.content["detail"]


def test_what_the_users_function_raises_is_a_500_with_a_log_line_that_quotes_nothing(shop: Scene) -> None:
    door = Door(shop, object_field=None, read=of_tenant)
    reply = claimed(door, {"note": "s3cret"}, tenant="t1")
    assert (reply.status, reply.content["error"]) == (500, "BROKEN")
    [(kind, facts)] = door.events
    assert kind == "broken"
    assert "read= raised KeyError at " in facts["why"]
    assert "s3cret" not in json.dumps([reply, facts])
    reply = claimed(door, {"note": "reject"}, tenant="t1")
    assert (reply.status, "s3cret" in json.dumps(reply)) == (422, False)


@pytest.mark.parametrize("made", [("o1",), "o1", ("o1", {"order_id": "o1"}, 1), (7, {"order_id": "o1"})])
def test_what_the_users_function_returns_is_checked(shop: Scene, made: Any) -> None:
    door = Door(shop, object_field=None, read=lambda request: made)
    assert door.post().status == 500
    assert Door(shop, caller=lambda request: 7).post().status == 500
    assert Door(shop, caller=lambda request: request.claims["sub"]).post().status == 500
    assert door.started() == []


# -- until its end ----------------------------------------------------------------------------------------------------

WAITING: Any = {"wait": timedelta(seconds=10), "shows_result": True}


def test_a_run_that_ends_in_time_is_a_200_with_its_result_and_so_is_a_repeat(shop: Scene) -> None:
    door = Door(shop, **WAITING)
    door.on_pause = [lambda: None, door.work]
    reply = door.post()
    assert (reply.status, reply.content["state"], reply.content["result"]) == (200, "done", {"total": 7})
    assert "Retry-After" not in reply.headers
    paused = list(door.paused)
    assert door.post() == reply
    assert door.paused == paused == [0.1, 0.2]


def test_a_run_that_goes_on_is_a_202_when_the_time_is_over(shop: Scene) -> None:
    door = Door(shop, **WAITING)
    reply = door.post()
    assert (reply.status, reply.content["state"], reply.headers["Retry-After"]) == (202, "accepted", "2")
    assert sum(door.paused) == pytest.approx(10)
    assert max(door.paused) == 2
    assert len(door.paused) < 12
    assert door.calls.count("dynamodb", "GetItem") == len(door.paused)


@pytest.mark.parametrize(
    ("prefer", "seconds"), [("wait=3", 3), ("respond-async, wait=0", 0), ("wait=600", 10), ("x", 10)]
)
def test_a_client_may_ask_for_less(shop: Scene, prefer: str, seconds: int) -> None:
    door = Door(shop, **WAITING)
    assert door.post(prefer=prefer).status == 202
    assert sum(door.paused) == pytest.approx(seconds)


def test_no_request_waits_longer_than_its_invocation_has(shop: Scene) -> None:
    class Context:
        def get_remaining_time_in_millis(self) -> int:
            return START + 4_000 - shop.clock.now()

    door = Door(shop, **WAITING)
    assert door.post(context=Context()).status == 202
    assert 1 < sum(door.paused) <= 3
    shop.clock.advance(ms=START + 4_000 - 1_100 - shop.clock.now())
    door.paused.clear()
    door.post("b", context=Context())
    assert door.paused == [0.1]


def test_slow_reads_count_as_waiting(shop: Scene) -> None:
    class Slow:
        def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
            shop.clock.advance(seconds=4 if call.operation == "GetItem" else 0)
            return proceed()

    door = Door(shop, **WAITING)
    door.fault = Slow()
    assert door.post().status == 202
    assert door.calls.count("dynamodb", "GetItem") == 3


def test_a_look_that_takes_until_the_very_end_is_the_last(shop: Scene) -> None:
    class Slow:
        def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
            shop.clock.advance(ms=900 if call.operation == "GetItem" else 0)
            return proceed()

    door = Door(shop, wait=timedelta(seconds=1))
    door.fault = Slow()
    door.post()
    assert door.calls.count("dynamodb", "GetItem") == 1


def test_a_read_that_fails_does_not_hide_that_the_run_was_started(shop: Scene) -> None:
    door = Door(shop, wait=timedelta(milliseconds=50), shows_result=True)
    door.fault = At("GetItem", 1, raises=throttled("GetItem"))
    reply = door.post()
    assert (reply.status, reply.content["state"]) == (202, "accepted")
    why = "ClientError: a run is started, and was not read"
    assert door.events == [("broken", {"record": "HTTP", "flow": "orders", "why": why})]


# -- the link ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_the_link_says_where_the_run_stands(shop: Scene, form: str) -> None:
    door = Door(shop, shows_result=True)
    watch = door.post(form=form).watch
    assert door.get(watch, form)[:2] == (200, {"state": "accepted"})
    door.work()
    assert door.get(watch, form)[:2] == (200, {"state": "done", "result": {"total": 7}})


def test_a_run_that_has_failed_names_the_type_of_its_error_alone(shop: Scene) -> None:
    def refuse(step: Any) -> None:
        raise Reject("s3cret")

    door = Door(shop, shows_result=True)
    watch = door.post().watch
    shop.script.pricing = refuse
    door.work()
    assert door.get(watch).content == {"state": "failed", "error": "Reject"}


def test_no_reader_gets_the_result_unless_the_flow_says_so(shop: Scene) -> None:
    door = Door(shop, wait=timedelta(seconds=1))
    door.on_pause = [door.work]
    reply = door.post()
    assert (reply.status, reply.content) == (200, {"watch": reply.watch, "state": "done"})
    assert door.get(reply.watch).content == {"state": "done"}


def test_a_function_may_say_who_reads_the_result(shop: Scene) -> None:
    door = Door(shop, shows_result=lambda request, object_id: request.claims.get("sub") == object_id)
    watch = door.post().watch
    nobody = Door(shop, shows_result=lambda request, object_id: 1 / 0)
    assert nobody.get(watch).status == 200  # there is no result yet to be asked for
    door.work()
    assert "result" not in door.get(watch).content
    event = event_of("http", "GET", None, {}, watch.removeprefix("?run="))
    event["requestContext"]["authorizer"] = {"jwt": {"claims": {"sub": "o1"}}}
    assert door.ask(event).content["result"] == {"total": 7}
    assert nobody.get(watch).status == 500
    assert "result" not in Door(shop, shows_result=lambda request, object_id: "yes").get(watch).content


def test_a_link_that_was_changed_is_a_404_and_an_old_one_a_410(shop: Scene) -> None:
    door = Door(shop)
    watch = door.post().watch
    for forged in (
        watch[:-1] + ("A" if watch[-1] != "A" else "B"),
        watch.replace("k1.", "k2."),
        "?run=",
        "?run=a.b.c",
        "",
    ):
        reply = door.get(forged)
        assert (reply.status, reply.content) == (404, {"error": "NOT_FOUND", "detail": "This link watches no run."})
    shop.clock.advance(seconds=14 * 86_400)
    assert door.get(watch).status == 200
    shop.clock.advance(ms=1)
    assert door.get(watch).status == 410  # its message cannot be there any more, nor is there a run
    door.post("b")
    door.work()
    shop.clock.advance(seconds=28 * 86_400)
    assert door.get(watch).content["error"] == "EXPIRED"


def test_a_link_is_good_for_as_long_as_its_key_is_known(shop: Scene) -> None:
    door = Door(shop, keep=timedelta(minutes=1))
    watch = door.post().watch
    shop.clock.advance(ms=59_999)
    assert door.get(watch).status == 200
    shop.clock.advance(ms=1)
    assert door.get(watch).status == 410


def test_a_link_shows_no_other_run(shop: Scene) -> None:
    door = Door(shop, shows_result=True)
    watch = door.post("a").watch
    shop.clock.advance(seconds=1)
    door.post("b", {"order_id": "o1", "note": "newer"})
    door.work()
    assert door.get(watch).content == {"state": "superseded"}


def test_a_request_that_the_flow_ignores_says_so() -> None:
    def ignoring(script: Script) -> Any:
        class Ignoring(Flow, name="orders", object_id="order_id", on_conflict=IGNORE, dead_letters="dead"):
            stages = two_stages(script)

        return Ignoring

    with scene(ignoring) as shop:
        door = Door(shop, shows_result=True)
        door.post("a")
        [message] = shop.sent("price-order")
        shop.handler({"Records": [record_of("price-order", message)]})
        shop.clock.advance(seconds=1)
        watch = door.post("b").watch
        assert door.get(watch).content == {"state": "ignored"}


@pytest.fixture
def sealed() -> Iterator[tuple[Scene, Vault, Encrypted]]:
    vault, codec = Vault(), Encrypted("k")
    with scene(sealing(codec)) as shop, standing_in(vault):
        yield shop, vault, codec


def test_a_result_that_nobody_here_opens_is_that_of_a_run_that_has_ended(
    sealed: tuple[Scene, Vault, Encrypted],
) -> None:
    shop, vault, codec = sealed
    door = Door(shop, wait=timedelta(seconds=5), shows_result=True)
    watch = door.post(prefer="wait=0").watch
    door.work()
    codec._kept = None
    vault.known.clear()
    for reply in (door.get(watch), door.post()):
        assert (reply.status, reply.content["state"], reply.content["error"]) == (200, "done", "CannotOpen")
        assert reply.content.keys() <= {"watch", "state", "error"}


def test_while_the_keys_are_away_a_look_says_nothing_of_a_start(sealed: tuple[Scene, Vault, Encrypted]) -> None:
    shop, vault, codec = sealed
    door, closed = Door(shop, shows_result=True), Door(shop)
    watch = door.post().watch
    door.work()
    codec._kept, vault.away = None, True
    assert closed.get(watch).content == {"state": "done"}
    reply = door.get(watch)
    assert (reply.status, reply.headers["Retry-After"]) == (503, "2")
    assert reply.content == {"error": "UNAVAILABLE", "detail": "It is not known where the run stands. Ask again."}
    codec._kept, vault.away = None, False
    assert door.get(watch).content["result"] == {"total": 7}


# -- a definition -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "it does not say who chooses the object; write object_field='order_id'"),
        ({"object_field": "note"}, "object_field is 'note', and the flow's object is 'order_id'"),
        ({"object_field": "order_id", "read": of_tenant}, "give one of them"),
        ({"read": 7}, "read is 7; give it a function"),
        ({"object_field": "order_id", "caller": "sub"}, "caller is 'sub'; give it a function"),
        ({"object_field": "order_id", "wait": 5}, "wait is 5, which has no unit"),
        (
            {"object_field": "order_id", "wait": timedelta(seconds=26)},
            "wait is 0:00:26; write 0:00:00 or more, and 0:00:25",
        ),
        ({"object_field": "order_id", "wait": timedelta(seconds=-1)}, "write 0:00:00 or more"),
        ({"object_field": "order_id", "keep": timedelta(seconds=59)}, "keep is 0:00:59; write 0:01:00 or more"),
        ({"object_field": "order_id", "keep": 5}, "keep is 5, which has no unit"),
        (
            {"object_field": "order_id", "keep": timedelta(days=28, seconds=1)},
            "keep is 28 days, 0:00:01, and a run of the flow may be forgotten after 28 days, 0:00:00; a repeat would "
            "start it anew then. Write that, or a longer remember= of the flow",
        ),
        ({"object_field": "order_id", "key_field": "a..b"}, "key_field is 'a..b'"),
        ({"object_field": "order_id", "shows_result": None}, "shows_result is None"),
    ],
)
def test_a_wrong_definition_is_refused_with_its_fix(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        start_handler(Orders, **options)
    [text] = refused.value.problems
    assert problem in text
    assert ("at most" in text) is ("wait" in options and "no unit" not in text)


def test_a_key_may_be_known_for_as_long_as_its_run() -> None:
    class Short(Flow, name="orders", object_id="order_id", retention=timedelta(days=1)):
        stages = two_stages(Script())

    assert start_handler(Short, object_field="order_id", keep=timedelta(days=2)).rule.keep == timedelta(days=2)
    with pytest.raises(DefinitionError, match="may be forgotten after 2 days"):
        start_handler(Short, object_field="order_id", keep=timedelta(days=2, seconds=1))
    assert start_handler(Short, object_field="order_id").rule.keep == timedelta(days=2)
    assert start_handler(Orders, object_field="order_id").rule.keep == timedelta(days=28)


def test_a_key_is_known_for_28_days_by_default_where_its_run_is_for_longer() -> None:
    class Long(Flow, name="orders", object_id="order_id", remember=timedelta(days=90)):
        stages = two_stages(Script())

    assert start_handler(Long, object_field="order_id").rule.keep == timedelta(days=28)


def test_the_longest_wait_is_one() -> None:
    assert start_handler(Orders, object_field="order_id", wait=timedelta(seconds=25)).rule.wait == timedelta(seconds=25)


def test_a_flow_whose_requests_are_its_objects_names_none() -> None:
    def each(script: Script) -> Any:
        class Each(Flow, name="orders", object_id=PER_REQUEST, dead_letters="dead"):
            stages = two_stages(script)

        return Each

    with scene(each) as shop:
        with pytest.raises(DefinitionError) as refused:
            start_handler(shop.flow, object_field="order_id")
        [text] = refused.value.problems
        assert text == "object_field names an object, and each request of this flow is its own; leave it out"
        door = Door(shop, object_field=None, shows_result=True)
        first = door.post("a")
        assert (door.post("a"), door.post("b").watch == first.watch) == (first, False)
        door.work()
        assert door.get(first.watch).content["state"] == "done"


def test_what_is_no_flow_is_refused() -> None:
    with pytest.raises(DefinitionError):
        start_handler(StartHandler)  # type: ignore[arg-type]  # what is tested
