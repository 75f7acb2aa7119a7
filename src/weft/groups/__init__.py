"""Grouped tools: many actions behind one tool, compiled once.

Many things are called a group here. A `GroupedTool` is one that an author writes with `w.group`, and an `ActionGroup` a
part of it (`users`, in `users.create`). A `GroupRule` is what somebody who runs a gateway says of tools that others
have, in weft.yaml (`config.Group`) or in a registry (`ir.GroupDef`); the gateway makes a `Grouped` of it. `model.Group`
is the domain model for those who sort tools, prompts and resources themselves; weft itself does not use it.
"""
