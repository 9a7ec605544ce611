"""Numbers of options. What is none is refused where it is given."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from flowguard.cli import COMMANDS, main
from flowguard.cli.float_range import FiniteRange


def options(command: click.Command, name: str) -> Iterator[tuple[str, click.Parameter]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            yield from options(found, f"{name} {sub}")
    for option in command.params:
        yield f"{name} {option.opts[0]}", option


def test_no_command_takes_what_is_no_number() -> None:
    context = click.Context(main)
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        for option, parameter in options(command, name):
            is_number = isinstance(parameter.type, click.types.FloatParamType)
            assert not is_number or isinstance(parameter.type, FiniteRange), option


@pytest.mark.parametrize("text", ["nan", "NaN", "-nan", "inf", "-inf", "1e999", "Infinity"])
@pytest.mark.parametrize("bounds", [FiniteRange(), FiniteRange(0), FiniteRange(0, min_open=True), FiniteRange(0, 9)])
def test_what_is_no_number_is_in_no_range(bounds: FiniteRange, text: str) -> None:
    with pytest.raises(click.BadParameter):
        bounds.convert(text, None, None)


@pytest.mark.parametrize(("text", "number"), [("0", 0.0), ("9", 9.0), ("0.5", 0.5), ("1e-3", 0.001)])
def test_a_number_is_in_its_range(text: str, number: float) -> None:
    assert FiniteRange(0, 9).convert(text, None, None) == number
