"""What becomes of the errors of a model's provider and of an agent. No text of theirs that quotes a prompt is kept."""

from __future__ import annotations

from datetime import timedelta

from pydantic_ai.exceptions import ModelAPIError, UnexpectedModelBehavior, UsageLimitExceeded

from flowguard.errors import Retry, RunFailed
from flowguard.retry import LONGEST_SQS_DELAY


def fault_of(error: ModelAPIError) -> Exception:
    """Return the error of a request, or a ``Retry`` after the time that its provider asks for.

    The body of the provider's answer may quote the prompt, and leaves the text. ``error.body`` has it.
    """
    facts = {
        "status": getattr(error, "status_code", None),
        "code": error.provider_error_code,
        "type": error.provider_error_type,
    }
    shown = "".join(f", {name} {fact}" for name, fact in facts.items() if fact is not None)
    text = f"{type(error).__name__} of the model {error.model_name}{shown}"
    if error.retry_after is not None:
        wait = max(0.0, min(error.retry_after, LONGEST_SQS_DELAY.total_seconds()))
        return Retry(text, after=timedelta(seconds=wait))
    error.message = text
    return error


def end_of(name: str, error: BaseException) -> RunFailed | None:
    """Return the end of a run whose agent fails by answers that are remembered. None for what may pass."""
    if not isinstance(error, UsageLimitExceeded | UnexpectedModelBehavior):
        return None
    why = error.message.partition("\n")[0].partition(". ")[0]
    fix = "the answers are remembered, so another attempt would fail as this one; a reset of the object asks anew"
    return RunFailed(f"the agent of {name!r} fails for good: {type(error).__name__}: {why}; {fix}")
