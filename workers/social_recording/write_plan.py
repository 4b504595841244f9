"""What a graph means for the store: which rows, in which order, and which links. Pure.

Rows refer to each other by position, because ids are known only once the rows are found or stored. The same
account, venue or content shown by several groups is one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from workers.errors import ContractViolation
from workers.social_graph.stored_text import stored_key
from workers.social_graph.vocabulary import ObjectKind, ParentRelation
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    Metrics,
    ObjectGroup,
    SocialObjectGraph,
    VenueDraft,
    check,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RowRef:
    """A row of the plan: its kind and its position among the rows of that kind."""

    kind: ObjectKind
    index: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountRow:
    """An account and the URLs it was seen under, its canonical one first."""

    draft: AccountDraft
    urls: tuple[str, ...]
    metrics: Metrics = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class VenueRow:
    """A venue; `creator` is the position of the account that owns it."""

    draft: VenueDraft
    urls: tuple[str, ...]
    creator: int | None = None
    metrics: Metrics = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class ContentRow:
    """A content; the positions of what it refers to. A parent stands before its children."""

    draft: ContentDraft
    urls: tuple[str, ...]
    creator: int | None = None
    venue: int | None = None
    parent: int | None = None
    parent_relation: ParentRelation | None = None
    metrics: Metrics = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedLink:
    """One link: to `target`, through `via` when the entry URL does not show the target itself."""

    target: RowRef
    via: RowRef | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WritePlan:
    """All rows of one graph in the order of writing, and the links of its entry URL."""

    entry: RowRef
    accounts: tuple[AccountRow, ...]
    venues: tuple[VenueRow, ...]
    contents: tuple[ContentRow, ...]
    links: tuple[PlannedLink, ...]


RowT = TypeVar("RowT", AccountRow, VenueRow)


class _Rows(Generic[RowT]):
    """Collects rows of one kind, each object once; the first draft of an object stands."""

    def __init__(self) -> None:
        self.rows: list[RowT] = []

    def add(self, row: RowT) -> int:
        for index, known in enumerate(self.rows):
            if _is_same(known, row):
                self.rows[index] = replace(
                    known,
                    urls=_merged(known.urls, row.urls),
                    metrics={**row.metrics, **known.metrics},
                )
                return index
        self.rows.append(row)
        return len(self.rows) - 1


def plan(graph: SocialObjectGraph, entry_url: str) -> WritePlan:
    """Plan the writing of a graph that `entry_url` gave.

    Raises `ContractViolation` for a graph that breaks the contract.
    """
    check(graph, entry_url)
    chain = _parent_chain(graph.groups)
    _refuse_repetition(chain, entry_url)
    accounts: _Rows[AccountRow] = _Rows()
    venues: _Rows[VenueRow] = _Rows()
    # The entry comes first for accounts and venues, so that its drafts are the ones that stand.
    places = [_place(group, accounts, venues, entry_url if group is chain[0] else None) for group in chain]
    contents = _contents(chain, places, entry_url)
    entry = _entry(chain[0], places[0], contents)
    return WritePlan(
        entry=entry,
        accounts=tuple(accounts.rows),
        venues=tuple(venues.rows),
        contents=contents,
        links=_links(places[0], entry, contents),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Where a group's account and venue stand among the rows."""

    account: int | None
    venue: int | None


def _parent_chain(groups: tuple[ObjectGroup, ...]) -> list[ObjectGroup]:
    """The groups from the entry to its last ancestor; every group is one of them."""
    chain = [groups[0]]
    while (parent := chain[-1].parent_ref) is not None:
        chain.append(groups[parent])
    return chain


def _refuse_repetition(chain: list[ObjectGroup], entry_url: str) -> None:
    """Two groups of one chain that show the same content make it its own ancestor."""
    seen: set[object] = set()
    for group in chain:
        if group.content is None:
            continue
        draft = group.content
        names: set[object] = {draft.url}
        if key := stored_key(draft.platform_key):
            names.add((draft.platform, draft.subtype, key))
        if seen & names:
            raise ContractViolation(f"{draft.url} is its own ancestor", rule="cyclic", entry_url=entry_url)
        seen |= names


def _place(
    group: ObjectGroup, accounts: _Rows[AccountRow], venues: _Rows[VenueRow], entry_url: str | None
) -> _Place:
    account = venue = None
    if group.account is not None:
        urls = _urls(group, ObjectKind.ACCOUNTS, group.account.url, entry_url)
        account = accounts.add(
            AccountRow(draft=group.account, urls=urls, metrics=_metrics(group, ObjectKind.ACCOUNTS))
        )
    if group.venue is not None:
        urls = _urls(group, ObjectKind.VENUES, group.venue.url, entry_url)
        # An account beside a content made the content; only alone with a venue it owns the venue.
        creator = account if group.content is None else None
        venue = venues.add(
            VenueRow(
                draft=group.venue, urls=urls, creator=creator, metrics=_metrics(group, ObjectKind.VENUES)
            )
        )
    return _Place(account=account, venue=venue)


def _contents(chain: list[ObjectGroup], places: list[_Place], entry_url: str) -> tuple[ContentRow, ...]:
    """The contents, the last ancestor first, so that each parent is stored before its child."""
    rows: list[ContentRow] = []
    for group, place in reversed(list(zip(chain, places, strict=True))):
        if group.content is None:
            continue
        has_parent = group.parent_ref is not None
        rows.append(
            ContentRow(
                draft=group.content,
                urls=_urls(
                    group, ObjectKind.CONTENTS, group.content.url, entry_url if group is chain[0] else None
                ),
                creator=place.account,
                venue=place.venue,
                parent=len(rows) - 1 if has_parent else None,
                parent_relation=group.parent_relation if has_parent else None,
                metrics=_metrics(group, ObjectKind.CONTENTS),
            )
        )
    return tuple(rows)


def _entry(group: ObjectGroup, place: _Place, contents: tuple[ContentRow, ...]) -> RowRef:
    if group.content is not None:
        return RowRef(kind=ObjectKind.CONTENTS, index=len(contents) - 1)
    if place.venue is not None:
        return RowRef(kind=ObjectKind.VENUES, index=place.venue)
    return RowRef(kind=ObjectKind.ACCOUNTS, index=place.account or 0)


def _links(place: _Place, entry: RowRef, contents: tuple[ContentRow, ...]) -> tuple[PlannedLink, ...]:
    """The entry itself, and what it refers to, reached through it."""
    referred: list[RowRef] = []
    if entry.kind is ObjectKind.CONTENTS and (parent := contents[entry.index].parent) is not None:
        referred.append(RowRef(kind=ObjectKind.CONTENTS, index=parent))
    if place.account is not None:
        referred.append(RowRef(kind=ObjectKind.ACCOUNTS, index=place.account))
    if place.venue is not None:
        referred.append(RowRef(kind=ObjectKind.VENUES, index=place.venue))
    through = (PlannedLink(target=target, via=entry) for target in referred if target != entry)
    return (PlannedLink(target=entry), *through)


def _urls(group: ObjectGroup, kind: ObjectKind, url: str, entry_url: str | None) -> tuple[str, ...]:
    """The canonical URL, and the entry URL on the object that it leads to."""
    is_entry = entry_url is not None and group.main_object is kind
    return _merged((url,), (entry_url,) if is_entry and entry_url else ())


def _metrics(group: ObjectGroup, kind: ObjectKind) -> Mapping[str, int | float]:
    return group.metrics.get(kind, {})


def _merged(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def _is_same(known: AccountRow | VenueRow, row: AccountRow | VenueRow) -> bool:
    if set(known.urls) & set(row.urls):
        return True
    ours, theirs = known.draft, row.draft
    key = stored_key(ours.platform_key)
    if key is None or key != stored_key(theirs.platform_key) or ours.platform is not theirs.platform:
        return False
    return getattr(ours, "subtype", None) == getattr(theirs, "subtype", None)
