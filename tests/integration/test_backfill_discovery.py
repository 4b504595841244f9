"""Which signatures a campaign selects, and what it asks for to find them."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest

from tests.integration.solana_place import SolanaPlace, place
from tests.samples import sample_bytes
from tests.solana_node import ADDRESS, FETCHED, LISTED, Node, Reply, error, signature, signatures
from tests.solana_samples import small_result
from workers.errors import JobFailed
from workers.solana_backfill.campaign_words import Direction
from workers.solana_backfill.discovery import LAST_PAGE_WAS_SHORT, NO_OLDER_SIGNATURES, Discovery, Search
from workers.solana_backfill.vocabulary import Commitment

__all__ = ["place"]

ANCHOR = signature("anchor")


def with_history(place: SolanaPlace, history: Sequence[str], **endpoint: Any) -> None:
    place.node = Node(history)
    place.build(**endpoint)


def with_pages(place: SolanaPlace, *pages: Sequence[str]) -> None:
    """A node that lists exactly these pages, one after the other."""
    place.node = Node()
    place.node.pages = deque(pages)
    place.build()


def planned(result: dict[str, Any]) -> list[str]:
    return [row["signature"] for row in result["data"]]


def failure(place: SolanaPlace, **body: Any) -> JobFailed:
    with pytest.raises(JobFailed) as refusal:
        place.run(**body)
    return refusal.value


@pytest.mark.parametrize("mode", ["program", "token", "pool"])
@pytest.mark.parametrize(
    ("search", "suffix"),
    [
        ({}, "latest"),
        ({"anchor": signature(3)}, "before"),
        ({"direction": "after", "anchor": signature(3)}, "after"),
    ],
)
def test_every_kind_of_address_is_searched_alike_and_told_apart_by_its_code(
    place: SolanaPlace, mode: str, search: dict[str, Any], suffix: str
) -> None:
    with_history(place, signatures(5))
    meta = place.run(mode=mode, **search)["meta"]
    assert meta["filterCode"] == f"{mode}_{suffix}"
    assert {each.method for each in place.http.asked} <= {LISTED, FETCHED}
    assert {each.subject for each in place.http.of(LISTED)} == {ADDRESS}
    assert {row["filter_code"] for row in place.rows()} == {f"{mode}_{suffix}"}
    expected = {"latest": signatures(5), "before": signatures(2, first=4), "after": signatures(2)}
    assert place.stored() == set(expected[suffix])


def test_without_an_anchor_the_first_page_has_no_bound_and_the_next_one_starts_at_its_end(
    place: SolanaPlace,
) -> None:
    with_history(place, signatures(1500))
    place.run(limit=2000, dryRun=True)
    asked = [each.options for each in place.http.of(LISTED)]
    assert ["before" in options for options in asked] == [False, True, True]
    assert [options.get("before") for options in asked[1:]] == [signature(1000), signature(1500)]
    assert not any("until" in options for options in asked)


def test_before_an_anchor_the_first_page_starts_there(place: SolanaPlace) -> None:
    with_history(place, signatures(10))
    result = place.run(anchor=signature(4), dryRun=True)
    assert place.http.of(LISTED)[0].options["before"] == signature(4)
    assert planned(result) == signatures(6, first=5)


def test_after_an_anchor_every_page_ends_there_and_has_a_thousand_entries(place: SolanaPlace) -> None:
    with_history(place, [*signatures(2300), ANCHOR])
    place.run(direction="after", anchor=ANCHOR, limit=5, dryRun=True)
    asked = [each.options for each in place.http.of(LISTED)]
    assert {(options["until"], options["limit"]) for options in asked} == {(ANCHOR, 1000)}
    assert [options.get("before") for options in asked] == [
        None,
        signature(1000),
        signature(2000),
        signature(2300),
    ]


def test_after_an_anchor_the_nearest_are_selected_and_not_the_newest(place: SolanaPlace) -> None:
    with_history(place, [*signatures(2300), ANCHOR])
    result = place.run(direction="after", anchor=ANCHOR, limit=50, dryRun=True)
    assert planned(result) == list(reversed(signatures(50, first=2251))), "next to the anchor first"
    assert result["meta"]["inspected"] == 2300
    assert result["meta"]["stoppedBy"] == "limit"
    assert result["meta"]["historyEnd"] == "reached"


def test_pages_that_do_not_reach_the_anchor_fail_and_say_how_many_were_inspected(place: SolanaPlace) -> None:
    with_history(place, [*signatures(2300), ANCHOR])
    refusal = failure(place, direction="after", anchor=ANCHOR, limit=50, maxPages=2)
    assert refusal.code == "MAX_PAGES_REACHED"
    assert "2000 signatures were inspected" in refusal.detail
    assert "raise maxPages" in refusal.detail
    assert len(place.http.of(LISTED)) == 2
    assert place.stored() == set()
    assert place.rows() == []


def test_an_exactly_full_last_allowed_page_fails_although_the_anchor_was_just_reached(
    place: SolanaPlace,
) -> None:
    with_history(place, [*signatures(2000), ANCHOR])
    assert failure(place, direction="after", anchor=ANCHOR, maxPages=2).code == "MAX_PAGES_REACHED"


def test_a_short_last_allowed_page_is_taken_for_the_end_and_the_summary_says_so(place: SolanaPlace) -> None:
    with_history(place, [*signatures(1300), ANCHOR])
    meta = place.run(direction="after", anchor=ANCHOR, limit=3, maxPages=2, dryRun=True)["meta"]
    assert (meta["historyEnd"], meta["note"]) == ("unproven", LAST_PAGE_WAS_SHORT)


def test_after_never_asks_for_a_twenty_first_page_by_default(place: SolanaPlace) -> None:
    place.node = Node([ANCHOR])
    place.node.pages = deque(signatures(1000, first=1 + 1000 * page) for page in range(30))
    place.node.bodies[ANCHOR] = {"slot": 0}
    place.build()
    refusal = failure(place, direction="after", anchor=ANCHOR, limit=5)
    assert "20000 signatures were inspected on 20 pages" in refusal.detail
    assert len(place.http.of(LISTED)) == 20


def test_a_deep_walk_keeps_the_nearest_five_and_no_more(place: SolanaPlace) -> None:
    with_history(place, [*signatures(5516), ANCHOR])
    session = place.client.open_session(Commitment.FINALIZED, threading.Event())
    search = Search(
        address=ADDRESS,
        direction=Direction.AFTER,
        anchor=ANCHOR,
        limit=5,
        pages_max=20,
        include_failed=True,
    )
    discovery = Discovery(session, place.transactions, place.clock, search, random=lambda: 0.0)
    discovery.run()
    assert [each.signature for each in discovery.selected] == list(reversed(signatures(5, first=5512)))
    assert discovery.found.inspected == 5516
    assert len(discovery.remembered) == 5516 <= search.pages_max * 1000


@pytest.mark.parametrize("direction", ["before", "after"])
def test_doubled_entries_count_once_and_a_short_page_is_not_the_end(
    place: SolanaPlace, direction: str
) -> None:
    every = signatures(2597)
    pages = (every[:1000], every[997:1997], every[1997:2397], every[2397:], [])
    with_pages(place, *pages)
    place.node.bodies[ANCHOR] = {"slot": 1}
    search = {"direction": "after", "anchor": ANCHOR} if direction == "after" else {}
    result = place.run(limit=5000, dryRun=True, **search)
    meta = result["meta"]
    assert (meta["selected"], meta["inspected"], meta["repeated"]) == (2597, 2600, 3)
    assert (meta["pages"], meta["historyEnd"], meta["stoppedBy"]) == (5, "reached", "drained")
    assert planned(result) == (every if direction == "before" else every[::-1])[:1000]
    assert meta["rowsLeftOut"] == 1597


def test_a_short_page_in_the_middle_loses_nothing(place: SolanaPlace) -> None:
    with_pages(place, signatures(3), signatures(5, first=4), [])
    result = place.run(limit=1000)
    assert planned(result) == signatures(8)
    assert [each.options.get("before") for each in place.http.of(LISTED)] == [
        None,
        signature(3),
        signature(8),
    ]


@pytest.mark.parametrize("direction", ["before", "after"])
def test_a_page_with_an_entry_too_many_neither_doubles_nor_loses_it(
    place: SolanaPlace, direction: str
) -> None:
    with_history(place, [*signatures(2500), ANCHOR])
    place.node.row_too_many = True
    search = {"direction": "after", "anchor": ANCHOR} if direction == "after" else {}
    meta = place.run(limit=5000, dryRun=True, **search)["meta"]
    assert meta["selected"] == (2500 if direction == "after" else 2501)


def test_the_limit_ends_a_search_and_the_page_is_not_larger_than_needed(place: SolanaPlace) -> None:
    with_history(place, signatures(50))
    result = place.run(limit=7, dryRun=True)
    assert planned(result) == signatures(7)
    assert [each.options["limit"] for each in place.http.of(LISTED)] == [7]
    assert (result["meta"]["stoppedBy"], result["meta"]["historyEnd"]) == ("limit", "notReached")


def test_the_page_limit_ends_a_search_backwards_without_an_error(place: SolanaPlace) -> None:
    with_history(place, signatures(2500))
    meta = place.run(limit=5000, maxPages=2, dryRun=True)["meta"]
    assert (meta["selected"], meta["pages"]) == (2000, 2)
    assert (meta["stoppedBy"], meta["historyEnd"]) == ("max_pages", "notReached")


def test_failed_transactions_are_selected_unless_nobody_wants_them(place: SolanaPlace) -> None:
    for number in range(1, 7):
        err = {"InstructionError": [0, {"Custom": 1}]} if number % 2 else None
        place.node.add(signature(number), 100 - number, err)
    place.build()
    assert place.run(limit=10, dryRun=True)["meta"]["selected"] == 6
    result = place.run(limit=10, includeFailed=False, dryRun=True)
    assert planned(result) == [signature(2), signature(4), signature(6)]
    assert result["meta"]["leftOut"] == 3


def test_errors_of_a_shape_never_seen_before_leave_the_page_readable(place: SolanaPlace) -> None:
    for number in range(1, 9):
        err = {"SomethingNew": {"deeply": [1, None, {"odd": "x"}]}} if number == 5 else None
        place.node.add(signature(number), 100 - number, err)
    place.build()
    assert planned(place.run(limit=10, dryRun=True)) == signatures(8)


def test_a_recorded_page_is_read_whole(place: SolanaPlace) -> None:
    body = json.loads(sample_bytes("solana/gsfa_full_history_page.json"))
    place.node.say(LISTED, Reply(body={"result": body["result"]}), Reply(body={"result": []}))
    meta = place.run(limit=1000, dryRun=True)["meta"]
    assert meta["selected"] == len(body["result"]) == 312


def test_an_anchor_that_the_node_does_not_know_is_an_error_and_not_an_empty_history(
    place: SolanaPlace,
) -> None:
    with_history(place, signatures(5))
    refusal = failure(place, anchor=ANCHOR)
    assert refusal.code == "ANCHOR_NOT_FOUND"
    assert len(place.http.of(LISTED)) == 2, "once more, because a host may be a pool of nodes"
    assert place.http.fetched() == []
    assert (place.stored(), place.rows()) == (set(), [])


def test_a_bound_that_one_node_of_a_pool_does_not_know_is_asked_for_once_more(place: SolanaPlace) -> None:
    with_history(place, signatures(1200))
    place.node.say(LISTED, Reply(body={"result": [{"signature": signature(1), "slot": 5, "err": None}]}))
    place.node.say(LISTED, error(-32020, "Transaction not found"))
    assert place.run(limit=2000, dryRun=True)["meta"]["selected"] == 1200


def test_bad_parameters_fail_and_are_no_empty_history(place: SolanaPlace) -> None:
    with_history(place, signatures(5))
    place.node.say(LISTED, error(-32602, "Invalid param: Invalid"))
    assert failure(place, anchor=signature(2)).code == "UPSTREAM_FAILED"
    assert len(place.http.of(LISTED)) == 1


def test_a_nodes_own_trouble_in_the_words_of_bad_parameters_is_asked_once_more(place: SolanaPlace) -> None:
    with_history(place, signatures(5))
    place.node.say(LISTED, error(-32602, "Unable to get block: slot 17 cleaned up"))
    assert place.run(dryRun=True)["meta"]["selected"] == 5


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_node_that_ignores_an_unknown_anchor_is_found_out_by_the_slots(
    place: SolanaPlace, is_stored: bool
) -> None:
    """It lists the whole history, of which only the slots show that it did not stop at the anchor."""
    for number in range(1, 10):
        place.node.add(signature(number), 1000 - 100 * number)
    place.node.is_silent_about_bounds = True
    place.node.bodies[ANCHOR] = small_result(signatures=[ANCHOR], slot=500)
    place.build()
    if is_stored:
        place.run(signatures=[ANCHOR])
        place.node.bodies[ANCHOR] = None
    refusal = failure(place, direction="after", anchor=ANCHOR, limit=3)
    assert refusal.code == "ANCHOR_NOT_FOUND"
    assert place.stored() == ({ANCHOR} if is_stored else set())
    assert len([each for each in place.rows() if each["signature"] != ANCHOR]) == 0


def test_an_anchor_that_the_node_cannot_show_is_not_searched_after(place: SolanaPlace) -> None:
    with_history(place, signatures(5))
    place.node.is_silent_about_bounds = True
    assert failure(place, direction="after", anchor=ANCHOR).code == "ANCHOR_NOT_FOUND"
    assert place.http.of(LISTED) == []


def test_an_anchor_of_a_version_that_we_do_not_ask_for_is_known_all_the_same(place: SolanaPlace) -> None:
    with_history(place, [*signatures(3), ANCHOR])
    place.node.say_of(ANCHOR, error(-32015, "Transaction version (2) is not supported"))
    assert place.run(direction="after", anchor=ANCHOR, dryRun=True)["meta"]["selected"] == 3


def test_an_anchor_without_older_signatures_proves_no_complete_history(place: SolanaPlace) -> None:
    with_history(place, signatures(5))
    meta = place.run(anchor=signature(5))["meta"]
    assert (meta["selected"], meta["historyEnd"], meta["note"]) == (0, "unproven", NO_OLDER_SIGNATURES)
    assert meta["resumeBeforeSignature"] == signature(5)


def test_an_empty_history_makes_up_no_resume_point(place: SolanaPlace) -> None:
    meta = place.run()["meta"]
    assert (meta["selected"], meta["historyEnd"]) == (0, "reached")
    assert (meta["resumeBeforeSignature"], meta["resumeAfterSignature"]) == (None, None)


@pytest.mark.parametrize("result", [None, {}, [1], [{"signature": 3, "slot": 1}], [{"signature": "x"}]])
def test_a_page_that_is_none_is_asked_for_again_and_then_fails(place: SolanaPlace, result: object) -> None:
    with_history(place, signatures(5))
    place.node.say(LISTED, *[Reply(body={"result": result})] * 2)
    assert place.run(dryRun=True)["meta"]["selected"] == 5
    place.node.say(LISTED, *[Reply(body={"result": result})] * 10)
    assert failure(place).code == "UPSTREAM_FAILED"


def test_every_request_of_a_session_carries_its_commitment(place: SolanaPlace) -> None:
    with_history(place, [*signatures(3), ANCHOR])
    place.run(direction="after", anchor=ANCHOR, commitment="confirmed")
    assert {each.method for each in place.http.asked} == {LISTED, FETCHED}
    assert {each.options["commitment"] for each in place.http.asked} == {"confirmed"}
    assert {row["commitment"] for row in place.rows()} == {"confirmed"}


def test_a_dry_run_counts_what_the_real_run_then_does_and_writes_nothing(place: SolanaPlace) -> None:
    with_history(place, signatures(20))
    place.run(signatures=[signature(3), signature(9)])
    before = (place.stored(), len(place.rows()))
    dry = place.run(limit=12, dryRun=True)
    assert (place.stored(), len(place.rows())) == before
    assert len(place.http.fetched()) == 2, "a dry run fetches no transaction"
    real = place.run(limit=12)["meta"]
    assert dry["meta"]["planned"] == real["persisted"] == 10
    for name in ("selected", "alreadyPresent", "pages", "inspected", "historyEnd", "stoppedBy"):
        assert dry["meta"][name] == real[name], name
    assert dry["meta"]["selected"] == dry["meta"]["started"] + dry["meta"]["notStarted"]
    assert {row["outcome"] for row in dry["data"]} == {"planned"}
