"""Events come out of any chunking of the same bytes, as the standard says."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.upstreams.sse import Event, EventTooLarge, SseParser


def events(*pieces: bytes, limit: int = 1000) -> list[Event]:
    parser = SseParser(limit=limit)
    return [event for piece in pieces for event in parser.feed(piece)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_any_line_end_ends_a_line(end: bytes):
    assert events(end.join([b"event: ping", b"data: 1", b"data: 2", b"", b""])) == [Event(b"1\n2", "ping")]


def test_line_ends_may_be_mixed_within_an_event():
    assert events(b"data: 1\rdata: 2\r\ndata: 3\n\r\n") == [Event(b"1\n2\n3")]


def test_a_cr_and_its_lf_in_two_pieces_are_one_line_end():
    assert events(b"data: 1\r", b"\ndata: 2\r", b"\n\r", b"\n") == [Event(b"1\n2")]


def test_a_byte_order_mark_is_skipped_at_the_start_only():
    assert events(b"\xef", b"\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n") == [Event(b"1")]


def test_comments_and_unknown_fields_are_skipped():
    assert events(b": hello\n\nnote: x\ndata:1\n: again\ndata\n\n") == [Event(b"1\n")]


def test_one_space_after_the_colon_is_not_part_of_the_value():
    assert events(b"data:  two\n\n") == [Event(b" two")]


def test_an_event_that_never_ended_is_not_told():
    assert events(b"data: 1\n\ndata: 2\n") == [Event(b"1")]


def test_the_type_belongs_to_one_event_and_the_id_to_all_that_follow():
    parser = SseParser(limit=100)
    assert parser.feed(b"id: 7\nevent: a\ndata: 1\n\ndata: 2\n\n") == [Event(b"1", "a"), Event(b"2")]
    assert parser.last_id == "7"


def test_an_id_counts_when_its_event_ends_and_not_if_it_has_a_nul():
    parser = SseParser(limit=100)
    parser.feed(b"id: 7\n\nid: 8\n")
    assert parser.last_id == "7"
    parser.feed(b"\nid: 9\0\n\n")
    assert parser.last_id == "8"


def test_retry_is_a_number_of_milliseconds_or_nothing():
    parser = SseParser(limit=100)
    parser.feed(b"retry: 250\nretry: soon\nretry: -1\n\n")
    assert parser.retry == 250


@pytest.mark.parametrize("line", [b"data: " + b"x" * 200 + b"\n", b"data: " + b"x" * 200, b": " + b"x" * 200])
def test_an_event_over_the_limit_is_refused(line: bytes):
    with pytest.raises(EventTooLarge):
        events(line, limit=100)


def test_many_small_lines_are_together_under_the_limit_of_one_event():
    with pytest.raises(EventTooLarge):
        events(*[b"data: 0123456789\n"] * 20, limit=100)
    assert len(events(*[b"data: 0123456789\n\n"] * 20, limit=100)) == 20


def test_pending_says_that_an_event_has_begun():
    parser = SseParser(limit=100)
    parser.feed(b"data: 1\n\n")
    assert not parser.pending
    parser.feed(b"da")
    assert parser.pending


fields = st.sampled_from(
    [b"data", b"data: 1", b"data:x", b": c", b"id: 3", b"event: e", b"", b"", b"retry: 5", b"x\xff: \0"]
)
ends = st.sampled_from([b"\n", b"\r", b"\r\n"])


@given(
    stream=st.lists(st.tuples(fields, ends), max_size=12).map(lambda lines: b"".join(a + b for a, b in lines)),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    cuts=st.lists(st.integers(0, 150), max_size=8),
)
def test_any_chunking_gives_the_same_events(stream: bytes, mark: bytes, cuts: list[int]):
    whole = mark + stream
    places = [0, *sorted(cuts), len(whole)]
    pieces = [whole[start:end] for start, end in itertools.pairwise(places)]
    apart, together = SseParser(limit=10_000), SseParser(limit=10_000)
    told = [event for piece in pieces for event in apart.feed(piece)]
    assert told == together.feed(whole)
    assert (apart.last_id, apart.retry, apart.pending) == (together.last_id, together.retry, together.pending)
    singly = SseParser(limit=10_000)
    assert told == [event for byte in whole for event in singly.feed(bytes([byte]))]
