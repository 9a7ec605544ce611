"""The token that a container is known by where it asks for its credentials. It has to be the value of a header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flowguard.errors import SettingsError

TOKEN: Final = "AWS_CONTAINER_AUTHORIZATION_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_FILE: Final = f"{TOKEN}_FILE"
"""The file counts where both are set, as for botocore."""


def wrong_token(environment: Mapping[str, str]) -> SettingsError | None:
    """Return what is wrong with the token, and nothing of it. None where it can be sent, or cannot be read."""
    name = TOKEN_FILE if TOKEN_FILE in environment else TOKEN
    problem = _problem(environment.get(name, ""), in_file=name == TOKEN_FILE)
    return None if problem is None else SettingsError(name, f"{problem}, so nobody can be asked for credentials by it")


def _problem(given: str, *, in_file: bool) -> str | None:
    where = "the token in its file" if in_file else "its token"
    try:
        token = _text(given) if in_file else given
        token.encode("latin-1")
    except OSError:  # botocore says which file it cannot read
        return None
    except UnicodeError:
        return f"{where} has a character that no header takes"
    return f"{where} has a line break, perhaps at its end" if "\r" in token or "\n" in token else None


def _text(file: str) -> str:
    with open(file, encoding="utf-8", newline="") as opened:  # noqa: PTH123 - loads no pathlib
        return opened.read()
