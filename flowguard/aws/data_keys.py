"""Data keys of KMS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from flowguard.aws import botocore_errors
from flowguard.aws.clients import prepared_clients
from flowguard.aws.faults import error_code
from flowguard.errors import KeyUnavailable
from flowguard.payload.data_keys import NewDataKey

LONGEST_DATA_KEY: Final = 6_144
"""Bytes of a sealed data key. Decrypt refuses a longer one, and an empty one."""

_OF_ANOTHER_KEY: Final = frozenset({"IncorrectKeyException", "ValidationException"})
"""The codes of KMS where another key has sealed the data key than the one that is asked, or what is asked is malformed.
Neither passes by itself: to take it for an outage would keep a forged message for days."""

_NOT_OPENED: Final = "InvalidCiphertextException"
"""The code of KMS for a data key that was changed, or sealed in another encryption context."""


def _client_here() -> Any:
    return prepared_clients().kms


class KmsDataKeys:
    """Makes data keys with GenerateDataKey, and opens them with Decrypt. The client is made with the first call."""

    def __init__(self, client: Callable[[], Any] = _client_here) -> None:
        self._make_client = client

    @cached_property
    def _client(self) -> Any:
        return self._make_client()

    def make(self, key: str, context: Mapping[str, str]) -> NewDataKey:
        """Make a data key. Each error of KMS counts as an outage, for no payload causes one."""
        try:
            made = self._client.generate_data_key(KeyId=key, KeySpec="AES_256", EncryptionContext=dict(context))
        except (botocore_errors.ClientError, botocore_errors.BotoCoreError) as error:
            raise _unavailable(key, error) from None
        return NewDataKey(made["Plaintext"], made["CiphertextBlob"], made["KeyId"])

    def opened(self, sealed: bytes, keys: Sequence[str], context: Mapping[str, str]) -> bytes | None:
        """Open a data key. None where it was changed, can be none, and where none of the keys has sealed it.

        Where KMS refuses a key, such as a disabled one, the next is asked: which has sealed is not known before. If
        none opens it, the first refusal counts as an outage. A service that does not answer at all is asked once.
        """
        if not 0 < len(sealed) <= LONGEST_DATA_KEY:
            return None
        refusal: KeyUnavailable | None = None
        for key in keys:
            try:
                answer = self._client.decrypt(CiphertextBlob=sealed, KeyId=key, EncryptionContext=dict(context))
            except botocore_errors.ClientError as error:
                code = error_code(error)
                if code == _NOT_OPENED:
                    return None
                if code not in _OF_ANOTHER_KEY:
                    refusal = refusal or _unavailable(key, error)
            except botocore_errors.BotoCoreError as error:
                raise _unavailable(key, error) from None
            else:
                secret: bytes = answer["Plaintext"]
                return secret
        if refusal is not None:
            raise refusal
        return None


def _unavailable(key: str, error: botocore_errors.ClientError | botocore_errors.BotoCoreError) -> KeyUnavailable:
    code = error_code(error) if isinstance(error, botocore_errors.ClientError) else type(error).__name__
    return KeyUnavailable(key, f"{code}: {error}")
