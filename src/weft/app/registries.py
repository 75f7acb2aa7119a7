"""Registries that are served: where they come from, and how what they say comes into service."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from weft.app.documents import compile_file, problems_of
from weft.app.groups import registry_groups
from weft.app.specs import networks_for
from weft.app.stores import Stores
from weft.config import Config
from weft.dsl.modules import read_module
from weft.errors import DocumentInvalid, Problem, errors_in
from weft.gateway.httpsource import HttpSource
from weft.gateway.live import Content
from weft.gateway.sources import SAME, FileSource, Loaded, Same, Source
from weft.ir.document import Document
from weft.ir.loading import no_collection
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.plan.compiler import check_stores
from weft.registry.findings import Severities
from weft.registry.validate import SEED, old_form
from weft.run.journal import volatile_sagas
from weft.run.workflow_recovery import volatile_workflows
from weft.upstreams.egress import only_public
from weft.upstreams.httpfetch import fetch

EMPTY = b'{"schemaVersion": "1.0"}'
CACHE = Path(".weft") / "registry"


class FileThatMayBeMissing(FileSource):
    """The file that is looked for when none was named: nothing is composed until it is there.

    Once it was there it is as any other: when it goes, what it said stays in service.
    """

    _was_there = _was_missing = False

    async def look(self, *, fully: bool = False) -> Loaded | Same | None:
        """Return the file when it is not the one seen last, and an empty registry as long as it was never there."""
        if self._was_there or await asyncio.to_thread(self.path.exists):
            self._was_there = True
            return await super().look(fully=fully)
        before, self._was_missing = self._was_missing, True
        return SAME if before else Loaded(name=self.name, data=EMPTY, format="json")


def source_of(config: Config, registry: Path | None) -> Source:
    """Return where the registry comes from: the file of the command line, else what weft.yaml says."""
    given = config.registry
    if registry is not None:
        return FileSource(registry)
    if given.path is not None:
        return FileThatMayBeMissing(given.path) if given.optional else FileSource(given.path)
    assert given.url is not None
    # Where weft may write, if systemd or a container says so; else beside its settings.
    state = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    cache = Path(state) / "registry" if state else (config.file.parent if config.file is not None else Path()) / CACHE
    getting = partial(fetch, allow_address=address_rule(given.url, config.egress.allow), proxy=config.egress.proxy)
    return HttpSource(given.url, fetch=getting, every=given.refresh_interval, headers=given.headers, cache=cache)


def address_rule(url: str, allow: Iterable[str]) -> Callable[[str], bool] | None:
    """Return which addresses the host of a URL may turn out to have; None is any."""
    inside = networks_for(url, allow)
    return None if inside is None else only_public(inside)


@no_collection()
def content_of(
    loaded: Loaded,
    *,
    severities: Severities = SEED,
    allow: Iterable[str] = (),
    stores: Stores | None = None,
) -> Content:
    """Return what a registry brings, taken as strictly as the severities say; `allow` is `egress.allow`.

    With `stores` it is also sure that those which it names are there, and keep what they must.

    Raises:
        DocumentInvalid: with every problem, when there is an error among them.
    """
    if loaded.path is not None and loaded.path.suffix == ".py":
        file = read_module(loaded.path)
        registry = compile_file(file, severities=severities, allow=allow)[1].valid()
        problems = [*registry.problems, *problems_of_stores(registry.document, stores)]
        if errors_in(problems):
            raise DocumentInvalid(problems)
        gathers = registry_groups(registry.document)
        return Content(registry.document, registry.tools, tuple(problems), registry.groups, gathers)
    folder = None if loaded.path is None else loaded.path.parent
    parsed = parse(read(loaded.data, name=loaded.name, format=loaded.format), folder=folder)
    problems = [*old_form(parsed), *problems_of(parsed, severities=severities, allow=allow)]
    problems += [parsed.located(one) for one in problems_of_stores(parsed.document, stores)]
    if errors_in(problems):
        raise DocumentInvalid(problems)
    return Content(parsed.resolved, None, tuple(problems), gathers=registry_groups(parsed.document))


def problems_of_stores(document: Document, stores: Stores | None) -> list[Problem]:
    """Return what is wrong with the stores that a document names; nothing where they are not known."""
    if stores is None:
        return []
    missing = list(check_stores(document, stores.names))
    return missing or [*volatile_sagas(document, stores.find), *volatile_workflows(document, stores.find)]
