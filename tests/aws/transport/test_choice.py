"""The lean client is chosen only where it is certain to do as botocore would."""

from __future__ import annotations

import os
import sys
from importlib import invalidate_caches
from pathlib import Path
from typing import Any, Final

import botocore.session
import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.httpsession import get_cert_path
from botocore.regions import EndpointResolver

from flowguard.aws import clients as made
from flowguard.aws.clients import Clients, prepare_clients
from flowguard.aws.transport import choice
from flowguard.aws.transport.choice import endpoint_of, why_botocore
from flowguard.aws.transport.json_client import JSONClient
from flowguard.aws.transport.made import json_client
from flowguard.aws.transport.services import SERVICES
from tests.aws.transport.logged import logged

LAMBDA: Final = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "a-secret/+",
    "AWS_SESSION_TOKEN": "a-token==",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_REGION": "eu-west-1",
    "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
    "AWS_LAMBDA_FUNCTION_NAME": "orders",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
    "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
    "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001",
    "AWS_XRAY_CONTEXT_MISSING": "LOG_ERROR",
    "AWS_XRAY_DAEMON_ADDRESS": "169.254.79.129:2000",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": "/nowhere/credentials",
    "PATH": "/usr/bin",
    "no_proxy": "169.254.79.129",
}
"""What Lambda sets."""


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home without files of AWS, and nothing that watches imports."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(choice, "why_watched", lambda *_: None)
    return tmp_path


def test_a_function_of_lambda_is_certain() -> None:
    assert why_botocore(LAMBDA) is None


@pytest.mark.parametrize("asked", [None, "auto", "lean"])
def test_a_function_of_lambda_needs_not_ask(asked: str | None) -> None:
    assert why_botocore(asking(LAMBDA, asked)) is None


@pytest.mark.parametrize("asked", ["boto3", "", "LEAN"])
def test_another_word_is_botocores(asked: str) -> None:
    assert why_botocore(asking(LAMBDA, asked)) == "FLOWGUARD_CLIENT does not say lean"


@pytest.mark.parametrize("missing", ["AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_RUNTIME_API"])
def test_what_is_no_function_of_lambda_has_to_ask(missing: str) -> None:
    """Tests name a function. They may load an engine that answers in the process later on."""
    elsewhere = {name: value for name, value in LAMBDA.items() if name != missing}
    for asked in (None, "auto"):
        why = "this is no function of Lambda, and FLOWGUARD_CLIENT does not say lean"
        assert why_botocore(asking(elsewhere, asked)) == why
    assert why_botocore(asking(elsewhere, "lean")) is None


def asking(environment: dict[str, str], asked: str | None) -> dict[str, str]:
    return environment if asked is None else {**environment, "FLOWGUARD_CLIENT": asked}


@pytest.mark.parametrize(
    "variable",
    [
        "AWS_ACCOUNT_ID",
        "AWS_CREDENTIAL_EXPIRATION",
        "AWS_DATA_PATH",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_SQS",
        "AWS_LAMBDA_EXEC_WRAPPER",
        "AWS_MAX_ATTEMPTS",
        "AWS_PROFILE",
        "AWS_RETRY_MODE",
        "AWS_SECURITY_TOKEN",
        "AWS_USE_DUALSTACK_ENDPOINT",
        "AWS_USE_FIPS_ENDPOINT",
        "AWS_WHAT_COMES_ONE_DAY",
        "BOTOCORE_EXPERIMENTAL__PLUGINS",
        "BOTO_CONFIG",
        "HTTPS_PROXY",
        "REQUESTS_CA_BUNDLE",
        "all_proxy",
        "http_proxy",
    ],
)
def test_a_variable_that_may_change_something_is_left_to_botocore(variable: str) -> None:
    assert why_botocore({**LAMBDA, variable: "x"}) == f"{variable} is set"


@pytest.mark.parametrize("url", ["http://127.0.0.1:4566", "https://aws.local/", "http://localhost", "http://h:8080/"])
def test_an_endpoint_for_all_services_is_called_where_that_is_asked_for(url: str) -> None:
    environment = {**LAMBDA, "AWS_ENDPOINT_URL": url}
    for asked in (None, "auto"):
        assert why_botocore(asking(environment, asked)) == "AWS_ENDPOINT_URL is set"
    assert why_botocore(asking(environment, "lean")) is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:4566",
        "http://h/path",
        "http://u:p@h",
        "http://[::1]:1",
        "http://h:x",
        "http://h:80",
        "https://h:443/",
    ],
)
def test_an_endpoint_that_is_no_plain_address_is_left_to_botocore(url: str) -> None:
    assert why_botocore(asking({**LAMBDA, "AWS_ENDPOINT_URL": url}, "lean")) == "AWS_ENDPOINT_URL is set"


def test_an_endpoint_for_one_service_is_left_to_botocore() -> None:
    asked = asking({**LAMBDA, "AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:4566"}, "lean")
    assert why_botocore(asked) == "AWS_ENDPOINT_URL_SQS is set"


@pytest.mark.parametrize("region", ["", "eu", "local", "aws-global", "us-iso-east-1", "eusc-de-east-1", "eu-west-1/x"])
def test_a_region_of_no_standard_partition_is_left_to_botocore(region: str) -> None:
    why = "AWS_DEFAULT_REGION names no region of a standard partition"
    assert why_botocore({**LAMBDA, "AWS_DEFAULT_REGION": region}) == why


def test_no_call_has_a_prefix_of_its_host_that_a_variable_could_take_away() -> None:
    assert why_botocore({**LAMBDA, "AWS_DISABLE_HOST_PREFIX_INJECTION": "true"}) is None
    session = botocore.session.Session()
    for service in SERVICES.values():
        model: Any = session.get_service_model(service.name)
        names = [operation.name for operation in service.operations.values()]
        assert [name for name in names if (model.operation_model(name).endpoint or {}).get("hostPrefix")] == []


def test_no_region_at_all_too() -> None:
    del (environment := dict(LAMBDA))["AWS_DEFAULT_REGION"]
    assert why_botocore(environment) is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_ACCESS_KEY_ID", ""),
        ("AWS_SECRET_ACCESS_KEY", ""),
        ("AWS_SECRET_ACCESS_KEY", "a b"),
        ("AWS_SECRET_ACCESS_KEY", "a\n"),
        ("AWS_SESSION_TOKEN", ""),
        ("AWS_SESSION_TOKEN", "é"),
    ],
)
def test_an_access_key_that_is_not_whole_is_left_to_botocore(name: str, value: str) -> None:
    assert why_botocore({**LAMBDA, name: value}) == "the access key is not whole"


def test_a_key_without_a_token_is_whole() -> None:
    del (environment := dict(LAMBDA))["AWS_SESSION_TOKEN"]
    assert why_botocore(environment) is None


def test_where_there_is_no_key_a_container_has_one() -> None:
    keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    environment = {name: value for name, value in LAMBDA.items() if name not in keys}
    assert why_botocore(environment) == "no access key is set"
    for name in choice.CONTAINER:
        assert why_botocore({**environment, name: "/v2/credentials"}) is None


@pytest.mark.parametrize("place", ["config", "credentials", "models"])
def test_a_file_in_the_home_is_left_to_botocore(home: Path, place: str) -> None:
    (home / ".aws" / place).mkdir(parents=True)
    environment = {name: value for name, value in LAMBDA.items() if "FILE" not in name}
    assert why_botocore(environment) == f"there is ~/.aws/{place}"


@pytest.mark.parametrize("variable", ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"])
def test_a_file_that_a_variable_names_is_left_to_botocore(home: Path, variable: str) -> None:
    (file := home / "settings").write_text("", encoding="utf-8")
    assert why_botocore({**LAMBDA, variable: str(file)}) == f"there is {file}"


def test_it_is_asked_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def watched(modules: Any, importers: Any) -> str:
        return f"{modules is sys.modules}, {importers is sys.meta_path}"

    monkeypatch.setattr(choice, "why_watched", watched)
    assert why_botocore(LAMBDA) == "True, True"


# -- the clients of a process


@pytest.fixture
def in_lambda(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    environment = dict(LAMBDA)
    monkeypatch.setattr(os, "environ", environment)
    return environment


NOT_SO: Final = "the lean client has no such service, or no credentials that it can use"


@pytest.mark.usefixtures("in_lambda")
def test_clients_of_a_function_are_lean() -> None:
    with logged("flowguard") as lines:
        clients = Clients()
        found: list[Any] = [clients.dynamodb, clients.dynamodb_once, clients.sqs]
    assert [type(one) for one in found] == [JSONClient] * 3
    assert [one.meta.region_name for one in found] == ["eu-west-1"] * 3
    assert [one._attempts for one in found] == [4, 1, 4]
    assert clients.sns.meta.service_model.service_name == "sns"
    lean = [f"calls of {service} are made by the lean client" for service in ("dynamodb", "dynamodb", "sqs")]
    assert lines == lean


def test_clients_at_an_endpoint_call_where_botocore_would(in_lambda: dict[str, str]) -> None:
    in_lambda |= {"FLOWGUARD_CLIENT": "lean", "AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}
    clients = Clients()
    found: list[Any] = [clients.dynamodb, clients.sqs, clients.events, clients.ssm, clients.secretsmanager]
    assert [type(one) for one in found] == [JSONClient] * 5
    assert {one._place.connections.endpoint for one in found} == {"http://127.0.0.1:4566/"}
    assert {one._botocore().meta.endpoint_url for one in found} == {"http://127.0.0.1:4566"}


@pytest.mark.usefixtures("in_lambda")
@pytest.mark.parametrize("handed_in", [{"session": botocore.session}, {"endpoint_urls": {"sqs": "http://x"}}])
def test_a_session_or_an_endpoint_of_the_callers_own_is_botocores(
    handed_in: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = Clients(**handed_in)
    monkeypatch.setattr(clients, "_botocore_client", lambda service, once: service)
    with logged("flowguard") as lines:
        assert str(clients.dynamodb) == "dynamodb"
    assert lines == ["calls of dynamodb are made by boto3: a session or an endpoint was handed in"]


@pytest.mark.usefixtures("in_lambda")
def test_the_line_says_who_makes_the_calls_where_the_lean_client_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowguard.aws.transport.made.json_client", lambda *_, **__: None)
    with logged("flowguard") as lines:
        client: Any = Clients().dynamodb
    assert not isinstance(client, JSONClient)
    assert lines == [f"calls of dynamodb are made by boto3: {NOT_SO}"]


@pytest.mark.parametrize(("kind", "connected"), [("on-demand", ["dynamodb", "sqs"]), ("snap-start", [])])
def test_connections_are_opened_while_a_function_is_initialised(
    in_lambda: dict[str, str], monkeypatch: pytest.MonkeyPatch, kind: str, connected: list[str]
) -> None:
    """With SnapStart they would be those of a moment that is long over."""
    found: list[str] = []
    monkeypatch.setattr(made, "_prepared", {})
    monkeypatch.setattr(JSONClient, "connect", lambda client: found.append(client._service.name))
    in_lambda["AWS_LAMBDA_INITIALIZATION_TYPE"] = kind
    for _ in range(3):  # a module may have several handlers
        prepare_clients("dynamodb")
        prepare_clients("dynamodb", "sqs")
    assert found == connected
    assert {"dynamodb", "sqs"} <= vars(made.prepared_clients()).keys()


def test_a_client_that_few_events_call_is_connected_by_the_handler_that_needs_it(
    in_lambda: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    monkeypatch.setattr(made, "_prepared", {})
    monkeypatch.setattr(JSONClient, "connect", lambda client: found.append(client._service.name))
    in_lambda["AWS_LAMBDA_INITIALIZATION_TYPE"] = "on-demand"
    prepare_clients("dynamodb", "sqs", unconnected=("sqs",))
    assert found == ["dynamodb"]
    assert "sqs" in vars(made.prepared_clients())
    prepare_clients("dynamodb", "sqs")
    assert found == ["dynamodb", "sqs"]


@pytest.mark.usefixtures("in_lambda")
def test_a_connection_that_cannot_be_opened_is_for_the_first_event_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[JSONClient] = []

    def refuse(client: JSONClient) -> None:
        asked.append(client)
        raise EndpointConnectionError(endpoint_url="u")

    monkeypatch.setattr(made, "_prepared", {})
    monkeypatch.setattr(JSONClient, "connect", refuse)
    for _ in range(3):
        prepare_clients("dynamodb", "sqs")
    assert made._prepared != {}
    assert len(asked) == 1, "each would wait as long"


def test_where_the_environment_says_boto3_clients_are_botocores(in_lambda: dict[str, str]) -> None:
    in_lambda["FLOWGUARD_CLIENT"] = "boto3"
    assert not isinstance(Clients().dynamodb, JSONClient)


@pytest.mark.slow("looks up each region of two services")
def test_endpoints_are_botocores() -> None:
    session = botocore.session.Session()
    resolver: Any = EndpointResolver(session.get_data("endpoints"))
    regions = {
        region
        for service in SERVICES
        for partition in resolver.get_available_partitions()
        for region in resolver.get_available_endpoints(service, partition)
    }
    found = {region: endpoint_of("sqs", region) for region in regions}
    assert sum(endpoint is not None for endpoint in found.values()) > 25
    for service in SERVICES:
        for region in regions:
            if (ours := endpoint_of(service, region)) is not None:
                assert ours == botocores_endpoint(session, service, region)


def botocores_endpoint(session: Any, service: str, region: str) -> str:
    """What the rules of botocore's client say, without making one for each region."""
    client = _client(session, service)
    rules = client._ruleset_resolver._provider
    found: str = rules.resolve_endpoint(Region=region, UseFIPS=False, UseDualStack=False).url
    return found


_made: dict[str, Any] = {}


def _client(session: Any, service: str) -> Any:
    if service not in _made:
        keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
        _made[service] = session.create_client(service, region_name="eu-west-1", **keys)
    return _made[service]


def test_certificates_are_those_of_the_variable_or_botocores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def made(**more: str) -> Any:
        client: Any = json_client("sqs", {**LAMBDA, **more}, lambda: None, lambda: None)
        return client._place.connections._bundle

    assert made() == get_cert_path(True)
    assert made(AWS_CA_BUNDLE="/etc/mine.pem") == "/etc/mine.pem"
    brought = str(Path(botocore.__file__).parent / "cacert.pem")
    without = [path for path in sys.path if not (Path(path) / "certifi").exists()]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *without])
    assert made() == brought, "there is none"
    (tmp_path / "certifi").mkdir()
    invalidate_caches()
    assert made() == brought, "a folder that is no package"
    (tmp_path / "certifi" / "__init__.py").touch()
    invalidate_caches()
    assert made() == brought, "a certifi without certificates of its own"
    (tmp_path / "certifi" / "cacert.pem").touch()
    assert made() == str(tmp_path / "certifi" / "cacert.pem")


class _Session:
    """A session whose credentials are renewed each time they are looked at."""

    account: str | None = None

    def __init__(self) -> None:
        self.asked = 0

    def get_credentials(self) -> _Session:
        return self

    def get_frozen_credentials(self) -> Any:
        self.asked += 1
        return botocore.credentials.ReadOnlyCredentials(f"AK{self.asked}", "s", "t", self.account)


def test_credentials_of_a_container_are_botocores_at_each_call() -> None:
    environment = {name: value for name, value in LAMBDA.items() if name != "AWS_ACCESS_KEY_ID"}
    client: Any = json_client("sqs", environment, _Session, lambda: None)
    assert [client._place.credentials().access_key for _ in range(2)] == ["AK2", "AK3"]
    empty: Any = json_client("sqs", {**environment, "AWS_ACCESS_KEY_ID": ""}, _Session, lambda: None)
    assert empty._place.credentials().access_key == "AK2", "an empty key is none, as for botocore"
    fixed: Any = json_client("sqs", LAMBDA, _Session, lambda: None)
    assert fixed._place.credentials() == ("AKIAIOSFODNN7EXAMPLE", "a-secret/+", "a-token==")


@pytest.mark.usefixtures("in_lambda")
@pytest.mark.parametrize("service", ["events", "ssm", "secretsmanager"])
def test_events_and_keys_are_lean_too(service: str) -> None:
    client: Any = getattr(Clients(), service)
    assert type(client) is JSONClient
    assert client._place.connections.endpoint == f"https://{service}.eu-west-1.amazonaws.com/"


def test_other_services_and_regions_have_no_lean_client() -> None:
    assert json_client("sns", LAMBDA, _Session, lambda: None) is None
    assert json_client("sqs", {**LAMBDA, "AWS_DEFAULT_REGION": "local"}, _Session, lambda: None) is None


def test_where_nobody_has_credentials_botocore_says_so() -> None:
    class Without(_Session):
        def get_credentials(self) -> Any:
            return None

    environment = {name: value for name, value in LAMBDA.items() if name != "AWS_ACCESS_KEY_ID"}
    assert json_client("sqs", environment, Without, lambda: None) is None


def test_an_account_that_comes_with_credentials_has_an_endpoint_that_botocore_knows() -> None:
    class OfAnAccount(_Session):
        account = "123456789012"

    environment = {name: value for name, value in LAMBDA.items() if name != "AWS_ACCESS_KEY_ID"}
    assert json_client("dynamodb", environment, OfAnAccount, lambda: None) is None
