"""The package's source as trees, which many tests read: each module is parsed once, and walked over once.

To do both for all modules takes as long as a hundred tests. Nobody changes a tree.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator


@functools.cache
def parsed(source: str) -> ast.Module:
    """Return the tree of a source."""
    return ast.parse(source)


@functools.cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return all nodes of a tree."""
    return tuple(ast.walk(tree))


def inner(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what stands in a node and may hold statements: no expression does, and most nodes are expressions."""
    return (each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr))
