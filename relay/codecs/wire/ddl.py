"""DDL messages, read: what every decoder does with one, once it has found the statement."""

from __future__ import annotations

from relay.catalog import Catalog, DdlMessage, learn
from relay.codecs.losses import Lossy, is_administration
from relay.model import Event


def ddl_events(
    message: DdlMessage, catalog: Catalog, lossy: list[Lossy], *, is_certain: bool = True
) -> tuple[list[Event], Catalog]:
    """Return the event of a DDL message and the catalogue after it; what is not understood is counted.

    `is_certain`: the message says itself that it holds DDL. Otherwise a statement that changes no table, or a
    text that does not begin as one that may, gives no event.
    """
    learnt, change = learn(catalog, message)
    if not is_certain and is_administration(change):
        lossy.append(Lossy.ADMIN_STATEMENT)
        return [], catalog
    if change.kinds:
        return [change], learnt
    if not is_certain and learnt is catalog:
        lossy.append(Lossy.STATEMENT)
        return [], catalog
    lossy.append(Lossy.DDL_NOT_UNDERSTOOD)
    return [change], learnt
