"""Telegram's generator over the wire and into the graph, against the sandbox."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator

import pytest

from devstack.sandbox.client import SandboxClient
from devstack.sandbox.process import SandboxServer
from devstack.sandbox.telegram import bot_id, count_of
from tests.conftest import make_settings
from workers.clock import Budget, Clock
from workers.errors import ConvergeError, FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.mongo import MongoDatabase
from workers.social_graph.indexes import migrate
from workers.social_graph.vocabulary import ObjectKind, ParentRelation, VenueSubtype
from workers.social_recording.generators.generator import CallCounter, FetchContext
from workers.social_recording.generators.registry import Generators
from workers.social_recording.graph_writer import GraphWriter, LinkContext, StoredObjects
from workers.social_recording.object_graph import SocialObjectGraph, VenueDraft, check
from workers.social_recording.routing import route

TOKEN = "123456:very-secret-token"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    with SandboxServer(tmp_path_factory.mktemp("sandbox") / "data") as server:
        yield server


@pytest.fixture
def sandbox(server: SandboxServer) -> SandboxClient:
    server.client.reset()
    return server.client


def generate(
    server: SandboxServer, place: str, *, token: str | None = None, budget_s: float = 20
) -> SocialObjectGraph:
    names = {name.lower(): value for name, value in server.settings().items()}
    settings, clock = make_settings(**names, telegram_bot_token=token), Clock()
    way = route(f"https://t.me/{place}")
    generator = Generators(OutboundClient(settings, clock), settings).for_route(way, is_paid_enabled=False)
    assert generator is not None
    context = FetchContext(budget=Budget.of(clock, budget_s), calls=CallCounter())
    graph = generator.generate(way, context)
    check(graph, way.url)
    return graph


def venue_of(graph: SocialObjectGraph) -> VenueDraft:
    venue = graph.groups[0].venue
    assert venue is not None
    return venue


@pytest.mark.parametrize(
    ("name", "subtype", "calls"),
    [
        ("channel_moon", VenueSubtype.CHANNEL, 2),
        ("busy_moon", VenueSubtype.CHANNEL, 3),
        ("nopreview_moon", VenueSubtype.CHANNEL, 1),
        ("portal_moon", VenueSubtype.PORTAL, 2),
        ("shell_moon", VenueSubtype.SHELL, 2),
        ("group_moon", VenueSubtype.COMMUNITY, 1),
        ("guarded_moon", VenueSubtype.GUARD_GROUP, 1),
    ],
)
def test_every_kind_of_venue_is_told_apart(
    server: SandboxServer, sandbox: SandboxClient, name: str, subtype: VenueSubtype, calls: int
) -> None:
    venue = venue_of(generate(server, name))
    has_preview = calls > 1
    assert (venue.subtype, venue.members) == (subtype, count_of(name))
    assert venue.platform_key == (str(bot_id(name)) if has_preview else None)
    assert (venue.venue_created_at is not None) is has_preview
    assert sandbox.calls().total == calls


@pytest.mark.parametrize(
    "name", ["channel_moon", "nopreview_moon", "portal_moon", "group_moon", "guarded_moon"]
)
def test_with_a_token_every_public_venue_has_its_number(
    server: SandboxServer, sandbox: SandboxClient, name: str
) -> None:
    without, venue = venue_of(generate(server, name)), venue_of(generate(server, name, token=TOKEN))
    assert venue.platform_key == str(bot_id(name))
    assert (venue.members, venue.subtype, venue.name) == (count_of(name), without.subtype, without.name)
    bot_calls = [call for call in sandbox.calls().by_call if "/telegram-bot/" in call]
    assert len(bot_calls) == 2


@pytest.mark.parametrize(("name", "kind"), [("user_moon", "user"), ("moonbot", "bot")])
def test_people_and_bots_are_accounts(server: SandboxServer, name: str, kind: str) -> None:
    [group] = generate(server, name, token=TOKEN).groups
    assert group.account is not None
    assert (group.account.handle, group.account.data, group.venue) == (name, {"type": kind}, None)


def test_a_message_of_a_channel_leads_to_its_channel_and_its_origin(server: SandboxServer) -> None:
    graph = generate(server, "channel_moon/25")
    message, origin = graph.groups
    assert message.content is not None
    assert origin.content is not None
    assert message.content.platform_key == "channel_moon/25"
    assert (message.parent_relation, origin.content.platform_key) == (
        ParentRelation.RETWEET,
        "channel_archive/25",
    )
    assert venue_of(graph).members == count_of("channel_moon")


def test_a_message_of_a_group_gives_the_group_its_number(server: SandboxServer) -> None:
    graph = generate(server, "group_moon/77")
    assert venue_of(graph).platform_key == str(bot_id("group_moon"))
    assert graph.groups[0].account is not None


@pytest.mark.parametrize(
    ("place", "error", "reason"),
    [
        ("missing_moon", FetchFailed, "weak_not_found"),
        ("web_name_too_short_or_invalid", TargetGone, "unusable_name"),
        ("+DeadInvite0123456", TargetGone, "dead_invite"),
        ("channel_moon/404", FetchFailed, "weak_not_found"),
        ("missing_moon/5", TargetGone, "no_such_chat"),
        ("c/1793026118/20", TargetBlocked, "private_chat"),
        ("bad_token", FetchFailed, "misconfigured"),
    ],
)
def test_every_trouble_of_telegram_has_its_meaning_over_the_wire(
    server: SandboxServer, place: str, error: type[ConvergeError], reason: str
) -> None:
    with pytest.raises(error) as caught:
        generate(server, place, token=TOKEN)
    assert getattr(caught.value, "reason", None) == reason


def test_a_flood_wait_that_the_budget_does_not_bear_gives_the_attempt_back(server: SandboxServer) -> None:
    with pytest.raises(FetchFailed) as caught:
        generate(server, "flood", token=TOKEN, budget_s=4)
    assert (caught.value.reason, caught.value.retry_in_s) == ("rate_limited", 5)


@pytest.mark.parametrize("fault", [{"drop": True}, {"status": 500}, {"body": "<html>proxy</html>"}])
def test_the_token_is_in_no_error_and_no_log(
    server: SandboxServer, sandbox: SandboxClient, fault: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    sandbox.set_faults({"route": "/telegram-bot/", **fault})
    with caplog.at_level(logging.DEBUG), pytest.raises(FetchFailed) as caught:
        generate(server, "group_moon", token=TOKEN, budget_s=2)
    sandbox.clear_faults()
    text = "".join(traceback.format_exception(caught.value))
    assert "telegram_bot" in text
    assert "very-secret" not in text
    assert "very-secret" not in caplog.text


# --- into the graph


@pytest.fixture
def stored(database: MongoDatabase) -> StoredObjects:
    migrate(database)
    return StoredObjects(database, Clock())


def write(database: MongoDatabase, graph: SocialObjectGraph, place: str, symbol: str) -> None:
    context = LinkContext(
        token_address="So11111111111111111111111111111111111111112",
        entry_url=route(f"https://t.me/{place}").url,
        token_name=symbol,
        linked_at=Clock().now(),
    )
    GraphWriter(database, Clock()).write(graph, context, known_absent=True)


def test_a_venue_is_stored_with_its_number_and_whether_it_is_called_like_the_token(
    server: SandboxServer, database: MongoDatabase, stored: StoredObjects
) -> None:
    write(database, generate(server, "channel_moon"), "channel_moon", "$MOON")
    found = stored.find(route("https://t.me/s/Channel_Moon"))
    assert found is not None
    assert found.kind is ObjectKind.VENUES
    assert found.platform_key == str(bot_id("channel_moon"))
    [link] = database["token_links"].find()
    assert (link["subtype"], link["name_match"]) == ("channel", True)
    series = database["metric_series"].find_one({"object_id": found.id})
    assert series is not None
    assert series["points"][0]["metrics"]["subscribers"] == count_of("channel_moon")


@pytest.mark.parametrize("name", ["user_moon", "moonbot"])
def test_a_name_that_was_a_person_or_a_bot_is_found_again_without_a_call(
    server: SandboxServer, database: MongoDatabase, stored: StoredObjects, name: str
) -> None:
    way = route(f"https://t.me/{name}")
    assert stored.find(way) is None
    write(database, generate(server, name), name, "MOON")
    found = stored.find(way)
    assert found is not None
    assert found.kind is ObjectKind.ACCOUNTS
    [link] = database["token_links"].find()
    assert (link["object"], link.get("subtype"), link.get("name_match")) == ("accounts", None, None)


def test_a_message_leads_to_all_that_it_shows(
    server: SandboxServer, database: MongoDatabase, stored: StoredObjects
) -> None:
    write(database, generate(server, "channel_moon/25"), "channel_moon/25", "MOON")
    found = [(link["object"], link["link_depth"]) for link in database["token_links"].find()]
    assert sorted(found) == [("contents", 0), ("contents", 1), ("venues", 1)]
    # What a message showed of its channel is as much as the channel's own address would have.
    venue = database["venues"].find_one({"source_urls.url": "https://t.me/channel_moon"})
    assert venue is not None
    assert venue["metrics"]["members"] == count_of("channel_moon")
    assert stored.find(route("https://t.me/channel_moon")) is not None
