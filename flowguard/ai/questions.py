"""Digests of what a model or a tool is asked. Two attempts of a hop that ask the same have the same digest.

Times, ids and token counts are left out, for each attempt has others. So are the model and its settings: an answer of
another model is an answer to the same question.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from hashlib import sha256
from typing import Any, Final

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.native_tools import AbstractNativeTool
from pydantic_ai.tools import ToolDefinition
from pydantic_core import to_jsonable_python

_OF_A_PART: Final = ("part_kind", "content", "tool_name", "args", "outcome")
_OF_A_CONNECTION: Final = frozenset({"authorization_token", "headers", "optional"})
"""What a tool of the provider is reached with. Credentials are renewed between attempts."""


def question_of(messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> str:
    """Return the digest of what a model is asked.

    That is the conversation, the tools, those that the provider runs too, and the form of the answer.
    """
    output = parameters.output_object
    native = sorted(([tool.unique_id, *_settings(tool)] for tool in parameters.native_tools), key=str)
    return _digest(
        {
            **({"native": native} if native else {}),
            "messages": said_in(messages),
            "tools": _shown_tools(parameters.function_tools),
            "outputs": _shown_tools(parameters.output_tools),
            "form": [parameters.output_mode, None if output is None else output.json_schema],
        }
    )


def tool_question_of(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the digest of a call of a tool."""
    return _digest([name, to_jsonable_python(arguments, serialize_unknown=True)])


def compaction_question_of(messages: Sequence[ModelMessage], instructions: str | None) -> str:
    """Return the digest of a conversation that the model is to make shorter."""
    return _digest([said_in(messages), instructions])


def said_in(messages: Sequence[ModelMessage]) -> list[Any]:
    """Return the messages as JSON values, without what differs between attempts.

    Requests and answers have parts of different kinds, so the kind of a message says nothing more.
    """
    whole = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    return [[message.get("instructions"), [_part(part) for part in message["parts"]]] for message in whole]


def _part(part: Mapping[str, Any]) -> list[Any]:
    return [part.get(field) for field in _OF_A_PART]


def _shown_tools(tools: Sequence[ToolDefinition]) -> list[Any]:
    """Return the tools in the order of their names: a server may list them in any."""
    return sorted(
        ([tool.name, tool.description, tool.parameters_json_schema] for tool in tools), key=lambda shown: str(shown[0])
    )


def _settings(tool: AbstractNativeTool) -> Iterator[list[Any]]:
    """Yield what is set of a tool that the provider runs. What a newer release adds is no part until it is set."""
    for field in fields(tool):
        value = getattr(tool, field.name)
        if field.name not in _OF_A_CONNECTION and value != field.default:
            yield [field.name, to_jsonable_python(value, serialize_unknown=True)]


def _digest(question: Any) -> str:
    return sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:32]
