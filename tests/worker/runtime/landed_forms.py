"""What releases that have landed wrote beside runs: tokens, signatures, entries of keys, and texts in S3.

``python -m tests.worker.runtime.landed_forms`` records today's beside the others, where something has another form.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any, Final

from flowguard.aws.clients import Clients
from flowguard.aws.ledger import DynamoDBLedger, ledger_of
from flowguard.aws.packing import Packing
from flowguard.clock import ManualClock
from flowguard.codecs import Compressed, Encrypted
from flowguard.codecs.kept_keys import standing_in
from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.payload.codec import About, Codec, opened_text, sealed_text, text_of_sealed
from flowguard.protocol.entry import Completion, KeyAsk, KeyClaim, Met
from flowguard.settings import Settings
from flowguard.sim.simulated_keys import SIMULATED_DATA_KEYS
from flowguard.wire.message import PLACE, Message, Place
from flowguard.wire.shown_facts import ShownFacts
from flowguard.wire.signing import Keyring, Keys, KeySigner, signed_attributes, statement
from flowguard.wire.tokens import Tokens, token_row_id
from flowguard.wire.watch_link import WatchLink, read_watch_link
from tests.aws.engines import on_memory
from tests.worker.runtime.landed_release import _as_text, _with_bytes

FOLDER: Final = Path(__file__).parent / "landed" / "forms"
NOW: Final = 1_800_000_000_000
RING: Final = Keyring(lambda: Keys.parse("k1:an-example-that-is-long-enough-to-be-a-secret"), ManualClock(NOW))
TOKENS: Final = Tokens(RING)
ROW: Final = token_row_id("approvals", "order-17", "request-4711", NOW, 2, "approval")
SHOWN: Final = ShownFacts("Pay claim 4711?", {"Amount": "420 €"})
LINK: Final = WatchLink("orders", "o-1", "r-1", NOW, NOW + 60_000)
ABOUT: Final = About("orders", "o-1", "state")
TEXT: Final = json.dumps({"finding": "measles " * 60})
LONG: Final = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(60))
"""It is long when it is compressed, too."""

CODECS: Final[dict[str, Codec]] = {"compressed": Compressed(), "encrypted": Encrypted("alias/patients")}
OUTSIDE: Final = Settings.model_validate({"bucket": "texts", "offload_above": 1_024})
MESSAGE: Final = Message(
    flow="orders",
    stage="price",
    version=1,
    object_id=ObjectId("o-1"),
    request_id=RequestId("r-1"),
    requested_at=NOW,
    body='{"order_id":"o-1"}',
    hop=2,
    reply_to="sqs:replies",
)

ENTRIES: Final = {
    "done": Completion('{"paid":true}', None, NOW + 5, NOW + 60_000),
    "long": Completion(json.dumps("paid " * 100), None, NOW + 5, NOW + 60_000),
    "refused": Completion(None, "no such customer", NOW + 5, NOW + 60_000),
}

Forms = dict[str, Any]


def written() -> Forms:
    """Return what this release writes."""
    token = TOKENS.make("approvals", ROW, NOW + 1)
    attributes = {name: value.value for name, value in signed_attributes(MESSAGE, KeySigner(RING)).items()}
    with standing_in(SIMULATED_DATA_KEYS), on_memory() as clients:
        return {
            "token": token,
            "shown": TOKENS.seal(token, SHOWN),
            "link": LINK.sealed(RING.keys()),
            "message": attributes,
            "sealed": {name: codec.seal(TEXT.encode(), ABOUT) for name, codec in CODECS.items()},
            "sealed messages": {name: sealed_text(codec, TEXT, ABOUT) for name, codec in CODECS.items()},
            "entries": _entries(clients),
            "outside": _outside(clients),
        }


def _entries(clients: Clients) -> list[Any]:
    """Return the entries of keys, each of another kind."""
    ledger = ledger_of(Settings(), clients)
    for key, end in ENTRIES.items():
        ledger.finish(_claimed(ledger, "charge", key), end)
    ledger.free(_claimed(ledger, "charge", "failed"), "ValueError", NOW + 1)
    _claimed(ledger, "charge", "running")
    started = _claimed(ledger, "start/orders", "k1", "d" * 64)
    ledger.finish(started, Completion('["r-1","o-1"]', None, NOW + 5, NOW + 60_000))
    answer: Any = clients.dynamodb.scan(TableName="flowguard")
    return sorted(answer["Items"], key=lambda item: str(item["pk"]["S"]))


def _claimed(ledger: DynamoDBLedger, name: str, key: str, digest: str | None = None) -> KeyClaim:
    claim = ledger.claim(_ask(name, key, digest))
    assert isinstance(claim, KeyClaim)
    return claim


def _ask(name: str, key: str, digest: str | None = None, owner: str = "me", now: int = NOW) -> KeyAsk:
    return KeyAsk(name, key, Owner(owner), now, now + 30_000, now + 60_000, digest)


def _outside(clients: Clients) -> Forms:
    """Return a text that is in S3: what stands in the item, and the object."""
    clients.s3.create_bucket(Bucket="texts")
    packed = Packing.of(OUTSIDE, clients).pack(LONG, "flowguard/orders/r-1/state", about=None)
    body = clients.s3.get_object(Bucket="texts", Key="flowguard/orders/r-1/state")["Body"].read()
    return {"value": packed.value, "object": body}


def read_today(forms: Forms) -> Forms:
    """Return what this release reads in what another one has written."""
    place = Place.parse(forms["message"][PLACE])
    signed = statement(MESSAGE, version=place.version, object_id=str(place.object_id))
    with standing_in(SIMULATED_DATA_KEYS), on_memory() as clients:
        return {
            "token": TOKENS.read(forms["token"], ["approvals"], NOW),
            "shown": TOKENS.unseal(forms["token"], forms["shown"]),
            "link": read_watch_link(RING, forms["link"], "orders"),
            "message": (place.hop, place.version, KeySigner(RING).problem(signed, place.signature)),
            "sealed": {name: opened_text(CODECS[name], data, ABOUT) for name, data in forms["sealed"].items()},
            "sealed messages": {
                name: text_of_sealed(CODECS[name], text, ABOUT) for name, text in forms["sealed messages"].items()
            },
            "entries": _met(clients, forms["entries"]),
            "outside": _fetched(clients, forms["outside"]),
        }


def _met(clients: Clients, entries: list[Any]) -> Forms:
    """Return what a second call meets at each key."""
    for item in entries:
        clients.dynamodb.put_item(TableName="flowguard", Item=item)
    ledger, met = ledger_of(Settings(), clients), dict[str, Any]()
    for key in (*ENTRIES, "failed", "running"):
        answer = ledger.claim(_ask("charge", key, owner="another", now=NOW + 10))
        met[key] = _told(answer)
    met["started"] = _told(ledger.claim(_ask("start/orders", "k1", "d" * 64, now=NOW + 10)))
    met["reused"] = _told(ledger.claim(_ask("start/orders", "k1", "e" * 64, now=NOW + 10)))
    return met


def _told(answer: KeyClaim | Met) -> Any:
    if isinstance(answer, KeyClaim):
        return "claimed", answer.before.failure if answer.before else None
    return answer.verdict.value, answer.entry.result or answer.entry.refusal


def _fetched(clients: Clients, outside: Forms) -> str:
    clients.s3.create_bucket(Bucket="texts")
    pointer = outside["value"]["M"]
    clients.s3.put_object(Bucket="texts", Key=pointer["key"]["S"], Body=outside["object"])
    return Packing.of(OUTSIDE, clients).unpack(outside["value"], None)


def kinds(value: Any, name: str = "") -> set[str]:
    """Return which attributes and types there are, and of texts how they are made up. What is sealed is drawn anew."""
    match value:
        case dict():
            return {kind for key, part in value.items() for kind in kinds(part, f"{name}/{key}")}
        case list():
            return {kind for part in value for kind in kinds(part, name)}
        case bytes():
            return {f"{name}: bytes"}
        case _:
            return {f"{name}: {re.sub('[0-9A-Za-z_+=/-]+', 'x', str(value))}"}


def samples() -> list[Path]:
    return sorted(FOLDER.glob("*.json"))


def load(path: Path) -> Forms:
    forms: Forms = json.loads(path.read_text(), object_hook=_with_bytes)
    return forms


def main() -> None:
    forms, known = written(), samples()
    if known and kinds(load(known[-1])) == kinds(forms):
        sys.stdout.write("nothing new\n")
        return
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{len(known) + 1:03d}.json"
    path.write_text(json.dumps(forms, indent=1, sort_keys=True, default=_as_text) + "\n")
    sys.stdout.write(f"recorded {path.name}\n")


if __name__ == "__main__":
    main()
