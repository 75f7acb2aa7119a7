"""A registry in Python: schemas, a server, tools and agents that refer to each other as objects.

`weft validate examples/registry_builder.py` checks it, `weft serve --registry examples/registry_builder.py` serves it.
The last lines add a mistake, to show what is told of it.

Prints:
    a-loom-for-tools
    3 tools, 2 agents, 0 problems
    /agents/2/capabilities/extensions/0/params/depends/0/version: Tool 'search' has no version '1.1.0': there is 1.0.0
"""

import asyncio

import weft as w
from weft.app import local


@w.python_tool
def slug(text: str) -> str:
    """Make a name for a URL of a title."""
    return text.lower().replace(" ", "-")


def build() -> w.RegistryBuilder:
    r = w.RegistryBuilder()
    query = r.schema("Query", "1.0.0", {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]})
    library = r.server("library", "2.0.0", description="What the library has")
    search = r.tool("search", "1.0.0", source=library.tool("find_books", defaults={"limit": 10}), input=query)
    make_slug = r.tool("slug", "1.0.0", spec=slug)
    editor = r.agent("editor", "1.0.0", url="https://agents.example.com/editor").skill("edit", description="Edit text.")
    r.tool("search_and_edit", "1.0.0", spec=w.pipeline(search, editor.ask("edit")), input=query)
    r.agent("writer", "1.0.0").skill("write", input=query).depends_on(search, make_slug, editor.ask("edit"))
    return r


registry = build()


async def main() -> None:
    engine = local(registry.validate().resolved, registry.local())
    print(await engine.execute("slug", {"text": "A loom for tools"}))
    made = registry.to_json()
    print(f"{len(made['tools'])} tools, {len(made['agents'])} agents, {len(registry.problems())} problems")
    broken = build()
    broken.agent("reader", "1.0.0", depends=["search@1.1.0"])
    for problem in broken.problems():
        print(f"{problem.pointer}: {problem.message}")


if __name__ == "__main__":
    asyncio.run(main())
