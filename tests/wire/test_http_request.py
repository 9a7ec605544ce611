"""Requests are read the same from every gateway, and what is wrong with one is said by its field."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowguard.errors import EnvelopeError, TooLarge
from flowguard.testing import hostile, sqs_event
from flowguard.wire.http_request import HttpRequest, read_http_request

SAMPLES = Path(__file__).parents[2] / "samples" / "callbacks"
GATEWAYS = ("rest-api", "http-api", "function-url", "load-balancer")
JSON = '{"answer":"approve","comment":"within the budget"}'


def sample(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SAMPLES / f"{name}.json").read_text())
    return found


def changed(name: str = "http-api-json", /, **changes: Any) -> dict[str, Any]:
    return {**sample(name), **changes}


def problem(event: object) -> str:
    with pytest.raises(EnvelopeError) as caught:
        read_http_request(event)
    return str(caught.value)


# -- the same request from each gateway -------------------------------------------------------------------------------


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_a_webhook_reads_the_same_everywhere(gateway: str) -> None:
    found = read_http_request(sample(f"{gateway}-json"))
    assert (found.method, found.query, found.text(1_000)) == ("POST", (), JSON)
    assert found.path.rpartition("/")[2].startswith("k1.")
    assert (found.is_json, found.is_form, found.prefers_html) == (True, False, False)
    assert found.headers["user-agent"] == "webhooks/1.0"


@pytest.mark.parametrize("gateway", GATEWAYS[:3])
def test_a_browser_reads_the_same_everywhere(gateway: str) -> None:
    found = read_http_request(sample(f"{gateway}-browser"))
    assert (found.method, found.text(0), found.prefers_html) == ("GET", "", True)
    assert found.query == (("answer", "approve"), ("answer", "decline"), ("comment", "yes"))
    assert found.values("answer") == ["approve", "decline"]


@pytest.mark.parametrize("gateway", GATEWAYS[:3])
def test_a_form_reads_the_same_everywhere_in_base64_too(gateway: str) -> None:
    found = read_http_request(sample(f"{gateway}-form"))
    assert found.form(1_000) == {"_page": "1", "comment": "Gerne, über die Ostertage", "answer": "approve"}
    assert (found.is_json, found.is_form, found.is_base64) == (False, True, gateway != "rest-api")


def test_what_a_load_balancer_leaves_encoded_is_decoded() -> None:
    event = sample("load-balancer-browser")
    assert read_http_request(event).query == (("answer", "approve it"),)
    several = {**event, "multiValueQueryStringParameters": {"a%2Fb": ["1+2", "%C3%A9"]}}
    assert read_http_request(several).query == (("a/b", "1 2"), ("a/b", "é"))
    assert read_http_request(changed("rest-api-json", queryStringParameters={"a": "%2B"})).query == (("a", "%2B"),)


def test_a_token_is_a_path_parameter_where_the_gateway_has_such() -> None:
    for name in ("rest-api-json", "http-api-json"):
        assert read_http_request(sample(name)).path_parameters["token"].startswith("k1.")
    for name in ("function-url-json", "load-balancer-json"):
        assert read_http_request(sample(name)).path_parameters == {}


# -- headers ----------------------------------------------------------------------------------------------------------


def headers(**given: str) -> HttpRequest:
    return read_http_request(changed(headers={name.replace("_", "-"): value for name, value in given.items()}))


def test_headers_are_found_in_any_case_and_several_are_joined() -> None:
    assert headers(ACCEPT="a").headers == {"accept": "a"}
    several = changed("rest-api-json", multiValueHeaders={"Accept": ["text/html", "b"]})
    assert read_http_request(several).headers == {"accept": "text/html, b"}
    cases = changed("rest-api-json", multiValueHeaders={"X-Tenant": ["a"], "Accept": ["b"], "x-tenant": ["c", "d"]})
    assert read_http_request(cases).headers == {"x-tenant": "a, c, d", "accept": "b"}
    plain = changed("rest-api-json", multiValueHeaders=None, headers={"X-Tenant": "a", "x-tenant": "b"})
    assert read_http_request(plain).headers == {"x-tenant": "a, b"}
    none = changed("rest-api-json", multiValueHeaders=None, headers=None)
    assert read_http_request(none).headers == {}


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        ("text/html", True),
        ("TEXT/HTML;level=1", True),
        ("application/xhtml+xml", True),
        ("text/html;q=0.9, application/json;q=0.8", True),
        ("text/html, application/json", True),
        ("text/html;q=0.8, application/json", False),
        ("text/html;q=0", False),
        ("text/html;q=x", False),
        ("text/html;q=nan", False),
        ("text/html, application/json;q=9", True),
        ("*/*", False),
        ("text/*", False),
        ("application/json", False),
        ("", False),
        ("," * 100_000 + "text/html", False),
    ],
    ids=range(15),
)
def test_html_is_for_those_who_ask_for_it(accept: str, html: bool) -> None:
    assert headers(accept=accept).prefers_html is html


@pytest.mark.parametrize(
    ("kind", "json_", "form"),
    [
        ("application/json", True, False),
        ("Application/JSON; charset=utf-8", True, False),
        ("application/cloudevents+json", True, False),
        ("image/svg+json", False, False),
        ("application/x-www-form-urlencoded;charset=UTF-8", False, True),
        ("text/json", False, False),
        ("application/json, application/json", False, False),
        ("multipart/form-data; boundary=x", False, False),
        ("", False, False),
    ],
)
def test_the_type_of_a_body_is_read_without_its_parameters(kind: str, json_: bool, form: bool) -> None:
    found = headers(content_type=kind)
    assert (found.is_json, found.is_form) == (json_, form)


# -- bodies -----------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=200))
def test_a_body_is_decoded_or_refused_as_it_is_text_or_not(data: bytes) -> None:
    found = read_http_request(changed(body=base64.b64encode(data).decode(), isBase64Encoded=True))
    try:
        expected = data.decode()
    except UnicodeDecodeError:
        with pytest.raises(EnvelopeError, match="is not text in UTF-8"):
            found.text(1_000)
    else:
        assert found.text(1_000) == expected


@pytest.mark.parametrize(
    ("body", "told"), [("%%%%", "is not base64"), ("abc", "is not base64"), ("é", "is not base64")]
)
def test_a_body_that_is_not_the_base64_that_it_claims_to_be_is_refused(body: str, told: str) -> None:
    with pytest.raises((EnvelopeError, ValueError), match=told):
        read_http_request(changed(body=body, isBase64Encoded=True)).text(1_000)


def test_half_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(EnvelopeError, match="is not text in UTF-8"):
        read_http_request(changed(body="\ud800")).text(1_000)


@pytest.mark.parametrize("is_base64", [False, True])
def test_a_body_may_have_as_many_bytes_as_it_may_and_not_one_more(is_base64: bool) -> None:
    def request(data: bytes) -> HttpRequest:
        body = base64.b64encode(data).decode() if is_base64 else data.decode()
        return read_http_request(changed(body=body, isBase64Encoded=is_base64))

    for data in (b"x" * 10, "é".encode() * 5):
        assert request(data).text(10) == data.decode()
        with pytest.raises(TooLarge) as caught:
            request(data + b"x").text(10)
        assert (caught.value.limit, sum(caught.value.sizes.values())) == (10, 11)


def test_a_large_body_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(TooLarge):
        read_http_request(changed(body="%" * 1_000_000, isBase64Encoded=True)).text(10)


def test_a_query_may_be_as_long_and_have_as_many_fields_as_it_may() -> None:
    assert len(read_http_request(changed(rawQueryString="a" * 16_384)).query) == 1
    assert len(read_http_request(changed(rawQueryString="&".join(["a=1"] * 100))).query) == 100
    several = {"a": ["b"] * 100}
    assert len(read_http_request(changed("rest-api-json", multiValueQueryStringParameters=several)).query) == 100


def test_a_form_with_a_field_twice_or_too_many_is_refused() -> None:
    form = {"headers": {"content-type": "application/x-www-form-urlencoded"}}
    with pytest.raises(EnvelopeError, match="has a field of the form twice"):
        read_http_request(changed(**form, body="a=1&a=2")).form(1_000)
    with pytest.raises(EnvelopeError, match="has more than 100 fields"):
        read_http_request(changed(**form, body="&".join(f"f{n}=" for n in range(101)))).form(1_000)
    with pytest.raises(EnvelopeError, match="has a field that is not UTF-8"):
        read_http_request(changed(**form, body="a=%ff")).form(1_000)
    assert read_http_request(changed(**form, body="a=&b=1%262+3")).form(1_000) == {"a": "", "b": "1&2 3"}


# -- what is no request, or a broken one ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (None, "is no HTTP request"),
        ({"order": 1}, "is no HTTP request"),
        (sqs_event("q", {}), "is no HTTP request; this is an event with records, of a queue or a topic"),
        (
            {"requestContext": {"connectionId": "c"}},
            "is no HTTP request; this is an API Gateway event (WebSocket API)",
        ),
        ({"detail-type": "a", "source": "b", "detail": {}}, "is no HTTP request; this is an EventBridge event"),
        ({"Records": [{"eventSource": "aws:s3"}]}, "is no HTTP request; this is an S3 notification"),
    ],
)
def test_another_event_is_refused_by_its_name(event: object, told: str) -> None:
    assert problem(event) == f"the event: (all of it): {told}"


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (changed(body=7), "body: is no text but 7"),
        (changed(headers=[]), "headers: is no object but []"),
        (changed(headers={"a": 1}), "headers.'a': is no text"),
        (changed(pathParameters="x"), "pathParameters: is no object but 'x'"),
        (changed(rawQueryString=["a"]), "rawQueryString: is no text but ['a']"),
        (changed(rawQueryString="a=%ff"), "rawQueryString: has a field that is not UTF-8"),
        (changed(rawQueryString="a" * 16_385), "rawQueryString: is longer than 16,384 characters"),
        (changed(rawQueryString="&a=1" * 101), "rawQueryString: has more than 100 fields"),
        (changed(requestContext={"http": {"method": 7}}), "method: is no text but 7"),
        (changed("rest-api-json", multiValueHeaders=7), "multiValueHeaders: is no object but 7"),
        (changed("rest-api-json", multiValueHeaders={"a": "b"}), "multiValueHeaders.'a': is no list of texts"),
        (changed("rest-api-json", multiValueHeaders={"a": [1]}), "multiValueHeaders.'a': is no list of texts"),
        (changed("rest-api-json", queryStringParameters=[]), "queryStringParameters: is no object but []"),
        (
            changed("rest-api-json", multiValueQueryStringParameters={"a": ["b"] * 101}),
            "queryStringParameters: has more than 100 fields",
        ),
    ],
)
def test_what_is_wrong_with_a_request_is_said_by_its_field(event: dict[str, Any], told: str) -> None:
    assert problem(event) == f"the request: {told}"


@pytest.mark.parametrize("field", ["headers", "pathParameters", "rawQueryString", "body", "requestContext"])
@pytest.mark.parametrize("name", sorted(hostile.STRUCTURES))
def test_no_structure_raises_anything_but_the_typed_error(field: str, name: str) -> None:
    told = ""
    try:
        read_http_request(changed(**{field: hostile.STRUCTURES[name]})).text(1_000)
    except EnvelopeError as error:
        told = str(error)
    assert len(told) < 200
