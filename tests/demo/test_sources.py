"""The demo's sources: documents, web search, papers, news, pages and the summariser."""

from __future__ import annotations

import asyncio
import http.server
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from weft.demo.arxiv import Arxiv
from weft.demo.documents import Documents
from weft.demo.fetch import Fetch
from weft.demo.flaky import Flaky
from weft.demo.search import Search
from weft.demo.shelf import CORPUS, MEMORY, Shelf, corpus
from weft.demo.summarize import Text, summarize
from weft.errors import ToolFailed


def test_the_bundled_documents_are_a_few_dozen_with_places_of_their_own():
    documents = corpus()
    assert len({one.url for one in documents}) == len(documents) >= 36
    assert {one.collection for one in documents} == {"web", "arxiv", "wiki", "news"}
    known = {one.url for one in documents}
    assert {one.link for one in documents if one.link} <= known, "what the news links to can be fetched"


def test_a_search_finds_other_forms_of_a_word_and_ranks_who_has_most_of_the_words():
    found = Shelf().search("bees city", limit=50)
    assert found[0].score > 0.8
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert {one.document.url for one in Shelf().search("bee", limit=50)} == {
        one.document.url for one in Shelf().search("bees", limit=50)
    }


@pytest.mark.parametrize("query", ["", "the and for", '"', "a OR b NEAR(", "title:bees^2 *", "qqqq"])
def test_no_query_is_an_error_of_the_index(query: str):
    assert isinstance(Shelf().search(query, limit=5), list)


def test_a_document_that_was_stored_can_be_found_got_and_kept(tmp_path: Path):
    file = str(tmp_path / "documents.db")
    made = Documents(file).create_document("Zebra crossings", "Stripes slow the traffic.", author="me")
    again = Documents(file)
    assert again.get_document(made["id"])["text"] == "Stripes slow the traffic."
    assert again.search_documents("zebra")[0]["id"] == made["id"]
    with pytest.raises(ToolFailed, match="another title"):
        again.create_document("Zebra crossings", "Again.")
    with pytest.raises(ToolFailed, match="search_documents gives ids"):
        again.get_document("demo://nowhere")


def test_a_search_stays_in_its_collection_and_below_its_limit():
    found = Documents(MEMORY).search_documents("bees", collection="wiki", limit=2)
    assert [one["collection"] for one in found] == ["wiki", "wiki"]


def test_the_web_search_leaves_out_what_is_older_than_asked():
    search = Search(MEMORY)
    assert {one["link"] for one in search.search("compost")} == {"demo://web/compost"}
    assert search.search("compost", since="2022") == []
    assert len(search.search("city bees", limit=2)) == 2


def test_papers_have_scores_authors_and_a_pdf_if_they_are_new():
    arxiv = Arxiv(MEMORY)
    first, *others = arxiv.arxiv_search("wild bees cities")
    assert first["authors"]
    assert all(first["score"] >= other["score"] for other in others)
    assert arxiv.arxiv_paper("2305.00101")["pdf_url"] is None
    assert arxiv.arxiv_paper("2409.00303")["pdf_url"] == "demo://arxiv/2409.00303.pdf"
    with pytest.raises(ToolFailed, match="no paper"):
        arxiv.arxiv_paper("0000.00000")


async def test_the_news_source_fails_as_often_as_it_is_told_to():
    flaky = Flaky(MEMORY)
    assert await flaky.news_search("bees")
    flaky.news_mood("fail", calls=2)
    for _ in range(2):
        with pytest.raises(ToolFailed, match="closed for repairs"):
            await flaky.news_search("bees")
    assert await flaky.news_search("bees")


async def test_a_news_source_that_hangs_can_be_given_up():
    flaky = Flaky(MEMORY)
    flaky.news_mood("hang")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(flaky.news_search("bees"), 0.05)


@pytest.fixture
def site() -> Generator[str]:
    """Yield the URL of a web site on this machine."""

    class Pages(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = {"/page": (200, "text/html"), "/away": (302, "text/html"), "/text": (200, "text/plain")}
            status, kind = found.get(self.path, (404, "text/html"))
            body = b"<title>A page</title><style>b{}</style><p>Bees <b>sleep</b>.</p><script>no</script>"
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Location", "http://example.com/")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_a_page_of_this_machine_is_fetched_as_text(site: str):
    page = await Fetch(MEMORY).fetch(f"{site}/page")
    assert (page["title"], page["content"]) == ("A page", "Bees sleep .")
    assert "<title>" in (await Fetch(MEMORY).fetch(f"{site}/text"))["content"]


@pytest.mark.parametrize(("path", "told"), [("/away", "answered 302"), ("/gone", "answered 404")])
async def test_a_page_that_leads_away_or_nowhere_is_refused(path: str, told: str, site: str):
    with pytest.raises(ToolFailed, match=told):
        await Fetch(MEMORY).fetch(site + path)


async def test_pages_of_the_demo_are_fetched_and_cut_to_the_length_asked_for():
    fetch = Fetch(MEMORY)
    whole = await fetch.fetch("demo://arxiv/2409.00303.pdf")
    assert whole["title"] == "Night light and the sleep of pollinators"
    cut = await fetch.fetch("demo://arxiv/2409.00303", max_length=10)
    assert (cut["content"], cut["truncated"]) == (whole["content"][:10], True)
    assert "demo://web" in (await fetch.fetch(CORPUS.as_uri()))["content"]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://example.com/", "does not go out"),
        ("http://169.254.169.254/", "does not go out"),
        ("file:///etc/passwd", "is not below"),
        (f"{CORPUS.parent.as_uri()}/../../../pyproject.toml", "is not below"),
        (f"{CORPUS.parent.as_uri()}/missing.md", "no such file"),
        ("demo://web/nothing", "there is nothing"),
        ("bees", "is no address"),
        ("http://127.0.0.1:9/", "cannot be fetched"),
    ],
)
async def test_nothing_else_is_fetched(url: str, told: str):
    with pytest.raises(ToolFailed, match=told):
        await Fetch(MEMORY).fetch(url)


def text(content: str) -> Text:
    return {"title": content[:5], "url": "demo://x", "content": content}


def test_a_summary_keeps_what_several_documents_say_and_leaves_out_what_stands_alone():
    report = summarize(
        [
            text("Wild bees need flowers in the city. My shoes are brown."),
            text("Cities with many flowers have more wild bees. The moon rose."),
            text("Bees find flowers in city gardens. Lunch was late."),
        ],
        sentences=2,
    )
    assert report["summary"].count(".") == 2
    assert not {"shoes", "moon", "Lunch"} & set(report["summary"].split())
    assert [one["url"] for one in report["sources"]] == ["demo://x"] * 3


def test_a_sentence_is_not_said_twice():
    report = summarize([text("Bees like flowers."), text("Bees like flowers."), text("Rain falls on roofs.")])
    assert report["summary"] == "Bees like flowers. Rain falls on roofs."


def test_nothing_is_summed_up_as_nothing():
    assert summarize([]) == {"summary": "", "sources": []}
    assert summarize([text("no full stop")])["summary"] == "no full stop"
