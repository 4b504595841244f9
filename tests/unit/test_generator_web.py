"""The web: what pages and refusals of sites become."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
import responses
from requests.exceptions import ConnectionError as RequestsConnectionError
from requests.exceptions import SSLError

from tests.conftest import FakeClock, make_settings
from tests.samples import body_of, error_case, sample_bytes
from workers.clock import Budget
from workers.errors import FetchFailed, TargetBlocked, TargetGone, UnsafeAddress
from workers.http.client import OutboundClient
from workers.http.dialer import Candidate
from workers.social_graph.vocabulary import ContentSubtype, Platform
from workers.social_recording.generators.generator import CallCounter, FetchContext
from workers.social_recording.generators.web.page_facts import read_page
from workers.social_recording.generators.web.rdap import UNKNOWN, DomainAges, Registration
from workers.social_recording.generators.web.site import WebGenerator
from workers.social_recording.object_graph import ContentDraft, check
from workers.social_recording.routing import route

SITE = "https://moonharbor-example.com/"
PAGE = "<html><head><title>Moon</title></head><body>hello {}</body></html>"


class AgesThatNobodyKnows(DomainAges):
    """Asks nobody, so that only the calls for the page count here."""

    def registration_of(self, domain: str, now: datetime, context: FetchContext) -> Registration:
        return UNKNOWN


def generate(
    clock: FakeClock, url: str = SITE, calls: CallCounter | None = None, http: OutboundClient | None = None
) -> ContentDraft:
    settings = make_settings()
    client = http or OutboundClient(settings, clock)
    generator = WebGenerator(client, settings, ages=AgesThatNobodyKnows(client, settings))
    way = route(url)
    assert generator.supports(way)
    graph = generator.generate(way, FetchContext(budget=Budget.of(clock, 60), calls=calls or CallCounter()))
    check(graph, url)
    (group,) = graph.groups
    assert (group.account, group.venue, group.metrics) == (None, None, {})
    assert group.content is not None
    assert (group.content.platform, group.content.subtype) == (Platform.WEB, ContentSubtype.SITE)
    return group.content


def serve(body: bytes | str, url: str = SITE, status: int = 200, **headers: str) -> None:
    content_type = headers.pop("content_type", "text/html; charset=utf-8")
    responses.get(url, body=body, status=status, content_type=content_type, headers=headers)


@responses.activate
def test_a_page_tells_its_title_description_picture_and_places_elsewhere(clock: FakeClock) -> None:
    serve(sample_bytes("web/page_full.html"))
    calls = CallCounter()
    content = generate(clock, calls=calls)
    assert (content.url, content.platform_key) == (SITE, "moonharbor-example.com/")
    assert content.text_primary == "Moon Harbor"
    assert content.text_body == "The quiet harbor for night traders, since 2021."
    assert content.links == ("https://x.com/moonharbor_xyz", "https://t.me/moonharbor")
    assert content.data == {
        "http_status": 200,
        "content_type": "text/html",
        "image_url": "https://moonharbor-example.com/static/og.png",
        "site_name": "Moon Harbor",
        "organization": "Moon Harbor",
        "domain": "moonharbor-example.com",
    }
    assert content.published_at is None
    assert calls.calls == 1
    assert responses.calls[0].request.headers["User-Agent"].startswith("converge/")


@pytest.mark.parametrize(
    ("sample", "title", "flags"),
    [
        ("web/page_spa_empty.html", "Vite + React + TS", ["default_title", "no_text"]),
        ("web/parked.html", "moonharbor-example.com", ["no_text", "parked"]),
    ],
)
@responses.activate
def test_a_page_that_is_not_to_be_trusted_is_flagged_and_kept(
    sample: str, title: str, flags: list[str], clock: FakeClock
) -> None:
    serve(sample_bytes(sample))
    content = generate(clock)
    assert content.text_primary == title
    assert content.data["flags"] == flags


@responses.activate
def test_two_pages_of_one_site_are_two_contents(clock: FakeClock) -> None:
    keys = set()
    for url in (
        "http://www.example.com/promo?utm_source=a",
        "https://example.com/promo",
        "https://example.com:443/promo#top",
        "https://example.com/promo?id=2",
    ):
        serve(PAGE, route(url).url)
        keys.add(generate(clock, url).platform_key)
    assert keys == {"example.com/promo", "example.com/promo?id=2"}


@responses.activate
def test_the_key_is_the_place_that_answered_and_the_way_there_is_kept(clock: FakeClock) -> None:
    entry = error_case("web/errors.json", "site_redirect_chain")
    responses.get(SITE, status=301, headers={"Location": "https://www.lighthouse-example.com/start?ref=1"})
    serve(PAGE, "https://www.lighthouse-example.com/start?ref=1")
    content = generate(clock)
    assert entry["status"] == 301
    assert content.platform_key == "lighthouse-example.com/start?ref=1"
    assert content.data["redirects"] == [SITE, "https://www.lighthouse-example.com/start?ref=1"]


@responses.activate
def test_a_redirect_to_www_is_the_same_place(clock: FakeClock) -> None:
    responses.get(SITE, status=301, headers={"Location": "https://www.moonharbor-example.com/"})
    serve(PAGE, "https://www.moonharbor-example.com/")
    assert generate(clock).platform_key == "moonharbor-example.com/"


@responses.activate
def test_a_place_behind_a_hash_keeps_its_own_key(clock: FakeClock) -> None:
    serve(PAGE, "https://example.com/app")
    assert generate(clock, "https://example.com/app#/swap").platform_key == "example.com/app#/swap"


@pytest.mark.parametrize(
    ("case", "error", "reason"),
    [
        ("site_gone", TargetGone, "http_404"),
        ("site_410", TargetGone, "http_410"),
        ("site_geo_block", TargetBlocked, "http_451"),
        ("site_challenge", TargetBlocked, "challenge"),
        ("site_origin_down", FetchFailed, "http_522"),
        ("site_host_unknown", TargetGone, "origin_nxdomain"),
        ("site_vercel_missing", TargetGone, "hosting_not_found"),
    ],
)
@responses.activate
def test_every_known_refusal_has_its_meaning(
    case: str, error: type[Exception], reason: str, clock: FakeClock
) -> None:
    entry = error_case("web/errors.json", case)
    body = sample_bytes("web/challenge_403.html") if case == "site_challenge" else body_of(entry)
    headers = {name: value for name, value in entry["headers"].items() if name != "content-type"}
    serve(body, status=entry["status"], content_type=entry["headers"]["content-type"], **headers)
    with pytest.raises(error) as caught:
        generate(clock)
    assert type(caught.value) is error
    assert getattr(caught.value, "reason", None) == reason


@pytest.mark.parametrize(
    ("status", "body", "error", "reason"),
    [
        (401, b"", TargetBlocked, "http_401"),
        (402, b"", TargetBlocked, "http_402"),
        (403, b"Forbidden", TargetBlocked, "http_403"),
        (403, sample_bytes("web/challenge_403.html"), TargetBlocked, "challenge"),
        (429, b"", FetchFailed, "rate_limited"),
        (500, b"", FetchFailed, "http_500"),
        (503, b"<title>Just a moment...</title>", FetchFailed, "http_503"),
        (530, b"error code: 1033", FetchFailed, "http_530"),
        (418, b"", FetchFailed, "http_418"),
        (302, b"", FetchFailed, "http_302"),
        (200, b"", FetchFailed, "empty_body"),
        (200, b" \n", FetchFailed, "empty_body"),
        (200, b"<title>Just a moment...</title>", FetchFailed, "challenge_page"),
        (200, b"<title>Attention Required! | Cloudflare</title>", FetchFailed, "challenge_page"),
        (200, b"<title>404 Not Found</title>", FetchFailed, "error_page"),
        (200, b"<title>Error 502</title>", FetchFailed, "error_page"),
        (200, b"<title>Page not found | Shop</title>", FetchFailed, "error_page"),
        (200, b"<title>Log in</title><form><input type=password></form>", FetchFailed, "login_wall"),
    ],
)
@responses.activate
def test_what_stands_in_place_of_the_page_is_never_ok(
    status: int, body: bytes, error: type[Exception], reason: str, clock: FakeClock
) -> None:
    serve(body, status=status)
    with pytest.raises(error) as caught:
        generate(clock)
    assert (type(caught.value), getattr(caught.value, "reason", None)) == (error, reason)


@pytest.mark.parametrize(
    "title", ["404 Clothing", "500 Startups", "Signal", "Login Systems Inc", "Page Notes"]
)
@responses.activate
def test_a_name_that_looks_a_little_like_an_error_is_a_name(title: str, clock: FakeClock) -> None:
    serve(f"<title>{title}</title><p>welcome")
    assert generate(clock).text_primary == title


@responses.activate
def test_a_refusal_counts_only_when_it_is_said_twice(clock: FakeClock) -> None:
    serve("no", status=403)
    serve(PAGE)
    calls = CallCounter()
    assert generate(clock, calls=calls).text_primary == "Moon"
    assert calls.calls == 2


class NameServer:
    """Answers from a list of names; every connection is refused, so only names are told apart."""

    def __init__(self, *, known: Sequence[str] = (), code: int = socket.EAI_NONAME) -> None:
        self.known = known
        self.code = code
        self.asked: list[str] = []

    def resolve(self, host: str, port: int) -> Sequence[Candidate]:
        self.asked.append(host)
        if host not in self.known:
            raise socket.gaierror(self.code, "said the name server")
        return [(socket.AF_INET, ("93.184.215.14", port))]


def refuse(sock: socket.socket, address: tuple[Any, ...]) -> None:
    raise ConnectionRefusedError


def test_a_name_that_does_not_exist_with_or_without_www_is_gone(clock: FakeClock) -> None:
    names = NameServer()
    http = OutboundClient(make_settings(), clock, resolve=names.resolve, connect=refuse)
    with pytest.raises(TargetGone) as caught:
        generate(clock, http=http)
    assert caught.value.reason == "dns_nxdomain"
    assert names.asked == ["moonharbor-example.com", "www.moonharbor-example.com"]


def test_a_name_server_that_cannot_say_now_is_an_error(clock: FakeClock) -> None:
    names = NameServer(code=socket.EAI_AGAIN)
    http = OutboundClient(make_settings(), clock, resolve=names.resolve, connect=refuse)
    with pytest.raises(FetchFailed) as caught:
        generate(clock, http=http)
    assert caught.value.reason == "dns_temporary"
    assert len(names.asked) == 3


def test_a_site_that_refuses_connections_is_tried_without_tls_too_and_fails_as_it_first_did(
    clock: FakeClock,
) -> None:
    names = NameServer(known=["moonharbor-example.com"])
    http = OutboundClient(make_settings(), clock, resolve=names.resolve, connect=refuse)
    calls = CallCounter()
    with pytest.raises(FetchFailed) as caught:
        generate(clock, calls=calls, http=http)
    assert caught.value.reason == "connection_failed"
    assert calls.calls == 4


@pytest.mark.parametrize("failure", [SSLError("no certificate"), RequestsConnectionError("refused")])
@responses.activate
def test_a_site_without_tls_is_read_without_it(failure: Exception, clock: FakeClock) -> None:
    responses.get(SITE, body=failure)
    serve(PAGE, "http://moonharbor-example.com/")
    content = generate(clock)
    assert (content.url, content.platform_key) == (SITE, "moonharbor-example.com/")


@responses.activate
def test_a_site_that_leads_inside_is_refused(clock: FakeClock) -> None:
    responses.get(SITE, status=302, headers={"Location": "http://10.0.0.5/"})
    with pytest.raises(UnsafeAddress):
        generate(clock)
    assert len(responses.calls) == 1


@responses.activate
def test_a_file_has_a_type_and_no_title(clock: FakeClock) -> None:
    serve(b"%PDF-1.7 ...", content_type="application/pdf")
    content = generate(clock)
    assert (content.text_primary, content.data) == (
        None,
        {
            "http_status": 200,
            "content_type": "application/pdf",
            "domain": "moonharbor-example.com",
        },
    )


@responses.activate
def test_a_page_in_an_old_charset_has_its_right_title(clock: FakeClock) -> None:
    page = '<meta charset="windows-1251"><title>Тихая гавань</title><p>привет'.encode("cp1251")
    serve(page, content_type="text/html")
    assert generate(clock).text_primary == "Тихая гавань"


@responses.activate
def test_the_head_of_a_long_page_is_enough(clock: FakeClock) -> None:
    serve("<title>Long</title><p>" + "x" * 1_500_000)
    content = generate(clock)
    assert content.text_primary == "Long"
    assert content.data["is_cut"] is True


@pytest.mark.parametrize(
    ("head", "title"),
    [
        (
            '<meta property="og:title" content="OG"><meta name="twitter:title" content="TW"><title>T</title>',
            "OG",
        ),
        ('<meta name="twitter:title" content="TW"><title>T</title>', "TW"),
        ('<meta property="og:title" content="  "><title>\n T &amp;amp; \n U </title>', "T &amp; U"),
        ('<meta name="OG:Title" content="A"><meta property="og:title" content="B">', "A"),
        ("<svg><title>Icon</title></svg>", None),
        ("", None),
    ],
)
def test_the_first_title_that_is_not_empty_wins(head: str, title: str | None) -> None:
    assert read_page(f"<html><head>{head}</head><body>x</body></html>", SITE).title == title


@pytest.mark.parametrize(
    ("markup", "image"),
    [
        ('<meta property="og:image" content="/i.png">', "https://moonharbor-example.com/i.png"),
        (
            '<base href="https://cdn.example.com/a/"><meta property="og:image" content="i.png">',
            "https://cdn.example.com/a/i.png",
        ),
        ('<meta property="og:image" content="data:image/png;base64,AA">', None),
        ('<meta property="og:image" content="http://[broken">', None),
    ],
)
def test_a_picture_is_resolved_against_the_page(markup: str, image: str | None) -> None:
    assert read_page(f"<html><head>{markup}</head></html>", SITE).image_url == image


@pytest.mark.parametrize(
    "data",
    [
        "not json",
        "[" * 100_000,
        '{"sameAs": 5}',
        '{"sameAs": [null, {"a": 1}]}',
        '[[[[[[[[{"sameAs": "https://x.com/deep"}]]]]]]]]',
    ],
)
def test_broken_linked_data_is_ignored(data: str) -> None:
    page = read_page(f'<script type="application/ld+json">{data}</script>', SITE)
    assert page.links == ()


def test_linked_data_inside_lists_and_graphs_is_found() -> None:
    data = '{"@graph": [{"@type": "Organization", "name": " A  B ", "sameAs": "https://t.me/ab"}]}'
    page = read_page(f'<script type="application/ld+json">{data}</script>', SITE)
    assert (page.organization, page.links) == ("A B", ("https://t.me/ab",))
