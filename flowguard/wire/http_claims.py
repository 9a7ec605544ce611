"""What a gateway says of the sender of a request, read from the event.

::

    requestContext.authorizer.jwt.claims     HTTP API, JWT authorizer
    requestContext.authorizer.lambda         HTTP API, Lambda authorizer
    requestContext.authorizer.iam            HTTP API and function URL, signed with SigV4
    requestContext.authorizer.claims         REST API, Cognito; HTTP API in format 1.0, JWT authorizer
    requestContext.authorizer                REST API, Lambda authorizer
    requestContext.identity.userArn          REST API, signed with SigV4

Where there is no authorizer, and the gateway asks its clients for a certificate (mutual TLS)::

    requestContext.authentication.clientCert HTTP API
    requestContext.identity.clientCert       REST API; HTTP API in format 1.0

The gateway writes all of it, so that no request can.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from flowguard.startup.named_tuple import NamedTuple


class HttpClaims(NamedTuple):
    """What is known of a sender.

    ``caller`` is one text for it, the same with each request. It is empty for nobody, who has no claims either, and for
    somebody whom an authorizer let in without a name, or whose certificate has none.
    """

    claims: Mapping[str, Any]
    caller: str


NOBODY = HttpClaims({}, "")

_NO_AUTHORIZER: Final[tuple[dict[str, Any], ...]] = ({}, {"claims": None, "scopes": None})
"""What the gateway writes of a route without one. The second is of an HTTP API in format 1.0."""


def read_claims(event: Mapping[str, Any]) -> HttpClaims:
    """Read the claims of an event that is an HTTP request."""
    context = _object(event, "requestContext")
    authorizer = _object(context, "authorizer")
    if jwt := _object(_object(authorizer, "jwt"), "claims") or _object(authorizer, "claims"):
        return HttpClaims(jwt, _caller("jwt", *_subject(jwt)))
    if iam := _object(authorizer, "iam") or _signer(context):
        return HttpClaims(iam, _caller("iam", *_signed_by(iam)))
    if authorizer in _NO_AUTHORIZER:
        certificate = _certificate(context)
        return HttpClaims(certificate, _held_by(certificate))
    claims = _object(authorizer, "lambda") or authorizer
    principal = _caller("lambda", _name(claims, "principalId"))
    return HttpClaims(claims, principal or _caller("lambda", *_subject(claims)))


def _caller(kind: str, name: str | int, *more: Any) -> str:
    """Return the text of a name with the kind of who says it: a subject may be called as a role is."""
    return json.dumps([kind, name, *more]) if name != "" else ""


def _signer(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return who signed the request to a REST API. Without a signature the gateway writes null."""
    identity = _object(context, "identity")
    return identity if _text(identity, "userArn") else {}


def _signed_by(iam: Mapping[str, Any]) -> list[str]:
    """Return who signed. All users of an identity pool sign as one role: their ids tell them apart."""
    role = _role(_text(iam, "userArn"))
    identity = _text(_object(iam, "cognitoIdentity"), "identityId") or _text(iam, "cognitoIdentityId")
    return [role, identity] if identity else [role]


def _certificate(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the certificate of the client. Without mutual TLS the gateway writes null, or nothing."""
    of_format_2 = _object(_object(context, "authentication"), "clientCert")
    return of_format_2 or _object(_object(context, "identity"), "clientCert")


def _held_by(certificate: Mapping[str, Any]) -> str:
    """Return who holds a certificate, the same once it is renewed. Two issuers may give one subject to two parties."""
    subject, issuer = _text(certificate, "subjectDN"), _text(certificate, "issuerDN")
    return _caller("mtls", subject, issuer) if issuer else ""


def _subject(claims: Mapping[str, Any]) -> tuple[str | int, Any]:
    """Return who a token is about, and its issuer. Two issuers may give one subject to two parties."""
    return _name(claims, "sub"), claims.get("iss", "")


def _name(part: Mapping[str, Any], name: str) -> str | int:
    """Return the text or whole number that somebody is named by. It is empty for anything else."""
    value = part.get(name)
    return value if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)) else ""


def _role(arn: str) -> str:
    """Return the ARN without the name of a session, which differs from one process of the sender to the next."""
    return arn.rpartition("/")[0] if ":assumed-role/" in arn else arn


def _object(part: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = part.get(name)
    return value if isinstance(value, dict) else {}


def _text(part: Mapping[str, Any], name: str) -> str:
    value = part.get(name)
    return value if isinstance(value, str) else ""
