"""What holds for every text: nothing raises, one pass is enough, and the place of a URL is stable."""

from __future__ import annotations

import ada_url
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.social_recording.routing import Rejection, links_in, normalize, route
from workers.social_recording.routing.extraction import links_meant
from workers.social_recording.routing.hosts import SITES
from workers.social_recording.routing.normalize import parsed_url, plain_url
from workers.social_recording.routing.parts import is_plain
from workers.social_recording.routing.queries import words

HOSTS = sorted({host for site in SITES for host in site.hosts} | {"example.com", "a.github.io", "localhost"})
PIECES = words(
    "i web status statuses intent follow user share search hashtag t tag video photo embed v2 p reel reels tv"
    " stories highlights explore tags watch shorts live channel c playlist results r comments s comment"
    " gallery orgs tree joinchat +abcdefghijkl @name Name name.git 1446701591874056638"
    " UCEaGH37VNzyjsJUULg_ORDw f4BZTm-EY1E %40name %2F %C3%A4 \u00e4 .. . a:b (a a) https:// https:/x.com"
    " u_name #tag %23 = & ! ~ -"
)
QUERIES = words(
    "v=f4BZTm-EY1E q=Some+Words q=%23Tag list=PL12 utm_source=a fbclid=b start boost screen_name=Name"
    " user_id=1 s=21 tab=x u=https://a.com id=20 a=(b c=d) = e. search_query=a%20B"
)

junk = st.text(max_size=30)
segments = st.lists(st.sampled_from(sorted(PIECES)) | junk, max_size=5)
queries = st.lists(st.sampled_from(sorted(QUERIES)) | junk, max_size=4)


@st.composite
def urls(draw: st.DrawFn) -> str:
    """Texts near to URLs of the known platforms."""
    scheme = draw(st.sampled_from(["https://", "http://", "", "hhttps://", "https:/", "http://https://"]))
    prefix = draw(st.sampled_from(["", "www.", "m.", "old.", "name.", "Name_x.", "www.www."]))
    path = "/".join(["", *draw(segments)])
    query = "&".join(draw(queries))
    fragment = draw(st.sampled_from(["", "#", "#top", "#/a", "#!/Name", "#@Name", "#-100123"]) | junk)
    return scheme + prefix + draw(st.sampled_from(HOSTS)) + path + (f"?{query}" if query else "") + fragment


texts = st.one_of(
    urls(),
    st.text(),
    st.binary().map(lambda raw: raw.decode("utf-8", errors="surrogateescape")),
    st.lists(urls() | junk, max_size=4).map(" ".join),
)


@settings(max_examples=300, deadline=None)
@given(texts)
def test_a_text_gives_urls_or_reasons_and_never_an_error(text: str) -> None:
    found = links_in(text)
    assert found
    for each in found:
        assert (each.url is None) != (each.reason is None)
    canonical = [each.url for each in found if each.url is not None]
    assert len(canonical) == len(set(canonical))


@settings(max_examples=600, deadline=None)
@given(texts)
def test_normalizing_twice_changes_nothing_and_leads_to_the_same_place(text: str) -> None:
    for first in links_in(text):
        if first.url is not None:
            again = normalize(first.url)
            assert (again.url, again.reason) == (first.url, None)
            assert ada_url.normalize_url(first.url) == first.url
            assert route(first.url).url == first.url
            assert again.url is not None
            assert route(again.url) == route(first.url)


@settings(max_examples=300, deadline=None)
@given(texts)
def test_any_text_can_be_routed(text: str) -> None:
    assert route(text).key or not text


@settings(max_examples=500, deadline=None)
@given(urls())
def test_the_short_way_for_plain_links_gives_what_the_long_way_gives(text: str) -> None:
    if is_plain(text):
        assert list(links_meant(text, None)) == [(text, text)]
    short = plain_url(text)
    if short is not None:
        _, repaired = next(links_meant(text, None))
        assert isinstance(repaired, str)
        assert short == parsed_url(repaired)
        assert links_in(text) == (normalize(text),)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="\ud800\udfff\x00\u200b\ufeff()[]{}<>:/.@?#%&= hHtTpPsS\uff0c。…", max_size=80))
def test_hostile_signs_never_raise(text: str) -> None:
    assert normalize(text).reason in (None, *Rejection)
    route(text)
