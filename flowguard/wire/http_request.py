"""An HTTP request, read from the event that a gateway made of it.

REST APIs and load balancers write format 1.0, HTTP APIs and function URLs format 2.0. Cookies are not read. A body that
is no text for the gateway comes in base64: function URLs do that with forms.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus

from flowguard.errors import EnvelopeError, TooLarge, shown
from flowguard.payload.foreign import foreign_name
from flowguard.payload.http_source import HttpSource, http_source
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.http_claims import NOBODY, HttpClaims, read_claims

LONGEST_QUERY: Final = 16_384
"""In characters: more than any gateway passes on."""

MOST_FIELDS: Final = 100
"""Fields of a query or a form."""

_LONGEST_HEADER: Final = 2_048
"""Characters that are read of a header which is a list."""

_WHERE: Final = "the request"
_FORM: Final = "application/x-www-form-urlencoded"


class HttpRequest(NamedTuple):
    """A request.

    The names in ``headers`` are in lower case, the values of one name joined by commas. ``query`` has each field in
    its order, decoded. ``body`` is as the event has it; :meth:`text` decodes it. ``sender`` is what the gateway's
    authorizer says.
    """

    source: HttpSource
    method: str
    path: str
    path_parameters: Mapping[str, str]
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
    body: str
    is_base64: bool
    sender: HttpClaims = NOBODY

    @property
    def content_type(self) -> str:
        """Return the type of the body without its parameters, in lower case. Empty where none is named."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_form(self) -> bool:
        return self.content_type == _FORM

    @property
    def is_json(self) -> bool:
        kind = self.content_type
        return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))

    @property
    def prefers_html(self) -> bool:
        """Answer whether the client asks for HTML, and not for JSON before it. ``*/*`` asks for nothing."""
        accepted = _weights(self.headers.get("accept", ""))
        html = max(accepted.get("text/html", 0.0), accepted.get("application/xhtml+xml", 0.0))
        return html > 0 and html >= accepted.get("application/json", 0.0)

    def values(self, name: str) -> list[str]:
        """List the values of a field of the query."""
        return [value for field, value in self.query if field == name]

    def text(self, most: int) -> str:
        """Return the body, decoded.

        Raises :class:`TooLarge` for more than ``most`` bytes, before it is decoded, and :class:`EnvelopeError` for a
        body that is not UTF-8.
        """
        at_least = len(self.body) // 4 * 3 - 2  # bytes, in base64 or not
        if at_least > most:
            raise TooLarge("the body", {"body": at_least}, most)
        try:
            data = base64.b64decode(self.body, validate=True) if self.is_base64 else self.body.encode()
            text = data.decode()
        except UnicodeError:
            raise EnvelopeError(_WHERE, "body", "is not text in UTF-8") from None
        except ValueError:
            raise EnvelopeError(_WHERE, "body", "is not base64, as its isBase64Encoded says") from None
        if len(data) > most:
            raise TooLarge("the body", {"body": len(data)}, most)
        return text

    def form(self, most: int) -> dict[str, str]:
        """Return the fields of a form, decoded. Raises :class:`EnvelopeError` for a field that is there twice."""
        fields = _fields(self.text(most), "body")
        named = dict(fields)
        if len(named) < len(fields):
            raise EnvelopeError(_WHERE, "body", "has a field of the form twice")
        return named


def read_http_request(event: object) -> HttpRequest:
    """Read the event of a gateway, a function URL or a load balancer. Raises :class:`EnvelopeError` for others."""
    source = http_source(event)
    if source is None or not isinstance(event, dict):
        raise EnvelopeError("the event", "(all of it)", f"is no HTTP request{_named(event)}")
    is_2 = source in (HttpSource.FORMAT_2, HttpSource.FUNCTION_URL)
    return HttpRequest(
        source=source,
        method=_text(event["requestContext"]["http"] if is_2 else event, "method" if is_2 else "httpMethod").upper(),
        path=event["rawPath"] if is_2 else event["path"],
        path_parameters=_texts(event, "pathParameters"),
        query=_raw_query(event) if is_2 else _query(event, is_encoded=source is HttpSource.LOAD_BALANCER),
        headers=_headers(event),
        body=_text(event, "body"),
        is_base64=event.get("isBase64Encoded") is True,
        sender=read_claims(event),
    )


def _named(event: object) -> str:
    name = foreign_name(event)
    if name is None and isinstance(event, dict) and isinstance(event.get("Records"), list):
        name = "an event with records, of a queue or a topic"
    return f"; this is {name}" if name else ""


# -- parts of an event ------------------------------------------------------------------------------------------------


def _text(part: Mapping[str, Any], name: str) -> str:
    value = part.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise EnvelopeError(_WHERE, name, f"is no text but {shown(value)}")
    return value


def _object(event: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = event.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise EnvelopeError(_WHERE, name, f"is no object but {shown(value)}")
    return value


def _texts(event: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the texts by their names."""
    texts = _object(event, name)
    for key, value in texts.items():
        if not isinstance(value, str):
            raise EnvelopeError(_WHERE, f"{name}.{shown(key)}", "is no text")
    return texts


def _lists(event: Mapping[str, Any], name: str) -> dict[str, list[str]] | None:
    """Return the lists of texts by their names. None where the event has no such member."""
    if event.get(name) is None:
        return None
    lists = _object(event, name)
    for key, values in lists.items():
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise EnvelopeError(_WHERE, f"{name}.{shown(key)}", "is no list of texts")
    return lists


def _headers(event: Mapping[str, Any]) -> dict[str, str]:
    several = _lists(event, "multiValueHeaders")
    if several is None:
        several = {name: [value] for name, value in _texts(event, "headers").items()}
    joined: dict[str, list[str]] = {}
    for name, values in several.items():  # some gateways keep the case in which each was sent
        joined.setdefault(name.lower(), []).extend(values)
    return {name: ", ".join(values) for name, values in joined.items()}


def _raw_query(event: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    text = _text(event, "rawQueryString")
    if len(text) > LONGEST_QUERY:
        raise EnvelopeError(_WHERE, "rawQueryString", f"is longer than {LONGEST_QUERY:,} characters")
    return tuple(_fields(text, "rawQueryString"))


def _query(event: Mapping[str, Any], *, is_encoded: bool) -> tuple[tuple[str, str], ...]:
    """Return the fields of the query. A load balancer leaves them encoded."""
    several = _lists(event, "multiValueQueryStringParameters")
    if several is None:
        several = {name: [value] for name, value in _texts(event, "queryStringParameters").items()}
    fields = [(name, value) for name, values in several.items() for value in values]
    if len(fields) > MOST_FIELDS:
        raise EnvelopeError(_WHERE, "queryStringParameters", f"has more than {MOST_FIELDS} fields")
    if is_encoded:
        return tuple((unquote_plus(name), unquote_plus(value)) for name, value in fields)
    return tuple(fields)


def _fields(text: str, where: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except UnicodeError:
        raise EnvelopeError(_WHERE, where, "has a field that is not UTF-8") from None
    except ValueError:
        raise EnvelopeError(_WHERE, where, f"has more than {MOST_FIELDS} fields") from None


def _weights(accept: str) -> dict[str, float]:
    """Return the media ranges of an Accept header with their weights, 1 where none is given."""
    ranges = {}
    for part in accept[:_LONGEST_HEADER].lower().split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        weights = [parameter.removeprefix("q=") for parameter in parameters if parameter.startswith("q=")]
        ranges[kind] = _weight(weights[0]) if weights else 1.0
    return ranges


def _weight(text: str) -> float:
    try:
        return min(float(text), 1.0)
    except ValueError:
        return 0.0
