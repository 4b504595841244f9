"""What a generator returns for one URL, and the rules that it must keep. Pure.

A graph is a list of groups, the entry first. Each group is one thing the platform showed us: a content,
the account that made it, the venue it stands in, and what they measured. A group may refer to a parent
group by its index (a quoted post, the repository a fork came from).

`check()` refuses a graph that breaks the contract. Such a URL is `invalid`: the same code fails on it the
same way for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from workers.errors import ContractViolation
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, ParentRelation, Platform, VenueSubtype

JSONValue: TypeAlias = "str | int | float | bool | list[JSONValue] | dict[str, JSONValue] | None"
Metrics: TypeAlias = Mapping[str, int | float]


@dataclass(frozen=True, kw_only=True, slots=True)
class MentionDraft:
    """Somebody named in a content: a value, never a reference to an account row."""

    platform_key: str
    screen_name: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ContentDraft:
    """A content as the platform showed it. `url` is its canonical URL."""

    platform: Platform
    subtype: ContentSubtype
    url: str
    platform_key: str | None
    published_at: datetime | None = None
    text_primary: str | None = None
    text_body: str | None = None
    text_from_media: str | None = None
    links: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    mentions: tuple[MentionDraft, ...] = ()
    data: Mapping[str, JSONValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountDraft:
    """An account as the platform showed it. `url` is the canonical URL of its profile.

    `followers` is copied to `accounts.metrics.followers`, the one metric that means the same everywhere.
    """

    platform: Platform
    url: str
    platform_key: str | None
    handle: str | None = None
    display_name: str | None = None
    bio: str | None = None
    links: tuple[str, ...] = ()
    declared_handles: tuple[tuple[Platform, str], ...] = ()
    account_created_at: datetime | None = None
    followers: int | None = None
    unavailable: bool | None = None
    data: Mapping[str, JSONValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class VenueDraft:
    """A venue as the platform showed it. `members` is copied to `venues.metrics.members`."""

    platform: Platform
    subtype: VenueSubtype
    url: str
    platform_key: str | None
    name: str | None = None
    description: str | None = None
    venue_created_at: datetime | None = None
    members: int | None = None
    data: Mapping[str, JSONValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectGroup:
    """One thing the platform showed us.

    `account` created `content` (and owns `venue` when there is no content); `content` stands in `venue`.
    `parent_ref` is the index of the group that `content` refers to, `parent_relation` says how.
    `metrics` holds the platform's own key names, per object of this group.
    """

    content: ContentDraft | None = None
    account: AccountDraft | None = None
    venue: VenueDraft | None = None
    parent_ref: int | None = None
    parent_relation: ParentRelation | None = None
    metrics: Mapping[ObjectKind, Metrics] = field(default_factory=dict)

    @property
    def main_object(self) -> ObjectKind | None:
        """The object that this group is about; None for an empty group."""
        for kind, draft in (
            (ObjectKind.CONTENTS, self.content),
            (ObjectKind.VENUES, self.venue),
            (ObjectKind.ACCOUNTS, self.account),
        ):
            if draft is not None:
                return kind
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class SocialObjectGraph:
    """All that one URL gave us. `observed_at` is when the platform was asked (or says it looked).

    `blocked_reason` is set when the entry is there and closed to us (a suspended account, a private profile):
    what is known of it is stored all the same, and the URL is `blocked`.
    """

    groups: tuple[ObjectGroup, ...]
    observed_at: datetime
    blocked_reason: str | None = None


def check(graph: SocialObjectGraph, entry_url: str) -> None:
    """Refuse a graph that breaks the contract.

    Raises `ContractViolation` with one of the rules `empty`, `empty_group`, `unknown_parent`,
    `parent_without_content`, `cyclic`, `unreachable`.
    """
    groups = graph.groups
    if not groups:
        raise ContractViolation("the generator returned no groups", rule="empty", entry_url=entry_url)
    for index, group in enumerate(groups):
        if group.main_object is None:
            raise ContractViolation(f"group {index} holds nothing", rule="empty_group", entry_url=entry_url)
        _check_parent(groups, index, entry_url)
    reached = _walk_parents(groups, entry_url)
    missing = sorted(set(range(len(groups))) - reached)
    if missing:
        raise ContractViolation(
            f"no chain of parents leads from the entry to group {missing[0]}",
            rule="unreachable",
            entry_url=entry_url,
        )


def _check_parent(groups: tuple[ObjectGroup, ...], index: int, entry_url: str) -> None:
    parent_ref = groups[index].parent_ref
    if parent_ref is None:
        return
    if not 0 <= parent_ref < len(groups):
        raise ContractViolation(
            f"group {index} refers to group {parent_ref}, which is not there",
            rule="unknown_parent",
            entry_url=entry_url,
        )
    if groups[parent_ref].content is None or groups[index].content is None:
        raise ContractViolation(
            f"the reference from group {index} to group {parent_ref} needs a content at both ends",
            rule="parent_without_content",
            entry_url=entry_url,
        )


def _walk_parents(groups: tuple[ObjectGroup, ...], entry_url: str) -> set[int]:
    """Follow parents from the entry; each group has at most one, so this is a chain."""
    reached: set[int] = set()
    index: int | None = 0
    while index is not None:
        if index in reached:
            raise ContractViolation(f"group {index} is its own ancestor", rule="cyclic", entry_url=entry_url)
        reached.add(index)
        index = groups[index].parent_ref
    return reached
