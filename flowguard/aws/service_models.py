"""The models of AWS's services, loaded for the clients of flowguard.

Before botocore loads a model it looks through its directories of all services, 400 of them, once for each kind of
model: a twelfth of a cold start. The services here are known to be there.
"""

from __future__ import annotations

from typing import Any, Final

from botocore.loaders import Loader

SERVICES: Final = ("dynamodb", "events", "kms", "lambda", "s3", "scheduler", "secretsmanager", "sns", "sqs", "ssm")
"""Those that flowguard makes clients of."""


class ServiceModels(Loader):
    """Loads models from the places of another loader, which is asked for the models of all other services."""

    def __init__(self, others: Loader) -> None:
        super().__init__(others.search_paths, include_default_search_paths=False)
        self._others = others

    def list_available_services(self, type_name: str) -> list[str]:
        """Return the services that :meth:`load_service_model` finds itself."""
        return list(SERVICES)

    def load_service_model(self, service_name: str, type_name: str, api_version: str | None = None) -> Any:
        """Return the newest model of this type, or that of the version."""
        if service_name in SERVICES:
            return super().load_service_model(service_name, type_name, api_version)
        return self._others.load_service_model(service_name, type_name, api_version)
