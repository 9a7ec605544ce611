"""flowguard's clients are made from the models that botocore would load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import DataNotFoundError, UnknownServiceError
from botocore.loaders import Loader

from flowguard.aws.clients import Clients
from flowguard.aws.service_models import SERVICES, ServiceModels

KINDS = ("service-2", "endpoint-rule-set-1")


BOTOCORES = Loader()


class Searching(Exception):
    pass


class Still(Loader):
    """A loader that must not look through all services."""

    def list_available_services(self, type_name: str) -> list[str]:
        raise Searching(type_name)


@pytest.mark.parametrize("service", SERVICES)
def test_a_model_is_the_one_that_botocore_loads_and_nothing_is_searched(service: str) -> None:
    ours = ServiceModels(Still())
    for kind in KINDS:
        assert ours.load_service_model(service, kind) == BOTOCORES.load_service_model(service, kind)
    assert ours.list_available_services("service-2") == list(SERVICES)


def test_a_version_that_is_asked_for_is_loaded() -> None:
    found = ServiceModels(Still()).load_service_model("sqs", "service-2", "2012-11-05")
    assert found["metadata"]["apiVersion"] == "2012-11-05"
    assert (
        ServiceModels(BOTOCORES).load_service_model("sts", "service-2", "2011-06-15")["metadata"]["serviceId"] == "STS"
    )


def test_another_service_is_searched_for_as_before() -> None:
    """Credentials of an assumed role are fetched by a client of STS, which the same session makes."""
    assert ServiceModels(BOTOCORES).load_service_model("sts", "service-2")["metadata"]["serviceId"] == "STS"
    with pytest.raises(UnknownServiceError):
        ServiceModels(BOTOCORES).load_service_model("no-such-service", "service-2")
    with pytest.raises(Searching):
        ServiceModels(Still()).load_service_model("sts", "service-2")


def test_a_model_of_the_users_own_counts_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "sqs" / "2099-01-01"
    own.mkdir(parents=True)
    (own / "service-2.json").write_text(json.dumps({"metadata": {"serviceId": "theirs"}}))
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path))
    models = ServiceModels(botocore.session.Session().get_component("data_loader"))
    assert models.load_service_model("sqs", "service-2") == {"metadata": {"serviceId": "theirs"}}


def test_a_service_whose_models_were_taken_out_of_a_package_is_botocores_own_error(tmp_path: Path) -> None:
    models = ServiceModels(Loader(extra_search_paths=[str(tmp_path)], include_default_search_paths=False))
    with pytest.raises(DataNotFoundError, match="scheduler"):
        models.load_service_model("scheduler", "service-2")


def test_each_client_of_flowguard_is_made_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    asked: list[str] = []

    def create(service: str, **_: Any) -> Any:
        asked.append(service)

    clients = Clients()
    session = clients._botocore.session
    assert type(session.get_component("data_loader")) is ServiceModels
    monkeypatch.setattr(session, "create_client", create)
    monkeypatch.setattr("flowguard.aws.botocore_clients.end_in_time", lambda client: None)
    for name in ("dynamodb", "events", "kms", "lambda_", "s3", "scheduler", "secretsmanager", "sns", "sqs", "ssm"):
        getattr(clients, name)
    assert asked == list(SERVICES)
