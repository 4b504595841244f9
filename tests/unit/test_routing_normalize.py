"""What counts as one URL, what is taken from a text, and what is refused with which reason."""

from __future__ import annotations

import time

import pytest

from workers.social_graph.vocabulary import Platform
from workers.social_recording.routing import (
    TEXT_MAX,
    Rejection,
    links_in,
    normalize,
    registrable_domain,
    route,
)
from workers.social_recording.routing.extraction import links_meant
from workers.social_recording.routing.parts import LINK_MAX, is_plain


def urls_in(text: str, handles_of: Platform | None = None) -> list[str]:
    return [each.url for each in links_in(text, handles_of=handles_of) if each.url is not None]


def test_letter_case_of_a_video_id_makes_two_rows_and_that_of_the_host_does_not() -> None:
    first, other, third = (
        normalize(url).url
        for url in (
            "https://youtu.be/aFCO6Wid0VM",
            "https://youtu.be/afco6wid0vm",
            "HTTPS://YouTu.be/aFCO6Wid0VM",
        )
    )
    assert first == third == "https://youtube.com/watch?v=aFCO6Wid0VM"
    assert other == "https://youtube.com/watch?v=afco6wid0vm"


def test_scheme_www_port_tracker_and_fragment_do_not_make_a_page_another_one_but_a_query_does() -> None:
    same = {
        normalize(url).url
        for url in (
            "http://www.example.com/promo?utm_source=a",
            "https://example.com/promo",
            "https://example.com:443/promo#top",
            "http://example.com:80/promo/",
        )
    }
    assert same == {"https://example.com/promo"}
    assert normalize("https://example.com/promo?id=2").url == "https://example.com/promo?id=2"


def test_a_bio_gives_exactly_its_two_links() -> None:
    found = links_in("see https://t.co/AbC123xyz… and (https://t.co/Qq9).")
    assert [each.url for each in found] == ["https://t.co/AbC123xyz", "https://t.co/Qq9"]


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://example.com/Case/Path", "https://example.com/Case/Path"),
        ("https://EXAMPLE.com", "https://example.com/"),
        ("https://example.com?b=2&a=1&utm_medium=x&FBCLID=y", "https://example.com/?b=2&a=1"),
        ("https://example.com/?", "https://example.com/"),
        ("https://example.com./x", "https://example.com/x"),
        ("https://example.com/%c3%a4", "https://example.com/%C3%A4"),
        ("https://example.com/ä", "https://example.com/%C3%A4"),
        ("https://пример.рф/x", "https://xn--e1afmkfd.xn--p1ai/x"),
        ("https://app.example.com/#/pools/a", "https://app.example.com/#/pools/a"),
        ("https://example.com/#!/a", "https://example.com/#!/a"),
        ("https://example.com/a#/", "https://example.com/a"),
        ("https://example.com/a/../b//c", "https://example.com/b//c"),
        ("http://example.com:3000/", "http://example.com:3000/"),
        ("https://example.com:3000", "https://example.com:3000/"),
        ("https://www.gov.uk/x", "https://www.gov.uk/x"),
        ("http://www.name.github.io", "https://name.github.io/"),
        ("https://vercel.app/", "https://vercel.app/"),
        ("https://\uff57\uff57\uff57.example.com/", "https://example.com/"),
        ("https://example.com/?u=https://other.com/a", "https://example.com/?u=https://other.com/a"),
        (
            "https://web.archive.org/web/2020/https://example.com/a",
            "https://web.archive.org/web/2020/https://example.com/a",
        ),
    ],
)
def test_a_web_url_has_one_form(text: str, url: str) -> None:
    assert normalize(text).url == url
    assert normalize(url).url == url


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("  https://example.com/a \n", "https://example.com/a"),
        ("\u200bhttps://exam\u2060ple.com/a\ufeff", "https://example.com/a"),
        ("<https://example.com/a>", "https://example.com/a"),
        ('"https://example.com/a"', "https://example.com/a"),
        ("[site](https://example.com/a)", "https://example.com/a"),
        ("(https://example.com/a_(b))", "https://example.com/a_(b)"),
        ("https://example.com/a).", "https://example.com/a"),
        ("https://example.com/a)🥵", "https://example.com/a"),
        ("👉https://example.com/a", "https://example.com/a"),
        (".https://example.com/", "https://example.com/"),
        ("hhttps://example.com/a", "https://example.com/a"),
        ("ttps://example.com/a", "https://example.com/a"),
        ("hgttps://example.com/a", "https://example.com/a"),
        ("httpS://example.com/a", "https://example.com/a"),
        ("https:/example.com/a", "https://example.com/a"),
        ("https:///example.com/a", "https://example.com/a"),
        ("https//example.com/a", "https://example.com/a"),
        ("https:example.com/a", "https://example.com/a"),
        ("http://https://example.com/a", "https://example.com/a"),
        ("https:https://example.com/a", "https://example.com/a"),
        ("https://discord.gg/https://discord.gg/abc", "https://discord.gg/abc"),
        ("//example.com/a", "https://example.com/a"),
        ("example.com", "https://example.com/"),
        ("example.com:8080/a", "https://example.com:8080/a"),
        ("twitter:https://x.com/name", "https://x.com/name"),
        ("web\uff1aexample.com/a", "https://example.com/a"),
        ("Website:example.com/a", "https://example.com/a"),
        ("t.me/name1", "https://t.me/name1"),
        ("git@github.com:owner/repo.git", "https://github.com/owner/repo"),
    ],
)
def test_what_people_type_is_repaired(text: str, url: str) -> None:
    assert normalize(text).url == url


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        (
            "https://t.me/name1 https://x.com/name1 https://example.com/",
            ["https://t.me/name1", "https://x.com/name1", "https://example.com/"],
        ),
        ("https://a.com,https://b.com", ["https://a.com/", "https://b.com/"]),
        ("https://a.comhttps://b.com", ["https://a.com/", "https://b.com/"]),
        ("discord.gg/abchttps://b.com/c", ["https://discord.gg/abc", "https://b.com/c"]),
        (
            "http://example.org/a。twitter\uff1ahttps://x.com/name\uff0cweb\uff1ab.com/c",
            ["https://example.org/a", "https://x.com/name", "https://b.com/c"],
        ),
        ("https://a.com https://www.a.com/#top http://a.com", ["https://a.com/"]),
        ("example.com, example.org", ["https://example.com/", "https://example.org/"]),
        ("we write Node.js and README.md in v1.2", []),
        ("join t.me/name1 or www.example.com today", ["https://t.me/name1", "https://example.com/"]),
        ("costs 10 USD at 1.2.3.4", []),
        ("www.Some Token Name.pro", []),
        ("javascript:location='https://example.com/'", []),
    ],
)
def test_a_field_gives_its_links_in_order_and_each_once(text: str, urls: list[str]) -> None:
    assert urls_in(text) == urls


def test_what_was_dropped_is_reported_beside_what_was_found() -> None:
    found = links_in("https://a.com wss://b.com/feed me@c.com https://d.invalidzone/")
    assert [(each.url, each.reason) for each in found] == [
        ("https://a.com/", None),
        (None, Rejection.BAD_SCHEME),
        (None, Rejection.EMAIL),
        (None, Rejection.NO_PUBLIC_SUFFIX),
    ]


@pytest.mark.parametrize(
    ("platform", "url"),
    [
        (Platform.X, "https://x.com/some_name"),
        (Platform.TELEGRAM, "https://t.me/some_name"),
        (Platform.TIKTOK, "https://tiktok.com/@some_name"),
        (Platform.INSTAGRAM, "https://instagram.com/some_name"),
        (Platform.YOUTUBE, "https://youtube.com/@some_name"),
    ],
)
def test_a_bare_handle_is_a_link_where_the_field_says_of_what(platform: Platform, url: str) -> None:
    assert normalize("@Some_Name", handles_of=platform).url == url
    assert normalize("@Some_Name").reason is Rejection.BARE_HANDLE
    assert normalize("@Some_Name", handles_of=Platform.WEB).reason is Rejection.BARE_HANDLE


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", Rejection.EMPTY),
        (" \n\u3000", Rejection.EMPTY),
        ("-", Rejection.NOT_A_URL),
        ("/", Rejection.NOT_A_URL),
        ("无", Rejection.NOT_A_URL),
        ("Some Coin", Rejection.NOT_A_URL),
        ("localhost:6379", Rejection.NOT_A_URL),
        ("javascript:alert(1)", Rejection.BAD_SCHEME),
        ("mailto:a@b.com", Rejection.BAD_SCHEME),
        ("ipfs://some.dao", Rejection.BAD_SCHEME),
        ("tg://resolve?domain=name1", Rejection.BAD_SCHEME),
        ("somebody@example.com", Rejection.EMAIL),
        ("JavaScript:alert(1)", Rejection.BAD_SCHEME),
        ("\x01javascript:alert(1)", Rejection.BAD_SCHEME),
        ("java\u200bscript:alert(1)", Rejection.BAD_SCHEME),
        ("javascript://example.com/%0aalert(1)", Rejection.BAD_SCHEME),
        ("data:text/html,<a>", Rejection.BAD_SCHEME),
        ("view-source:https://example.com/", Rejection.BAD_SCHEME),
        ("file:///etc/passwd", Rejection.BAD_SCHEME),
        ("https://user:secret@example.com/", Rejection.HAS_CREDENTIALS),
        ("https://user@example.com/", Rejection.HAS_CREDENTIALS),
        ("https://:secret@example.com/", Rejection.HAS_CREDENTIALS),
        ("https://x.com:443@evil.io/", Rejection.HAS_CREDENTIALS),
        ("https:\\\\user@example.com/", Rejection.HAS_CREDENTIALS),
        ("https://x.com@evil.io/name", Rejection.HAS_CREDENTIALS),
        ("https://ex%zzample.com/", Rejection.BAD_URL),
        ("https://", Rejection.BAD_URL),
        ("https://a..com/", Rejection.BAD_HOST),
        (f"https://{'a' * 64}.com/", Rejection.BAD_HOST),
        ("https://redis:6379/", Rejection.NO_PUBLIC_SUFFIX),
        ("https://co.uk/", Rejection.NO_PUBLIC_SUFFIX),
        ("https://name.invalidzone/", Rejection.NO_PUBLIC_SUFFIX),
        ("http://8.8.8.8/", Rejection.IP_ADDRESS),
        ("http://134744072/", Rejection.IP_ADDRESS),
        ("http://8.8.2056/", Rejection.IP_ADDRESS),
        ("http://8.526344/", Rejection.IP_ADDRESS),
        ("http://0x8.0x8.0x8.0x8/", Rejection.IP_ADDRESS),
        ("http://0X08080808/", Rejection.IP_ADDRESS),
        ("http://010.010.010.010/", Rejection.IP_ADDRESS),
        ("http://8.8.8.8./", Rejection.IP_ADDRESS),
        ("http://%38.8.8.8/", Rejection.IP_ADDRESS),
        ("http://\uff18.8.8.8/", Rejection.IP_ADDRESS),
        ("http://8.8.8.8:8080/", Rejection.IP_ADDRESS),
        ("https://[2606:4700:4700::1111]/", Rejection.IP_ADDRESS),
        ("https://example.com/" + "a" * LINK_MAX, Rejection.TOO_LONG),
        ("https://example.com/" + "ä" * (LINK_MAX // 3), Rejection.TOO_LONG),
    ],
)
def test_what_is_no_url_has_a_stable_reason(text: str, reason: Rejection) -> None:
    assert normalize(text).url is None
    assert normalize(text).reason is reason


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com/\ud800",
        "\ud800",
        "https://example.com/\x00a",
        "\x00",
        "https://[::1",
        "https://exa mple.com",
        "https://example.com:99999/",
        "((((((",
        "://",
        "http://http://http://",
    ],
)
def test_odd_text_never_raises(text: str) -> None:
    assert links_in(text)
    normalize(text)


UNITS = [
    *(
        "https://a.com/ ",
        "(",
        "[(",
        "https:",
        "a.",
        "http://",
        "@",
        "\u200b",
        "p:/",
        "hp:",
        "\U0001f975",
        "http:/x",
    ),
    *("a@", "a b ", "%", "%2", "a=b&", "//", "..", "xn--a.", "https://a.com/(", "://", "hhhhh", "t.me/"),
]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("start", ["", "https://x.com/", "https://a.com/?"])
def test_a_text_of_four_times_the_length_takes_about_four_times_as_long(start: str, unit: str) -> None:
    def cpu_s(length: int) -> float:
        text = (start + unit * length)[:length]
        began = time.process_time()
        links_in(text)
        return time.process_time() - began

    assert cpu_s(TEXT_MAX) < 10 * cpu_s(TEXT_MAX // 4) + 0.05


@pytest.mark.parametrize("unit", UNITS)
def test_a_megabyte_is_refused_at_once_and_routed_in_bounded_time(unit: str) -> None:
    text = "https://x.com/" + unit * (1_000_000 // len(unit))
    began = time.process_time()
    assert normalize(text).reason is Rejection.TOO_LONG
    assert [each.reason for each in links_in(text)] == [Rejection.TOO_LONG]
    assert time.process_time() - began < 0.5
    route(text)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "text", ["https://example.com/a?b=c&d=e", "http://x.com/name", "https://example.com/a-b_c~d=,;e#/x"]
)
def test_a_plain_text_is_its_own_only_link(text: str) -> None:
    assert is_plain(text)
    assert list(links_meant(text, None)) == [(text, text)]


def test_the_registrable_domain_comes_from_the_public_suffix_list() -> None:
    assert registrable_domain("shop.foo.co.uk") == "foo.co.uk"
    assert registrable_domain("WWW.Example.com.") == "example.com"
    assert registrable_domain("name.github.io") == "name.github.io"
    assert registrable_domain("localhost") is None
