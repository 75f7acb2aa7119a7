"""The sections of weft.yaml about what was approved and what was done: the lock and the audit log."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import model_validator

from weft.config.settings import AnyPath, Seconds, Setting, Size, described
from weft.errors import shown
from weft.ir.nodes import refuse


class LockRule(Setting):
    """What is done when a server offers other tools than were approved."""

    mode: Literal["off", "tofu", "warn", "enforce"] = described(
        "off",
        "`off` compares nothing; `tofu` trusts a tool when first seen and records it; `warn` serves all and tells; "
        "`enforce` serves only what was approved.",
    )
    file: AnyPath = described(
        Path("weft.lock"), "The lock, which `weft lock` writes; beside this file unless given.", validate_default=True
    )
    every: Seconds = described(
        300.0, "How often servers are asked again for their tools, so that silent changes are found."
    )

    @property
    def path(self) -> Path:
        """The absolute path of the lock, also when none is given."""
        return self.file.absolute()


class Audit(Setting):
    """The audit log: who called what, whether they were let, and how it went."""

    file: AnyPath = described(
        ..., "Where the log is; with several workers each has its own, with its number in the name."
    )
    key_file: AnyPath | None = described(
        None, "The key that its records are chained with; made when there is none.  [default: the file with `.key`]"
    )
    when_full: Literal["block", "drop"] = described(
        "block", "When it cannot be written: calls wait and then fail, or records are dropped and counted."
    )
    rotate: Size = described(64 << 20, "How large a file may grow before it is put aside.")
    checkpoints: AnyPath | None = described(
        None, "A file that checkpoints are added to; best on another machine or of another owner."
    )
    checkpoint_every: Seconds = described(300.0, "How often one is added.")

    @model_validator(mode="after")
    def _apart(self) -> Audit:
        """Refuse one file for two things: each would spoil the other."""
        used: dict[Path, str] = {}
        for name, path in (("file", self.file), ("keyFile", self.key_path), ("checkpoints", self.checkpoints)):
            if path is not None and (other := used.setdefault(path.absolute(), name)) != name:
                told = f"{name} is the same file as {other}"
                raise refuse("SameFile", told, value=shown(str(path)), expected="a file of its own", at=(name,))
        return self

    @property
    def key_path(self) -> Path:
        """The absolute path of the key, also when none is given."""
        given = self.key_file if self.key_file is not None else self.file.with_name(f"{self.file.name}.key")
        return given.absolute()
