"""The inspector of a scene, without a server: what the tests of its pages open."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from flowguard.aws.services import aws_services
from flowguard.client import FlowClient
from flowguard.settings import Settings
from flowguard.ui.changes import Changes
from flowguard.ui.inspected import Inspected
from flowguard.ui.pages import inspector
from tests.aws.engines import same_clients
from tests.scene import Scene
from tests.waits import WaitScene

TOKEN = "token-of-this-process"


def opened(at: Scene | WaitScene, *, changes: bool = False, known: bool = True, **given: Any) -> FlaskClient:
    """A client of the pages on the scene's engine, as a browser on this machine is one."""
    flows = {at.flow.name: at.flow} if known else {}
    inspected = Inspected(Settings(), same_clients(), at.clock, flows, wait=0, **given)
    client = FlowClient.of(aws_services(Settings(), same_clients(), clock=at.clock))
    own = Changes(inspected, client) if changes else None
    return inspector(inspected, frozenset({"localhost"}), changes=own, token=TOKEN).test_client()


class _Parsed(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.fields: dict[str, str] = {}
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags[tag] += 1
        self.attributes |= set(found)
        if tag == "a":
            self.links.append(found.get("href") or "")
        if tag == "input":
            self.fields[found.get("name") or ""] = found.get("value") or ""

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(answer: TestResponse) -> _Parsed:
    """The page as a browser reads it."""
    return read(answer.text)


def read(page: str) -> _Parsed:
    found = _Parsed()
    found.feed(page)
    found.text = " ".join(found.text.split())
    return found


def text(client: FlaskClient, path: str, code: int = 200) -> str:
    """The text of a page, each space one space."""
    answer = client.get(path)
    assert answer.status_code == code, answer.text
    return parsed(answer).text
