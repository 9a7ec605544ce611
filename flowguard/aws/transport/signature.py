"""Signs requests by Signature Version 4: a POST to ``/`` of a service."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from flowguard.aws.transport.credentials import Credentials

_ALGORITHM: Final = "AWS4-HMAC-SHA256"


class Signer:
    """Signs the requests to one service in one region. Safe to share between threads."""

    def __init__(self, service: str, region: str) -> None:
        self._service = service
        self._region = region
        self._derived = ("", "", b"")

    def authorization(self, headers: Mapping[str, str], body: bytes, credentials: Credentials) -> str:
        """Return the value of the header ``Authorization``.

        ``headers`` are those to sign, by their names in lower case: ``host`` and ``x-amz-date`` are among them.
        """
        moment = headers["x-amz-date"]
        names = sorted(headers)
        signed = ";".join(names)
        lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in names)
        canonical = f"POST\n/\n\n{lines}\n{signed}\n{sha256(body).hexdigest()}"
        scope = f"{moment[:8]}/{self._region}/{self._service}/aws4_request"
        text = f"{_ALGORITHM}\n{moment}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
        key = self._key(moment[:8], credentials)
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        return (
            f"{_ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={signed}, Signature={signature}"
        )

    def _key(self, day: str, credentials: Credentials) -> bytes:
        """Return the key of a day. It is derived once, until the day or the secret is another."""
        known_day, known_secret, key = self._derived
        if (known_day, known_secret) != (day, credentials.secret_key):
            key = f"AWS4{credentials.secret_key}".encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._derived = (day, credentials.secret_key, key)
        return key
