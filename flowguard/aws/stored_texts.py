"""Finds texts in S3 and removes them with all their versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from flowguard.startup.named_tuple import NamedTuple

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class StoredText(NamedTuple):
    """A text that is an object of S3."""

    bucket: str
    key: str


class StoredTexts(NamedTuple):
    """Finds and removes texts. With ``owner``, an account, S3 answers only where a bucket is that account's."""

    s3: Callable[[], S3Client]
    owner: str | None = None

    def under(self, bucket: str, prefix: str, before: int | None = None) -> tuple[list[StoredText], int]:
        """List the texts whose keys begin like this, those too of which only older versions are left.

        ``before`` leaves out what was written since then (ms). Returns the texts, and how many are left out.
        """
        versions = [*self._versions(bucket, prefix)]
        young = {each["Key"] for each in versions if before is not None and _written_at(each) >= before}
        keys = dict.fromkeys(each["Key"] for each in versions)
        return [StoredText(bucket, key) for key in keys if key not in young], len(young)

    def remove(self, text: StoredText) -> None:
        """Remove a text, each version and each mark of its deletion. One that is gone stays gone."""
        for version in self._versions(text.bucket, text.key):
            if version["Key"] == text.key:
                named = {"Key": version["Key"], "VersionId": version["VersionId"]}
                self.s3().delete_object(Bucket=text.bucket, **named, **self._owned())

    def _versions(self, bucket: str, prefix: str) -> Iterator[Any]:
        """Yield versions and marks of deletions. A bucket without versions has one of each object, ``null``."""
        page: Any = self._page(bucket, prefix)
        yield from _listed(page)
        while page.get("IsTruncated"):
            place = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}
            page = self._page(bucket, prefix, **place)
            yield from _listed(page)

    def _page(self, bucket: str, prefix: str, **place: Any) -> Any:
        return self.s3().list_object_versions(Bucket=bucket, Prefix=prefix, **place, **self._owned())

    def _owned(self) -> Any:
        return {} if self.owner is None else {"ExpectedBucketOwner": self.owner}


def _listed(page: Any) -> Iterator[Any]:
    yield from page.get("Versions", ())
    yield from page.get("DeleteMarkers", ())


def _written_at(version: Any) -> int:
    """Return when a version was written, in ms. 0 where an engine of the tests does not know."""
    return int(version["LastModified"].timestamp() * 1000) if "LastModified" in version else 0


def texts_of(row: Mapping[str, Any]) -> Iterator[StoredText]:
    """Yield the texts to which a row points. Of what maps names of stages to ids nothing is read."""
    yield from pointed_to({name: value for name, value in row.items() if name not in _NO_TEXTS})


def pointed_to(value: Mapping[str, Any]) -> Iterator[StoredText]:
    """Yield the texts to which an item points.

    What stages remember, and what waits are answered, stands in maps too, under names of the user's: a JSON text under
    the name ``key`` is no key.
    """
    match value:
        case {"bucket": {"S": bucket}, "key": {"S": key}} | {"sealed_in": {"S": bucket}, "key": {"S": key}}:
            if "/" in key and key[0] not in _JSON:
                yield StoredText(bucket, key)
        case _:
            pass
    for part in value.values():
        if isinstance(part, Mapping):
            yield from pointed_to(part)


_NO_TEXTS: Final = frozenset({"stages"})
"""The attributes with names of the user's beside ids."""

_JSON: Final = '"[{'
"""The beginnings of JSON texts that may hold a slash."""
