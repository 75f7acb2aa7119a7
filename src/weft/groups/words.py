"""Words of other people, made short and harmless."""

from __future__ import annotations

import re
from typing import Final

# Control characters, what turns a text around, what nobody sees but a model reads. The joiners U+200C and U+200D stay:
# Persian words and many emoji are spelled with them.
UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
_SPACES: Final = re.compile(r"\s+")


def one_line(text: str) -> str:
    """Return a text on one line, without characters that cannot be seen."""
    return _SPACES.sub(" ", UNSEEN.sub(" ", text)).strip()


def shortened(text: str, most: int) -> str:
    """Return the text, cut after a word when it is longer than it may be."""
    if len(text) <= most:
        return text
    words = text[: most - 2].rpartition(" ")[0]
    kept = words if len(words) > most // 2 else text[: most - 3]
    return kept.rstrip(" .,;:-") + "..."
