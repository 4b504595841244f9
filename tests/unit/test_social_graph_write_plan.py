"""What a graph means for the store."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from workers.errors import ContractViolation
from workers.social_graph.vocabulary import (
    ContentSubtype,
    ObjectKind,
    ParentRelation,
    Platform,
    VenueSubtype,
)
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    ObjectGroup,
    SocialObjectGraph,
    VenueDraft,
)
from workers.social_recording.write_plan import PlannedLink, RowRef, plan

ENTRY = "https://x.com/i/status/1"


def content(key: str | None, url: str | None = None) -> ContentDraft:
    return ContentDraft(
        platform=Platform.X,
        subtype=ContentSubtype.TWEET,
        url=url or f"https://x.com/i/status/{key}",
        platform_key=key,
    )


def account(key: str | None, url: str) -> AccountDraft:
    return AccountDraft(platform=Platform.X, url=url, platform_key=key)


VENUE = VenueDraft(
    platform=Platform.X,
    subtype=VenueSubtype.COMMUNITY,
    url="https://x.com/i/communities/9",
    platform_key="9",
)


def graph(*groups: ObjectGroup) -> SocialObjectGraph:
    return SocialObjectGraph(groups=groups, observed_at=datetime(2026, 1, 15, tzinfo=UTC))


def quoting(parent: int, **fields: object) -> ObjectGroup:
    return ObjectGroup(parent_ref=parent, parent_relation=ParentRelation.QUOTE, **fields)


def ref(kind: ObjectKind, index: int) -> RowRef:
    return RowRef(kind=kind, index=index)


def test_parents_come_before_their_children() -> None:
    planned = plan(
        graph(
            quoting(2, content=content("1")),
            ObjectGroup(content=content("3")),
            quoting(1, content=content("2")),
        ),
        ENTRY,
    )
    assert [row.draft.platform_key for row in planned.contents] == ["3", "2", "1"]
    assert [row.parent for row in planned.contents] == [None, 0, 1]
    assert planned.entry == ref(ObjectKind.CONTENTS, 2)


def test_a_content_links_to_itself_and_to_what_it_refers_to() -> None:
    planned = plan(
        graph(
            quoting(1, content=content("1"), account=account("7", "https://x.com/a"), venue=VENUE),
            ObjectGroup(content=content("2"), account=account("8", "https://x.com/b")),
        ),
        ENTRY,
    )
    entry = ref(ObjectKind.CONTENTS, 1)
    assert planned.links == (
        PlannedLink(target=entry),
        PlannedLink(target=ref(ObjectKind.CONTENTS, 0), via=entry),
        PlannedLink(target=ref(ObjectKind.ACCOUNTS, 0), via=entry),
        PlannedLink(target=ref(ObjectKind.VENUES, 0), via=entry),
    )


def test_an_account_alone_is_linked_directly() -> None:
    planned = plan(graph(ObjectGroup(account=account("7", "https://x.com/a"))), "https://x.com/a")
    assert planned.links == (PlannedLink(target=ref(ObjectKind.ACCOUNTS, 0)),)


def test_an_account_beside_a_venue_owns_it_and_is_linked_through_it() -> None:
    planned = plan(graph(ObjectGroup(account=account("7", "https://x.com/a"), venue=VENUE)), VENUE.url)
    venue = ref(ObjectKind.VENUES, 0)
    assert planned.venues[0].creator == 0
    assert planned.links == (
        PlannedLink(target=venue),
        PlannedLink(target=ref(ObjectKind.ACCOUNTS, 0), via=venue),
    )


def test_an_account_beside_a_content_does_not_own_the_venue() -> None:
    group = ObjectGroup(content=content("1"), account=account("7", "https://x.com/a"), venue=VENUE)
    planned = plan(graph(group), ENTRY)
    assert planned.venues[0].creator is None
    assert (planned.contents[0].creator, planned.contents[0].venue) == (0, 0)


def test_the_entry_object_gets_the_entry_url_beside_its_own() -> None:
    group = ObjectGroup(content=content("1"), account=account("7", "https://x.com/a"))
    planned = plan(graph(group), "https://t.co/abc")
    assert planned.contents[0].urls == ("https://x.com/i/status/1", "https://t.co/abc")
    assert planned.accounts[0].urls == ("https://x.com/a",)


@pytest.mark.parametrize(
    ("first", "second", "urls"),
    [
        (
            account("7", "https://x.com/a"),
            account("7", "https://x.com/A"),
            ("https://x.com/a", "https://x.com/A"),
        ),
        (account(None, "https://x.com/a"), account("7", "https://x.com/a"), ("https://x.com/a",)),
    ],
)
def test_one_account_in_two_groups_is_one_row(
    first: AccountDraft, second: AccountDraft, urls: tuple[str, ...]
) -> None:
    planned = plan(
        graph(
            quoting(1, content=content("1"), account=first), ObjectGroup(content=content("2"), account=second)
        ),
        ENTRY,
    )
    assert [row.urls for row in planned.accounts] == [urls]
    assert planned.accounts[0].draft is first
    assert [row.creator for row in planned.contents] == [0, 0]


def test_accounts_with_blank_keys_are_not_the_same() -> None:
    planned = plan(
        graph(
            quoting(1, content=content("1"), account=account("", "https://x.com/a")),
            ObjectGroup(content=content("2"), account=account("", "https://x.com/b")),
        ),
        ENTRY,
    )
    assert len(planned.accounts) == 2


@pytest.mark.parametrize("again", [content("1", "https://x.com/i/status/other"), content(None, ENTRY)])
def test_a_content_that_is_its_own_parent_under_another_name_is_cyclic(again: ContentDraft) -> None:
    with pytest.raises(ContractViolation) as caught:
        plan(graph(quoting(1, content=content("1")), ObjectGroup(content=again)), ENTRY)
    assert (caught.value.rule, caught.value.entry_url, caught.value.field) == ("cyclic", ENTRY, "groups")
    assert ENTRY in str(caught.value)


def test_a_broken_graph_has_no_plan() -> None:
    with pytest.raises(ContractViolation) as caught:
        plan(graph(ObjectGroup(content=content("1")), ObjectGroup(content=content("2"))), ENTRY)
    assert (caught.value.rule, caught.value.entry_url) == ("unreachable", ENTRY)


def test_metrics_stay_with_their_object() -> None:
    group = ObjectGroup(
        content=content("1"),
        account=account("7", "https://x.com/a"),
        metrics={ObjectKind.CONTENTS: {"favorite_count": 3}, ObjectKind.ACCOUNTS: {"followers": 4}},
    )
    planned = plan(graph(group), ENTRY)
    assert planned.contents[0].metrics == {"favorite_count": 3}
    assert planned.accounts[0].metrics == {"followers": 4}
