"""What recording a token leaves in the graph: places without a call, failed links, sites, left-over links."""

from __future__ import annotations

import pytest
from bson import ObjectId

from tests.integration.recording_place import (
    DAY,
    LONG_AGO,
    OwnGenerator,
    RecordingPlace,
    new_site,
    place,
    sandbox,
)
from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.mongo import Document
from workers.social_graph.token import TokenSocialURL
from workers.social_graph.token_link import TokenLink
from workers.social_graph.vocabulary import ContentSubtype, FetchStatus, LinkStatus, ObjectKind, Platform
from workers.social_recording.object_graph import SocialObjectGraph
from workers.social_recording.recording import TokenOutcome
from workers.social_recording.routing import Route, normalize

__all__ = ["place", "sandbox"]


def rows_of(place: RecordingPlace, url: str) -> list[Document]:
    """The objects of any kind that are stored under the URL."""
    return [row for kind in ObjectKind for row in place.database[kind].find({"source_urls.url": url})]


@pytest.mark.parametrize(
    ("text", "url", "platform"),
    [
        ("https://x.com/home", "https://x.com/home", "x"),
        ("https://www.reddit.com/settings/?utm_source=a", "https://reddit.com/settings", "rd"),
    ],
)
def test_a_place_that_cannot_be_named_is_an_unknown_content_at_no_cost(
    place: RecordingPlace, text: str, url: str, platform: str
) -> None:
    [address] = place.list_tokens({"website": text})
    assert place.recorder.record(address).outcome is TokenOutcome.RECORDED
    element = place.element(address)
    assert (element["url"], element["status"]) == (url, "ok")
    assert (element["attempts"], element["attempted_at"]) == (0, None)
    [row] = rows_of(place, url)
    assert (row["platform"], row["subtype"]) == (platform, "unknown")
    assert "creator_id" not in row
    assert place.database["accounts"].count_documents({}) == 0
    assert place.database["venues"].count_documents({}) == 0
    [link] = place.database["token_links"].find()
    assert (link["object"], link["object_id"], link["subtype"]) == ("contents", row["_id"], "unknown")
    document = place.document(address)
    assert document["fingerprints"] == []
    assert "web" not in document, "the token has no site of its own"
    calls = place.sandbox.client.calls()
    assert calls.total == calls.matching("by-addresses") == 1, "the tracker and nobody else"


def test_no_generator_is_asked_for_a_place_that_cannot_be_named(place: RecordingPlace) -> None:
    generator = OwnGenerator(is_paid=True)
    place.rebuild(generator=generator, is_paid_enabled=True)
    [address] = place.list_tokens({"website": "https://reddit.com/settings", "tiktok": new_site()})
    place.recorder.record(address)
    assert [each["status"] for each in place.document(address)["social_urls"]] == ["ok", "ok"]
    assert generator.calls.total() == 1, "the site and nothing else"


@pytest.mark.parametrize(
    "error",
    [
        FetchFailed("down", reason="http_503"),
        TargetGone("gone", reason="deleted"),
        TargetBlocked("closed", reason="private"),
    ],
)
def test_a_link_whose_fetch_failed_has_no_row_but_its_own_entry(
    place: RecordingPlace, error: Exception
) -> None:
    def fail(_: Route) -> SocialObjectGraph:
        raise error

    place.rebuild(generator=OwnGenerator(show=fail))
    url = new_site()
    [address] = place.list_tokens({"website": url})
    place.recorder.record(address)
    assert [each["url"] for each in place.document(address)["social_urls"]] == [url]
    for collection in (*ObjectKind, "token_links", "metric_series"):
        assert place.database[collection].count_documents({}) == 0, collection


def test_a_web_site_is_a_content_of_the_web_and_belongs_to_nothing(place: RecordingPlace) -> None:
    url = new_site()
    place.rebuild(generator=OwnGenerator())
    [address] = place.list_tokens({"website": url})
    place.recorder.record(address)
    [row] = rows_of(place, url)
    assert (row["platform"], row["subtype"]) == ("web", "site")
    assert not {"site_id", "domain", "fingerprints"} & set(row)
    domain = url.removeprefix("https://").rstrip("/")
    document = place.document(address)
    assert (document["fingerprints"], document["web"]["domain"]) == ([f"domain:{domain}"], domain)


def test_a_token_keeps_canonical_urls_only_and_each_once(place: RecordingPlace) -> None:
    url = new_site()
    spellings = f"{url}?utm_source=a {url.replace('https://', 'http://www.')}#top javascript:alert(1) http://"
    place.rebuild(generator=OwnGenerator())
    [address] = place.list_tokens({"website": spellings, "twitter": "no link at all"})
    report = place.recorder.record(address)
    assert [each["url"] for each in place.document(address)["social_urls"]] == [url]
    assert {each["slot"] for each in report.dropped} == {"website", "twitter"}
    canonical = normalize(f"HTTP://WWW.{url.removeprefix('https://')}")
    assert canonical.url == url
    assert (
        place.tokens.record_social_url_result(
            address, canonical.url, status=FetchStatus.ERROR, reason="timeout"
        )
        is False
    ), "it is ok, so it was found and left alone"
    [found] = rows_of(place, canonical.url)
    assert found["source_urls"][0]["url"] == url


def test_links_that_a_broken_graph_left_are_replaced_once_a_person_asks_for_the_url_again(
    place: RecordingPlace,
) -> None:
    url = new_site()
    invalid = TokenSocialURL(
        url=url,
        status=FetchStatus.INVALID,
        attempts=1,
        attempted_at=LONG_AGO,
        reason="contract:cyclic",
    )
    address = place.store_token(invalid)
    left_over = [
        TokenLink.of(
            token_address=address,
            object=ObjectKind.CONTENTS,
            object_id=ObjectId(),
            entry_url=url,
            created_at=DAY,
            observed_at=DAY,
            status=LinkStatus.OK,
            platform=Platform.WEB,
            subtype=ContentSubtype.SITE,
        )
        for _ in range(2)
    ]
    place.links.append_many(left_over)
    place.rebuild(generator=OwnGenerator())
    assert place.run_retry(minIntervalMinutes=0)["candidateUrls"] == 0
    assert place.database["token_links"].count_documents({}) == 2, "nothing touches them by itself"
    meta = place.run_retry(statuses=["invalid"], minIntervalMinutes=0)
    assert (meta["converged"], meta["byStatus"]) == (1, {"ok": 1})
    [row] = rows_of(place, url)
    [link] = place.links.find_by_token_and_entry_url(address, url)
    assert link.object_id == row["_id"]
