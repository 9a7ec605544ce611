"""The destinations of messages, as values. Which call sends to which is the business of ``flowguard.aws``."""

from __future__ import annotations

from dataclasses import dataclass

from flowguard.errors import shown


@dataclass(frozen=True)
class Queue:
    """An SQS queue, by name or URL. A name ending in ``.fifo`` is a FIFO queue."""

    name: str

    @property
    def short_name(self) -> str:
        """Return the bare name, also where the queue was given as a URL or an ARN."""
        return self.name.rsplit("/", 1)[-1].rsplit(":", 1)[-1]

    @property
    def fifo(self) -> bool:
        """Return whether it is a FIFO queue."""
        return self.name.endswith(".fifo")

    def __str__(self) -> str:
        return f"sqs:{self.name}"


@dataclass(frozen=True)
class Topic:
    """An SNS topic, by ARN."""

    arn: str

    @property
    def fifo(self) -> bool:
        """Return whether it is a FIFO topic."""
        return self.arn.endswith(".fifo")

    def __str__(self) -> str:
        return f"sns:{self.arn}"


@dataclass(frozen=True)
class Function:
    """A Lambda function that is invoked asynchronously. ``name`` may be an ARN."""

    name: str

    def __str__(self) -> str:
        return f"lambda:{self.name}"


@dataclass(frozen=True)
class Bus:
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
    return Queue(value) if isinstance(value, str) else value
