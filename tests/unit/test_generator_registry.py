"""Which places have a generator, which only a paid source, and which nothing."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.conftest import FakeClock, make_settings
from workers.http.client import OutboundClient
from workers.social_recording.generators.registry import GENERATORS, Generators
from workers.social_recording.routing import route


@pytest.fixture
def generators(clock: FakeClock) -> Generators:
    settings = make_settings()
    return Generators(OutboundClient(settings, clock), settings)


@pytest.mark.parametrize(
    ("url", "source", "is_paid_only"),
    [
        ("https://github.com/a", "github", False),
        ("https://github.com/a/b", "github", False),
        ("https://gist.github.com/a/0123456789abcdef0123456789abcdef", "github", False),
        ("https://x.com/a/status/20", "x", False),
        ("https://example.com/promo", "web", False),
        ("https://x.com/someone", None, True),
        ("https://x.com/i/communities/1873866451949716154", None, True),
        ("https://www.instagram.com/p/Owng7TSEcRg/", None, True),
        ("https://www.tiktok.com/@someone", "tiktok", False),
        ("https://www.reddit.com/r/someplace/", None, True),
        ("https://youtu.be/aFCO6Wid0VM", "youtube_site", False),
        ("https://www.youtube.com/@someone", None, False),
        ("https://t.me/someplace", "telegram", False),
        ("https://t.me/+AbCd1234EfGh5678", "telegram", False),
        ("https://t.me/someplace/20", "telegram", False),
    ],
)
def test_each_place_has_its_source_or_a_reason_for_having_none(
    generators: Generators, url: str, source: str | None, is_paid_only: bool
) -> None:
    way = route(url)
    generator = generators.for_route(way, is_paid_enabled=False)
    assert (None if generator is None else generator.source) == source
    assert generators.costs_money(way) is is_paid_only


def test_sources_have_names_of_their_own_except_those_that_share_a_balance(clock: FakeClock) -> None:
    settings = make_settings()
    built = [build(OutboundClient(settings, clock), settings) for build in GENERATORS]
    names = Counter(generator.source for generator in built)
    # What actors cost comes out of one balance, so they are out of credit together.
    assert {name for name, count in names.items() if count > 1} == {"apify"}


def test_without_a_key_no_paid_source_is_there(clock: FakeClock) -> None:
    settings = make_settings()
    paid = [
        each for build in GENERATORS if (each := build(OutboundClient(settings, clock), settings)).is_paid
    ]
    places = ("https://x.com/a/status/20", "https://x.com/someone", "https://x.com/i/communities/1")
    assert paid
    assert not [each.source for each in paid for url in places if each.supports(route(url))]


@pytest.mark.parametrize(
    ("keys", "source"),
    [
        ({"twitterapiio_api_key": "a", "x_api_bearer_token": "b"}, "twitterapiio"),
        ({"twitterapiio_api_key": "a"}, "twitterapiio"),
        ({"x_api_bearer_token": "b"}, "x_api"),
    ],
)
@pytest.mark.parametrize("url", ["https://x.com/someone", "https://x.com/i/communities/1873866451949716154"])
def test_of_two_paid_sources_of_x_the_cheaper_one_is_asked(
    url: str, keys: dict[str, str], source: str, clock: FakeClock
) -> None:
    settings = make_settings(**keys)
    generators = Generators(OutboundClient(settings, clock), settings)
    generator = generators.for_route(route(url), is_paid_enabled=True)
    assert generator is not None
    assert generator.source == source
    assert generators.for_route(route(url), is_paid_enabled=False) is None
