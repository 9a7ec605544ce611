"""The history of each run item, put together from what DynamoDB answered: claim after claim, in the order of epochs.

An answer to a granted claim shows the item as the claim found it, so that each claim tells what was true before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.proofs.soak.journal import Line

Old = Mapping[str, Any]
"""The item as a claim found it."""


@dataclass(frozen=True)
class Grant:
    """One claim that DynamoDB granted. ``commits`` are those that it let its worker apply: one, or none.

    The commit of a hop that was only read is both.
    """

    line: Line
    commits: Sequence[Line]

    def __str__(self) -> str:
        return f"{self.request_id} hop {self.hop} attempt {self.attempt} epoch {self.epoch}"

    @property
    def old(self) -> Old | None:
        old: Old | None = self.line["old"]
        return old

    @property
    def epoch(self) -> int:
        return 1 if self.old is None else int(self.old["epoch"]) + 1

    @property
    def request_id(self) -> str:
        return str(self.line["request_id"])

    @property
    def hop(self) -> int:
        return int(self.line["hop"])

    @property
    def attempt(self) -> tuple[int, int]:
        """Redrive, then retry."""
        return self.line["redrive"], self.line["retry"]

    @property
    def hop_id(self) -> str:
        """As receivers see it, without its digest (docs/decisions/0015)."""
        redrive = self.line["redrive"]
        return f"{self.request_id}.{self.hop}r{redrive}" if redrive else f"{self.request_id}.{self.hop}"

    @property
    def same_run(self) -> bool:
        return self.old is not None and self.old["request_id"] == self.request_id

    @property
    def same_hop(self) -> bool:
        return self.old is not None and self.same_run and self.old["hop"] == self.hop

    @property
    def took_over(self) -> bool:
        """From another request, ended or not."""
        return self.old is not None and not self.same_run


@dataclass(frozen=True)
class History:
    """``grants`` of each item by its key, in the order of their epochs."""

    grants: Mapping[str, Sequence[Grant]]
    journal: Sequence[Line]

    @classmethod
    def read(cls, journal: Sequence[Line]) -> History:
        applied = defaultdict[tuple[str, int], list[Line]](list)
        tokens = set[str]()
        for line in journal:
            if line["what"] == "commit" and line["yes"] and line["token"] not in tokens:
                applied[line["owner"], line["epoch"]].append(line)
                tokens.update([line["token"]] if line["token"] is not None else [])
        found = defaultdict[str, list[Grant]](list)
        for line in journal:
            if line["what"] in ("claim", "take") and line["yes"]:
                epoch = line["old"]["epoch"] + 1 if line["old"] else 1
                commits = applied[line["owner"], epoch] if line["what"] == "claim" else [line]
                found[line["object"]].append(Grant(line, commits))
        return cls({key: sorted(grants, key=lambda one: one.epoch) for key, grants in found.items()}, journal)

    def lines(self, what: str) -> list[Line]:
        return [line for line in self.journal if line["what"] == what]

    def each(self) -> Iterator[Grant]:
        for grants in self.grants.values():
            yield from grants

    @cached_property
    def commits(self) -> list[tuple[Grant, Line]]:
        """Every commit that was applied, with the claim under which it was made."""
        return [(grant, commit) for grant in self.each() for commit in grant.commits]

    @cached_property
    def effects(self) -> list[Grant]:
        """The claims whose commits had an effect: all that did not end their run FAILED."""
        return [grant for grant, commit in self.commits if commit["status"] != "FAILED"]
