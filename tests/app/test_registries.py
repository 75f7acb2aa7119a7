"""A registry that is to be served: taken as strictly as weft.yaml says, and with plain schemas."""

from __future__ import annotations

import json

import pytest

from tests.registry.registries import SOUND, Doc, put, registry
from weft.app.registries import content_of
from weft.errors import DocumentInvalid
from weft.gateway.sources import Loaded
from weft.registry.findings import Strictness


def loaded(document: Doc) -> Loaded:
    return Loaded(name="registry.json", data=json.dumps(document).encode())


@pytest.mark.req("REG-6", "REG-12")
def test_what_is_served_has_schemas_that_need_no_registry():
    content = content_of(loaded(SOUND))
    assert content.problems == ()
    assert "#Page:2.0.0" not in str(content.document.tools)
    assert content.document.tools[1].input_schema is not None
    assert "properties" in content.document.tools[1].input_schema


@pytest.mark.req("REG-22", "REG-28")
def test_a_missing_entity_keeps_a_registry_out_unless_that_is_only_worth_a_warning():
    broken = registry(put("reed", "agents", 0, "capabilities", "extensions", 0, "params", "depends", 0, "name"))
    with pytest.raises(DocumentInvalid):
        content_of(loaded(broken))
    content = content_of(loaded(broken), severities=Strictness(missing_entity="warn"))
    assert [(one.severity, one.code) for one in content.problems] == [("warning", "UnknownName")]


def test_an_agent_inside_is_served_only_where_egress_allows_it():
    inside = registry(put("http://10.1.2.3/agent", "agents", 1, "url"))
    with pytest.raises(DocumentInvalid):
        content_of(loaded(inside))
    assert content_of(loaded(inside), allow=["10.0.0.0/8"]).problems == ()


@pytest.mark.req("REG-63", "REG-64")
def test_a_registry_that_is_no_file_cannot_include_one():
    with pytest.raises(DocumentInvalid) as caught:
        content_of(loaded({"schemaVersion": "2.0", "$include": ["/etc/hostname"]}))
    assert [one.code for one in caught.value.problems] == ["IncludeRefused"]
