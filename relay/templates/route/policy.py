"""When templates of a route are derived, tried and dropped."""

from __future__ import annotations

from typing import Final

import msgspec


class TemplatePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When templates of a route are derived, tried and dropped.

    first_derivation: The number of the message of a shape from which a template is derived. A derivation
        costs as much as 20 to 30 rows on the slow path; shapes with fewer messages must not pay for one.
    late_derivation: The same while templates do not pay off.
    misses_before_pause, pause_factor: After so many records of known shapes that fitted no template, and
        fewer than a quarter as many that fitted one, the next `pause_factor` times as many are not tried.
    search_interval: At the size limit, the number of records without a template between two searches for
        unused templates.
    shape_bytes: Maximum bytes of the shapes whose messages are counted, and maximum bytes of those whose
        table is known; beyond that, counting starts over.
    loss_sets, loss_sets_per_template: Maximum combinations of losses with separate facts: for all templates
        of a topic, and additionally for each.
    """

    first_derivation: int = 32
    late_derivation: int = 512
    misses_before_pause: int = 256
    pause_factor: int = 15
    search_interval: int = 10_000
    shape_bytes: int = 1 << 20
    loss_sets: int = 256
    loss_sets_per_template: int = 4


DEFAULT_POLICY: Final = TemplatePolicy()
#: Derives templates as early as possible, to verify many with few messages.
EAGER_POLICY: Final = TemplatePolicy(first_derivation=2)
