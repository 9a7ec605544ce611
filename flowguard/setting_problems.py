"""What is wrong with a setting or an option, in words of its own. Values are not repeated: some are secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_WORDS: Final = {
    "bool_parsing": "is neither true nor false",
    "bool_type": "is neither true nor false",
    "dict_type": "is no table of names and values",
    "extra_forbidden": "is no option",
    "finite_number": "is no finite number",
    "greater_than": "is not more than {gt}",
    "greater_than_equal": "is less than {ge}",
    "int_from_float": "is no whole number",
    "int_parsing": "is no whole number",
    "int_type": "is no whole number",
    "less_than_equal": "is more than {le}",
    "list_type": "is no list",
    "missing": "is missing",
    "string_pattern_mismatch": "is not written as {pattern}",
    "string_too_short": "has fewer than {min_length} characters",
    "string_type": "is no text",
    "tuple_type": "is no list",
    "value_error": "{error}",
}


def setting_problem(error: Mapping[str, Any]) -> str:
    """Return what an error of pydantic's says: what a value is not. Of a rarer error these are its own words."""
    words = _WORDS.get(error["type"])
    return str(error["msg"]) if words is None else words.format_map(error.get("ctx", {}))
