"""Settings: read once, frozen, and wrong ones are named by their variable."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from flowguard.errors import SettingsError
from flowguard.settings import Settings


def test_nothing_has_to_be_set() -> None:
    assert Settings.from_environment({}) == Settings()
    assert (Settings().table, Settings().bucket) == ("flowguard", None)


def test_each_field_is_a_variable() -> None:
    found = Settings.from_environment(
        {"FLOWGUARD_TABLE": "runs", "FLOWGUARD_BUCKET": "long-texts", "FLOWGUARD_OFFLOAD_ABOVE": "2048"}
    )
    assert (found.table, found.bucket, found.offload_above) == ("runs", "long-texts", 2048)


def test_what_is_not_ours_is_passed_over() -> None:
    assert Settings.from_environment({"TABLE": "x", "flowguard_table": "x", "FLOWGUARD_DEBUG": "1"}) == Settings()


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("FLOWGUARD_TABLE", "x", "String should have at least 3 characters"),
        ("FLOWGUARD_OFFLOAD_ABOVE", "a lot", "Input should be a valid integer"),
        ("FLOWGUARD_OFFLOAD_ABOVE", "7", "greater than or equal to 1024"),
    ],
)
def test_a_wrong_one_is_named_by_its_variable(variable: str, value: str, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment({variable: value})
    assert caught.value.setting == variable
    assert told in caught.value.problem


def test_settings_do_not_change() -> None:
    settings: Any = Settings()
    with pytest.raises(ValidationError):
        settings.table = "other"


def test_a_misspelt_setting_is_refused() -> None:
    with pytest.raises(ValidationError, match="tabel"):
        Settings.model_validate({"tabel": "runs"})


@pytest.mark.parametrize("field", Settings.model_fields.values(), ids=list(Settings.model_fields))
def test_every_setting_says_what_it_is(field: Any) -> None:
    assert field.description
