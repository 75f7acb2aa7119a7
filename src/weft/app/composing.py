"""Compositions that callers keep and run: the service of one gateway, on the store that weft.yaml names."""

from __future__ import annotations

from weft.app.stores import Stores
from weft.config import Config
from weft.config.sections import CompositionsRule
from weft.errors import InputError
from weft.gateway.admitting import RunLimits
from weft.gateway.auditing import Auditor
from weft.gateway.composition_rights import CompositionRights
from weft.gateway.composition_tools import composition_tools
from weft.gateway.compositions import Compositions
from weft.gateway.drafts import Drafts
from weft.gateway.gateway import Gateway
from weft.gateway.templates import Library
from weft.ports import Store
from weft.workflows.book import StatisticsBook
from weft.workflows.runs import Runs
from weft.workflows.shelf import Shelf


def compositions_of(config: Config, gateway: Gateway, stores: Stores) -> Compositions:
    """Return the service; its tools are among those of the gateway, where weft.yaml says so.

    Raises:
        InputError: the store that it is to use is not configured.
    """
    rule = config.compositions
    drafts = Drafts(gateway.live, stores=lambda: stores.names)
    made = Compositions(
        gateway.engine,
        drafts,
        gateway.telemetry,
        library_on(stores_for(rule, stores), rule),
        stores=lambda: stores.all().values(),
        limits=RunLimits(principal=config.limits.per_principal),
    )
    if rule.tools:
        gateway.live.own = composition_tools(made)
    return made


def rights_over(compositions: Compositions, gateway: Gateway, auditor: Auditor) -> CompositionRights:
    """Return who may use the service without its tools."""
    return CompositionRights(composition_tools(compositions), gateway.live, gateway.telemetry, auditor)


def stores_for(rule: CompositionsRule, stores: Stores) -> Store:
    """Return the store that keeps templates and runs."""
    if rule.store not in stores.names:
        known = ", ".join(sorted(stores.names))
        raise InputError(
            f"compositions.store names '{rule.store}', which is not configured",
            code="UnknownStore",
            hint=f"add it to stores in weft.yaml, or name one of: {known}",
        )
    return stores.find(rule.store)


def library_on(store: Store, rule: CompositionsRule) -> Library:
    """Return templates, runs and statistics on a store."""
    return Library(shelf=Shelf(store), runs=Runs(store, retention=rule.keep), book=StatisticsBook(store))
