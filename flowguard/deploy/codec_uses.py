"""The keys that the codecs of flows use. A function calls KMS for them itself, in the name of the flow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from flowguard.codecs.encrypted import CONTEXT, ENVIRONMENT, Encrypted
from flowguard.deploy.finding import LiveFinding, note
from flowguard.deploy.found import FoundFunction
from flowguard.deploy.needs import Deployment, Permission, Target
from flowguard.deploy.uses import uses_of
from flowguard.flow import AnyFlow
from flowguard.payload.codec import codec_problems

SEALS: Final = "kms:GenerateDataKey"
OPENS: Final = "kms:Decrypt"
FLOW: Final = f"kms:EncryptionContext:{CONTEXT}"
"""The condition key that says for which flow a data key is made or opened."""

OF_ENVIRONMENT: Final = f"kms:EncryptionContext:{ENVIRONMENT}"
"""The condition key that says for which environment that is: by which rule its resources are named."""

ALIAS: Final = "kms:RequestAlias"
"""The condition key that says by which alias a key was named. A policy cannot name an alias as a resource."""

OF_CODEC: Final[Mapping[str, None]] = {"kms:ViaService": None, ALIAS: None}
"""The condition keys that a codec's request lacks. It is a function's own, and by an alias only where that is said."""

OF_NO_CODEC: Final[Mapping[str, None]] = {FLOW: None, OF_ENVIRONMENT: None}
"""The condition keys that a service's request lacks. Its encryption context is the service's own."""

_OF_AN_ANSWER: Final = "an answer that is not opened is parked, and the wait goes on to its deadline without it"
"""Why it matters that a flow can open the answers of those whom it asks."""


def codec_permissions(function: FoundFunction) -> Iterator[Permission]:
    """Yield what a function does with the keys of codecs, each with the flows that it may do it for.

    Nothing is known of a codec that is not :class:`flowguard.codecs.Encrypted`.
    """
    flows: dict[tuple[str, str], set[str]] = {}
    for key, action, flow in _uses(function):
        flows.setdefault((key, action), set()).add(flow)
    actions: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (key, action), named in sorted(flows.items()):
        actions.setdefault((key, tuple(sorted(named))), []).append(action)
    for (key, for_flows), allowed in actions.items():
        yield Permission(Target.CODEC_KEY.value, key, tuple(sorted(allowed)), for_flows)


def flows_that_encrypt(functions: Iterable[FoundFunction]) -> Iterator[str]:
    """Yield the names of the flows for which functions seal or open by a key, each once."""
    yield from sorted({name for function in functions for _, _, name in _uses(function)})


def _uses(function: FoundFunction) -> Iterator[tuple[str, str, str]]:
    """Yield each KMS key with its actions and the flow in its encryption context.

    A function seals and opens for its flows, and seals the requests to others that it asks or starts. It opens the
    answers of those whom its flow asks, by the keys of its own flow.
    """
    for flow in function.flows:
        yield from _both(flow)
        for stage in flow.stages:
            uses = uses_of(stage)
            for other in uses.asks_flows | uses.starts:
                yield from _seals(other)
            for other in uses.asks_flows:
                yield from _opens(flow, other)


def asked_codec_problems(flows: Iterable[AnyFlow]) -> Iterator[str]:
    """Say which answers no flow that asks for them could ever open."""
    for asking, asked in _asks(flows):
        for problem in codec_problems(asking, asked):
            yield f"{asking.name} asks {asked.name}: {problem}"


def asked_codec_notes(flows: Iterable[AnyFlow]) -> Iterator[str]:
    """Yield a note for each flow whose answers another may not be able to open."""
    for asking, asked, what, fix in _doubts(flows):
        yield f"{asking.name} asks {asked.name}, and {what}: {_OF_AN_ANSWER}; {fix}"


def check_asked_codecs(needed: Deployment) -> Iterator[LiveFinding]:
    """Yield the notes of :func:`asked_codec_notes` as findings of the doctor."""
    for asking, asked, what, fix in _doubts(needed.flows):
        yield note("answer-sealed", asking.name, f"it asks {asked.name}, and {what}", _OF_AN_ANSWER, fix)


def _doubts(flows: Iterable[AnyFlow]) -> Iterator[tuple[AnyFlow, AnyFlow, str, str]]:
    """Yield each asking flow with the asked one, why it may not open the answer, and the cure.

    An alias may be of any key.
    """
    for asking, asked in _asks(flows):
        ours, theirs = asking.codec, asked.codec
        if isinstance(ours, Encrypted) and isinstance(theirs, Encrypted):
            if theirs.key not in ours.opens:
                what = f"no key in opens= of {asking.name} is called {theirs.key!r}, which seals the answer"
                yield asking, asked, what, f"add {theirs.key!r} to it, unless the same key is there by another name"
        elif theirs is not None and type(ours) is not type(theirs):
            what = f"{type(theirs).__name__} seals the answer, which {type(ours).__name__} is to open"
            yield asking, asked, what, "see in a test that it does"


def _asks(flows: Iterable[AnyFlow]) -> Iterator[tuple[AnyFlow, AnyFlow]]:
    """Yield each flow with each that it asks, once."""
    for flow in flows:
        asked = {other for stage in flow.stages for other in uses_of(stage).asks_flows}
        yield from ((flow, other) for other in sorted(asked, key=lambda other: other.name))


def _both(flow: AnyFlow) -> Iterator[tuple[str, str, str]]:
    yield from _seals(flow)
    yield from _opens(flow, flow)


def _seals(flow: AnyFlow) -> Iterator[tuple[str, str, str]]:
    if isinstance(flow.codec, Encrypted):
        yield flow.codec.key, SEALS, flow.name


def _opens(flow: AnyFlow, what_of: AnyFlow) -> Iterator[tuple[str, str, str]]:
    if isinstance(flow.codec, Encrypted) and what_of.codec is not None:
        for key in flow.codec.opens:
            yield key, OPENS, what_of.name


def alias_of(key: str) -> str | None:
    """Return the alias by which a key is named. None for an id or an ARN of the key itself."""
    name = key.split(":", 5)[-1]
    return name if name.startswith("alias/") else None
