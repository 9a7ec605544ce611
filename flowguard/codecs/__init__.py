"""The codecs of flows. They seal payloads and all that is made of them.

::

    class Orders(Flow, name="orders", object_id="order_id", codec=Encrypted("alias/orders")):
        stages = (PriceOrder, CloseOrder)

:class:`Encrypted` needs the extra ``codec``, and :class:`Compressed` none. A name loads its module when it is first
used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowguard.names.public import loader

if TYPE_CHECKING:
    from flowguard.codecs.compressed import Compressed as Compressed
    from flowguard.codecs.encrypted import Encrypted as Encrypted
    from flowguard.codecs.ends import opened_end as opened_end
    from flowguard.payload.codec import About as About
    from flowguard.payload.codec import Codec as Codec

_HOME = {
    "About": "payload.codec",
    "Codec": "payload.codec",
    "Compressed": "codecs.compressed",
    "Encrypted": "codecs.encrypted",
    "opened_end": "codecs.ends",
}

__all__ = list(_HOME)


if not TYPE_CHECKING:  # to a type checker, a name that is not above is a mistake
    __getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
