"""A route with and without templates, side by side."""

from __future__ import annotations

from typing import Any

from reference_engine import Interpreter
from support import CANAL

from relay import CodecError, ConsumerRecord, Translator
from relay.templates.engine import Engine
from relay.templates.route.policy import EAGER_POLICY, TemplatePolicy

Options = dict[str, str]


def translator_class(policy: TemplatePolicy) -> type[Translator]:
    """A translator with another policy."""

    class WithPolicy(Translator):
        _template_policy = policy

    return WithPolicy


def outcome(translator: Translator, record: ConsumerRecord) -> object:
    try:
        return translator.translate(record)
    except CodecError as error:
        return repr(error)


class Both:
    """A translator with an engine, and one without."""

    def __init__(
        self,
        source: str,
        options: Options | None = None,
        target: str = CANAL,
        engine: type[Engine] = Interpreter,
        policy: TemplatePolicy = EAGER_POLICY,
        **settings: Any,
    ) -> None:
        self.plain, self.templated = (
            translator_class(policy)(source, target, options, engine=each, **settings)
            for each in (None, engine)
        )

    def fits(self, record: ConsumerRecord) -> bool:
        """Whether a record was translated by a template; the same comes out in any case."""
        before = self.templated.paths["fast"]
        assert outcome(self.templated, record) == outcome(self.plain, record)
        assert self.templated.losses == self.plain.losses
        assert self.templated.events == self.plain.events
        return self.templated.paths["fast"] > before

    def learn(self, *records: ConsumerRecord) -> Both:
        """Translate records that fit nothing."""
        for record in records:
            assert not self.fits(record)
        return self
