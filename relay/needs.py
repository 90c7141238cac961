"""What a translator may lack: it names the thing, the driver fetches and provides it, and calls again.

    while True:
        try:
            return translator.translate(record)
        except Need as need:
            translator.provide(need, storage.fetch(need))

So the core waits for nothing. `relay.storage.Storage.translate` is this loop. A `Need` is no error and no
`RelayError`: nothing has changed when it is raised.
"""

from __future__ import annotations


class Need(Exception):
    """Something outside the record without which it cannot be decoded; `name` is what decoders look it up by."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name} is needed: fetch it, give it to Translator.provide, and call again"


class ClaimCheck(Need):
    """An object in external storage that holds a message too large for Kafka.

    `storage` is the configured URI, which may hold secrets and is never shown; `name` the object's name in
    it, a checked UUID with `.json`. The URI inside the message is untrusted and never used.
    """

    def __init__(self, storage: str, name: str) -> None:
        super().__init__(name)
        self.storage = storage

    def __str__(self) -> str:
        return (
            f"the claim-check object {self.name} is needed: call Storage().translate(translator, record), which fetches it, "
            "or fetch it, give it to Translator.provide, and call again"
        )

    def __reduce__(self) -> tuple[type[ClaimCheck], tuple[str, str]]:
        return type(self), (self.storage, self.name)
