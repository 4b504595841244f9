"""Models: what they refuse, what they store, and how they change."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import pytest
from bson import ObjectId, decode, encode
from bson.codec_options import CodecOptions
from hypothesis import given
from hypothesis import strategies as st

from workers.errors import InvalidInput
from workers.social_graph.account import Account, AccountRepository, DeclaredHandle
from workers.social_graph.content import AuthorSnapshot, Content, ContentRepository, ContentText, Mention
from workers.social_graph.metric_series import MetricPoint, MetricSeries, MetricSeriesRepository
from workers.social_graph.source_url import SourceURL
from workers.social_graph.token import Token, TokenRepository, TokenSocialURL, TokenWeb
from workers.social_graph.token_link import TokenLink, TokenLinkRepository, build_lineage, name_match
from workers.social_graph.venue import Venue, VenueRepository
from workers.social_graph.vocabulary import (
    ContentSubtype,
    FetchStatus,
    LinkStatus,
    ObjectKind,
    ParentRelation,
    Platform,
    VenueSubtype,
)

AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
LATER = AT + timedelta(hours=1)
NAIVE = datetime(2026, 1, 15, 12)  # noqa: DTZ001 - the time without a zone that must be refused
REPOSITORIES = (
    ContentRepository,
    AccountRepository,
    VenueRepository,
    TokenRepository,
    TokenLinkRepository,
    MetricSeriesRepository,
)


def url(text: str = "https://x.com/i/status/1", status: FetchStatus = FetchStatus.OK) -> SourceURL:
    return SourceURL.of(text, status, AT)


def full_content() -> Content:
    content = Content.of(
        platform=Platform.X,
        subtype=ContentSubtype.TWEET,
        source_urls=[url()],
        observed_at=AT,
        platform_key="1",
        creator_id=ObjectId(),
        venue_id=ObjectId(),
        parent_content_id=ObjectId(),
        parent_relation=ParentRelation.QUOTE,
        published_at=AT,
        text=ContentText.of(primary="gm", body="long", from_media="alt"),
        links=["https://example.org/"],
        tags=["sol"],
        mentions=[Mention.of("9", "bob")],
        author=AuthorSnapshot.of(
            ObjectId(), handle="a", display_name="A", followers=3, account_created_at=AT
        ),
        data={"conversationId": "1", "nested": {"deep": [1]}},
    )
    content = content.update_metrics_latest({"favorite_count": 3}, AT)
    return content.update_link_stats(2, AT, AT, computed_at=LATER)


def full_account() -> Account:
    return Account.of(
        platform=Platform.GITHUB,
        source_urls=[url("https://github.com/a")],
        observed_at=AT,
        platform_key="583231",
        handle="a",
        account_created_at=AT,
        display_name="A",
        bio="BNB: 0x" + "ab" * 20,
        links=["https://example.org/"],
        declared_handles=[DeclaredHandle.of(Platform.X, "a_on_x")],
        followers=5,
        unavailable=False,
        data={"account_type": "User"},
    )


def full_venue() -> Venue:
    return Venue.of(
        platform=Platform.TELEGRAM,
        subtype=VenueSubtype.CHANNEL,
        source_urls=[url("https://t.me/a")],
        observed_at=AT,
        platform_key="-1001",
        name="A",
        description="d",
        venue_created_at=AT,
        creator_id=ObjectId(),
        members=7,
        data={"adminHandle": "b"},
    )


def full_token() -> Token:
    return Token.of(
        address="So11111111111111111111111111111111111111112",
        created_at=AT,
        symbol="SOL",
        first_transfer_at=AT,
        fingerprints=["domain:example.org"],
        web=TokenWeb(domain="example.org", domain_created_at=AT, scan_time=AT),
        social_urls=[
            TokenSocialURL(
                url="https://example.org/",
                status=FetchStatus.ERROR,
                attempted_at=AT,
                attempts=1,
                reason="http_503",
            ),
            TokenSocialURL(url="https://x.com/a", status=FetchStatus.UNSUPPORTED),
        ],
    )


def full_link() -> TokenLink:
    return TokenLink.of(
        token_address="t",
        object=ObjectKind.VENUES,
        object_id=ObjectId(),
        entry_url="https://t.me/a",
        created_at=AT,
        observed_at=AT,
        status=LinkStatus.OK,
        platform=Platform.TELEGRAM,
        subtype=VenueSubtype.CHANNEL,
        name_match=True,
        first_transfer_at=AT,
        ancestor_ids=[ObjectId()],
    )


def full_series() -> MetricSeries:
    return MetricSeries(
        object=ObjectKind.CONTENTS,
        object_id=ObjectId(),
        platform=Platform.X,
        points=(MetricPoint(at=AT, metrics={"favorite_count": 3}),),
    )


FULL = (full_content, full_account, full_venue, full_token, full_link, full_series)
Storable = Content | Account | Venue | Token | TokenLink | MetricSeries


@pytest.mark.parametrize("build", FULL)
def test_a_full_row_comes_back_from_the_store_equal(build: Callable[[], Storable]) -> None:
    row = build()
    codec: CodecOptions[dict[str, object]] = CodecOptions(tz_aware=True, tzinfo=UTC)
    assert type(row).from_document(decode(encode(row.to_document()), codec)) == row


def names_of(document: Mapping[str, object], *, inside_data: bool = False) -> Iterator[str]:
    for name, value in document.items():
        if not inside_data:
            yield name
        free = inside_data or name in ("data", "metrics", "metrics_latest")
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                yield from names_of(part, inside_data=free)


@pytest.mark.parametrize("build", FULL)
def test_stored_names_are_snake_case_and_ids_are_ours(build: Callable[[], Storable]) -> None:
    for name in names_of(build().to_document()):
        assert re.fullmatch(r"_?[a-z]+(_[a-z]+)*", name), name


def fields_of(document: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Names and values at any depth; not those that keep the platform's own names."""
    for name, value in document.items():
        yield name, value
        if name not in ("data", "metrics", "metrics_latest"):
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, dict):
                    yield from fields_of(part)


def test_a_name_ending_in_id_holds_an_id_of_ours_and_one_ending_in_key_a_text() -> None:
    names = set()
    for build in FULL:
        for name, value in fields_of(build().to_document()):
            names.add(name)
            assert isinstance(value, ObjectId) == name.endswith("_id"), name
            if name.endswith("_key"):
                assert isinstance(value, str), name
    assert {"_id", "account_id", "object_id", "creator_id", "venue_id", "parent_content_id"} <= names
    assert [name for name in names if name.endswith("_key")] == ["platform_key"]


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (Platform, "x tt ig yt rd gh tg web"),
        (ObjectKind, "contents accounts venues"),
        (
            ContentSubtype,
            "tweet video photo post reel tv story repo gist search intent shortlink unknown site",
        ),
        (VenueSubtype, "community subreddit channel portal shell guard_group"),
        (ParentRelation, "quote retweet fork"),
        (FetchStatus, "ok not_found blocked invalid exhausted error unsupported skipped_paid"),
        (LinkStatus, "ok deleted unavailable unresolved"),
    ],
)
def test_the_words_of_a_closed_set_are_the_written_ones(words: type[StrEnum], written: str) -> None:
    assert [word.value for word in words] == written.split()


def test_a_new_content_has_empty_lists_and_no_nulls() -> None:
    document = Content.of(
        platform=Platform.WEB,
        subtype=ContentSubtype.SITE,
        source_urls=[url("https://a.org/")],
        observed_at=AT,
    ).to_document()
    assert {name: document[name] for name in ("links", "tags", "mentions", "text", "data")} == {
        "links": [],
        "tags": [],
        "mentions": [],
        "text": {},
        "data": {},
    }
    assert None not in document.values()
    assert "platform_key" not in document


def test_a_new_account_and_a_new_venue_have_empty_lists_and_no_nulls() -> None:
    account = Account.of(platform=Platform.X, source_urls=[url("https://x.com/a")], observed_at=AT)
    document = account.to_document()
    assert {name: value for name, value in document.items() if name not in ("_id", "source_urls")} == {
        "platform": "x",
        "handles": [],
        "links": [],
        "declared_handles": [],
        "known_wallets": [],
        "metrics": {},
        "moderation": {},
        "observed_at": AT,
        "data": {},
    }
    assert None not in Venue.of(**VENUE).to_document().values()


def test_a_token_of_which_only_the_address_is_known_has_no_copy_of_anything() -> None:
    document = Token.of(address="a", created_at=AT).to_document()
    assert document.pop("_id")
    assert document == {"address": "a", "fingerprints": [], "social_urls": [], "created_at": AT}


def test_a_new_url_of_a_token_was_never_tried_unless_it_says_when() -> None:
    fresh = TokenSocialURL(url="https://a.org/", status=FetchStatus.UNSUPPORTED)
    assert fresh.to_document() == {
        "url": "https://a.org/",
        "status": "unsupported",
        "attempted_at": None,
        "attempts": 0,
        "reason": None,
    }
    tried = TokenSocialURL(url="https://a.org/", status=FetchStatus.ERROR, attempted_at=AT, attempts=1)
    assert tried.to_document()["attempted_at"] == AT


def test_a_link_to_an_account_stores_no_subtype() -> None:
    document = link(object=ObjectKind.ACCOUNTS, subtype=None, platform=Platform.X).to_document()
    assert "subtype" not in document
    assert (document["lineage"], document["link_depth"]) == ([document["object_id"]], 0)


def test_both_kinds_of_wallet_in_a_bio_are_known_beside_those_that_were_named() -> None:
    evm, solana = "0x" + "Ab" * 20, "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin"
    account = Account.of(
        platform=Platform.X,
        source_urls=[url("https://x.com/a")],
        observed_at=AT,
        bio=f"BNB: {evm} or {solana}",
        known_wallets=["0x" + "CD" * 20, evm],
    )
    assert account.known_wallets == ("0x" + "cd" * 20, evm.lower(), solana)


ROWS: tuple[Callable[..., object], ...] = (Content.of, Account.of, Venue.of)
SUBTYPES = {Content.of: ContentSubtype.TWEET, Venue.of: VenueSubtype.CHANNEL}


@pytest.mark.parametrize("of", ROWS)
def test_a_row_without_a_source_url_is_refused(of: Callable[..., object]) -> None:
    subtype = {"subtype": SUBTYPES[of]} if of in SUBTYPES else {}
    with pytest.raises(InvalidInput) as caught:
        of(platform=Platform.X, source_urls=[], observed_at=AT, **subtype)
    assert caught.value.field == "source_urls"


@pytest.mark.parametrize(
    ("field", "build"),
    [
        ("platform", lambda: Venue.of(**{**VENUE, "platform": "myspace"})),
        ("subtype", lambda: Venue.of(**{**VENUE, "subtype": "club"})),
        ("platform", lambda: Account.of(**{**ACCOUNT, "platform": "X"})),
        ("platform", lambda: Content.of(**{**CONTENT, "platform": None})),
        ("subtype", lambda: Content.of(**{**CONTENT, "subtype": "tweets"})),
        ("platform_key", lambda: Content.of(**CONTENT, platform_key=732822797798539264)),
        ("platform_key", lambda: Account.of(**ACCOUNT, platform_key=7.0)),
        ("parent_relation", lambda: Content.of(**CONTENT, parent_relation=ParentRelation.QUOTE)),
        ("declared_handles.platform", lambda: DeclaredHandle.of("myspace", "a")),
        ("declared_handles.value", lambda: DeclaredHandle.of(Platform.X, " \x00")),
        ("mentions.platform_key", lambda: Mention.of(None, "bob")),
        ("mentions.platform_key", lambda: Mention.of(9, "bob")),
        ("object", lambda: MetricSeries.of("tokens", ObjectId(), Platform.X)),
        ("platform", lambda: MetricSeries.of(ObjectKind.CONTENTS, ObjectId(), "myspace")),
        ("published_at", lambda: Content.of(**CONTENT, published_at=NAIVE)),
        ("account_created_at", lambda: Account.of(**ACCOUNT, account_created_at=NAIVE)),
        (
            "author.account_created_at",
            lambda: AuthorSnapshot.of(ObjectId(), handle="a", account_created_at=NAIVE),
        ),
        ("observed_at", lambda: full_content().update_metrics_latest({"favorite_count": 1}, NAIVE)),
        ("observed_at", lambda: full_content().mark_observed(NAIVE)),
        ("source_urls.observed_at", lambda: full_venue().add_source_url("https://b.org/", "ok", NAIVE)),
        ("source_urls.status", lambda: full_venue().add_source_url("https://b.org/", "fine", AT)),
        (
            "link_stats.input_cutoff",
            lambda: full_content().update_link_stats(1, AT, NAIVE, computed_at=AT),
        ),
        (
            "link_stats.first_linked_at",
            lambda: full_content().update_link_stats(1, NAIVE, AT, computed_at=AT),
        ),
        ("observed_at", lambda: full_account().add_handle_observation("b", NAIVE)),
        ("at", lambda: full_account().had_handle_at("a", NAIVE)),
        ("first_transfer_at", lambda: Token.of(address="a", created_at=AT, first_transfer_at=NAIVE)),
        ("social_urls.url", lambda: token_with(url="")),
        ("social_urls.status", lambda: token_with(status="fine")),
        ("social_urls.attempted_at", lambda: token_with(attempted_at=NAIVE)),
        ("social_urls.attempts", lambda: token_with(attempts=-1)),
        ("web.scan_time", lambda: TokenWeb(scan_time=NAIVE).to_document()),
        ("address", lambda: Token.of(address=None, created_at=AT)),
        ("fingerprints", lambda: Token.of(address="a", created_at=AT, fingerprints=["domain:"])),
        ("fingerprints", lambda: Token.of(address="a", created_at=AT, fingerprints=[":a.org"])),
        ("token_address", lambda: link(token_address="")),
        ("entry_url", lambda: link(entry_url=None)),
        ("status", lambda: link(status="not_found")),
        ("platform", lambda: link(platform="myspace")),
        ("created_at", lambda: link(created_at=NAIVE)),
        ("observed_at", lambda: link(observed_at=NAIVE)),
        ("first_transfer_at", lambda: link(first_transfer_at=NAIVE)),
        ("observed_at", lambda: Venue.of(**{**VENUE, "observed_at": NAIVE})),
        ("venue_created_at", lambda: Venue.of(**VENUE, venue_created_at=NAIVE)),
        ("source_urls.observed_at", lambda: SourceURL.of("https://a.org/", FetchStatus.OK, NAIVE)),
        ("source_urls.url", lambda: SourceURL.of(" ", FetchStatus.OK, AT)),
        ("mentions.platform_key", lambda: Mention.of("", "bob")),
        ("created_at", lambda: Token.of(address="a", created_at=NAIVE)),
        ("address", lambda: Token.of(address=" ", created_at=AT)),
        ("fingerprints", lambda: Token.of(address="a", created_at=AT, fingerprints=["example.org"])),
        ("object", lambda: link(object="tokens")),
        ("subtype", lambda: link(object=ObjectKind.CONTENTS, subtype=None)),
        ("subtype", lambda: link(object=ObjectKind.ACCOUNTS, subtype=ContentSubtype.SITE)),
    ],
)
def test_bad_input_is_refused_by_the_name_of_the_field(field: str, build: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput) as caught:
        build()
    assert caught.value.field == field


VENUE: dict[str, object] = {
    "platform": Platform.TELEGRAM,
    "subtype": VenueSubtype.CHANNEL,
    "source_urls": [url("https://t.me/a")],
    "observed_at": AT,
}
ACCOUNT: dict[str, object] = {
    "platform": Platform.X,
    "source_urls": [url("https://x.com/a")],
    "observed_at": AT,
}
CONTENT: dict[str, object] = {**VENUE, "platform": Platform.X, "subtype": ContentSubtype.TWEET}


def token_with(**changes: object) -> Token:
    fields: dict[str, object] = {"url": "https://a.org/", "status": FetchStatus.ERROR, **changes}
    return Token.of(address="a", created_at=AT, social_urls=[TokenSocialURL(**fields)])


def link(**changes: object) -> TokenLink:
    fields: dict[str, object] = {
        "token_address": "t",
        "object": ObjectKind.CONTENTS,
        "object_id": ObjectId(),
        "entry_url": "https://a.org/",
        "created_at": AT,
        "observed_at": AT,
        "status": LinkStatus.OK,
        "platform": Platform.WEB,
        "subtype": ContentSubtype.SITE,
    }
    return TokenLink.of(**{**fields, **changes})


def test_one_url_seen_three_times_is_one_entry_with_the_last_outcome() -> None:
    content = full_content()
    content = content.add_source_url("https://x.com/i/status/1", FetchStatus.BLOCKED, LATER)
    content = content.add_source_url("https://x.com/i/status/1", FetchStatus.OK, AT)
    assert [(entry.status, entry.observed_at) for entry in content.source_urls] == [
        (FetchStatus.BLOCKED, LATER)
    ]


def test_another_url_is_another_entry() -> None:
    assert len(full_content().add_source_url("https://t.co/a", FetchStatus.OK, LATER).source_urls) == 2


def test_a_content_lives_as_long_as_one_url_leads_to_it() -> None:
    content = full_content()
    gone = content.add_source_url("https://x.com/i/status/1", FetchStatus.NOT_FOUND, LATER)
    assert content.is_alive
    assert not gone.is_alive
    assert gone.add_source_url("https://t.co/a", FetchStatus.OK, LATER).is_alive


def test_newer_metrics_replace_the_cache_and_move_the_observation() -> None:
    content = full_content().update_metrics_latest({"favorite_count": 9}, LATER)
    assert (content.metrics_latest, content.observed_at) == ({"favorite_count": 9}, LATER)


def test_older_metrics_are_ignored() -> None:
    content = full_content().update_metrics_latest({"favorite_count": 9}, LATER)
    assert content.update_metrics_latest({"favorite_count": 1}, AT) == content


def test_metrics_that_nobody_wrote_down_do_not_count_as_an_observation() -> None:
    content = full_content()
    assert content.update_metrics_latest({"playCont": 9}, LATER) == content


def test_link_stats_always_say_how_old_they_are() -> None:
    stats = full_content().update_link_stats(4, None, AT, computed_at=LATER).link_stats
    assert stats is not None
    assert (stats.link_count, stats.input_cutoff, stats.computed_at) == (4, AT, LATER)


def test_the_later_observation_of_two_accounts_is_known() -> None:
    account = full_account()
    assert account.mark_observed(LATER).is_observed_later_than(account)
    assert account.mark_observed(AT - timedelta(days=1)).observed_at == AT


def test_fingerprints_are_a_set() -> None:
    token = full_token().add_fingerprints(["domain:example.org", "domain:b.org", "domain:b.org"])
    assert token.fingerprints == ("domain:example.org", "domain:b.org")


def test_the_web_block_is_replaced_as_a_whole() -> None:
    assert full_token().update_web(TokenWeb(domain="b.org")).web == TokenWeb(domain="b.org")


def test_a_token_cannot_have_one_url_twice() -> None:
    twice = [TokenSocialURL(url="https://a.org/", status=FetchStatus.OK)] * 2
    with pytest.raises(InvalidInput):
        Token.of(address="a", created_at=AT, social_urls=twice)


def test_the_lineage_is_the_object_first_and_at_most_one_more() -> None:
    own, first, second = ObjectId(), ObjectId(), ObjectId()
    assert build_lineage(own, [ObjectId(str(own)), first, second]) == (own, first)
    assert link(object_id=own, ancestor_ids=[first, second]).link_depth == 1
    assert link(object_id=own).is_direct


@given(st.lists(st.integers(0, 4), max_size=6), st.integers(0, 4))
def test_the_depth_of_a_link_is_one_less_than_its_lineage_and_survives_storing(
    ancestors: list[int], own: int
) -> None:
    ids = [ObjectId(f"{number:024x}") for number in range(5)]
    built = link(object_id=ids[own], ancestor_ids=[ids[number] for number in ancestors])
    others = [number for number in ancestors if number != own]
    assert built.lineage == (ids[own], *(ids[number] for number in others[:1]))
    document = built.to_document()
    assert document["link_depth"] == len(document["lineage"]) - 1 == (1 if others else 0)
    assert TokenLink.from_document(document) == built
    assert built.is_direct == (not others)


@given(st.lists(st.integers(0, 4), max_size=6), st.integers(0, 4))
def test_a_lineage_never_repeats_and_never_grows(ancestors: list[int], own: int) -> None:
    ids = [ObjectId(f"{number:024x}") for number in range(5)]
    lineage = build_lineage(ids[own], [ids[number] for number in ancestors])
    assert lineage[0] == ids[own]
    assert len(set(lineage)) == len(lineage) <= 2
    assert set(lineage) <= {ids[own], *(ids[number] for number in ancestors)}


@pytest.mark.parametrize("derived", ["lineage", "link_depth"])
def test_what_is_derived_cannot_be_given(derived: str) -> None:
    with pytest.raises(TypeError):
        link(**{derived: 1})


@pytest.mark.parametrize(
    ("venue", "token", "expected"),
    [
        ("The BONK Inu Community", "bonk", True),
        ("\uff22\uff2f\uff2e\uff2b", "$Bonk", True),
        ("Portal", "bonk", False),
        (None, "bonk", None),
        ("BONK", None, None),
        ("BONK", "  ", None),
    ],
)
def test_a_venue_is_compared_with_the_name_of_the_token(
    venue: str | None, token: str | None, expected: bool | None
) -> None:
    assert name_match(venue, token) is expected


@pytest.mark.parametrize("model", [Content, Account, Venue, Token, TokenLink])
def test_a_missing_required_field_is_an_error(model: type[Content]) -> None:
    with pytest.raises(TypeError):
        model.of()


def methods_of(repository: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(repository, inspect.isfunction)
        if not name.startswith("_")
    }


def test_links_cannot_be_changed() -> None:
    words = ("update", "upsert", "save", "replace")
    assert not [name for name in methods_of(TokenLinkRepository) if any(word in name for word in words)]


@pytest.mark.parametrize("repository", [ContentRepository, AccountRepository, VenueRepository])
def test_objects_cannot_be_deleted(repository: type) -> None:
    assert not [name for name in methods_of(repository) if "delete" in name or "remove" in name]


def test_tokens_have_no_price_and_no_second_way_to_a_domain() -> None:
    assert not [name for name in methods_of(TokenRepository) if "price" in name or "domain" in name]


@pytest.mark.parametrize("repository", REPOSITORIES)
def test_no_repository_takes_a_session(repository: type) -> None:
    for name, signature in methods_of(repository).items():
        assert not {"session", "transaction"} & set(signature.parameters), name


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (FetchStatus.OK, LinkStatus.OK),
        (FetchStatus.NOT_FOUND, LinkStatus.DELETED),
        (FetchStatus.BLOCKED, LinkStatus.UNAVAILABLE),
        (FetchStatus.ERROR, LinkStatus.UNRESOLVED),
        (FetchStatus.INVALID, LinkStatus.UNRESOLVED),
    ],
)
def test_the_outcome_of_a_fetch_says_the_state_of_a_link(status: FetchStatus, expected: LinkStatus) -> None:
    assert LinkStatus.of(status) is expected


def content_of(**changes: Any) -> Content:
    return Content.of(
        **{
            "platform": Platform.X,
            "subtype": ContentSubtype.TWEET,
            "source_urls": [SourceURL.of("https://x.com/i/status/1", FetchStatus.OK, AT)],
            "observed_at": AT,
            **changes,
        }
    )


def link_of(**changes: Any) -> TokenLink:
    return TokenLink.of(
        **{
            "token_address": "t",
            "object": ObjectKind.CONTENTS,
            "object_id": ObjectId(),
            "entry_url": "https://a.org/",
            "created_at": AT,
            "observed_at": AT,
            "status": LinkStatus.OK,
            "platform": Platform.X,
            "subtype": ContentSubtype.TWEET,
            **changes,
        }
    )


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: content_of(observed_at=None), "observed_at"),
        (lambda: content_of(parent_relation="like", parent_content_id=ObjectId()), "parent_relation"),
        (lambda: link_of(created_at=None), "created_at"),
        (lambda: link_of(observed_at=None), "observed_at"),
        (lambda: link_of(subtype="nonsense"), "subtype"),
        (lambda: link_of(subtype=VenueSubtype.COMMUNITY), "subtype"),
        (lambda: Token.of(address="t", created_at=None), "created_at"),  # type: ignore[arg-type]
    ],
    ids=["content time", "relation", "link time", "seen time", "subtype", "other subtype", "token time"],
)
def test_what_must_be_there_and_words_that_must_be_known_are_refused_by_name(
    build: Callable[[], object], field: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        build()
    assert caught.value.field == field


def test_fields_of_a_newer_version_do_not_keep_a_row_from_being_read() -> None:
    token = Token.of(address="t", created_at=AT, web=TokenWeb(domain="a.org")).to_document()
    token["web"]["rank"] = 7
    assert Token.from_document(token).web == TokenWeb(domain="a.org")
    author = AuthorSnapshot.of(ObjectId(), handle="a", display_name=None, followers=None)
    stored = content_of(author=author, mentions=[Mention.of("1", "b")]).to_document()
    stored["author"]["mood"] = stored["mentions"][0]["mood"] = stored["text"]["mood"] = "fine"
    read = Content.from_document(stored)
    assert (read.author, read.mentions) == (author, (Mention.of("1", "b"),))
