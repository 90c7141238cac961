"""The public names of the codecs. `relay.codecs.protocols` has the list of protocols."""

from relay.codecs.codec import Codec
from relay.codecs.protocols import BUILT_IN, PROTOCOLS, codec_named, plugin_problems
from relay.codecs.shared.large_messages import Handling, LargeMessageOptions, object_location
from relay.codecs.shared.rows import split_images
from relay.codecs.shared.shaped import encoder_of

__all__ = [
    "BUILT_IN",
    "PROTOCOLS",
    "Codec",
    "Handling",
    "LargeMessageOptions",
    "codec_named",
    "encoder_of",
    "object_location",
    "plugin_problems",
    "split_images",
]
