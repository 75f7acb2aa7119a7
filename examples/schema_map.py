"""Schema map: turn the record of one system into the shape that another one takes, with every kind of source.

Prints:
    {'name': 'Ada Lovelace',
     'phone': '+44 20 1',
     'greeting': 'Dear Ada, your number is 42.',
     'country': 'GB',
     'address': {'city': 'London', 'lines': ['12 St James Sq']}}
"""

import asyncio
from pprint import pprint
from typing import TypedDict

import weft as w
from weft.app import local_engine


class Place(TypedDict):
    town: str
    lines: list[str]


class Contact(TypedDict):
    id: int
    first: str
    last: str
    mobile: str | None
    landline: str
    home: Place


class Address(TypedDict):
    city: str
    lines: list[str]


class Recipient(TypedDict):
    name: str
    phone: str
    greeting: str
    country: str
    address: Address


c = w.path(Contact)

to_recipient = w.composition(
    "to_recipient",
    "Turn a contact of the CRM into a recipient of the parcel service.",
    w.schema_map(
        c,
        Recipient(
            name=w.concat(c["first"], c["last"], separator=" "),
            phone=w.coalesce(c["mobile"], c["landline"]),
            greeting=w.template("Dear {first}, your number is {id}.", first=c["first"], id=c["id"]),
            country=w.literal("GB"),
            address=Address(city=c["home"]["town"], lines=c["home"]["lines"]),
        ),
    ),
    input=Contact,
    output=Recipient,
)

ADA = {
    "id": 42, "first": "Ada", "last": "Lovelace", "mobile": None, "landline": "+44 20 1",
    "home": {"town": "London", "lines": ["12 St James Sq"]},
}  # fmt: skip

if __name__ == "__main__":
    pprint(asyncio.run(local_engine(to_recipient).execute("to_recipient", ADA)), sort_dicts=False)
