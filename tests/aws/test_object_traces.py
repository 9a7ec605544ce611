"""What an object has left is found on each engine, and removed without what others have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.clients import Clients
from flowguard.aws.commit_texts import prefix_of_request
from flowguard.aws.forgetting import TEXTS_A_ROW, Forgetting, RowsNotRemoved
from flowguard.aws.items import awaiting_key, number, run_key, shard_key
from flowguard.aws.object_scan import MOST_FLOWS, Child, ObjectScan, RequestTexts, Scanned, pages_of
from flowguard.aws.object_traces import MOST_REQUESTS, TraceReader, Traces, stem_of
from flowguard.aws.services import aws_store
from flowguard.aws.stored_texts import StoredText, StoredTexts, pointed_to
from flowguard.clock import no_pause
from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.forgotten import LAST_REDRIVE, forgotten_error
from flowguard.protocol.run import Claim, ClaimRequest, Commit, Refused, Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.verdicts import Verdict
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.message import ErrorNote, Message
from flowguard.wire.send_ids import stem_of_run
from flowguard.worker.early_answers import user_of
from tests.aws.engines import on_memory
from tests.aws.test_batch_writes import Unprocessed

FLOW, OBJECT, REQUEST = "shop", "o#1", "r/1"
NOW, AT = 1_800_000_000_000, 1_799_999_000_000
BUCKET = "texts"


WRITTEN = datetime.fromtimestamp(NOW / 1000, UTC)


class Bucket:
    """An S3 that lists these keys, one to a page."""

    def __init__(self, *keys: str) -> None:
        self.keys = sorted(keys)
        self.deleted: list[str] = []

    def list_object_versions(self, *, Bucket: str, Prefix: str, **place: str) -> Any:  # noqa: N803 - boto3's names
        after = place.get("KeyMarker", "")
        keys = [key for key in self.keys if key.startswith(Prefix) and key > after]
        versions = [{"Key": key, "VersionId": "null", "LastModified": WRITTEN} for key in keys[:1]]
        more = {"IsTruncated": True, "NextKeyMarker": keys[0], "NextVersionIdMarker": "null"} if keys[1:] else {}
        return {"Versions": versions, **more}

    def delete_object(self, *, Bucket: str, Key: str, VersionId: str) -> Any:  # noqa: N803 - boto3's names
        self.deleted.append(Key)
        return {}


def reader(clients: Clients, *keys: str, bucket: str | None = BUCKET) -> TraceReader:
    s3: Any = Bucket(*keys)
    return TraceReader(clients.dynamodb, "flowguard", StoredTexts(lambda: s3), bucket, "flowguard/", no_pause)


def read(
    clients: Clients,
    *keys: str,
    requests: Sequence[str] = (),
    at: int = AT,
    before: int | None = None,
    bucket: str | None = BUCKET,
) -> Traces:
    known = [(request, at) for request in requests]
    return reader(clients, *keys, bucket=bucket).read(Child(FLOW, OBJECT), known, before)


def put(clients: Clients, key: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    item = {**key, **more}
    clients.dynamodb.put_item(TableName="flowguard", Item=item)
    return item


def run(clients: Clients, object_id: str = OBJECT, request: str = REQUEST, flow: str = FLOW, **more: Any) -> Any:
    about = {"request_id": {"S": request}, "requested_at": number(AT), **more}
    return put(clients, run_key(flow, ObjectId(object_id)), **about)


def pointer(key: str, name: str = "bucket") -> dict[str, Any]:
    return {"M": {name: {"S": BUCKET}, "key": {"S": key}}}


OWN = prefix_of_request("flowguard/", FLOW, REQUEST)


# -- texts ------------------------------------------------------------------------------------------------------------


def test_texts_of_the_runs_requests_are_found_and_those_that_are_pointed_to(clients: Clients) -> None:
    run(clients, state=pointer("flowguard/shop/older/1-state"), answered_by={"S": "answered"})
    other = prefix_of_request("flowguard/", FLOW, "answered")
    found = read(clients, f"{OWN}1-a", f"{OWN}2-b", f"{other}1-c", "flowguard/shop/another/1-d")
    assert [text.key for text in found.texts] == [
        "flowguard/shop/older/1-state",
        f"{OWN}1-a",
        f"{OWN}2-b",
        f"{other}1-c",
    ]
    assert {text.bucket for text in found.texts} == {BUCKET}
    assert (found.shared, sorted(found.waiting)) == ((), [])


@pytest.mark.parametrize("request_id", ["answers", "groups"])
def test_a_request_whose_id_is_a_place_for_all_objects_has_no_texts_of_its_own(
    request_id: str, clients: Clients
) -> None:
    run(clients, request=request_id)
    found = read(clients, f"{prefix_of_request('flowguard/', FLOW, request_id)}digest")
    assert (found.texts, found.shared) == ((), (request_id,))


def test_a_text_that_was_written_just_now_may_be_of_a_hop_that_is_not_committed(clients: Clients) -> None:
    run(clients)
    assert [text.key for text in read(clients, f"{OWN}1-a", before=NOW + 1).texts] == [f"{OWN}1-a"]
    found = read(clients, f"{OWN}1-a", before=NOW)
    assert (found.texts, found.young) == ((), 1)
    assert read(clients, f"{OWN}1-a", before=NOW + 1).young == 0
    run(clients, "o2")
    assert read(clients, f"{OWN}1-a", before=NOW).young == 0, "a request of other objects too is said to be left"


def test_texts_of_a_newer_request_that_has_not_begun_are_left(clients: Clients) -> None:
    run(clients)
    key = f"{prefix_of_request('flowguard/', FLOW, 'newer')}1-a"
    assert read(clients, key, requests=["newer"], at=AT + 1).texts == ()
    assert [text.key for text in read(clients, key, requests=["newer"]).texts] == [key]


def test_names_of_stages_are_no_pointers(clients: Clients) -> None:
    run(clients, stages={"M": {"bucket": {"S": "f/tick/2027"}, "key": {"S": "f/tick/2027"}}})
    assert read(clients).texts == ()


def test_without_a_bucket_only_those_are_found_that_are_pointed_to(clients: Clients) -> None:
    run(clients, state=pointer("flowguard/shop/older/1-state", "sealed_in"))
    assert [text.key for text in read(clients, f"{OWN}1-a", bucket=None).texts] == ["flowguard/shop/older/1-state"]


@pytest.mark.parametrize("known_by", ["failed", "outbox", "memo", "cancelled", "history", "letter"])
def test_requests_are_known_by_all_that_names_them(known_by: str) -> None:
    prefix = prefix_of_request("flowguard/", FLOW, "known")
    named = {"M": {"request_id": {"S": "known"}}}
    with on_memory() as clients:
        more: dict[str, Any] = {known_by: named} if known_by not in ("history", "letter") else {}
        run(clients, **more)
        if known_by == "history":
            put(clients, {**run_key(FLOW, ObjectId(OBJECT)), "sk": {"S": "history#1"}}, request_id={"S": "known"})
        requests = ["known"] if known_by == "letter" else []
        assert [text.key for text in read(clients, f"{prefix}1-a", requests=requests).texts] == [f"{prefix}1-a"]


def test_a_request_without_a_run_may_be_of_another_object(clients: Clients) -> None:
    run(clients, "o2")
    found = read(clients, f"{OWN}1-a", requests=[REQUEST])
    assert (found.shared, found.texts, found.children) == ((REQUEST,), (), ())


def test_of_two_requests_that_is_shared_which_another_object_has(clients: Clients) -> None:
    run(clients, answered_by={"S": "answered"})
    run(clients, "o2")
    key = f"{prefix_of_request('flowguard/', FLOW, 'answered')}1-c"
    found = read(clients, f"{OWN}1-a", key)
    assert (found.shared, [text.key for text in found.texts]) == ((REQUEST,), [key])


def test_a_request_that_another_object_has_too_is_shared(clients: Clients) -> None:
    run(clients, state=pointer(f"{OWN}1-own"))
    run(clients, "o2")
    found = read(clients, f"{OWN}1-own", f"{OWN}1-others")
    assert found.shared == (REQUEST,)
    assert [text.key for text in found.texts] == [f"{OWN}1-own"]


@pytest.mark.parametrize("attribute", ["outbox", "state", "result", "first_message"])
def test_a_request_of_which_another_object_has_a_text_is_shared(clients: Clients, attribute: str) -> None:
    run(clients)
    pointed: Any = {attribute: pointer(f"{OWN}1-{attribute}")}
    run(clients, "o2", "newer", **pointed)
    assert read(clients, f"{OWN}1-a").shared == (REQUEST,)


def test_what_other_flows_and_other_requests_have_is_not_shared(clients: Clients) -> None:
    run(clients)
    run(clients, "o2", REQUEST, "shop2")
    run(clients, "o3", "another", state=pointer("flowguard/shop/another/1-state"), result={"S": "1"})
    found = read(clients, f"{OWN}1-a")
    assert (found.shared, [text.key for text in found.texts]) == ((), [f"{OWN}1-a"])


def test_the_texts_of_so_many_requests_are_looked_for_and_no_more(clients: Clients) -> None:
    run(clients)
    others = [f"r-{n}" for n in range(MOST_REQUESTS + 1)]
    keys = [f"{prefix_of_request('flowguard/', FLOW, name)}1-a" for name in (REQUEST, *others)]
    found = read(clients, *keys, requests=["without", *others])
    assert ([text.key for text in found.texts], sorted(found.waiting)) == (keys[:MOST_REQUESTS], sorted(others[-3:]))
    then = read(clients, *keys[MOST_REQUESTS:], requests=others[-3:])
    assert ([text.key for text in then.texts], sorted(then.waiting)) == (keys[MOST_REQUESTS:], [])
    assert read(clients, *keys, requests=["without", *others], before=NOW).young == len(keys)


def test_a_json_text_of_the_users_is_no_key() -> None:
    results = {"M": {"bucket": {"S": '"b"'}, "key": {"S": '"a/b"'}}}
    assert list(pointed_to({"memo": {"M": {"results": results}}})) == []
    for text in ('{"a": "b/c"}', '["b/c"]', "12"):
        assert list(pointed_to({"x": {"M": {"bucket": {"S": "b"}, "key": {"S": text}}}})) == []
    assert list(pointed_to({"x": pointer("a/b")})) == [StoredText(BUCKET, "a/b")]


# -- rows -------------------------------------------------------------------------------------------------------------


def test_rows_beside_the_run_are_found_by_their_kinds(clients: Clients) -> None:
    key = run_key(FLOW, ObjectId(OBJECT))
    run(clients)
    for name in ("caller#t#k", "history#1", "cancel#1", "order#1", "forget#0000"):
        put(clients, {**key, "sk": {"S": name}}, texts={"SS": ['["b", "k/1"]']})
    found = read(clients)
    assert [row["sk"]["S"] for row in found.callers] == ["caller#t#k"]
    assert [row["sk"]["S"] for row in found.history] == ["history#1"]
    assert [row["sk"]["S"] for row in found.journal_rows] == ["forget#0000"]
    assert found.journal == (StoredText("b", "k/1"),)


def test_groups_are_found_by_the_object_that_asks(clients: Clients) -> None:
    run(clients)
    key = shard_key(FLOW, "g-1", 0)
    put(clients, {**key, "sk": {"S": "shard"}}, asker={"S": OBJECT})
    put(clients, {**key, "sk": {"S": "row#0"}}, body=pointer("flowguard/shop/groups/1"))
    put(clients, {**shard_key(FLOW, "g-2", 0), "sk": {"S": "shard"}}, asker={"S": "o2"})
    put(clients, {**shard_key("shop2", "g-3", 0), "sk": {"S": "shard"}}, asker={"S": OBJECT})
    found = read(clients)
    assert [row["sk"]["S"] for row in found.groups] == ["row#0", "shard"]
    assert {row["pk"]["S"] for row in found.groups} == {key["pk"]["S"]}
    assert [text.key for text in found.texts] == ["flowguard/shop/groups/1"]


def test_children_are_known_by_their_request_ids(clients: Clients) -> None:
    item = run(clients)
    stem = stem_of(FLOW, OBJECT, item)
    assert stem == Message(FLOW, "x", 1, ObjectId(OBJECT), RequestId(REQUEST), AT, "", hop=7).hop_id[:-1]
    run(clients, "b", f"{stem}2.0", "picks")
    run(clients, "a", f"pay#{stem}1", "pays")
    run(clients, "c", f"{stem_of(FLOW, 'o2', item)}2.0", "picks")
    run(clients, "d", "another", "picks")
    assert read(clients).children == (Child("pays", "a"), Child("picks", "b"))


@pytest.mark.parametrize("told_by", ["history", "letter"])
def test_children_of_an_earlier_run_are_found_where_something_tells_of_it(told_by: str) -> None:
    with on_memory() as clients:
        run(clients)
        if told_by == "history":
            row = {**run_key(FLOW, ObjectId(OBJECT)), "sk": {"S": "history#1"}}
            put(clients, row, request_id={"S": "earlier"}, requested_at=number(AT - 5))
        earlier = stem_of_run(FLOW, OBJECT, "earlier", AT - 5)
        run(clients, "a", f"{earlier}2.0", "picks")
        letters = [("earlier", AT - 5)] if told_by == "letter" else []
        assert reader(clients).read(Child(FLOW, OBJECT), letters).children == (Child("picks", "a"),)
        assert read(clients).children == ((Child("picks", "a"),) if told_by == "history" else ())


def test_the_newest_runs_are_followed_first() -> None:
    with on_memory() as clients:
        run(clients)
        for n in range(MOST_REQUESTS + 1):
            row = {**run_key(FLOW, ObjectId(OBJECT)), "sk": {"S": f"history#{n:03d}"}}
            put(clients, row, request_id={"S": f"r-{n}"}, requested_at=number(AT - 100 + n))
            run(clients, f"c-{n}", f"{stem_of_run(FLOW, OBJECT, f'r-{n}', AT - 100 + n)}2.0", "picks")
        found = read(clients)
        assert {child.object_id for child in found.children} == {f"c-{n}" for n in range(2, MOST_REQUESTS + 1)}
        assert found.waiting == {"r-0", "r-1"}
        assert "history#000" not in {row["sk"]["S"] for row in found.history}
        assert len(found.history) == MOST_REQUESTS - 1


def test_a_row_beside_the_run_of_another_makes_no_child_of_it() -> None:
    with on_memory() as clients:
        stem = stem_of(FLOW, OBJECT, run(clients))
        run(clients, "a", "another", "picks")
        put(clients, {**run_key("picks", ObjectId("a")), "sk": {"S": "history#1"}}, request_id={"S": f"{stem}2.0"})
        assert read(clients).children == ()


def test_an_object_is_no_child_of_its_own() -> None:
    with on_memory() as clients:
        stem = stem_of_run(FLOW, OBJECT, "letter", AT)
        run(clients, request=f"{stem}2.0")
        assert reader(clients).read(Child(FLOW, OBJECT), [("letter", AT)]).children == ()


# -- children ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flows", [{"shop"}, {"picks", "shop"}, {f"f-{n}" for n in range(MOST_FLOWS + 1)}])
def test_a_child_is_read_with_what_the_scan_of_its_parent_has_found(clients: Clients, flows: set[str]) -> None:
    stem = stem_of(FLOW, OBJECT, run(clients))
    child = run(clients, "b", f"{stem}2.0", "shop")
    grandchild = stem_of("shop", "b", child)
    run(clients, "c", f"{grandchild}1.0", "shop")
    waits(clients, "b")
    put(clients, {**awaiting_key(FLOW, "paid"), "sk": {"S": "place"}}, after={"S": "x"})
    put(clients, {**shard_key("shop", "g-1", 0), "sk": {"S": "shard"}}, asker={"S": "b"})
    put(clients, {**shard_key("shop", "g-1", 0), "sk": {"S": "row#0"}}, body={"S": "x"})
    early(clients, user_of(address("b")))
    parent = reader(clients)._replace(flows=flows).read(Child(FLOW, OBJECT))
    assert (parent.awaited, parent.groups, parent.children) == (0, (), (Child("shop", "b"), Child("shop", "c")))
    with intercept(Recorder()) as calls:
        found = reader(clients).read(Child("shop", "b"), scanned=parent.scanned)
    assert calls.count("dynamodb", "Scan") == 0
    assert (found.awaited, len(found.early), found.children, found.followed) == (1, 1, (Child("shop", "c"),), True)
    assert sorted(row["sk"]["S"] for row in found.groups) == ["row#0", "shard"]


def test_rows_of_flows_that_are_not_asked_for_are_not_kept() -> None:
    with on_memory() as clients:
        stem = stem_of(FLOW, OBJECT, run(clients))
        run(clients, "b", f"{stem}2.0", "shop")
        waits(clients, "b")
        put(clients, {**shard_key("shop", "g-1", 0), "sk": {"S": "shard"}}, asker={"S": "b"})
        run(clients, "long", "another", "picks", state=pointer("flowguard/picks/another/1-state"))
        scanned = reader(clients)._replace(flows={"picks"}).read(Child(FLOW, OBJECT)).scanned
        assert (dict(scanned.waits), dict(scanned.shards)) == ({}, {})
        assert [each.of.object_id for each in scanned.runs] == ["b"]


def scanned(clients: Clients, *stems: str, requests: Sequence[str] = (), flows: Sequence[str] = ()) -> Scanned:
    texts = [RequestTexts(request, prefix_of_request("flowguard/", FLOW, request)) for request in requests]
    return ObjectScan(Child(FLOW, OBJECT), stems, texts, flows).read(clients.dynamodb, "flowguard", no_pause)


def test_of_the_runs_with_long_texts_those_are_kept_that_may_share_a_request_of_the_flow(clients: Clients) -> None:
    run(clients, "same", REQUEST)
    run(clients, "pointing", "another", state=pointer(f"{OWN}1-a"))
    run(clients, "elsewhere", REQUEST, "picks")
    run(clients, "long", "another", state=pointer("flowguard/shop/another/1-state"))
    kept = scanned(clients, requests=[REQUEST]).runs
    assert sorted(run.of.object_id for run in kept) == ["pointing", "same"]


def test_a_request_of_one_id_in_another_flow_is_another(clients: Clients) -> None:
    run(clients, "b", "x-2.0", "picks")
    texts = RequestTexts("x-2.0", "flowguard/shop/x-2.0/")
    found = scanned(clients, "x-")
    assert [run.of for run in found.runs] == [Child("picks", "b")]
    assert found.named(Child(FLOW, OBJECT), (), [texts]).shared == frozenset()
    assert found.named(Child("picks", "c"), (), [texts]).shared == {"x-2.0"}


def test_of_no_run_and_no_request_no_run_and_no_flow_of_children_is_asked_for() -> None:
    with on_memory() as clients, intercept(Recorder()) as calls:
        waits(clients, "b")
        assert scanned(clients, flows=["shop", "picks"]).waits == {}
    asked = calls.calls[-1].params
    assert sorted(asked["ExpressionAttributeValues"]) == [":g", ":o0", ":object", ":w"]
    assert asked["ExpressionAttributeValues"][":o0"] == {"S": "once#start/shop#"}
    assert asked["ExpressionAttributeNames"] == {"#result": "result"}


@pytest.mark.parametrize(("flows", "kept"), [(MOST_FLOWS, 0), (MOST_FLOWS + 1, 1)])
def test_so_many_flows_of_children_are_asked_for_by_name(flows: int, kept: int) -> None:
    with on_memory() as clients:
        waits(clients, "b")
        found = scanned(clients, "x-", flows=[f"f-{number}" for number in range(flows)])
        assert len(found.waits) == kept


def test_texts_of_a_child_are_found_unless_another_may_have_them(clients: Clients) -> None:
    stem = stem_of(FLOW, OBJECT, run(clients))
    request, older = f"{stem}2.0", "older"
    run(clients, "b", request, "picks", answered_by={"S": older})
    prefix = prefix_of_request("flowguard/", "picks", request)
    keys = [f"{prefix}1-a", f"{prefix_of_request('flowguard/', 'picks', older)}1-b"]
    parent, child = Child(FLOW, OBJECT), Child("picks", "b")

    def of_child() -> Traces:
        return reader(clients, *keys).read(child, scanned=reader(clients, *keys).read(parent).scanned)

    found = of_child()
    assert ([text.key for text in found.texts], found.unknown, found.shared) == ([keys[0]], (older,), ())
    run(clients, "d", "newer", "picks", state=pointer(f"{prefix}1-c"))
    assert (of_child().texts, of_child().shared) == ((), (request,))
    run(clients, "d", request, "picks")
    assert (of_child().texts, of_child().shared) == ((), (request,))


def test_what_a_child_with_a_long_id_has_asked_for_is_not_looked_for(clients: Clients) -> None:
    run(clients, request="r" * 80)
    stem = stem_of_run(FLOW, OBJECT, "r" * 80, AT)
    run(clients, "b", f"{stem}2.0", "picks")
    of_child = stem_of_run("picks", "b", f"{stem}2.0", AT)
    assert stem not in of_child
    parent = read(clients)
    assert (parent.children, parent.followed) == ((Child("picks", "b"),), True)
    assert not reader(clients).read(Child("picks", "b"), scanned=parent.scanned).followed


def test_the_conditions_of_the_scan_fit_into_an_expression() -> None:
    """DynamoDB takes 4 KB."""
    flows = {f"{n:03d}" * 26 for n in range(MOST_FLOWS)}
    requests = [RequestTexts(f"r-{n}", f"flowguard/shop/r-{n}/") for n in range(MOST_REQUESTS)]
    scan = ObjectScan(Child(FLOW, OBJECT), [f"r-{n}-" for n in range(MOST_REQUESTS)], requests, flows)
    with on_memory() as clients, intercept(Recorder()) as calls:
        scan.read(clients.dynamodb, "flowguard", no_pause)
    assert len(str(calls.calls[-1].params["FilterExpression"])) < 4_096


def test_without_a_run_there_are_no_children(clients: Clients) -> None:
    run(clients, "o2", "another")
    found = read(clients)
    assert (found.item, found.children, found.texts) == (None, (), ())


def test_all_that_is_asked_of_the_table_is_read_consistently() -> None:
    with on_memory() as clients, intercept(Recorder()) as calls:
        run(clients)
        waits(clients)
        put(clients, {**shard_key(FLOW, "g-1", 0), "sk": {"S": "shard"}}, asker={"S": OBJECT})
        read(clients)
    read_by = [(call.operation, call.params["ConsistentRead"]) for call in calls.calls if call.operation != "PutItem"]
    assert read_by == [("Query", True), ("Scan", True), ("Query", True), ("Query", True)]


def test_each_page_begins_where_the_one_before_has_ended() -> None:
    pages: dict[str, Any] = {
        "{}": {"Items": [{"n": number(1)}], "LastEvaluatedKey": {"pk": "a"}},
        "{'ExclusiveStartKey': {'pk': 'a'}}": {"Items": [], "LastEvaluatedKey": {"pk": "b"}},
        "{'ExclusiveStartKey': {'pk': 'b'}}": {"Items": [{"n": number(2)}]},
    }
    assert [*pages_of(lambda start: pages.pop(str(start)), no_pause)] == [{"n": number(1)}, {"n": number(2)}]
    assert pages == {}


# -- early answers ----------------------------------------------------------------------------------------------------


def address(object_id: str = OBJECT) -> AnswerAddress:
    return AnswerAddress(FLOW, ObjectId(object_id), RequestId(REQUEST), AT, 1, "paid", True)


def waits(clients: Clients, object_id: str = OBJECT, awaited: str = "paid") -> None:
    a = address(object_id)
    put(
        clients,
        {**awaiting_key(FLOW, awaited), "sk": {"S": f"digest-{object_id}"}},
        flow={"S": a.flow},
        object_id={"S": a.object_id},
        request_id={"S": a.request_id},
        requested_at=number(a.requested_at),
        hop=number(a.hop),
        name={"S": a.name},
        admits={"BOOL": True},
        stage={"S": "next"},
        ttl=number(1),
    )


def early(clients: Clients, used_by: str = "", **more: Any) -> Any:
    used = {"used_by": {"S": used_by}} if used_by else {}
    key = {**awaiting_key(FLOW, "paid"), "sk": {"S": "early"}}
    return put(clients, key, given_by={"S": "m-1"}, text=pointer("flowguard/shop/answers/1"), **used, **more)


def test_an_answer_that_the_object_has_used_is_its(clients: Clients) -> None:
    run(clients)
    waits(clients)
    waits(clients, "o2")
    early(clients, user_of(address()))
    [found] = read(clients).early
    assert (found.given_by, found.used_by) == ("m-1", user_of(address()))
    assert [text.key for text in found.texts] == ["flowguard/shop/answers/1"]
    assert read(clients).awaited == 1


def test_an_answer_for_which_the_object_waited_is_its(clients: Clients) -> None:
    run(clients)
    waits(clients)
    early(clients, waited={"S": user_of(address())})
    assert len(read(clients).early) == 1


def test_an_answer_that_nobody_waited_for_is_for_whoever_waits_next(clients: Clients) -> None:
    run(clients)
    waits(clients)
    early(clients)
    assert read(clients).early == ()


def test_an_answer_that_another_waits_for_or_has_used_is_left(clients: Clients) -> None:
    run(clients)
    waits(clients)
    waits(clients, "o2")
    early(clients)
    assert read(clients).early == ()
    early(clients, user_of(address("o2")))
    assert read(clients).early == ()


def test_an_answer_that_is_emptied_is_not_found_again(clients: Clients) -> None:
    run(clients)
    waits(clients)
    early(clients, forgotten={"BOOL": True})
    assert read(clients).early == ()


@pytest.mark.parametrize("used", [True, False])
def test_an_answer_is_emptied_if_it_is_still_what_was_read(clients: Clients, used: bool) -> None:
    run(clients)
    waits(clients)
    stored = early(clients, user_of(address()) if used else "", waited={"S": user_of(address())})
    [found] = read(clients).early
    removal = forgetting(clients)
    for changed in ({"given_by": {"S": "m-2"}}, {"used_by": {"S": "another"}}):
        put(clients, stored, **changed)
        assert not removal.empty_early(found)
    put(clients, stored)
    assert removal.empty_early(found)
    key = {name: stored[name] for name in ("pk", "sk")}
    emptied: Any = clients.dynamodb.get_item(TableName="flowguard", Key=key)["Item"]
    assert (emptied["text"], emptied["given_by"]) == ({"S": "null"}, {"S": "m-1"})
    assert emptied["used_by"] == {"S": user_of(address()) if used else "forgotten"}
    assert read(clients).early == ()


# -- the trace --------------------------------------------------------------------------------------------------------


def forgetting(clients: Clients, s3: Any = None) -> Forgetting:
    return Forgetting(clients.dynamodb, "flowguard", StoredTexts(lambda: s3), no_pause)


def message(**changes: Any) -> Message:
    first = Message(FLOW, "take", 1, ObjectId(OBJECT), RequestId(REQUEST), AT, "{}")
    return first._replace(**changes)


def asked(by: Message, policy: OnConflict, owner: str) -> ClaimRequest:
    return ClaimRequest(by, Owner(owner), NOW, NOW + 1_000, policy, NOW - 10_000_000, NOW + 9_000_000, by.requested_at)


@pytest.mark.parametrize("policy", list(OnConflict))
@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED])
def test_what_late_messages_are_told_of_a_forgotten_run(clients: Clients, policy: OnConflict, status: Status) -> None:
    store = aws_store(Settings(), clients, no_pause)
    claim = store.claim(asked(message(reply_to="sqs:callers"), policy, "w1"))
    assert isinstance(claim, Claim)
    error = ErrorNote("Reject", "no", NOW) if status is Status.FAILED else None
    result = None if error else '"x"'
    store.commit(claim, Commit(status, NOW, NOW + 9_000_000, None, '{"a": 1}', result, error))
    found = read(clients, bucket=None)
    assert found.item is not None
    assert forgetting(clients).leave_trace(found.item, now=NOW, at=NOW, until=NOW + 9_000_000, works_until=NOW)
    assert not forgetting(clients).leave_trace(found.item, now=NOW, at=NOW, until=NOW + 9_000_000, works_until=NOW)

    def verdict(**changes: Any) -> Verdict:
        answer = store.claim(asked(message(**changes), policy, "w2"))
        return answer.verdict if isinstance(answer, Refused) else Verdict.CLAIMED

    assert verdict() is Verdict.DONE
    assert verdict(retry=3) is Verdict.DONE
    assert verdict(redrive=1) is Verdict.DONE
    assert verdict(redrive=10**38 - 1) is Verdict.DONE
    assert verdict(requested_at=AT + 5) is Verdict.DONE
    assert verdict(hop=2, stage="next") is Verdict.DONE
    assert verdict(hop=2, stage="next", redrive=1) is Verdict.DONE
    older = {"request_id": RequestId("older"), "requested_at": AT - 1}
    assert verdict(**older) is (Verdict.KEPT if policy is OnConflict.ATTACH else Verdict.STALE)
    assert verdict(**older, hop=2) is Verdict.SUPERSEDED
    assert verdict(request_id=RequestId("newer"), requested_at=NOW + 1) is Verdict.CLAIMED


def claimed(clients: Clients) -> dict[str, Any]:
    """A run item with what a worker has written, and with data."""
    more: dict[str, Any] = {
        "status": {"S": "RUNNING"},
        "epoch": number(3),
        "done": {"BOOL": False},
        "redrive": number(0),
        "committed_at": number(0),
        "lease_until": number(NOW + 5),
        "ttl": number(1),
        "state": {"S": "secret"},
    }
    item: dict[str, Any] = run(clients, **more)
    return item


def test_a_trace_has_these_attributes_and_no_others() -> None:
    with on_memory() as clients:
        item = claimed(clients)
        assert forgetting(clients).leave_trace(item, now=NOW, at=AT, until=NOW + 2_000, works_until=NOW)
        key = {name: item[name] for name in ("pk", "sk")}
        trace = clients.dynamodb.get_item(TableName="flowguard", Key=key)["Item"]
    assert trace == {
        **key,
        "request_id": {"S": REQUEST},
        "requested_at": number(AT),
        "status": {"S": "FAILED"},
        "error": {"S": str(forgotten_error(NOW))},
        "redrive": number(LAST_REDRIVE),
        "epoch": number(4),
        "done": {"BOOL": True},
        "lease_until": number(NOW),
        "committed_at": number(AT),
        "ttl": number(NOW // 1000 + 2),
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"request_id": {"S": "another"}},
        {"requested_at": number(AT + 1)},
        {"epoch": number(4)},
        {"done": {"BOOL": True}},
        {"status": {"S": "WAITING"}},
    ],
)
def test_a_run_that_has_changed_since_it_was_read_keeps_all(changed: dict[str, Any]) -> None:
    with on_memory() as clients:
        item = claimed(clients)
        now = put(clients, item, **changed)
        assert not forgetting(clients).leave_trace(item, now=NOW, at=AT, until=NOW, works_until=NOW)
        key = {name: item[name] for name in ("pk", "sk")}
        assert clients.dynamodb.get_item(TableName="flowguard", Key=key)["Item"] == now


def test_another_error_of_dynamodb_is_none_of_a_condition() -> None:
    def denied(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "UpdateItem":
            return proceed()
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, call.operation)

    with on_memory() as clients:
        run(clients)
        waits(clients)
        early(clients, user_of(address()))
        [found] = read(clients).early
        with intercept(denied), pytest.raises(ClientError, match="AccessDenied"):
            forgetting(clients).empty_early(found)


# -- rows of the journal ----------------------------------------------------------------------------------------------


def texts(count: int) -> Iterator[StoredText]:
    return (StoredText(BUCKET, f"flowguard/{n}") for n in range(count))


def test_the_journal_takes_as_many_rows_as_it_needs(clients: Clients) -> None:
    many = list(texts(TEXTS_A_ROW + 1))
    keys = forgetting(clients).note_texts(FLOW, OBJECT, many, NOW)
    assert [key["sk"]["S"] for key in keys] == ["forget#0000", "forget#0001"]
    rows: Any = clients.dynamodb.scan(TableName="flowguard")["Items"]
    assert {row["ttl"]["N"] for row in rows} == {str(NOW // 1000)}
    found = read(clients, bucket=None)
    assert sorted(found.journal) == sorted(many)
    assert list(found.journal_rows) == keys
    assert forgetting(clients).note_texts(FLOW, OBJECT, [], NOW) == []
    forgetting(clients).remove_rows(keys)
    assert read(clients, bucket=None).journal == ()


def test_rows_that_dynamodb_does_not_take_are_an_error() -> None:
    with on_memory() as clients, intercept(Unprocessed(times=100)), pytest.raises(RowsNotRemoved) as refused:
        forgetting(clients).note_texts(FLOW, OBJECT, list(texts(1)), NOW)
    assert "forget the object again" in str(refused.value)


def test_keys_of_requests_for_children_are_looked_for_too() -> None:
    scan = ObjectScan(Child("orders", "o1"), stems=("r1-",), flows=("parcels",))
    values = [value["S"] for value in scan._call()["ExpressionAttributeValues"].values()]
    assert {"once#start/orders#", "once#start/parcels#"} <= set(values)
