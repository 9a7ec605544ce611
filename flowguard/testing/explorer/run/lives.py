"""How long each item of the run table lives, watched at each write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from flowguard.aws.items import read_item
from flowguard.aws.place_items import read_places
from flowguard.sim.provision import LowLevelKey
from flowguard.testing.explorer.record.history import CallRecord, History, PlacesVersion
from flowguard.testing.explorer.record.life import RowKind, Shortened, kind_of
from flowguard.testing.explorer.run.sandbox import Sandbox
from flowguard.testing.explorer.run.shared_statements import written_in

_KEY: Final = ("pk", "sk")


class Lives:
    """The lives of one schedule's items."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.known: dict[str, Any] = {}

    def note(self, history: History, made: CallRecord, params: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Look at what a call has written, and note each life that is shorter now."""
        for key in _keys(params, answer, self._sandbox.settings.table):
            if (kind := kind_of(key)) is RowKind.OTHER:
                continue
            name = " ".join(key[part]["S"] for part in _KEY)
            stored = self._sandbox.raw(key)
            before, after = self.known.get(name), None if stored is None else dict(stored)
            self.known[name] = after
            if kind is RowKind.LIMIT:
                history.places.append(PlacesVersion(key["pk"]["S"], made.number, made.at, read_places(stored)))
            is_resumed = kind is RowKind.LIMIT and before is not None and "pause" in before
            if before is not None and after is not None and not is_resumed and _life(after) < _life(before):
                history.shortened.append(_shortened(kind, name, made, before, after))


def _keys(params: Mapping[str, Any], answer: Mapping[str, Any], table: str) -> Iterator[LowLevelKey]:
    """Yield the keys of what a call has put or updated in the table, of an item that it puts too."""
    yield from (key for name, key in written_in(params, answer) if name == table and key is not None)
    actions = [action for entry in params.get("TransactItems", ()) for action in entry.values()]
    items = [
        request["Item"] for request in (params, *actions) if request.get("TableName") == table and "Item" in request
    ]
    items += [
        request["PutRequest"]["Item"]
        for request in params.get("RequestItems", {}).get(table, ())
        if "PutRequest" in request
    ]
    yield from ({name: item[name] for name in _KEY} for item in items if item.keys() >= set(_KEY))


def _life(item: Mapping[str, Any]) -> float:
    return int(item["ttl"]["N"]) if "ttl" in item else float("inf")


def _shortened(kind: RowKind, name: str, made: CallRecord, before: Any, after: Any) -> Shortened:
    lives = int(_life(after))
    was = lives if "ttl" not in before else int(before["ttl"]["N"])
    write = Shortened(kind, name, made.number, made.at, was, lives)
    if kind is RowKind.RUN:
        return write._replace(before=read_item(before), after=read_item(after))
    return write._replace(is_another={**before, "ttl": None} != {**after, "ttl": None})
