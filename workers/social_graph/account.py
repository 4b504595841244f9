"""Accounts: who. The model and its repository.

The platform says what kind of account it is, so there is no subtype. The first creation is final, except
for what is itself a history: URLs, handle periods, and whether the account has vanished.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar

from bson import ObjectId

from workers.clock import Clock
from workers.mongo import Document, MongoDatabase
from workers.social_graph.handle_intervals import (
    HandleInterval,
    had_handle_at,
    with_observation,
    with_return,
)
from workers.social_graph.object_repository import ObjectRepository
from workers.social_graph.source_url import (
    SourceURL,
    given_up,
    given_up_name,
    source_urls_of,
    with_source_url,
)
from workers.social_graph.stored_data import StoredValue, present_fields, stored_data
from workers.social_graph.stored_text import (
    LIST_MAX,
    NAME_MAX,
    clean_text,
    known_word,
    required_text,
    stored_key,
    stored_list,
    stored_text,
)
from workers.social_graph.stored_time import required_time, stored_time
from workers.social_graph.vocabulary import FetchStatus, ObjectKind, Platform
from workers.social_graph.wallets import find_wallets, stored_wallet
from workers.store_errors import translated


@dataclass(frozen=True, kw_only=True, slots=True)
class DeclaredHandle:
    """A handle on another platform that the account itself claims."""

    platform: Platform
    value: str

    @classmethod
    def of(cls, platform: Platform, value: str) -> DeclaredHandle:
        """Check and build. Raises `InvalidInput` for a blank handle."""
        return cls(
            platform=known_word(Platform, platform, "declared_handles.platform"),
            value=required_text(value, "declared_handles.value"),
        )

    def to_document(self) -> Document:
        """The stored form."""
        return {"platform": self.platform.value, "value": self.value}


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """One account. Build it with `of`; the state changes return a changed copy.

    `followers` is stored as `metrics.followers` and `unavailable` as `moderation.unavailable`.
    """

    kind: ClassVar[ObjectKind] = ObjectKind.ACCOUNTS

    id: ObjectId
    platform: Platform
    source_urls: tuple[SourceURL, ...]
    observed_at: datetime
    platform_key: str | None = None
    handles: tuple[HandleInterval, ...] = ()
    account_created_at: datetime | None = None
    display_name: str | None = None
    bio: str | None = None
    links: tuple[str, ...] = ()
    declared_handles: tuple[DeclaredHandle, ...] = ()
    known_wallets: tuple[str, ...] = ()
    followers: int | None = None
    unavailable: bool | None = None
    data: Mapping[str, StoredValue] = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @classmethod
    def of(
        cls,
        *,
        platform: Platform,
        source_urls: Iterable[SourceURL],
        observed_at: datetime,
        platform_key: str | None = None,
        handle: str | None = None,
        account_created_at: datetime | None = None,
        display_name: str | None = None,
        bio: str | None = None,
        links: Iterable[str] = (),
        declared_handles: Iterable[DeclaredHandle] = (),
        known_wallets: Iterable[str] = (),
        followers: int | None = None,
        unavailable: bool | None = None,
        data: Mapping[str, object] | None = None,
    ) -> Account:
        """Check, clean and build a new account with an id of its own; wallets in the bio are added.

        Raises `InvalidInput` naming the field.
        """
        seen_at = required_time(observed_at, "observed_at")
        wallets = (*map(stored_wallet, known_wallets), *find_wallets(bio))
        account = cls(
            id=ObjectId(),
            platform=known_word(Platform, platform, "platform"),
            source_urls=source_urls_of(source_urls),
            observed_at=seen_at,
            platform_key=stored_key(platform_key),
            account_created_at=stored_time(account_created_at, "account_created_at"),
            display_name=stored_text(display_name, NAME_MAX),
            bio=stored_text(bio),
            links=stored_list(tuple(links)),
            declared_handles=tuple(dict.fromkeys(declared_handles))[:LIST_MAX],
            known_wallets=tuple(dict.fromkeys(wallets))[:LIST_MAX],
            followers=followers,
            unavailable=unavailable,
            data=stored_data(data or {}),
        )
        return account.add_handle_observation(handle, seen_at) if handle else account

    def add_source_url(self, url: str, status: FetchStatus, observed_at: datetime) -> Account:
        """Note an observation under `url`: one entry per URL."""
        return replace(
            self, source_urls=with_source_url(self.source_urls, SourceURL.of(url, status, observed_at))
        )

    def is_another(self, platform_key: str | None) -> bool:
        """Whether the platform gives what it shows under one of our URLs a key that is not ours.

        Names are given up and taken by somebody else; the platform's keys are not.
        """
        known = stored_key(platform_key)
        return known is not None and self.platform_key is not None and known != self.platform_key

    def give_up_urls(self, urls: Collection[str]) -> Account:
        """Note that the URLs lead to somebody else by now."""
        return replace(self, source_urls=given_up(self.source_urls, urls, str(self.platform_key)))

    def mark_observed(self, observed_at: datetime) -> Account:
        """Note that the platform showed it at this time; never moves back."""
        return replace(self, observed_at=max(self.observed_at, required_time(observed_at, "observed_at")))

    def mark_unavailable(self) -> Account:
        """Note that the platform has suspended or deleted it."""
        return replace(self, unavailable=True)

    def add_handle_observation(
        self, value: str, observed_at: datetime, *, is_return: bool = False
    ) -> Account:
        """Note that it was seen under the handle `value`; a blank one says nothing.

        `is_return` says that somebody else had the handle in between, so that a new period begins.
        """
        handle = clean_text(value).strip()[:NAME_MAX]
        if not handle:
            return self
        seen_at = required_time(observed_at, "observed_at")
        observe = with_return if is_return else with_observation
        return replace(self, handles=observe(self.handles, handle, seen_at))

    def has_given_up(self, url: str) -> bool:
        """Whether the URL led to this account once and to somebody else after that."""
        return any(entry.url == given_up_name(url, str(self.platform_key)) for entry in self.source_urls)

    def had_handle_at(self, handle: str, at: datetime) -> bool:
        """Whether it held `handle` at `at`; ask it of every account that `find_by_handle` returns."""
        return had_handle_at(self.handles, handle, stored_time(at, "at"))

    @property
    def current_handle(self) -> str | None:
        """The handle under which it was last seen."""
        return self.handles[-1].value if self.handles else None

    def is_observed_later_than(self, other: Account) -> bool:
        """Whether this is the newer observation."""
        return self.observed_at > other.observed_at

    def to_document(self) -> Document:
        """The stored form; what is unknown is left out, so that partial indexes skip it."""
        return present_fields(
            _id=self.id,
            platform=self.platform.value,
            platform_key=self.platform_key,
            source_urls=[entry.to_document() for entry in self.source_urls],
            handles=[interval.to_document() for interval in self.handles],
            account_created_at=self.account_created_at,
            display_name=self.display_name,
            bio=self.bio,
            links=list(self.links),
            declared_handles=[declared.to_document() for declared in self.declared_handles],
            known_wallets=list(self.known_wallets),
            metrics=present_fields(followers=self.followers),
            moderation=present_fields(unavailable=self.unavailable),
            observed_at=self.observed_at,
            data=dict(self.data),
            created_at=self.created_at,
            updated_at=self.updated_at,
        )

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Account:
        """Read the stored form."""
        return cls(
            id=document["_id"],
            platform=Platform(document["platform"]),
            source_urls=tuple(SourceURL.from_document(entry) for entry in document["source_urls"]),
            observed_at=document["observed_at"],
            platform_key=document.get("platform_key"),
            handles=tuple(HandleInterval.from_document(entry) for entry in document.get("handles", ())),
            account_created_at=document.get("account_created_at"),
            display_name=document.get("display_name"),
            bio=document.get("bio"),
            links=tuple(document.get("links", ())),
            declared_handles=tuple(
                DeclaredHandle(platform=Platform(entry["platform"]), value=entry["value"])
                for entry in document.get("declared_handles", ())
            ),
            known_wallets=tuple(document.get("known_wallets", ())),
            followers=document.get("metrics", {}).get("followers"),
            unavailable=document.get("moderation", {}).get("unavailable"),
            data=document.get("data", {}),
            created_at=document.get("created_at"),
            updated_at=document.get("updated_at"),
        )


class AccountRepository(ObjectRepository[Account]):
    """The collection `accounts`."""

    def __init__(self, database: MongoDatabase, clock: Clock) -> None:
        super().__init__(database, clock, ObjectKind.ACCOUNTS, Account.from_document)

    def find_by_platform_key(self, platform: Platform, platform_key: str) -> Account | None:
        """The account that the platform knows by this key."""
        return self._find_one({"platform": platform.value, "platform_key": platform_key})

    def find_by_handle(self, handle: str) -> list[Account]:
        """Every account that was ever seen under the handle, as written or in lower case.

        Handles are reused: ask each for `had_handle_at`.
        """
        spellings = sorted({handle, handle.lower()})
        return self._find_many({"handles.value": {"$in": spellings}}, sort=[("_id", 1)])

    def find_by_wallet(self, wallet: str) -> list[Account]:
        """Every account that names the wallet."""
        return self._find_many({"known_wallets": stored_wallet(wallet)}, sort=[("_id", 1)])

    def mark_unavailable(self, url: str) -> bool:
        """Note that the account seen under `url` has vanished; False when no such account is stored.

        A suspended account shows nothing any more, so there is no graph to write: this is all that is left.
        """
        with translated(self.kind):
            result = self._collection.update_one(
                {"source_urls.url": url},
                {"$set": {"moderation.unavailable": True, "updated_at": self._clock.now()}},
            )
        return result.matched_count == 1
