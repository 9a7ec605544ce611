"""What readers and the catalogue send, and what they get."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


Name = Annotated[str, Field(min_length=1, max_length=100)]


# -- messages ---------------------------------------------------------------------------------------------------------


class PageWanted(Frozen):
    """What a reader sends. The answer goes to the reader's ``reply_to``."""

    page: Name


class PartsCollected(Frozen):
    page: str


class SourceChanged(Frozen):
    """What the catalogue sends. ``revision`` grows with each change of the source."""

    source: Name
    text: str = Field(max_length=1_000)
    revision: int = Field(ge=1)


class SearchWanted(Frozen):
    """What a reader types."""

    words: Name


# -- results ----------------------------------------------------------------------------------------------------------


class Page(Frozen):
    """The result of ``page-cache``. ``revisions`` says which texts the page shows."""

    page: str
    html: str
    revisions: dict[str, int]


class Found(Frozen):
    """The result of ``search-cache``."""

    words: str
    pages: tuple[str, ...]


# -- the run's own state ----------------------------------------------------------------------------------------------


class PageState(BaseModel):
    """What was read of the sources, until it is rendered."""

    texts: dict[str, str] = {}
    revisions: dict[str, int] = {}


# -- items of tables --------------------------------------------------------------------------------------------------


class Source(Frozen):
    """An item of the table ``page-sources``."""

    source: str
    text: str
    revision: int
