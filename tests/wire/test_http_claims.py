"""Who has sent a request, as each authorizer says it."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.wire.http_claims import NOBODY, read_claims

JWT = {"iss": "https://id.example", "sub": "ann", "tenant": "t1"}
IAM = {"userArn": "arn:aws:iam::123456789012:user/ann", "userId": "AIDA"}
ROLE = "arn:aws:sts::123456789012:assumed-role/shop/i-0a1"
POOL_ROLE = "arn:aws:sts::123456789012:assumed-role/app"
POOL = {"userArn": f"{POOL_ROLE}/CognitoIdentityCredentials"}
ANN = {"amr": ["authenticated"], "identityId": "ann", "identityPoolId": "pool"}
OF_POOL = f'["iam", "{POOL_ROLE}", "ann"]'
OF_APP = f'["iam", "{POOL_ROLE}"]'
OF_ANN = '["iam", "arn:aws:iam::123456789012:user/ann"]'
CERTIFICATE = {
    "clientCertPem": "-----BEGIN CERTIFICATE-----",
    "subjectDN": "CN=partner-a",
    "issuerDN": "CN=ca",
    "serialNumber": "a1",
    "validity": {"notBefore": "May 28 12:30:02 2019 GMT", "notAfter": "Aug  5 09:36:04 2021 GMT"},
}
NO_SUBJECT = {**CERTIFICATE, "subjectDN": ""}
NO_ISSUER = {"subjectDN": "CN=partner-a"}


def context(**members: Any) -> dict[str, Any]:
    return {"requestContext": members}


@pytest.mark.parametrize(
    ("event", "claims", "caller"),
    [
        (context(authorizer={"jwt": {"claims": JWT, "scopes": None}}), JWT, '["jwt", "ann", "https://id.example"]'),
        (context(authorizer={"claims": JWT, "scopes": None}), JWT, '["jwt", "ann", "https://id.example"]'),
        (context(authorizer={"jwt": {"claims": {"sub": "ann"}}}), {"sub": "ann"}, '["jwt", "ann", ""]'),
        (context(authorizer={"jwt": {"claims": {"aud": "x"}}}), {"aud": "x"}, ""),
        (
            context(authorizer={"jwt": {"claims": {"aud": "x", "principalId": "a"}}}),
            {"aud": "x", "principalId": "a"},
            "",
        ),
        (context(authorizer={"iam": IAM}), IAM, OF_ANN),
        (
            context(authorizer={"iam": {"userArn": ROLE}}),
            {"userArn": ROLE},
            '["iam", "arn:aws:sts::123456789012:assumed-role/shop"]',
        ),
        (context(authorizer={"iam": {"sub": "x"}}), {"sub": "x"}, ""),
        (context(identity={**IAM, "sourceIp": "192.0.2.1"}), {**IAM, "sourceIp": "192.0.2.1"}, OF_ANN),
        (context(authorizer={"lambda": {"sub": "ann", "n": 1}}), {"sub": "ann", "n": 1}, '["lambda", "ann", ""]'),
        (context(authorizer={"lambda": {"sub": 7, "iss": 1}}), {"sub": 7, "iss": 1}, '["lambda", 7, 1]'),
        (context(authorizer={"lambda": {"sub": True}}), {"sub": True}, ""),
        (context(authorizer={"lambda": {"sub": ""}}), {"sub": ""}, ""),
        (context(authorizer={"lambda": {"sub": 0}}), {"sub": 0}, '["lambda", 0, ""]'),
        (context(authorizer={"lambda": {"principalId": "ann"}}), {"principalId": "ann"}, '["lambda", "ann"]'),
        (context(authorizer={"principalId": "ann", "n": "1"}), {"principalId": "ann", "n": "1"}, '["lambda", "ann"]'),
        (context(authorizer={"userArn": "arn"}), {"userArn": "arn"}, ""),
        (context(authorizer={"principalId": 7}), {"principalId": 7}, '["lambda", 7]'),
        (context(authorizer={"principalId": 7.5}), {"principalId": 7.5}, ""),
        (context(authorizer={"lambda": None}), {"lambda": None}, ""),
        (
            context(authorizer={"claims": None, "scopes": None, "x": "1"}),
            {"claims": None, "scopes": None, "x": "1"},
            "",
        ),
        (context(authorizer={"iam": {**POOL, "cognitoIdentity": ANN}}), {**POOL, "cognitoIdentity": ANN}, OF_POOL),
        (context(authorizer={"iam": {**POOL, "cognitoIdentity": None}}), {**POOL, "cognitoIdentity": None}, OF_APP),
        (context(identity={**POOL, "cognitoIdentityId": "ann"}), {**POOL, "cognitoIdentityId": "ann"}, OF_POOL),
        (context(authentication={"clientCert": CERTIFICATE}), CERTIFICATE, '["mtls", "CN=partner-a", "CN=ca"]'),
        (context(identity={"clientCert": CERTIFICATE}), CERTIFICATE, '["mtls", "CN=partner-a", "CN=ca"]'),
        (context(authentication={"clientCert": NO_SUBJECT}), NO_SUBJECT, ""),
        (context(authentication={"clientCert": NO_ISSUER}), NO_ISSUER, ""),
        (
            context(authorizer={"claims": None, "scopes": None}, identity={"clientCert": CERTIFICATE}),
            CERTIFICATE,
            '["mtls", "CN=partner-a", "CN=ca"]',
        ),
        (context(authorizer={"iam": IAM}, authentication={"clientCert": CERTIFICATE}), IAM, OF_ANN),
        (
            context(authorizer={"lambda": {"n": 1}}, authentication={"clientCert": CERTIFICATE}),
            {"n": 1},
            "",
        ),
    ],
)
def test_each_authorizer_says_who_the_sender_is(event: dict[str, Any], claims: dict[str, Any], caller: str) -> None:
    assert read_claims(event) == (claims, caller)


@pytest.mark.parametrize(
    "event",
    [
        context(),
        context(authorizer=None),
        context(authorizer=[]),
        context(authorizer={"claims": None, "scopes": None}),
        context(authorizer={}, identity={"userArn": None, "sourceIp": "192.0.2.1"}),
        context(identity=None),
        context(authentication=None, identity={"clientCert": None}),
        context(authentication={"clientCert": None}),
        {**context(), "headers": {"x-amzn-mtls-clientcert-subject": "CN=partner-a"}},
        {**context(), "headers": {"authorizer": "x", "sub": "ann"}},
        {"requestContext": None},
    ],
)
def test_where_nobody_was_authorized_there_are_no_claims(event: dict[str, Any]) -> None:
    assert read_claims(event) == NOBODY


def test_two_issuers_name_two_callers() -> None:
    pairs = [{"iss": "a", "sub": "x"}, {"iss": "b", "sub": "x"}, {"iss": 'a", "', "sub": "x"}]
    assert len({read_claims(context(authorizer={"jwt": {"claims": pair}})).caller for pair in pairs}) == 3


def test_certificates_of_one_subject_are_callers_by_their_issuers() -> None:
    given = [CERTIFICATE, {**CERTIFICATE, "issuerDN": "CN=other"}, {**CERTIFICATE, "subjectDN": "CN=partner-b"}]
    renewed = {**CERTIFICATE, "serialNumber": "b2", "clientCertPem": "-----BEGIN CERTIFICATE-----\n"}
    callers = [read_claims(context(authentication={"clientCert": each})).caller for each in [*given, renewed]]
    assert len(set(callers)) == len(given)
    assert callers[0] == callers[-1]


def test_who_is_called_as_another_authorizers_caller_is_another_caller() -> None:
    arn = IAM["userArn"]
    given: list[dict[str, Any]] = [
        {"iam": IAM},
        {"jwt": {"claims": {"sub": arn}}},
        {"lambda": {"principalId": arn}},
        {"lambda": {"sub": arn}},
        {"lambda": {"principalId": OF_ANN}},
        {"lambda": {"principalId": 7}},
        {"lambda": {"principalId": "7"}},
    ]
    assert len({read_claims(context(authorizer=each)).caller for each in given}) == len(given)
