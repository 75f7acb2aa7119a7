"""`weft fmt`: documents in canonical form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from weft.cli.files import know_patterns, standard_input, write_file
from weft.cli.output import counted, note, plain, plural, result, result_text, show_error
from weft.errors import DocumentInvalid, InputError, errors_in
from weft.ports import is_array, is_object

if TYPE_CHECKING:
    from weft.ir.read import Source


@click.command(
    "fmt",
    epilog="\b\nExample:\n  weft fmt registry.json\n  weft fmt --check tools/*.yaml\n  weft fmt - <old.json >new.json",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 when something would change.")
def command(files: tuple[str, ...], check: bool) -> None:
    """Rewrite documents in the one canonical form, in place; JSON stays JSON and YAML stays YAML.

    - reads stdin and writes stdout. A document with errors is left as it is (exit 2). Comments and keys that begin
    with $ are not part of a document: they are counted on stderr before they go.
    """
    codes = [_piped(check=check) if file == "-" else _formatted(Path(file), check=check) for file in files]
    raise click.exceptions.Exit(max(codes))


def _piped(*, check: bool) -> int:
    from weft.ir.read import read

    data = standard_input()
    try:
        text = _canonical(read(data, name="<stdin>"))
    except DocumentInvalid as error:
        show_error(error)
        return 2
    if not check:
        result_text(text)
        return 0
    return int(text.encode() != data)


def _formatted(path: Path, *, check: bool) -> int:
    from weft.ir.read import read_file

    try:
        text = _canonical(read_file(path))
        if path.read_bytes() == text.encode():
            return 0
        if check:
            result(f"Would rewrite {plain(str(path))}")
            return 1
        write_file(path, text)
    except InputError as error:
        show_error(error)
        return 2
    note(f"Rewrote {plain(str(path))}")
    return 0


def _canonical(source: Source) -> str:
    """Return a document's canonical text, after telling what will not be in it.

    Raises:
        DocumentInvalid: something in it cannot be read, and would be lost.
    """
    from weft.cli.canonical import bare
    from weft.ir.including import INCLUDE
    from weft.ir.normalise import is_workflow, parse_alone
    from weft.ir.write import write

    know_patterns()
    parsed = parse_alone(source)
    if errors_in(parsed.problems):
        note(f"{plain(source.name)} is left as it is: {counted(parsed.problems)}")
        raise DocumentInvalid(list(parsed.problems))
    ir = parsed.document.to_ir()
    if INCLUDE in source.value:
        version = {"schemaVersion": ir.pop("schemaVersion")}
        ir = {**version, INCLUDE: source.value[INCLUDE], **ir}
    ir = bare(ir) if is_workflow(source.value) else ir
    ignored = _dollar_keys(source.value) - _dollar_keys(ir)
    comments = _comments(source.text) if source.format == "yaml" else 0
    lost = [plural(count, noun) for count, noun in ((ignored, "$-key"), (comments, "comment")) if count > 0]
    if lost:
        note(f"{plain(source.name)}: {' and '.join(lost)} will be lost")
    return write(ir, source.format)


def _dollar_keys(value: Any) -> int:
    count, pending = 0, [value]
    while pending:
        item = pending.pop()
        if is_object(item):
            count += sum(key.startswith("$") for key in item)
            pending += item.values()
        elif is_array(item):
            pending += item
    return count


def _comments(text: str) -> int:
    """Count the lines of YAML with a comment: a # between two tokens."""
    import yaml

    count, end = 0, 0
    scan = cast("Callable[..., Iterator[Any]]", yaml.scan)  # pyright: ignore[reportUnknownMemberType]  (no types)
    for token in scan(text, Loader=yaml.SafeLoader):
        count += sum("#" in line for line in text[end : token.start_mark.index].splitlines())
        end = max(end, token.end_mark.index)
    return count
