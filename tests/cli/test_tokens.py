"""Tokens: which tokenizer counts, what happens without one, and how good the estimate is."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.groups.forge import TOOLS
from weft.cli import tokens
from weft.cli.tokens import estimate, token_counter

COUNTED = 8_608
"""The tokens of o200k_base in these tools, counted once by rs-bpe 0.1.0."""


class Encoding:
    """Stands in for a vocabulary, which is megabytes to fetch: a letter is a token."""

    def encode_ordinary(self, text: str) -> list[int]:
        return [ord(one) for one in text.encode("utf-8").decode("utf-8")]


@pytest.fixture
def tiktoken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """tiktoken as it is after its installation: it fetches a vocabulary at first use."""

    def get_encoding(name: str) -> Encoding:
        raise AssertionError(f"fetches {name}")

    module: Any = ModuleType("tiktoken")
    module.get_encoding = get_encoding
    monkeypatch.setitem(sys.modules, "tiktoken", module)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    return module


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    monkeypatch.setitem(sys.modules, "rs_bpe", None)


def keep_vocabulary(name: str, content: bytes, folder: Path) -> None:
    """Put a vocabulary where tiktoken keeps one."""
    url = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
    (folder / hashlib.sha1(url.encode()).hexdigest()).write_bytes(content)


def test_without_a_tokenizer_the_estimate_says_what_it_is():
    counter = token_counter()
    assert counter.method.startswith("estimate: ")
    assert counter.missing is None
    assert counter.count("Create a user.") == 4


@pytest.mark.usefixtures("tiktoken")
def test_tiktoken_without_its_vocabulary_is_not_let_onto_the_network(tmp_path: Path):
    keep_vocabulary("o200k_base", b"half of it", tmp_path)
    counter = token_counter()
    assert counter.method.startswith("estimate: ")
    assert counter.missing is not None
    assert 'tiktoken.get_encoding("o200k_base")' in counter.missing


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_tiktoken_counts_with_the_vocabulary_that_it_has(
    name: str, tiktoken: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    keep_vocabulary(name, b"the whole of it", tmp_path)
    sha256 = hashlib.sha256(b"the whole of it").hexdigest()
    monkeypatch.setattr(tokens, "VOCABULARIES", {"o200k_base": sha256, "cl100k_base": sha256})
    tiktoken.get_encoding = {name: Encoding()}.__getitem__
    counter = token_counter()
    assert counter.method == f"tiktoken {name}"
    assert counter.count("abc") == 3
    assert counter.count("\ud800" + "x" * 120_000) == 120_001  # half a character, and more than is given at once


@pytest.mark.usefixtures("tiktoken")
def test_a_tiktoken_that_fails_is_told_and_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    keep_vocabulary("o200k_base", b"x", tmp_path)
    monkeypatch.setattr(tokens, "VOCABULARIES", {"o200k_base": hashlib.sha256(b"x").hexdigest()})
    counter = token_counter()
    assert counter.method.startswith("estimate: ")
    assert counter.missing == "tiktoken does not work here: fetches o200k_base"


def test_rs_bpe_counts_with_the_vocabulary_in_its_package(monkeypatch: pytest.MonkeyPatch):
    package, inside, openai = ModuleType("rs_bpe"), ModuleType("rs_bpe.bpe"), ModuleType("openai")

    class Tokenizer:
        count = staticmethod(len)

    vars(openai)["o200k_base"] = Tokenizer
    vars(inside)["openai"] = openai
    monkeypatch.setitem(sys.modules, "rs_bpe", package)
    monkeypatch.setitem(sys.modules, "rs_bpe.bpe", inside)
    assert (token_counter().method, token_counter().count("four")) == ("rs-bpe o200k_base", 4)


def test_the_estimate_is_near_what_o200k_base_counts():
    told = [{key: one[key] for key in ("name", "description", "inputSchema")} for one in TOOLS]
    text = "".join(json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in told)
    assert estimate(text) == pytest.approx(COUNTED, rel=0.1)


@given(st.text(alphabet=st.characters(), max_size=200))
def test_the_estimate_takes_any_text_and_never_says_more_tokens_than_bytes(text: str):
    assert 0 <= estimate(text) <= len(text.encode("utf-8", "surrogatepass"))
    assert (estimate(text) == 0) is (text == "")
