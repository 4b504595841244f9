"""The URLs of all tokens at a glance, on a real store: counted by platform, listed in order, foretold."""

from __future__ import annotations

import csv
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from devstack.sandbox.tokens import address_of
from tests.conftest import FakeClock, make_settings
from tests.integration.recording_place import RecordingPlace, failed_url, new_site, place, sandbox
from tests.integration.social_graph_server import CommandLog, command_log, graph_database, logged_database
from workers.errors import InvalidInput, RetryableError
from workers.mongo import MongoDatabase, connect
from workers.social_graph.token import RetryableURL, Token, TokenRepository, TokenSocialURL
from workers.social_graph.token.survey import URLPlace
from workers.social_graph.vocabulary import FetchStatus, ObjectKind, Platform
from workers.social_recording.due import RetryInterval
from workers.social_recording.explain import Rule
from workers.social_recording.overview import HOSTS, DueIn, Overview, URLList, forecast
from workers.social_recording.routing import normalize, route

__all__ = ["command_log", "graph_database", "logged_database", "place", "sandbox"]

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
WAIT_S = 30.0
INTERVAL = RetryInterval(shortest=timedelta(hours=1))


def overview_of(
    database: MongoDatabase,
    clock: FakeClock,
    *,
    obstacle_to: Callable[[str], FetchStatus | None] = lambda _: None,
) -> Overview:
    return Overview(database, clock, obstacle_to=obstacle_to, interval=INTERVAL, max_attempts=5)


@pytest.fixture
def tokens(logged_database: MongoDatabase, clock: FakeClock) -> TokenRepository:
    return TokenRepository(logged_database, clock)


@pytest.fixture
def overview(logged_database: MongoDatabase, clock: FakeClock) -> Overview:
    return overview_of(logged_database, clock)


def element(
    url: str,
    status: FetchStatus,
    *,
    attempts: int = 1,
    at: datetime | None = NOW,
    reason: str | None = None,
) -> TokenSocialURL:
    return TokenSocialURL(url=url, status=status, attempts=attempts, attempted_at=at, reason=reason)


def store(tokens: TokenRepository, address: str, *urls: TokenSocialURL) -> None:
    tokens.insert(Token.of(address=address, created_at=NOW, social_urls=urls))


def urls_of(page: URLList) -> list[str]:
    return [each.row.url for each in page.rows]


def all_pages(overview: Overview, status: FetchStatus, *, limit: int, **wanted: object) -> list[str]:
    """The URLs of all pages, one page after the other."""
    found: list[str] = []
    page = overview.list_urls(status, limit=limit, **wanted)  # type: ignore[arg-type]
    found += urls_of(page)
    while page.next_from is not None:
        after = URLPlace.from_text(page.next_from.to_text())
        page = overview.list_urls(status, limit=limit, after=after, **wanted)  # type: ignore[arg-type]
        assert len(page.rows) <= limit
        found += urls_of(page)
    return found


def canonical_urls(checkout: Path) -> list[str]:
    """The canonical URLs of the collection of links, and texts that are no URLs or odd ones."""
    with (checkout / "tests/corpus/urls/token_urls_sample.tsv").open(encoding="utf-8") as lines:
        written = {cell for row in csv.reader(lines, delimiter="\t") for cell in row if "." in cell}
    found = {normalize(text).url for text in sorted(written)}
    odd = {
        "https://x.com.evil.io/a",
        "https://evil.io/https://x.com/a",
        "https://x.com@evil.io/a",
        "https://x.com:8443/a",
        "http://169.254.169.254/latest/",
        "https://gist.github.com/a/b",
        "https://vm.tiktok.com/abc/",
        "https://t.co/abc",
        "not a url",
        "a/b/c",
    }
    return sorted({url for url in found if url} | odd)


def test_the_platforms_are_counted_as_the_router_tells_them_apart(
    tokens: TokenRepository, overview: Overview, checkout: Path
) -> None:
    urls = canonical_urls(checkout)
    assert len(urls) > 200
    statuses = list(FetchStatus)
    expected: Counter[tuple[Platform, FetchStatus]] = Counter()
    for number in range(0, len(urls), 3):
        elements = []
        for position, url in enumerate(urls[number : number + 3]):
            status = statuses[(number + position) % len(statuses)]
            expected[route(url).platform, status] += 1
            elements.append(element(url, status))
        store(tokens, f"t{number}", *elements)
    seen = overview.counts(wait_s=WAIT_S)
    assert seen is not None
    counted = {
        (platform, status): seen.value.number(platform, status)
        for platform in Platform
        for status in FetchStatus
    }
    assert {key: number for key, number in counted.items() if number} == dict(expected)
    assert seen.value.number() == len(urls)
    for platform in Platform:
        listed = {
            url for status in FetchStatus for url in all_pages(overview, status, limit=50, platform=platform)
        }
        assert listed == {url for url in urls if route(url).platform is platform}


def test_a_host_belongs_to_one_platform_and_its_urls_are_routed_there() -> None:
    hosts = [host for some in HOSTS.values() for host in some]
    assert len(set(hosts)) == len(hosts)
    for platform, some in HOSTS.items():
        assert {route(f"https://{host}/a").platform for host in some} == {platform}


def test_reasons_are_counted_by_platform_the_most_frequent_first(
    tokens: TokenRepository, overview: Overview
) -> None:
    store(tokens, "t1", element("https://x.com/a", FetchStatus.ERROR, reason="http_503"))
    store(tokens, "t2", element("https://x.com/b", FetchStatus.ERROR, reason="http_503"))
    store(tokens, "t3", element("https://a.org/", FetchStatus.BLOCKED, reason="login_wall"))
    store(tokens, "t4", element("https://b.org/", FetchStatus.OK))
    seen = overview.counts(wait_s=WAIT_S)
    assert seen is not None
    assert seen.value.reasons(*FetchStatus) == [
        (FetchStatus.ERROR, "http_503", Platform.X, 2),
        (FetchStatus.BLOCKED, "login_wall", Platform.WEB, 1),
    ]
    assert seen.value.reasons(FetchStatus.OK) == []


def test_a_store_without_tokens_counts_nothing(overview: Overview) -> None:
    seen = overview.counts(wait_s=WAIT_S)
    assert seen is not None
    assert seen.value.number() == 0


def test_counting_reads_the_store_once_in_half_a_minute(
    overview: Overview, command_log: CommandLog, clock: FakeClock
) -> None:
    with command_log.counted() as once:
        overview.counts(wait_s=WAIT_S)
    assert set(once) == {"aggregate"}
    with command_log.counted() as names:
        for _ in range(5):
            overview.counts(wait_s=WAIT_S)
    assert names == []
    clock.advance(30)
    with command_log.counted() as names:
        overview.counts(wait_s=WAIT_S)
    assert names == once


def test_a_store_that_is_away_is_told_as_soon_as_it_is_known(clock: FakeClock) -> None:
    nowhere = connect(make_settings(mongo_url="mongodb://127.0.0.1:9"), is_impatient=True)
    overview = overview_of(nowhere, clock)
    began = time.monotonic()
    for look in (overview.counts, overview.forecast):
        with pytest.raises(RetryableError):
            look(wait_s=WAIT_S)
    assert time.monotonic() - began < WAIT_S / 2
    nowhere.client.close()


def test_waiting_urls_come_in_the_order_of_the_retry_on_pages_that_do_not_overlap(
    tokens: TokenRepository, overview: Overview
) -> None:
    for number in range(7):
        store(
            tokens,
            f"t{number}",
            element(f"https://a{number}.org/", FetchStatus.ERROR, at=NOW - timedelta(minutes=number % 3)),
            element(f"https://b{number}.org/", FetchStatus.ERROR, at=None, attempts=number % 2),
            element(f"https://c{number}.org/", FetchStatus.OK),
        )
    in_order = [each.url for each in tokens.iterate_retryable_urls([FetchStatus.ERROR])]
    assert len(in_order) == 14
    for limit in (1, 3, 14, 50):
        assert all_pages(overview, FetchStatus.ERROR, limit=limit) == in_order


def test_finished_urls_come_by_their_token_on_pages_that_do_not_overlap(
    tokens: TokenRepository, overview: Overview
) -> None:
    addresses = sorted(address_of("finished", str(number)) for number in range(90))
    for number, address in enumerate(addresses):
        store(
            tokens,
            address,
            element(f"https://b{number:03}.org/", FetchStatus.OK),
            element(f"https://a{number:03}.org/", FetchStatus.OK if number % 2 else FetchStatus.ERROR),
        )
    expected = sorted(
        [f"https://b{number:03}.org/" for number in range(90)]
        + [f"https://a{number:03}.org/" for number in range(1, 90, 2)],
        key=lambda url: (url[9:12], url),
    )
    for limit in (7, 100, 1000):
        assert all_pages(overview, FetchStatus.OK, limit=limit) == expected


def test_all_tokens_are_counted_and_ordered_wherever_their_addresses_lie(
    tokens: TokenRepository, overview: Overview
) -> None:
    odd = ["0", "1", "l", "zzzz", "zzzzz", "~", "\u00e9", "\U0001f600"]
    addresses = odd + [address_of("everywhere", str(number)) for number in range(60)]
    for number, address in enumerate(addresses):
        at = NOW - timedelta(minutes=number * 7 % 60)
        store(tokens, address, element(f"https://a{number}.org/", FetchStatus.ERROR, at=at))
    in_order = [each.url for each in tokens.iterate_retryable_urls([FetchStatus.ERROR])]
    assert all_pages(overview, FetchStatus.ERROR, limit=10) == in_order
    counts, expected = overview.counts(wait_s=WAIT_S), overview.forecast(wait_s=WAIT_S)
    assert counts is not None
    assert expected is not None
    assert counts.value.number() == expected.value.looked_at == len(addresses) == len(in_order)


def test_a_page_by_token_looks_no_further_than_it_must(
    tokens: TokenRepository, overview: Overview, command_log: CommandLog
) -> None:
    for number in range(60):
        store(tokens, address_of("many", str(number)), element(f"https://a{number}.org/", FetchStatus.OK))
    with command_log.counted() as some:
        assert len(overview.list_urls(FetchStatus.OK, limit=3).rows) == 3
    with command_log.counted() as every:
        assert len(overview.list_urls(FetchStatus.OK, limit=60).rows) == 60
    assert len(some) < len(every)


def test_a_list_can_be_narrowed_to_a_reason(tokens: TokenRepository, overview: Overview) -> None:
    store(
        tokens,
        "t1",
        element("https://a.org/", FetchStatus.ERROR, reason="timeout"),
        element("https://b.org/", FetchStatus.ERROR, reason="http_503"),
        element("https://c.org/", FetchStatus.BLOCKED, reason="login_wall"),
        element("https://d.org/", FetchStatus.BLOCKED, reason="unsafe_address"),
    )
    assert all_pages(overview, FetchStatus.ERROR, limit=5, reason="timeout") == ["https://a.org/"]
    assert all_pages(overview, FetchStatus.BLOCKED, limit=5, reason="login_wall") == ["https://c.org/"]


def test_tokens_come_newest_first_on_pages_that_do_not_overlap(
    tokens: TokenRepository, overview: Overview
) -> None:
    for number in range(7):
        store(tokens, f"t{number}")
    seen: list[str] = []
    page, before = overview.newest_tokens(3)
    seen += [token.address for token in page]
    while before is not None:
        page, before = overview.newest_tokens(3, before=before)
        seen += [token.address for token in page]
    assert seen == [f"t{number}" for number in reversed(range(7))]
    with pytest.raises(InvalidInput):
        overview.newest_tokens(3, before="nonsense")


def test_tokens_of_many_years_are_paged_through_newest_first_also_where_times_are_the_same(
    overview: Overview, tokens: TokenRepository, clock: FakeClock
) -> None:
    ages = [0, 0, 0, 0, 0, 30, 3600, 3600, 86_400, 40 * 86_400, 400 * 86_400, 9000 * 86_400]
    for number, age_s in enumerate(ages):
        at = clock.now() + timedelta(minutes=1) - timedelta(seconds=age_s)
        tokens.insert(Token.of(address=f"t{number:02}", created_at=at))
    seen: list[tuple[datetime, str]] = []
    page, before = overview.newest_tokens(2)
    while True:
        seen += [(token.created_at, token.address) for token in page]
        if before is None:
            break
        page, before = overview.newest_tokens(2, before=before)
    assert [at for at, _ in seen] == sorted((at for at, _ in seen), reverse=True)
    assert sorted(address for _, address in seen) == [f"t{number:02}" for number in range(len(ages))]


@pytest.mark.parametrize("text", ["", "?", "AAAA", "bnVsbA", "W10", "WyJ4IiwxLCJ0IiwidSJd", "é"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        URLPlace.from_text(text)


def test_a_list_says_which_rule_decides_about_each_url(
    tokens: TokenRepository, logged_database: MongoDatabase, clock: FakeClock
) -> None:
    def obstacle_to(url: str) -> FetchStatus | None:
        return FetchStatus.SKIPPED_PAID if "x.com" in url else None

    now = clock.now()
    store(
        tokens,
        "t1",
        element("https://a.org/", FetchStatus.ERROR, at=now - timedelta(hours=2)),
        element("https://b.org/", FetchStatus.ERROR, at=now - timedelta(minutes=10)),
        element("https://x.com/c", FetchStatus.ERROR, at=now - timedelta(minutes=5)),
        element("https://d.org/", FetchStatus.NOT_FOUND, at=now),
    )
    overview = overview_of(logged_database, clock, obstacle_to=obstacle_to)
    rows = overview.list_urls(FetchStatus.ERROR, limit=10).rows
    assert [(each.row.url, each.rule, each.platform) for each in rows] == [
        ("https://a.org/", Rule.DUE, Platform.WEB),
        ("https://b.org/", Rule.RESTING, Platform.WEB),
        ("https://x.com/c", Rule.PAID_IS_OFF, Platform.X),
    ]
    assert [each.due_at for each in rows] == [
        now - timedelta(hours=1),
        now + timedelta(minutes=50),
        None,
    ]
    [gone] = overview.list_urls(FetchStatus.NOT_FOUND, limit=10).rows
    assert (gone.rule, gone.due_at) == (Rule.FINAL, None)


def candidate(number: int, due_at: datetime | None) -> RetryableURL:
    return RetryableURL(
        address="t",
        symbol=None,
        first_transfer_at=None,
        url=f"https://a{number}.org/",
        status=FetchStatus.ERROR,
        attempts=1,
        attempted_at=None if due_at is None else due_at - INTERVAL.shortest,
    )


def test_a_forecast_says_how_many_are_due_when() -> None:
    hour = timedelta(hours=1)
    ms = timedelta(milliseconds=1)
    times = [None, NOW - hour, NOW, NOW + ms, NOW + hour, NOW + hour + ms, NOW + 6 * hour, NOW + 24 * hour]
    times.append(NOW + 24 * hour + ms)
    found = forecast(
        [candidate(number, at) for number, at in enumerate(times)],
        is_processable=lambda _: True,
        due_at=INTERVAL.due_at,
        now=NOW,
    )
    assert found.urls == {
        DueIn.NOW: 3,
        DueIn.HOUR: 2,
        DueIn.SIX_HOURS: 2,
        DueIn.DAY: 1,
        DueIn.LATER: 1,
    }
    assert (found.looked_at, found.is_cut_short) == (9, False)


def test_a_forecast_looks_at_so_many_urls_and_says_when_there_are_more() -> None:
    candidates = [candidate(number, NOW) for number in range(5)]

    def look(urls_max: int) -> tuple[int, bool]:
        found = forecast(
            candidates,
            is_processable=lambda url: url != "https://a0.org/",
            due_at=INTERVAL.due_at,
            now=NOW,
            urls_max=urls_max,
        )
        return found.urls[DueIn.NOW] + found.urls[DueIn.NEVER], found.is_cut_short

    assert [look(4), look(5), look(6)] == [(4, True), (5, False), (5, False)]


def test_the_forecast_agrees_with_a_dry_run_of_the_retry(place: RecordingPlace) -> None:
    for minutes in (5, 30, 90, 600, None):
        at = None if minutes is None else place.clock.now() - timedelta(minutes=minutes)
        place.store_token(failed_url(new_site(), attempted_at=at))
    place.store_token(failed_url("https://x.com/somebody"))
    meta = place.run_retry(dryRun=True)
    overview = Overview(
        place.database,
        place.clock,
        obstacle_to=lambda url: FetchStatus.SKIPPED_PAID if "x.com" in url else None,
        interval=INTERVAL,
        max_attempts=5,
    )
    seen = overview.forecast(wait_s=WAIT_S)
    assert seen is not None
    due = seen.value.urls
    assert due[DueIn.NEVER] == meta["notProcessable"] == 1
    assert due[DueIn.HOUR] == meta["skippedByInterval"] == 2
    assert due[DueIn.NOW] == meta["planned"] == 3
    assert seen.value.looked_at == meta["candidateUrls"] == 6


def test_an_object_is_found_by_any_spelling_of_a_url_that_leads_to_it(place: RecordingPlace) -> None:
    site = new_site()
    [address] = place.list_tokens({"website": site})
    place.run_reconcile()
    [link] = place.database["token_links"].find({"token_address": address})
    overview = Overview(
        place.database, place.clock, obstacle_to=lambda _: None, interval=INTERVAL, max_attempts=5
    )
    expected = (ObjectKind.CONTENTS, str(link["object_id"]))
    assert overview.find_object(f"  {site.upper()}?utm_source=a") == expected
    assert overview.find_object("https://nowhere-to-be-found.org/") is None
    assert overview.find_object("not a url") is None
