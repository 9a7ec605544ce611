"""Runs as people look at them: one with its texts left where they lie. Nothing is written."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws.dead_letter_queue import Unusable
from flowguard.aws.history_rows import ROWS_SHOWN, FullHistory, read_rows
from flowguard.aws.items import Item, about_of, read_item, run_key, size_of_value
from flowguard.aws.packing import Packing
from flowguard.errors import OtherRelease, SettingsError, TextGone
from flowguard.names.ids import ObjectId, RequestId
from flowguard.payload.codec import Codecs
from flowguard.protocol.fields import FIELDS, Kind
from flowguard.protocol.outbox import Outbox, StoredOutbox
from flowguard.protocol.run import RunItem
from flowguard.protocol.waiting import WaitPlan
from flowguard.settings import Settings
from flowguard.startup.named_tuple import NamedTuple

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from flowguard.aws.clients import Clients

_LONG: Final = tuple(field.attribute for field in FIELDS if field.kind is Kind.LONG)


class SeenRun(NamedTuple):
    """A run as its item says it stands.

    ``item`` has the plan of its wait, and none of its long texts: ``stored`` has those, as they are stored, and
    ``answers`` the answers of its wait. ``failed_answers`` names the answers that are failures.
    """

    flow: str
    object_id: str
    item: RunItem
    stored: Mapping[str, Item] = {}
    answers: Mapping[str, Item] = {}
    failed_answers: frozenset[str] = frozenset()

    def size(self, name: str) -> int:
        """Return the bytes of the item that a long text takes."""
        return size_of_value(self.stored[name])


class UnreadableRun(Unusable):
    """An item of the run table cannot be read. Others can."""


@contextmanager
def readable(flow: str, object_id: str) -> Iterator[None]:
    """Turn what this version cannot read of a run into :class:`UnreadableRun`, which names the run and the reason."""
    try:
        yield
    except (TextGone, OtherRelease, SettingsError) as error:
        problem = f"the plan of its wait cannot be read: {error}"
        raise UnreadableRun(f"{flow} of {object_id}", problem, "its other facts are in the table") from None
    except (KeyError, TypeError, ValueError, AttributeError, zlib.error) as error:
        problem = f"its item is no run that this version can read ({type(error).__name__}: {error})"
        raise UnreadableRun(
            f"{flow} of {object_id}", problem, "was it written by hand, or by a newer version?"
        ) from None


class RunReader:
    """Reads runs from the run table. Texts in S3 are read only when they are asked for."""

    def __init__(self, client: DynamoDBClient, table: str, packing: Packing) -> None:
        self._client = client
        self._table = table
        self._packing = packing

    @classmethod
    def of(cls, settings: Settings, clients: Clients, codecs: Codecs | None = None) -> RunReader:
        """Build the reader of the table that the settings name. ``codecs`` open what is sealed."""
        packing = Packing.of(settings, clients, codecs)
        return cls(clients.dynamodb, settings.run_table, packing)

    def read(self, flow: str, object_id: str) -> SeenRun | None:
        """Read one run consistently. None where there is none.

        Raises :class:`UnreadableRun` for an item that is no run of this version.
        """
        key: Any = run_key(flow, ObjectId(object_id))
        raw: Any = self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True).get("Item")
        return self.seen(flow, object_id, raw) if raw else None

    def seen(self, flow: str, object_id: str, raw: Item) -> SeenRun:
        """Read an item that DynamoDB has answered. Raises :class:`UnreadableRun` for what is no run of this version."""
        with readable(flow, object_id):
            return self._seen(flow, object_id, raw)

    def _seen(self, flow: str, object_id: str, raw: Item) -> SeenRun:
        item = read_item(raw)
        answers: Mapping[str, Item] = {}
        if item.wait is not None and "plan" in raw["wait"]["M"]:
            plan = WaitPlan.from_text(self._packing.unpack(raw["wait"]["M"]["plan"], None))
            item = item._replace(wait=item.wait._replace(plan=plan))
            answers = {name: answer["M"] for name, answer in raw["wait"]["M"]["answers"]["M"].items()}
        stored: Mapping[str, Item] = {name: raw[name] for name in _LONG if name in raw}
        failed = frozenset(name for name, answer in answers.items() if "failed" in answer)
        texts = {name: answer["text"] for name, answer in answers.items()}
        return SeenRun(flow, object_id, item, stored, texts, failed)

    def full_history(self, seen: SeenRun, most: int = ROWS_SHOWN) -> FullHistory:
        """Read the newest rows of its history, where it has any, ``most`` of them at most."""
        if not seen.item.full_history:
            return FullHistory()
        return read_rows(self._client, self._table, seen.flow, seen.object_id, most)

    def text(self, seen: SeenRun, stored: Item, kind: str) -> str:
        """Return a text of this kind as it was before it was stored.

        Raises :class:`flowguard.errors.TextGone`, :class:`flowguard.errors.OtherRelease` for a form that this version
        does not know, and where it is sealed :class:`flowguard.errors.CannotOpen` and
        :class:`flowguard.errors.KeyUnavailable`.
        """
        try:
            return self._packing.unpack(stored, about_of(run_key(seen.flow, ObjectId(seen.object_id)), kind))
        except (SettingsError, UnicodeDecodeError, zlib.error) as error:
            raise OtherRelease(f"its {kind} cannot be read by this version: {error}") from None

    def outbox(self, seen: SeenRun) -> Outbox | StoredOutbox | None:
        """Return the outbox that the item holds. One in S3 is read when its sends are asked for."""
        stored = seen.stored.get("outbox")
        match stored:
            case None:
                return None
            case {"M": {"request_id": {"S": request_id}, "committed_at": {"N": at}}}:
                read = functools.partial(self.text, seen, stored, "outbox")
                return StoredOutbox(RequestId(request_id), int(at), read)
            case _:
                return Outbox.from_text(self.text(seen, stored, "outbox"))
