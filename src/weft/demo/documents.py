"""The documents that the demo searches: all written for it, none of them real."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Shelf = Literal["web", "arxiv", "internal"]


@dataclass(frozen=True, slots=True)
class Document:
    """One document: where it stands, and what it says."""

    shelf: Shelf
    url: str
    title: str
    text: str
    date: str = ""
    author: str = ""


def _web(page: str, title: str, text: str) -> Document:
    return Document("web", f"https://garden.example/{page}", title, text)


def _paper(number: str, title: str, text: str, date: str, author: str) -> Document:
    return Document("arxiv", f"demo.{number}", title, text, date, author)


def _note(page: str, title: str, text: str, date: str, author: str) -> Document:
    return Document("internal", f"/wiki/{page}", title, text, date, author)


DOCUMENTS = (
    _web(
        "balcony", "Ten plants for a balcony that bees love",
        "Lavender, thyme and borage feed bees from spring to autumn. Plant them in groups, since bees visit one "
        "kind of flower at a time. Leave the herbs to bloom instead of cutting them back.",
    ),
    _web(
        "hotels", "Do insect hotels work?",
        "Wild bees use hollow stems of three to nine millimetres. Many hotels in shops have holes that are too "
        "wide. A dead branch in the sun is often the better house.",
    ),
    _web(
        "roofs", "Green roofs in our city",
        "A green roof keeps rain back and cools the rooms below it. Roofs with deep soil carry more flowers and "
        "more insects than thin ones. The city pays a third of the cost.",
    ),
    _web(
        "honey", "Honey from the city centre",
        "City honey has notes of linden and chestnut. Hives on roofs in cities often give more honey than hives "
        "between fields, because something is always in bloom. Too many hives leave wild bees hungry.",
    ),
    _web(
        "rain", "Collecting rain water",
        "A barrel under the gutter fills in one summer storm. Cover it, or mosquitoes will move in. Plants like "
        "rain water better than water from the tap.",
    ),
    _paper(
        "0001", "Wild bees along urban gradients",
        "We counted wild bees at forty sites between a city centre and its farmland. Species richness was highest "
        "in gardens at the edge of the city. Bees that nest in the ground were rare where more than half of it was "
        "sealed.",
        "2023-05-11", "A. Example",
    ),
    _paper(
        "0002", "Competition between managed and wild bees in cities",
        "We removed hives from half of twelve city parks. Within one season visits of wild bees to flowers rose by "
        "a third. We conclude that the number of hives should follow the flowers that are there.",
        "2024-02-02", "B. Example",
    ),
    _paper(
        "0003", "Night light and the sleep of pollinators",
        "Moths and bees near street lamps rested less and visited fewer flowers on the next day. Warm light below "
        "2200 kelvin had no measurable effect. Cities can protect pollinators at no cost by changing lamps.",
        "2024-09-20", "C. Example",
    ),
    _paper(
        "0004", "A queue model of pedestrian crossings",
        "We model crossings as queues with two classes of customers. Waiting falls by a fifth when lights follow "
        "demand.",
        "2022-01-30", "D. Example",
    ),
    _paper(
        "0005", "Thermal comfort under street trees",
        "Street trees lowered the felt temperature by up to nine degrees at noon. Rows of linden gave more shade "
        "than single trees. Cities that plant now will feel it in twenty years.",
        "2023-11-08", "E. Example",
    ),
    _note(
        "pollinator-plan", "Pollinator plan of the parks department",
        "By next spring every park has one meadow that is mown only twice a year. Bees need water too: each park "
        "gets a shallow pool. We agreed on at most three hives in a park.",
        "2025-03-14", "parks",
    ),
    _note(
        "mowing", "Mowing calendar",
        "Meadows are mown in July and in October. Cut grass stays for two days, so that insects can leave it. "
        "Verges at crossings are mown monthly for safety.",
        "2025-01-20", "parks",
    ),
    _note(
        "lamps", "Street lamp replacement",
        "Lamps along the river change to warm light this year. The cost is part of the maintenance budget. Bees "
        "and moths were the reason for the choice of 2200 kelvin.",
        "2024-12-01", "lights",
    ),
    _note(
        "budget", "Budget of the parks department",
        "Meadows cost less than lawns after the third year. Two gardeners are trained for wild flowers.",
        "2025-02-10", "finance",
    ),
    _note(
        "school-hives", "Bees at school",
        "Four schools keep a hive with a beekeeper of the city. Children learn how bees find flowers. Parents are "
        "told about allergies first.",
        "2024-06-05", "schools",
    ),
)  # fmt: skip
"""Fifteen short texts of an invented city."""
