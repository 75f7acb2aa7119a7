"""Recipient list: send a notification over the channels that the user has chosen, and over no other.

Prints:
    ['mail: Your parcel is here.', 'sms: Your parcel is here.']
    Recipient 'fax' is not allowed
"""

import asyncio
from typing import TypedDict

import weft as w
from weft.app import local_engine
from weft.errors import ExecutionFailed


class Notification(TypedDict):
    text: str
    channels: list[str]


@w.python_tool
async def mail(text: str) -> str:
    return f"mail: {text}"


@w.python_tool
async def sms(text: str) -> str:
    return f"sms: {text}"


@w.python_tool
async def push(text: str) -> str:
    return f"push: {text}"


n = w.path(Notification)

notify = w.composition(
    "notify",
    "Send a text over the channels that the notification names.",
    w.recipient_list(n["channels"], allowed=[mail, sms, push], input=n["text"]),
    input=Notification,
)


async def main() -> None:
    engine = local_engine(notify)
    text = "Your parcel is here."
    print(await engine.execute("notify", {"text": text, "channels": ["mail", "sms"]}))
    try:
        await engine.execute("notify", {"text": text, "channels": ["mail", "fax"]})
    except ExecutionFailed as error:
        print(error)


if __name__ == "__main__":
    asyncio.run(main())
