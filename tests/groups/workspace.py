"""A grouped tool as an author would write it: users and projects, and an action of no group."""

from __future__ import annotations

from typing import Any

from weft.groups.action import Action

ABOUT = "Manage the users and projects of a platform.\n\nAsk before you delete anything."
SECTIONS = {
    "users": "People who may log in.",
    "projects": "What people work on, with their members and their state. Archived ones can only be read.",
}
COMMON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "workspace": {"type": "string", "description": "The workspace, by its id"},
        "dryRun": {"type": "boolean", "description": "Only say what would be done"},
    },
    "required": ["workspace"],
}
READS, DESTROYS = {"readOnlyHint": True}, {"readOnlyHint": False, "destructiveHint": True}
EMAIL = {"type": "string", "format": "email"}
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def _action(key: str, description: str, needs: dict[str, Any], takes: dict[str, Any], hints: dict[str, Any]) -> Action:
    fields = {"type": "object", "properties": {**needs, **takes}, "required": list(needs)}
    return Action(key=key, description=description, schema=fields, annotations=hints)


ACTIONS = [
    _action("users.list", "List users, newest first.", {}, {"limit": NUMBER, "role": TEXT}, READS),
    _action("users.create", "Create a user and send an invitation. An address can be used once.",
            {"email": EMAIL, "name": TEXT}, {"role": {"enum": ["admin", "member"]}}, {"destructiveHint": False}),
    _action("users.delete", "Delete a user | with all tokens: {this} cannot be undone.", {"id": TEXT}, {}, DESTROYS),
    _action("projects.list", "List projects.", {}, {"limit": NUMBER}, READS),
    _action("projects.archive", "Archive a project, for instance when:\n\n* it is done\n* nobody works on it",
            {"id": TEXT}, {"reason": TEXT, "X-Note": TEXT}, DESTROYS),
    _action("projects.members.add", "", {"id": TEXT, "user": TEXT}, {}, {}),
    _action("ping", "# 1 if all is well", {}, {}, READS),
]  # fmt: skip
