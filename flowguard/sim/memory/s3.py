"""S3 in memory. Objects are kept whole in their buckets."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from typing import Any, Final

from botocore.response import StreamingBody

from flowguard.sim.calls import Response
from flowguard.sim.limits.fault import Fault
from flowguard.sim.limits.objects import check_key, denied, no_bucket, no_object
from flowguard.sim.memory.service import Operation, Params, Surroundings, operation

_ONLY: Final = "null"
"""The version of each object in a bucket that keeps no versions."""


class S3:
    """The buckets. The mapping of objects is replaced, never changed."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._buckets: Mapping[str, Mapping[str, bytes]] = {}
        self.operations: Mapping[str, Operation] = {
            "CreateBucket": operation(self._create, "Bucket CreateBucketConfiguration"),
            "PutObject": operation(
                self._put, "Bucket Key Body ContentType Metadata IfNoneMatch ServerSideEncryption ExpectedBucketOwner"
            ),
            "GetObject": operation(self._get, "Bucket Key ExpectedBucketOwner"),
            "HeadObject": operation(self._head, "Bucket Key ExpectedBucketOwner"),
            "DeleteObject": operation(self._delete, "Bucket Key VersionId ExpectedBucketOwner"),
            "ListObjectVersions": operation(self._list_versions, "Bucket Prefix ExpectedBucketOwner"),
            "HeadBucket": operation(self._head_bucket, "Bucket ExpectedBucketOwner"),
            "ListBuckets": operation(lambda _: {"Buckets": [{"Name": name} for name in sorted(self._buckets)]}),
            "ListObjectsV2": operation(self._list, "Bucket Prefix MaxKeys ExpectedBucketOwner"),
        }

    def _create(self, params: Params) -> Response:
        self._buckets = {params["Bucket"]: {}, **self._buckets}
        return {"Location": f"/{params['Bucket']}"}

    def _bucket(self, params: Params) -> Mapping[str, bytes]:
        if params["Bucket"] not in self._buckets:
            raise no_bucket()
        if params.get("ExpectedBucketOwner", self._around.account) != self._around.account:
            raise denied()
        return self._buckets[params["Bucket"]]

    def _head_bucket(self, params: Params) -> Response:
        self._bucket(params)
        return {"BucketRegion": self._around.region}

    def _list(self, params: Params) -> Response:
        """Return the objects at once, up to a given number, and no token for the rest."""
        prefix = params.get("Prefix", "")
        contents = [
            {"Key": key, "Size": len(data), "ETag": _etag(data)}
            for key, data in sorted(self._bucket(params).items())
            if key.startswith(prefix)
        ][: params.get("MaxKeys")]
        answer = {"Name": params["Bucket"], "Prefix": prefix, "KeyCount": len(contents), "IsTruncated": False}
        return {**answer, "Contents": contents} if contents else answer

    def _list_versions(self, params: Params) -> Response:
        """Return the only version of each object: no bucket here keeps versions."""
        listed = self._list({**params, "MaxKeys": None})
        versions = [{**entry, "VersionId": _ONLY, "IsLatest": True} for entry in listed.get("Contents", ())]
        answer = {"Name": params["Bucket"], "Prefix": params.get("Prefix", ""), "IsTruncated": False}
        return {**answer, "Versions": versions} if versions else answer

    def _put(self, params: Params) -> Response:
        check_key(params)
        objects, body = self._bucket(params), params.get("Body", b"")
        if params.get("IfNoneMatch") == "*" and params["Key"] in objects:
            problem = "At least one of the pre-conditions you specified did not hold"
            raise Fault("PreconditionFailed", problem, status=412)
        content = body if isinstance(body, (bytes, bytearray, str)) else body.read()
        data = content.encode() if isinstance(content, str) else bytes(content)
        self._buckets = {**self._buckets, params["Bucket"]: {**objects, params["Key"]: data}}
        return {"ETag": _etag(data)}

    def _get(self, params: Params) -> Response:
        data = self._found("GetObject", params)
        return {"Body": StreamingBody(io.BytesIO(data), len(data)), "ContentLength": len(data), "ETag": _etag(data)}

    def _found(self, operation: str, params: Params) -> bytes:
        check_key(params)
        data = self._bucket(params).get(params["Key"])
        if data is None:
            raise no_object(operation)
        return data

    def _head(self, params: Params) -> Response:
        data = self._found("HeadObject", params)
        return {"ContentLength": len(data), "ETag": _etag(data)}

    def _delete(self, params: Params) -> Response:
        is_meant = params.get("VersionId", _ONLY) == _ONLY
        kept = {key: data for key, data in self._bucket(params).items() if key != params["Key"] or not is_meant}
        self._buckets = {**self._buckets, params["Bucket"]: kept}
        return {}

    def state(self) -> Any:
        return self._buckets

    def put_back(self, state: Any) -> None:
        self._buckets = state

    def digest(self) -> Any:
        return tuple((name, tuple(sorted(objects.items()))) for name, objects in sorted(self._buckets.items()))


def _etag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
