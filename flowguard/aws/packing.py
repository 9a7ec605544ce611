"""The forms in which an item stores long texts.

A text is stored as it is, compressed where that is smaller, or in S3 with a pointer in its place. The DynamoDB type
tells which: ``S`` is the text, ``B`` is zlib, ``M`` is a pointer. Each is paid for at every write of the item, and what
is in the outbox twice: by the commit, and by the claim that clears it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError, ParamValidationError

from flowguard.aws.faults import error_code, is_refusal
from flowguard.errors import SettingsError, TextGone
from flowguard.startup.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3 import S3Client

    from flowguard.aws.clients import Clients
    from flowguard.settings import Settings

SHORT = 200
"""Texts up to this many characters are left as they are: compressing them costs more than it saves."""

HALF_AN_ITEM: Final = 200_000
"""Bytes. A longer text that S3 may take a moment later is not tried in the item, which it would fail."""


class Packed(NamedTuple):
    """A text in the form in which it is stored, and how many bytes of the item that takes."""

    value: dict[str, Any]
    size: int


class Packing:
    """Packs and unpacks long texts. ``s3`` is called for a client only when something is stored there.

    With ``owner``, an account, S3 answers only where the bucket is that account's: one that was deleted, and made anew
    by a stranger, is neither read nor written.
    """

    def __init__(
        self, s3: Callable[[], S3Client], bucket: str | None, offload_above: int, owner: str | None = None
    ) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._offload_above = offload_above
        self._owned: Any = {} if owner is None else {"ExpectedBucketOwner": owner}

    @classmethod
    def of(cls, settings: Settings, clients: Clients) -> Packing:
        """Build the packing that the settings describe."""
        return cls(lambda: clients.s3, settings.bucket, settings.offload_above, settings.bucket_owner)

    def pack(self, text: str, key: str | None, beside: Mapping[str, dict[str, Any]] | None = None) -> Packed:
        """Store the text in the form that costs least.

        ``key`` is the S3 key of a text that is stored there; no two attempts may share one. Without one the text stays
        in the item. ``beside`` stands beside the pointer: what is known of the text without reading it. A bucket that
        refuses for good leaves the text in the item, which may then be too large. A denial may pass: it is raised
        where the text is so long.
        """
        data = text.encode()
        small = _compressed(data)
        long = len(small) > self._offload_above
        if long and self._bucket is not None and key is not None and self._offload(self._bucket, key, data, len(small)):
            pointer = {"bucket": {"S": self._bucket}, "key": {"S": key}, **(beside or {})}
            return Packed({"M": pointer}, _size_of(pointer))
        if len(small) < len(data):
            return Packed({"B": small}, len(small))
        return Packed({"S": text}, len(data))

    def pack_aside(self, text: str, key: str) -> Packed:
        """Store the text in S3 whatever its length.

        Without a bucket, or where that refuses for good, it stays in the item.
        """
        if self._bucket is None or not self._offload(self._bucket, key, text.encode(), HALF_AN_ITEM + 1):
            return self.pack(text, None)
        pointer = {"bucket": {"S": self._bucket}, "key": {"S": key}}
        return Packed({"M": pointer}, _size_of(pointer))

    def size_of(self, text: str) -> int:
        """Return how many bytes of the item the text takes, stored now or before. Stores nothing."""
        data = text.encode()
        small = len(_compressed(data))
        return 1_024 if self._bucket is not None and small > self._offload_above else min(small, len(data))

    def _offload(self, bucket: str, key: str, data: bytes, room: int) -> bool:
        """Store the text in S3, or answer False where it is left to the item, in which it takes this ``room``."""
        try:
            body = zlib.compress(data, 6)  # a short text too: what is outside is always compressed
            self._s3().put_object(Bucket=bucket, Key=key, Body=body, ContentType="application/zlib", **self._owned)
        except (ClientError, ParamValidationError) as error:
            if not is_refusal(error) or (_is_denial(error) and room > HALF_AN_ITEM):
                raise
            return False
        return True

    def unpack(self, value: dict[str, Any]) -> str:
        """Return the text that was packed.

        Raises :class:`TextGone` where S3 has it no more, and :class:`SettingsError` for a form that this version does
        not know.
        """
        match value:
            case {"S": str(text)}:
                return text
            case {"B": bytes(data)}:
                return zlib.decompress(data).decode()
            case {"M": {"bucket": {"S": bucket}, "key": {"S": key}}}:
                return zlib.decompress(self._fetch(bucket, key)).decode()
            case _:
                raise SettingsError("table", f"an item holds a text in a form unknown here: {sorted(value)}")

    def _fetch(self, bucket: str, key: str) -> bytes:
        """Read an object. It is gone where S3 says so; every other refusal passes, or somebody mends it.

        Without the permission to list the bucket, S3 answers 403 for a missing key.
        https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
        """
        try:
            return self._s3().get_object(Bucket=bucket, Key=key, **self._owned)["Body"].read()
        except ClientError as error:
            if error_code(error) == "NoSuchKey" or (_is_denial(error) and self._is_absent(bucket, key)):
                raise TextGone(bucket, key, "NoSuchKey") from error
            raise

    def _is_absent(self, bucket: str, key: str) -> bool:
        """Answer whether a list of the bucket lacks the key, for a role that may list its prefix and no more."""
        try:
            page = self._s3().list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1, **self._owned)
        except ClientError:
            return False
        return all(entry["Key"] != key for entry in page.get("Contents", ()))


def _is_denial(error: Exception) -> bool:
    if not isinstance(error, ClientError):
        return False
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 403


def _size_of(pointer: Mapping[str, Mapping[str, str]]) -> int:
    """Return the bytes of a pointer as DynamoDB counts a map. A number in it counts as its digits, or less."""
    texts = ((name, *part.values()) for name, part in pointer.items())
    return 3 + sum(1 + len(name.encode()) + len(text.encode()) for name, text in texts)


def _compressed(data: bytes) -> bytes:
    return data if len(data) <= SHORT else zlib.compress(data, 6)
