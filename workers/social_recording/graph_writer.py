"""Writes what one URL showed into the social graph, and finds what the graph has already.

Accounts, venues, contents (parents first), metric points and links are written in this order with one
command, under the token's lease. Nothing is rolled back: should the store die in the middle of it, the next
write of the same URL finds what is there and adds the rest. The links of the URL come last and are replaced
as a set.

Each collection costs at most one look-up, so a URL costs one to five commands. A key that is stored under
another URL, and another worker at the same rows, cost more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from bson import ObjectId

from workers.clock import Clock
from workers.errors import ContractViolation, InvalidInput, RetryableError
from workers.leases import Lease
from workers.mongo import MongoDatabase
from workers.social_graph.account import Account, AccountRepository
from workers.social_graph.content import Content, ContentRepository
from workers.social_graph.metric_series import MetricSeriesRepository
from workers.social_graph.object_repository import ObjectRepository
from workers.social_graph.row_resolution import (
    PlannedWrite,
    Refusals,
    ResolvedRows,
    RowPlace,
    WantedRow,
    resolve_rows,
    settle,
)
from workers.social_graph.stored_text import stored_key
from workers.social_graph.stored_time import stored_time
from workers.social_graph.token_link import TokenLink, TokenLinkRepository
from workers.social_graph.venue import Venue, VenueRepository
from workers.social_graph.vocabulary import ContentSubtype, FetchStatus, ObjectKind, Platform
from workers.social_graph.write_batch import Write, write_in_order
from workers.social_recording.object_graph import Metrics, SocialObjectGraph
from workers.social_recording.observed_rows import (
    StoredObject,
    author_snapshot,
    link_to,
    metric_points,
    new_account,
    new_content,
    new_venue,
    observe_account,
    observe_content,
    observe_venue,
)
from workers.social_recording.routing.route import Route
from workers.social_recording.write_plan import AccountRow, ContentRow, RowRef, VenueRow, WritePlan, plan
from workers.store_errors import DuplicateKey

URL_SAVE_TRIES_MAX = 5

# Where the key in a URL is the key that the platform's answers give, but the URL holds more than the key, so
# that a row may be stored under another URL. Posts of X, its communities and YouTube's videos are not among
# these: their canonical URL is made of the key alone, and every row has it. Nor is a GitHub login, which can
# be given to somebody else.
_CONTENTS_KEYED_BY_URL = frozenset(
    {
        (Platform.TIKTOK, ContentSubtype.VIDEO),
        (Platform.TIKTOK, ContentSubtype.PHOTO),
        (Platform.GITHUB, ContentSubtype.GIST),
        (Platform.REDDIT, ContentSubtype.POST),
    }
)

RowT = TypeVar("RowT", Content, Account, Venue)


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkContext:
    """Whose URL is written. `linked_at` becomes `created_at` of new links; `lease` is the token's.

    `pending_links` is for a caller that has looked and found no link of the token at all, so that none of
    this URL can be there to be replaced. The links are then left there for the caller, who stores those of
    all URLs at once; under the token's lease nobody else adds any.
    """

    token_address: str
    entry_url: str
    linked_at: datetime
    token_name: str | None = None
    first_transfer_at: datetime | None = None
    lease: Lease | None = None
    pending_links: list[TokenLink] | None = None

    def check_lease(self) -> None:
        """Raise `LeaseLost` when the token is no longer ours to write."""
        if self.lease is not None:
            self.lease.check()

    def link(self, target: StoredObject, via: StoredObject | None, observed_at: datetime) -> TokenLink:
        """The link of this URL to `target`, reached through `via`."""
        return link_to(
            target,
            via,
            token_address=self.token_address,
            token_name=self.token_name,
            first_transfer_at=self.first_transfer_at,
            entry_url=self.entry_url,
            linked_at=self.linked_at,
            observed_at=observed_at,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteResult:
    """What was written. `metrics_dropped` names metrics that are not on the written list."""

    entry: ObjectKind
    entry_id: ObjectId
    links_written: int
    links_deleted: int
    metrics_dropped: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """This observation: its plan, its time, and the URL that is known to lead to nothing stored."""

    plan: WritePlan
    at: datetime
    absent_url: str | None

    def is_entry(self, kind: ObjectKind, index: int) -> bool:
        return self.plan.entry == RowRef(kind=kind, index=index)

    def is_absent(self, kind: ObjectKind, index: int, urls: tuple[str, ...]) -> bool:
        """Whether the caller has just looked for the row under all its URLs, in vain."""
        return self.is_entry(kind, index) and set(urls) == {self.absent_url}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rows:
    """The rows of a plan, as they shall be in the store."""

    accounts: ResolvedRows[Account]
    venues: ResolvedRows[Venue]
    contents: ResolvedRows[Content]

    def at(self, ref: RowRef) -> StoredObject:
        rows: Mapping[ObjectKind, Sequence[StoredObject]] = {
            ObjectKind.ACCOUNTS: self.accounts.rows,
            ObjectKind.VENUES: self.venues.rows,
            ObjectKind.CONTENTS: self.contents.rows,
        }
        return rows[ref.kind][ref.index]

    def with_metrics(self, planned: WritePlan) -> list[tuple[StoredObject, Metrics]]:
        """Each row and what was measured on it."""
        pairs: list[tuple[StoredObject, Metrics]] = []
        pairs += [(a, row.metrics) for a, row in zip(self.accounts.rows, planned.accounts, strict=True)]
        pairs += [(v, row.metrics) for v, row in zip(self.venues.rows, planned.venues, strict=True)]
        pairs += [(c, row.metrics) for c, row in zip(self.contents.rows, planned.contents, strict=True)]
        return pairs

    def writes(self) -> Iterator[PlannedWrite]:
        """What makes the rows so, each kind after those that it refers to."""
        for kind, resolved in (
            (ObjectKind.ACCOUNTS, self.accounts),
            (ObjectKind.VENUES, self.venues),
            (ObjectKind.CONTENTS, self.contents),
        ):
            for position, writes in resolved.writes.items():
                for write in writes:
                    yield PlannedWrite(write=write, place=RowPlace(kind, position))

    @property
    def new_ids(self) -> frozenset[ObjectId]:
        return self.accounts.new_ids | self.venues.new_ids | self.contents.new_ids


@dataclass(frozen=True, kw_only=True, slots=True)
class _Batch:
    """All that one observation writes, and what will then be in the store."""

    rows: _Rows
    links: tuple[TokenLink, ...]
    metrics_dropped: tuple[str, ...]
    writes: tuple[PlannedWrite, ...]


class GraphWriter:
    """Writes graphs. Any number may write at once; each object gets one row."""

    def __init__(self, database: MongoDatabase, clock: Clock) -> None:
        self._database = database
        self._contents = ContentRepository(database, clock)
        self._accounts = AccountRepository(database, clock)
        self._venues = VenueRepository(database, clock)
        self._links = TokenLinkRepository(database, clock)
        self._series = MetricSeriesRepository(database, clock)

    def write(
        self, graph: SocialObjectGraph, context: LinkContext, *, known_absent: bool = False
    ) -> WriteResult:
        """Write all that the entry URL showed.

        `known_absent` says that the caller has just looked for the entry's object and not found it; it is
        then stored without looking again. Raises `ContractViolation` (for a value that cannot be stored, with
        the rule `bad_value`) before anything is written, `LeaseLost`, and `RetryableError`.
        """
        try:
            return self._write(graph, context, known_absent=known_absent)
        except ContractViolation:
            raise
        except InvalidInput as exc:
            raise ContractViolation(
                str(exc), rule="bad_value", entry_url=context.entry_url, field=exc.field
            ) from exc

    def _write(self, graph: SocialObjectGraph, context: LinkContext, *, known_absent: bool) -> WriteResult:
        planned = plan(graph, context.entry_url)
        seen = _Seen(
            plan=planned,
            at=stored_time(graph.observed_at, "observed_at"),
            absent_url=context.entry_url if known_absent else None,
        )
        before = self._links_before(context)
        batch = settle(
            self._database,
            lambda refusals: self._plan_batch(seen, context, before, refusals),
            context.check_lease,
        )
        if context.pending_links is not None:
            context.pending_links.extend(batch.links)
        return WriteResult(
            entry=planned.entry.kind,
            entry_id=batch.rows.at(planned.entry).id,
            links_deleted=len(before),
            links_written=len(batch.links),
            metrics_dropped=batch.metrics_dropped,
        )

    def link_stored(self, stored: StoredObject, context: LinkContext) -> WriteResult:
        """Link the token to an object that is stored already, and to what that refers to."""
        self._add_entry_url(stored, context)
        # Nobody asked the platform now: the links say what was last seen, and when.
        seen_at = stored.observed_at
        links = [context.link(stored, None, seen_at)]
        links += [context.link(each, stored, seen_at) for each in self._referred(stored)]
        before = self._links_before(context)
        if context.pending_links is not None:
            context.pending_links.extend(links)
        else:
            context.check_lease()
            write_in_order(self._database, self._replacing_links(links, before))
        return WriteResult(
            entry=stored.kind, entry_id=stored.id, links_deleted=len(before), links_written=len(links)
        )

    def _plan_batch(
        self, seen: _Seen, context: LinkContext, before: Sequence[TokenLink], refusals: Refusals
    ) -> _Batch:
        """Everything that this observation writes, as the store is now."""
        rows = self._resolve(seen, refusals)
        appends, dropped = metric_points(rows.with_metrics(seen.plan), seen.at)
        links = [
            context.link(rows.at(each.target), None if each.via is None else rows.at(each.via), seen.at)
            for each in seen.plan.links
        ]
        points = self._series.writes_of(appends, rows.new_ids)
        replacing: Sequence[Write] = ()
        if context.pending_links is None:
            replacing = self._replacing_links(links, before, is_repeated=not refusals.is_first_try)
        return _Batch(
            rows=rows,
            links=tuple(links),
            metrics_dropped=dropped,
            writes=(*rows.writes(), *(PlannedWrite(write=each) for each in (*points, *replacing))),
        )

    def _resolve(self, seen: _Seen, refusals: Refusals) -> _Rows:
        planned = seen.plan
        accounts = resolve_rows(
            self._accounts,
            [self._wanted_account(row, index, seen) for index, row in enumerate(planned.accounts)],
            refusals,
        )
        venues = resolve_rows(
            self._venues,
            [self._wanted_venue(row, index, seen, accounts) for index, row in enumerate(planned.venues)],
            refusals,
        )
        contents = resolve_rows(
            self._contents,
            [
                self._wanted_content(row, index, seen, accounts, venues)
                for index, row in enumerate(planned.contents)
            ],
            refusals,
        )
        return _Rows(accounts=accounts, venues=venues, contents=contents)

    def _wanted_account(self, row: AccountRow, index: int, seen: _Seen) -> WantedRow[Account]:
        draft, key = row.draft, stored_key(row.draft.platform_key)
        is_entry = seen.is_entry(ObjectKind.ACCOUNTS, index)
        return WantedRow(
            urls=row.urls,
            is_absent=seen.is_absent(ObjectKind.ACCOUNTS, index, row.urls),
            find_by_key=lambda: (
                None if key is None else self._accounts.find_by_platform_key(draft.platform, key)
            ),
            build=lambda _: new_account(row, seen.at),
            is_another=lambda stored: stored.is_another(key),
            give_up=lambda stored, urls: stored.give_up_urls(urls),
            observe=lambda stored, urls: observe_account(stored, row, urls, seen.at, is_entry=is_entry),
        )

    def _wanted_venue(
        self, row: VenueRow, index: int, seen: _Seen, accounts: ResolvedRows[Account]
    ) -> WantedRow[Venue]:
        draft, key = row.draft, stored_key(row.draft.platform_key)
        creator = None if row.creator is None else accounts.rows[row.creator]
        is_entry = seen.is_entry(ObjectKind.VENUES, index)
        return WantedRow(
            urls=row.urls,
            is_absent=seen.is_absent(ObjectKind.VENUES, index, row.urls),
            find_by_key=lambda: (
                None if key is None else self._venues.find_by_platform_key(draft.platform, draft.subtype, key)
            ),
            build=lambda _: new_venue(row, creator, seen.at),
            is_another=lambda stored: stored.is_another(key),
            give_up=lambda stored, urls: stored.give_up_urls(urls),
            observe=lambda stored, urls: observe_venue(stored, urls, seen.at, is_entry=is_entry),
        )

    def _wanted_content(
        self,
        row: ContentRow,
        index: int,
        seen: _Seen,
        accounts: ResolvedRows[Account],
        venues: ResolvedRows[Venue],
    ) -> WantedRow[Content]:
        draft, key = row.draft, stored_key(row.draft.platform_key)
        creator = None if row.creator is None else accounts.rows[row.creator]
        is_entry = seen.is_entry(ObjectKind.CONTENTS, index)
        # What an account that was unknown a moment ago has made is hardly stored.
        is_by_newcomer = not is_entry and creator is not None and creator.id in accounts.new_ids

        def build(before: Sequence[Content]) -> Content:
            return new_content(
                row,
                seen.at,
                author=(
                    None
                    if creator is None or row.creator is None
                    else author_snapshot(creator, seen.plan.accounts[row.creator].draft)
                ),
                venue=None if row.venue is None else venues.rows[row.venue],
                parent=None if row.parent is None else before[row.parent],
            )

        return WantedRow(
            urls=row.urls,
            is_absent=is_by_newcomer or seen.is_absent(ObjectKind.CONTENTS, index, row.urls),
            find_by_key=lambda: (
                None
                if key is None
                else self._contents.find_by_platform_key(draft.platform, draft.subtype, key)
            ),
            build=build,
            observe=lambda stored, urls: observe_content(stored, row, urls, seen.at, is_entry=is_entry),
        )

    def _referred(self, stored: StoredObject) -> list[StoredObject]:
        """What a stored object refers to, in the order in which `write` links it."""
        found: list[StoredObject | None] = []
        if isinstance(stored, Content) and stored.parent_content_id is not None:
            found.append(self._contents.find_by_id(stored.parent_content_id))
        if not isinstance(stored, Account) and stored.creator_id is not None:
            found.append(self._accounts.find_by_id(stored.creator_id))
        if isinstance(stored, Content) and stored.venue_id is not None:
            found.append(self._venues.find_by_id(stored.venue_id))
        return [each for each in found if each is not None]

    def _add_entry_url(self, stored: StoredObject, context: LinkContext) -> None:
        """Make the entry URL lead to the object, so that the next token finds it at once."""
        match stored:
            case Content():
                _save_url(self._contents, stored, context)
            case Account():
                _save_url(self._accounts, stored, context)
            case Venue():
                _save_url(self._venues, stored, context)

    def _links_before(self, context: LinkContext) -> list[TokenLink]:
        """What this URL of this token has led to, oldest first."""
        if context.pending_links is not None:
            return []
        return self._links.find_by_token_and_entry_url(context.token_address, context.entry_url)

    def _replacing_links(
        self, links: Sequence[TokenLink], before: Sequence[TokenLink], *, is_repeated: bool = False
    ) -> list[Write]:
        """The writes that make `links` the links of this URL of this token.

        An object that was linked before keeps the time of its first link, so that counts as of a time do not
        move. The new links come first: should the store die in between, no such time is lost, and the next
        write deletes what is there twice. `is_repeated` says that an earlier try may have stored its links.
        """
        # The oldest comes first, so it is the one that stays.
        first_linked_at = {link.object_id: link.created_at for link in reversed(before)}
        added = [
            replace(link, created_at=first_linked_at.get(link.object_id, link.created_at)) for link in links
        ]
        writes = self._links.insertions(added)
        if before or is_repeated:
            writes.append(self._links.deletion_of_others(added))
        return writes


def _save_url(repository: ObjectRepository[RowT], stored: RowT, context: LinkContext) -> None:
    """Add the entry URL to the row's own, unless it is there or leads to another row."""
    row: RowT | None = stored
    for _ in range(URL_SAVE_TRIES_MAX):
        if row is None or any(entry.url == context.entry_url for entry in row.source_urls):
            return
        context.check_lease()
        changed = row.add_source_url(context.entry_url, FetchStatus.OK, row.observed_at)
        try:
            if repository.save(changed, since=row):
                return
        except DuplicateKey:
            return
        row = repository.find_by_id(row.id)
    raise RetryableError(f"other workers keep changing the same {repository.kind}")


class StoredObjects:
    """Finds what a URL leads to among the stored objects, without asking a platform."""

    def __init__(self, database: MongoDatabase, clock: Clock) -> None:
        self._contents = ContentRepository(database, clock)
        self._accounts = AccountRepository(database, clock)
        self._venues = VenueRepository(database, clock)

    def find(self, route: Route) -> StoredObject | None:
        """The object, by its URL, else by its key where the URL says the key."""
        match route.object:
            case ObjectKind.CONTENTS:
                content = self._contents.find_by_source_url(route.url) or self._content_by_key(route)
                return content or self._account_behind(route)
            case ObjectKind.ACCOUNTS:
                return self._accounts.find_by_source_url(route.url) or self._account_by_key(route)
            case ObjectKind.VENUES:
                return self._venues.find_by_source_url(route.url) or self._account_behind(route)

    def _content_by_key(self, route: Route) -> Content | None:
        subtype = route.subtype
        if not isinstance(subtype, ContentSubtype) or (route.platform, subtype) not in _CONTENTS_KEYED_BY_URL:
            return None
        return self._contents.find_by_platform_key(route.platform, subtype, route.key)

    def _account_by_key(self, route: Route) -> Account | None:
        # Of all platforms only Reddit never gives a name to somebody else.
        if route.platform is not Platform.REDDIT:
            return None
        return self._accounts.find_by_platform_key(route.platform, route.key.lower())

    def _account_behind(self, route: Route) -> Account | None:
        # A name of Telegram is taken for a venue until its page shows that it is a person's or a bot's, and a
        # short link for a content until it has been asked where it leads.
        is_name = route.platform is Platform.TELEGRAM and route.object is ObjectKind.VENUES
        if not is_name and route.subtype is not ContentSubtype.SHORTLINK:
            return None
        return self._accounts.find_by_source_url(route.url)
