"""What a type checker must accept, and what it must refuse. Read by mypy alone; see tests/test_typing.py."""
