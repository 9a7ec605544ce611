"""The guards of the inspector.

They say whom it answers, and what a browser may do with its pages.

Any page that a browser has open may ask 127.0.0.1 for something. So a request must name the inspector as its host, come
from none but its own pages, and, where it changes something, carry the token that only those pages have.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, a form's Origin would be null
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""What each answer carries. No script runs, wherever it comes from."""


def hosts_of(port: int) -> frozenset[str]:
    """Return what the Host header of a request to this port may be."""
    return frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))


def request_problem(headers: Mapping[str, str], hosts: frozenset[str]) -> str | None:
    """Return why a request is refused. None where it is answered."""
    host, origin = headers.get("Host", ""), headers.get("Origin")
    if host not in hosts:
        return f"It was sent to another host. Open http://{min(hosts)}/ instead."
    if origin is not None and origin != f"http://{host}":
        return "It comes from a page of another site."
    if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        return "It comes from a page of another site. Type the address, or open it from a page of the inspector."
    return None


def is_own_token(given: str, token: str) -> bool:
    """Answer whether a form has the token of this process."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token.encode())
