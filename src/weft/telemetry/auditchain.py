"""The chain of an audit log: each record's hash is made with a key from the one before, so that no change goes unseen.

A line is a record with its hash at the end. What this cannot see by itself is that the last records were cut off: for
that somebody else must keep a checkpoint.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from weft.errors import InputError
from weft.ports import is_object

START: Final = "0" * 64
_MARK: Final = b',"h":"'
_TAIL: Final = len(_MARK) + 64 + len(b'"}')
MOST_LINE: Final = 64 << 10
_json = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode
FaultCode = Literal["edited", "missing", "reordered", "cut", "torn", "unlinked", "checkpoint", "empty"]


def line_of(body: str, previous: str, mac: hmac.HMAC) -> tuple[bytes, str]:
    """Return a record, which is JSON in ASCII, as a line of the log, and its hash; `mac` is what `mac_of` gave."""
    data = body.encode("ascii")
    made = _hash(data, previous, mac)
    return b'%b%b%b"}\n' % (data[:-1], _MARK, made.encode()), made


def written(value: Any) -> str:
    """Return a value as a record holds it: nothing in it can end the line or steer a terminal."""
    return _json(value).replace("\x7f", "\\u007f")


def mac_of(key: bytes) -> hmac.HMAC:
    """Return what makes hashes with a key."""
    return hmac.new(key, digestmod=hashlib.sha256)


def _hash(body: bytes, previous: str, mac: hmac.HMAC) -> str:
    # A copy costs less than to begin with the key again.
    made = mac.copy()
    made.update(b"%b|%b" % (previous.encode(), body))
    return made.hexdigest()


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a log, taken apart."""

    body: bytes
    hash: str
    record: dict[str, Any]

    @classmethod
    def read(cls, line: bytes) -> Line | None:
        """Return a line without its end, or None when no log would have it."""
        mark = len(line) - _TAIL
        if mark < 2 or line[mark : mark + len(_MARK)] != _MARK or not line.endswith(b'"}'):
            return None
        body = line[:mark] + b"}"
        try:
            record = json.loads(body)
            told = line[mark + len(_MARK) : -2].decode("ascii")
        except (ValueError, RecursionError):
            return None
        return cls(body, told, record) if is_object(record) else None

    def follows(self, previous: str, key: bytes) -> bool:
        """Tell whether it is the record that was written after the one of that hash."""
        return hmac.compare_digest(self.hash, _hash(self.body, previous, mac_of(key)))

    @property
    def number(self) -> int:
        """Which record of the chain it is; -1 when it does not say."""
        number = self.record.get("n")
        return number if isinstance(number, int) else -1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """That a log had so many records, and the last of them this hash; to be kept where whoever cuts a log cannot go."""

    n: int
    hash: str
    time: str
    signature: str

    @classmethod
    def of(cls, n: int, hash: str, time: str, key: bytes) -> Checkpoint:
        """Return a checkpoint, signed."""
        return cls(n, hash, time, _signed(n, hash, time, key))

    @classmethod
    def read(cls, line: bytes) -> Checkpoint | None:
        """Return a line of a file of checkpoints, or None when it is none."""
        try:
            value = json.loads(line)
            return cls(int(value["n"]), str(value["h"]), str(value["time"]), str(value["signature"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def genuine(self, key: bytes) -> bool:
        """Tell whether it was signed with this key."""
        return hmac.compare_digest(self.signature.encode(), _signed(self.n, self.hash, self.time, key).encode())

    def to_line(self) -> str:
        """Return it as a line of a file."""
        return json.dumps({"n": self.n, "h": self.hash, "time": self.time, "signature": self.signature}) + "\n"


def _signed(n: int, hash: str, time: str, key: bytes) -> str:
    return hmac.new(key, f"checkpoint|{n}|{hash}|{time}".encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in a log that is not as it was written."""

    code: FaultCode
    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message} [{self.code}]"

    def to_json(self) -> dict[str, Any]:
        """Return it as `weft audit verify --json` prints it."""
        return {"code": self.code, "file": self.file, "line": self.line, "message": self.message}


@dataclass(slots=True)
class Report:
    """What was found in a log: how many records, and every fault; `checkpoint` is the last that was held against it."""

    records: int = 0
    last: int = -1
    hash: str = START
    faults: list[Fault] = field(default_factory=list[Fault])
    dropped: int = 0
    checkpoint: int | None = None
    after: str | None = None
    """The file before the first one, which was not given."""

    @property
    def intact(self) -> bool:
        """Whether nothing was changed, as far as can be seen: the end needs a checkpoint."""
        return all(fault.code == "torn" for fault in self.faults)


def verify(files: Sequence[Path], key: bytes, *, checkpoints: Iterable[Checkpoint] = ()) -> Report:
    """Hold the files of a log, the oldest first, against their own hashes and against checkpoints.

    A last line that is torn is told and is not a change: a crash leaves one, and whoever tears it himself loses no
    more than that record, which a checkpoint shows.
    """
    report = Report()
    wanted = {one.n: one for one in checkpoints}
    seen: set[int] = set()
    for index, path in enumerate(files):
        _verify_file(path, key, report, wanted, seen, first=index == 0)
    for number, one in sorted(wanted.items()):
        if not one.genuine(key):
            report.faults.append(Fault("checkpoint", "checkpoint", number, "it is not signed with this key"))
        elif number not in seen:
            place = str(files[-1]) if files else ""
            told = f"the log ends with record {report.last}, and a checkpoint has seen record {number}"
            if number <= report.last:
                told = f"record {number}, which a checkpoint has seen, is not there"
            report.faults.append(Fault("cut", place, report.records, told))
        else:
            report.checkpoint = max(number, report.checkpoint or 0)
    return report


def _verify_file(
    path: Path, key: bytes, report: Report, wanted: Mapping[int, Checkpoint], seen: set[int], *, first: bool
) -> None:
    number, name = 0, str(path)

    def fault(code: FaultCode, told: str) -> None:
        report.faults.append(Fault(code, name, number, told))

    for number, (raw, whole) in enumerate(lines_of(path), start=1):
        line = Line.read(raw)
        if not whole:
            fault("torn", "the last line is torn: a crash, or somebody cut it")
            return
        if line is None:
            fault("edited", "this is no record")
            continue
        if number == 1:
            _begin(line, report, fault, first=first)
        _check(line, key, report, fault)
        if line.number in wanted and wanted[line.number].hash == line.hash:
            seen.add(line.number)
        report.records += 1
        report.last, report.hash = line.number, line.hash
        dropped = line.record.get("dropped")
        report.dropped += dropped if isinstance(dropped, int) else 0
    if number == 0:
        number = 1
        fault("empty", "there is no record in this file")


def _begin(line: Line, report: Report, fault: Any, *, first: bool) -> None:
    """Check how a file begins: with a record that says which hash comes before it."""
    previous = line.record.get("previous")
    if line.record.get("kind") != "begin" or not isinstance(previous, str):
        fault("missing", "the file does not begin with its first record")
        if first:
            report.last = line.number - 1
        return
    if first:
        report.last, report.hash = line.number - 1, previous
        after = line.record.get("after")
        report.after = after if isinstance(after, str) else None
    elif previous != report.hash:
        fault("unlinked", "the file does not follow the one before it")
        report.last, report.hash = line.number - 1, previous


def _check(line: Line, key: bytes, report: Report, fault: Any) -> None:
    expected = report.last + 1
    if line.follows(report.hash, key) and line.number == expected:
        return
    if line.number > expected:
        several = f"record {expected}" if line.number == expected + 1 else f"records {expected} to {line.number - 1}"
        fault("missing", f"{several} should stand before this one")
    elif line.number < expected:
        fault("reordered", f"record {line.number} stands where record {expected} should")
    else:
        fault("edited", f"record {line.number} is not as it was written")


def lines_of(path: Path) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines of a file without their ends, each with whether it is whole.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            while line := file.readline(MOST_LINE):
                # Only at the end of the file can a line be torn; one that is too long was put there.
                yield line.removesuffix(b"\n"), line.endswith(b"\n") or len(line) == MOST_LINE
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {(error.strerror or str(error)).lower()}", code="UnreadableFile"
        ) from error


def read_checkpoints(path: Path) -> list[Checkpoint]:
    """Return the checkpoints of a file.

    Raises:
        InputError: it has none, or a line that is none.
    """
    found: list[Checkpoint] = []
    for number, (line, _) in enumerate(lines_of(path), start=1):
        if (one := Checkpoint.read(line)) is None:
            raise InputError(f"{path}:{number} is not a checkpoint", code="NotACheckpoint")
        found.append(one)
    if not found:
        raise InputError(f"{path} has no checkpoint", code="NotACheckpoint")
    return found
