"""Tokens: how many a text costs a model, by a tokenizer that is installed or by an estimate."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from math import ceil
from pathlib import Path
from typing import Any, Final

VOCABULARIES: Final[Mapping[str, str]] = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
"""The vocabularies that a count may be made with, best first, and the SHA-256 of tiktoken's file of each."""

ESTIMATE: Final = "estimate: words, runs of signs and digits by threes, within about 15 % of o200k_base for English"

_PIECES: Final = re.compile(r" ?[A-Za-z]+|[0-9]{1,3}|[!-/:-@\[-`{-~]+|[^\x00-\x7f]+|[\x00-\x20\x7f]+")
_LONGEST_WORD: Final = 16
"""Letters that are one token; what has more is rather a key or an image."""

_OTHER_LETTERS: Final = 5
"""Bytes of a token where letters are not ASCII: four and a half of Chinese, nine of Russian."""

_PART: Final = 50_000
"""Characters that a tokenizer gets at once: more than a tool has, so that nearly every count is exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounter:
    """Counts the tokens of texts, and says by which method."""

    method: str
    count: Callable[[str], int]
    missing: str | None = None
    """What to do for a count that is no estimate, when little is missing for it."""


def token_counter() -> TokenCounter:
    """Return the best counter that there is without asking the network.

    tiktoken would fetch its vocabulary at first use, and wait for it without an end; so it is used once it has one.
    """
    found, missing = _tiktoken()
    if found is None:
        found = _rs_bpe()
    return found or TokenCounter(method=ESTIMATE, count=estimate, missing=missing)


def estimate(text: str) -> int:
    """Return about how many tokens a text is."""
    return sum(_tokens_of(piece) for piece in _PIECES.findall(text))


def _tokens_of(piece: str) -> int:
    if piece.isascii():
        return ceil(len(piece) / _LONGEST_WORD)
    return ceil(len(piece.encode("utf-8", "surrogatepass")) / _OTHER_LETTERS)


def _tiktoken() -> tuple[TokenCounter | None, str | None]:
    tiktoken = _installed("tiktoken")
    if tiktoken is None:
        return None, None
    name = next((name for name, sha256 in VOCABULARIES.items() if _is_fetched(name, sha256)), None)
    if name is None:
        first = next(iter(VOCABULARIES))
        return (
            None,
            f"""tiktoken has no vocabulary yet: python -c 'import tiktoken; tiktoken.get_encoding("{first}")'""",
        )
    try:
        ordinary = tiktoken.get_encoding(name).encode_ordinary
    except Exception as error:
        return None, f"tiktoken does not work here: {error}"
    return TokenCounter(method=f"tiktoken {name}", count=_in_parts(lambda text: len(ordinary(text)))), None


def _is_fetched(name: str, sha256: str) -> bool:
    """Tell whether tiktoken has a vocabulary on this machine, where it looks itself."""
    given = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    folder = Path(tempfile.gettempdir()) / "data-gym-cache" if given is None else Path(given)
    url = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
    try:
        kept = (folder / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(kept).hexdigest() == sha256


def _rs_bpe() -> TokenCounter | None:
    openai = getattr(_installed("rs_bpe.bpe"), "openai", None)
    if openai is None:
        return None
    return TokenCounter(method="rs-bpe o200k_base", count=_in_parts(openai.o200k_base().count))


def _installed(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        return None


def _in_parts(count: Callable[[str], int]) -> Callable[[str], int]:
    """Return a counter that no text of a stranger can break.

    A million spaces end the regular expressions of tiktoken, and half a character is refused.
    """

    def counted(text: str) -> int:
        whole = text.encode("utf-8", "replace").decode("utf-8")
        return sum(count(whole[start : start + _PART]) for start in range(0, len(whole), _PART))

    return counted
