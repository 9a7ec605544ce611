"""What a deployment needs of flows whose runs begin with the records of streams."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel, Field

from flowguard import Flow, Stage, Step
from flowguard.deploy.arns import stream_arn
from flowguard.deploy.derive import needs_of
from flowguard.deploy.finding import LiveFinding
from flowguard.deploy.flow_graph import graph_of
from flowguard.deploy.found import FoundFunction, FunctionKind
from flowguard.deploy.function_checks import check_functions
from flowguard.deploy.kafka_plan import MOST_TRIES
from flowguard.deploy.live import LiveAccount
from flowguard.deploy.needs import FOR_EVER, Deployment, FunctionNeed, StreamNeed, Target
from flowguard.deploy.options import TABLE_KEEPS, DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.stream_checks import check_own_table, check_shared_streams, check_streams
from flowguard.outcome import Done, Outcome
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.streams import KinesisStream, TableStream
from tests.deploy import streaming
from tests.deploy.exercised import needs
from tests.deploy.streaming import CLICKED, KEY, PRICES, SHARED, Change, Changes, Click, Clicks, Count
from tests.deploy.templates import MODULES, of_type, template
from tests.deploy.test_doctor import SESSION

TABLES: Final = {"marks": "sku"}
COUNT: Final = "clicks-count"
NOTICE: Final = "changes-notice"


def deployment(**changes: Any) -> Deployment:
    given = {**streaming.OPTIONS, **changes}
    return needs(MODULES["streaming"], options=DeployOptions.model_validate(given))


def with_streams(**streams: Any) -> Deployment:
    """The deployment with other options of some streams."""
    return deployment(streams={**streaming.OPTIONS["streams"], **streams})


def problems(**streams: Any) -> tuple[str, ...]:
    with pytest.raises(CannotDeploy) as refused:
        with_streams(**streams)
    return refused.value.problems


def stream(needed: Deployment, name: str) -> StreamNeed:
    [only] = [each for function in needed.functions for each in function.streams if each.name == name]
    return only


def may(function: FunctionNeed, on: Target) -> dict[str, tuple[str, ...]]:
    return {each.name: each.actions for each in function.permissions if each.on is on}


# -- what is needed


def test_the_function_of_the_first_stage_reads_the_streams_of_its_flow() -> None:
    needed = deployment()
    assert [[each.name for each in function.streams] for function in needed.functions] == [
        ["stock", "prices"],
        ["viewed", "clicked"],
    ]
    assert stream(needed, "viewed") == StreamNeed(
        *("viewed", False, "clicks-dead-letters", "TRIM_HORIZON", 4, 0, 1, FOR_EVER, MOST_TRIES)
    )
    assert stream(needed, "clicked") == StreamNeed(
        *("clicked", False, "clicks-dead-letters", "LATEST", 200, 5, 3, 3_600, 50), arn=CLICKED, kms_key=KEY
    )


def test_a_record_is_bound_by_its_age_only_where_the_options_say_so() -> None:
    """Lambda discards what is older before the function has had it."""
    aged = stream(with_streams(viewed={"max_age": 43_200}), "viewed")
    assert (aged.max_age, aged.max_attempts) == (43_200, None)
    both = stream(with_streams(viewed={"max_age": 43_200, "max_attempts": 7}), "viewed")
    assert (both.max_age, both.max_attempts) == (43_200, 7)


def test_a_function_may_read_its_streams_and_tell_what_is_given_up_and_nothing_else() -> None:
    needed = deployment()
    count, notice = needed.function(COUNT), needed.function(NOTICE)
    kinesis = (
        *("kinesis:DescribeStream", "kinesis:DescribeStreamSummary", "kinesis:GetRecords"),
        *("kinesis:GetShardIterator", "kinesis:ListShards"),
    )
    assert may(count, Target.STREAM) == {
        "stream/viewed": kinesis,
        SHARED: kinesis,
        CLICKED: ("kinesis:SubscribeToShard",),
    }
    changes = ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams")
    assert may(notice, Target.STREAM) == {"table/stock/stream/*": changes, PRICES: changes}
    assert "sqs:SendMessage" in may(count, Target.QUEUE)["clicks-dead-letters"]
    assert "sqs:SendMessage" in may(notice, Target.QUEUE)["notice.fifo"], "a retry goes to the stage's inbox"


def test_what_lambda_gives_up_is_told_to_a_standard_queue_of_the_account() -> None:
    class Elsewhere(Flow, name="elsewhere", object_id="page", streams=(KinesisStream("s"),), dead_letters="dead.fifo"):
        stages = (Count,)

    needed = needed_of(Elsewhere)
    assert stream(needed, "s").undelivered == "elsewhere-undelivered"
    assert "sqs:SendMessage" in may(needed.functions[0], Target.QUEUE)["elsewhere-undelivered"]
    assert "elsewhere-undelivered" in {queue.name for queue in needed.queues}


def needed_of(*flows: type[Flow], options: Mapping[str, Any] | None = None) -> Deployment:
    """The deployment of one function that serves all stages of the flows."""
    stages = tuple((flow, stage) for flow in flows for stage in flow.stages)
    serving = FoundFunction("tests.deploy.streaming", "serve", FunctionKind.STAGES, flows, stages)
    return needs_of([serving], DeployOptions.model_validate(options or {}))


def test_a_flow_without_streams_gets_none_of_it() -> None:
    class Plain(Flow, name="plain", object_id="page", inbox="plain.fifo", dead_letters="dead.fifo"):
        stages = (Count,)

    needed = needed_of(Plain)
    assert needed.functions[0].streams == ()
    assert not may(needed.functions[0], Target.STREAM)
    assert "sqs:SendMessage" not in may(needed.functions[0], Target.QUEUE)["plain.fifo"]
    assert {queue.name for queue in needed.queues} == {"plain.fifo", "dead.fifo"}


def test_only_the_first_inbox_gets_what_a_stream_has_brought() -> None:
    class Later(Stage[Click], name="later", inbox="later.fifo"):
        def handle(self, click: Click, step: Step) -> Outcome:
            return Done()

    class Both(Flow, name="both", object_id="page", streams=(KinesisStream("s"),), entries=("later",)):
        stages = (Count, Later)

    sends = {name for name, actions in may(needed_of(Both).functions[0], Target.QUEUE).items() if SENDS in actions}
    assert sends == {"both", "both-dead-letters"}


SENDS: Final = "sqs:SendMessage"


def test_only_the_function_of_the_first_stage_reads_streams() -> None:
    class Later(Stage[Click], name="later", inbox="later"):
        def handle(self, click: Click, step: Step) -> Outcome:
            return Done()

    class First(Stage[Click], name="first", then="later"):
        def handle(self, click: Click, step: Step) -> Outcome:
            return Later.message(click)

    class Both(Flow, name="both", object_id="page", streams=(KinesisStream("s"),)):
        stages = (First, Later)

    functions = [
        FoundFunction("tests.deploy.streaming", stage.name, FunctionKind.STAGES, (Both,), ((Both, stage),))
        for stage in Both.stages
    ]
    needed = needs_of(functions, DeployOptions())
    assert [len(function.streams) for function in needed.functions] == [1, 0]


def test_the_keys_of_a_stream_and_of_its_table_may_be_used_through_their_services() -> None:
    of_all = KEY.replace("210987654321", "123456789012")
    needed = deployment(kms_key=of_all, account="123456789012")
    assert stream(needed, "stock").kms_key == of_all
    assert stream(needed, "prices").kms_key is None, "it is not made here, and its key is not known"
    assert stream(needed, "clicked").kms_key == KEY
    assert may(needed.function(COUNT), Target.KEY)[KEY] == ("kms:Decrypt",)
    [through] = [each.via for each in needed.function(COUNT).permissions if each.name == KEY]
    assert through == ("kinesis",)
    of_table = with_streams(stock={"kms_key": KEY})
    assert stream(of_table, "stock").kms_key == KEY
    assert [each.via for each in of_table.function(NOTICE).permissions if each.name == KEY] == [("dynamodb",)]


def test_a_stream_is_called_as_the_rule_of_the_names_has_it() -> None:
    named = deployment(settings={"names": "staging-*", "signing_keys": "ssm:/keys"})
    places = [each.place for function in named.functions for each in function.streams]
    assert places == ["table/staging-stock/stream/*", PRICES, "stream/staging-viewed", SHARED]
    may_read = {name for function in named.functions for name in may(function, Target.STREAM)}
    assert may_read == {*places, CLICKED}
    assert stream(named, "clicked").undelivered == "staging-clicks-dead-letters"
    renamed = deployment(tables={"stock": {"name": "inventory"}, "viewed": {"name": "seen"}})
    assert [each.place for function in renamed.functions for each in function.streams] == [
        *("table/inventory/stream/*", PRICES, "stream/viewed", SHARED)
    ]
    assert stream(named, "staging-viewed").undelivered == "staging-clicks-dead-letters"


@pytest.mark.parametrize(
    ("place", "arn"),
    [
        ("stream/s", "arn:aws:kinesis:eu-west-1:123456789012:stream/s"),
        ("table/t/stream/*", "arn:aws:dynamodb:eu-west-1:123456789012:table/t/stream/*"),
        (PRICES, PRICES),
    ],
)
def test_a_permission_names_the_arn_of_the_stream(place: str, arn: str) -> None:
    assert stream_arn(place).filled("aws", "eu-west-1", "123456789012") == arn


def test_the_graph_of_a_flow_names_its_streams() -> None:
    details = [line for node in graph_of(Changes).nodes for line in node.details]
    assert [line for line in details if line.startswith("begins")] == [
        *("begins with dynamodb:stock", "begins with dynamodb:prices")
    ]


# -- what the template says


def test_a_mapping_says_where_it_begins_and_what_becomes_of_what_fails() -> None:
    mappings = {
        json.dumps(own["EventSourceArn"]): own
        for _, own in of_type("streaming", "AWS::Lambda::EventSourceMapping")
        if "StartingPosition" in own
    }
    assert len(mappings) == 4
    for own in mappings.values():
        assert own["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert own["BisectBatchOnFunctionError"] is True
        assert own["DestinationConfig"]["OnFailure"]["Destination"]["Fn::GetAtt"][0].endswith("DeadLettersQueue")
        assert own["MaximumRecordAgeInSeconds"] in (FOR_EVER, 3_600)
        assert 0 < own["MaximumRetryAttempts"] <= MOST_TRIES
    assert {place: (own["BatchSize"], own["StartingPosition"]) for place, own in mappings.items()} == {
        '{"Fn::GetAtt": ["StockTable", "StreamArn"]}': (10, "TRIM_HORIZON"),
        json.dumps(PRICES): (10, "TRIM_HORIZON"),
        json.dumps({"Fn::Sub": f"arn:${{AWS::Partition}}:kinesis:{HERE}:stream/viewed"}): (4, "TRIM_HORIZON"),
        json.dumps(CLICKED): (200, "LATEST"),
    }
    chosen = ("MaximumRetryAttempts", "MaximumBatchingWindowInSeconds", "ParallelizationFactor")
    assert [mappings[json.dumps(CLICKED)][name] for name in chosen] == [50, 5, 3]
    assert {*chosen} & mappings[json.dumps(PRICES)].keys() == {"MaximumRetryAttempts"}


HERE: Final = "${AWS::Region}:${AWS::AccountId}"


def test_only_a_table_whose_changes_are_read_gets_a_stream() -> None:
    tables = {
        own["TableName"]: own.get("StreamSpecification") for _, own in of_type("streaming", "AWS::DynamoDB::Table")
    }
    assert tables == {"flowguard": None, "stock": {"StreamViewType": "NEW_AND_OLD_IMAGES"}}


def test_no_role_asks_for_the_arn_of_a_stream_that_waits_for_the_role() -> None:
    """Else CloudFormation refuses the template as a circle: mapping, function, role, table."""
    roles = [own for _, own in of_type("streaming", "AWS::IAM::Role")]
    assert "StreamArn" not in json.dumps(roles)
    assert "StreamArn" in json.dumps(template("streaming"))


# -- what cannot be


def test_the_stream_of_a_table_that_is_there_already_needs_its_arn() -> None:
    [problem] = problems(prices={})
    assert "'prices'" not in problem
    assert 'say [streams."prices"] arn = "arn:aws:dynamodb:…:table/prices/stream/…"' in problem
    with pytest.raises(CannotDeploy, match="dynamodb:stock is the stream of a table that is there already"):
        deployment(tables={"stock": {"existing": True}})


def test_a_table_that_is_named_by_its_arn_is_not_made_so_its_streams_arn_has_to_be_said() -> None:
    there = {"stock": {"name": "arn:aws:dynamodb:eu-west-1:123456789012:table/stock-of-all"}}
    with pytest.raises(CannotDeploy, match="dynamodb:stock is the stream of a table that is there already"):
        deployment(tables=there)
    arn = f"{there['stock']['name']}/stream/2026-01-01T00:00:00.000"
    needed = deployment(tables=there, streams={**streaming.OPTIONS["streams"], "stock": {"arn": arn}})
    assert stream(needed, "stock").arn == arn


def test_an_arn_is_for_a_stream_of_its_service_that_is_not_made_here() -> None:
    [problem] = problems(clicked={"arn": PRICES})
    assert problem.startswith('[streams."clicked"] arn is that of another service than kinesis:clicked has')
    [problem] = problems(prices={"arn": SHARED})
    assert problem.startswith('[streams."prices"] arn is that of another service than dynamodb:prices has')
    [problem] = problems(stock={"arn": PRICES.replace("prices", "stock")})
    assert "'stock' is a table that the template makes; leave the arn out" in problem
    with pytest.raises(CannotDeploy, match="is no ARN of a stream"):
        DeployOptions.read(Wrong())  # type: ignore[arg-type]  # what it reads


OF_TABLE: Final = "arn:aws:dynamodb:eu-west-1:123456789012:table/{}/stream/2026-01-01T00:00:00.000"


def with_prices(table: str, **more: Any) -> Deployment:
    return deployment(streams={**streaming.OPTIONS["streams"], "prices": {"arn": OF_TABLE.format(table)}}, **more)


def test_the_arn_of_a_tables_stream_is_of_that_table() -> None:
    [problem] = problems(prices={"arn": OF_TABLE.format("stock")})
    assert problem == (
        "[streams.\"prices\"] arn is of the table 'stock', and dynamodb:prices is the stream of 'prices'; say the ARN "
        'of that, or what it is called at AWS: [tables."prices"] name = "…"'
    )
    staging = {"settings": {**streaming.OPTIONS["settings"], "names": "staging-*"}}
    for table in ("prices", "staging-prices"):
        assert stream(with_prices(table, **staging), "prices").arn == OF_TABLE.format(table)
    with pytest.raises(CannotDeploy, match="is the stream of 'staging-prices'"):
        with_prices("prod-prices", **staging)


@pytest.mark.parametrize("name", ["prices-of-all", OF_TABLE.format("prices-of-all").partition("/stream/")[0]])
def test_the_arn_of_a_tables_stream_is_of_what_that_is_called_at_aws(name: str) -> None:
    named = {"tables": {"prices": {"name": name}}}
    needed = with_prices("prices-of-all", **named)
    assert stream(needed, "prices").arn == OF_TABLE.format("prices-of-all")
    assert not [note for note in needed.notes if "it has no effect" in note]
    with pytest.raises(CannotDeploy, match="arn is of the table 'prices', and dynamodb:prices is the stream of"):
        with_prices("prices", **named)


def test_of_a_table_of_another_stack_the_stream_is_not_compared(tmp_path: Path) -> None:
    file = tmp_path / "options.toml"
    arn = OF_TABLE.format("whatever")
    file.write_text(
        f'[tables.prices]\nname = "import:Prices"\n[streams.prices]\narn = "{arn}"\n'
        '[settings]\nsigning_keys = "ssm:/keys"\n'
    )
    assert stream(needs(MODULES["streaming"], options=DeployOptions.read(file)), "prices").arn == arn


def test_a_table_that_is_there_gets_no_advice_to_make_it() -> None:
    with pytest.raises(CannotDeploy, match=r'table/stock/stream/…"; it takes no import$'):
        deployment(tables={"stock": {"existing": True}})
    [problem] = problems(prices={})
    assert problem.endswith("table/prices/stream/…\", or name it in TABLES of the flow's module")


class Wrong:
    def read_text(self, encoding: str) -> str:
        return '[streams.clicked]\narn = "arn:aws:sqs:eu-west-1:123456789012:clicked"'


def test_a_change_is_given_up_before_it_is_gone() -> None:
    [problem] = problems(stock={"max_age": TABLE_KEEPS})
    assert f"keeps a change for {TABLE_KEEPS} s" in problem
    assert stream(with_streams(stock={"max_age": TABLE_KEEPS - 1}), "stock").max_age == TABLE_KEEPS - 1
    assert stream(with_streams(viewed={"max_age": TABLE_KEEPS}), "viewed").max_age == TABLE_KEEPS, (
        "Kinesis may keep more"
    )


def test_a_batch_is_as_large_as_there_is_time_for() -> None:
    [problem] = problems(stock={"batch_size": 100})
    assert (
        "has batch_size = 100, which takes up to 2000 s, and tests.deploy.streaming.notice is stopped after" in problem
    )
    exact = deployment(functions={"notice": {"timeout": 200, "batch_size": 5}}, streams=just(batch_size=10))
    assert stream(exact, "stock").batch_size == 10


def just(**options: Any) -> dict[str, Any]:
    """The options of the streams, with these of one."""
    return {**streaming.OPTIONS["streams"], "stock": options}


def test_a_function_of_several_flows_reads_no_stream() -> None:
    with pytest.raises(CannotDeploy, match="serves clicks, which begins with streams, beside changes, and a stream's"):
        needed_of(Clicks, Changes, options={"streams": {"prices": {"arn": PRICES}}})


def test_several_flows_without_streams_share_a_function() -> None:
    class One(Flow, name="one-flow", object_id="page"):
        stages = (Count,)

    class Two(Flow, name="two-flow", object_id="page", inbox="one-flow"):
        stages = (Count,)

    assert needed_of(One, Two).functions[0].streams == ()


def test_a_table_whose_changes_begin_runs_needs_a_stream() -> None:
    class Stock(Flow, name="stock", object_id="page", streams=(TableStream("marks"),)):
        stages = (Count,)

    assert {table.name: table.has_stream for table in needed_of(Stock).tables} == {"flowguard": False, "marks": True}


def test_a_stream_of_kinesis_may_have_the_name_of_a_table() -> None:
    class Alike(Flow, name="alike", object_id="page", streams=(KinesisStream("marks"), KinesisStream("flowguard"))):
        stages = (Count,)

    class Kept(Count, name="kept"):
        def handle(self, click: Click, step: Step) -> Outcome:
            step.put("marks", {"sku": click.page})
            return Done()

    class Writing(Alike, name="writing", object_id="page", streams=Alike.streams):
        stages = (Kept,)

    needed = needed_of(Writing, options={"streams": {"marks": {"arn": SHARED}}})
    assert [(table.name, table.existing, table.has_stream) for table in needed.tables] == [
        ("flowguard", False, False),
        ("marks", False, False),
    ]
    assert not [note for note in needed.notes if "begin runs of" in note]
    of_table = needed_of(Writing, options={"tables": {"marks": {"kms_key": KEY}}})
    assert stream(of_table, "marks").kms_key is None


def test_runs_do_not_begin_with_the_changes_of_run_items() -> None:
    class Circle(Flow, name="circle", object_id="page", streams=(TableStream("flowguard"),)):
        stages = (Count,)

    with pytest.raises(CannotDeploy, match="each run would begin others without end; take another table"):
        needed_of(Circle)


def test_a_flow_that_changes_the_table_that_it_begins_with_gets_a_note() -> None:
    class Mark(Stage[Click], name="mark"):
        def handle(self, click: Click, step: Step) -> Outcome:
            step.put("stock", {"sku": click.page})
            return Done()

    class Look(Stage[Click], name="look"):
        def handle(self, click: Click, step: Step) -> Outcome:
            step.check("stock", {"sku": click.page}, "attribute_exists(sku)")
            return Done()

    def notes(stage: type[Stage[Click]], name: str) -> list[str]:
        class Marking(Flow, name=name, object_id="page", streams=(TableStream("stock"),)):
            stages = (stage,)

        arn = PRICES.replace("prices", "stock")
        options = {"tables": {"stock": {"existing": True}}, "streams": {"stock": {"arn": arn}}}
        return [note for note in needed_of(Marking, options=options).notes if "begin runs of" in note]

    [note] = notes(Mark, "marking")
    assert note.startswith("mark of marking may change the table 'stock', whose changes begin runs of marking")
    assert notes(Look, "looking") == []


def test_an_option_of_no_stream_gets_a_note() -> None:
    notes = with_streams(klicked={}).notes
    assert "the options say [streams.klicked], and nothing here is called that; it has no effect" in notes
    assert not [note for note in deployment().notes if "[streams." in note]


# -- the doctor

RIGHT: Final[dict[str, Any]] = {
    "State": "Enabled",
    "BatchSize": 10,
    "FunctionResponseTypes": ["ReportBatchItemFailures"],
    "BisectBatchOnFunctionError": True,
    "MaximumRecordAgeInSeconds": -1,
    "MaximumRetryAttempts": MOST_TRIES,
    "TumblingWindowInSeconds": 0,
}
STOCK: Final = PRICES.replace("prices", "stock")
VIEWED: Final = "arn:aws:kinesis:eu-west-1:123456789012:stream/viewed"
ARNS: Final[Mapping[str, tuple[str, ...]]] = {NOTICE: (STOCK, PRICES), COUNT: (VIEWED, CLICKED)}


SEEN: Final = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}


class Mappings:
    """An interceptor that answers what is live. ``hours`` is how long a stream of Kinesis keeps its records."""

    def __init__(self, *sources: Mapping[str, Any], hours: int | None = 24, view: Any = SEEN) -> None:
        self._sources = sources
        self._view = view
        self._hours = hours
        self.asked: list[str] = []
        self.tables: list[str] = []

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation == "ListEventSourceMappings":
            return {"EventSourceMappings": list(self._sources)}
        if call.operation == "DescribeTable":
            self.tables.append(call.params["TableName"])
            return {"Table": {} if self._view is None else {"StreamSpecification": self._view}}
        assert call.operation == "DescribeStreamSummary", call.operation
        self.asked.append(call.params["StreamARN"])
        if self._hours is None:
            raise call.client.exceptions.ClientError({"Error": {"Code": "AccessDenied"}}, call.operation)
        return {"StreamDescriptionSummary": {"RetentionPeriodHours": self._hours}}


def findings_of(
    function: str, *sources: Mapping[str, Any], hours: int | None = 24, timeout: int = 230, view: Any = SEEN
) -> list[LiveFinding]:
    needed = deployment().function(function)
    with intercept(Mappings(*sources, hours=hours, view=view)):
        return list(check_streams(needed, {"Timeout": timeout}, LiveAccount(SESSION)))


def mapping(arn: str = STOCK, **changes: Any) -> dict[str, Any]:
    flow = "clicks" if ":kinesis:" in arn else "changes"
    told = {"OnFailure": {"Destination": f"arn:aws:sqs:eu-west-1:123456789012:{flow}-dead-letters"}}
    return {**RIGHT, "DestinationConfig": told, "EventSourceArn": arn, **changes}


OTHER: Final = "stream-undelivered-other"


@pytest.mark.parametrize("function", [NOTICE, COUNT])
def test_nothing_is_wrong_with_mappings_as_the_template_makes_them(function: str) -> None:
    assert findings_of(function, *(mapping(arn) for arn in ARNS[function])) == []


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"State": "Disabled"}, "source-off"),
        ({"State": "Disabling"}, "source-off"),
        ({"FunctionResponseTypes": []}, "report-failures-missing"),
        ({"TumblingWindowInSeconds": 60}, "stream-windowed"),
        ({"MaximumRetryAttempts": -1}, "stream-age-open"),
        ({"MaximumRetryAttempts": None}, "stream-age-open"),
        ({"MaximumRecordAgeInSeconds": None, "MaximumRetryAttempts": None}, "stream-age-open"),
        ({"DestinationConfig": {"OnFailure": {}}}, "stream-undelivered-missing"),
        ({"DestinationConfig": None}, "stream-undelivered-missing"),
        ({"DestinationConfig": {"OnFailure": {"Destination": "arn:aws:sns:eu-west-1:1:changes"}}}, OTHER),
        ({"DestinationConfig": {"OnFailure": {"Destination": "arn:aws:sqs:eu-west-1:1:others"}}}, OTHER),
        ({"BisectBatchOnFunctionError": False}, "stream-whole"),
        ({"MaximumRecordAgeInSeconds": 60}, "stream-age-short"),
        ({"MaximumRecordAgeInSeconds": 604_800}, "stream-age-short"),
        ({"MaximumRecordAgeInSeconds": 43_200, "MaximumRetryAttempts": -1}, "stream-age-short"),
        ({"MaximumRetryAttempts": 0}, "stream-attempts-few"),
        ({"MaximumRetryAttempts": 9_999}, "stream-attempts-few"),
        ({"StartingPosition": "LATEST"}, "stream-start-latest"),
        ({"BatchSize": 12}, "batch-slow"),
    ],
)
def test_what_is_wrong_with_a_mapping_is_found(changes: dict[str, Any], rule: str) -> None:
    [finding] = findings_of(NOTICE, mapping(**changes), mapping(PRICES))
    assert (finding.rule, finding.resource) == (rule, NOTICE)
    few = "warning" if changes.get("MaximumRetryAttempts") == 9_999 else "error"
    severities = {"stream-whole": "warning", "stream-age-short": "warning", OTHER: "warning"}
    assert finding.severity.value == {"stream-start-latest": "note", **severities}.get(rule, few)
    assert rule == "batch-slow" or "the stream of the table stock" in finding.what


@pytest.mark.parametrize(
    "changes",
    [
        {"State": "Creating"},
        {"BatchSize": 11},
        {"MaximumRecordAgeInSeconds": None},
        {"StartingPosition": "TRIM_HORIZON"},
    ],
)
def test_what_is_bound_in_another_way_is_right_too(changes: dict[str, Any]) -> None:
    assert findings_of(NOTICE, mapping(**changes), mapping(PRICES), timeout=220) == []


def test_what_the_options_name_is_meant() -> None:
    """Of the stream clicked the options name the start, the attempts and the age."""
    meant = {"StartingPosition": "LATEST", "MaximumRetryAttempts": 50, "MaximumRecordAgeInSeconds": 3_600}
    assert findings_of(COUNT, mapping(VIEWED), mapping(CLICKED, **meant)) == []
    fewer = findings_of(COUNT, mapping(VIEWED), mapping(CLICKED, **{**meant, "MaximumRetryAttempts": 49}))
    assert [finding.rule for finding in fewer] == ["stream-attempts-few"]


def test_a_record_of_a_shard_needs_no_bound_of_attempts() -> None:
    aged = with_streams(stock={"max_age": 43_200}).function(NOTICE)

    def wrong(**bounds: Any) -> list[LiveFinding]:
        with intercept(Mappings(mapping(**bounds), mapping(PRICES))):
            return list(check_streams(aged, {"Timeout": 230}, LiveAccount(SESSION)))

    assert wrong(MaximumRecordAgeInSeconds=43_200, MaximumRetryAttempts=-1) == []
    assert wrong(MaximumRecordAgeInSeconds=43_200, MaximumRetryAttempts=100) == []
    [few] = wrong(MaximumRecordAgeInSeconds=43_200, MaximumRetryAttempts=99)
    assert few.fix.startswith("leave MaximumRetryAttempts out, or say max_attempts")
    [short] = wrong(MaximumRecordAgeInSeconds=43_199, MaximumRetryAttempts=-1)
    assert (short.rule, short.fix.partition(",")[0]) == ("stream-age-short", "set MaximumRecordAgeInSeconds to 43200")
    [late] = wrong(MaximumRecordAgeInSeconds=86_400, MaximumRetryAttempts=-1)
    assert (late.rule, late.fix) == ("stream-age-open", "set MaximumRecordAgeInSeconds to 43200")


def test_a_shard_without_any_bound_gets_one_of_attempts() -> None:
    [late] = findings_of(NOTICE, mapping(MaximumRetryAttempts=-1), mapping(PRICES))
    assert (late.rule, late.fix) == ("stream-age-open", f"set MaximumRetryAttempts to {MOST_TRIES}")
    [short] = findings_of(NOTICE, mapping(MaximumRecordAgeInSeconds=60), mapping(PRICES))
    assert short.fix.startswith("set MaximumRecordAgeInSeconds to -1, or say max_age")


class Whole(BaseModel):
    keys: dict[str, str]
    before: dict[str, str] = Field(alias="old")
    now: dict[str, str] = Field(validation_alias="new")


def reading(payload: Any) -> FunctionNeed:
    """A function whose first stage takes such a payload. It reads the changes of a table."""

    class Look(Stage[payload], name="look"):
        def handle(self, payload: Any, step: Step) -> Outcome:
            return Done()

    flow = type("Looks", (Flow,), {"stages": (Look,), "__module__": __name__}, **LOOKS)
    found = FoundFunction(__name__, "look", FunctionKind.STAGES, (flow,), ((flow, Look),))
    return replace(deployment().function(NOTICE), definition=found)


LOOKS: Final[Any] = {"name": "looks", "object_id": "keys.sku", "streams": (TableStream("stock"),)}


class New(BaseModel):
    keys: dict[str, str]
    new: dict[str, str]


class Old(BaseModel):
    keys: dict[str, str]
    old: dict[str, str] | None = None


@pytest.mark.parametrize(
    ("view", "payload", "lacking"),
    [
        ("KEYS_ONLY", New, "new"),
        ("KEYS_ONLY", Whole, "new and old"),
        ("KEYS_ONLY", Change, None),
        ("KEYS_ONLY", dict[str, Any], "new and old"),
        ("OLD_IMAGE", New, "new"),
        ("OLD_IMAGE", Old, None),
        ("NEW_IMAGE", Old, "old"),
        ("NEW_IMAGE", New, None),
        ("NEW_AND_OLD_IMAGES", Whole, None),
    ],
)
def test_a_view_without_what_the_first_stage_reads_is_found(view: str, payload: Any, lacking: str | None) -> None:
    asking = Mappings(mapping(), mapping(PRICES), view={"StreamEnabled": True, "StreamViewType": view})
    with intercept(asking):
        wrong = list(check_streams(reading(payload), {"Timeout": 230}, LiveAccount(SESSION)))
    short = [finding for finding in wrong if finding.rule == "stream-view-short"]
    assert {finding.severity.value for finding in short} == ({"warning"} if lacking else set())
    assert all(f"has the view {view}, and the first stage reads {lacking}" in finding.what for finding in short)
    assert asking.tables == ["stock", PRICES.partition("/stream/")[0]]


def test_a_table_without_a_stream_is_found() -> None:
    wrong = findings_of(NOTICE, mapping(), mapping(PRICES), view=None)
    assert [(finding.rule, finding.severity.value) for finding in wrong] == [("stream-off", "error")] * 2


def test_a_stream_of_kinesis_has_no_table() -> None:
    asking = Mappings(mapping(VIEWED), mapping(CLICKED))
    with intercept(asking):
        assert not list(check_streams(deployment().function(COUNT), {"Timeout": 230}, LiveAccount(SESSION)))
    assert asking.tables == []


def test_how_long_the_stream_of_a_table_keeps_a_change_is_known() -> None:
    asking = Mappings(mapping(), mapping(PRICES))
    with intercept(asking):
        assert not list(check_streams(deployment().function(NOTICE), {"Timeout": 230}, LiveAccount(SESSION)))
    assert asking.asked == []


@pytest.mark.parametrize(
    ("hours", "age", "rules"), [(24, 86_400, 1), (25, 86_400, 0), (24, 86_399, 0), (None, 90_000, 0)]
)
def test_a_stream_of_kinesis_is_asked_for_how_long_it_keeps_a_record(hours: int | None, age: int, rules: int) -> None:
    sources = [mapping(VIEWED, MaximumRecordAgeInSeconds=age, MaximumRetryAttempts=-1), mapping(SHARED)]
    wrong = findings_of(COUNT, *sources, hours=hours)
    assert [finding.rule for finding in wrong].count("stream-age-open") == rules
    asking = Mappings(*[mapping(VIEWED), mapping(CLICKED)])
    with intercept(asking):
        assert not list(check_streams(deployment().function(COUNT), {"Timeout": 230}, LiveAccount(SESSION)))
    assert asking.asked == [VIEWED, SHARED], "of a consumer its stream"


def test_a_stream_that_nothing_brings_is_missing() -> None:
    others = [mapping(VIEWED), mapping(STOCK.replace("stock", "stocks")), mapping("arn:aws:sqs:eu-west-1:1:stock")]
    missing = findings_of(NOTICE, *others)
    assert [(finding.rule, finding.what) for finding in missing] == [
        ("source-missing", "no event source mapping brings it the stream of the table stock"),
        ("source-missing", "no event source mapping brings it the stream of the table prices"),
    ]
    [missing_one] = findings_of(COUNT, mapping(CLICKED), mapping(f"{VIEWED}-2"))
    assert missing_one.what == "no event source mapping brings it the stream viewed"


def test_what_may_not_be_read_and_what_reads_no_stream_is_not_wrong() -> None:
    def denied(call: ApiCall, proceed: Proceed, /) -> Response:
        raise call.client.exceptions.ClientError({"Error": {"Code": "AccessDenied"}}, call.operation)

    with intercept(denied):
        assert not list(check_streams(deployment().function(NOTICE), {"Timeout": 230}, LiveAccount(SESSION)))
        plain = replace(deployment().function(NOTICE), streams=())
        live = LiveAccount(SESSION)
        assert not list(check_streams(plain, {"Timeout": 230}, live))
        assert live.unread == {}, "nothing was asked"


def test_the_mapping_of_a_stream_has_no_concurrency_to_be_bound() -> None:
    queue = {**RIGHT, "EventSourceArn": "arn:aws:sqs:eu-west-1:123456789012:clicks"}
    bound = {**queue, "ScalingConfig": {"MaximumConcurrency": 5}}

    def rules(*sources: Mapping[str, Any]) -> list[str]:
        def live(call: ApiCall, proceed: Proceed, /) -> Response:
            if call.operation == "ListEventSourceMappings":
                return {"EventSourceMappings": list(sources)}
            raise call.client.exceptions.ClientError({"Error": {"Code": "ResourceNotFoundException"}}, call.operation)

        with intercept(live):
            wrong = check_functions(deployment(), LiveAccount(SESSION))
            return [finding.rule for finding in wrong if finding.rule == "concurrency-open"]

    assert rules(bound, mapping(VIEWED)) == []
    assert rules(queue, mapping(VIEWED)) == ["concurrency-open"]


@pytest.mark.parametrize(("is_listed", "stream_of_stock"), [(True, STOCK), (False, STOCK.rpartition("/")[0] + "/*")])
def test_a_role_is_asked_for_the_stream_that_a_mapping_names(*, is_listed: bool, stream_of_stock: str) -> None:
    """A policy that names one stream of a table allows nothing on the pattern of all of them."""
    asked: list[str] = []
    there = {
        "FunctionName": NOTICE,
        "FunctionArn": f"arn:aws:lambda:eu-west-1:123456789012:function:{NOTICE}",
        "Role": "arn:aws:iam::123456789012:role/notice",
        "Timeout": 230,
    }

    def live(call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation == "SimulatePrincipalPolicy":
            asked.extend(call.params["ResourceArns"])
            allowed = [{"EvalActionName": name, "EvalDecision": "allowed"} for name in call.params["ActionNames"]]
            return {"EvaluationResults": allowed}
        if call.operation == "ListEventSourceMappings" and is_listed and "FunctionName" in call.params:
            return {"EventSourceMappings": [mapping(STOCK.replace("stock", "of-others")), mapping(), mapping(PRICES)]}
        if call.operation == "GetFunctionConfiguration" and call.params["FunctionName"] == NOTICE:
            return there
        raise call.client.exceptions.ClientError({"Error": {"Code": "ResourceNotFoundException"}}, call.operation)

    with intercept(live):
        assert "permission-missing" not in {each.rule for each in check_functions(deployment(), LiveAccount(SESSION))}
    assert [arn for arn in asked if "/stream/" in arn] == [PRICES, stream_of_stock]


def shared(function: str, sources: list[dict[str, Any]], *pipes: str, readers: tuple[str, ...] = ()) -> list[str]:
    """How grave it is what else reads the streams of a function, and what it is."""

    def live(call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation == "ListPipes":
            source = call.params["SourcePrefix"]
            return {
                "Pipes": [{"Name": name, "Source": source} for name in pipes] + [{"Name": "x", "Source": f"{source}x"}]
            }
        assert call.operation == "ListEventSourceMappings", call.operation
        names = [name for name in (*readers, function) if "EventSourceArn" in call.params]
        arns = [f"arn:aws:lambda:eu-west-1:123456789012:function:{name}" for name in names]
        return {"EventSourceMappings": [{"FunctionArn": arn} for arn in arns] or sources}

    needed = deployment()
    with intercept(live):
        looked = check_shared_streams(needed, needed.function(function), LiveAccount(SESSION))
        return [f"{each.severity.value}: {each.what}" for each in looked if each.rule == "stream-shared"]


def test_who_else_reads_a_stream_is_said() -> None:
    stock = "the stream of the table stock is read by"
    assert shared(NOTICE, [mapping()]) == []
    assert shared(NOTICE, [mapping()], "audit") == [f"note: {stock} the pipe audit too"]
    assert shared(NOTICE, [mapping()], readers=("other",)) == [f"note: {stock} the function other too"]
    both = f"{stock} the function other and the pipe audit too"
    assert shared(NOTICE, [mapping(), mapping()], "audit", readers=("other",)) == [f"warning: {both}"]


def test_a_stream_of_kinesis_may_have_several_readers() -> None:
    viewed = "note: the stream viewed is read by the pipe a and the pipe b too"
    assert shared(COUNT, [mapping(VIEWED), mapping(STOCK)], "b", "a") == [viewed]
    assert shared(COUNT, [], "a") == []


def test_who_else_reads_a_stream_may_not_be_said() -> None:
    def denied(call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation == "ListEventSourceMappings" and "FunctionName" in call.params:
            return {"EventSourceMappings": [mapping()]}
        raise call.client.exceptions.ClientError({"Error": {"Code": "AccessDenied"}}, call.operation)

    needed, live = deployment(), LiveAccount(SESSION)
    with intercept(denied):
        assert list(check_shared_streams(needed, needed.function(NOTICE), live)) == []
        assert {operation for operation, _ in live.unread} == {"lambda:list_event_source_mappings", "pipes:list_pipes"}


def test_of_a_function_without_streams_nothing_is_asked() -> None:
    def unasked(call: ApiCall, proceed: Proceed, /) -> Response:
        raise AssertionError(call.operation)

    needed = deployment()
    with intercept(unasked):
        plain = replace(needed.function(NOTICE), streams=())
        assert list(check_shared_streams(needed, plain, LiveAccount(SESSION))) == []


def test_a_mapping_of_the_run_items_own_table_is_found() -> None:
    own = "arn:aws:dynamodb:eu-west-1:123456789012:table/flowguard/stream/2026-01-01T00:00:00.000"
    with intercept(Mappings(mapping(own), mapping(own.replace("flowguard", "flowguard2")))):
        [only] = check_own_table(deployment(), deployment().function(COUNT), LiveAccount(SESSION))
    assert (only.rule, only.resource) == ("source-own-table", COUNT)

    def live(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "ListEventSourceMappings":
            return {"EventSourceMappings": [mapping(own)]}
        if call.operation == "GetFunctionConfiguration":
            return {"Timeout": 230, "Environment": {"Variables": {}}}
        raise call.client.exceptions.ClientError({"Error": {"Code": "ResourceNotFoundException"}}, call.operation)

    with intercept(live):
        assert "source-own-table" in {each.rule for each in check_functions(deployment(), LiveAccount(SESSION))}

    def deny(call: ApiCall, proceed: Proceed) -> Response:
        raise call.client.exceptions.ClientError({"Error": {"Code": "AccessDenied"}}, call.operation)

    with intercept(deny):
        assert list(check_own_table(deployment(), deployment().function(COUNT), LiveAccount(SESSION))) == []
