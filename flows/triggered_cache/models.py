"""What travels between the stages of TriggeredCache, what the run remembers, and what it leaves behind."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


# -- messages ---------------------------------------------------------------------------------------------------------


class CacheReset(Frozen):
    """The entry is out of date. ``revision`` is that of the content to be shown, ``parts`` are what it is made of."""

    cache_key: str = Field(min_length=1)
    revision: int = Field(ge=1)
    parts: tuple[str, ...]


class PartsCollected(Frozen):
    cache_key: str


class EntryBuilt(Frozen):
    cache_key: str


class EntryPublished(Frozen):
    """For the subscribers of a cache, and the result of the run."""

    cache_key: str
    revision: int
    digest: str


# -- the run's own state ----------------------------------------------------------------------------------------------


class CacheState(BaseModel):
    """Kept in the run item from stage to stage. ``content`` is empty until it is built."""

    revision: int = 0
    parts: dict[str, str] = {}
    content: str = ""


# -- items of tables --------------------------------------------------------------------------------------------------


class EntryStatus(StrEnum):
    REBUILDING = "REBUILDING"
    READY = "READY"


class CacheEntry(Frozen):
    """An item of the table ``cache-entries``. While it is rebuilt its old content can still be read."""

    cache_key: str
    status: EntryStatus
    revision: int
    content: str
    digest: str
    request_id: str
