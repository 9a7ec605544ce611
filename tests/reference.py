"""Writes the reference of the public names from their docstrings: ``python -m tests.reference``.

One page stands for each module, in ``docs/reference/``, and one for the run item. ``tests/test_reference.py`` fails
while a page is out of date.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import click
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import flowguard
import flowguard.ai
import flowguard.codecs
import flowguard.observers
import flowguard.sql
import flowguard.testing
from flowguard import LambdaHandler, Step
from flowguard.cli import main
from flowguard.sql import DataApiTransaction
from flowguard.startup.value import Value
from tests import run_item_page

FOLDER: Final = Path(__file__).parents[1] / "docs" / "reference"
MADE: Final = "<!-- Made from the docstrings by `python -m tests.reference`. Change those. -->\n"

PAGES: Final = {
    "flow": "What the class of a flow takes.",
    "stage": "The base class of stages.",
    "step": "What a handler may use.",
    "outcome": "How a stage ends.",
    "callback": "How parties outside answer.",
    "failed": "What was awaited and failed.",
    "group": "How a group of requests has ended.",
    "retry": "When a failed message is tried again.",
    "limit": "How many hops are at work at once for one key.",
    "pause_after": "When such a key pauses itself.",
    "destinations": "Where messages go.",
    "client": "Start a flow.",
    "handler": "Make a Lambda function of flows.",
    "callback_function": "Make a Lambda function of answers.",
    "start_function": "Make a Lambda function that starts runs for HTTP requests.",
    "start_request": "What its functions get of a request.",
    "once_function": "Call a function once for each key, without a flow.",
    "key_table": "Another table for its keys.",
    "aws.modify": "Change an item, without a flow.",
    "settings": "What differs from one deployment to the next.",
    "events": "What an observer gets.",
    "verdicts": "The results of a claim.",
    "errors": "What goes wrong.",
}
"""The modules that hold the names of ``flowguard``. ``observers``, ``testing`` and ``commands`` come beside them."""

BESIDE: Final = {
    "observers": "Watch flows: logs, metrics, traces.",
    "sql": "Run SQL statements once in each hop.",
    "ai": "Remember each call of an agent.",
    "codecs": "Encrypt or compress payloads.",
    "testing": "What users test with.",
}
"""The packages that have names of their own."""

USED: Final[Mapping[str, str]] = {
    "flow": "start/quick-start",
    "stage": "start/quick-start",
    "step": "guides/writing-your-own-tables",
    "outcome": "explain/way-of-a-message",
    "callback": "guides/waiting-for-others",
    "failed": "guides/waiting-for-others",
    "group": "guides/groups",
    "retry": "explain/when-a-stage-fails",
    "limit": "guides/limits",
    "pause_after": "guides/limits",
    "destinations": "start/choosing",
    "client": "start/quick-start",
    "handler": "start/quick-start",
    "callback_function": "guides/callbacks-over-http",
    "start_function": "guides/start-over-http",
    "start_request": "guides/start-over-http",
    "once_function": "guides/without-a-flow",
    "key_table": "guides/without-a-flow",
    "modify": "guides/without-a-flow",
    "settings": "operate/deploy",
    "events": "operate/observing",
    "verdicts": "explain/way-of-a-message",
    "errors": "explain/when-a-stage-fails",
    "observers": "operate/observing",
    "sql": "guides/sql",
    "ai": "guides/ai-steps",
    "codecs": "guides/encryption",
    "testing": "guides/test-your-flow",
    "commands": "operate/command-line",
    "run-item": "operate/find-one-order",
}
"""The page that shows how the names of each module are used."""

HANDED_OVER: Final[Mapping[type, str]] = {
    Step: "class PriceCart(Stage[Cart]):\n    def handle(self, cart: Cart, step: Step) -> Outcome: ...",
    LambdaHandler: "handler = lambda_handler(ValidateCart)",
    DataApiTransaction: 'step.sql("book", database, lambda transaction: transaction.execute(…))',
}
"""The classes that flowguard makes and nobody else, and how each is had."""


class Name(NamedTuple):
    """A public name, the page that it stands on and what it is."""

    name: str
    page: str
    value: Any


# -- what is public ---------------------------------------------------------------------------------------------------


def names() -> list[Name]:
    """Return every public name, each once, in the order of the front page. All errors are public."""
    found = [Name(name, flowguard._HOME[name], getattr(flowguard, name)) for name in flowguard.__all__]
    errors = importlib.import_module("flowguard.errors")
    there = {one.name for one in found}
    found += [Name(name, "errors", value) for name, value in _errors(errors) if name not in there]
    for page in BESIDE:
        package = importlib.import_module(f"flowguard.{page}")
        found += [Name(name, page, getattr(package, name)) for name in package.__all__]
    return found


def _errors(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == module.__name__:
            yield name, value


# -- a docstring as Markdown ------------------------------------------------------------------------------------------


def as_markdown(text: str | None) -> str:
    """Return a docstring as Markdown. Its first sentence stays first."""
    if not text:
        return ""
    blocks = [_block(block) for block in re.split(r"\n\s*\n", inspect.cleandoc(text))]
    return "\n\n".join(block for block in blocks if block != ":")


def _block(block: str) -> str:
    lines = block.splitlines()
    if any(line.startswith("====") for line in lines) or all(line.startswith("    ") for line in lines):
        return "```text\n" + textwrap.dedent(block) + "\n```"
    if re.match(r"``[^`]+``\s{2,}\S", block):
        return "\n".join(_items(lines))
    return _inline(re.sub(r"::$", ":", block))


def _items(lines: list[str]) -> Iterator[str]:
    """Turn a list of options, each with its text two columns further on, into a Markdown list."""
    text = ""
    for line in lines:
        if option := re.match(r"``([^`]+)``\s{2,}(.*)", line):
            if text:
                yield text
            text = f"- `{option[1]}`: {_inline(option[2])}"
        else:
            text += f" {_inline(line.strip())}"
    yield text


def _inline(text: str) -> str:
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    text = re.sub(r"``([^`]*)``", r"`\1`", text)
    return re.sub(r"(`[^`]*`)|<", lambda found: found[1] or r"\<", text)  # or a browser takes it for markup


# -- signatures -------------------------------------------------------------------------------------------------------


def shown_default(value: Any) -> str:
    """Return a default as code that a reader would write."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__.lstrip('_')}.{value.name}" if type(value).__name__[0] != "_" else value.name
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    text = re.sub(r"\bdatetime\.", "", repr(value))
    return "…" if " object at 0x" in text or text.startswith("<") else text


def shown_type(annotation: Any) -> str:
    """Return an annotation as it was written."""
    if annotation in (inspect.Parameter.empty, inspect.Signature.empty):
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", text)
    return re.sub(r"\b(?:flowguard|typing|collections\.abc|datetime)(?:\.\w+)*\.", "", text)


def signature(call: Callable[..., Any], *, head: str, skip: int = 0, inner: str = "") -> str:
    """Return how something is called, over several lines if need be. ``inner`` comes before the arguments."""
    described = inspect.signature(call)
    parts = [inner] if inner else []
    star = False
    for parameter in list(described.parameters.values())[skip:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not star and not inner:
            parts.append("*")
        star = star or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        parts.append(_parameter(parameter))
    result = shown_type(described.return_annotation)
    tail = f" -> {result}" if result and result != "None" and not inner else ""
    line = f"{head}({', '.join(parts)}){tail}"
    return line if len(line) <= 100 else f"{head}(\n" + "".join(f"    {part},\n" for part in parts) + f"){tail}"


def _parameter(parameter: inspect.Parameter) -> str:
    star, stars = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    mark = "*" if parameter.kind is star else "**" if parameter.kind is stars else ""
    text = f"{mark}{parameter.name}"
    if kind := shown_type(parameter.annotation):
        text += f": {kind}"
    if parameter.default is not parameter.empty:
        text += f" = {shown_default(parameter.default)}" if kind else f"={shown_default(parameter.default)}"
    return text


# -- one name ---------------------------------------------------------------------------------------------------------


def entry(one: Name) -> str:
    """Return a name's part of its page."""
    if isinstance(one.value, type):
        parts = [f"## `{one.name}`", *_class(one.name, one.value)]
    elif inspect.isfunction(one.value):
        parts = [f"## `{one.name}`", _code(signature(one.value, head=one.name)), as_markdown(one.value.__doc__)]
    else:
        parts = [f"## `{one.name}`", _constant(one)]
    return "\n\n".join(part for part in parts if part)


def _code(text: str) -> str:
    return f"```text\n{text}\n```"


def _constant(one: Name) -> str:
    home = importlib.import_module(f"flowguard.{_home(one)}")
    said = _attribute_docs(ast.parse(inspect.getsource(home)).body).get(one.name)
    if said is None and (kind := type(one.value)).__module__.startswith("flowguard."):
        said = _attribute_docs(_body(kind)).get(one.name)
    return as_markdown(said) or f"`{shown_default(one.value)}`"


def _home(one: Name) -> str:
    package = importlib.import_module(f"flowguard.{one.page}") if one.page in BESIDE else flowguard
    home: str = package._HOME[one.name]
    return home


def _class(name: str, kind: type) -> Iterator[str]:
    bases = [base.__name__ for base in kind.__bases__ if base.__module__.startswith("flowguard")]
    if kind in HANDED_OVER:
        yield _code(HANDED_OVER[kind])
    if options_of(kind):
        yield _code(signature(kind.__init_subclass__, head="class Yours", inner=name))
    if bases and issubclass(kind, Exception):
        yield f"A `{bases[0]}`."
    yield as_markdown(vars(kind).get("__doc__") if not _is_generated(kind) else "")
    if not options_of(kind) and kind not in HANDED_OVER and _is_called(kind):
        yield _code(signature(kind, head=name))
    if rows := list(_fields(kind)):
        yield "\n".join(rows)
    yield from _methods(kind)


def options_of(kind: type) -> list[str]:
    """Return the options that a subclass may be given."""
    own = vars(kind).get("__init_subclass__")
    if own is None or issubclass(kind, BaseModel):
        return []
    return [name for name, one in inspect.signature(own.__func__).parameters.items() if one.kind is one.KEYWORD_ONLY]


def _is_called(kind: type) -> bool:
    """Whether users make objects of it by a call that says something."""
    if issubclass(kind, enum.Enum | BaseModel) or getattr(kind, "_is_protocol", False):
        return False
    return (
        issubclass(kind, Value)
        or "__init__" in vars(kind)
        or dataclasses.is_dataclass(kind)
        or hasattr(kind, "_fields")
    )


def _is_generated(kind: type) -> bool:
    doc = kind.__doc__ or ""
    return doc.startswith(f"{kind.__name__}(")


def _fields(kind: type) -> Iterator[str]:
    docs, options = _attribute_docs(_body(kind)), options_of(kind)
    if issubclass(kind, enum.Enum):
        for member in kind:
            yield _row(member.name, docs.get(member.name, ""))
    elif issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            default = "" if field.default is PydanticUndefined else f" = {shown_default(field.default)}"
            yield _row(f"{name}: {shown_type(field.annotation)}{default}", field.description or "")
    else:
        for name, kind_ in getattr(kind, "__annotations__", {}).items():
            if not name.startswith("_") and name not in options:
                own = re.sub(r"^ClassVar\[(.*)\]$", r"\1", shown_type(kind_))
                yield _row(f"{name}: {own}", docs.get(name, ""))


def _row(name: str, said: str) -> str:
    return f"- `{name}`{': ' + as_markdown(said).replace(chr(10), ' ') if said else ''}"


def _body(kind: type) -> list[ast.stmt]:
    found = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    return found.body if isinstance(found, ast.ClassDef) else []


def _attribute_docs(body: list[ast.stmt]) -> dict[str, str]:
    """Return the docstrings that stand below assignments."""
    found = {}
    for statement, after in pairwise(body):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        if isinstance(target, ast.Name) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[target.id] = inspect.cleandoc(str(after.value.value))
    return found


def _methods(kind: type) -> Iterator[str]:
    for name, value in vars(kind).items():
        if name.startswith("_"):
            continue
        plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if isinstance(value, property):
            result = shown_type(inspect.signature(value.fget).return_annotation) if value.fget else ""
            yield _member(kind, name, f"{name}: {result}", value.__doc__)
        elif inspect.isfunction(plain):
            skip = 0 if isinstance(value, staticmethod) else 1
            yield _member(kind, name, signature(plain, head=name, skip=skip), plain.__doc__)


def _member(kind: type, name: str, call: str, doc: str | None) -> str:
    return f"### `{kind.__name__}.{name}`\n\n{_code(call)}\n\n{as_markdown(doc)}".rstrip()


# -- pages ------------------------------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """Return each page's text by its file name."""
    everything = names()
    found = {
        f"{module.rpartition('.')[2]}.md": _page(module, [one for one in everything if one.page == module])
        for module in PAGES
    }
    for page in BESIDE:
        found[f"{page}.md"] = _page(page, [one for one in everything if one.page == page])
    found["commands.md"] = _commands()
    found[run_item_page.FILE] = run_item_page.text()
    found["README.md"] = _index(everything)
    return found


def _page(module: str, there: list[Name]) -> str:
    said = as_markdown(importlib.import_module(f"flowguard.{module}").__doc__)
    where = f"flowguard.{module}" if module in BESIDE else "flowguard"
    public = [one.name for one in there if hasattr(importlib.import_module(where), one.name)]
    taken = f"`from {where} import {', '.join(public)}`\n\n" if len(public) <= 6 else ""
    top = f"{MADE}\n# flowguard.{module}\n\n{said}\n\nHow to use it: {_guide(module)}.\n\n{taken}"
    return top + "\n\n".join(map(entry, there)) + "\n"


def _guide(module: str) -> str:
    """Return the link to the page that shows how the names of a module are used."""
    page = USED[module.rpartition(".")[2]]
    title = (FOLDER.parent / f"{page}.md").read_text(encoding="utf-8").partition("# ")[2].partition("\n")[0]
    return f"[{title}](../{page}.md)"


def _index(everything: list[Name]) -> str:
    rows = []
    for module, said in {**PAGES, **BESIDE}.items():
        file = f"{module.rpartition('.')[2]}.md"
        links = ", ".join(f"[{one.name}]({file}#{one.name.lower()})" for one in everything if one.page == module)
        rows.append(f"| [flowguard.{module}]({file}) | {said} | {links} | {_guide(module)} |")
    rows.append(f"| [commands](commands.md) | What `flowguard` does in a terminal. | | {_guide('commands')} |")
    rows.append(f"| [The run item]({run_item_page.FILE}) | What the table holds of a run. | | {_guide('run-item')} |")
    table = "\n".join(["| page | | names | how to use them |", "| --- | --- | --- | --- |", *rows])
    return f"{MADE}\n# Reference\n\nEvery public name, option, default and error.\n\n{table}\n"


def _commands() -> str:
    parts = [f"{MADE}\n# Commands\n\nThe help of each, as `--help` prints it. How to use them: {_guide('commands')}."]
    for path, command in _all_commands(main, ("flowguard",)):
        settings = {**main.context_settings, "max_content_width": 100, "terminal_width": 100}
        context = click.Context(command, info_name=" ".join(path), **settings)
        parts.append(f"## `{' '.join(path)}`\n\n{_code(command.get_help(context))}")
    return "\n\n".join(parts) + "\n"


def _all_commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            if (inner := command.get_command(click.Context(command), name)) is not None:
                yield from _all_commands(inner, (*path, name))


def write() -> None:
    """Write the pages over those that are there. Where one cannot be made, nothing is changed."""
    texts = pages()
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    for old in FOLDER.glob("*.md"):
        if old.name not in texts:
            old.unlink()


if __name__ == "__main__":
    write()
