"""How old a domain is: asks the registry of its zone over RDAP. Beside the page, never instead of it.

The registries' addresses come from the list that IANA publishes; it is read once a day. Whatever goes wrong
means that the age is unknown: the page decides what becomes of the URL.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated
from urllib.parse import quote

from pydantic import WrapValidator

from workers.errors import BudgetExceeded, FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.http.messages import Destination, Redirects, Request, Response
from workers.http.retry import ONCE
from workers.settings import Settings
from workers.social_recording.generators.foreign_json import (
    Foreign,
    MaybeText,
    MaybeTime,
    Text,
    or_empty,
    read_as,
)
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.routing import is_below_hosting_suffix

SOURCE = "rdap"
_ACCEPTED = "application/rdap+json, application/json;q=0.5"
# RFC 9224 asks clients to keep the list; IANA changes it a few times a week.
_LIST_KEPT_FOR = timedelta(days=1)
_FAILED_LIST_KEPT_FOR = timedelta(minutes=10)
_AGES_KEPT = 10_000
_TIMEOUT_S = 5.0
# The age of a domain is not worth a longer wait for a registry that is asked a lot.
_PERMIT_WAIT_MAX_S = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Registration:
    """When a domain was registered, and what else the registry says of its times; None is unknown."""

    registered_at: datetime | None = None
    expires_at: datetime | None = None
    changed_at: datetime | None = None


UNKNOWN = Registration()


class _Event(Foreign):
    eventAction: MaybeText = None  # noqa: N815 - RFC 9083 spells it so
    eventDate: MaybeTime = None  # noqa: N815


class _Domain(Foreign):
    objectClassName: MaybeText = None  # noqa: N815
    events: Annotated[tuple[_Event, ...], WrapValidator(or_empty)] = ()


class _Registries(Foreign):
    services: tuple[tuple[tuple[Text, ...], tuple[Text, ...]], ...]


class DomainAges:
    """Answers for the registrable domains of sites. Safe for any number of threads."""

    def __init__(self, http: OutboundClient, settings: Settings) -> None:
        self._http = http
        self._list_url = settings.rdap_bootstrap_url
        self._lock = threading.Lock()
        self._registries: Mapping[str, str] = {}
        self._list_is_good_until: datetime | None = None
        self._known: OrderedDict[str, Registration] = OrderedDict()

    def registration_of(self, domain: str, now: datetime, context: FetchContext) -> Registration:
        """What the registry says of a registrable domain; never raises for what the outside world does.

        At most one call, and one more a day for the list. Nobody is asked about names below a hosting suffix
        (`github.io`, `vercel.app`): they are no registrations.
        """
        if is_below_hosting_suffix(domain):
            return UNKNOWN
        with self._lock:
            if domain in self._known:
                self._known.move_to_end(domain)
                return self._known[domain]
        registry = registry_of(domain, self._current_list(now, context))
        if registry is None:
            return UNKNOWN
        found = self._ask(f"{registry}domain/{quote(domain, safe='')}", Destination.SITE, context)
        if found is None:
            return UNKNOWN
        registration = read_registration(found)
        with self._lock:
            self._known[domain] = registration
            while len(self._known) > _AGES_KEPT:
                self._known.popitem(last=False)
        return registration

    def _current_list(self, now: datetime, context: FetchContext) -> Mapping[str, str]:
        with self._lock:
            if self._list_is_good_until is not None and now < self._list_is_good_until:
                return self._registries
            # Whoever comes in the meantime goes on with the old list instead of asking as well.
            self._list_is_good_until = now + _FAILED_LIST_KEPT_FOR
        response = self._ask(self._list_url, Destination.SERVICE, context)
        registries = {} if response is None else read_registries(response)
        with self._lock:
            if registries:
                self._registries = registries
                self._list_is_good_until = now + _LIST_KEPT_FOR
            return self._registries

    def _ask(self, url: str, destination: Destination, context: FetchContext) -> Response | None:
        """A good answer or, when the registry itself says that there is no such domain, that one."""
        request = Request(
            source=SOURCE,
            destination=destination,
            url=url,
            headers={"Accept": _ACCEPTED},
            retry=ONCE,
            redirects=Redirects.ANYWHERE,
            timeout_s=_TIMEOUT_S,
            permit_wait_max_s=_PERMIT_WAIT_MAX_S,
        )
        try:
            response = self._http.fetch(request, context.budget, context.calls.add)
        except (FetchFailed, TargetGone, TargetBlocked, BudgetExceeded):
            return None
        return response if response.status in (200, 404) else None


def registry_of(domain: str, registries: Mapping[str, str]) -> str | None:
    """The base URL of the registry of the domain's zone, the longest zone that the list names."""
    zone = domain
    while zone:
        _, _, zone = zone.partition(".")
        if zone in registries:
            return registries[zone]
    return None


def read_registries(response: Response) -> Mapping[str, str]:
    """Zone to base URL, which ends in a slash; empty for an answer that is no list (RFC 9224)."""
    if response.status != 200:
        return {}
    try:
        services = read_as(_Registries, response.json(), SOURCE).services
    except FetchFailed:
        return {}
    found: dict[str, str] = {}
    for zones, urls in services:
        secure = sorted(urls, key=lambda url: not url.startswith("https://"))
        if secure:
            base = secure[0] if secure[0].endswith("/") else f"{secure[0]}/"
            found.update({zone.lower(): base for zone in zones})
    return found


def read_registration(response: Response) -> Registration:
    """The times in a registry's answer about a domain.

    Only the events of the domain itself count; those of its contacts and name servers stand deeper.
    """
    if response.status != 200:
        return UNKNOWN
    try:
        domain = read_as(_Domain, response.json(), SOURCE)
    except FetchFailed:
        return UNKNOWN
    times: dict[str, datetime] = {}
    for event in domain.events:
        if event.eventAction is not None and event.eventDate is not None:
            times.setdefault(event.eventAction.strip().lower(), event.eventDate)
    return Registration(
        registered_at=times.get("registration"),
        expires_at=times.get("expiration"),
        changed_at=times.get("last changed"),
    )
