"""A process that serves the fake gateway on its stdin and stdout, as `weft serve --stdio` does with the real one."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))
    from tests.doors.mcp.fakes import FakeGateway, Happened
    from weft.doors.mcp import StdioDoor
    from weft.ports import Caller

    class Chatty(FakeGateway):
        """It prints what it should not, and changes its list when it is told to."""

        async def tool_change(self, arguments: dict[str, object], caller: Caller) -> dict[str, object]:
            print("this is not a message")  # noqa: T201 - what a careless tool does
            self.happen(Happened("notifications/tools/list_changed"))
            return {"content": []}

    async def main() -> None:
        await StdioDoor(Chatty()).serve()

    asyncio.run(main())
