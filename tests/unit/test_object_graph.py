"""Which graphs break the contract."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from workers.errors import ContractViolation
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, ParentRelation, Platform
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    ObjectGroup,
    SocialObjectGraph,
    check,
)

ENTRY = "https://x.com/i/status/1"


def tweet(key: str, parent: int | None = None) -> ObjectGroup:
    return ObjectGroup(
        content=ContentDraft(
            platform=Platform.X,
            subtype=ContentSubtype.TWEET,
            url=f"https://x.com/i/status/{key}",
            platform_key=key,
        ),
        parent_ref=parent,
        parent_relation=None if parent is None else ParentRelation.QUOTE,
    )


PROFILE = ObjectGroup(
    account=AccountDraft(platform=Platform.X, url="https://x.com/a", platform_key="7", handle="a")
)


def graph(*groups: ObjectGroup) -> SocialObjectGraph:
    return SocialObjectGraph(groups=groups, observed_at=datetime(2026, 1, 15, tzinfo=UTC))


@pytest.mark.parametrize(
    ("groups", "rule"),
    [
        ((), "empty"),
        ((ObjectGroup(),), "empty_group"),
        ((tweet("1", parent=1),), "unknown_parent"),
        ((tweet("1", parent=-1), tweet("2")), "unknown_parent"),
        ((tweet("1", parent=1), PROFILE), "parent_without_content"),
        ((tweet("1", parent=1), tweet("2", parent=0)), "cyclic"),
        ((tweet("1", parent=0),), "cyclic"),
        ((tweet("1"), tweet("2")), "unreachable"),
    ],
)
def test_a_broken_graph_is_refused_with_its_rule_and_entry_url(
    groups: tuple[ObjectGroup, ...], rule: str
) -> None:
    with pytest.raises(ContractViolation) as caught:
        check(graph(*groups), ENTRY)
    assert (caught.value.rule, caught.value.entry_url) == (rule, ENTRY)


def test_a_chain_of_parents_is_accepted() -> None:
    check(graph(tweet("1", parent=2), tweet("3"), tweet("2", parent=1)), ENTRY)


def test_the_main_object_of_a_group_is_its_content_then_its_venue_then_its_account() -> None:
    assert tweet("1").main_object is ObjectKind.CONTENTS
    assert PROFILE.main_object is ObjectKind.ACCOUNTS
    assert ObjectGroup().main_object is None
