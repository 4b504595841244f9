"""An outside world inside the process: places that a benchmark makes up, and what each of them shows.

The recorded payloads of the sandbox are given numbers and people of the benchmark's choosing, so that it is
known beforehand which objects a URL leads to. Calls end here instead of on the wire; everything behind the
HTTP client, the generators included, is the real code. X shows its accounts and communities to paying callers
only, so for these the answer is made up here, below the generator.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from requests.structures import CaseInsensitiveDict

from devstack.sandbox import web
from devstack.sandbox.samples import Answer, json_answer, payload_of, to_json
from devstack.sandbox.tokens import TokenSet, make_token
from devstack.sandbox.tracker import Tracker
from workers.clock import Budget, Clock
from workers.http.client import OnCall, OutboundClient
from workers.http.messages import Request, Response
from workers.settings import Settings
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform, VenueSubtype
from workers.social_recording.generators.generator import FetchContext, Generator
from workers.social_recording.generators.registry import Generators
from workers.social_recording.object_graph import AccountDraft, ObjectGroup, SocialObjectGraph, VenueDraft
from workers.social_recording.routing import Route, route

POST: dict[str, Any] = payload_of("x/syndication_tweet.json")
REPOSITORY: dict[str, Any] = payload_of("github/repo.json")
FORK: dict[str, Any] = payload_of("github/repo_fork.json")
USER: dict[str, Any] = payload_of("github/user.json")
FIRST_POST_ID = 2_000_000_000_000_000_000
FIRST_X_ACCOUNT, FIRST_COMMUNITY = 2_600_000_000, 1_900_000_000_000_000_000
FIRST_OWNER, FIRST_REPOSITORY = 5_000_000, 600_000_000
TRACKER_KEY = "tracker-key"
LAST_TRADE = datetime(2026, 1, 10, tzinfo=UTC)
SLOTS = ("website", "twitter", "telegram", "tiktok")

# An object by its collection, its platform and the platform's own key.
Identity: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """Somebody with an account on X and one on GitHub, each with a number of its own; `handle` is on X."""

    number: int
    handle: str
    login: str

    @property
    def x_key(self) -> str:
        """The number of the account on X."""
        return str(FIRST_X_ACCOUNT + self.number)

    @property
    def on_x(self) -> Identity:
        """The account on X."""
        return ("accounts", "x", self.x_key)

    @property
    def owner_key(self) -> int:
        """The number of the account on GitHub."""
        return FIRST_OWNER + self.number

    @property
    def on_github(self) -> Identity:
        """The account on GitHub."""
        return ("accounts", "gh", str(self.owner_key))


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What one URL leads to: the object, None where we know no source, and what that refers to.

    `payload` is how the platform shows the object inside of another one.
    """

    url: str
    shows: Identity | None = None
    refers_to: tuple[Identity, ...] = ()
    payload: Mapping[str, Any] = field(default_factory=dict, repr=False)


class World:
    """Makes places up and answers for them. Every place is made once and stays as it is."""

    def __init__(self) -> None:
        self.communities: dict[str, str] = {}
        self.x_keys: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._posts: dict[str, Answer] = {}
        self._github: dict[str, Answer] = {}
        self._tracker = Tracker(TRACKER_KEY)

    def answer(self, request: Request) -> Answer:
        """What the asked service or site says. Raises `KeyError` for a place that was never made."""
        match request.source:
            case "tracker":
                return self._tracker.by_addresses(to_json(request.json_body))[0]
            case "x":
                return self._posts[request.query["id"]]
            case "github":
                return self._github[request.url.split("/", 3)[3]]
            case "rdap":
                return json_answer({}, status=404)
            case _:
                return web.answer(request.url)

    def tokens(self, *links: tuple[Place, ...]) -> list[str]:
        """Make tokens with up to four links each the ones that the tracker knows; return their addresses."""
        tokens = [
            make_token(
                next(self._numbers),
                last_transfer_at=LAST_TRADE,
                links=dict(zip(SLOTS, (place.url for place in places), strict=False)),
            )
            for places in links
        ]
        self._tracker.tokens = TokenSet(tokens=tokens)
        return [token["tokenAddress"] for token in tokens]

    def person(self) -> Person:
        """Somebody new."""
        number = next(self._numbers)
        person = Person(number=number, handle=f"author{number}", login=f"owner{number}")
        self._github[f"users/{person.login}"] = json_answer(
            {**USER, "id": person.owner_key, "login": person.login}
        )
        return person

    def site(self) -> Place:
        """A new web site."""
        host = f"harbor{next(self._numbers)}.com"
        return Place(url=f"https://{host}/", shows=("contents", "web", f"{host}/"))

    def without_source(self) -> Place:
        """A new channel, about which nobody can be asked without a key."""
        return Place(url=f"https://youtube.com/@harbor{next(self._numbers):05}")

    def post(self, author: Person, *, quotes: Place | None = None, community: Place | None = None) -> Place:
        """A new post on X."""
        post_id = str(FIRST_POST_ID + next(self._numbers))
        user = {**POST["user"], "id_str": author.x_key, "screen_name": author.handle}
        edits = {**POST["edit_control"], "edit_tweet_ids": [post_id]}
        payload = {**POST, "id_str": post_id, "user": user, "edit_control": edits, "text": f"Post {post_id}"}
        quoted = {} if quotes is None else {"quoted_tweet": quotes.payload}
        self._posts[post_id] = json_answer({**payload, **quoted})
        if community is not None and community.shows is not None:
            self.communities[post_id] = community.shows[2]
        named = (each.shows for each in (quotes, community) if each is not None)
        return Place(
            url=f"https://x.com/i/status/{post_id}",
            shows=("contents", "x", post_id),
            refers_to=(author.on_x, *(each for each in named if each is not None)),
            payload=payload,
        )

    def profile(self, person: Person) -> Place:
        """Their account on X."""
        self.x_keys[person.handle] = person.x_key
        return Place(url=f"https://x.com/{person.handle}", shows=person.on_x)

    def community(self) -> Place:
        """A new community on X."""
        key = str(FIRST_COMMUNITY + next(self._numbers))
        return Place(url=f"https://x.com/i/communities/{key}", shows=("venues", "x", key))

    def account(self, person: Person) -> Place:
        """Their account on GitHub."""
        return Place(url=f"https://github.com/{person.login}", shows=person.on_github)

    def repository(self, owner: Person, *, fork_of: Place | None = None) -> Place:
        """A new repository on GitHub."""
        number = next(self._numbers)
        shown_owner = {**REPOSITORY["owner"], "id": owner.owner_key, "login": owner.login}
        named = {"id": FIRST_REPOSITORY + number, "full_name": f"{owner.login}/cargo{number}"}
        payload = {**REPOSITORY, **named, "owner": shown_owner, "fork": False}
        parent = fork_of.payload if fork_of is not None else None
        shown = payload if parent is None else {**FORK, **payload, "fork": True, "parent": parent}
        self._github[f"repos/{named['full_name']}"] = json_answer(shown)
        origin = () if fork_of is None or fork_of.shows is None else (fork_of.shows,)
        return Place(
            url=f"https://github.com/{named['full_name']}",
            shows=("contents", "gh", str(named["id"])),
            refers_to=(owner.on_github, *origin),
            payload=payload,
        )

    def former_name(self, repository: Place) -> Place:
        """Another URL of the repository: a name that it once had, and that still leads there."""
        path = repository.url.removeprefix("https://github.com/")
        self._github[f"repos/{path}-before"] = self._github[f"repos/{path}"]
        return replace(repository, url=f"{repository.url}-before")


class WorldClient(OutboundClient):
    """The HTTP client of a process whose outside world is a `World`; an answer takes no time."""

    def __init__(self, settings: Settings, clock: Clock, world: World) -> None:
        super().__init__(settings, clock)
        self._world = world

    def fetch(self, request: Request, budget: Budget, on_call: OnCall | None = None) -> Response:
        """Answer at once."""
        budget.check()
        if on_call is not None:
            on_call()
        answer = self._world.answer(request)
        return Response(
            source=request.source,
            status=answer.status,
            headers=CaseInsensitiveDict(answer.headers),
            body=answer.body,
            url=request.url,
            chain=(request.url,),
            received_at=self._clock.now(),
        )


class PayingXGenerator:
    """X as a paying caller sees it: accounts, communities, and posts with their community.

    `posts` is the real generator of posts.
    """

    source = "x"
    is_paid = False

    def __init__(self, posts: Generator | None, world: World, clock: Clock) -> None:
        self._posts = posts
        self._world = world
        self._clock = clock

    def supports(self, way: Route) -> bool:
        """Posts, communities and accounts."""
        return way.platform is Platform.X and (
            way.object is ObjectKind.ACCOUNTS or way.subtype in (ContentSubtype.TWEET, VenueSubtype.COMMUNITY)
        )

    def generate(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        """One call."""
        if self._posts is None:
            context.calls.add()
            return SocialObjectGraph(groups=(self._group(way),), observed_at=self._clock.now())
        graph = self._posts.generate(way, context)
        community = self._world.communities.get(way.key)
        if community is None:
            return graph
        place = _community_group(community)
        entry, *others = graph.groups
        entry = replace(entry, venue=place.venue, metrics={**entry.metrics, **place.metrics})
        return replace(graph, groups=(entry, *others))

    def _group(self, way: Route) -> ObjectGroup:
        if way.object is ObjectKind.VENUES:
            return _community_group(way.key)
        account = AccountDraft(
            platform=Platform.X, url=way.url, platform_key=self._world.x_keys[way.key], handle=way.key
        )
        return ObjectGroup(account=account, metrics={ObjectKind.ACCOUNTS: {"followers_count": 7}})


def _community_group(key: str) -> ObjectGroup:
    venue = VenueDraft(
        platform=Platform.X,
        subtype=VenueSubtype.COMMUNITY,
        url=route(f"https://x.com/i/communities/{key}").url,
        platform_key=key,
        name=f"Harbor {key}",
        members=12,
    )
    return ObjectGroup(venue=venue, metrics={ObjectKind.VENUES: {"member_count": 12}})


class WorldGenerators(Generators):
    """The real generators, with X as a paying caller sees it."""

    def __init__(self, http: OutboundClient, settings: Settings, world: World, clock: Clock) -> None:
        super().__init__(http, settings)
        self._world = world
        self._clock = clock

    def for_route(self, way: Route, *, is_paid_enabled: bool) -> Generator | None:
        """As the real ones, except for X."""
        found = super().for_route(way, is_paid_enabled=is_paid_enabled)
        paying = PayingXGenerator(found, self._world, self._clock)
        return paying if paying.supports(way) else found
