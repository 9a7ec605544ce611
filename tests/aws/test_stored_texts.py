"""Texts in S3 are removed with all their versions, and no others with them."""

from __future__ import annotations

from typing import Any

from flowguard.aws.clients import Clients
from flowguard.aws.stored_texts import StoredText, StoredTexts
from flowguard.sim.account import ACCOUNT_ID
from tests.aws.engines import on_moto

BUCKET = "long-texts"


def put(clients: Clients, key: str, *bodies: bytes) -> None:
    for body in bodies:
        clients.s3.put_object(Bucket=BUCKET, Key=key, Body=body)


def keys(clients: Clients) -> list[str]:
    return [entry["Key"] for entry in clients.s3.list_objects_v2(Bucket=BUCKET).get("Contents", ())]


def versions(clients: Clients) -> list[str]:
    listed: Any = clients.s3.list_object_versions(Bucket=BUCKET)
    return [entry["Key"] for kind in ("Versions", "DeleteMarkers") for entry in listed.get(kind, ())]


def test_a_text_is_removed_and_one_whose_key_goes_on_stays(with_s3: Clients) -> None:
    put(with_s3, "a/1", b"x")
    put(with_s3, "a/12", b"x")
    stored = StoredTexts(lambda: with_s3.s3)
    assert stored.under(BUCKET, "a/1") == ([StoredText(BUCKET, "a/1"), StoredText(BUCKET, "a/12")], 0)
    stored.remove(StoredText(BUCKET, "a/1"))
    stored.remove(StoredText(BUCKET, "a/1"))
    assert keys(with_s3) == ["a/12"]
    assert stored.under(BUCKET, "b/") == ([], 0)


def test_in_a_bucket_that_keeps_versions_all_of_them_are_removed_and_what_marks_deletions() -> None:
    with on_moto() as clients:
        clients.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        put(clients, "a/1", b"x", b"y")
        put(clients, "a/2", b"x")
        clients.s3.delete_object(Bucket=BUCKET, Key="a/1")
        assert versions(clients) == ["a/1", "a/1", "a/2", "a/1"]
        stored = StoredTexts(lambda: clients.s3)
        assert stored.under(BUCKET, "a/") == ([StoredText(BUCKET, "a/1"), StoredText(BUCKET, "a/2")], 0)
        stored.remove(StoredText(BUCKET, "a/1"))
        assert versions(clients) == ["a/2"]


def test_the_bucket_of_another_account_is_not_touched(with_s3: Clients) -> None:
    put(with_s3, "a/1", b"x")
    StoredTexts(lambda: with_s3.s3, ACCOUNT_ID).remove(StoredText(BUCKET, "a/1"))
    assert keys(with_s3) == []


def test_each_page_begins_where_the_one_before_has_ended() -> None:
    asked: list[Any] = []
    pages: list[Any] = [
        {
            "Versions": [{"Key": "a/1", "VersionId": "v1"}],
            "IsTruncated": True,
            "NextKeyMarker": "a/1",
            "NextVersionIdMarker": "v1",
        },
        {"DeleteMarkers": [{"Key": "a/2", "VersionId": "v2"}]},
    ]

    class Paged:
        def list_object_versions(self, **about: Any) -> Any:
            asked.append(about)
            return pages.pop(0)

    s3: Any = Paged()
    assert [text.key for text in StoredTexts(lambda: s3).under("b", "a/")[0]] == ["a/1", "a/2"]
    asked_first = {"Bucket": "b", "Prefix": "a/"}
    assert asked == [asked_first, {**asked_first, "KeyMarker": "a/1", "VersionIdMarker": "v1"}]


def test_the_owner_goes_with_each_call() -> None:
    asked: list[Any] = []

    class Asked:
        def list_object_versions(self, **about: Any) -> Any:
            asked.append(about)
            return {"Versions": [{"Key": "a/1", "VersionId": "v"}]}

        def delete_object(self, **about: Any) -> None:
            asked.append(about)

    s3: Any = Asked()
    StoredTexts(lambda: s3, "42").remove(StoredText("b", "a/1"))
    assert [about["ExpectedBucketOwner"] for about in asked] == ["42", "42"]
    assert asked[1]["VersionId"] == "v"
