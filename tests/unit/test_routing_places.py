"""Where URLs lead: the labelled examples, each decided case, and the whole sample of links."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform, VenueSubtype
from workers.social_recording.routing import Rejection, Route, links_in, normalize, route

CORPUS = Path(__file__).parent.parent / "corpus" / "urls"
S = ContentSubtype
V = VenueSubtype


def rows(name: str) -> list[dict[str, str]]:
    with (CORPUS / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def place_of(text: str) -> Route:
    url = normalize(text).url
    assert url is not None
    where = route(url)
    assert where.url == url
    return where


def brief(where: Route) -> tuple[str, str, str | None, str]:
    return where.platform.value, where.object.value, where.subtype and where.subtype.value, where.key


@pytest.mark.parametrize("row", rows("labelled_examples.tsv"), ids=lambda row: row["url"])
def test_a_labelled_example_leads_where_its_label_says(row: dict[str, str]) -> None:
    text = row["url"] if "://" in row["url"] else f"https://{row['url']}"
    as_written, canonical = route(text), place_of(row["url"])
    assert canonical.url == as_written.url
    assert canonical.key.lower() == as_written.key.lower()
    expected_object = row["expected_object"]
    for where in (as_written, canonical):
        assert where.platform == row["expected_platform"]
        if expected_object.startswith("!"):
            assert where.object != expected_object[1:]
        elif expected_object:
            assert where.object == expected_object
        if row["expected_subtype"]:
            assert where.subtype == row["expected_subtype"]
    if row["expected_key"]:
        assert as_written.key == row["expected_key"]


@pytest.mark.parametrize("row", rows("token_urls_sample.tsv"), ids=lambda row: row["url"])
def test_a_link_of_the_sample_has_a_canonical_url_or_a_reason(row: dict[str, str]) -> None:
    for each in links_in(row["url"]):
        if each.url is None:
            assert isinstance(each.reason, Rejection)
        else:
            assert each.reason is None
            assert normalize(each.url)[:2] == each[:2]
            assert route(each.url).url == each.url


@pytest.mark.parametrize(
    ("text", "url", "kind", "subtype", "key"),
    [
        # X
        ("http://www.Twitter.com/Name?lang=en", "https://x.com/name", ObjectKind.ACCOUNTS, None, "name"),
        ("https://x.com/@Name/media", "https://x.com/name", ObjectKind.ACCOUNTS, None, "name"),
        ("https://twitter.com/#!/Name", "https://x.com/name", ObjectKind.ACCOUNTS, None, "name"),
        (
            "https://twitter.com/#!/Name/status/20?s=21#m",
            "https://x.com/i/status/20",
            ObjectKind.CONTENTS,
            S.TWEET,
            "20",
        ),
        ("https://twitter.com/#!//../Name", "https://x.com/", ObjectKind.CONTENTS, S.UNKNOWN, "/"),
        (
            "https://x.com/intent/follow?screen_name=Name",
            "https://x.com/name",
            ObjectKind.ACCOUNTS,
            None,
            "name",
        ),
        ("https://x.com/intent/user?user_id=12", "https://x.com/i/user/12", ObjectKind.ACCOUNTS, None, "12"),
        (
            "https://x.com/Name/status/20?s=21",
            "https://x.com/i/status/20",
            ObjectKind.CONTENTS,
            S.TWEET,
            "20",
        ),
        ("https://x.com/i/web/status/20", "https://x.com/i/status/20", ObjectKind.CONTENTS, S.TWEET, "20"),
        (
            "https://x.com/N/status/20/photo/1",
            "https://x.com/i/status/20",
            ObjectKind.CONTENTS,
            S.TWEET,
            "20",
        ),
        (
            "https://vxtwitter.com/N/status/20",
            "https://x.com/i/status/20",
            ObjectKind.CONTENTS,
            S.TWEET,
            "20",
        ),
        (
            "https://d.fxtwitter.com/N/status/20",
            "https://x.com/i/status/20",
            ObjectKind.CONTENTS,
            S.TWEET,
            "20",
        ),
        ("https://nitter.net/N/status/20#m", "https://x.com/i/status/20", ObjectKind.CONTENTS, S.TWEET, "20"),
        ("https://xcancel.com/Name", "https://x.com/name", ObjectKind.ACCOUNTS, None, "name"),
        ("https://fixupx.com/Name", "https://x.com/name", ObjectKind.ACCOUNTS, None, "name"),
        (
            "https://platform.twitter.com/embed/Tweet.html?id=20",
            "https://x.com/i/status/20",
            ObjectKind.CONTENTS,
            S.TWEET,
            "20",
        ),
        (
            "https://x.com/i/communities/12/members",
            "https://x.com/i/communities/12",
            ObjectKind.VENUES,
            V.COMMUNITY,
            "12",
        ),
        (
            "https://x.com/intent/tweet?text=hi&utm_source=a",
            "https://x.com/intent/tweet?text=hi",
            ObjectKind.CONTENTS,
            S.INTENT,
            "/intent/tweet?text=hi",
        ),
        (
            "https://x.com/search?q=%24Some++Coin&f=live",
            "https://x.com/search?q=%24some%20coin",
            ObjectKind.CONTENTS,
            S.SEARCH,
            "$some coin",
        ),
        ("https://x.com/hashtag/Tag", "https://x.com/search?q=%23tag", ObjectKind.CONTENTS, S.SEARCH, "#tag"),
        (
            "https://x.com/search?q=%23tag",
            "https://x.com/search?q=%23tag",
            ObjectKind.CONTENTS,
            S.SEARCH,
            "#tag",
        ),
        (
            "https://x.com/i/lists/12/members",
            "https://x.com/i/lists/12",
            ObjectKind.CONTENTS,
            S.UNKNOWN,
            None,
        ),
        ("https://x.com/i/spaces/1Abc", "https://x.com/i/spaces/1Abc", ObjectKind.CONTENTS, S.UNKNOWN, None),
        ("https://t.co/AbC", "https://t.co/AbC", ObjectKind.CONTENTS, S.SHORTLINK, "AbC"),
        ("https://x.com/", "https://x.com/", ObjectKind.CONTENTS, S.UNKNOWN, "/"),
        # TikTok
        ("https://www.tiktok.com/@A.B?lang=en", "https://tiktok.com/@a.b", ObjectKind.ACCOUNTS, None, "a.b"),
        (
            "https://m.tiktok.com/@/video/7231192519906343444",
            "https://tiktok.com/@_/video/7231192519906343444",
            ObjectKind.CONTENTS,
            S.VIDEO,
            "7231192519906343444",
        ),
        (
            "https://www.tiktok.com/@ab/photo/7231192519906343444?_r=1",
            "https://tiktok.com/@_/photo/7231192519906343444",
            ObjectKind.CONTENTS,
            S.PHOTO,
            "7231192519906343444",
        ),
        (
            "https://tiktok.com/embed/v2/7231192519906343444",
            "https://tiktok.com/@_/video/7231192519906343444",
            ObjectKind.CONTENTS,
            S.VIDEO,
            "7231192519906343444",
        ),
        (
            "https://vt.tiktok.com/DSx3J7/",
            "https://vt.tiktok.com/DSx3J7",
            ObjectKind.CONTENTS,
            S.SHORTLINK,
            "DSx3J7",
        ),
        (
            "https://www.tiktok.com/t/DSx3J7",
            "https://tiktok.com/t/DSx3J7",
            ObjectKind.CONTENTS,
            S.SHORTLINK,
            "DSx3J7",
        ),
        (
            "https://www.tiktok.com/tag/Tag",
            "https://tiktok.com/search?q=%23tag",
            ObjectKind.CONTENTS,
            S.SEARCH,
            "#tag",
        ),
        ("https://tiktok.com/noat", "https://tiktok.com/noat", ObjectKind.CONTENTS, S.UNKNOWN, "/noat"),
        # Instagram
        (
            "https://instagr.am/p/GZGiaQ_-1/",
            "https://instagram.com/p/GZGiaQ_-1",
            ObjectKind.CONTENTS,
            S.POST,
            "GZGiaQ_-1",
        ),
        (
            "https://instagram.com/n.n/reel/GZGiaQ/",
            "https://instagram.com/reel/GZGiaQ",
            ObjectKind.CONTENTS,
            S.REEL,
            "GZGiaQ",
        ),
        (
            "https://instagram.com/reels/GZGiaQ/",
            "https://instagram.com/reel/GZGiaQ",
            ObjectKind.CONTENTS,
            S.REEL,
            "GZGiaQ",
        ),
        (
            "https://instagram.com/tv/GZGiaQ/",
            "https://instagram.com/tv/GZGiaQ",
            ObjectKind.CONTENTS,
            S.TV,
            "GZGiaQ",
        ),
        (
            "https://instagram.com/stories/Name/183528302",
            "https://instagram.com/stories/name/183528302",
            ObjectKind.CONTENTS,
            S.STORY,
            "183528302",
        ),
        (
            "https://www.instagram.com/share/reel/AbCdE",
            "https://instagram.com/share/AbCdE",
            ObjectKind.CONTENTS,
            S.SHORTLINK,
            "AbCdE",
        ),
        (
            "https://wwww.instagram.com/Name?igsh=a==",
            "https://instagram.com/name",
            ObjectKind.ACCOUNTS,
            None,
            "name",
        ),
        (
            "https://www.instagram.com/explore/tags/Tag/",
            "https://instagram.com/explore/search/keyword?q=%23tag",
            ObjectKind.CONTENTS,
            S.SEARCH,
            "#tag",
        ),
        # YouTube
        (
            "https://www.youtube.com/watch?time_continue=1&v=1ff4yGe0u0I&list=PL1",
            "https://youtube.com/watch?v=1ff4yGe0u0I",
            ObjectKind.CONTENTS,
            S.VIDEO,
            "1ff4yGe0u0I",
        ),
        (
            "https://youtu.be/1ff4yGe0u0I?t=30",
            "https://youtube.com/watch?v=1ff4yGe0u0I",
            ObjectKind.CONTENTS,
            S.VIDEO,
            "1ff4yGe0u0I",
        ),
        (
            "https://m.youtube.com/shorts/1ff4yGe0u0I",
            "https://youtube.com/watch?v=1ff4yGe0u0I",
            ObjectKind.CONTENTS,
            S.VIDEO,
            "1ff4yGe0u0I",
        ),
        (
            "https://youtube.com/live/1ff4yGe0u0I",
            "https://youtube.com/watch?v=1ff4yGe0u0I",
            ObjectKind.CONTENTS,
            S.VIDEO,
            "1ff4yGe0u0I",
        ),
        (
            "https://www.youtube-nocookie.com/embed/1ff4yGe0u0I?rel=0",
            "https://youtube.com/watch?v=1ff4yGe0u0I",
            ObjectKind.CONTENTS,
            S.VIDEO,
            "1ff4yGe0u0I",
        ),
        (
            "https://www.youtube.com/channel/UCuB83HltLPg9I32WRQ9DwYg/videos?view_as=subscriber",
            "https://youtube.com/channel/UCuB83HltLPg9I32WRQ9DwYg",
            ObjectKind.ACCOUNTS,
            None,
            "UCuB83HltLPg9I32WRQ9DwYg",
        ),
        (
            "https://www.youtube.com/@Name/videos",
            "https://youtube.com/@name",
            ObjectKind.ACCOUNTS,
            None,
            "name",
        ),
        (
            "https://www.youtube.com/user/Name",
            "https://youtube.com/user/name",
            ObjectKind.ACCOUNTS,
            None,
            "name",
        ),
        ("https://www.youtube.com/Name", "https://youtube.com/c/name", ObjectKind.ACCOUNTS, None, "name"),
        (
            "https://www.youtube.com/c/Канал",
            "https://youtube.com/c/%D0%BA%D0%B0%D0%BD%D0%B0%D0%BB",
            ObjectKind.ACCOUNTS,
            None,
            "канал",
        ),
        (
            "https://youtube.com/playlist?list=PL12&si=a",
            "https://youtube.com/playlist?list=PL12",
            ObjectKind.CONTENTS,
            S.UNKNOWN,
            "PL12",
        ),
        (
            "https://youtube.com/channel/nonsense",
            "https://youtube.com/channel/nonsense",
            ObjectKind.CONTENTS,
            S.UNKNOWN,
            None,
        ),
        # Reddit
        (
            "https://redd.it/4SAC0E",
            "https://reddit.com/comments/4sac0e",
            ObjectKind.CONTENTS,
            S.POST,
            "4sac0e",
        ),
        (
            "https://www.reddit.com/tb/4sac0e",
            "https://reddit.com/comments/4sac0e",
            ObjectKind.CONTENTS,
            S.POST,
            "4sac0e",
        ),
        (
            "https://old.reddit.com/user/A-b/comments/4sac0e/slug/",
            "https://reddit.com/comments/4sac0e",
            ObjectKind.CONTENTS,
            S.POST,
            "4sac0e",
        ),
        (
            "https://www.reddit.com/r/Sub/comments/4sac0e/comment/f19707g/",
            "https://reddit.com/comments/4sac0e/_/f19707g",
            ObjectKind.CONTENTS,
            S.POST,
            "t1_f19707g",
        ),
        (
            "https://www.reddit.com/r/Sub/comments/4sac0e/some_title/f19707g/?context=3",
            "https://reddit.com/comments/4sac0e/_/f19707g",
            ObjectKind.CONTENTS,
            S.POST,
            "t1_f19707g",
        ),
        (
            "https://de.reddit.com/r/Sub/top/?t=all",
            "https://reddit.com/r/sub",
            ObjectKind.VENUES,
            V.SUBREDDIT,
            "sub",
        ),
        (
            "https://www.reddit.com/r/u_Name",
            "https://reddit.com/user/name",
            ObjectKind.ACCOUNTS,
            None,
            "name",
        ),
        ("https://www.reddit.com/u/Name/", "https://reddit.com/user/name", ObjectKind.ACCOUNTS, None, "name"),
        (
            "https://www.reddit.com/r/Sub/s/xWmWYsIDlM",
            "https://reddit.com/r/sub/s/xWmWYsIDlM",
            ObjectKind.CONTENTS,
            S.SHORTLINK,
            "xWmWYsIDlM",
        ),
        ("https://www.reddit.com/r/all", "https://reddit.com/r/all", ObjectKind.CONTENTS, S.UNKNOWN, None),
        # GitHub
        (
            "https://github.com/Owner?tab=repositories",
            "https://github.com/owner",
            ObjectKind.ACCOUNTS,
            None,
            "owner",
        ),
        (
            "https://github.com/orgs/Owner/people",
            "https://github.com/owner",
            ObjectKind.ACCOUNTS,
            None,
            "owner",
        ),
        (
            "https://github.com/Owner/Repo.git",
            "https://github.com/owner/repo",
            ObjectKind.CONTENTS,
            S.REPO,
            "owner/repo",
        ),
        (
            "https://github.com/Owner/Repo/issues/3#c",
            "https://github.com/owner/repo",
            ObjectKind.CONTENTS,
            S.REPO,
            "owner/repo",
        ),
        (
            "https://raw.githubusercontent.com/Owner/repo/dev/a.md",
            "https://github.com/owner/repo",
            ObjectKind.CONTENTS,
            S.REPO,
            "owner/repo",
        ),
        (
            "https://github.com/owner/re.po-x",
            "https://github.com/owner/re.po-x",
            ObjectKind.CONTENTS,
            S.REPO,
            "owner/re.po-x",
        ),
        (
            "https://gist.github.com/Owner/4eb1d2458473f2a1a4cae316ed56f368/raw",
            "https://gist.github.com/4eb1d2458473f2a1a4cae316ed56f368",
            ObjectKind.CONTENTS,
            S.GIST,
            "4eb1d2458473f2a1a4cae316ed56f368",
        ),
        (
            "https://github.com/search?q=a+b&type=repositories",
            "https://github.com/search?q=a%20b",
            ObjectKind.CONTENTS,
            S.SEARCH,
            "a b",
        ),
        (
            "https://codeload.github.com/Owner/Repo.git/zip/main",
            "https://github.com/owner/repo",
            ObjectKind.CONTENTS,
            S.REPO,
            "owner/repo",
        ),
        (
            "https://github.com/Owner/re.po.git.git/tree/main",
            "https://github.com/owner/re.po",
            ObjectKind.CONTENTS,
            S.REPO,
            "owner/re.po",
        ),
        # Telegram
        ("https://telegram.me/Name1", "https://t.me/name1", ObjectKind.VENUES, V.CHANNEL, "name1"),
        ("https://name1.t.me/", "https://t.me/name1", ObjectKind.VENUES, V.CHANNEL, "name1"),
        ("https://web.telegram.org/k/#@Name1", "https://t.me/name1", ObjectKind.VENUES, V.CHANNEL, "name1"),
        (
            "https://web.telegram.org/#/im?p=@Name1",
            "https://t.me/name1",
            ObjectKind.VENUES,
            V.CHANNEL,
            "name1",
        ),
        (
            "https://web.telegram.org/a/?x=1#-1001234567890_12",
            "https://web.telegram.org/k/#-1001234567890",
            ObjectKind.CONTENTS,
            S.UNKNOWN,
            "/k/#-1001234567890",
        ),
        (
            "https://web.telegram.org/a/?x=1#-100=12/./",
            "https://web.telegram.org/a?x=1",
            ObjectKind.CONTENTS,
            S.UNKNOWN,
            "/a?x=1",
        ),
        ("https://t.me/s/Name1", "https://t.me/name1", ObjectKind.VENUES, V.CHANNEL, "name1"),
        (
            "https://t.me/joinchat/OJ7eVGl5oggwWpKu",
            "https://t.me/+OJ7eVGl5oggwWpKu",
            ObjectKind.VENUES,
            None,
            "OJ7eVGl5oggwWpKu",
        ),
        (
            "https://t.me/%2BOJ7eVGl5oggwWpKu",
            "https://t.me/+OJ7eVGl5oggwWpKu",
            ObjectKind.VENUES,
            None,
            "OJ7eVGl5oggwWpKu",
        ),
        ("https://t.me/+491234567890", "https://t.me/+491234567890", ObjectKind.CONTENTS, S.UNKNOWN, None),
        (
            "https://t.me/Name1/76?comment=153",
            "https://t.me/name1/76",
            ObjectKind.CONTENTS,
            S.POST,
            "name1/76",
        ),
        ("https://t.me/s/Name1/76", "https://t.me/name1/76", ObjectKind.CONTENTS, S.POST, "name1/76"),
        ("https://t.me/Name1/5/76", "https://t.me/name1/76", ObjectKind.CONTENTS, S.POST, "name1/76"),
        (
            "https://t.me/c/8396013580/3572",
            "https://t.me/c/8396013580/3572",
            ObjectKind.CONTENTS,
            S.POST,
            "8396013580/3572",
        ),
        ("https://t.me/name1?boost", "https://t.me/name1?boost", ObjectKind.CONTENTS, S.UNKNOWN, None),
        ("https://t.me/name1?start=a", "https://t.me/name1?start=a", ObjectKind.CONTENTS, S.UNKNOWN, None),
        ("https://t.me/name1/app", "https://t.me/name1/app", ObjectKind.CONTENTS, S.UNKNOWN, None),
    ],
)
def test_a_decided_case(
    text: str, url: str, kind: ObjectKind, subtype: S | V | None, key: str | None
) -> None:
    where = place_of(text)
    assert (where.url, where.object, where.subtype) == (url, kind, subtype)
    assert where.platform is not Platform.WEB
    if key is not None:
        assert where.key == key


@pytest.mark.parametrize(
    "text",
    [
        "https://x.com/home",
        "https://x.com/i/notifications",
        "https://x.com/settings/profile",
        "https://x.com/Messages",
        "https://instagram.com/reels",
        "https://instagram.com/accounts/login/",
        "https://youtube.com/feed/trending",
        "https://youtube.com/premium",
        "https://youtube.com/robots.txt",
        "https://www.reddit.com/settings",
        "https://www.reddit.com/submit",
        "https://github.com/features",
        "https://github.com/marketplace/actions/x",
        "https://t.me/addlist/abc",
        "https://t.me/share/url?url=a",
        "https://t.me/proxy?server=a",
        "https://tiktok.com/music/a-123",
    ],
)
def test_a_reserved_word_is_an_unknown_place_that_needs_no_call(text: str) -> None:
    where = place_of(text)
    assert (where.object, where.subtype) == (ObjectKind.CONTENTS, ContentSubtype.UNKNOWN)
    assert where.needs_no_call


@pytest.mark.parametrize(
    "text",
    [
        "https://x.com.evil.io/name",
        "https://evilx.com/name",
        "https://twitter.example.co.in/name",
        "https://name-ft.medium.com/",
        "https://www.reddit.example.com/r/sub/",
        "https://instagram.name-batriqi.com/",
        "https://tiktokname.cc/",
        "https://telegramname.com/",
        "https://telegram.org/",
        "https://name.github.io/repo",
        "https://help.x.com/en",
        "https://docs.github.com/en",
        "https://nitter.evil.io/name",
        "https://twitter.com:8080/name",
        "https://x.com-login.io/name",
        "https://t.me.evil.io/name",
        "https://\u0445.com/name",
        "https://tw\u0456tter.com/name",
        "https://g\u0131thub.com/name",
        "https://youtub\u00e9.com/@name",
        "https://x.com%2eevil.io/name",
    ],
)
def test_a_host_that_only_looks_like_a_platform_is_web(text: str) -> None:
    where = place_of(text)
    assert (where.platform, where.object, where.subtype) == (
        Platform.WEB,
        ObjectKind.CONTENTS,
        ContentSubtype.SITE,
    )


@pytest.mark.parametrize(
    "text",
    [
        "https://\uff58.com/Name",
        "https://%78.com/Name",
        "https://x\uff0ecom/Name",
        "https://X.COM/Name",
        "https://x.com\\Name",
        "https://x.com/./Name",
        "https://x.com/a/../Name",
        "https://x.com/a/%2e%2e/Name",
        "https://x.com:443/Name",
        "https://x.com./Name",
        "https://x.com/Name#@evil.io",
    ],
)
def test_what_a_browser_takes_for_x_is_x(text: str) -> None:
    assert brief(place_of(text)) == ("x", "accounts", None, "name")


def test_posts_with_neighbouring_numbers_are_two() -> None:
    first = place_of("https://x.com/a/status/732822797798539264")
    second = place_of("https://x.com/a/status/732822797798539265")
    assert (first.key, second.key) == ("732822797798539264", "732822797798539265")


def test_two_searches_in_one_subreddit_are_two_contents_and_no_venue() -> None:
    first = place_of("https://www.reddit.com/r/Wendys/search?q=dumpster")
    second = place_of("https://www.reddit.com/r/wendys/search/?q=Frosty&restrict_sr=1")
    assert brief(first) == ("rd", "contents", "search", "subreddit:wendys dumpster")
    assert brief(second) == ("rd", "contents", "search", "subreddit:wendys frosty")
    assert first.url != second.url


@pytest.mark.parametrize("text", ["https://www.reddit.com/r/wendys/search", "https://x.com/search?q=+"])
def test_a_search_for_nothing_is_an_unknown_place(text: str) -> None:
    assert place_of(text).subtype is ContentSubtype.UNKNOWN


@pytest.mark.parametrize(
    "text", ["", "no url", "https://", "://", "\x00", "\ud800", "https://[", "mailto:a@b.c", "#?"]
)
def test_whatever_is_no_url_is_routed_to_the_web_without_an_error(text: str) -> None:
    assert route(text).platform is Platform.WEB


def test_two_pages_of_one_site_have_two_keys() -> None:
    first, second = place_of("https://example.com/promo"), place_of("https://example.com/promo?id=2")
    assert (first.key, second.key) == ("example.com/promo", "example.com/promo?id=2")


@pytest.mark.parametrize("host", ["www.www.t.me", "name1.t.me", "www.name1.t.me", "name1.t.me.", "www.t.me."])
def test_a_host_with_more_labels_than_needed_is_still_telegram(host: str) -> None:
    path = "" if "name1" in host else "name1"
    assert place_of(f"https://{host}/{path}").url == "https://t.me/name1"


@pytest.mark.parametrize(
    "text",
    [
        "https://codeload.github.com/orgs/c/a/b",
        "https://raw.github.com/features/a/b",
        "https://gist.github.com/orgs",
    ],
)
def test_a_reserved_word_of_the_main_site_is_nobody_on_its_other_hosts_either(text: str) -> None:
    assert place_of(text).subtype is ContentSubtype.UNKNOWN
