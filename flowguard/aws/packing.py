"""The forms in which an item stores long texts.

A text is stored as it is, compressed where that is smaller, or in S3 with a pointer in its place. The DynamoDB type
tells which: ``S`` is the text, ``B`` is zlib, ``M`` is a pointer. Each is paid for at every write of the item, and what
is in the outbox twice: by the commit, and by the claim that clears it.

A text of a flow with a codec is a map too. ``sealed`` has its bytes, or ``sealed_in`` the bucket that has them.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws import botocore_errors
from flowguard.aws.faults import error_code, is_refusal
from flowguard.errors import CannotOpen, SettingsError, TextGone
from flowguard.payload.codec import About, Codecs, opened_text
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

_NOTHING: Final[Mapping[str, dict[str, Any]]] = {}


class Packed(NamedTuple):
    """A text in the form in which it is stored, and how many bytes of the item that takes."""

    value: dict[str, Any]
    size: int


class Packing:
    """Packs and unpacks long texts. ``s3`` is called for a client only when something is stored there.

    With ``owner``, an account, S3 answers only where the bucket is that account's: one that was deleted, and made anew
    by a stranger, is neither read nor written. ``codecs`` are those of the flows whose texts these are.
    """

    def __init__(
        self,
        s3: Callable[[], S3Client],
        bucket: str | None,
        offload_above: int,
        owner: str | None = None,
        codecs: Codecs | None = None,
    ) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._offload_above = offload_above
        self.codecs = Codecs() if codecs is None else codecs
        self._owned: Any = {} if owner is None else {"ExpectedBucketOwner": owner}

    @classmethod
    def of(cls, settings: Settings, clients: Clients, codecs: Codecs | None = None) -> Packing:
        """Build the packing that the settings describe."""
        return cls(lambda: clients.s3, settings.bucket, settings.offload_above, settings.bucket_owner, codecs)

    def pack(
        self,
        text: str,
        key: str | None,
        beside: Mapping[str, dict[str, Any]] = _NOTHING,
        *,
        about: About | None,
    ) -> Packed:
        """Store the text in the form that costs least. It is sealed where the flow that it is ``about`` has a codec.

        ``key`` is the S3 key of a text that is stored there; no two attempts may share one. Without one the text stays
        in the item. ``beside`` stands beside the pointer: what is known of the text without reading it. A bucket that
        refuses for good leaves the text in the item, which may then be too large. A denial may pass: it is raised
        where the text is so long. An ``about`` of None is for a text that is never sealed.
        """
        data = text.encode()
        if (sealed := self._sealed(data, about)) is not None:
            return self._pack_sealed(sealed, key, beside)
        small = _compressed(data)
        long = len(small) > self._offload_above
        if long and self._bucket is not None and key is not None and self._offload(self._bucket, key, data, len(small)):
            pointer = {"bucket": {"S": self._bucket}, "key": {"S": key}, **beside}
            return Packed({"M": pointer}, _size_of(pointer))
        if len(small) < len(data):
            return Packed({"B": small}, len(small))
        return Packed({"S": text}, len(data))

    def _sealed(self, data: bytes, about: About | None) -> bytes | None:
        """Return the text sealed. None where no codec is for it."""
        if about is None:
            return None
        codec = self.codecs.of(about.flow)
        return None if codec is None else codec.seal(data, about)

    def _pack_sealed(self, sealed: bytes, key: str | None, beside: Mapping[str, dict[str, Any]]) -> Packed:
        """Store a sealed text in the item or in S3."""
        kept: dict[str, dict[str, Any]] = {"sealed": {"B": sealed}, **beside}
        long = len(sealed) > self._offload_above
        if long and self._bucket is not None and key is not None and self._put(self._bucket, key, sealed, len(sealed)):
            kept = {"sealed_in": {"S": self._bucket}, "key": {"S": key}, **beside}
        return Packed({"M": kept}, _size_of(kept))

    def pack_aside(self, text: str, key: str, *, about: About | None) -> Packed:
        """Store the text in S3 whatever its length.

        Without a bucket, or where that refuses for good, it stays in the item.
        """
        data, bucket = text.encode(), self._bucket
        if bucket is None:
            return self.pack(text, None, about=about)
        if (sealed := self._sealed(data, about)) is not None:
            pointer = {"sealed_in": {"S": bucket}, "key": {"S": key}}
            is_there = self._put(bucket, key, sealed, HALF_AN_ITEM + 1)
        else:
            pointer = {"bucket": {"S": bucket}, "key": {"S": key}}
            is_there = self._offload(bucket, key, data, HALF_AN_ITEM + 1)
        return Packed({"M": pointer}, _size_of(pointer)) if is_there else self.pack(text, None, about=about)

    def tells_apart(self, text: str, flow: str) -> str:
        """Return what may stand for the text in the name of an object: nothing of one that is sealed follows from it.

        It is another one each time then.
        """
        return text if self.codecs.of(flow) is None else os.urandom(16).hex()

    def size_of(self, text: str, *, about: About | None) -> int:
        """Return how many bytes of the item the text takes, stored now or before. Stores nothing."""
        data = text.encode()
        if (sealed := self._sealed(data, about)) is not None:
            is_outside = self._bucket is not None and len(sealed) > self._offload_above
            return 1_024 if is_outside else _size_of({"sealed": {"B": sealed}})
        small = len(_compressed(data))
        return 1_024 if self._bucket is not None and small > self._offload_above else min(small, len(data))

    def _offload(self, bucket: str, key: str, data: bytes, room: int) -> bool:
        """Store the text in S3, or answer False where it is left to the item, in which it takes this ``room``."""
        body = zlib.compress(data, 6)  # a short text too: what is outside is always compressed
        return self._put(bucket, key, body, room, "application/zlib")

    def _put(self, bucket: str, key: str, body: bytes, room: int, kind: str = "application/octet-stream") -> bool:
        try:
            self._s3().put_object(Bucket=bucket, Key=key, Body=body, ContentType=kind, **self._owned)
        except (botocore_errors.ClientError, botocore_errors.ParamValidationError) as error:
            if not is_refusal(error) or (_is_denial(error) and room > HALF_AN_ITEM):
                raise
            return False
        return True

    def unpack(self, value: dict[str, Any], about: About | None) -> str:
        """Return the text that was packed, opened where it is sealed.

        Raises :class:`TextGone` where S3 has it no more, and :class:`SettingsError` for a form that this version does
        not know; and as :func:`flowguard.payload.codec.opened` does.
        """
        match value:
            case {"M": {"sealed": {"B": bytes(sealed)}}}:
                return self._opened(sealed, about)
            case {"M": {"sealed_in": {"S": bucket}, "key": {"S": key}}}:
                return self._opened(self._fetch(bucket, key), about)
            case {"S": str(text)}:
                return text
            case {"B": bytes(data)}:
                return zlib.decompress(data).decode()
            case {"M": {"bucket": {"S": bucket}, "key": {"S": key}}}:
                return zlib.decompress(self._fetch(bucket, key)).decode()
            case _:
                raise SettingsError("table", f"an item holds a text in a form unknown here: {sorted(value)}")

    def _opened(self, sealed: bytes, about: About | None) -> str:
        if about is None:
            raise CannotOpen("text", "it is sealed, and stands where none is")
        return opened_text(self.codecs.of(about.flow), sealed, about)

    def _fetch(self, bucket: str, key: str) -> bytes:
        """Read an object. It is gone where S3 says so; every other refusal passes, or somebody mends it.

        Without the permission to list the bucket, S3 answers 403 for a missing key.
        https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
        """
        try:
            return self._s3().get_object(Bucket=bucket, Key=key, **self._owned)["Body"].read()
        except botocore_errors.ClientError as error:
            if error_code(error) == "NoSuchKey" or (_is_denial(error) and self._is_absent(bucket, key)):
                raise TextGone(bucket, key, "NoSuchKey") from error
            raise

    def _is_absent(self, bucket: str, key: str) -> bool:
        """Answer whether a list of the bucket lacks the key, for a role that may list its prefix and no more."""
        try:
            page = self._s3().list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1, **self._owned)
        except botocore_errors.ClientError:
            return False
        return all(entry["Key"] != key for entry in page.get("Contents", ()))


def _is_denial(error: Exception) -> bool:
    if not isinstance(error, botocore_errors.ClientError):
        return False
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 403


def _size_of(pointer: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the bytes of a pointer as DynamoDB counts a map. A number in it counts as its digits, or less."""
    parts = ((name, *part.values()) for name, part in pointer.items())
    return 3 + sum(
        1 + len(name.encode()) + len(data if isinstance(data, bytes) else data.encode()) for name, data in parts
    )


def is_sealed(value: Mapping[str, Any]) -> bool:
    """Answer whether a stored text is sealed. Nothing is opened or read."""
    return "M" in value and ("sealed" in value["M"] or "sealed_in" in value["M"])


def _compressed(data: bytes) -> bytes:
    return data if len(data) <= SHORT else zlib.compress(data, 6)
