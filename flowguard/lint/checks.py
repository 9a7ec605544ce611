"""The checks of one handler. Each yields the nodes that break its rule."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from flowguard.lint.handler_source import HandlerCode, ModuleSource
from flowguard.lint.rules import (
    CHECK_THEN_ACT,
    DIRECT_WRITE,
    EFFECT_REPEATED,
    KEY_NOT_UNIQUE,
    MODULE_STATE,
    NO_DEADLINE,
    NOT_REPEATABLE,
    PAYLOAD_LOGGED,
    REMEMBERS_SHORTLY,
    SLEEPS,
    STEP_ELSEWHERE,
    SWALLOWED,
    Rule,
)

Check = Callable[[ModuleSource, HandlerCode], Iterator[ast.AST]]

_READS: Final = frozenset({"get_item", "batch_get_item", "query", "scan", "transact_get_items"})
_AWS_WRITES: Final = frozenset(
    {
        "put_item",
        "update_item",
        "delete_item",
        "batch_write_item",
        "transact_write_items",
        "batch_writer",
        "send_message_batch",
        "publish_batch",
        "put_events",
        "start_execution",
    }
)
_CLIENT_WRITES: Final = frozenset(
    {
        "send_message",
        "publish",
        "invoke",
        "put_object",
        "delete_object",
        "upload_file",
        "copy_object",
        "create_schedule",
    }
)
"""Written to AWS where they are called on a client of boto3; others may have methods of these names."""

_MAKES_RESOURCES: Final = frozenset({"Table", "Queue", "Topic", "Bucket", "Object"})
"""Methods of a resource of boto3 that make another, and ask AWS nothing."""

_STEP_WRITES: Final = frozenset({"put", "update", "delete"})
_RECORDS: Final = frozenset(
    {*_STEP_WRITES, "newest_wins", "send", "start", "ask", "once", "key", "apply", "sql", "event"}
)
_DRAWN: Final = frozenset(
    {
        "uuid.uuid1",
        "uuid.uuid4",
        "time.time",
        "time.time_ns",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "datetime.datetime.today",
        "datetime.date.today",
        "os.urandom",
    }
)
_DRAWN_FROM: Final = ("random.", "secrets.")
_CHANGES: Final = frozenset(
    {"append", "extend", "insert", "remove", "pop", "popitem", "clear", "update", "setdefault", "add", "discard"}
)
_LOGS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
_WHOLE: Final = frozenset({"model_dump", "model_dump_json", "dict", "json", "__dict__"})
_ELSEWHERE: Final = frozenset(
    {
        "threading.Thread",
        "threading.Timer",
        "multiprocessing.Process",
        "asyncio.create_task",
        "asyncio.ensure_future",
        "asyncio.gather",
        "asyncio.run",
        "asyncio.to_thread",
    }
)
_HANDS_OVER: Final = frozenset({"submit", "run_in_executor", "create_task", "apply_async"})
_AWAITED: Final = frozenset({"asyncio.gather", "create_task"})
"""What an async handler waits for before it returns: ``create_task`` of a ``TaskGroup``."""

_WAITS: Final = frozenset({"when_all", "when_any", "when", "when_group"})
_HTTP: Final = frozenset({"post", "put", "patch", "delete"})
_HTTP_CLIENTS: Final = ("requests.", "httpx.", "aiohttp.")


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (child for child in ast.walk(node) if isinstance(child, ast.Call))


def _is_named(node: ast.AST, names: frozenset[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _step_calls(code: HandlerCode, methods: frozenset[str]) -> Iterator[ast.Call]:
    for call in _calls(code.node):
        if (
            isinstance(call.func, ast.Attribute)
            and call.func.attr in methods
            and _is_named(call.func.value, code.steps)
        ):
            yield call


def _keywords(call: ast.Call) -> set[str | None]:
    return {keyword.arg for keyword in call.keywords}


# -- reads and writes


def _is_read(source: ModuleSource, call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _READS


def check_then_act(source: ModuleSource, code: HandlerCode) -> Iterator[ast.AST]:
    """Find writes without a condition after a read, unless both name their tables, and those differ."""
    reads = [call for call in _calls(code.node) if _is_read(source, call)]
    for call in _step_calls(code, _STEP_WRITES):
        is_free = not {"condition", None} & _keywords(call)
        if is_free and _may_follow(call, reads, _text(source, call.args[0] if call.args else None), source):
            yield call
    for call in _aws_writes(source, code):
        is_free = not {"ConditionExpression", None} & _keywords(call)
        if is_free and _may_follow(call, reads, _table(source, call), source):
            yield call


def _may_follow(call: ast.Call, reads: list[ast.Call], table: str | None, source: ModuleSource) -> bool:
    """Answer whether a write of a table may follow from a read of the same table. None is any table."""
    before = [_table(source, read) for read in reads if read.lineno < call.lineno]
    return any(read is None or table is None or read == table for read in before)


def _table(source: ModuleSource, call: ast.Call) -> str | None:
    """Return the table that a call of boto3 names: ``TableName=…`` or ``Table("…")``. None where it is unknown."""
    named = next((keyword.value for keyword in call.keywords if keyword.arg == "TableName"), None)
    match call.func:
        case ast.Attribute(ast.Call(ast.Attribute(_, "Table"), [name])):
            named = name
        case _:
            pass
    return _text(source, named)


def _text(source: ModuleSource, node: ast.AST | None) -> str | None:
    """Return a text that is written out, or that of a constant of the module. None for others."""
    if isinstance(node, ast.Name):
        node = source.constants.get(node.id)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def direct_write(source: ModuleSource, code: HandlerCode) -> Iterator[ast.AST]:
    """Find writes and sends that do not go through the step."""
    return _aws_writes(source, code) if code.steps else iter(())


def _aws_writes(source: ModuleSource, code: HandlerCode) -> Iterator[ast.Call]:
    clients = _clients(source, code)
    for call in _calls(code.node):
        if not isinstance(call.func, ast.Attribute) or _is_named(call.func.value, code.steps):
            continue
        owner = call.func.value
        is_client = _is_named(owner, clients) or _makes_client(source, owner)
        if call.func.attr in _AWS_WRITES or (is_client and call.func.attr in _CLIENT_WRITES):
            yield call


def calls_of_clients(source: ModuleSource, code: HandlerCode) -> Iterator[ast.Call]:
    """Find calls of a client, table or other resource that boto3 has made."""
    clients = _clients(source, code)
    for call in _calls(code.node):
        if isinstance(call.func, ast.Attribute) and call.func.attr not in _MAKES_RESOURCES:
            parts = list(ast.walk(call.func.value))
            if any(_is_named(part, clients) for part in parts) or _makes_client(source, call.func.value):
                yield call


def _clients(source: ModuleSource, code: HandlerCode) -> frozenset[str]:
    """Return the names that hold a client or resource of boto3."""
    names: set[str] = set()
    for node in (*source.tree.body, *ast.walk(code.node)):
        if isinstance(node, ast.Assign) and _makes_client(source, node.value):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return frozenset(names)


def _makes_client(source: ModuleSource, node: ast.AST) -> bool:
    return any(source.dotted(call.func).startswith("boto3.") for call in _calls(node))


# -- keys, ids and times


def key_not_unique(source: ModuleSource, code: HandlerCode) -> Iterator[ast.AST]:
    """Find names of step.once, step.apply, step.sql and step.key that several operations share."""
    named = [(call, _literal(call)) for call in _step_calls(code, frozenset({"once", "apply", "sql", "key"}))]
    counts = Counter((_method(call), name) for call, name in named if name is not None)
    looped = {id(call) for loop in _loops(code.node) for call in _calls(loop)}
    for call, name in named:
        if name is not None and (counts[_method(call), name] > 1 or id(call) in looped):
            yield call


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _literal(call: ast.Call) -> str | None:
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def _loops(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.walk(node):
        if isinstance(child, ast.For | ast.AsyncFor | ast.While):
            yield from child.body
        elif isinstance(child, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            yield child.elt


def not_repeatable(source: ModuleSource, code: HandlerCode) -> Iterator[ast.AST]:
    """Find times and random ids in recorded values."""
    drawn = {
        target.id
        for node in ast.walk(code.node)
        if isinstance(node, ast.Assign) and _draws(source, node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for place in _recorded(code):
        for node in ast.walk(place):
            is_drawn = isinstance(node, ast.Call) and _is_drawing(source, node)
            if is_drawn or (isinstance(node, ast.Name) and node.id in drawn):
                yield node


def _recorded(code: HandlerCode) -> Iterator[ast.AST]:
    """Yield the expressions whose values are recorded."""
    for call in _step_calls(code, _RECORDS):
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        yield from (value for value in given if not isinstance(value, ast.Lambda))
    for call in _calls(code.node):
        named = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if named in ("message", "Done") and code.steps:
            yield from call.args
    for node in ast.walk(code.node):
        if isinstance(node, ast.Assign) and any(_is_state(target, code) for target in node.targets):
            yield node.value


def _is_state(target: ast.AST, code: HandlerCode) -> bool:
    while isinstance(target, ast.Attribute | ast.Subscript):
        if isinstance(target, ast.Attribute) and target.attr == "state" and _is_named(target.value, code.steps):
            return True
        target = target.value
    return False


def _draws(source: ModuleSource, node: ast.AST) -> bool:
    return any(_is_drawing(source, call) for call in _calls(node))


def _is_drawing(source: ModuleSource, call: ast.Call) -> bool:
    name = source.dotted(call.func)
    return name in _DRAWN or name.startswith(_DRAWN_FROM)


# -- what is kept, shown and handed on


def module_state(source: ModuleSource, code: HandlerCode) -> Iterator[ast.AST]:
    """Find changes of module state."""
    shared = source.mutables() - _assigned(code.node)
    for node in ast.walk(code.node):
        if isinstance(node, ast.Global) or _changes(node, frozenset(shared)):
            yield node


def _changes(node: ast.AST, shared: frozenset[str]) -> bool:
    match node:
        case ast.Call(ast.Attribute(owner, method)):
            return method in _CHANGES and _is_named(owner, shared)
        case ast.Subscript(owner, ctx=ast.Store() | ast.Del()):
            return _is_named(owner, shared)
        case _:
            return False


def _assigned(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)}


def payload_logged(source: ModuleSource, code: HandlerCode) -> Iterator[ast.AST]:
    """Find payloads and states that are logged as a whole."""
    for call in _calls(code.node):
        if _is_log(call):
            inside = [*call.args, *(keyword.value for keyword in call.keywords)]
            if any(_is_whole(value, code) for value in inside):
                yield call


def _is_log(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id == "print"
    if not (isinstance(call.func, ast.Attribute) and call.func.attr in _LOGS):
        return False
    owner = call.func.value
    name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
    return "log" in name.lower()


def _is_whole(node: ast.AST, code: HandlerCode) -> bool:
    """Answer whether a value contains a whole payload, and not only a field of one."""
    if isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute) and (
            node.attr in _WHOLE or (_is_state(node, code) and node.attr == "state")
        ):
            return node.attr == "state" or _is_whole(node.value, code)
        return False
    if _is_named(node, code.payloads):
        return True
    return any(_is_whole(child, code) for child in ast.iter_child_nodes(node))


def step_elsewhere(source: ModuleSource, code: HandlerCode) -> Iterator[ast.AST]:
    """Find steps that are used in other threads, processes, and tasks that the handler may not wait for."""
    is_async = isinstance(code.node, ast.AsyncFunctionDef)
    elsewhere, hands = (_ELSEWHERE - _AWAITED, _HANDS_OVER - _AWAITED) if is_async else (_ELSEWHERE, _HANDS_OVER)
    using = {
        node.name
        for node in ast.walk(code.node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node is not code.node
        and _uses(node, code.steps)
    }
    for call in _calls(code.node):
        hands_over = isinstance(call.func, ast.Attribute) and call.func.attr in hands
        if hands_over or source.dotted(call.func) in elsewhere:
            given = [*call.args, *(keyword.value for keyword in call.keywords)]
            if any(_uses(value, code.steps | frozenset(using)) for value in given):
                yield call


def _uses(node: ast.AST, names: frozenset[str]) -> bool:
    return any(_is_named(child, names) for child in ast.walk(node))


# -- waits, errors, sleep, effects


def no_deadline(source: ModuleSource, code: HandlerCode) -> Iterator[ast.AST]:
    """Find waits without a deadline."""
    for call in _calls(code.node):
        is_wait = isinstance(call.func, ast.Attribute) and call.func.attr in _WAITS
        if is_wait and not {"within", None} & _keywords(call):
            yield call


def swallowed(source: ModuleSource, code: HandlerCode) -> Iterator[ast.AST]:
    """Find clauses that catch every exception around a call of the step."""
    for node in ast.walk(code.node):
        if isinstance(node, ast.Try) and any(_uses(statement, code.steps) for statement in node.body):
            for clause in node.handlers:
                caught = "BaseException" if clause.type is None else source.dotted(clause.type)
                raises = any(isinstance(child, ast.Raise) for child in ast.walk(clause))
                if caught in ("BaseException", "Exception") and not raises:
                    yield clause


def sleeps(source: ModuleSource, code: HandlerCode) -> Iterator[ast.AST]:
    """Find calls that sleep."""
    return (call for call in _calls(code.node) if source.dotted(call.func) in ("time.sleep", "asyncio.sleep"))


def effect_repeated(source: ModuleSource, code: HandlerCode) -> Iterator[ast.AST]:
    """Find HTTP requests that change something, and runs of agents, outside of step.once."""
    if not code.steps:
        return
    remembering = list(_step_calls(code, frozenset({"once"})))
    kept = {id(inner) for call in remembering for inner in _calls(call)}
    called = {
        child.id
        for call in _step_calls(code, frozenset({"once"}))
        for child in ast.walk(call)
        if isinstance(child, ast.Name)
    }
    inner_functions = [
        node for node in ast.walk(code.node) if isinstance(node, ast.FunctionDef) and node.name in called
    ]
    kept |= {id(inner) for function in inner_functions for inner in _calls(function)}
    for call in _calls(code.node):
        name = source.dotted(call.func)
        asks = name.startswith(_HTTP_CLIENTS) and name.rpartition(".")[2] in _HTTP
        if (asks or _runs_agent(call)) and id(call) not in kept:
            yield call


def _runs_agent(call: ast.Call) -> bool:
    """Answer whether an agent of Pydantic AI runs without a capability, which would remember its calls."""
    runs = isinstance(call.func, ast.Attribute) and call.func.attr == "run_sync"
    return runs and "capabilities" not in _keywords(call)


def remembers_shortly(source: ModuleSource, code: HandlerCode) -> Iterator[ast.AST]:
    """Yield where a handler looks at the run before, of a flow that remembers it no longer than it must."""
    if not source.is_forgotten(code.node):
        return
    for node in ast.walk(code.node):
        match node:
            case ast.Attribute(ast.Name(step), "superseded") if step in code.steps:
                yield node
                return  # once is enough: it is the flow that is to be changed
            case _:
                pass


def undoes_shortly(source: ModuleSource) -> Iterator[ast.AST]:
    """Yield where a flow names what undoes a run, and remembers the run no longer than it must."""
    for flow in source.forgetful_flows():
        yield from (option for option in flow.keywords if option.arg == "on_failed")


CHECKS: Final[Mapping[Rule, Check]] = {
    CHECK_THEN_ACT: check_then_act,
    DIRECT_WRITE: direct_write,
    KEY_NOT_UNIQUE: key_not_unique,
    NOT_REPEATABLE: not_repeatable,
    MODULE_STATE: module_state,
    PAYLOAD_LOGGED: payload_logged,
    STEP_ELSEWHERE: step_elsewhere,
    NO_DEADLINE: no_deadline,
    SWALLOWED: swallowed,
    SLEEPS: sleeps,
    EFFECT_REPEATED: effect_repeated,
    REMEMBERS_SHORTLY: remembers_shortly,
}
