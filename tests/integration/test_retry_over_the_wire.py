"""Retries that ask real sources over the sandbox: what is gone, ways to say later, and what hangs."""

from __future__ import annotations

from datetime import timedelta
from email.utils import format_datetime

import pytest

from devstack.sandbox import x_facts
from tests.integration.recording_place import RecordingPlace, failed_url, new_site, place, sandbox
from tests.integration.test_x_sources import RESELLER, use_keys
from workers.clock import Clock
from workers.leases import KEY_PREFIX
from workers.social_recording.recording import token_lease

__all__ = ["place", "sandbox"]

DELETED = next(post_id for post_id, fate in x_facts.FATES.items() if fate == "deleted")
GITHUB = r"^GET /github/"


def test_of_ten_urls_a_suspended_account_and_a_deleted_post_are_closed_and_none_is_asked_for_again(
    place: RecordingPlace,
) -> None:
    suspended, deleted = "https://x.com/user_suspended", f"https://x.com/i/status/{DELETED}"
    fine = [f"https://x.com/fine_{number}" for number in range(4)] + [new_site() for _ in range(4)]
    use_keys(place, **RESELLER)
    place.sandbox.client.reset()
    tokens = {url: place.store_token(failed_url(url)) for url in (suspended, deleted, *fine)}
    meta = place.run_retry()
    assert (meta["processed"], meta["converged"]) == (10, 10)
    assert meta["byStatus"] == {"ok": 8, "blocked": 1, "not_found": 1}
    assert place.element(tokens[suspended])["status"] == "blocked"
    assert place.element(tokens[deleted])["status"] == "not_found"
    [account] = place.database["accounts"].find({"source_urls.url": suspended})
    assert account["moderation"]["unavailable"] is True
    calls = place.sandbox.client.calls().total
    assert place.run_retry(minIntervalMinutes=0)["candidateUrls"] == 0
    assert place.sandbox.client.calls().total == calls


def ways_to_say_later() -> dict[str, str]:
    now = Clock().now()
    return {
        "seconds": "120",
        "a date ahead": format_datetime(now + timedelta(minutes=2), usegmt=True),
        "a date in the past": format_datetime(now - timedelta(minutes=2), usegmt=True),
        "no time at all": "soon",
        "a huge number": "9" * 20,
    }


@pytest.mark.parametrize("form", sorted(ways_to_say_later()))
def test_every_way_to_say_later_is_one_counted_attempt_and_nothing_worse(
    place: RecordingPlace, form: str
) -> None:
    header = {"Retry-After": ways_to_say_later()[form]}
    place.sandbox.client.reset()
    place.sandbox.client.set_faults({"route": GITHUB, "status": 429, "headers": header, "body": {}})
    address = place.store_token(failed_url(f"https://github.com/later/{form.replace(' ', '-')}"))
    before = place.element(address)
    result = place.retrier.retry(place.candidate(address))
    assert result == {"outcome": "processed", "status": "error", "reason": "rate_limited"}
    element = place.element(address)
    assert element["attempts"] == before["attempts"] + 1
    assert element["attempted_at"] > before["attempted_at"]
    # A long hint ends the attempt; otherwise a free source has three tries, with its own or no waits.
    is_long = form in ("seconds", "a date ahead", "a huge number")
    assert place.sandbox.client.calls().matching(GITHUB) == (1 if is_long else 3)


def test_a_source_that_hangs_ends_with_its_url_as_timed_out_and_the_token_is_free(
    place: RecordingPlace,
) -> None:
    place.rebuild(budget_s=2)
    place.sandbox.client.reset()
    place.sandbox.client.set_faults({"route": GITHUB, "hang": True})
    address = place.store_token(failed_url("https://github.com/hanging/repo"))
    started = Clock().monotonic()
    assert place.retrier.retry(place.candidate(address))["reason"] == "timeout"
    assert Clock().monotonic() - started < 8
    element = place.element(address)
    assert (element["status"], element["attempts"]) == ("error", 2)
    place.leases.write_behind.flush(5.0)
    assert not place.redis.exists(f"{KEY_PREFIX}{token_lease(address)}")
    place.sandbox.client.clear_faults()
    place.rebuild()
    assert place.retrier.retry(place.candidate(address))["status"] == "ok"


def test_a_source_that_refuses_for_good_is_asked_once_and_counted_once(place: RecordingPlace) -> None:
    place.sandbox.client.reset()
    place.sandbox.client.set_faults({"route": GITHUB, "status": 401, "body": {}})
    address = place.store_token(failed_url("https://github.com/refused/repo"))
    result = place.retrier.retry(place.candidate(address))
    assert (result["status"], place.element(address)["attempts"]) == ("error", 2)
    assert place.sandbox.client.calls().matching(GITHUB) == 1
