"""Telegram: what its pages and the Bot API become."""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
import responses

from tests.conftest import FakeClock, make_settings
from tests.samples import body_of, error_case, sample_bytes
from workers.clock import Budget
from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.social_graph.metric_spec import METRIC_SPEC
from workers.social_graph.token_link import name_match
from workers.social_graph.vocabulary import (
    ContentSubtype,
    ObjectKind,
    ParentRelation,
    Platform,
    VenueSubtype,
)
from workers.social_recording.generators.generator import CallCounter, FetchContext
from workers.social_recording.generators.telegram.generator import TelegramGenerator
from workers.social_recording.generators.telegram.page import bot_chat_id, counted, rounded
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    SocialObjectGraph,
    VenueDraft,
    check,
)
from workers.social_recording.routing import route

SITE = "https://t.me"
TOKEN = "123456:very-secret-token"
BOT = f"https://api.telegram.org/bot{TOKEN}"
CASES = "telegram/botapi_and_redirects.json"
NEWS, CHAT, PORTAL = f"{SITE}/harbornews", f"{SITE}/harborchat", f"{SITE}/harborportal"
NEWS_ID, CHAT_ID = "-1001793026118", "-1001866120934"
OPENED = datetime(2026, 2, 24, 7, 26, 49, tzinfo=UTC)


def generate(
    clock: FakeClock, url: str = NEWS, calls: CallCounter | None = None, *, token: str | None = None
) -> SocialObjectGraph:
    settings = make_settings(telegram_bot_token=token)
    generator = TelegramGenerator(OutboundClient(settings, clock), settings)
    way = route(url)
    assert generator.supports(way)
    graph = generator.generate(way, FetchContext(budget=Budget.of(clock, 60), calls=calls or CallCounter()))
    check(graph, url)
    for group in graph.groups:
        for kind, metrics in group.metrics.items():
            assert set(metrics) <= METRIC_SPEC[Platform.TELEGRAM, kind]
    return graph


def text_of(sample: str) -> str:
    return sample_bytes(f"telegram/{sample}.html").decode()


def serve(path: str, markup: str, status: int = 200) -> None:
    responses.get(f"{SITE}{path}", body=markup, status=status, content_type="text/html; charset=utf-8")


def serve_sample(path: str, sample: str) -> None:
    serve(path, text_of(sample))


def serve_away(path: str, location: str) -> None:
    responses.get(f"{SITE}{path}", status=302, headers={"location": location}, content_type="text/html")


def serve_bot(case: str, method: str = "getChat") -> None:
    entry = error_case(CASES, case)
    responses.get(f"{BOT}/{method}", status=entry["status"], body=body_of(entry))


def serve_news() -> None:
    serve_sample("/harbornews", "channel")
    serve_sample("/s/harbornews", "preview")


def card(**parts: str) -> str:
    """A card with what a test wants on it."""
    extra = f'<div class="tgme_page_extra">{parts["extra"]}</div>' if "extra" in parts else ""
    about = f'<div class="tgme_page_description">{parts["about"]}</div>' if "about" in parts else ""
    return (
        f"<html><head><title>{parts.get('window', 'Telegram: View @name')}</title></head>"
        '<body><div class="tgme_page"><div class="tgme_page_title">'
        f"<span>{parts.get('title', 'Name')}</span></div>"
        f'{extra}{about}<div class="tgme_page_action"><a>{parts.get("button", "View in Telegram")}</a></div>'
        f'<div class="tgme_page_additional">{parts.get("additional", "")}</div></div></body></html>'
    )


def venue_of(graph: SocialObjectGraph) -> VenueDraft:
    venue = graph.groups[0].venue
    assert venue is not None
    return venue


def account_of(graph: SocialObjectGraph) -> AccountDraft:
    account = graph.groups[0].account
    assert account is not None
    return account


def content_of(graph: SocialObjectGraph, index: int = 0) -> ContentDraft:
    content = graph.groups[index].content
    assert content is not None
    return content


def failure(clock: FakeClock, url: str = NEWS, **how: Any) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        generate(clock, url, **how)
    return caught.value


# --- channels


@responses.activate
def test_a_channel_has_its_number_from_its_preview(clock: FakeClock) -> None:
    serve_news()
    calls = CallCounter()
    graph = generate(clock, "https://telegram.me/HarborNews?utm_source=a", calls)
    (group,) = graph.groups
    venue = venue_of(graph)
    assert (group.content, group.account) == (None, None)
    assert (venue.subtype, venue.platform_key) == (VenueSubtype.CHANNEL, NEWS_ID)
    assert (venue.url, venue.name) == (NEWS, "Harbor News 🚀")
    assert venue.description == (
        "Official announcements of the Harbor project.\nSite: https://harbor.example.org\n"
        "X: https://x.com/harbor_xyz"
    )
    assert (venue.members, venue.venue_created_at) == (12_617, OPENED)
    assert venue.data == {
        "links": [
            "https://harbor.example.org/",
            "https://x.com/harbor_xyz",
            "https://harbor.example.org/news/7",
        ]
    }
    assert group.metrics == {ObjectKind.VENUES: {"subscribers": 12_617, "photos": 3, "videos": 2, "links": 4}}
    assert graph.observed_at == clock.now()
    assert calls.calls == 2
    assert all(call.request.headers["Accept-Language"] == "en" for call in responses.calls)


@responses.activate
def test_the_number_on_a_preview_is_the_one_of_the_bot_api(clock: FakeClock) -> None:
    serve_news()
    keyless = venue_of(generate(clock)).platform_key
    assert keyless == str(error_case(CASES, "getchat_channel")["body"]["result"]["id"])


@responses.activate
def test_the_name_of_a_venue_can_be_compared_with_a_tokens(clock: FakeClock) -> None:
    serve_news()
    name = venue_of(generate(clock)).name
    assert (name_match(name, "$HARBOR"), name_match(name, "moon")) == (True, False)


@responses.activate
def test_a_channel_whose_first_message_is_out_of_sight_costs_one_more_call(clock: FakeClock) -> None:
    serve_sample("/harbornews", "channel")
    serve(
        "/s/harbornews", text_of("preview").replace('data-post="harbornews/1"', 'data-post="harbornews/19"')
    )
    serve_sample("/s/harbornews/1", "preview")
    calls = CallCounter()
    assert venue_of(generate(clock, calls=calls)).venue_created_at == OPENED
    assert calls.calls == 3


@responses.activate
def test_a_deleted_first_message_leaves_the_time_of_creation_unknown(clock: FakeClock) -> None:
    later = text_of("preview").replace('data-post="harbornews/1"', 'data-post="harbornews/19"')
    serve_sample("/harbornews", "channel")
    serve("/s/harbornews", later)
    serve("/s/harbornews/1", later)
    venue = venue_of(generate(clock))
    assert (venue.venue_created_at, venue.platform_key) == (None, NEWS_ID)


@responses.activate
def test_a_first_message_that_somebody_wrote_is_not_the_creation(clock: FakeClock) -> None:
    serve_sample("/harbornews", "channel")
    serve("/s/harbornews", text_of("preview").replace("service_message", ""))
    calls = CallCounter()
    assert venue_of(generate(clock, calls=calls)).venue_created_at is None
    assert calls.calls == 2


@responses.activate
def test_a_channel_without_a_preview_has_no_number_and_costs_one_call(clock: FakeClock) -> None:
    serve("/harbornews", text_of("channel").replace("tgme_page_context_link", "gone"))
    calls = CallCounter()
    venue = venue_of(generate(clock, calls=calls))
    assert (venue.subtype, venue.platform_key, venue.members) == (VenueSubtype.CHANNEL, None, 12_617)
    assert calls.calls == 1


@responses.activate
def test_a_preview_that_leads_back_is_none(clock: FakeClock) -> None:
    serve_sample("/harbornews", "channel")
    serve_away("/s/harbornews", "https://t.me/harbornews")
    venue = venue_of(generate(clock))
    assert (venue.platform_key, venue.members) == (None, 12_617)


@pytest.mark.parametrize(
    ("status", "markup", "reason"),
    [
        (429, "", "rate_limited"),
        (503, "", "http_503"),
        (200, "<html>something else</html>", "unexpected_shape"),
    ],
)
@responses.activate
def test_a_preview_that_cannot_be_seen_now_fails_the_whole_url(
    status: int, markup: str, reason: str, clock: FakeClock
) -> None:
    serve_sample("/harbornews", "channel")
    serve("/s/harbornews", markup, status)
    assert failure(clock).reason == reason


@pytest.mark.parametrize("location", ["https://telegram.org/", "https://blocked.example/", "/login"])
@responses.activate
def test_a_preview_that_leads_elsewhere_does_not_make_its_channel_vanish(
    location: str, clock: FakeClock
) -> None:
    serve_sample("/harbornews", "channel")
    serve_away("/s/harbornews", location)
    assert failure(clock).reason == "redirect_refused"


@responses.activate
def test_a_preview_that_keeps_messages_to_itself_is_asked_again(clock: FakeClock) -> None:
    silent = '<div class="tme_no_messages_found">No posts found</div>'
    serve_sample("/harbornews", "channel")
    serve("/s/harbornews", text_of("preview").replace("data-post", "data-gone").replace("</main>", silent))
    assert failure(clock).reason == "no_messages_shown"


@responses.activate
def test_a_portal_is_told_from_a_channel_by_its_guard(clock: FakeClock) -> None:
    serve("/harborportal", text_of("channel").replace("harbornews", "harborportal"))
    serve_sample("/s/harborportal", "portal_preview")
    venue = venue_of(generate(clock, PORTAL))
    assert (venue.subtype, venue.platform_key) == (VenueSubtype.PORTAL, "-1002011840753")
    assert venue.data["guard_bot"] == "gatekeeperbot"
    assert venue.venue_created_at == datetime(2026, 3, 1, 10, 0, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Words without a button of a bot, a button without the words, and a channel with a life of its own.
        ("?start=-1002011840753", ""),
        ("verify", "read"),
        ("</section>\n      </div>\n    </main>", "{}</section></main>"),
    ],
)
@responses.activate
def test_a_channel_is_no_portal_for_a_word_or_a_bot_alone(old: str, new: str, clock: FakeClock) -> None:
    busy = "".join(
        f'<div class="tgme_widget_message" data-post="harborportal/{n}">'
        '<div class="tgme_widget_message_text">news</div></div>'
        for n in range(4, 8)
    )
    preview = text_of("portal_preview").replace("human", "person").replace("protected", "led")
    assert old in preview
    serve("/harborportal", text_of("channel").replace("harbornews", "harborportal"))
    serve("/s/harborportal", preview.replace(old, new.format(busy)))
    venue = venue_of(generate(clock, PORTAL))
    assert venue.subtype is VenueSubtype.CHANNEL
    assert "guard_bot" not in venue.data


def without_messages(preview: str, *numbers: int) -> str:
    """A preview without these messages and without media."""
    for number in numbers:
        preview = preview.replace(f'data-post="harbornews/{number}"', "data-gone")
    return preview.replace("photos", "x").replace("videos", "x").replace("links</span>", "x</span>")


@responses.activate
def test_a_channel_in_which_nobody_has_written_is_a_shell(clock: FakeClock) -> None:
    serve_sample("/harbornews", "channel")
    serve("/s/harbornews", without_messages(text_of("preview"), 2, 20))
    venue = venue_of(generate(clock))
    assert (venue.subtype, venue.platform_key, venue.venue_created_at) == (
        VenueSubtype.SHELL,
        NEWS_ID,
        OPENED,
    )


@responses.activate
def test_a_preview_without_any_message_does_not_make_a_shell(clock: FakeClock) -> None:
    serve_sample("/harbornews", "channel")
    serve("/s/harbornews", without_messages(text_of("preview"), 1, 2, 20))
    calls = CallCounter()
    venue = venue_of(generate(clock, calls=calls))
    assert (venue.subtype, venue.platform_key) == (VenueSubtype.CHANNEL, None)
    assert calls.calls == 2


# --- groups, people, bots


@responses.activate
def test_a_group_is_a_community_without_a_number(clock: FakeClock) -> None:
    serve_sample("/harborchat", "group")
    calls = CallCounter()
    graph = generate(clock, CHAT, calls)
    venue = venue_of(graph)
    assert (venue.subtype, venue.platform_key, venue.name) == (VenueSubtype.COMMUNITY, None, "Harbor Chat")
    assert venue.description == "The community group. Rules: <be kind>."
    assert (venue.members, venue.data) == (20_125, {})
    assert graph.groups[0].metrics == {ObjectKind.VENUES: {"members": 20_125, "online": 991}}
    assert calls.calls == 1


@pytest.mark.parametrize(
    ("about", "subtype", "guard"),
    [
        ("Protected by @SafeguardBot, tap to verify", VenueSubtype.GUARD_GROUP, "SafeguardBot"),
        ("Verify at https://t.me/gatekeeperbot?start=x", VenueSubtype.GUARD_GROUP, "gatekeeperbot"),
        ("Ask @helperbot", VenueSubtype.COMMUNITY, None),
        ("Humanity verified by @willowdev", VenueSubtype.COMMUNITY, None),
    ],
)
@responses.activate
def test_a_group_may_say_that_a_bot_guards_its_door(
    about: str, subtype: VenueSubtype, guard: str | None, clock: FakeClock
) -> None:
    serve("/harborchat", card(extra="1 member", about=about))
    venue = venue_of(generate(clock, CHAT))
    assert (venue.subtype, venue.data.get("guard_bot"), venue.members) == (subtype, guard, 1)


@responses.activate
def test_a_name_may_turn_out_to_be_a_person(clock: FakeClock) -> None:
    serve_sample("/willowdev", "user")
    calls = CallCounter()
    graph = generate(clock, "https://t.me/WillowDev", calls, token=TOKEN)
    (group,) = graph.groups
    account = account_of(graph)
    assert (group.venue, group.content, group.metrics) == (None, None, {})
    assert (account.platform_key, account.handle, account.url) == (None, "willowdev", f"{SITE}/willowdev")
    assert (account.display_name, account.bio) == ("Willow Ember", "Builder. Not financial advice.")
    assert account.data == {"type": "user"}
    assert calls.calls == 1


@responses.activate
def test_a_name_may_turn_out_to_be_a_bot(clock: FakeClock) -> None:
    serve_sample("/harborhelperbot", "bot")
    graph = generate(clock, f"{SITE}/harborhelperbot")
    account = account_of(graph)
    assert (account.handle, account.display_name, account.data) == (
        "harborhelperbot",
        "Harbor Helper",
        {"type": "bot"},
    )
    assert graph.groups[0].metrics == {ObjectKind.ACCOUNTS: {"monthly_users": 24_000}}


@responses.activate
def test_a_bots_older_card_is_read_as_well(clock: FakeClock) -> None:
    serve("/helperbot", card(window="Telegram: Contact @HelperBot", extra="@HelperBot", button="Start Bot"))
    account = account_of(generate(clock, f"{SITE}/helperbot"))
    assert (account.handle, account.data) == ("HelperBot", {"type": "bot"})


@pytest.mark.parametrize(
    ("parts", "subtype"),
    [
        ({"extra": "1 subscriber"}, VenueSubtype.CHANNEL),
        ({"extra": "2 000 000 members"}, VenueSubtype.COMMUNITY),
        ({}, VenueSubtype.CHANNEL),
    ],
)
@responses.activate
def test_a_card_with_little_on_it_is_still_told(
    parts: dict[str, str], subtype: VenueSubtype, clock: FakeClock
) -> None:
    serve("/harborname", card(**parts))
    assert venue_of(generate(clock, f"{SITE}/harborname")).subtype is subtype


# --- missing names


@responses.activate
def test_a_missing_name_is_a_weak_sign(clock: FakeClock) -> None:
    serve_sample("/nosuchname000", "missing")
    calls = CallCounter()
    assert failure(clock, f"{SITE}/nosuchname000", calls=calls, token=TOKEN).reason == "weak_not_found"
    assert calls.calls == 1


@responses.activate
def test_a_name_that_cannot_be_one_is_gone(clock: FakeClock) -> None:
    entry = error_case(CASES, "web_name_too_short_or_invalid")
    serve_away("/login_2", entry["headers"]["location"])
    with pytest.raises(TargetGone) as caught:
        generate(clock, f"{SITE}/login_2")
    assert caught.value.reason == "unusable_name"
    assert len(responses.calls) == 1


@pytest.mark.parametrize(
    "location", ["https://blocked.example/t.me", "https://telegram.org.evil.io/", "", "/"]
)
@responses.activate
def test_a_redirect_to_anywhere_else_says_nothing_about_the_name(location: str, clock: FakeClock) -> None:
    serve_away("/harbornews", location)
    assert failure(clock).reason == "redirect_refused"


@pytest.mark.parametrize(
    ("status", "markup", "reason"),
    [
        (429, "", "rate_limited"),
        (500, "<html>", "http_500"),
        (404, "<html>not here</html>", "http_404"),
        (403, "<title>Just a moment...</title>", "http_403"),
        (200, "<title>Just a moment...</title>", "unexpected_shape"),
        (200, '{"ok": true}', "unexpected_shape"),
        (200, "", "unexpected_shape"),
        (200, '<div class="tgme_page"></div>', "unexpected_shape"),
        (
            200,
            '<div class="tgme_page"><div class="tgme_page_title"><span>A</span></div></div>',
            "unexpected_shape",
        ),
    ],
)
@responses.activate
def test_an_answer_that_is_no_card_is_an_error(
    status: int, markup: str, reason: str, clock: FakeClock
) -> None:
    serve("/harbornews", markup, status)
    assert failure(clock).reason == reason


# --- invites


@responses.activate
def test_an_invite_shows_its_title_and_its_members_only(clock: FakeClock) -> None:
    serve_sample("/+AbCd1234EfGh5678", "invite")
    calls = CallCounter()
    graph = generate(clock, "https://t.me/joinchat/AbCd1234EfGh5678", calls, token=TOKEN)
    venue = venue_of(graph)
    assert (venue.subtype, venue.platform_key) == (VenueSubtype.COMMUNITY, None)
    assert (venue.url, venue.name) == (f"{SITE}/+AbCd1234EfGh5678", "Harbor Insiders")
    assert (venue.members, venue.description, venue.data) == (1204, None, {"is_invite": True})
    assert graph.groups[0].metrics == {ObjectKind.VENUES: {"members": 1204, "online": 87}}
    assert calls.calls == 1


@pytest.mark.parametrize(
    ("parts", "subtype"),
    [
        ({"extra": "12 subscribers", "button": "Request to Join"}, VenueSubtype.CHANNEL),
        ({"button": "Join Channel"}, VenueSubtype.CHANNEL),
        (
            {"button": "Request to Join", "additional": "You are invited to a <b>channel</b>"},
            VenueSubtype.CHANNEL,
        ),
        ({"button": "Request to Join"}, VenueSubtype.COMMUNITY),
    ],
)
@responses.activate
def test_an_invite_says_in_some_way_what_it_leads_to(
    parts: dict[str, str], subtype: VenueSubtype, clock: FakeClock
) -> None:
    serve("/+AbCd1234EfGh5678", card(window="Telegram: Join Group Chat", **parts))
    assert venue_of(generate(clock, f"{SITE}/+AbCd1234EfGh5678")).subtype is subtype


@responses.activate
def test_a_dead_invite_is_gone(clock: FakeClock) -> None:
    serve_sample("/+ZZZZ0000ZZZZ0000", "invite_expired")
    with pytest.raises(TargetGone) as caught:
        generate(clock, f"{SITE}/+ZZZZ0000ZZZZ0000")
    assert caught.value.reason == "dead_invite"


@responses.activate
def test_somebody_in_place_of_an_invite_is_an_odd_page(clock: FakeClock) -> None:
    serve_sample("/+AbCd1234EfGh5678", "user")
    assert failure(clock, f"{SITE}/+AbCd1234EfGh5678").reason == "unexpected_shape"


# --- messages


@responses.activate
def test_a_message_comes_with_its_venue_and_what_it_forwards(clock: FakeClock) -> None:
    serve_sample("/harbornews/20", "widget_channel")
    serve_news()
    calls = CallCounter()
    graph = generate(clock, "https://t.me/s/HarborNews/20", calls)
    message, origin = graph.groups
    content = content_of(graph)
    assert (content.subtype, content.platform_key) == (ContentSubtype.POST, "harbornews/20")
    assert content.url == f"{NEWS}/20"
    assert content.published_at == datetime(2026, 4, 14, 18, 45, 46, tzinfo=UTC)
    assert content.text_primary == "Weekly update is out, read it here. 🚀\n#harbor"
    assert content.links == ("https://harbor.example.org/news/7",)
    assert content.tags == ("harbor",)
    assert content.data == {"media": ["photo"], "forwarded_from": "Harbor Archive", "signature": "Ada"}
    assert message.account is None
    assert (venue_of(graph).platform_key, venue_of(graph).members) == (NEWS_ID, 12_617)
    assert message.metrics[ObjectKind.CONTENTS] == {"views": 912}
    assert message.metrics[ObjectKind.VENUES]["subscribers"] == 12_617
    assert (message.parent_ref, message.parent_relation) == (1, ParentRelation.RETWEET)
    forwarded = content_of(graph, 1)
    assert (forwarded.platform_key, forwarded.url) == ("harborarchive/40", f"{SITE}/harborarchive/40")
    assert (forwarded.text_primary, forwarded.published_at) == (content.text_primary, None)
    assert (origin.venue, origin.account, origin.metrics) == (None, None, {})
    assert calls.calls == 3
    assert parse_qs(urlsplit(str(responses.calls[0].request.url)).query) == {"embed": ["1"]}


@responses.activate
def test_a_groups_message_has_its_sender_and_gives_the_group_its_number(clock: FakeClock) -> None:
    serve_sample("/harborchat/5120", "widget_group")
    serve_sample("/harborchat", "group")
    graph = generate(clock, "https://t.me/harborchat/17/5120")
    content, account, venue = content_of(graph), account_of(graph), venue_of(graph)
    assert (content.platform_key, content.text_primary) == ("harborchat/5120", "Tomorrow at noon.")
    assert content.data == {"in_reply_to": f"{SITE}/harborchat/5118"}
    assert (account.handle, account.display_name, account.platform_key) == ("WillowDev", "Willow Ember", None)
    assert account.url == f"{SITE}/willowdev"
    assert (venue.platform_key, venue.subtype, venue.members) == (CHAT_ID, VenueSubtype.COMMUNITY, 20_125)
    assert ObjectKind.CONTENTS not in graph.groups[0].metrics


@pytest.mark.parametrize(
    "author",
    [
        '<span class="tgme_widget_message_author_name">Deleted Account</span>',
        '<a class="tgme_widget_message_author_name" href="https://t.me/HarborChat">Harbor Chat</a>',
        '<a class="tgme_widget_message_author_name" href="https://t.me/+AbCd1234EfGh">Odd</a>',
        '<a class="tgme_widget_message_author_name" href="https://example.com/a">Odd</a>',
    ],
)
@responses.activate
def test_a_sender_without_a_name_of_its_own_is_left_out(author: str, clock: FakeClock) -> None:
    old = (
        '<a class="tgme_widget_message_author_name" href="https://t.me/WillowDev">'
        '<span dir="auto">Willow Ember</span></a>'
    )
    assert old in text_of("widget_group")
    serve("/harborchat/5120", text_of("widget_group").replace(old, author))
    serve_sample("/harborchat", "group")
    assert generate(clock, f"{CHAT}/5120").groups[0].account is None


@responses.activate
def test_a_service_message_has_no_words_of_its_own(clock: FakeClock) -> None:
    serve_sample("/harbornews/1", "widget_service")
    serve_news()
    content = content_of(generate(clock, f"{NEWS}/1"))
    assert (content.published_at, content.text_primary) == (OPENED, None)
    assert content.data == {"is_service": True}


@responses.activate
def test_a_venue_whose_page_is_missing_is_known_from_its_message(clock: FakeClock) -> None:
    serve_sample("/harbornews/20", "widget_channel")
    serve_sample("/harbornews", "missing")
    graph = generate(clock, f"{NEWS}/20")
    venue = venue_of(graph)
    assert (venue.platform_key, venue.name, venue.members) == (NEWS_ID, "Harbor News", None)
    assert (venue.subtype, venue.url) == (VenueSubtype.CHANNEL, NEWS)
    assert graph.groups[0].metrics == {ObjectKind.CONTENTS: {"views": 912}}


@responses.activate
def test_a_venue_that_cannot_be_asked_now_fails_the_whole_message(clock: FakeClock) -> None:
    serve_sample("/harbornews/20", "widget_channel")
    serve("/harbornews", "", 429)
    assert failure(clock, f"{NEWS}/20").reason == "rate_limited"


@pytest.mark.parametrize(
    "forwarded",
    [
        '<span class="tgme_widget_message_forwarded_from_name">A Person</span>',
        '<a class="tgme_widget_message_forwarded_from_name" href="https://t.me/someone">A Person</a>',
        '<a class="tgme_widget_message_forwarded_from_name" href="https://t.me/c/123456/7">A Person</a>',
        '<a class="tgme_widget_message_forwarded_from_name" href="https://t.me/HarborNews/20">A Person</a>',
        '<a class="tgme_widget_message_forwarded_from_name" href="https://x.com/a/status/20">A Person</a>',
    ],
)
@responses.activate
def test_a_forward_of_no_public_message_has_no_parent(forwarded: str, clock: FakeClock) -> None:
    old = (
        '<a class="tgme_widget_message_forwarded_from_name" href="https://t.me/harborarchive/40">'
        '<span dir="auto">Harbor Archive</span></a>'
    )
    assert old in text_of("widget_channel")
    serve("/harbornews/20", text_of("widget_channel").replace(old, forwarded))
    serve_news()
    graph = generate(clock, f"{NEWS}/20")
    assert len(graph.groups) == 1
    assert content_of(graph).data["forwarded_from"] == "A Person"


@responses.activate
def test_a_picture_of_an_album_is_found_under_its_own_number(clock: FakeClock) -> None:
    album = '<a class="tgme_widget_message_photo_wrap" href="https://t.me/harbornews/21?single"></a>'
    markup = text_of("widget_channel").replace('<div class="media_supported_cont">', f"{album}<div>")
    serve("/harbornews/21", markup)
    serve_news()
    assert content_of(generate(clock, f"{NEWS}/21")).platform_key == "harbornews/21"


@pytest.mark.parametrize(
    ("markup", "reason"),
    [
        (text_of("widget_missing"), "weak_not_found"),
        (text_of("widget_channel"), "unexpected_shape"),
        (text_of("channel"), "unexpected_shape"),
        ("<html></html>", "unexpected_shape"),
        (text_of("widget_missing").replace("Post not found", "Come back later"), "unknown_refusal"),
    ],
)
@responses.activate
def test_a_widget_without_the_message_is_no_verdict(markup: str, reason: str, clock: FakeClock) -> None:
    serve("/harbornews/77", markup)
    assert failure(clock, f"{NEWS}/77").reason == reason


@responses.activate
def test_a_message_of_a_chat_that_nobody_knows_is_gone(clock: FakeClock) -> None:
    serve_sample("/nosuchname000/5", "widget_no_chat")
    with pytest.raises(TargetGone) as caught:
        generate(clock, f"{SITE}/nosuchname000/5")
    assert caught.value.reason == "no_such_chat"


@responses.activate
def test_a_message_of_a_chat_that_telegram_has_closed_is_blocked(clock: FakeClock) -> None:
    words = "This channel can't be displayed because it violated the rules."
    serve("/harbornews/5", text_of("widget_missing").replace("Post not found", words))
    with pytest.raises(TargetBlocked) as caught:
        generate(clock, f"{NEWS}/5")
    assert caught.value.reason == "restricted"


@responses.activate
def test_a_private_chat_is_blocked_without_a_call(clock: FakeClock) -> None:
    calls = CallCounter()
    with pytest.raises(TargetBlocked) as caught:
        generate(clock, "https://t.me/c/1793026118/20", calls)
    assert (caught.value.reason, calls.calls) == ("private_chat", 0)


# --- the Bot API


@responses.activate
def test_with_a_token_a_group_has_its_number_and_its_exact_count(clock: FakeClock) -> None:
    serve_sample("/harborchat", "group")
    serve_bot("getchat_supergroup")
    responses.get(f"{BOT}/getChatMemberCount", json={"ok": True, "result": 20_130})
    calls = CallCounter()
    graph = generate(clock, CHAT, calls, token=TOKEN)
    venue = venue_of(graph)
    assert (venue.platform_key, venue.subtype) == (CHAT_ID, VenueSubtype.COMMUNITY)
    assert (venue.members, venue.description) == (20_130, "The community group. Rules: <be kind>.")
    assert venue.data == {"linked_chat_id": NEWS_ID}
    assert graph.groups[0].metrics == {ObjectKind.VENUES: {"members": 20_130, "online": 991}}
    assert calls.calls == 3
    asked = [urlsplit(str(call.request.url)) for call in responses.calls[1:]]
    assert [parse_qs(each.query) for each in asked] == [{"chat_id": ["@harborchat"]}] * 2


@responses.activate
def test_with_a_token_a_channel_has_the_same_number_as_without(clock: FakeClock) -> None:
    serve_news()
    serve_bot("getchat_channel")
    serve_bot("getchatmembercount", "getChatMemberCount")
    venue = venue_of(generate(clock, token=TOKEN))
    assert (venue.platform_key, venue.subtype, venue.members) == (NEWS_ID, VenueSubtype.CHANNEL, 12_617)
    assert (venue.name, venue.data["linked_chat_id"]) == ("Harbor News", CHAT_ID)
    assert (
        venue.description == "Official announcements of the Harbor project.\nSite: https://harbor.example.org"
    )


@responses.activate
def test_the_bot_api_knows_a_group_from_a_channel_better_than_a_page_without_numbers(
    clock: FakeClock,
) -> None:
    serve("/harborchat", card())
    serve_bot("getchat_supergroup")
    serve_bot("getchatmembercount", "getChatMemberCount")
    graph = generate(clock, CHAT, token=TOKEN)
    assert venue_of(graph).subtype is VenueSubtype.COMMUNITY
    assert graph.groups[0].metrics == {ObjectKind.VENUES: {"members": 12_617}}


@pytest.mark.parametrize(
    ("status", "payload"),
    [
        (400, error_case(CASES, "chat_not_found")["body"]),
        (403, {"ok": False, "error_code": 403, "description": "Forbidden: bot was kicked from the chat"}),
        (200, {"ok": True, "result": {"id": 5, "type": "private"}}),
    ],
)
@responses.activate
def test_a_chat_that_the_bot_is_not_shown_is_known_from_its_page(
    status: int, payload: Any, clock: FakeClock
) -> None:
    serve_news()
    responses.get(f"{BOT}/getChat", status=status, json=payload)
    venue = venue_of(generate(clock, token=TOKEN))
    assert (venue.platform_key, venue.members) == (NEWS_ID, 12_617)


@responses.activate
def test_a_short_flood_wait_is_waited_for(clock: FakeClock) -> None:
    serve_sample("/harborchat", "group")
    serve_bot("flood")
    serve_bot("getchat_supergroup")
    serve_bot("getchatmembercount", "getChatMemberCount")
    assert venue_of(generate(clock, CHAT, token=TOKEN)).platform_key == CHAT_ID
    assert clock.waits == [5.0]


@pytest.mark.parametrize(
    ("parameters", "wait_s", "calls"),
    [
        ({"retry_after": 4000}, 4000, 2),
        ({"retry_after": 5}, 5, 4),
        ({"retry_after": "soon"}, None, 2),
        (7, None, 2),
    ],
)
@responses.activate
def test_a_flood_wait_that_does_not_end_gives_the_attempt_back(
    parameters: Any, wait_s: float | None, calls: int, clock: FakeClock
) -> None:
    serve_sample("/harborchat", "group")
    responses.get(f"{BOT}/getChat", status=429, json={"ok": False, "parameters": parameters})
    error = failure(clock, CHAT, token=TOKEN)
    assert (error.reason, error.retry_in_s) == ("rate_limited", wait_s)
    assert len(responses.calls) == calls


@pytest.mark.parametrize(
    ("status", "body", "content_type", "reason"),
    [
        (401, body_of(error_case(CASES, "bad_token")), "application/json", "misconfigured"),
        (404, b'{"ok": false, "description": "Not Found"}', "application/json", "misconfigured"),
        (400, b'{"ok": false, "description": "Bad Request: wrong"}', "application/json", "http_400"),
        (409, b"{}", "application/json", "http_409"),
        (502, b"<html>", "text/html", "http_502"),
        (200, b"<html>proxy</html>", "text/html", "unexpected_html"),
        (200, b"{}", "application/json", "unexpected_shape"),
        (200, b"[]", "application/json", "unexpected_shape"),
        (200, b"", "application/json", "unexpected_shape"),
        (200, b'{"ok": true, "result": {"type": "channel"}}', "application/json", "unexpected_shape"),
        (200, b'{"ok": true, "result": 5}', "application/json", "unexpected_shape"),
    ],
)
@responses.activate
def test_an_answer_of_the_bot_api_about_us_fails_the_whole_url(
    status: int, body: bytes, content_type: str, reason: str, clock: FakeClock
) -> None:
    serve_news()
    responses.get(f"{BOT}/getChat", status=status, body=body, content_type=content_type)
    assert failure(clock, token=TOKEN).reason == reason


@pytest.mark.parametrize("count", [True, -1, "12", 2**63, {}, 1.5])
@responses.activate
def test_a_count_that_is_no_number_is_another_shape(count: Any, clock: FakeClock) -> None:
    serve_news()
    serve_bot("getchat_channel")
    responses.get(f"{BOT}/getChatMemberCount", json={"ok": True, "result": count})
    assert failure(clock, token=TOKEN).reason == "unexpected_shape"


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 401, "json": {"ok": False, "description": "Unauthorized"}},
        {"status": 500, "body": "down"},
        {"status": 429, "json": {"ok": False, "parameters": {"retry_after": 9000}}},
        {"status": 302, "headers": {"location": f"https://elsewhere.example/bot{TOKEN}/getChat"}},
        {"status": 200, "body": "<html>proxy</html>"},
        {"body": ConnectionError(f"no route to https://api.telegram.org/bot{TOKEN}/getChat")},
        {"body": requests.ConnectionError(f"refused: /bot{TOKEN}/getChat?chat_id=%40harbornews")},
    ],
)
@responses.activate
def test_the_token_is_in_no_error_and_no_log(
    answer: dict[str, Any], clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    serve_news()
    responses.get(f"{BOT}/getChat", **answer)
    with caplog.at_level(logging.DEBUG):
        error = failure(clock, token=TOKEN)
        logging.getLogger("test").error("a URL was not collected", exc_info=error)
    texts = (str(error), repr(error), "".join(traceback.format_exception(error)), caplog.text)
    for text in texts:
        assert "very-secret" not in text


@responses.activate
def test_the_token_is_in_no_graph(clock: FakeClock) -> None:
    serve_news()
    serve_bot("getchat_channel")
    serve_bot("getchatmembercount", "getChatMemberCount")
    assert "very-secret" not in repr(generate(clock, token=TOKEN))


# --- small things


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("912", 912),
        ("1.49K", 1490),
        ("12.6K", 12_600),
        ("4.2k", 4200),
        ("3M", 3_000_000),
        ("12\u202f617", 12_617),
        ("", None),
        (None, None),
        ("many", None),
        ("1.2.3K", None),
        ("-5", None),
        ("9" * 16, None),
    ],
)
def test_numbers_are_read_as_a_page_writes_them(text: str | None, count: int | None) -> None:
    assert rounded(text) == count


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("20 125 members, 991 online", {"members": 20_125, "online": 991}),
        ("1 subscriber", {"subscribers": 1}),
        ("12\u00a0617 subscribers", {"subscribers": 12_617}),
        ("24 000 monthly users", {"monthly_users": 24_000}),
        ("8.31K subscribers", {"subscribers": 8310}),
        ("@willowdev", {}),
        ("online", {}),
        ("9" * 5000 + " members", {}),
    ],
)
def test_a_line_with_counts_is_read_by_its_words(text: str, counts: dict[str, int]) -> None:
    assert counted(text) == counts


def test_a_chats_number_has_one_form() -> None:
    assert bot_chat_id(1_793_026_118) == NEWS_ID
    # Not `-100` and the digits: a short number keeps its zeros.
    assert bot_chat_id(5) == "-1000000000005"
    assert (bot_chat_id(0), bot_chat_id(10**12)) == (None, None)


def test_only_names_invites_and_messages_are_supported(clock: FakeClock) -> None:
    settings = make_settings()
    generator = TelegramGenerator(OutboundClient(settings, clock), settings)
    for url in (
        "https://t.me/somebot?start=5",
        "https://t.me/addlist/abc",
        "https://t.me/share/url?url=a",
        "https://web.telegram.org/k/#-12345",
        "https://x.com/a",
    ):
        assert not generator.supports(route(url)), url


def test_the_samples_and_the_widgets_agree_on_the_chat() -> None:
    recorded = json.loads(sample_bytes("telegram/botapi_and_redirects.json"))
    ids = [str(entry["body"]["result"]["id"]) for entry in recorded if entry["case"].startswith("getchat_")]
    assert ids == [NEWS_ID, CHAT_ID]
