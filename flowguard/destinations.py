"""The destinations of messages, as values. Which call sends to which is the business of ``flowguard.aws``."""

from __future__ import annotations

import re
from typing import Final, assert_never

from flowguard.errors import shown
from flowguard.names.at_aws import exact_name
from flowguard.startup.late_pattern import late_pattern
from flowguard.startup.value import Value
from flowguard.text.option_problems import text_of


class Queue(Value):
    """An SQS queue, by name or URL. A name ending in ``.fifo`` is a FIFO queue."""

    name: str

    @property
    def short_name(self) -> str:
        """Return the bare name, also where the queue was given as a URL or an ARN."""
        return self.name.rsplit("/", 1)[-1].rsplit(":", 1)[-1]

    @property
    def called(self) -> frozenset[str]:
        """Return what a record that came through it may call it: of an ARN or a URL also the account with the name."""
        return frozenset((self.short_name, exact_name(self.name) or self.short_name))

    @property
    def fifo(self) -> bool:
        """Return whether it is a FIFO queue."""
        return self.name.endswith(".fifo")

    def __str__(self) -> str:
        return f"sqs:{self.name}"


class Topic(Value):
    """An SNS topic, by ARN."""

    arn: str

    @property
    def fifo(self) -> bool:
        """Return whether it is a FIFO topic."""
        return self.arn.endswith(".fifo")

    def __str__(self) -> str:
        return f"sns:{self.arn}"


class Function(Value):
    """A Lambda function that is invoked asynchronously. ``name`` may be an ARN."""

    name: str

    def __str__(self) -> str:
        return f"lambda:{self.name}"


class Bus(Value):
    """An EventBridge bus, by name or ARN. ``source`` and ``detail_type`` are those of the events that go there."""

    name: str
    source: str
    detail_type: str

    def __post_init__(self) -> None:
        if "|" in f"{self.source}{self.detail_type}{self.name}":
            raise ValueError(f"{shown(self)} has a '|', which separates its parts where it is written as text")

    def __str__(self) -> str:
        return f"events:{self.source}|{self.detail_type}|{self.name}"


Destination = Queue | Topic | Function | Bus


def parse_destination(text: str) -> Destination:
    """Parse what ``str(destination)`` gives. Raises ValueError, naming the text, for anything else."""
    kind, _, name = text.partition(":")
    match kind:
        case "sqs" if name:
            return Queue(name)
        case "sns" if name:
            return Topic(name)
        case "lambda" if name:
            return Function(name)
        case "events" if name.count("|") == 2 and all(name.split("|")):
            source, detail_type, bus = name.split("|")
            return Bus(bus, source, detail_type)
        case _:
            raise ValueError(f"{shown(text)} is no destination; write sqs:…, sns:…, lambda:… or events:source|type|bus")


def destination(value: Destination | str) -> Destination:
    """Return a destination as it is, and a bare string as the queue of that name."""
    return Queue(text_of(value)) if isinstance(value, str) else value


_ARN: Final = "arn:[a-z0-9-]+:{service}:[a-z0-9-]+:[0-9]+:{rest}"
_QUEUE: Final = r"(?=.{1,80}\Z)[A-Za-z0-9_-]+(?:\.fifo)?"
_PART: Final = "[A-Za-z0-9_-]{1,256}"

_QUEUES: Final = late_pattern(f"https?://[^\\s?#]+/{_QUEUE}|{_ARN.format(service='sqs', rest=_QUEUE)}|{_QUEUE}")
_TOPICS: Final = late_pattern(_ARN.format(service="sns", rest=rf"{_PART}(?:\.fifo)?"))
_FUNCTIONS: Final = late_pattern(
    rf"(?:arn:[a-z0-9-]+:lambda:)?(?:[a-z0-9-]+:)?(?:[0-9]+:)?(?:function:)?{_PART}(?::[$A-Za-z0-9_-]{{1,128}})?"
)
_BUSES: Final = late_pattern(f"(?:{_ARN.format(service='events', rest='event-bus/')})?[A-Za-z0-9_./-]{{1,256}}")


def _form_of(to: Destination) -> tuple[re.Pattern[str], str]:
    """Return the pattern of a destination's name, with how to write it."""
    match to:
        case Queue():
            return _QUEUES, (
                "a queue has a name of up to 80 of a-z, A-Z, 0-9, '-', '_' (then '.fifo' for FIFO), a URL or an ARN"
            )
        case Topic():
            return _TOPICS, "a topic is given by its ARN: Topic('arn:aws:sns:<region>:<account>:<name>')"
        case Function():
            return _FUNCTIONS, "a function has a name or an ARN: Function('price-cart'), with ':alias' where it has one"
        case Bus():
            return _BUSES, "a bus has a name or an ARN: Bus('default', source='shop', detail_type='OrderPlaced')"
        case _:
            assert_never(to)


def form_problem(to: object) -> str | None:
    """Return what is wrong with the form of a destination, and how to write it. None where it is right."""
    if not isinstance(to, Destination):
        return f"{shown(to)} is no destination; write a queue's name, or Queue(…), Topic(…), Function(…), Bus(…)"
    form, fix = _form_of(to)
    name: object = to.arn if isinstance(to, Topic) else to.name
    if isinstance(name, str) and form.fullmatch(name):
        return _bus_problem(to) if isinstance(to, Bus) else None
    return f"{type(to).__name__}({shown(name)}) has a form that AWS does not know; {fix}"


def _bus_problem(bus: Bus) -> str | None:
    parts: tuple[object, object] = (bus.source, bus.detail_type)
    if all(isinstance(part, str) and part for part in parts):
        return None
    return f"Bus({shown(bus.name)}) needs a source and a detail_type, which its events are matched by"
