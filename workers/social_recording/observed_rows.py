"""From what was observed to what is stored: new rows, changes of stored rows, points and links. No I/O.

What is stored stays as it was first seen, except for what is itself a history: source URLs, handle periods,
an account's disappearance, and the metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar

from bson import ObjectId

from workers.social_graph.account import Account, DeclaredHandle
from workers.social_graph.content import AuthorSnapshot, Content, ContentText, Mention
from workers.social_graph.metric_series import MetricSeries, PointAppend
from workers.social_graph.metric_spec import pick_known_metrics
from workers.social_graph.source_url import SourceURL
from workers.social_graph.token_link import TokenLink, name_match
from workers.social_graph.venue import Venue
from workers.social_graph.vocabulary import FetchStatus, LinkStatus, Platform
from workers.social_recording.object_graph import AccountDraft, Metrics
from workers.social_recording.write_plan import AccountRow, ContentRow, VenueRow

StoredObject: TypeAlias = Content | Account | Venue
ObjectT = TypeVar("ObjectT", Content, Account, Venue)

SEEN_AGAIN_AFTER = timedelta(minutes=1)


def new_account(row: AccountRow, at: datetime) -> Account:
    """The account as it is first stored."""
    draft = row.draft
    return Account.of(
        platform=draft.platform,
        source_urls=_source_urls(row.urls, at),
        observed_at=at,
        platform_key=draft.platform_key,
        handle=draft.handle,
        account_created_at=draft.account_created_at,
        display_name=draft.display_name,
        bio=draft.bio,
        links=draft.links,
        declared_handles=[DeclaredHandle.of(platform, value) for platform, value in draft.declared_handles],
        followers=draft.followers,
        unavailable=draft.unavailable,
        data=draft.data,
    )


def new_venue(row: VenueRow, creator: Account | None, at: datetime) -> Venue:
    """The venue as it is first stored."""
    draft = row.draft
    return Venue.of(
        platform=draft.platform,
        subtype=draft.subtype,
        source_urls=_source_urls(row.urls, at),
        observed_at=at,
        platform_key=draft.platform_key,
        name=draft.name,
        description=draft.description,
        venue_created_at=draft.venue_created_at,
        creator_id=_id_of(creator),
        members=draft.members,
        data=draft.data,
    )


def new_content(
    row: ContentRow,
    at: datetime,
    *,
    author: AuthorSnapshot | None,
    venue: Venue | None,
    parent: Content | None,
) -> Content:
    """The content as it is first stored."""
    draft = row.draft
    content = Content.of(
        platform=draft.platform,
        subtype=draft.subtype,
        source_urls=_source_urls(row.urls, at),
        observed_at=at,
        platform_key=draft.platform_key,
        creator_id=None if author is None else author.account_id,
        venue_id=_id_of(venue),
        parent_content_id=_id_of(parent),
        parent_relation=row.parent_relation,
        published_at=draft.published_at,
        text=ContentText.of(
            primary=draft.text_primary, body=draft.text_body, from_media=draft.text_from_media
        ),
        links=draft.links,
        tags=draft.tags,
        mentions=[Mention.of(each.platform_key, each.screen_name) for each in draft.mentions],
        author=author,
        data=draft.data,
    )
    return content.update_metrics_latest(row.metrics, at)


def author_snapshot(account: Account, draft: AccountDraft) -> AuthorSnapshot:
    """The creator as this observation shows it, which a row stored earlier no longer does."""
    return AuthorSnapshot.of(
        account.id,
        handle=draft.handle,
        display_name=draft.display_name,
        followers=draft.followers,
        account_created_at=draft.account_created_at,
    )


def observe_account(
    stored: Account, row: AccountRow, urls: tuple[str, ...], at: datetime, *, is_entry: bool
) -> Account:
    """The stored account after this observation.

    An author whose posts many tokens link is seen many times a minute. Such a passing look at an account
    that was seen a moment ago under the same handle says nothing new, and leaves the row alone.
    """
    if not is_entry and _is_old_news(stored, row, urls, at):
        return stored
    account = _with_urls(stored, urls, at, is_entry=is_entry)
    if row.draft.handle:
        is_return = any(stored.has_given_up(url) for url in urls)
        account = account.add_handle_observation(row.draft.handle, at, is_return=is_return)
    if row.draft.unavailable:
        account = account.mark_unavailable()
    return account.mark_observed(at) if account != stored else stored


def _is_old_news(stored: Account, row: AccountRow, urls: tuple[str, ...], at: datetime) -> bool:
    """Whether a passing observation repeats what was seen less than a minute before."""
    last = stored.handles[-1] if stored.handles else None
    known_urls = {entry.url for entry in stored.source_urls}
    return (
        last is not None
        and last.is_of(row.draft.handle or last.value)
        and timedelta(0) <= at - last.last_seen < SEEN_AGAIN_AFTER
        and known_urls.issuperset(urls)
        and bool(row.draft.unavailable) <= bool(stored.unavailable)
    )


def observe_venue(stored: Venue, urls: tuple[str, ...], at: datetime, *, is_entry: bool) -> Venue:
    """The stored venue after this observation."""
    return _with_urls(stored, urls, at, is_entry=is_entry)


def observe_content(
    stored: Content, row: ContentRow, urls: tuple[str, ...], at: datetime, *, is_entry: bool
) -> Content:
    """The stored content after this observation."""
    # The metrics come first: they are refused once the row says that it was observed at that time.
    refreshed = stored.update_metrics_latest(row.metrics, at)
    return _with_urls(refreshed, urls, at, is_entry=is_entry)


def metric_points(
    observed: Sequence[tuple[StoredObject, Metrics]], at: datetime
) -> tuple[list[PointAppend], tuple[str, ...]]:
    """The points to append, and the names of metrics that may not be stored."""
    appends: list[PointAppend] = []
    dropped: set[str] = set()
    for stored, metrics in observed:
        dropped.update(pick_known_metrics(stored.platform, stored.kind, metrics).dropped)
        point = MetricSeries.build_point(stored.platform, stored.kind, metrics, at)
        if point is not None:
            appends.append(
                PointAppend(object=stored.kind, object_id=stored.id, platform=stored.platform, point=point)
            )
    return appends, tuple(sorted(dropped))


def link_to(
    target: StoredObject,
    via: StoredObject | None,
    *,
    token_address: str,
    token_name: str | None,
    first_transfer_at: datetime | None,
    entry_url: str,
    linked_at: datetime,
    observed_at: datetime,
) -> TokenLink:
    """The link of a token's URL to `target`, reached through `via`."""
    return TokenLink.of(
        token_address=token_address,
        object=target.kind,
        object_id=target.id,
        entry_url=entry_url,
        created_at=linked_at,
        observed_at=observed_at,
        status=_link_status(target),
        platform=target.platform,
        subtype=None if isinstance(target, Account) else target.subtype,
        name_match=_name_match(target, token_name),
        first_transfer_at=first_transfer_at,
        ancestor_ids=() if via is None else (via.id,),
    )


def _id_of(row: StoredObject | None) -> ObjectId | None:
    return None if row is None else row.id


def _name_match(target: StoredObject, token_name: str | None) -> bool | None:
    """Only Telegram's venues are named after tokens."""
    if isinstance(target, Venue) and target.platform is Platform.TELEGRAM:
        return name_match(target.name, token_name)
    return None


def _source_urls(urls: tuple[str, ...], at: datetime) -> list[SourceURL]:
    return [SourceURL.of(url, FetchStatus.OK, at) for url in urls]


def _with_urls(stored: ObjectT, urls: tuple[str, ...], at: datetime, *, is_entry: bool) -> ObjectT:
    """Note the URLs. An object that was only mentioned is not written again just for being seen again."""
    known = {entry.url for entry in stored.source_urls if entry.status is FetchStatus.OK}
    news = [url for url in urls if is_entry or url not in known]
    row = stored
    for url in news:
        row = row.add_source_url(url, FetchStatus.OK, at)
    return row.mark_observed(at) if news else row


def _link_status(target: StoredObject) -> LinkStatus:
    if isinstance(target, Account) and target.unavailable:
        return LinkStatus.UNAVAILABLE
    if any(entry.status is FetchStatus.OK for entry in target.source_urls):
        return LinkStatus.OK
    latest = max(target.source_urls, key=lambda entry: entry.observed_at)
    return LinkStatus.of(latest.status)
