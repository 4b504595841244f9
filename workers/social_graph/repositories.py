"""All repositories of the social graph over one database."""

from __future__ import annotations

from dataclasses import dataclass

from workers.clock import Clock
from workers.mongo import MongoDatabase
from workers.social_graph.account import AccountRepository
from workers.social_graph.content import ContentRepository
from workers.social_graph.metric_series import MetricSeriesRepository
from workers.social_graph.token import TokenRepository
from workers.social_graph.token_link import TokenLinkRepository
from workers.social_graph.venue import VenueRepository


@dataclass(frozen=True, kw_only=True, slots=True)
class SocialGraphRepositories:
    """One repository per collection."""

    contents: ContentRepository
    accounts: AccountRepository
    venues: VenueRepository
    tokens: TokenRepository
    links: TokenLinkRepository
    series: MetricSeriesRepository

    @classmethod
    def of(cls, database: MongoDatabase, clock: Clock) -> SocialGraphRepositories:
        """Build them; nothing is sent."""
        return cls(
            contents=ContentRepository(database, clock),
            accounts=AccountRepository(database, clock),
            venues=VenueRepository(database, clock),
            tokens=TokenRepository(database, clock),
            links=TokenLinkRepository(database, clock),
            series=MetricSeriesRepository(database, clock),
        )
