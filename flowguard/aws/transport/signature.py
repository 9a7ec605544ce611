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
        self._derived = ("", "", _keyed(b""))

    def authorization(self, headers: Mapping[str, str], body: bytes, credentials: Credentials) -> str:
        """Return the value of the header ``Authorization``.

        ``headers`` are those to sign, by their names in lower case: ``host`` and ``x-amz-date`` are among them.
        """
        moment = headers["x-amz-date"]
        names = sorted(headers)
        signed = ";".join(names)
        lines = "".join([f"{name}:{' '.join(headers[name].split())}\n" for name in names])
        canonical = f"POST\n/\n\n{lines}\n{signed}\n{sha256(body).hexdigest()}"
        scope = f"{moment[:8]}/{self._region}/{self._service}/aws4_request"
        text = f"{_ALGORITHM}\n{moment}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
        signature = self._keyed(moment[:8], credentials).copy()
        signature.update(text.encode())
        return (
            f"{_ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={signed}, "
            f"Signature={signature.hexdigest()}"
        )

    def _keyed(self, day: str, credentials: Credentials) -> hmac.HMAC:
        """Return what a day's texts are signed with. Its key is derived once, until the day or the secret is another.

        A copy of it is cheaper than to look up the algorithm for each text.
        """
        known_day, known_secret, keyed = self._derived
        if (known_day, known_secret) != (day, credentials.secret_key):
            key = f"AWS4{credentials.secret_key}".encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            keyed = _keyed(key)
            self._derived = (day, credentials.secret_key, keyed)
        return keyed


def _keyed(key: bytes) -> hmac.HMAC:
    return hmac.new(key, digestmod="sha256")
