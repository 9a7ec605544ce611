"""Long texts inside an item: as they are, compressed where that is smaller, or in S3 with a pointer in their place.

The DynamoDB type tells which: ``S`` is the text, ``B`` is zlib, ``M`` is a pointer. Each is paid for at every write of
the item, and what is in the outbox twice: by the commit, and by the claim that clears it.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from flowguard.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3 import S3Client

SHORT = 200
"""Texts up to this many characters are left as they are: compressing them costs more than it saves."""


class Packed(NamedTuple):
    """A text in the form in which it is stored, and how many bytes of the item that takes."""

    value: dict[str, Any]
    size: int


class Packing:
    """Packs and unpacks. ``s3`` is called for a client only when something is stored there."""

    def __init__(self, s3: Callable[[], S3Client], bucket: str | None, offload_above: int) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._offload_above = offload_above

    def pack(self, text: str, key: str) -> Packed:
        """``key`` is the S3 key to use if it comes to that; no two attempts may share one."""
        data = text.encode()
        small = data if len(data) <= SHORT else zlib.compress(data, 6)
        if self._bucket is not None and len(small) > self._offload_above:
            self._s3().put_object(Bucket=self._bucket, Key=key, Body=small, ContentType="application/zlib")
            pointer = {"bucket": {"S": self._bucket}, "key": {"S": key}}
            return Packed({"M": pointer}, len(self._bucket) + len(key) + 16)
        if len(small) < len(data):
            return Packed({"B": small}, len(small))
        return Packed({"S": text}, len(data))

    def unpack(self, value: dict[str, Any]) -> str:
        """The text again. Raises :class:`SettingsError` for a form that this version does not know."""
        match value:
            case {"S": str(text)}:
                return text
            case {"B": bytes(data)}:
                return zlib.decompress(data).decode()
            case {"M": {"bucket": {"S": bucket}, "key": {"S": key}}}:
                data = self._s3().get_object(Bucket=bucket, Key=key)["Body"].read()
                return zlib.decompress(data).decode()
            case _:
                raise SettingsError("table", f"an item holds a text in a form unknown here: {sorted(value)}")
