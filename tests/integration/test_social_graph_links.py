"""Links in a real store: appending, replacing a URL's set, and counts as of a time."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from bson import ObjectId

from tests.conftest import FakeClock
from tests.integration.social_graph_server import graph_database
from workers.mongo import MongoDatabase
from workers.social_graph.token_link import TokenLink, TokenLinkRepository
from workers.social_graph.vocabulary import ContentSubtype, LinkStatus, ObjectKind, Platform

__all__ = ["graph_database"]

AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
OBJECT = ObjectId()


def link(
    address: str = "t",
    object_id: ObjectId = OBJECT,
    *,
    hours: int = 0,
    entry_url: str = "https://a.org/",
    ancestors: tuple[ObjectId, ...] = (),
) -> TokenLink:
    return TokenLink.of(
        token_address=address,
        object=ObjectKind.CONTENTS,
        object_id=object_id,
        entry_url=entry_url,
        created_at=AT + timedelta(hours=hours),
        observed_at=AT,
        status=LinkStatus.OK,
        platform=Platform.WEB,
        subtype=ContentSubtype.SITE,
        ancestor_ids=ancestors,
    )


@pytest.fixture
def links(graph_database: MongoDatabase, clock: FakeClock) -> TokenLinkRepository:
    return TokenLinkRepository(graph_database, clock)


def test_appended_links_come_back_equal(links: TokenLinkRepository, clock: FakeClock) -> None:
    written = link(ancestors=(ObjectId(),))
    links.append_many([written])
    (found,) = links.find_by_token_and_entry_url("t", "https://a.org/")
    assert found.to_document() == {**written.to_document(), "updated_at": clock.now()}


def test_nothing_to_append_is_nothing(links: TokenLinkRepository) -> None:
    links.append_many([])
    assert links.find_by_token("t", AT) == []


def test_deleting_takes_the_links_of_that_url_of_that_token_only(links: TokenLinkRepository) -> None:
    links.append_many([link(), link(object_id=ObjectId()), link(entry_url="https://b.org/"), link("other")])
    assert links.delete_by_token_and_entry_url("t", "https://a.org/") == 2
    assert links.delete_by_token_and_entry_url("t", "https://a.org/") == 0
    assert len(links.find_by_token("t", AT)) == 1
    assert len(links.find_by_token("other", AT)) == 1


def test_the_cut_includes_its_own_instant(links: TokenLinkRepository) -> None:
    links.append_many([link(hours=1)])
    cut = AT + timedelta(hours=1)
    assert links.count_by_object_as_of(OBJECT, cut) == 1
    assert links.count_by_object_as_of(OBJECT, cut - timedelta(milliseconds=1)) == 0


def test_one_token_with_two_urls_to_an_object_counts_once(links: TokenLinkRepository) -> None:
    links.append_many([link(), link(entry_url="https://b.org/")])
    assert links.count_by_object_as_of(OBJECT, AT) == 1


def test_a_link_through_another_object_counts_for_the_lineage_only(links: TokenLinkRepository) -> None:
    quoting = ObjectId()
    links.append_many([link(ancestors=(quoting,)), link("other", quoting)])
    assert links.count_by_object_as_of(OBJECT, AT) == 0
    assert links.count_by_lineage_as_of(OBJECT, AT) == 1
    assert links.count_by_lineage_as_of(quoting, AT) == 2
    assert [each.token_address for each in links.find_by_lineage_as_of(quoting, AT)] == ["t", "other"]


def test_the_latest_link_between_a_token_and_an_object_is_found(links: TokenLinkRepository) -> None:
    links.append_many([link(hours=1), link(hours=3), link(hours=2)])
    latest = links.find_latest_by_object_and_token(OBJECT, "t")
    assert latest is not None
    assert latest.created_at == AT + timedelta(hours=3)
    assert links.find_latest_by_object_and_token(OBJECT, "other") is None


def test_counts_as_of_any_time_agree_with_counting_by_hand(links: TokenLinkRepository) -> None:
    chance = random.Random(5)  # noqa: S311 - the same links in every run
    objects = [ObjectId() for _ in range(4)]
    written = [
        link(
            f"t{chance.randrange(6)}",
            chance.choice(objects),
            hours=chance.randrange(10),
            entry_url=f"https://a.org/{chance.randrange(3)}",
            ancestors=tuple(chance.sample(objects, chance.randrange(3))),
        )
        for _ in range(120)
    ]
    links.append_many(written)
    for each in objects:
        for hours in range(-1, 11):
            cut = AT + timedelta(hours=hours)
            until = [row for row in written if row.created_at <= cut]
            direct = {row.token_address for row in until if row.object_id == each and row.is_direct}
            through = {row.token_address for row in until if each in row.lineage}
            assert links.count_by_object_as_of(each, cut) == len(direct)
            assert links.count_by_lineage_as_of(each, cut) == len(through)
