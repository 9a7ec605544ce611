"""The memory reads expressions as DynamoDB does: one table of cases for both, and whatever Hypothesis thinks of."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowguard.clock import ManualClock
from flowguard.sim.limits.fault import Fault
from flowguard.sim.limits.items import MOST_OPERANDS, MOST_OPERATORS
from flowguard.sim.limits.refusing import Refusing
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.memory.dynamodb import DynamoDB
from flowguard.sim.memory.service import Surroundings
from tests.sim.memory.cases import CONDITIONS, INVALID, ITEM, NAMES, NUMBERS, STORABLE, UPDATES, VALUES, used

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

KEY = {"id": {"S": "x"}}
LM = {"L": [{"M": {"a": {"N": "2"}}}, {"M": {"a": {"N": "2"}}}]}
TABLE: Any = {
    "TableName": "carts",
    "BillingMode": "PAY_PER_REQUEST",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
}


@pytest.fixture(params=["memory", "dynamodb-local"], scope="module")
def dynamodb(request: pytest.FixtureRequest) -> Iterator[DynamoDBClient]:
    if request.param == "memory":
        with MemoryAWS() as aws:
            aws.client("dynamodb").create_table(**TABLE)
            yield aws.client("dynamodb")
    else:
        yield local(request.getfixturevalue("dynamodb_local_url"))


def local(url: str) -> DynamoDBClient:
    session = boto3.session.Session(
        aws_access_key_id=uuid.uuid4().hex[:20], aws_secret_access_key="local", region_name="us-east-1"
    )
    client = session.client("dynamodb", endpoint_url=url)
    client.create_table(**TABLE)
    return client


def call(text: str, **expressions: str) -> Any:
    """The parameters of an UpdateItem with these expressions and what they name."""
    params: dict[str, Any] = {"TableName": "carts", "Key": KEY, "ReturnValues": "ALL_NEW", **expressions}
    if names := used(NAMES, text):
        params["ExpressionAttributeNames"] = names
    if values := used(VALUES, text):
        params["ExpressionAttributeValues"] = values
    return params


def normal(value: Any) -> Any:
    """With sets in one order, and numbers as such: DynamoDB Local shows a new one as it was written."""
    match value:
        case {"N": number}:
            return Decimal(number)
        case {"SS": found} | {"NS": found} | {"BS": found}:
            return sorted(map(str, found))
        case dict():
            return {name: normal(one) for name, one in value.items()}
        case list():
            return [normal(one) for one in value]
        case _:
            return value


# -- the table


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_holds_or_is_refused(dynamodb: DynamoDBClient, condition: str) -> None:
    dynamodb.put_item(TableName="carts", Item=ITEM)
    try:
        dynamodb.update_item(**call(condition, ConditionExpression=condition))
        answer: bool | str = True
    except ClientError as error:
        code = error.response["Error"]["Code"]
        answer = False if code == "ConditionalCheckFailedException" else code
    assert answer == CONDITIONS[condition]


@pytest.mark.parametrize("update", UPDATES)
def test_an_update_changes_what_it_names_or_is_refused(dynamodb: DynamoDBClient, update: str) -> None:
    dynamodb.put_item(TableName="carts", Item=ITEM)
    try:
        after = normal(dynamodb.update_item(**call(update, UpdateExpression=update))["Attributes"])
        before = normal(ITEM)
        answer: Any = {name: after.get(name) for name in before.keys() | after if before.get(name) != after.get(name)}
    except ClientError as error:
        answer = error.response["Error"]["Code"]
    assert answer == normal(UPDATES[update])


@pytest.mark.parametrize(
    ("parameter", "form", "between", "most"),
    [
        ("ConditionExpression", "{}", " AND ", ("n = :five", 150)),
        ("ConditionExpression", "{}", " AND ", ("n BETWEEN :one AND ten", 150)),
        ("ConditionExpression", "{} OR n = :five", " OR ", ("NOT n = :one", 99)),
        ("ConditionExpression", "{} OR n = :five", " OR ", ("size(s) > :one", 99)),
        ("ConditionExpression", "{}", " AND ", ("attribute_exists(n)", 150)),
        ("ConditionExpression", "n IN ({})", ", ", (":five", 100)),
        ("UpdateExpression", "SET {}", ",", ("x{}=n+:one", 300)),
        ("UpdateExpression", "SET {}, l = list_append(l, :list)", ",", ("x{}=n-:one", 299)),
    ],
    ids=str,
)
def test_an_expression_of_too_many_operators_is_refused(
    dynamodb: DynamoDBClient, parameter: str, form: str, between: str, most: tuple[str, int]
) -> None:
    part, count = most

    def sent(many: int) -> None:
        text = form.format(between.join(part.format(place) for place in range(many)))
        dynamodb.update_item(**call(text, **{parameter: text}))

    dynamodb.put_item(TableName="carts", Item=ITEM)
    sent(count)
    with pytest.raises(ClientError, match=f": ({MOST_OPERATORS + 1}|{MOST_OPERANDS + 1})$") as refusal:
        sent(count + 1)
    assert refusal.value.response["Error"]["Code"] == INVALID


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_has_one_text(dynamodb: DynamoDBClient, number: str) -> None:
    try:
        dynamodb.put_item(TableName="carts", Item={**KEY, "n": {"N": number}})
        answer = dynamodb.get_item(TableName="carts", Key=KEY)["Item"]["n"]["N"]
    except ClientError as error:
        answer = error.response["Error"]["Code"]
    assert answer == NUMBERS[number]


@pytest.mark.parametrize(("value", "storable"), STORABLE)
def test_a_value_can_be_stored_or_is_refused(dynamodb: DynamoDBClient, value: Any, storable: bool) -> None:
    try:
        dynamodb.put_item(TableName="carts", Item={**KEY, "v": value})
        answer = "stored"
    except ClientError as error:
        answer = error.response["Error"]["Code"]
    assert answer == ("stored" if storable else INVALID)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ConditionExpression": "n = :a", "ExpressionAttributeValues": {":a": {"N": "1"}, ":b": {"N": "1"}}},
        {"ConditionExpression": "attribute_exists(n)", "ExpressionAttributeNames": {"#u": "n"}},
        {"ConditionExpression": "attribute_exists(n)", "ExpressionAttributeNames": {}},
        {"ConditionExpression": "attribute_exists(n)", "ExpressionAttributeValues": {}},
        {"ExpressionAttributeValues": {":a": {"N": "1"}}},
        {"Key": {"id": {"S": ""}}},
        {"Key": {"id": {"N": "1"}}},
        {"Key": {"other": {"S": "x"}}},
        {"Key": {**KEY, "n": {"N": "1"}}},
    ],
    ids=str,
)
def test_what_does_not_belong_together_is_refused(dynamodb: DynamoDBClient, wrong: Any) -> None:
    dynamodb.put_item(TableName="carts", Item=ITEM)
    with pytest.raises(ClientError, match=INVALID):
        dynamodb.update_item(**{"TableName": "carts", "Key": KEY, **wrong})


@pytest.mark.parametrize(
    ("wanted", "update", "shown"),
    [
        ("UPDATED_NEW", "SET n = :one, lm[0].a = :two REMOVE s", {"n": {"N": "1"}, "lm": LM}),
        ("UPDATED_OLD", "SET n = :one, zzz = :two REMOVE b", {"n": {"N": "5"}, "b": {"BOOL": True}}),
        ("UPDATED_NEW", "SET l[1] = :nine", {"l": {"L": [{"N": "1"}, {"N": "9"}, {"N": "3"}]}}),
        ("UPDATED_OLD", "SET zzz = :one", None),
        ("UPDATED_NEW", "REMOVE n", None),
        ("NONE", "SET n = :one", None),
    ],
)
def test_an_update_answers_what_was_asked_for(dynamodb: DynamoDBClient, wanted: str, update: str, shown: Any) -> None:
    dynamodb.put_item(TableName="carts", Item=ITEM)
    answer: Any = dynamodb.update_item(**{**call(update, UpdateExpression=update), "ReturnValues": wanted})
    assert answer.get("Attributes") == shown


def test_a_failed_condition_shows_the_item_if_asked(dynamodb: DynamoDBClient) -> None:
    dynamodb.put_item(TableName="carts", Item=ITEM)
    params = {**call("n = :one", ConditionExpression="n = :one"), "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException) as failed:
        dynamodb.update_item(**params)
    answer: Any = failed.value.response
    assert normal(answer["Item"]) == normal(ITEM)


# -- transactions


def put(name: str, **more: Any) -> Any:
    return {"Put": {"TableName": "carts", "Item": {"id": {"S": name}}, **more}}


def reasons(dynamodb: DynamoDBClient, *actions: Any) -> list[str]:
    with pytest.raises(dynamodb.exceptions.TransactionCanceledException) as cancelled:
        dynamodb.transact_write_items(TransactItems=list(actions))
    return [reason["Code"] for reason in cancelled.value.response["CancellationReasons"]]


def test_a_transaction_says_why_by_action_and_changes_nothing(dynamodb: DynamoDBClient) -> None:
    dynamodb.put_item(TableName="carts", Item=ITEM)
    absent = {"ConditionExpression": "attribute_not_exists(id)", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    assert reasons(dynamodb, put("other"), put("x", **absent)) == ["None", "ConditionalCheckFailed"]
    assert "Item" not in dynamodb.get_item(TableName="carts", Key={"id": {"S": "other"}})


@pytest.mark.parametrize(
    "wrong",
    [
        [put("x"), put("x")],
        [put("y", ConditionExpression="n = :nowhere")],
        [put("y", ConditionExpression="n =")],
        [{"Update": {"TableName": "carts", "Key": KEY, "UpdateExpression": "SET n = n + "}}],
        [{"Put": {"TableName": "carts", "Item": {"id": {"S": "y"}, "n": {"N": "abc"}}}}],
    ],
    ids=str,
)
def test_a_transaction_that_is_wrong_in_itself_is_refused_as_a_whole(dynamodb: DynamoDBClient, wrong: Any) -> None:
    with pytest.raises(ClientError, match=INVALID):
        dynamodb.transact_write_items(TransactItems=wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"Put": {"TableName": "carts", "Item": {"id": {"S": ""}}}},
        {"Put": {"TableName": "carts", "Item": {"id": {"N": "1"}}}},
        {"Put": {"TableName": "carts", "Item": {"other": {"S": "1"}}}},
        {"Delete": {"TableName": "carts", "Key": {"other": {"S": "1"}}}},
        {"Update": {"TableName": "carts", "Key": {"id": {"S": "q"}}, "UpdateExpression": "REMOVE id"}},
        {"Update": {"TableName": "carts", "Key": {"id": {"S": "q"}}, "UpdateExpression": "SET a = zzz"}},
    ],
    ids=str,
)
def test_a_write_that_cannot_be_applied_is_refused_in_a_transaction_too(dynamodb: DynamoDBClient, wrong: Any) -> None:
    with pytest.raises(ClientError) as refused:
        dynamodb.transact_write_items(TransactItems=[wrong])
    # AWS's documents say the second for some, DynamoDB Local says the first for all
    told: Any = refused.value.response
    code = told["Error"]["Code"]
    assert (code, [reason["Code"] for reason in told.get("CancellationReasons", [])]) in (
        (INVALID, []),
        ("TransactionCanceledException", ["ValidationError"]),
    )


def test_a_repeated_transaction_is_applied_once(dynamodb: DynamoDBClient) -> None:
    dynamodb.put_item(TableName="carts", Item=ITEM)
    add: Any = [{"Update": {**call("ADD n :one", UpdateExpression="ADD n :one")}}]
    del add[0]["Update"]["ReturnValues"]
    token = uuid.uuid4().hex
    for _ in range(2):
        dynamodb.transact_write_items(TransactItems=add, ClientRequestToken=token)
    assert dynamodb.get_item(TableName="carts", Key=KEY)["Item"]["n"] == {"N": "6"}
    with pytest.raises(dynamodb.exceptions.IdempotentParameterMismatchException):
        dynamodb.transact_write_items(TransactItems=[put("other")], ClientRequestToken=token)


# -- whatever Hypothesis thinks of

scalars = st.sampled_from(
    [
        {"N": "0"},
        {"N": "1"},
        {"N": "-2.50"},
        {"S": ""},
        {"S": "a"},
        {"S": "ab"},
        {"B": b"a"},
        {"BOOL": True},
        {"NULL": True},
        {"SS": ["a", "b"]},
        {"SS": ["b"]},
        {"NS": ["1", "2"]},
    ]
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.builds(lambda found: {"L": found}, st.lists(inner, max_size=2)),
        st.builds(lambda found: {"M": found}, st.dictionaries(st.sampled_from("ab"), inner, max_size=2)),
    ),
    max_leaves=4,
)
items = st.dictionaries(st.sampled_from("abcde"), values, max_size=5)
paths = st.sampled_from(["a", "b", "c", "a.a", "b.a", "a[0]", "b[1]", "c.a[0]"])
given_values = st.sampled_from([":v", ":w"])
operands = st.one_of(paths, given_values, st.builds("size({})".format, paths))
comparisons = st.one_of(
    st.builds("{} {} {}".format, operands, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), operands),
    st.builds("{} BETWEEN {} AND {}".format, operands, operands, operands),
    st.builds("{} IN ({}, {})".format, operands, operands, operands),
    st.builds("{}({})".format, st.sampled_from(["attribute_exists", "attribute_not_exists"]), paths),
    st.builds("{}({}, {})".format, st.sampled_from(["begins_with", "contains"]), paths, operands),
)
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds("{} {} {}".format, inner, st.sampled_from(["AND", "OR"]), inner),
        st.builds("NOT {}".format, inner),
        st.builds("({} OR {}) AND {}".format, inner, inner, inner),
    ),
    max_leaves=4,
)
assigned = st.one_of(
    operands.filter(lambda text: "size" not in text),
    st.builds("{} {} {}".format, st.one_of(paths, given_values), st.sampled_from("+-"), given_values),
    st.builds("if_not_exists({}, {})".format, paths, given_values),
    st.builds("list_append({}, {})".format, st.one_of(paths, given_values), st.one_of(paths, given_values)),
)


def clause(word: str, entries: st.SearchStrategy[str], most: int = 1) -> st.SearchStrategy[str]:
    return st.lists(entries, min_size=1, max_size=most).map(lambda found: f"{word} {', '.join(found)}")


# each has attributes of its own, so that most of them do not overlap
clauses = (
    clause("SET", st.builds("{} = {}".format, st.sampled_from(["a", "a.a", "a[1]", "d", "d"]), assigned), most=2),
    clause("REMOVE", st.sampled_from(["b", "b.a", "b[0]", "b[1]"]), most=2),
    clause("ADD", st.builds("{} {}".format, st.sampled_from(["c", "c", "c.a", "c[0]"]), given_values)),
    clause("DELETE", st.builds("{} {}".format, st.sampled_from(["e", "e", "e.a"]), given_values)),
)
updates = st.lists(st.one_of(*clauses), min_size=1, max_size=2).map(" ".join)


@pytest.fixture(scope="module")
def real(dynamodb_local_url: str) -> DynamoDBClient:
    return local(dynamodb_local_url)


@pytest.fixture(scope="module")
def memory() -> DynamoDB:
    """Without the hook, through which every client's calls would go."""
    service = DynamoDB(Surroundings(ManualClock(), 0, "us-east-1", "123456789012", Refusing()))
    service.operations["CreateTable"].run(TABLE)
    return service


@pytest.mark.proof("three hundred expressions on DynamoDB Local")
@settings(max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(item=items, condition=conditions, update=updates, v=values, w=values)
def test_any_small_expression_is_answered_as_by_dynamodb(
    real: DynamoDBClient, memory: DynamoDB, item: Any, condition: str, update: str, v: Any, w: Any
) -> None:
    for expressions in ({"ConditionExpression": condition}, {"UpdateExpression": update}):
        params: dict[str, Any] = {"TableName": "carts", "Key": KEY, "ReturnValues": "ALL_NEW", **expressions}
        if found := used({":v": v, ":w": w}, *expressions.values()):
            params["ExpressionAttributeValues"] = found
        whole = {"TableName": "carts", "Item": {**KEY, **item}}
        assert in_memory(memory, whole, params) == on_real(real, whole, params)


def in_memory(memory: DynamoDB, item: Any, params: Any) -> Any:
    memory.operations["PutItem"].run(item)
    try:
        return normal(memory.operations["UpdateItem"].run(params)["Attributes"])
    except Fault as fault:
        return fault.code


def on_real(real: DynamoDBClient, item: Any, params: Any) -> Any:
    real.put_item(**item)
    try:
        return normal(real.update_item(**params)["Attributes"])
    except ClientError as error:
        return error.response["Error"]["Code"]
