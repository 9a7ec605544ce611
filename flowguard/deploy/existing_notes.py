"""Notes on what no template changes, since it is there already or belongs to another account."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from flowguard.aws.indexed_runs import INDEX_KEY, RUN_INDEX
from flowguard.deploy.needs import QueueNeed, TableNeed
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.queue_arns import account_of, arn_of
from flowguard.destinations import Queue
from flowguard.flow import AnyFlow


def existing_notes(
    flows: Iterable[AnyFlow], queues: Sequence[QueueNeed], tables: Iterable[TableNeed], options: DeployOptions
) -> Iterator[str]:
    """Yield what is to be done by hand, or goes another way, as no template changes those resources."""
    yield from _moved(flows, queues, options)
    yield from _indexed(tables, options)


def _moved(flows: Iterable[AnyFlow], queues: Sequence[QueueNeed], options: DeployOptions) -> Iterator[str]:
    """Yield a note for each queue between which and those made here SQS moves nothing."""
    arns = {queue.name: queue.arn or arn_of(Queue(options.of_queue(queue.name).name or "")) for queue in queues}
    others = {name: arn for name, arn in arns.items() if arn is not None and account_of(arn) != options.account}
    unless = "" if options.account else "; where it is of this account, say so by account = in the options"
    for flow in flows:
        dead = flow.dead_letters
        if isinstance(dead, Queue) and dead.short_name in others:
            yield (
                f"the dead letters of {flow.name} go to {others[dead.short_name]}, and SQS moves records within an "
                f"account alone: what it gives up goes to a queue of {flow.name} here{unless}"
            )
    for queue in queues:
        if options.account is not None and queue.reader is not None and queue.name in others:
            yield (
                f"{queue.reader} reads {others[queue.name]}, of another account: its owner sets the redrive policy, to "
                f"a queue of that account, which no function here reads"
            )


def _indexed(tables: Iterable[TableNeed], options: DeployOptions) -> Iterator[str]:
    """Yield a note for the table that is to have an index, where no template makes the table."""
    for table in tables:
        name = options.tables[table.name].name or "" if table.run_index else ""
        if table.run_index and (table.existing or name.startswith("arn:")):
            yield (
                f"[tables.{table.name}] run_index adds nothing to a table that is there already: add the index "
                f"{RUN_INDEX} of {' and '.join(INDEX_KEY)}, with its keys alone, by aws dynamodb update-table; "
                f"flowguard doctor says whether it is there"
            )
