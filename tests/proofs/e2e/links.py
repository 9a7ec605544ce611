"""Follows links of mails over HTTP, as a browser does."""

from __future__ import annotations

import http.client
import re
from collections.abc import Mapping
from contextlib import closing
from typing import Final, NamedTuple
from urllib.parse import urlencode, urlsplit

from tests.proofs.e2e.cloud import Cloud

_FORM: Final = {"content-type": "application/x-www-form-urlencoded", "accept": "text/html"}


class Links(NamedTuple):
    """The links of a flow, whatever they begin with. They are followed to the URL of its function of answers."""

    cloud: Cloud
    function: str

    def fields(self, link: str) -> dict[str, str]:
        """Open the link, and return the hidden fields of its form."""
        status, page = self._request("GET", link, None)
        assert status == 200, page
        return dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', page))

    def post(self, link: str, fields: Mapping[str, str]) -> int:
        """Send the form. Returns the status."""
        return self._request("POST", link, urlencode(fields))[0]

    def _request(self, method: str, link: str, body: str | None) -> tuple[int, str]:
        place, _, query = link.partition("?")
        url = urlsplit(f"{self.cloud.function_url(self.function)}/{place.rpartition('/')[2]}?{query}")
        connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=120)
        with closing(connection):
            path = f"{url.path}?{url.query}" if url.query else url.path
            connection.request(method, path, body, _FORM if body else {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
