"""What waits to be sent to a client: bounded, so that a client that does not read costs little."""

from __future__ import annotations

from collections import deque


class Outbox:
    """Messages in order; when there are too many, the oldest progress and log messages are dropped."""

    __slots__ = ("_bytes", "_most", "_most_bytes", "_waiting")

    def __init__(self, *, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._waiting: deque[tuple[bytes, bool]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, piece: bytes) -> bool:
        return any(piece == waiting for waiting, _ in self._waiting)

    def put(self, piece: bytes, *, droppable: bool) -> bool:
        """Add a message; tell whether all that must not be dropped has found room."""
        self._waiting.append((piece, droppable))
        self._bytes += len(piece)
        while self.full:
            if not self._drop():
                return False
        return True

    def pop(self) -> bytes:
        """Take the oldest message."""
        piece, _ = self._waiting.popleft()
        self._bytes -= len(piece)
        return piece

    def clear(self) -> None:
        """Forget everything."""
        self._waiting.clear()
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether there is more than should wait; one message may be of any size."""
        return len(self._waiting) > self._most or (self._bytes > self._most_bytes and len(self._waiting) > 1)

    def _drop(self) -> bool:
        for at, (piece, droppable) in enumerate(self._waiting):
            if droppable:
                del self._waiting[at]
                self._bytes -= len(piece)
                return True
        return False
