"""Grouped tools: ten actions in two groups behind one tool, which a model reads once.

`weft serve --registry examples/grouped_tools.py` serves it, and so does any other MCP server: see attach_to_mcp.py.

Prints:
    platform has 10 actions
    users.create      {"id":3,"name":"Grace","role":"member"}
    users.list        [{"name":"Ada"},{"name":"Alan"},{"name":"Grace"}]
    projects.archive  {"id":1,"name":"Loom","owner":1,"archived":true}
    users.get         there is no user 7. Hint: users.list tells which there are
"""

import asyncio
from typing import Literal, TypedDict

import weft as w

Role = Literal["member", "admin"]


class User(TypedDict):
    id: int
    name: str
    role: Role


class Project(TypedDict):
    id: int
    name: str
    owner: int
    archived: bool


people: dict[int, User] = {
    1: {"id": 1, "name": "Ada", "role": "admin"},
    2: {"id": 2, "name": "Alan", "role": "member"},
}
work: dict[int, Project] = {1: {"id": 1, "name": "Loom", "owner": 1, "archived": False}}

platform = w.group("platform", description="The people of a small company, and what they work on.")
users = platform.group("users", "Who works here.")
projects = platform.group("projects", "What is worked on.")


def user(id: int) -> User:
    if id not in people:
        raise w.failure(f"there is no user {id}", hint="users.list tells which there are")
    return people[id]


def project(id: int) -> Project:
    if id not in work:
        raise w.failure(f"there is no project {id}", hint="projects.list tells which there are")
    return work[id]


@users.action(name="list", reads_only=True)
async def list_users(only: Role | None = None) -> list[User]:
    """List the users, all or those of a role."""
    return [one for one in people.values() if only in (None, one["role"])]


@users.action(name="get", reads_only=True)
async def get_user(id: int) -> User:
    """Look up a user."""
    return user(id)


@users.action(name="create", destructive=False)
async def create_user(name: str, role: Role = "member") -> User:
    """Add a user."""
    made: User = {"id": max(people) + 1, "name": name, "role": role}
    people[made["id"]] = made
    return made


@users.action(name="rename", destructive=False, idempotent=True)
async def rename_user(id: int, name: str) -> User:
    """Give a user another name."""
    user(id)["name"] = name
    return user(id)


@users.action(name="delete", destructive=True, tags=["admin"])
async def delete_user(id: int) -> User:
    """Remove a user, for good."""
    return people.pop(user(id)["id"])


@projects.action(name="list", reads_only=True)
async def list_projects(archived: bool = False) -> list[Project]:
    """List the projects: those that go on, or those that are archived."""
    return [one for one in work.values() if one["archived"] == archived]


@projects.action(name="get", reads_only=True)
async def get_project(id: int) -> Project:
    """Look up a project."""
    return project(id)


@projects.action(name="create", destructive=False)
async def create_project(name: str, owner: int) -> Project:
    """Begin a project; a user owns it."""
    made: Project = {"id": max(work) + 1, "name": name, "owner": user(owner)["id"], "archived": False}
    work[made["id"]] = made
    return made


@projects.action(name="assign", destructive=False, idempotent=True)
async def assign_project(id: int, owner: int) -> Project:
    """Give a project to another user."""
    project(id)["owner"] = user(owner)["id"]
    return project(id)


@projects.action(name="archive", destructive=False, idempotent=True)
async def archive_project(id: int) -> Project:
    """Put a project away."""
    project(id)["archived"] = True
    return project(id)


async def show(action: str, **arguments: object) -> None:
    result = await platform.call({"action": action, **arguments})
    print(f"{action:<17}", result["content"][0]["text"])


async def main() -> None:
    print(platform.name, "has", len(platform.actions), "actions")
    await show("users.create", name="Grace")
    await show("users.list", _select=["name"])
    await show("projects.archive", id=1)
    await show("users.get", id=7)


if __name__ == "__main__":
    asyncio.run(main())
