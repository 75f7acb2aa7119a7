"""What must not be in the ledger of a shop, given how sagas ended and what clients were told."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from scripts.chaos_shop import UNDO


def violations(
    entries: Sequence[Mapping[str, str]],
    statuses: Mapping[str, str],
    answers: Mapping[str, str],
    retried: Collection[str] = (),
) -> list[str]:
    """Return what is wrong with the ledger, given how sagas ended, what clients were told, and what was tried again."""
    found = [f"{order}: the client never got an answer" for order, told in answers.items() if told == "never"]
    orders: dict[str, list[Mapping[str, str]]] = {order: [] for order in (*answers, *statuses)}
    for entry in entries:
        orders.setdefault(entry["order"], []).append(entry)
    for order, own in orders.items():
        status, told = statuses.get(order), answers.get(order)
        found += [f"{order}: {fault}" for fault in _faults(own, status, in_order=order not in retried)]
        if (told == "done" and status != "COMPLETED") or (told == "failed" and status != "COMPENSATED"):
            found.append(f"{order}: the client was told {told}, and it is {status}")
    return found


def _faults(entries: Sequence[Mapping[str, str]], status: str | None, *, in_order: bool) -> Iterator[str]:
    done = [entry["tool"] for entry in entries if entry["what"] == "done"]
    for tool in sorted({entry["tool"] for entry in entries}):
        if len({entry["key"] for entry in entries if entry["tool"] == tool}) > 1:
            yield f"{tool} was called under several keys"
        if done.count(tool) > 1:
            yield f"{tool} was done {done.count(tool)} times"
    actions, undos = [tool for tool in done if tool in UNDO], [tool for tool in done if tool not in UNDO]
    if status == "COMPLETED":
        if (actions, undos) != (list(UNDO), []):
            yield f"COMPLETED, and the ledger has {done}"
    elif status == "COMPENSATED":
        if left := {tool for tool in actions if UNDO[tool] not in undos}:
            yield f"COMPENSATED, and {sorted(left)} is not undone"
        # What could not be undone in its turn, an operator has undone after the others.
        if in_order and undos != [undo for undo in reversed(UNDO.values()) if undo in undos]:
            yield f"COMPENSATED, and undone in the order {undos}"
    elif entries or status is not None:
        yield f"it is {status}, and the ledger has {done}"
