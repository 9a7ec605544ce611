"""What S3 does with the objects that hold long texts."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.fact import NOWHERE, Document, Fact, like

_API: Final = "https://docs.aws.amazon.com/AmazonS3/latest/API"
_GUIDE: Final = "https://docs.aws.amazon.com/AmazonS3/latest/userguide"
_GET: Final = Document("GetObject", f"{_API}/API_GetObject.html")
_HEAD: Final = Document("HeadObject", f"{_API}/API_HeadObject.html")
_CONSISTENT: Final = Document(
    "What is Amazon S3? Amazon S3 data consistency model", f"{_GUIDE}/Welcome.html#ConsistencyModel"
)
_HEAD_BUCKET: Final = Document("HeadBucket", f"{_API}/API_HeadBucket.html")
_KEYS: Final = Document("Naming Amazon S3 objects", f"{_GUIDE}/object-keys.html")
_OWNER: Final = Document(
    "Verifying bucket ownership with bucket owner condition", f"{_GUIDE}/bucket-owner-condition.html"
)
_ERRORS: Final = Document("Error responses", f"{_API}/ErrorResponses.html")

S3_FACTS: Final = (
    Fact(
        name="s3-head-bucket",
        sentence="`HeadBucket` has no body: of a bucket that does not exist the code is 404, and 403 of one that may "
        "not be read. It needs `s3:ListBucket`.",
        source=_HEAD_BUCKET,
        read="2026-11",
        relied_on_by=("deploy/live.py:_NO_BUCKET", "deploy/live.py:LiveAccount.has_bucket"),
        words=("HeadBucket",),
        engines=like("moto", "ministack"),
    ),
    Fact(
        name="s3-missing-key",
        sentence="An object that does not exist is `NoSuchKey`, 404, for a caller who may list the bucket.",
        source=_GET,
        read="2026-11",
        relied_on_by=("aws/packing.py:Packing", "sim/limits/objects.py:no_object"),
        words=(
            "GetObject",
            "NoSuchKey",
        ),
        engines=like("memory", "moto", "ministack"),
    ),
    Fact(
        name="s3-missing-key-without-list",
        sentence="For a caller without `s3:ListBucket` an object that does not exist is `AccessDenied`, 403, as a "
        "denial is.",
        source=_GET,
        read="2026-11",
        relied_on_by=("aws/packing.py:Packing", "deploy/permissions.py:permissions_of"),
        engines=NOWHERE,
    ),
    Fact(
        name="s3-list-under-a-key",
        sentence="A list with `Prefix` is allowed to whoever may list that prefix and no more (`s3:prefix`), and has "
        "the objects whose keys begin so, in the order of their keys.",
        source=Document("ListObjectsV2", f"{_API}/API_ListObjectsV2.html"),
        relied_on_by=("aws/packing.py:Packing", "deploy/arns.py:AllowedActions"),
        words=("ListObjectsV2", "Prefix", "MaxKeys", "Contents", "Key"),
        engines=like("memory", "moto"),
        by_hand="Needs a role that may list under one key alone.",
    ),
    Fact(
        name="s3-versions",
        sentence="A list of versions, which `s3:ListBucketVersions` allows, has each version of each object and each "
        "mark of a deletion, page by page. Deleted by its id, which `s3:DeleteObjectVersion` allows, a version is gone "
        "for good. An object of a bucket that keeps no versions has one, `null`.",
        source=Document("ListObjectVersions", f"{_API}/API_ListObjectVersions.html"),
        relied_on_by=("aws/stored_texts.py:StoredTexts", "sim/memory/s3.py:_ONLY"),
        words=(
            "LastModified",
            *("ListObjectVersions", "DeleteObject", "Versions", "DeleteMarkers", "VersionId", "KeyMarker"),
            *("VersionIdMarker", "NextKeyMarker", "NextVersionIdMarker", "IsTruncated"),
        ),
        engines=like("moto", memory="keeps no versions"),
        by_hand="Needs a bucket that keeps versions, and costs their removal.",
    ),
    Fact(
        name="s3-head-has-no-code",
        sentence="The error of a HEAD has no body, and so no code but its status: 404 or 403.",
        source=_HEAD,
        read="2026-11",
        relied_on_by=("sim/limits/objects.py:no_object", "sim/limits/refusing.py:Refusing"),
        engines=like("memory", "moto", "ministack"),
    ),
    Fact(
        name="s3-missing-bucket",
        sentence="A bucket that does not exist is `NoSuchBucket`, 404.",
        source=_ERRORS,
        relied_on_by=("sim/limits/objects.py:no_bucket",),
        words=("NoSuchBucket", "Bucket"),
        engines=like("memory", "moto", "ministack"),
    ),
    Fact(
        name="s3-invalid-request",
        sentence="A request that S3 refuses for its form is `InvalidRequest`, 400.",
        source=_ERRORS,
        relied_on_by=("aws/faults.py:FINAL",),
        words=("InvalidRequest",),
        engines=NOWHERE,
        by_hand="boto3 sends no such request.",
    ),
    Fact(
        name="s3-consistent",
        sentence="A read after a write, an overwrite or a deletion shows it.",
        source=_CONSISTENT,
        read="2023-06",
        relied_on_by=("aws/packing.py:Packing",),
        words=("PutObject",),
        engines=like("memory", "moto", "ministack"),
    ),
    Fact(
        name="s3-key-size",
        sentence="A key has at most 1,024 bytes in UTF-8; more is `KeyTooLongError`.",
        source=_KEYS,
        relied_on_by=("sim/limits/objects.py:LONGEST_KEY",),
        limit=1_024,
        words=("KeyTooLongError",),
        engines=like("memory", "moto", ministack="takes longer ones"),
    ),
    Fact(
        name="s3-expected-owner",
        sentence="A call with `ExpectedBucketOwner` to a bucket of another account is 403: a bucket that was deleted "
        "and made again by a stranger is neither read nor written.",
        source=_OWNER,
        read="2026-11",
        relied_on_by=("aws/packing.py:Packing", "sim/limits/objects.py:denied"),
        words=("ExpectedBucketOwner",),
        engines=like("memory", moto="does not look at it", ministack="does not look at it"),
    ),
    Fact(
        name="s3-if-none-match",
        sentence="A put with `IfNoneMatch` `*` of a key that is there is `PreconditionFailed`, 412; two at once may be "
        "409 `ConditionalRequestConflict`, which passes.",
        source=Document(
            "How to prevent object overwrites with conditional writes", f"{_GUIDE}/conditional-writes.html"
        ),
        read="2026-11",
        relied_on_by=("sim/memory/s3.py:S3._put",),
        words=("PreconditionFailed", "IfNoneMatch"),
        engines=like("memory", "moto", "ministack"),
    ),
    Fact(
        name="s3-owned-already",
        sentence="A bucket that is one's own already is `BucketAlreadyOwnedByYou` when it is made again; in us-east-1 "
        "it is 200.",
        source=Document("CreateBucket", f"{_API}/API_CreateBucket.html"),
        read="2026-11",
        relied_on_by=("dev/provided.py:Provider._bucket",),
        words=("BucketAlreadyOwnedByYou", "CreateBucketConfiguration", "LocationConstraint"),
        engines=like("moto"),
        by_hand="Differs by region.",
    ),
    Fact(
        name="s3-slow-down",
        sentence="A prefix takes 3,500 writes and 5,500 reads a second; more is `SlowDown`, 503, and passes.",
        source=Document(
            "Best practices design patterns: optimizing Amazon S3 performance", f"{_GUIDE}/optimizing-performance.html"
        ),
        read="2023-06",
        relied_on_by=("aws/faults.py:is_final_code",),
        limit=3_500,
        words=("SlowDown",),
        engines=NOWHERE,
        by_hand="Takes a load of thousands of requests a second.",
    ),
)
