"""The declaration of a callback: where answers from outside arrive, and what in their JSON means what."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from flowguard.destinations import Bus, Destination, Queue, Topic, destination, form_problem
from flowguard.errors import shown, span_problem
from flowguard.startup.value import Value


class Callback(Value):
    """Declares how a party that knows nothing of flowguard answers. List it in the flow's ``callbacks=(…)``.

    ``arrives``     the queue (or its name) or topic that brings its messages to the function of ``callback_handler``,
                    or the :class:`flowguard.Bus` with the source and detail type of its events
    ``id``          the field of its JSON that names what is awaited (dots reach inside: ``"order.search_id"``);
                    without one it is the message's ``uniquerequestid``
    ``names``       the names that it may answer, such as ``("parcel",)``; without them whatever the flow awaits under
                    the id. Say them where parties do not trust each other: ids may be guessed
    ``prefix``      is put before that id: ``"payment/"`` where the flow awaits ``payment/<order id>``
    ``answer``      the field that holds the answer; without one it is the whole message
    ``failed``      the field that says that it failed, by being there and neither false, null, 0 nor empty. Its text is
                    the error
    ``keep_early``  how long an answer is kept that nobody waits for yet; without it such an answer is UNKNOWN
    """

    arrives: Destination | str
    id: str | None = None
    names: tuple[str, ...] = ()
    prefix: str = ""
    answer: str | None = None
    failed: str | None = None
    keep_early: timedelta | None = None

    @property
    def source(self) -> Destination:
        """Return where its messages come from."""
        return destination(self.arrives)

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with it, each with its fix."""
        given: Any = self.arrives
        where = destination(given)
        if problem := form_problem(where):
            yield f"a callback's arrives: {problem}"
        elif not isinstance(where, Queue | Topic | Bus):
            yield f"a callback's arrives is {where}; answers come from a queue, a topic or a bus"
        for name in ("id", "answer", "failed"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and all(value.split("."))):
                yield f"a callback's {name} is {shown(value)}; write the name of a field: {name}='search_id'"
        names: Any = self.names
        if not (isinstance(names, tuple) and all(isinstance(name, str) and name for name in names)):
            yield f"a callback's names is {shown(names)}; write a tuple: names=('parcel',)"
        prefix: Any = self.prefix
        if not isinstance(prefix, str):
            yield f"a callback's prefix is {shown(prefix)}; write a text"
        if self.keep_early is not None:
            if problem := span_problem(self.keep_early):
                yield f"a callback's keep_early {problem}"
            elif self.keep_early <= timedelta(0):
                yield f"a callback's keep_early is {self.keep_early}; it must be positive"
