"""The registries of domains: IANA's list of them, and what each says of a domain over RDAP.

Owns the dates: a domain was registered on the same day in every answer, between 2015 and 2026. A domain whose
first label starts with `unregistered-` is unknown to its registry, one with `unlisted-` has no date.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from devstack.sandbox.http_server import Request
from devstack.sandbox.samples import Answer, derive, error_answers, json_answer, payload_of, text_of

LIST = payload_of("web/rdap_bootstrap_dns.json")
HOSTS = frozenset(urlsplit(url).hostname for _, urls in LIST["services"] for url in urls)
DOMAIN, DOMAIN_NAME = text_of("web/rdap_domain_com.json"), "MOONHARBOR-EXAMPLE.COM"
NOT_REGISTERED = error_answers("web/errors.json", prefix="rdap_")["rdap-not-registered"]
FIRST_DAY = datetime(2015, 1, 1, tzinfo=UTC)
DAYS = 4000
RDAP_TYPE = "application/rdap+json"


def listed(request: Request, path: str) -> Answer:
    """IANA's list, at `/dns.json`."""
    del request
    return json_answer(LIST) if path == "/dns.json" else json_answer({"message": "Not Found"}, status=404)


def is_registry(url: str) -> bool:
    """Whether a URL leads to one of the registries of the list."""
    try:
        return urlsplit(url).hostname in HOSTS
    except ValueError:
        return False


def answer(url: str) -> Answer:
    """Answer as the registry that `url` leads to."""
    _, slash, domain = urlsplit(url).path.rpartition("/domain/")
    if not slash or not domain or domain.startswith("unregistered-"):
        return NOT_REGISTERED
    payload = json.loads(DOMAIN.replace(DOMAIN_NAME, domain.upper()))
    registered = registered_at(domain)
    times = {"registration": registered, "expiration": registered + timedelta(days=DAYS)}
    for event in payload["events"]:
        moment = times.get(event["eventAction"])
        if moment is not None:
            event["eventDate"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    if domain.startswith("unlisted-"):
        payload["events"] = []
    return json_answer(payload, headers={"content-type": RDAP_TYPE})


def registered_at(domain: str) -> datetime:
    """When a domain was registered."""
    return FIRST_DAY + timedelta(days=derive("registered", domain.lower(), below=DAYS))
