"""The commands to MongoDB that one URL of each kind costs, apart from the share of its token.

Each kind is measured twice: recorded with its token, and tried again alone. What is known has been seen an
hour before, so that its row is written again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeAlias

from bench.graph_recording import Command, CommandLog, Recording
from bench.graph_world import Place, World
from workers.social_graph.token import RetryableURL, Token, TokenSocialURL
from workers.social_graph.vocabulary import FetchStatus

COMMANDS_MAX = 6
HOUR, NO_TIME = timedelta(hours=1), timedelta(0)
WAYS = ("recorded", "retried")
TOKEN_COLLECTIONS = frozenset({"tokens", "token_links"})

# What is recorded an hour before, and the URL that is measured.
Case: TypeAlias = tuple[tuple[Place, ...], Place]


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of URL. `make` makes a new case of it; `pause` lies between what is known and the URL."""

    name: str
    make: Callable[[World], Case]
    pause: timedelta = HOUR
    is_rare: bool = False


class Quoted(StrEnum):
    """What is known of a quoted post, or of what a repository was forked from."""

    NEW = "new"
    OWNER_KNOWN = "owner known"
    STORED = "stored"


def post(
    *, known: bool = False, quotes: Quoted | None = None, community: bool = False, linked: bool = False
) -> Callable[[World], Case]:
    """A post whose author is `known` or not, or which is `linked` by another token already."""

    def make(world: World) -> Case:
        author, other = world.person(), world.person()
        quoted = None if quotes is None else world.post(other)
        place = world.post(author, quotes=quoted, community=world.community() if community else None)
        before = [world.post(author)] if known else []
        if quotes is Quoted.OWNER_KNOWN:
            before.append(world.post(other))
        if quotes is Quoted.STORED and quoted is not None:
            before.append(quoted)
        return (*before, place) if linked else tuple(before), place

    return make


def repository(*, known: bool = False, fork_of: Quoted | None = None) -> Callable[[World], Case]:
    """A repository whose owner is `known` or not."""

    def make(world: World) -> Case:
        owner, other = world.person(), world.person()
        origin = None if fork_of is None else world.repository(other)
        before = [world.repository(owner)] if known else []
        if fork_of is Quoted.OWNER_KNOWN:
            before.append(world.repository(other))
        return tuple(before), world.repository(owner, fork_of=origin)

    return make


def known_account(world: World) -> Case:
    """An account that is stored as the owner of a repository."""
    owner = world.person()
    return (world.repository(owner),), world.account(owner)


def renamed_repository(world: World) -> Case:
    """A repository that is stored under the name that it has now, by the name that it had before."""
    place = world.repository(world.person())
    return (place,), world.former_name(place)


def renamed_author(*, quotes: Quoted | None = None, community: bool = False) -> Callable[[World], Case]:
    """A post whose author is stored under another handle."""

    def make(world: World) -> Case:
        author, other = world.person(), world.person()
        quoted = None if quotes is None else world.post(other)
        renamed = replace(author, handle=f"{author.handle}_anew")
        place = world.post(renamed, quotes=quoted, community=world.community() if community else None)
        return (world.post(author), world.post(other)), place

    return make


def linked_site(world: World) -> Case:
    """A site that another token links."""
    place = world.site()
    return (place,), place


def linked_account(world: World) -> Case:
    """An account that another token links."""
    place = world.account(world.person())
    return (place,), place


KINDS = (
    Kind(name="new web site", make=lambda world: ((), world.site())),
    Kind(name="new post of a new author", make=post()),
    Kind(name="new post of a known author", make=post(known=True)),
    Kind(name="new post of an author seen just now", make=post(known=True), pause=NO_TIME),
    Kind(name="post quoting a new post, both authors new", make=post(quotes=Quoted.NEW)),
    Kind(
        name="post of a known author quoting a new author's",
        make=post(known=True, quotes=Quoted.NEW),
    ),
    Kind(
        name="post of a new author quoting a known author's",
        make=post(quotes=Quoted.OWNER_KNOWN),
    ),
    Kind(
        name="post quoting a new post, both authors known",
        make=post(known=True, quotes=Quoted.OWNER_KNOWN),
    ),
    Kind(
        name="post of a known author quoting a stored post",
        make=post(known=True, quotes=Quoted.STORED),
    ),
    Kind(
        name="post of a new author in a new community quoting a known author's",
        make=post(quotes=Quoted.OWNER_KNOWN, community=True),
    ),
    Kind(
        name="post of a known author in a new community quoting a known author's",
        make=post(known=True, quotes=Quoted.OWNER_KNOWN, community=True),
    ),
    Kind(
        name="post of a known author in a new community quoting a stored post",
        make=post(known=True, quotes=Quoted.STORED, community=True),
    ),
    Kind(name="new X account", make=lambda world: ((), world.profile(world.person()))),
    Kind(name="new community", make=lambda world: ((), world.community())),
    Kind(name="GitHub repository of a new owner", make=repository()),
    Kind(name="GitHub repository of a known owner", make=repository(known=True)),
    Kind(name="GitHub fork, both owners new", make=repository(fork_of=Quoted.NEW)),
    Kind(name="GitHub fork, both owners known", make=repository(known=True, fork_of=Quoted.OWNER_KNOWN)),
    Kind(name="GitHub account", make=lambda world: ((), world.account(world.person()))),
    Kind(name="GitHub account known as an owner", make=known_account),
    Kind(name="stored web site linked by another token", make=linked_site),
    Kind(name="stored account linked by another token", make=linked_account),
    Kind(name="stored post linked by another token", make=post(linked=True)),
    Kind(
        name="stored post with quote and community linked by another token",
        make=post(linked=True, quotes=Quoted.NEW, community=True),
    ),
    Kind(name="unsupported URL", make=lambda world: ((), world.without_source())),
    Kind(name="repository under a former name", make=renamed_repository, is_rare=True),
    Kind(name="new post of an author with another handle", make=renamed_author(), is_rare=True),
    Kind(
        name="post of an author with another handle in a new community quoting a known author's",
        make=renamed_author(quotes=Quoted.OWNER_KNOWN, community=True),
        is_rare=True,
    ),
)


def measure_round_trips(recording: Recording, log: CommandLog) -> dict[str, Any]:
    """The commands of each kind of URL, and of its token."""
    kinds: dict[str, dict[str, Any]] = {}
    shares: dict[str, list[str]] = {}
    _show("commands of a URL: recorded | tried again")
    for kind in KINDS:
        recorded, retried = _record_one(recording, log, kind), _retry_one(recording, log, kind)
        shares[kind.name] = [str(each) for each in recorded if each.collections <= TOKEN_COLLECTIONS]
        row = kinds[kind.name] = {
            "is_rare": kind.is_rare,
            "recorded": [str(each) for each in recorded if not each.collections <= TOKEN_COLLECTIONS],
            # A URL that is tried again looks for its links and stores them by itself.
            "retried": [str(each) for each in retried if "tokens" not in each.collections],
        }
        _show(f"{len(row['recorded']):3} |{len(row['retried']):3}  {kind.name}")
        _show(f"             {', '.join(map(str, recorded))}")
        _show(f"             {', '.join(map(str, retried))}")
    return {
        "target": COMMANDS_MAX,
        "most": {way: _dearest(kinds, way, is_rare=False) for way in WAYS},
        "most_rare": {way: _dearest(kinds, way, is_rare=True) for way in WAYS},
        "token_share": shares["new web site"],
        "token_share_without_links": shares["unsupported URL"],
        "kinds": kinds,
    }


def _dearest(kinds: Mapping[str, Mapping[str, Any]], way: str, *, is_rare: bool) -> dict[str, Any]:
    counts = {name: len(row[way]) for name, row in kinds.items() if row["is_rare"] is is_rare}
    name = max(counts, key=counts.__getitem__)
    return {"kind": name, "commands": counts[name]}


def _record_one(recording: Recording, log: CommandLog, kind: Kind) -> list[Command]:
    """Record what is known, then a token with the URL; return the commands of the latter."""
    place, address = _prepare(recording, kind)
    with log.noted() as commands:
        report = recording.recorder.record(address)
    _check(place, [str(url["status"]) for url in report.urls])
    return commands


def _retry_one(recording: Recording, log: CommandLog, kind: Kind) -> list[Command]:
    """Record what is known, and try the URL again for a token for which it failed before."""
    place, address = _prepare(recording, kind)
    now = recording.clock.now()
    element = TokenSocialURL(
        url=place.url, status=FetchStatus.ERROR, attempts=1, attempted_at=now - HOUR, reason="http_503"
    )
    recording.tokens.insert(Token.of(address=address, created_at=now - HOUR, social_urls=[element]))
    candidate = RetryableURL(
        address=address,
        symbol=None,
        first_transfer_at=None,
        url=place.url,
        status=element.status,
        attempts=element.attempts,
        attempted_at=element.attempted_at,
    )
    with log.noted() as commands:
        outcome = recording.retrier.retry(candidate)
    _check(place, [str(outcome["status"])])
    return commands


def _prepare(recording: Recording, kind: Kind) -> tuple[Place, str]:
    known, place = kind.make(recording.world)
    *before, address = recording.world.tokens(*((each,) for each in known), (place,))
    for each in before:
        recording.recorder.record(each)
    recording.clock.advance(kind.pause)
    return place, address


def _check(place: Place, statuses: Sequence[str]) -> None:
    wanted = "unsupported" if place.shows is None else "ok"
    if list(statuses) != [wanted]:
        raise RuntimeError(f"{place.url} was not collected: {statuses}")


def _show(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
