"""The options of a deployment: what a file may say, and what is refused with which words."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel
from pydantic_core import ErrorDetails

from flowguard.deploy import options
from flowguard.deploy.options import DeployOptions, SettingsOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.settings import Settings
from flowguard.text.setting_problems import setting_problem

KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:on-call"
Read = Callable[[str], DeployOptions]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def of(text: str) -> DeployOptions:
        file = tmp_path / "deploy.toml"
        file.write_text(text, encoding="utf-8")
        return DeployOptions.read(file)

    return of


REFUSED = {
    "not toml": ("a = ", "cannot be read"),
    "twice": ('reply_to = ["a", "b", "a"]', "reply_to has a twice"),
    "an address": ('[settings]\nbucket = "10.0.0.1"', "is an IP address, which no bucket has for a name"),
    "policies of a role that is there": (
        '[defaults]\nrole = "ours"\npolicies = ["arn:aws:iam::123456789012:policy/p"]',
        "defaults.policies has no effect beside role",
    ),
    "users of a database of a role that is there": (
        '[functions.pay]\nrole = "ours"\n'
        'database_users = ["arn:aws:rds-db:eu-west-1:123456789012:dbuser:cluster-ABCDEFGHIJKL01234/shop"]',
        "functions.pay.database_users has no effect beside role",
    ),
    "a key of a tag": ('[tags]\n"a%b" = "x"', r"tags\.a%b is no key of a tag"),
    "no options of a secret": (
        "[secrets]\nfoo = 1",
        r"deploy\.toml: secrets\.foo is no table of options: it takes kms_key$",
    ),
    "no options of a network": ("vpc = 1", "vpc is no table of options: it takes subnets, security_groups$"),
    "a variable of Lambda": ('[defaults.environment]\nAWS_REGION = "x"', "has AWS_REGION, which Lambda itself sets"),
    "a setting": (
        '[defaults.environment]\nOURS = "1"\nFLOWGUARD_TABLE = "x"',
        r"environment has FLOWGUARD_TABLE, which belongs under \[settings\]",
    ),
    "an account": ('operators = ["123456789012"]', "has 123456789012, which is an account"),
    "an owner alone": ('[settings]\nbucket_owner = "123456789012"', "bucket_owner has no effect without bucket"),
    "a tag of AWS": ('[tags]\n"aws:team" = "x"', "has aws:team, which AWS or the template itself sets"),
    "a tag of ours": ('[tags]\nFlowGuard = "x"\nours = "y"', "tags has FlowGuard, which AWS"),
    "two tags of one key": ('[tags]\nteam = "x"\nTeam = "y"', "has keys that differ in capital letters alone"),
    "the key of no bucket": (f'bucket_key = "{KEY}"', "has no bucket, and bucket_key is the key of one"),
    "a topic by its ARN and a name": (
        f'[topics."{TOPIC}"]\nname = "other"',
        r'takes name in a block of the topic\'s name alone.*write \[topics."on-call"\]',
    ),
    "two partitions": (
        f'region = "cn-north-1"\nkms_key = "{KEY}"',
        "kms_key is of the partition aws, and region of aws-cn",
    ),
    "a text that is no ARN": ('kms_key = "alias/ours"', "kms_key is no ARN of a key"),
    "a number": ("oldest_message = 0", "oldest_message is less than 1"),
    "a truth for a number": ("[defaults]\ntimeout = true", "defaults.timeout is true, and a number is asked for"),
    "a truth for a number that is there": (
        "[defaults]\nmemory = false",
        "defaults.memory is false, and a number is asked for",
    ),
    "what nobody knows": ("colour = 1", "colour "),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_by_name(what: str, read: Read) -> None:
    text, why = REFUSED[what]
    with pytest.raises(CannotDeploy, match=why):
        read(text)


def test_a_file_that_is_not_there_or_no_text_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(CannotDeploy, match=r"none\.toml: cannot be read"):
        DeployOptions.read(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(CannotDeploy, match=r"bytes\.toml: cannot be read"):
        DeployOptions.read(tmp_path / "bytes.toml")


def test_a_mistake_of_the_program_is_not_taken_for_one_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text('[settings]\nbucket = "import:B"\n', encoding="utf-8")

    def broken(_: str) -> str:
        raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"):
        DeployOptions.read(file, broken)


def test_what_is_right_is_taken(read: Read) -> None:
    assert read("reply_to = ['a', 'b']").reply_to == ("a", "b")
    assert read("[defaults]\npolicies = ['arn:aws:iam::123456789012:policy/p']").defaults.role is None
    assert read("[defaults]\nrole = 'ours'").defaults.policies == ()
    assert read("[defaults]\nrole = 'ours'\npolicies = []").defaults.policies == ()
    assert SettingsOptions.model_validate({"bucket_owner": None}).bucket_owner is None
    assert read("[defaults.environment]\nOURS = '1'").defaults.environment == {"OURS": "1"}
    assert read("operators = ['on-call']").operators == ("on-call",)
    assert read("tracing = true").tracing
    assert read("[settings]\ndebug_sampled = true").settings.debug_sampled
    owned = read("[settings]\nbucket = 'arn:aws:s3:::texts'\nbucket_owner = '123456789012'").settings
    assert (owned.bucket, owned.bucket_owner) == ("texts", "123456789012")
    assert read("[tags]\nteam = 'x'\nbudget = 'y'").tags == {"team": "x", "budget": "y"}
    assert read(f"bucket_key = '{KEY}'\n[settings]\nbucket = 'texts'").bucket_key == KEY
    assert read("[settings]\nbucket = 'texts'").bucket_key is None
    assert read("[topics.on-call]\nname = 'other'").topics["on-call"].name == "other"
    assert read(f"[topics.'{TOPIC}']\nexisting = true").topics[TOPIC].existing
    group = "arn:aws:scheduler:eu-west-1:123456789012:schedule-group/ours"
    assert read(f"[settings]\nscheduler_group = '{group}'").settings.scheduler_group == "ours"
    assert read("[settings]\nscheduler_group = 'ours'").settings.scheduler_group == "ours"


def test_each_setting_of_functions_is_an_option_or_follows_from_some() -> None:
    follow = {"scheduler_key", "scheduler_undelivered"}
    assert Settings.model_fields.keys() - SettingsOptions.model_fields.keys() == follow


@pytest.mark.parametrize(
    "kind",
    [
        DeployOptions,
        *(getattr(options, f"{of}Options") for of in ("AlarmTopic", "Function", "Queue", "Schedule", "ScheduleGroup")),
        *(getattr(options, f"{of}Options") for of in ("Secret", "Settings", "Stream", "Table", "Topic", "Vpc")),
    ],
)
def test_the_pages_have_each_option_in_an_example(kind: type[BaseModel]) -> None:
    pages = ("operate/deploy.md", "guides/streams.md")
    texts = [(Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8") for page in pages]
    examples = "".join(block for text in texts for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL))
    assert {name for name in kind.model_fields if re.search(rf"\b{name}\b", examples) is None} == set()


def test_a_problem_that_has_no_words_here_has_those_of_pydantic() -> None:
    error: ErrorDetails = {"type": "unheard_of", "loc": ("a",), "msg": "is odd", "input": 1}
    assert setting_problem(error) == "is odd"
    assert setting_problem({**error, "ctx": {"pattern": "^unheard-of$"}}) == "is odd"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("accunt = 7", "accunt is no option; is it account?"),
        ("[settings]\nFLOWGUARD_TABLE = 'runs'", "settings.FLOWGUARD_TABLE is no option; is it table?"),
        ("[functions.charge]\nmemmory = 256", "functions.charge.memmory is no option; is it memory?"),
        ("zzzz = 1", "zzzz is no option\n"),
        ("account = 123456789012", "account is no text, which stands in quotes"),
    ],
)
def test_an_option_that_is_none_is_refused_with_the_nearest(read: Read, text: str, said: str) -> None:
    with pytest.raises(CannotDeploy) as refused:
        read(text)
    assert said in f"{refused.value}\n"


def test_what_is_no_text_is_refused_and_not_searched_for_a_name(read: Read) -> None:
    with pytest.raises(CannotDeploy, match=r"settings\.bucket is no text"):
        read("[settings]\nbucket = 7")


def test_what_follows_from_options(read: Read) -> None:
    assert (read("").alarms_to, read(f"[alarm_topic]\narn = '{TOPIC}'").alarms_to) == ("", TOPIC)
    assert (read("").keeps_logs, read("log_retention = 30").keeps_logs) == (False, True)
    assert (read("").log_level, read("[settings]\ndebug_sampled = true").log_level) == ("INFO", "DEBUG")
    imported = read("[settings]\nbucket = 'import:Texts'")
    assert [each.export for each in imported.imports.values()] == ["Texts"]


def test_the_environment_gives_names_that_the_options_leave_out(read: Read) -> None:
    options = read("[settings]\ntable = 'runs'")
    assert options.of_environment({}) is options
    named = options.of_environment({"FLOWGUARD_NAMES": "staging-*"}).settings
    assert (named.names, named.table) == ("staging-*", "runs")
    same = read("[settings]\nnames = 'staging-*'")
    assert same.of_environment({"FLOWGUARD_NAMES": "staging-*"}).settings.names == "staging-*"
    with pytest.raises(CannotDeploy, match="leave one out"):
        same.of_environment({"FLOWGUARD_NAMES": "prod-*"})
    with pytest.raises(CannotDeploy, match="FLOWGUARD_NAMES: it does not begin with a rule"):
        options.of_environment({"FLOWGUARD_NAMES": "no rule"})
    with pytest.raises(AttributeError):
        options.of_environment({"FLOWGUARD_NAMES": 7})  # type: ignore[dict-item]


def test_a_functions_options_are_over_the_defaults(read: Read) -> None:
    options = read(
        "[defaults]\nmemory = 512\ntimeout = 9\n[functions.place]\ntimeout = 3\n[functions.'a.place']\nmemory = 1024"
    )
    assert options.of_function("other", "a.other") is options.defaults
    by_name, by_path = options.of_function("place", "b.place"), options.of_function("place", "a.place")
    assert (by_name.memory, by_name.timeout) == (512, 3)
    assert (by_path.memory, by_path.timeout) == (1024, 9)


def test_what_has_no_options_has_the_defaults(read: Read) -> None:
    options = read("[queues.a]\nexisting = true\n[streams.s]\nwindow = 3")
    assert (options.of_queue("a").existing, options.of_queue("b").existing) == (True, False)
    assert (options.of_stream("s").window, options.of_stream("t").window) == (3, 0)
