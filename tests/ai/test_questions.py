"""What belongs to a question: of two that differ in it, each has a digest of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.native_tools import AbstractNativeTool, MCPServerTool, WebFetchTool, WebSearchTool
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from flowguard.ai.questions import compaction_question_of, question_of, tool_question_of

SAID: Final[list[ModelMessage]] = [
    ModelRequest([UserPromptPart("Where is my tea?")], instructions="Be brief."),
    ModelResponse([ToolCallPart("look", {"word": "tea"})]),
]
LOOK: Final = ToolDefinition(name="look", parameters_json_schema={"type": "object"}, description="Look at a word.")
FORM: Final = OutputObjectDefinition(json_schema={"type": "object"})
ASKED: Final = ModelRequestParameters(
    function_tools=[LOOK], output_tools=[LOOK], output_mode="prompted", output_object=FORM
)
OTHER_TOOLS: Final = {
    "name": replace(LOOK, name="see"),
    "description": replace(LOOK, description="Look twice."),
    "schema": replace(LOOK, parameters_json_schema={"type": "string"}),
}


@pytest.mark.parametrize("field", ["function_tools", "output_tools"])
@pytest.mark.parametrize("change", OTHER_TOOLS)
def test_another_tool_is_another_question(field: str, change: str) -> None:
    changed: Any = {field: [OTHER_TOOLS[change]]}
    assert question_of(SAID, replace(ASKED, **changed)) != question_of(SAID, ASKED)


@pytest.mark.parametrize("field", ["function_tools", "output_tools"])
def test_one_tool_less_is_another_question(field: str) -> None:
    changed: Any = {field: []}
    assert question_of(SAID, replace(ASKED, **changed)) != question_of(SAID, ASKED)


def test_an_output_in_another_way_is_another_question() -> None:
    assert question_of(SAID, replace(ASKED, output_mode="native")) != question_of(SAID, ASKED)


@pytest.mark.parametrize("form", [None, OutputObjectDefinition(json_schema={"type": "array"})])
def test_an_output_of_another_form_is_another_question(form: OutputObjectDefinition | None) -> None:
    assert question_of(SAID, replace(ASKED, output_object=form)) != question_of(SAID, ASKED)


BEFORE: Final = "81b9c80996de8ea5b5eeb760b96db3d9"
SEARCH: Final = WebSearchTool(blocked_domains=["tea.example"])
SERVER: Final = MCPServerTool(id="shop", url="https://mcp.example", authorization_token="t-1", headers={"X": "1"})


def with_native(*tools: AbstractNativeTool) -> str:
    return question_of(SAID, replace(ASKED, native_tools=list(tools)))


@pytest.mark.parametrize(
    "others",
    [
        (),
        (SEARCH, SERVER),
        (WebFetchTool(blocked_domains=["tea.example"]),),
        (replace(SEARCH, blocked_domains=["pot.example"]),),
        (replace(SEARCH, blocked_domains=None, allowed_domains=["tea.example"]),),
    ],
    ids=["none", "one more", "another kind", "another setting", "the same in another setting"],
)
def test_another_tool_that_the_provider_runs_is_another_question(others: tuple[AbstractNativeTool, ...]) -> None:
    assert with_native(*others) != with_native(SEARCH)


def test_another_server_of_tools_is_another_question() -> None:
    assert with_native(replace(SERVER, id="bank")) != with_native(SERVER)
    assert with_native(replace(SERVER, url="https://other.example")) != with_native(SERVER)


def test_a_newer_credential_or_order_or_release_asks_the_same() -> None:
    """A release that adds a setting gives it a default."""

    @dataclass(kw_only=True)
    class NewerSearch(WebSearchTool):
        depth: str = "deep"

    assert with_native(replace(SERVER, authorization_token="t-2", headers=None)) == with_native(SERVER)
    assert with_native(replace(SEARCH, optional=True)) == with_native(SEARCH)
    assert with_native(SEARCH, SERVER) == with_native(SERVER, SEARCH)
    assert with_native(NewerSearch(blocked_domains=["tea.example"])) == with_native(SEARCH)
    assert with_native(NewerSearch(blocked_domains=["tea.example"], depth="flat")) != with_native(SEARCH)


def test_a_question_without_such_tools_is_what_it_was_before_they_counted() -> None:
    assert question_of([], ModelRequestParameters()) == BEFORE


OTHER_TALKS: Final[dict[str, list[ModelMessage]]] = {
    "text": [ModelRequest([UserPromptPart("Where is it?")], instructions="Be brief."), SAID[1]],
    "instructions": [ModelRequest(SAID[0].parts, instructions="Be long."), SAID[1]],  # type: ignore[arg-type]  # a request's
    "tool": [SAID[0], ModelResponse([ToolCallPart("see", {"word": "tea"})])],
    "arguments": [SAID[0], ModelResponse([ToolCallPart("look", {"word": "pot"})])],
    "kind of part": [SAID[0], ModelResponse([TextPart("look")])],
    "one less": SAID[:1],
}


@pytest.mark.parametrize("change", OTHER_TALKS)
def test_another_conversation_is_another_question(change: str) -> None:
    assert question_of(OTHER_TALKS[change], ASKED) != question_of(SAID, ASKED)
    assert compaction_question_of(OTHER_TALKS[change], None) != compaction_question_of(SAID, None)


def test_other_instructions_make_another_compaction() -> None:
    assert compaction_question_of(SAID, "Keep the names.") != compaction_question_of(SAID, None)


def test_a_compaction_asks_something_else_than_a_request() -> None:
    assert compaction_question_of(SAID, None) != question_of(SAID, ModelRequestParameters())


def test_another_tool_or_other_arguments_are_another_question() -> None:
    assert tool_question_of("look", {"word": "a"}) != tool_question_of("see", {"word": "a"})
    assert tool_question_of("look", {"word": "a"}) != tool_question_of("look", {"word": "b"})
