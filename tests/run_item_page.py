"""The page of the run item, from the table of its fields. ``python -m tests.reference`` writes it."""

from __future__ import annotations

from typing import Final

from flowguard.protocol.fields import CLAIMS, FIELDS, FIRST_HOPS, LATER_HOPS, PARTS, Field, Kind, Writer

FILE: Final = "run-item.md"

_TOGETHER: Final = {
    CLAIMS: "claim",
    FIRST_HOPS: "claim of a first hop",
    LATER_HOPS: "claim of a later hop",
}
"""What several writers are called together."""

_HEAD: Final = """\
<!-- Made from flowguard/protocol/fields.py by `python -m tests.reference`. Change that. -->

# The run item

One item of the run table says where the run of an object stands. How to use it: `flowguard show` reads it for people
([Find one order](../operate/find-one-order.md)); what is no run item in the same table has another `pk`.
[The way of a message](../explain/way-of-a-message.md) says what the writes are, the
[glossary](../explain/glossary.md) what the words mean.

| key | value |
| --- | --- |
| `pk` | `run#<flow>#<object id>` |
| `sk` | `run` |

A claim writes its fields in one `UpdateItem`, and so does a commit. Of a hop [without a
lease](../guides/without-a-lease.md) the commit does what the claim would have done. What nothing removes stays until it
is written again, or the item expires.

| attribute | what it holds | stored as | written by | removed by | in designs by hand |
| --- | --- | --- | --- | --- | --- |
"""

_TAIL: Final = """
A *map* is one of DynamoDB's; a part that says nothing is left out. A *long text* is text, compressed bytes, or a map
that points to S3, whichever is small enough. It is read only where it is needed, and an error is always in the item.

In the last column stand the words of designs that compare and set by hand. The
[glossary](../explain/glossary.md#the-words-of-others) has more of them.
"""


def text() -> str:
    """Return the whole page."""
    return _HEAD + "".join(f"{_row(field)}\n" for field in FIELDS) + _TAIL


def _row(field: Field) -> str:
    name = f"{field.attribute}…" if field.attribute.endswith("-") else field.attribute
    cells = (f"`{name}`", field.holds, _stored_as(field.kind), _words(field.written_by), _words(field.removed_by))
    return f"| {' | '.join((*cells, field.origin))} |"


def _stored_as(kind: Kind | type) -> str:
    if isinstance(kind, Kind):
        return kind.value
    parts = (f"`{part}` ({of.value if isinstance(of, Kind) else 'map'})" for part, of in PARTS[kind].items())
    return f"map: {', '.join(parts)}"


def _words(writers: frozenset[Writer]) -> str:
    words = []
    for several, together in _TOGETHER.items():
        if several <= writers:
            words.append(together)
            writers -= several
    return "; ".join([*words, *sorted(writers)])
