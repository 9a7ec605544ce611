"""What stands in front of a function that answers over HTTP."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.fact import NOWHERE, Document, Fact, like

_URL: Final = Document(
    "Creating and managing Lambda function URLs", "https://docs.aws.amazon.com/lambda/latest/dg/urls-configuration.html"
)
_URL_AUTH: Final = Document(
    "Control access to Lambda function URLs", "https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html"
)
_URL_INVOKE: Final = Document(
    "Invoking Lambda function URLs", "https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html"
)
_REST: Final = Document(
    "Quotas for configuring and running a REST API in API Gateway",
    "https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-execution-service-limits-table.html",
)
_HTTP: Final = Document(
    "Create AWS Lambda proxy integrations for HTTP APIs",
    "https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html",
)
_ALB: Final = Document(
    "Use Lambda functions as targets of an Application Load Balancer",
    "https://docs.aws.amazon.com/elasticloadbalancing/latest/application/lambda-functions.html",
)

HTTP_FACTS: Final = (
    Fact(
        name="url-payload",
        sentence="A function URL takes and returns at most 6 MB, in the form 2.0 of API Gateway's HTTP APIs.",
        source=_URL_INVOKE,
        read="2023-10",
        relied_on_by=("payload/http_source.py:http_source", "wire/http_request.py:read_http_request"),
        engines=NOWHERE,
        by_hand="Callbacks of this size are refused here long before.",
    ),
    Fact(
        name="url-public",
        sentence="A URL of auth type NONE is public only with permissions for `lambda:InvokeFunctionUrl` and, since "
        "October 2025, `lambda:InvokeFunction` under `lambda:InvokedViaFunctionUrl`.",
        source=_URL_AUTH,
        read="2026-11",
        relied_on_by=("deploy/cloudformation.py:_CloudFormation._url", "deploy/terraform.py:_Terraform._url"),
        words=(
            "AWS::Lambda::Url",
            "AWS::Lambda::Permission",
            "AuthType",
            "FunctionUrlAuthType",
            "InvokedViaFunctionUrl",
        ),
        engines=NOWHERE,
    ),
    Fact(
        name="url-throttled",
        sentence="A throttled function URL answers 429; its rate is ten times its reserved concurrency a second.",
        source=_URL,
        read="2023-10",
        relied_on_by=("docs/guides/callbacks-over-http.md",),
        words=("ReservedConcurrentExecutions",),
        engines=NOWHERE,
        by_hand="Takes a reserved concurrency, which small accounts do not have.",
    ),
    Fact(
        name="url-failed",
        sentence="A function that fails answers 502 by its URL and by API Gateway, and nobody tries it again.",
        source=_URL_INVOKE,
        relied_on_by=("worker/http_callbacks.py:unavailable", "docs/guides/callbacks-over-http.md"),
        engines=NOWHERE,
        by_hand="A function that raises shows it.",
    ),
    Fact(
        name="gateway-timeout",
        sentence="API Gateway waits 29 seconds for a REST API's function by default, 30 for an HTTP API's; the "
        "function runs on.",
        source=_REST,
        relied_on_by=(
            "worker/http_callbacks.py:HttpCallbacks.respond",
            "worker/start_rule.py:_GATEWAY_WAITS",
            "docs/guides/callbacks-over-http.md",
            "docs/guides/start-over-http.md",
        ),
        limit=29,
        engines=NOWHERE,
        by_hand="A function that sleeps shows it.",
    ),
    Fact(
        name="gateway-payload",
        sentence="API Gateway takes at most 10 MB, and the function's 6 MB hold first.",
        source=_REST,
        relied_on_by=("wire/http_request.py:read_http_request",),
        limit=10_485_760,
        engines=NOWHERE,
        by_hand="Callbacks of this size are refused here long before.",
    ),
    Fact(
        name="gateway-forms",
        sentence="A request comes in the form 1.0 (REST, `httpMethod`, lists of several values) or 2.0 (HTTP APIs and "
        "URLs, `requestContext.http`, values joined by commas, cookies apart).",
        source=_HTTP,
        relied_on_by=("payload/http_source.py:http_source", "wire/http_request.py:read_http_request"),
        engines=like("deliveries"),
        by_hand="Recorded requests of each form are in the tests.",
    ),
    Fact(
        name="gateway-authorizers",
        sentence="What an authorizer says of a request's sender is in `requestContext`, which no request can write: "
        "`authorizer.jwt.claims`, `authorizer.lambda` or `authorizer.iam` in the form 2.0, `authorizer.claims`, "
        "`authorizer` itself or `identity.userArn` in the form 1.0. `authorizer.lambda` is null where the function let "
        "the sender in and said no more. All users of an identity pool sign as one role: `cognitoIdentity.identityId`, "
        "or `identity.cognitoIdentityId`, tells them apart.",
        source=_HTTP,
        relied_on_by=("wire/http_claims.py:read_claims", "worker/start_rule.py:StartRule.caller_of"),
        engines=NOWHERE,
        by_hand="Needs gateways with an authorizer of each kind.",
    ),
    Fact(
        name="gateway-certificates",
        sentence="Under mutual TLS the certificate of the client is in `requestContext`, too: as "
        "`authentication.clientCert` in the form 2.0, as `identity.clientCert` in the form 1.0, with `subjectDN`, "
        "`issuerDN` and `serialNumber`. It is null, or not there, elsewhere, as by the gateway's default endpoint.",
        source=_HTTP,
        relied_on_by=("wire/http_claims.py:read_claims", "docs/guides/start-over-http.md"),
        engines=NOWHERE,
        by_hand="Needs a domain with a truststore.",
    ),
    Fact(
        name="alb-payload",
        sentence="A load balancer takes and returns at most 1 MB by a function.",
        source=_ALB,
        read="2026-11",
        relied_on_by=("wire/http_request.py:read_http_request", "wire/http_response.py:MOST_BEHIND_A_LOAD_BALANCER"),
        limit=1_048_576,
        engines=NOWHERE,
        by_hand="Callbacks of this size are refused here long before, and a result that is larger is left out.",
    ),
    Fact(
        name="alb-one-value",
        sentence="A load balancer passes on the last value alone of a repeated header or query parameter, unless "
        "multi-value headers are enabled; what it passes on of the query is not decoded.",
        source=_ALB,
        relied_on_by=("wire/http_request.py:read_http_request", "wire/answer_link.py:MOST_CHOICES"),
        engines=like("deliveries"),
        by_hand="Needs a load balancer, which costs by the hour.",
    ),
)
