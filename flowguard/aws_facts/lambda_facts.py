"""What Lambda does with functions."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.fact import NOWHERE, Document, Fact, like

_CONCURRENCY: Final = Document(
    "Configuring reserved concurrency for a function",
    "https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html",
)
_QUOTAS: Final = Document("Lambda quotas", "https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html")
_INVOKE: Final = Document("Invoke", "https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html")
_ASYNC: Final = Document(
    "How Lambda handles errors and retries with asynchronous invocation",
    "https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html",
)
_LIFECYCLE: Final = Document(
    "Understanding the Lambda execution environment lifecycle",
    "https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html",
)
_INIT: Final = Document(
    "AWS Lambda standardizes billing for INIT Phase",
    "https://aws.amazon.com/blogs/compute/aws-lambda-standardizes-billing-for-init-phase/",
)
_SNAPSTART: Final = Document(
    "Improving startup performance with Lambda SnapStart",
    "https://docs.aws.amazon.com/lambda/latest/dg/snapstart.html",
)
_RECURSION: Final = Document(
    "Use Lambda recursive loop detection to prevent infinite loops",
    "https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html",
)
_CONTEXT: Final = Document(
    "Using the Lambda context object to retrieve Python function information",
    "https://docs.aws.amazon.com/lambda/latest/dg/python-context.html",
)
_VARIABLES: Final = Document(
    "Working with Lambda environment variables",
    "https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html",
)
_NETWORK: Final = Document("VpcConfig", "https://docs.aws.amazon.com/lambda/latest/api/API_VpcConfig.html")
_CREATE: Final = Document("CreateFunction", "https://docs.aws.amazon.com/lambda/latest/api/API_CreateFunction.html")

LAMBDA_FACTS: Final = (
    Fact(
        name="lambda-timeout",
        sentence="A function runs for at most 900 seconds; at its timeout it is stopped wherever it is.",
        source=_QUOTAS,
        read="2023-10",
        relied_on_by=(
            "deploy/options.py:LONGEST_TIMEOUT",
            "testing/explorer/run/invocation.py:LONGEST_INVOCATION",
            "worker/lifetimes.py:LONGEST_HANDLING",
        ),
        limit=900,
        words=(
            "AWS::Lambda::Function",
            "Timeout",
        ),
        engines=like("deliveries"),
        by_hand="The refusal of a longer timeout shows at deployment.",
    ),
    Fact(
        name="lambda-variables-size",
        sentence="All variables of a function have at most 4 KB, with their names.",
        source=_QUOTAS,
        read="2026-11",
        relied_on_by=("deploy/variables.py:LARGEST_ENVIRONMENT", "docs/operate/deploy.md"),
        limit=4_096,
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="lambda-variables-reserved",
        sentence="Lambda sets variables such as `AWS_REGION` and `_HANDLER` itself, and refuses a function that sets "
        "them. `TZ`, `LANG`, `PATH` and `PYTHONPATH` may be set.",
        source=_VARIABLES,
        relied_on_by=("deploy/options.py:RESERVED",),
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="lambda-own-account",
        sentence="A function's role and its code signing configuration are of the function's account, the "
        "configuration of its region too: a role of another account is refused as a cross-account pass.",
        source=_CREATE,
        relied_on_by=("deploy/option_arns.py:arn_problems", "deploy/regions.py:in_one_region"),
        engines=NOWHERE,
        by_hand="The refusal shows at deployment. It needs two accounts.",
    ),
    Fact(
        name="lambda-subnets",
        sentence="A function in a network has at most 16 subnets; so have the pollers of Kafka.",
        source=_NETWORK,
        read="2026-11",
        relied_on_by=("deploy/options.py:MOST_SUBNETS",),
        limit=16,
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="lambda-security-groups",
        sentence="A function in a network has at most 5 security groups; so have the pollers of Kafka.",
        source=_NETWORK,
        read="2026-11",
        relied_on_by=("deploy/options.py:MOST_SECURITY_GROUPS",),
        limit=5,
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="lambda-timeout-default",
        sentence="A function whose time-out nobody set is stopped after 3 seconds.",
        source=_CREATE,
        relied_on_by=("deploy/account.py:DEFAULT_TIMEOUT",),
        limit=3,
        engines=NOWHERE,
        by_hand="`flowguard doctor` reads it of a live function.",
    ),
    Fact(
        name="lambda-reserved-none",
        sentence="A function whose `ReservedConcurrentExecutions` is 0 is never invoked: each invocation is throttled.",
        source=_CONCURRENCY,
        relied_on_by=("deploy/function_checks.py:_reserved",),
        words=("ReservedConcurrentExecutions", "GetFunctionConcurrency"),
        engines=NOWHERE,
        by_hand="`aws lambda put-function-concurrency` with 0 shows it.",
    ),
    Fact(
        name="lambda-remaining-time",
        sentence="`get_remaining_time_in_millis` says how long the invocation has until its timeout.",
        source=_CONTEXT,
        read="2023-10",
        relied_on_by=("handler.py:LambdaBudget",),
        engines=like("deliveries"),
        by_hand="Every function that uses it shows it.",
    ),
    Fact(
        name="lambda-memory",
        sentence="A function has 128 MB to 10,240 MB of memory.",
        source=_QUOTAS,
        read="2023-10",
        relied_on_by=(
            "cli/cost.py:cost",
            "deploy/options.py:FunctionOptions",
        ),
        limit=10_240,
        words=("MemorySize",),
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="lambda-sync-payload",
        sentence="A synchronous invocation takes and returns at most 6 MB; more is `RequestTooLargeException`, 413.",
        source=_INVOKE,
        read="2026-11",
        relied_on_by=("sim/limits/functions.py:LARGEST", "wire/http_response.py:MOST_OF_LAMBDA"),
        limit=6_291_456,
        words=("RequestTooLargeException", "SerializedRequestEntityTooLargeException"),
        engines=like("memory", "moto", ministack="takes more"),
    ),
    Fact(
        name="lambda-async-payload",
        sentence="An asynchronous invocation takes at most 1 MB.",
        source=_INVOKE,
        read="2026-11",
        relied_on_by=("sim/limits/functions.py:LARGEST", "protocol/outbox.py:largest"),
        limit=1_048_576,
        words=("InvocationType", "Payload"),
        engines=like("memory", "moto", ministack="takes more"),
    ),
    Fact(
        name="lambda-payload-json",
        sentence="A payload that is no JSON is `InvalidRequestContentException`.",
        source=_INVOKE,
        read="2026-11",
        relied_on_by=("sim/limits/functions.py:event_of", "wire/bodies.py:function_payload"),
        words=("InvalidRequestContentException",),
        engines=like("memory", "moto", ministack="takes any text"),
    ),
    Fact(
        name="lambda-missing-function",
        sentence="Invoking a function that does not exist is `ResourceNotFoundException`, 404.",
        source=_INVOKE,
        read="2026-11",
        relied_on_by=("sim/limits/functions.py:no_function", "aws/sender.py:refused_by"),
        engines=like("ministack", memory="has every function", moto="runs a function of any name"),
    ),
    Fact(
        name="lambda-async-accepted",
        sentence="An asynchronous invocation is answered 202 when it is queued; nothing of the function's result "
        "comes back.",
        source=_INVOKE,
        read="2026-11",
        relied_on_by=("aws/sender.py:AWSSender", "sim/limits/functions.py:accepted"),
        words=(
            "Invoke",
            "StatusCode",
        ),
        engines=like("memory", "moto", "ministack"),
    ),
    Fact(
        name="lambda-async-retries",
        sentence="An asynchronous invocation that fails is tried twice more, after one and two minutes; then the event "
        "goes to the on-failure destination, or is gone.",
        source=_ASYNC,
        read="2026-11",
        relied_on_by=("docs/explain/guarantees.md", "worker/runtime.py:Runtime"),
        limit=2,
        engines=like(ministack="tries again after one and two seconds"),
    ),
    Fact(
        name="lambda-async-throttled",
        sentence="An asynchronous event that is throttled, or meets a system error, is tried again for up to six "
        "hours.",
        source=_ASYNC,
        read="2026-11",
        relied_on_by=("docs/explain/guarantees.md",),
        engines=NOWHERE,
        by_hand="Takes hours.",
    ),
    Fact(
        name="lambda-async-duplicates",
        sentence="An asynchronous event may be delivered more than once, though the function returned no error.",
        source=_ASYNC,
        read="2026-11",
        relied_on_by=("protocol/claims.py:decide",),
        engines=like("deliveries"),
        by_hand="It is rare; no program can wait for it.",
    ),
    Fact(
        name="lambda-loop-detection",
        sentence="A function that meets the same chain of requests more than about 16 times, by SQS, SNS, S3 or "
        "Lambda, is stopped before its next invocation, unless its `RecursiveLoop` is `Allow`. The record stays in its "
        "queue, each try uses a receive up, and at `maxReceiveCount` it goes to the dead-letter queue.",
        source=_RECURSION,
        relied_on_by=(
            "docs/operate/operating.md",
            "deploy/template.py:Template._add_function",
            "sim/weather/loops.py:MOST_IN_CHAIN",
        ),
        limit=16,
        words=("RecursiveLoop",),
        engines=like(deliveries="as the weather `loops`"),
    ),
    Fact(
        name="lambda-loop-lineage",
        sentence="The chain is known by the `Lineage` of the trace header, which boto3 passes on inside a function. "
        "Whether a trace header of one's own begins a new chain is documented nowhere.",
        source=_RECURSION,
        relied_on_by=("wire/trace_context.py:HEADER", "aws/sender.py:_traced"),
        engines=NOWHERE,
    ),
    Fact(
        name="lambda-environment-reused",
        sentence="An environment serves many invocations, one at a time, and is frozen between them; what was begun in "
        "the background goes on at the next, or never.",
        source=_LIFECYCLE,
        read="2023-10",
        relied_on_by=("aws/clients.py:Clients", "wire/signing.py:LOADED_AGAIN_AFTER", "text/lambda_log.py:_Invocation"),
        engines=like("deliveries"),
        by_hand="Every warm function shows it.",
    ),
    Fact(
        name="lambda-init-phase",
        sentence="What a module does at import runs in the init phase, with more CPU, for at most 10 seconds; a longer "
        "one begins anew with the first invocation, inside its timeout.",
        source=_LIFECYCLE,
        read="2023-10",
        relied_on_by=("handler.py:lambda_handler", "docs/proofs/performance.md"),
        limit=10,
        engines=NOWHERE,
        by_hand="`INIT_REPORT` in the log of a slow function shows it.",
    ),
    Fact(
        name="lambda-init-charged",
        sentence="Since August 2025 the init phase is charged like the invocation that it comes before. In production "
        "under 1% of the invocations begin with one.",
        source=_INIT,
        relied_on_by=("deploy/flow_cost.py:Invocations",),
        engines=NOWHERE,
        by_hand="`Billed Duration` in the `REPORT` line of a cold start includes its `Init Duration`.",
    ),
    Fact(
        name="lambda-snapstart",
        sentence="With SnapStart an environment begins as a copy of one that was initialised when the version was "
        "published: connections, random numbers and times of that moment are in every copy.",
        source=_SNAPSTART,
        relied_on_by=("names/ids.py:RandomIds", "aws/clients.py:Clients"),
        engines=NOWHERE,
        by_hand="Needs a published version; a random number drawn at import is the same in two environments.",
    ),
    Fact(
        name="lambda-name-length",
        sentence="A function's name has at most 64 characters: letters, digits, hyphens and underscores.",
        source=_CREATE,
        read="2026-11",
        relied_on_by=("deploy/derive.py:LONGEST_NAME_AT_LAMBDA",),
        limit=64,
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="lambda-zip-upload",
        sentence="A zip that is uploaded with the call has at most 50 MB.",
        source=_QUOTAS,
        read="2023-10",
        relied_on_by=("deploy/bundle.py:LARGEST_UPLOAD",),
        limit=52_428_800,
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
    Fact(
        name="lambda-zip-unpacked",
        sentence="The unpacked code of a function, layers included, has at most 250 MB.",
        source=_QUOTAS,
        read="2023-10",
        relied_on_by=("deploy/code_zip.py:LARGEST_UNPACKED",),
        limit=262_144_000,
        engines=NOWHERE,
        by_hand="The refusal shows at deployment.",
    ),
)
