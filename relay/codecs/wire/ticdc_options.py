"""Options of TiCDC's sink URI and changefeed that several of its formats have."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

RawChangeEvent = Annotated[
    bool, Meta(description="keep an UPDATE of a key as one event; false: split it into DELETE and INSERT")
]
IntegrityCheck = Annotated[
    Literal["none", "correctness"],
    Meta(description="correctness: checksums of rows are verified, and written"),
]
CorruptionHandling = Annotated[
    Literal["warn", "error"],
    Meta(
        description="a row whose checksum is wrong, or that its producer calls corrupted, is counted, or "
        "refused",
    ),
]
RawClaimChecks = Annotated[
    bool,
    Meta(description="a claim-check object is the message itself, without JSON and base64 around it"),
]
DecimalMode = Annotated[
    Literal["precise", "string"], Meta(description="DECIMAL as Avro's decimal, or as text")
]
