"""Guards of flowguard that a soak can be run without, to see that its sums notice: ``--mutant NAME``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowguard.aws import expressions, sender
from flowguard.protocol import outbox, run
from flowguard.protocol.conflict import OnConflict
from flowguard.worker import dispatch as dispatching
from flowguard.worker import patience, trust

_dispatching: Any = dispatching  # the type checker is right to mind what mutants do to these
_expressions: Any = expressions
_outbox: Any = outbox
_patience: Any = patience
_run: Any = run
_sender: Any = sender
_trust: Any = trust


def _commits_unfenced() -> None:
    """Whoever has claimed may commit, whoever has the run by now."""
    _expressions.COMMIT = f"({expressions.COMMIT}) OR attribute_exists(pk)"


def _newest_does_not_win() -> None:
    """Any other request takes the object over, older ones too."""
    expressions.FIRST_HOP[OnConflict.SUPERSEDE] += " OR request_id <> :request_id"


def _forgets_what_was_taken_over() -> None:
    _outbox.Outbox.left_by_another = lambda *_: ()


def _forgets_what_was_committed() -> None:
    """DONE acks without sending."""
    _run.RunItem.unsent_at = lambda *_: ()


def _believes_every_send() -> None:
    """Entries of a batch that SQS did not take count as sent."""
    _sender._refused = lambda _: {}


def _acks_whatever_was_sent() -> None:
    send = _dispatching._send

    def heedless(to: Any, endings: Any, told: Any, *, last: bool) -> Any:
        send(to, endings, told, last=last)
        return endings

    _dispatching._send = heedless


def _believes_whoever_sends() -> None:
    """Answers, deadlines and orders need no signature."""
    _trust.Trust.check_order = lambda *_: None


def _pauses_do_not_grow() -> None:
    """A record comes again as soon after an hour as after a second."""
    _patience._GROWTH = 1.0


def _pauses_are_not_drawn() -> None:
    """Records that came together come again together."""
    _patience._JITTER = 0.0


MUTANTS: dict[str, Callable[[], None]] = {
    "commits-unfenced": _commits_unfenced,
    "newest-does-not-win": _newest_does_not_win,
    "forgets-what-was-taken-over": _forgets_what_was_taken_over,
    "forgets-what-was-committed": _forgets_what_was_committed,
    "believes-every-send": _believes_every_send,
    "acks-whatever-was-sent": _acks_whatever_was_sent,
    "believes-whoever-sends": _believes_whoever_sends,
    "pauses-do-not-grow": _pauses_do_not_grow,
    "pauses-are-not-drawn": _pauses_are_not_drawn,
}
