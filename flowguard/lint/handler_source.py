"""The handlers in the source of a module, with the functions that they call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, eq=False)
class HandlerCode:
    """A function that is run for a message.

    ``steps`` are its names for the step, ``payloads`` those for what the message brings.
    """

    node: Function
    steps: frozenset[str]
    payloads: frozenset[str]


@dataclass
class ModuleSource:
    """The syntax tree of a module, with the meaning of its names."""

    tree: ast.Module
    imports: dict[str, str] = field(default_factory=dict)
    """What each imported name stands for: ``{"uuid4": "uuid.uuid4"}``."""
    module: str = ""
    """Its name, without its package."""
    forgotten: frozenset[str] = frozenset()
    """``module.Stage`` of each stage that a flow of another module lists, if that flow has no ``remember=``."""

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.imports[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"

    @property
    def constants(self) -> dict[str, ast.expr]:
        """Return what the names in upper case are that the module gives a value."""
        values: dict[str, ast.expr] = {}
        for line in self.tree.body:
            match line:
                case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, ast.expr() as value):
                    values[name] = value
                case _:
                    pass
        return {name: value for name, value in values.items() if name.isupper()}

    def dotted(self, node: ast.AST) -> str:
        """Return the whole name of a name or attribute: ``datetime.datetime.now``. Empty for other expressions."""
        match node:
            case ast.Name(name):
                return self.imports.get(name, name)
            case ast.Attribute(of, name):
                owner = self.dotted(of)
                return f"{owner}.{name}" if owner else ""
            case _:
                return ""

    def handlers(self) -> list[HandlerCode]:
        """Find the handlers, and the functions of the module that they call with their step or payload."""
        stages = self._stages()
        methods: dict[str, dict[str, Function]] = {stage.name: _methods(stage) for stage in stages}
        handlers = [
            code
            for stage in stages
            if (handle := methods[stage.name].get("handle")) is not None
            if (code := _handle(handle)) is not None
        ]
        functions: dict[str, Function] = {
            statement.name: statement for statement in self.tree.body if isinstance(statement, Function)
        }
        handlers += [_once(function) for function in functions.values() if self._is_once(function)]
        return list(
            _with_called(handlers, functions, [method for of_class in methods.values() for method in of_class.values()])
        )

    def _stages(self) -> list[ast.ClassDef]:
        """Return the classes that are stages, by their base class or by a ``handle`` that takes a Step."""
        classes = [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]
        known: set[str] = set()
        stages = []
        for node in classes:
            bases = [self.dotted(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases]
            is_stage = any(
                base in known or (base.startswith("flowguard") and base.endswith(".Stage")) for base in bases
            )
            if is_stage or self._handles(node):
                known.add(node.name)
                stages.append(node)
        return stages

    def _handles(self, node: ast.ClassDef) -> bool:
        handle = _methods(node).get("handle")
        if handle is None or len(handle.args.args) < 3:
            return False
        annotation = handle.args.args[2].annotation
        bare = annotation.value if isinstance(annotation, ast.Subscript) else annotation
        return bare is not None and self.dotted(bare).rpartition(".")[2] == "Step"

    def forgetful_flows(self) -> list[ast.ClassDef]:
        """Return the flows of the module that do not say how long an object's last run is remembered."""
        classes = [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]
        bases = {node: {self.dotted(base) for base in node.bases} for node in classes}
        flows = [node for node, of in bases.items() if of & {"flowguard.Flow", "flowguard.flow.Flow"}]
        return [flow for flow in flows if all(option.arg != "remember" for option in flow.keywords)]

    def forgetful_stages(self) -> set[str]:
        """Return the stages that these flows take from other modules, each as ``module.Stage``, without its package."""
        return {".".join(name.split(".")[-2:]) for name in self._forgetful_names() if "." in name}

    def _forgetful_names(self) -> set[str]:
        return {
            self.dotted(stage)
            for flow in self.forgetful_flows()
            if not self._has_one_request_each(flow)
            for line in flow.body
            if isinstance(line, ast.Assign | ast.AnnAssign) and line.value is not None and _names_stages(line)
            for stage in ast.walk(line.value)
            if isinstance(stage, ast.Name | ast.Attribute)
        }

    def _has_one_request_each(self, flow: ast.ClassDef) -> bool:
        """Answer whether no two requests are for one object, so that none takes over from another."""
        named = {option.arg: option.value for option in flow.keywords}
        match named.get("object_id"), named.get("request_id"):
            case ast.Constant(of_object), ast.Constant(of_request):
                return bool(of_object == of_request)
            case (ast.Name() | ast.Attribute()) as whose, _:
                return self.dotted(whose).rpartition(".")[2] == "PER_REQUEST"
            case _:
                return False

    def is_forgotten(self, handler: Function) -> bool:
        """Answer whether a flow, here or elsewhere, remembers runs of this handler's stage no longer than it must.

        A function that stages call is taken for one of each stage in the module.
        """
        classes = [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]
        names = {node.name for node in classes if handler in node.body} or {node.name for node in classes}
        elsewhere = {f"{self.module}.{name}" for name in names}
        return not names.isdisjoint(self._forgetful_names()) or not self.forgotten.isdisjoint(elsewhere)

    def _is_once(self, function: Function) -> bool:
        called = (
            decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in function.decorator_list
        )
        return any(self.dotted(decorator) in ("flowguard.once", "flowguard.once_function.once") for decorator in called)

    def mutables(self) -> set[str]:
        """Return the names of the module that hold mutable values."""
        names: set[str] = set()
        for node in self.tree.body:
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AnnAssign)
                else []
            )
            value = getattr(node, "value", None)
            if value is not None and self._is_mutable(value):
                names.update(target.id for target in targets if isinstance(target, ast.Name))
        return names

    def _is_mutable(self, value: ast.expr) -> bool:
        if isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp):
            return True
        makers = {"list", "dict", "set", "bytearray", "collections.defaultdict", "collections.deque"}
        makers |= {"collections.Counter", "collections.OrderedDict"}
        return isinstance(value, ast.Call) and self.dotted(value.func) in makers


def _names_stages(line: ast.Assign | ast.AnnAssign) -> bool:
    targets = line.targets if isinstance(line, ast.Assign) else [line.target]
    return any(isinstance(target, ast.Name) and target.id == "stages" for target in targets)


def _methods(node: ast.ClassDef) -> dict[str, Function]:
    return {child.name: child for child in node.body if isinstance(child, Function)}


def _handle(handle: Function) -> HandlerCode | None:
    names = [arg.arg for arg in handle.args.args]
    is_static = any(
        isinstance(decorator, ast.Name) and decorator.id == "staticmethod" for decorator in handle.decorator_list
    )
    rest = names if is_static else names[1:]
    return HandlerCode(handle, frozenset(rest[1:2]), frozenset(rest[:1])) if len(rest) >= 2 else None


def _once(function: Function) -> HandlerCode:
    return HandlerCode(function, frozenset(), frozenset(arg.arg for arg in function.args.args))


def _with_called(
    handlers: list[HandlerCode], functions: dict[str, Function], methods: list[Function]
) -> Iterator[HandlerCode]:
    """Yield the handlers, and the functions and methods of the module that get their step or payload."""
    seen: set[tuple[Function, frozenset[str], frozenset[str]]] = set()
    by_name = {**{method.name: method for method in methods if method.name != "handle"}, **functions}
    ahead = list(handlers)
    while ahead:
        code = ahead.pop(0)
        if (code.node, code.steps, code.payloads) in seen:
            continue
        seen.add((code.node, code.steps, code.payloads))
        yield code
        for call in (node for node in ast.walk(code.node) if isinstance(node, ast.Call)):
            if (called := by_name.get(_called_name(call))) is not None and called is not code.node:
                steps, payloads = _given(code, call, called)
                if steps or payloads:
                    ahead.append(HandlerCode(called, steps, payloads))


def _called_name(call: ast.Call) -> str:
    match call.func:
        case ast.Name(name) | ast.Attribute(ast.Name(), name):
            return name
        case _:
            return ""


def _given(code: HandlerCode, call: ast.Call, called: Function) -> tuple[frozenset[str], frozenset[str]]:
    names = [parameter.arg for parameter in called.args.args]
    if names[:1] in (["self"], ["cls"]):
        names = names[1:]
    pairs = [*zip(names, call.args, strict=False), *((keyword.arg or "", keyword.value) for keyword in call.keywords)]
    given = [(name, arg.id) for name, arg in pairs if isinstance(arg, ast.Name)]
    return (
        frozenset(name for name, arg in given if arg in code.steps),
        frozenset(name for name, arg in given if arg in code.payloads),
    )
