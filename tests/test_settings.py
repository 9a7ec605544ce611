"""Settings: read once, frozen, and wrong ones are named by their variable."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from flowguard.deploy.options import DeployOptions
from flowguard.errors import SettingsError
from flowguard.settings import Settings
from flowguard.text.setting_problems import PATTERNS


def test_nothing_has_to_be_set() -> None:
    assert Settings.from_environment({}) == Settings()
    assert (Settings().table, Settings().bucket) == ("flowguard", None)


def test_each_field_is_a_variable() -> None:
    found = Settings.from_environment(
        {"FLOWGUARD_TABLE": "runs", "FLOWGUARD_BUCKET": "long-texts", "FLOWGUARD_OFFLOAD_ABOVE": "2048"}
    )
    assert (found.table, found.bucket, found.offload_above) == ("runs", "long-texts", 2048)


def test_what_is_not_ours_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    assert Settings.from_environment({"TABLE": "x", "flowguard_table": "x"}) == Settings()
    assert not caplog.records


@pytest.mark.parametrize(
    ("variable", "fix"),
    [
        ("FLOWGUARD_TABEL", "did you mean FLOWGUARD_TABLE?"),
        ("FLOWGUARD_SIGNING_KEY", "did you mean FLOWGUARD_SIGNING_KEYS?"),
        ("FLOWGUARD_DEBUG", "there are FLOWGUARD_TABLE, NAMES, "),
        ("FLOWGUARD_\x1b[31m" + "x" * 100_000, "there are FLOWGUARD_TABLE, NAMES, "),
    ],
)
def test_an_unknown_one_is_warned_of_once_with_the_nearest_name(
    variable: str, fix: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        assert Settings.from_environment({variable: "hidden"}) == Settings()
    [warning] = caplog.messages
    assert warning.startswith(variable[:20].replace("\x1b", "\\x1b")[:20])
    assert fix in warning
    assert "hidden" not in warning
    assert "\x1b" not in warning
    assert len(warning) < 500


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("FLOWGUARD_TABLE", "x", "it has fewer than 3 characters; it is for this: The table of the run items."),
        ("FLOWGUARD_OFFLOAD_ABOVE", "a lot", "it is no whole number"),
        ("FLOWGUARD_OFFLOAD_ABOVE", "7", "it is less than 1024"),
        ("FLOWGUARD_DEBUG_SAMPLED", "perhaps", "it is neither true nor false"),
        ("FLOWGUARD_BUCKET_OWNER", "me", "it is no account, which has 12 digits"),
        ("FLOWGUARD_CLIENT", "leam", "it is not 'auto', 'boto3' or 'lean'; it is for this: Who makes the calls"),
        ("FLOWGUARD_ANSWERS_URL", "https://example.com/answers?to=me", "it is no URL of http or https without ? and #"),
    ],
)
def test_a_wrong_one_is_named_by_its_variable(variable: str, value: str, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment({variable: value})
    assert caught.value.setting == variable
    assert told in caught.value.problem


@pytest.mark.parametrize("model", [Settings, DeployOptions])
def test_each_pattern_is_said_in_words(model: type[BaseModel]) -> None:
    used = set(re.findall(r'"pattern": ("(?:[^"\\]|\\.)*")', json.dumps(model.model_json_schema())))
    assert used
    assert {json.loads(one) for one in used} <= PATTERNS.keys()


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
