"""Templates for tests."""

from __future__ import annotations

from typing import Any

from weft.workflows.template import Template, read_template

SEED: dict[str, Any] = {
    "id": "search-fold-store-v2",
    "name": "Search, Fold, and Store",
    "description": "Complete workflow for context optimization",
    "composition": {
        "name": "search-fold-store-workflow",
        "version": "1.0.0",
        "steps": [
            {"id": "search", "tool": "checkpoint_search", "parameters": {"query": "{{input.query}}", "top_k": 10}},
            {
                "id": "fold",
                "tool": "context_fold",
                "parameters": {"content": "{{search.content}}", "target_ratio": 0.6},
                "depends_on": ["search"],
            },
            {
                "id": "store",
                "tool": "checkpoint_save",
                "parameters": {"summary": "{{fold.summary}}"},
                "depends_on": ["fold"],
            },
        ],
    },
    "metadata": {
        "category": "context-management",
        "tags": ["search", "folding", "storage"],
        "estimated_duration_ms": 500,
        "success_rate": 0.95,
        "usage_count": 42,
    },
    "validation": {
        "required_tools": ["checkpoint_search", "context_fold", "checkpoint_save"],
        "min_version": "1.0.0",
    },
}
"""As the seed has it, under an id of its own."""


def template(id: str, **changes: Any) -> Template:
    """Return a template of an id."""
    return read_template({**SEED, "id": id, **changes})
