"""Short links that lead anywhere: asked once, then like the place they lead to."""

from __future__ import annotations

import pytest

from tests.integration.recording_place import RecordingPlace, place, sandbox
from workers.social_recording.detours import is_detour
from workers.social_recording.recording import TokenOutcome
from workers.social_recording.routing import route

__all__ = ["place", "sandbox"]

SHORT = "GET https://t.co/"


def recorded(place: RecordingPlace, url: str) -> str:
    [address] = place.list_tokens({"website": url})
    assert place.recorder.record(address).outcome is TokenOutcome.RECORDED
    return address


def test_a_short_link_leads_to_the_post_behind_it_and_stays_its_entry_url(place: RecordingPlace) -> None:
    url = "https://t.co/post2000000000000000321"
    address = recorded(place, url)
    assert (place.element(address)["status"], place.element(address)["attempts"]) == ("ok", 1)
    content = place.database["contents"].find_one({"source_urls.url": url})
    assert content is not None
    assert {entry["url"] for entry in content["source_urls"]} == {
        url,
        "https://x.com/i/status/2000000000000000321",
    }
    links = list(place.database["token_links"].find({"token_address": address}))
    assert {link["entry_url"] for link in links} == {url}
    assert content["_id"] in {link["object_id"] for link in links}


def test_a_second_token_with_the_short_link_asks_nobody(place: RecordingPlace) -> None:
    url = "https://t.co/siteSecond"
    first, second = place.list_tokens({"website": url}, {"website": url})
    place.recorder.record(first)
    calls = place.sandbox.client.calls()
    assert calls.matching(SHORT) == 1
    place.recorder.record(second)
    assert place.sandbox.client.calls().total == calls.total + 1  # the tracker's answer about the token
    assert place.element(second)["status"] == "ok"


def test_a_short_link_to_a_known_place_costs_one_call(place: RecordingPlace) -> None:
    site = "https://landing-known.com/"
    recorded(place, site)
    address = recorded(place, "https://t.co/known")
    assert place.element(address)["status"] == "ok"
    assert place.sandbox.client.calls().matching("landing-known") == 0
    assert place.database["contents"].count_documents({"source_urls.url": site}) == 1


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [("goneForEver", "not_found", "http_404"), ("insideJob", "blocked", "unsafe_address")],
)
def test_a_short_link_to_nothing_or_to_the_inside_is_final(
    place: RecordingPlace, code: str, status: str, reason: str
) -> None:
    element = place.element(recorded(place, f"https://t.co/{code}"))
    assert (element["status"], element["reason"], element["attempts"]) == (status, reason, 1)


def test_a_short_link_to_a_paid_place_is_skipped_and_asked_about_once(place: RecordingPlace) -> None:
    """Nobody can be asked about the place, so nothing counts and the next runs cost nothing."""
    [address] = place.list_tokens({"website": "https://t.co/paidPlace"})
    place.sandbox.client.set_faults(
        {
            "route": "https://t.co/paidPlace",
            "status": 301,
            "headers": {"location": "https://www.instagram.com/p/DAbcdefghij/"},
        }
    )
    place.recorder.record(address)
    element = place.element(address)
    assert (element["status"], element["attempts"], element["attempted_at"]) == ("skipped_paid", 0, None)
    for _ in range(3):
        assert place.run_retry(minIntervalMinutes=0)["notProcessable"] == 1
    assert place.sandbox.client.calls().matching(SHORT) == 1


def test_without_what_is_remembered_each_run_would_ask_again(
    place: RecordingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.social_recording.detours.Detours.remembered", lambda *_: None)
    [address] = place.list_tokens({"website": "https://t.co/forgotten"})
    place.sandbox.client.set_faults(
        {
            "route": "https://t.co/forgotten",
            "status": 301,
            "headers": {"location": "https://www.instagram.com/p/DAbcdefghij/"},
        }
    )
    place.recorder.record(address)
    place.run_retry(minIntervalMinutes=0)
    assert place.sandbox.client.calls().matching(SHORT) == 2


@pytest.mark.parametrize("url", ["https://vm.tiktok.com/ZM8abc", "https://reddit.com/r/x/s/abcDEF"])
def test_a_platforms_own_short_links_are_no_detours(url: str) -> None:
    assert not is_detour(route(url))
