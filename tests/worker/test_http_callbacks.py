"""Answers over HTTP: which status says what, and that a link is only ever answered by a POST."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowguard import Done, Outcome, Stage, Step
from flowguard.clock import ManualClock
from flowguard.errors import EnvelopeError, Reject, RunFailed, SettingsError, TokenProblem, TokenRefused, TooLarge
from flowguard.testing import hostile, sqs_event, step_for
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.http_response import HttpResponse, lambda_response
from flowguard.wire.shown_facts import ShownFacts
from flowguard.wire.signing import Keyring, Keys
from flowguard.wire.tokens import TokenClaim, Tokens
from flowguard.worker.http_callbacks import LONGEST_ANSWER, MEANINGS, HttpCallbacks
from tests.wire.test_http_request import GATEWAYS, JSON, changed, sample

NOW = 1_767_225_660_000
KEYS = "k1:an-example-that-is-long-enough-to-be-a-secret"
"""The key that made the tokens of the samples."""

CLAIM = TokenClaim("approvals", "445eb2d158669142f53a4ee5e613dc37", 1_767_484_800_000)
TOKENS = Tokens(Keyring(lambda: Keys.parse(KEYS), ManualClock()))
TOKEN = TOKENS.make(*CLAIM)
HTML = {"accept": "text/html"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
PAGE = {**HTML, **FORM}


@dataclass
class Core:
    """Settles nothing, but keeps what it is given and answers with the verdict that it is told."""

    verdict: AnswerVerdict | Exception = AnswerVerdict.RESUMED
    got: list[tuple[TokenClaim, str, bool]] = field(default_factory=list)

    def answer(self, claim: TokenClaim, payload: str, failed: bool) -> AnswerVerdict:
        self.got.append((claim, payload, failed))
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict

    def respond(self, event: object, now: int = NOW, tokens: Tokens = TOKENS) -> HttpResponse:
        return HttpCallbacks(tokens, ("orders", "approvals"), self.answer).respond_to(event, now)


def request(
    method: str = "POST", body: str | None = None, query: str = "", token: str = TOKEN, **headers: str
) -> dict[str, Any]:
    """Make a request to an HTTP API. An underscore in a header's name stands for a hyphen."""
    given_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    http = {"method": method, "path": f"/answers/{token}"}
    return changed(
        body=body,
        rawQueryString=query,
        headers=given_headers,
        pathParameters={"token": token},
        requestContext={"http": http},
    )


def posted(body: str = JSON, **more: Any) -> dict[str, Any]:
    return request("POST", body, **{"content_type": "application/json", **more})


def said(response: HttpResponse) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(response.body)
    return found


def is_page(response: HttpResponse) -> bool:
    return response.headers["Content-Type"].startswith("text/html")


# -- an answer and its verdict ----------------------------------------------------------------------------------------

STATUSES = {
    AnswerVerdict.RESUMED: (200, 200),
    AnswerVerdict.RECORDED: (200, 200),
    AnswerVerdict.DUPLICATE: (200, 200),
    AnswerVerdict.SUPERSEDED: (200, 409),
    AnswerVerdict.EXPIRED: (200, 410),
    AnswerVerdict.UNKNOWN: (200, 404),
    AnswerVerdict.EARLY: (503, 503),
}


@pytest.mark.parametrize("gateway", GATEWAYS)
@pytest.mark.parametrize("verdict", AnswerVerdict)
def test_each_verdict_comes_back_over_each_gateway(verdict: AnswerVerdict, gateway: str) -> None:
    core, event = Core(verdict), sample(f"{gateway}-json")
    response = core.respond(event)
    returned = lambda_response(response, event)
    assert core.got == [(CLAIM, JSON, False)]
    assert returned["statusCode"] == STATUSES[verdict][0]
    assert json.loads(returned["body"]) == {"verdict": verdict.value, "detail": MEANINGS[verdict].text}
    assert (response.verdict, response.cause) == (verdict, None)


@pytest.mark.parametrize("verdict", AnswerVerdict)
def test_whoever_handles_statuses_strictly_gets_one_for_each_verdict(verdict: AnswerVerdict) -> None:
    for prefer in ("handling=strict", "respond-async, Handling=Strict", "wait=5; x, handling = strict"):
        response = Core(verdict).respond(posted(prefer=prefer))
        assert response.status == STATUSES[verdict][1]
        assert response.headers["Preference-Applied"] == "handling=strict"
        assert said(response)["verdict"] == verdict.value
    for prefer in ("handling=lenient", "handling=strictly", "strict", ""):
        response = Core(verdict).respond(posted(prefer=prefer))
        assert response.status == STATUSES[verdict][0]
        assert "Preference-Applied" not in response.headers


@pytest.mark.parametrize("verdict", AnswerVerdict)
def test_what_may_come_again_says_when_and_nothing_else_does(verdict: AnswerVerdict) -> None:
    for event in (posted(), request("POST", "_page=1", accept="text/html", content_type=FORM["content-type"])):
        assert ("Retry-After" in Core(verdict).respond(event).headers) is (verdict is AnswerVerdict.EARLY)


def test_no_verdict_is_forgotten_and_none_is_a_500() -> None:
    assert set(MEANINGS) == set(AnswerVerdict) == set(STATUSES)
    assert 500 not in {status for meaning in MEANINGS.values() for status in (meaning.status, meaning.strict)}


# -- what is answered -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        (posted(JSON), JSON),
        (posted('  {"a": 1.10, "a": 1e999}\n'), '  {"a": 1.10, "a": 1e999}\n'),
        (posted("7", content_type="application/cloudevents+json; charset=utf-8"), "7"),
        (posted('{"a":"\uffff"}'), '{"a":"\\uffff"}'),
        (request("POST", None), "{}"),
        (request("POST", ""), "{}"),
        (request("POST", query="answer=approve"), '{"answer":"approve"}'),
        (request("POST", query="answer=%E6%89%BF%E8%AA%8D&answer=%E6%89%BF%E8%AA%8D"), '{"answer":"承認"}'),
        (posted(JSON, query="answer=decline"), JSON),
        (request("POST", "answer=approve", content_type=FORM["content-type"]), '{"answer":"approve"}'),
        (
            request("POST", "answer=approve&comment=", content_type=FORM["content-type"], query="answer=decline"),
            '{"answer":"approve"}',
        ),
        (
            request("POST", "CallSid=CA1&Digits=1&_page=1", content_type=FORM["content-type"]),
            '{"CallSid":"CA1","Digits":"1"}',
        ),
        (
            request("POST", "answer=a&comment=%00%F0%9F%8E%89%22", content_type=FORM["content-type"]),
            '{"answer":"a","comment":"\\u0000🎉\\""}',
        ),
    ],
    ids=range(13),
)
def test_the_payload_is_what_the_body_or_the_link_says(event: dict[str, Any], payload: str) -> None:
    core = Core()
    assert core.respond(event).status == 200
    assert core.got == [(CLAIM, payload, False)]


@pytest.mark.parametrize(("query", "failed"), [("", False), ("failed=false", False), ("failed=true", True)])
def test_only_the_url_says_that_the_awaited_thing_failed(query: str, failed: bool) -> None:
    core = Core()
    core.respond(posted('{"error":"no credit","failed":true}', query=query))
    assert core.got[0][2] is failed


def test_the_sample_of_a_failure_is_one() -> None:
    core = Core()
    core.respond(sample("http-api-failed"))
    assert core.got == [(CLAIM, '{"error":"the customer has no credit"}', True)]


@pytest.mark.parametrize("gateway", GATEWAYS[:3])
def test_the_form_of_the_page_is_answered_by_a_page(gateway: str) -> None:
    core = Core()
    response = core.respond(sample(f"{gateway}-form"))
    assert core.got == [(CLAIM, '{"comment":"Gerne, über die Ostertage","answer":"approve"}', False)]
    assert is_page(response)
    assert "<h1>Thank you</h1>" in response.body
    assert "<form" not in response.body


@pytest.mark.parametrize("verdict", AnswerVerdict)
def test_a_person_reads_what_happened(verdict: AnswerVerdict) -> None:
    response = Core(verdict).respond(request("POST", "_page=1&answer=a", **{"content_type": FORM["content-type"]}))
    assert (response.status, is_page(response)) == (STATUSES[verdict][1], True)
    assert MEANINGS[verdict].title in response.body
    assert MEANINGS[verdict].text in response.body
    assert response.verdict is verdict


def test_a_sender_of_webhooks_that_says_it_takes_html_gets_json() -> None:
    response = Core(AnswerVerdict.EXPIRED).respond(posted(accept="text/html, image/gif, */*; q=.2"))
    assert (response.status, is_page(response)) == (200, False)
    refused_one = Core().respond({**sample("forged"), "headers": {**HTML, "content-type": "application/json"}})
    assert (refused_one.status, is_page(refused_one)) == (403, False)
    form = Core().respond(request("POST", "Digits=1", accept="text/html", content_type=FORM["content-type"]))
    assert (form.status, is_page(form)) == (200, False)


# -- what only looks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_a_link_that_is_opened_shows_a_form_and_settles_nothing(gateway: str) -> None:
    core = Core()
    response = core.respond(sample(f"{gateway}-browser"))
    assert (response.status, is_page(response), core.got) == (200, True, [])
    choices = ["approve it"] if gateway == "load-balancer" else ["approve", "decline"]
    for choice in choices:
        assert f'<button name="answer" value="{choice}">{choice}</button>' in response.body
    assert ("<textarea" in response.body) is (gateway != "load-balancer")
    assert TOKEN not in response.body


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("headers", [{}, HTML, PAGE])
def test_neither_get_nor_head_settles_anything_whatever_they_carry(method: str, headers: dict[str, str]) -> None:
    core = Core()
    event = request(method, JSON, "answer=approve&failed=true", **headers)
    response = core.respond(event)
    assert (response.status, core.got, response.verdict) == (200, [], None)
    assert (response.body == "") is (method == "HEAD")


def test_a_program_that_opens_the_link_is_told_to_post() -> None:
    response = Core().respond(request("GET", accept="*/*"))
    assert said(response) == {"detail": "Send the answer as a POST to this URL, as JSON."}
    assert said(Core().respond(request("GET", query="failed=true"))) == said(response)
    preview = Core().respond(sample("function-url-preview"))
    assert (preview.status, preview.body) == (200, "")


def test_the_page_of_a_failure_says_so() -> None:
    response = Core().respond(request("GET", query="failed=true", accept="text/html"))
    assert "<h1>Report a failure</h1>" in response.body
    assert "<h1>Your answer</h1>" in Core().respond(request("GET", accept="text/html")).body


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_a_token_that_is_late_gets_its_verdict_without_a_call(method: str) -> None:
    core = Core()
    event = {**sample("late"), "requestContext": {"http": {"method": method}}}
    response = core.respond(event)
    assert (response.status, response.verdict, core.got) == (200, AnswerVerdict.EXPIRED, [])
    event["headers"] = {"accept": "text/html", "content-type": FORM["content-type"]}
    response = core.respond(event)
    assert (response.status, is_page(response), core.got) == (410, True, [])


def test_the_last_millisecond_of_a_token_still_answers() -> None:
    assert Core().respond(posted(), CLAIM.expires_at - 1).verdict is AnswerVerdict.RESUMED
    assert Core().respond(posted(), CLAIM.expires_at).verdict is AnswerVerdict.EXPIRED


@pytest.mark.parametrize(
    "query",
    [
        "answer=",
        "answer=+",
        "answer=" + "x" * 41,
        "answer=a%00b",
        "answer=%E2%80%AEa",
        "&".join(f"answer={number}" for number in range(9)),
        "comment=maybe",
        "comment=yes&comment=yes",
        "failed=yes",
        "failed=true&failed=false",
        "answer=%ff",
    ],
)
def test_a_link_of_the_wrong_form_shows_no_page(query: str) -> None:
    response = Core().respond(request("GET", query=query, accept="text/html"))
    assert response.status == 400
    assert isinstance(response.cause, EnvelopeError)
    assert "<form" not in response.body


def test_a_link_may_have_eight_choices_of_forty_characters() -> None:
    query = "&".join(f"answer={number}{'x' * 39}" for number in range(8))
    assert Core().respond(request("GET", query=query, accept="text/html")).body.count("<button ") == 8


# -- what is refused --------------------------------------------------------------------------------------------------


def refused(response: HttpResponse) -> tuple[int, str]:
    return response.status, said(response)["error"]


def test_a_forged_token_is_refused_before_anything_is_asked() -> None:
    core = Core()
    response = core.respond(sample("forged"))
    assert (refused(response), core.got) == ((403, "TOKEN_FORGED"), [])
    assert isinstance(response.cause, TokenRefused)


@pytest.mark.parametrize(
    ("token", "status", "reason"),
    [
        ("", 400, "TOKEN_MALFORMED"),
        ("k1.short", 400, "TOKEN_MALFORMED"),
        ("x" * 1_000_000, 400, "TOKEN_MALFORMED"),
        ("\ud800" + TOKEN, 400, "TOKEN_MALFORMED"),
        (f"k9{TOKEN[2:]}", 403, "TOKEN_UNKNOWN_KEY"),
        (TOKENS.make("refunds", CLAIM.row_id, CLAIM.expires_at), 403, "TOKEN_OTHER_FLOW"),
    ],
    ids=range(6),
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_refused_token_says_so_and_shows_no_setting(method: str, token: str, status: int, reason: str) -> None:
    event = {**request(method, JSON, token=token), "rawPath": f"/answers/{token}"}
    core = Core()
    response = core.respond(event)
    assert (refused(response), core.got) == ((status, reason), [])
    assert "FLOWGUARD" not in response.body
    page = core.respond({**event, "headers": PAGE})
    assert (page.status, is_page(page), core.got) == (status, True, [])
    assert "FLOWGUARD" not in page.body


@pytest.mark.parametrize("reason", TokenProblem)
def test_no_refused_token_is_a_500(reason: TokenProblem) -> None:
    class Refusing(Tokens):
        def read(self, *_: object) -> TokenClaim:
            raise TokenRefused(reason)

    assert Core().respond(posted(), tokens=Refusing(None)).status in {200, 400, 403}


def test_the_token_is_the_last_part_of_the_path_where_the_gateway_names_none() -> None:
    for path in (f"/{TOKEN}", f"/prod/answers/{TOKEN}", f"/answers/{TOKEN}/"):
        event = {**sample("function-url-json"), "rawPath": path}
        assert Core().respond(event).verdict is AnswerVerdict.RESUMED
    named = {**posted(), "rawPath": "/answers/approve"}
    assert Core().respond(named).verdict is AnswerVerdict.RESUMED
    proxy = {**posted(), "pathParameters": {"proxy": f"answers/{TOKEN}"}}
    assert Core().respond(proxy).verdict is AnswerVerdict.RESUMED


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "", "post "])
def test_another_method_is_told_which_there_are(method: str) -> None:
    core = Core()
    response = core.respond(request(method, JSON))
    assert (response.status, said(response), core.got) == (
        405,
        {"error": "METHOD", "detail": "Send the answer as a POST."},
        [],
    )
    assert response.headers["Allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize(
    ("event", "status", "error"),
    [
        (posted("no json"), 400, "MALFORMED"),
        (posted('{"a":NaN}'), 400, "MALFORMED"),
        (posted("[" * 100_000), 400, "MALFORMED"),
        (posted("9" * 5_000), 400, "MALFORMED"),
        (posted("\ufeff{}"), 400, "MALFORMED"),
        (posted("\ud800"), 400, "MALFORMED"),
        ({**posted("%"), "isBase64Encoded": True}, 400, "MALFORMED"),
        (posted(query="failed=perhaps"), 400, "MALFORMED"),
        (request("POST", query="answer=a&answer=b"), 400, "MALFORMED"),
        (request("POST", query="answers=a%2Cb"), 400, "MALFORMED"),
        (request("POST", query="answer=%00"), 400, "MALFORMED"),
        (request("POST", "a=1&a=2", content_type=FORM["content-type"]), 400, "MALFORMED"),
        ({**posted(), "body": 7}, 400, "MALFORMED"),
        ({**posted(), "headers": 7}, 400, "MALFORMED"),
        (posted(content_type="text/plain"), 415, "CONTENT_TYPE"),
        (posted("a=1", content_type="text/plain"), 415, "CONTENT_TYPE"),
        (posted(content_type=""), 415, "CONTENT_TYPE"),
        (posted(content_type="multipart/form-data; boundary=x"), 415, "CONTENT_TYPE"),
        (posted(content_type=FORM["content-type"]), 415, "CONTENT_TYPE"),
        (posted(f'"{"x" * LONGEST_ANSWER}"'), 413, "TOO_LARGE"),
    ],
    ids=range(20),
)
def test_what_cannot_be_read_is_refused_before_anything_is_asked(event: object, status: int, error: str) -> None:
    core = Core()
    response = core.respond(event)
    assert (refused(response), core.got) == ((status, error), [])
    assert response.cause is not None
    assert len(response.body) < 300


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("no json", "Expecting value"),
        ("[" * 100_000, "nested too deeply, or a number that is none"),
        ('{"a":NaN}', "nested too deeply, or a number that is none"),
    ],
    ids=range(3),
)
def test_a_body_that_is_no_json_says_why_and_quotes_nothing(body: str, why: str) -> None:
    assert said(Core().respond(posted(body)))["detail"] == f"body is not JSON: {why}. Nothing was changed."


def test_an_answer_may_be_as_long_as_a_queue_takes_and_not_a_byte_longer() -> None:
    core = Core()
    exact = json.dumps("é" * ((LONGEST_ANSWER - 2) // 2), ensure_ascii=False)
    assert len(exact.encode()) == LONGEST_ANSWER
    assert core.respond(posted(exact)).status == 200
    assert core.respond({**posted(base64.b64encode(exact.encode()).decode()), "isBase64Encoded": True}).status == 200
    assert core.respond(posted(f"{exact} ")).status == 413
    assert len(core.got) == 2


def test_an_answer_that_grows_when_it_becomes_json_is_measured_then() -> None:
    core = Core()
    body = "a=" + "%00" * (LONGEST_ANSWER // 4)
    assert refused(core.respond(request("POST", body, content_type=FORM["content-type"]))) == (413, "TOO_LARGE")
    grown = '{"a":"' + "\uffff" * (LONGEST_ANSWER // 4) + '"}'
    assert refused(core.respond(posted(grown))) == (413, "TOO_LARGE")
    assert core.got == []


# -- what goes wrong behind the door ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RuntimeError("the table arn:aws:dynamodb:… throttles"), 503, "UNAVAILABLE"),
        (SettingsError("FLOWGUARD_TOKEN_KEYS", "secret"), 503, "UNAVAILABLE"),
        (RecursionError(), 503, "UNAVAILABLE"),
        (TokenRefused(TokenProblem.FORGED), 503, "UNAVAILABLE"),
        (Reject("arn:aws:dynamodb:…"), 422, "NOT_TAKEN"),
        (TooLarge("the item arn:aws:dynamodb:…", {"answer": 500_000}, 409_600), 413, "TOO_LARGE"),
    ],
)
def test_what_fails_is_a_status_with_json_and_shows_nothing_of_the_account(
    error: Exception, status: int, code: str
) -> None:
    response = Core(error).respond(posted())
    assert refused(response) == (status, code)
    assert response.cause is error
    assert ("Retry-After" in response.headers) is (status == 503)
    assert "arn:" not in response.body
    assert "secret" not in response.body
    page = Core(error).respond(request("POST", "_page=1", content_type=FORM["content-type"]))
    assert (page.status, is_page(page)) == (status, True)


def test_a_payload_that_is_not_what_is_awaited_says_which_fields_are_wrong() -> None:
    response = Core(RunFailed("the answer is no Approval: answer: Field required\x1b" + "x" * 10_000)).respond(posted())
    assert refused(response) == (422, "NOT_TAKEN")
    assert "answer: Field required\\x1b" in said(response)["detail"]
    assert len(response.body) < 1_000


def test_where_no_keys_are_set_everything_is_unavailable() -> None:
    for event in (posted(), request("GET"), request("GET", accept="text/html")):
        response = Core().respond(event, tokens=Tokens(None))
        assert response.status == 503
        assert isinstance(response.cause, SettingsError)
        assert "FLOWGUARD" not in response.body


def test_keys_that_cannot_be_loaded_are_no_500() -> None:
    def load() -> Keys:
        raise OSError("Systems Manager does not answer")

    response = Core().respond(posted(), tokens=Tokens(Keyring(load, ManualClock())))
    assert refused(response) == (503, "UNAVAILABLE")


# -- whatever comes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", [None, {}, [], sqs_event("q", {}), {"requestContext": {"connectionId": "c1"}}])
def test_what_is_no_request_is_raised_to_who_invoked_the_function(event: object) -> None:
    with pytest.raises(EnvelopeError, match="is no HTTP request"):
        Core().respond(event)


texts = st.text(max_size=30)


@pytest.mark.slow("strikes at each call of a run")
@settings(max_examples=200)
@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT"]),
    body=st.one_of(st.none(), texts, st.sampled_from([JSON, "answer=a&_page=1"])),
    query=st.one_of(texts, st.just("answer=a&answer=b")),
    token=st.one_of(st.just(TOKEN), texts),
    accept=st.sampled_from(["text/html", "*/*", ""]),
    kind=st.sampled_from(["application/json", FORM["content-type"], "text/plain"]),
)
def test_every_request_is_answered_and_only_a_whole_post_settles(**given_request: Any) -> None:
    kind, core = given_request.pop("kind"), Core()
    event = request(**given_request, content_type=kind)
    event["rawPath"] = "/answers"
    response = core.respond(event)
    assert response.status in {200, 400, 403, 405, 413, 415}
    assert (response.verdict is AnswerVerdict.RESUMED) is bool(core.got)
    assert not core.got or (given_request["method"] == "POST" and given_request["token"] == TOKEN)
    assert response.headers["Cache-Control"] == "no-store"
    json.dumps(lambda_response(response, event))


@pytest.mark.parametrize("name", sorted(hostile.STRUCTURES))
@pytest.mark.parametrize("part", ["body", "headers", "rawQueryString", "pathParameters"])
def test_no_structure_in_a_request_is_a_500(name: str, part: str) -> None:
    core = Core()
    assert core.respond({**posted(), part: hostile.STRUCTURES[name]}).status in {200, 400, 413, 415}


def test_the_page_escapes_what_a_link_says() -> None:
    read: Callable[[str], str] = lambda query: Core().respond(request("GET", query=query, accept="text/html")).body  # noqa: E731 - one line of a test
    assert "<script" not in read("answer=%3Cscript%3Ealert%281%29%3C%2Fscript%3E")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in read("answer=%3Cscript%3Ealert%281%29%3C%2Fscript%3E")


# -- what the page says of the case -----------------------------------------------------------------------------------

SHOWN = ShownFacts("Pay claim <4711>?", {"Amount": "420 € & more"})


def test_the_page_shows_the_title_and_the_facts_that_the_link_was_made_with() -> None:
    query = urlencode({"answer": "pay", "shown": TOKENS.seal(TOKEN, SHOWN)})
    found = Core().respond(request("GET", query=query, accept="text/html"))
    assert found.status == 200
    assert "<title>Pay claim &lt;4711&gt;?</title>" in found.body
    assert "<dt>Amount</dt><dd>420 € &amp; more</dd>" in found.body
    assert '<button name="answer" value="pay">' in found.body


def test_facts_that_were_not_made_for_the_link_are_refused() -> None:
    other = TOKENS.seal(TOKENS.make("approvals", "0" * 32, 1_767_484_800_000), SHOWN)
    for query in (urlencode({"shown": other}), urlencode([("shown", TOKENS.seal(TOKEN, SHOWN))] * 2)):
        found = Core().respond(request("GET", query=query, accept="text/html"))
        assert found.status == 400
        assert "Pay claim" not in found.body
        assert "was not made for this link" in found.body


def test_a_step_seals_them_into_the_link_and_refuses_what_no_page_shows() -> None:
    step = step_for(Asking)
    made_with = Tokens(Keyring(lambda: Keys.parse("under-test:a-key-that-is-no-secret-of-anybody"), ManualClock()))
    token = step.token("decision", title=SHOWN.title, facts=SHOWN.facts)
    shown = parse_qs(urlsplit(token.link("https://example.com/answers")).query)["shown"][0]
    assert made_with.unseal(token.text, shown) == SHOWN
    assert step.token("decision").text == token.text, "the same token"
    assert made_with.unseal(token.text, step.token("decision", facts={"a": "b"}).shown) == ShownFacts(
        "Your answer", {"a": "b"}
    )
    with pytest.raises(RunFailed, match=r"step.token\('decision'\): the title is not 1 to 100"):
        step.token("decision", title="x" * 101)
    assert Tokens(Keyring(lambda: Keys.parse("k9:" + "x" * 32), ManualClock())).unseal(token.text, shown) is None


class Asking(Stage[dict[str, Any]], name="asking"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        return Done()
