"""A source is parsed once, and imports are found wherever a statement may stand."""

from __future__ import annotations

import ast

from tests.trees import inner, parsed

EVERYWHERE = """
if a: import b1
else: import b2
try: import b3
except A: import b4
finally: import b5
with a:
    for a in a: import b6
    while a: import b7
match a:
    case 1: import b8
class A:
    async def f(self, a=lambda: 1): import b9
"""


def imports(node: ast.AST) -> int:
    return sum(isinstance(each, ast.Import) + imports(each) for each in inner(node))


def test_statements_are_found_in_all_that_holds_some() -> None:
    assert imports(parsed(EVERYWHERE)) == 9


def test_a_source_is_parsed_once() -> None:
    assert parsed("a = 1") is parsed("a = 1")
