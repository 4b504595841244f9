"""The age of a domain: what registries and their list say, and that the page never depends on it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import responses
from hypothesis import given
from hypothesis import strategies as st
from requests.structures import CaseInsensitiveDict

from tests.conftest import FakeClock, make_settings
from tests.samples import body_of, error_case, sample_bytes, sample_json
from workers.clock import Budget
from workers.http.client import OutboundClient
from workers.http.messages import Response
from workers.social_recording.generators.generator import CallCounter, FetchContext
from workers.social_recording.generators.web.rdap import (
    UNKNOWN,
    DomainAges,
    read_registration,
    read_registries,
    registry_of,
)
from workers.social_recording.generators.web.site import WebGenerator
from workers.social_recording.routing import route

LIST_URL = "https://data.iana.org/rdap/dns.json"
DOMAIN = "moonharbor-example.com"
DOMAIN_URL = f"https://rdap.verisign.com/com/v1/domain/{DOMAIN}"


class Desk:
    """Asks for ages as a worker does, and counts its calls."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        settings = make_settings()
        self.ages = DomainAges(OutboundClient(settings, clock), settings)
        self.calls = CallCounter()

    def ask(self, domain: str = DOMAIN) -> datetime | None:
        context = FetchContext(budget=Budget.of(self.clock, 60), calls=self.calls)
        return self.ages.registration_of(domain, self.clock.now(), context).registered_at


@pytest.fixture
def desk(clock: FakeClock) -> Desk:
    return Desk(clock)


def serve_list(**changes: Any) -> None:
    responses.get(LIST_URL, **({"body": sample_bytes("web/rdap_bootstrap_dns.json")} | changes))


def serve_domain(url: str = DOMAIN_URL, **changes: Any) -> None:
    responses.get(url, **({"body": sample_bytes("web/rdap_domain_com.json")} | changes))


def answer(body: bytes, status: int = 200) -> Response:
    return Response(
        source="rdap",
        status=status,
        headers=CaseInsensitiveDict(),
        body=body,
        url=DOMAIN_URL,
        chain=(DOMAIN_URL,),
        received_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_a_registry_says_when_a_domain_was_registered_expires_and_changed() -> None:
    found = read_registration(answer(sample_bytes("web/rdap_domain_com.json")))
    events = {
        event["eventAction"]: datetime.fromisoformat(event["eventDate"])
        for event in sample_json("web/rdap_domain_com.json")["events"]
    }
    assert found.registered_at == events["registration"]
    assert found.expires_at == events["expiration"]
    assert found.changed_at == events.get("last changed")


def test_the_registration_of_a_contact_is_not_that_of_the_domain() -> None:
    payload = sample_json("web/rdap_domain_no.json")
    nested = {event["eventDate"] for entity in payload["entities"] for event in entity.get("events", [])}
    assert nested
    found = read_registration(answer(json.dumps(payload).encode()))
    own = [e["eventDate"] for e in payload["events"] if e["eventAction"].lower() == "registration"]
    assert found.registered_at == datetime.fromisoformat(own[0])


@responses.activate
def test_the_list_of_registries_is_asked_for_once_a_day_and_a_domain_once(desk: Desk) -> None:
    serve_list()
    serve_domain()
    first = desk.ask()
    assert first is not None
    assert desk.ask() == first
    assert [call.request.url for call in responses.calls] == [LIST_URL, DOMAIN_URL]
    assert desk.calls.calls == 2
    desk.clock.advance(25 * 3600)
    serve_domain("https://rdap.verisign.com/com/v1/domain/other-example.com")
    desk.ask("other-example.com")
    assert [call.request.url for call in responses.calls][2:3] == [LIST_URL]


@responses.activate
def test_a_list_that_does_not_come_is_not_asked_for_again_at_once(desk: Desk) -> None:
    serve_list(status=503, body=b"")
    assert desk.ask() is None
    assert desk.ask("other-example.com") is None
    assert len(responses.calls) == 1
    desk.clock.advance(11 * 60)
    responses.reset()
    serve_list()
    serve_domain()
    assert desk.ask() is not None


@pytest.mark.parametrize("case", ["rdap_not_registered", "rdap_rate_limited", "rdap_registry_error_object"])
@responses.activate
def test_a_registry_that_has_no_date_leaves_the_age_unknown(desk: Desk, case: str) -> None:
    recorded = error_case("web/errors.json", case)
    serve_list()
    serve_domain(status=recorded["status"], body=body_of(recorded))
    assert desk.ask() is None


@responses.activate
def test_a_failed_answer_is_not_kept_as_the_age(desk: Desk) -> None:
    serve_list()
    serve_domain(status=503, body=b"")
    assert desk.ask() is None
    responses.replace(responses.GET, DOMAIN_URL, body=sample_bytes("web/rdap_domain_com.json"))
    assert desk.ask() is not None


@pytest.mark.parametrize("domain", ["anybody.github.io", "shop.vercel.app", "place.nosuchzone"])
@responses.activate
def test_nobody_is_asked_about_a_name_below_a_hosting_suffix_or_in_an_unlisted_zone(
    desk: Desk, domain: str
) -> None:
    serve_list()
    assert desk.ask(domain) is None
    assert [call.request.url for call in responses.calls] in ([], [LIST_URL])


def test_the_longest_zone_of_the_list_is_the_one_that_is_asked() -> None:
    registries = {"uk": "https://uk/", "co.uk": "https://co.uk/"}
    assert registry_of("foo.co.uk", registries) == "https://co.uk/"
    assert registry_of("foo.org.uk", registries) == "https://uk/"
    assert registry_of("foo.de", registries) is None


def test_a_registry_without_a_secure_address_is_asked_all_the_same_but_a_secure_one_comes_first() -> None:
    services = [[["aa"], ["http://a/"]], [["bb"], ["http://b/", "https://b"]], [["cc"], []]]
    found = read_registries(answer(json.dumps({"services": services}).encode()))
    assert found == {"aa": "http://a/", "bb": "https://b/"}


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=10))
def test_an_odd_answer_is_no_date_and_no_error(odd: object) -> None:
    for payload in (odd, {"events": odd}, {"events": [odd, {"eventAction": odd, "eventDate": odd}]}):
        body = json.dumps(payload).encode()
        assert read_registration(answer(body)) == UNKNOWN
        assert read_registries(answer(json.dumps({"services": payload}).encode())) == {}


@responses.activate
def test_a_page_is_told_its_domain_and_counts_as_published_when_that_was_registered(clock: FakeClock) -> None:
    serve_list()
    serve_domain()
    page = f"https://{DOMAIN}/"
    responses.get(page, body="<html><title>Moon</title><body>hi", content_type="text/html")
    settings = make_settings()
    generator = WebGenerator(OutboundClient(settings, clock), settings)
    graph = generator.generate(route(page), FetchContext(budget=Budget.of(clock, 60), calls=CallCounter()))
    content = graph.groups[0].content
    assert content is not None
    assert content.data["domain"] == DOMAIN
    assert content.published_at is not None
    assert "domain_expires_at" in content.data


@responses.activate
def test_a_registry_that_is_down_does_not_harm_the_page(clock: FakeClock) -> None:
    page = f"https://{DOMAIN}/"
    responses.get(page, body="<html><title>Moon</title><body>hi", content_type="text/html")
    settings = make_settings()
    generator = WebGenerator(OutboundClient(settings, clock), settings)
    graph = generator.generate(route(page), FetchContext(budget=Budget.of(clock, 60), calls=CallCounter()))
    content = graph.groups[0].content
    assert content is not None
    assert (content.text_primary, content.published_at) == ("Moon", None)
