"""What else reads a queue or a stream of a deployment."""

from __future__ import annotations

from collections.abc import Iterator

from flowguard.deploy.account import Account, function_name
from flowguard.deploy.needs import Deployment


def other_readers(needed: Deployment, source: str, live: Account) -> Iterator[str]:
    """Yield what reads the queue or stream of an ARN and is no function of the deployment."""
    ours = {function.name for function in needed.functions}
    mappings, pipes = live.readers(source), live.pipes(source)
    if mappings is not None:
        names = {function_name(str(mapping["FunctionArn"])) for mapping in mappings} - ours
        yield from (f"the function {name}" for name in sorted(names))
    if pipes is not None:
        yield from (f"the pipe {name}" for name in sorted(pipes))
