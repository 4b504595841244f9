"""The web: any site that is no known platform. The page itself is the source; the registry knows its age.

Without a platform in between, the HTTP status speaks about the target. A page that is shown in place of the
target (a challenge, a login, an error text under 200) is no answer about it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from urllib.parse import urlsplit

from workers.clock import to_iso
from workers.errors import ConvergeError, FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.http.messages import LargeBody, Redirects, Request, Response
from workers.http.retry import ONCE, SITE
from workers.settings import Settings
from workers.social_graph.vocabulary import ContentSubtype, Platform
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.text_links import unique
from workers.social_recording.generators.verdicts import http_error, rate_limited
from workers.social_recording.generators.web.page_facts import PageFacts, read_page
from workers.social_recording.generators.web.rdap import DomainAges, Registration
from workers.social_recording.object_graph import ContentDraft, JSONValue, ObjectGroup, SocialObjectGraph
from workers.social_recording.routing import Route, normalize, registrable_domain, route

SOURCE = "web"
_ACCEPTED = "text/html, application/xhtml+xml;q=0.9, */*;q=0.5"
_HOSTING_TEXTS = ("DEPLOYMENT_NOT_FOUND", "DEPLOYMENT_DISABLED", "NoSuchBucket", "no such app")
_ORIGIN_NAME_UNKNOWN = re.compile(r"error code:\s*1016")
_CHALLENGE_TITLE = re.compile(
    r"^(just a moment|attention required|checking your browser|ddos-guard|please wait|security check"
    r"|verify(ing)? (that )?you are (a )?human|are you a robot|access denied)\b",
    re.IGNORECASE,
)
_ERROR_TITLE = re.compile(
    r"^(error\s*)?[45]\d\d\b(?=\W*(error|page|not found|forbidden|bad gateway|internal|service|gateway|$))"
    r"|^(page|site) (could )?not (be )?found\b",
    re.IGNORECASE,
)
_LOGIN_TITLE = re.compile(r"^(log ?in|sign ?in)\b", re.IGNORECASE)
_TOOL_TITLES = re.compile(
    r"^(vite( app|( \+ \w+)+)|react app|create next app|next\.js|vue app|svelte app|angular|document|untitled"
    r"|index|home|my app|app|welcome to nginx!?|apache2 \w+ default page.*|coming soon)$",
    re.IGNORECASE,
)
_FOR_SALE = re.compile(
    r"domain (name )?(may be|is|has been)? ?(for sale|parked)|buy this domain|parked (free|domain)",
    re.IGNORECASE,
)


class WebGenerator:
    """Asks the site for the page, and the registry of its zone how old the domain is."""

    source = SOURCE
    is_paid = False

    def __init__(self, http: OutboundClient, settings: Settings, ages: DomainAges | None = None) -> None:
        self._http = http
        self._ages = ages or DomainAges(http, settings)

    def supports(self, way: Route) -> bool:
        """Every page on the web."""
        return way.platform is Platform.WEB and way.subtype is ContentSubtype.SITE

    def generate(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        """One call with its redirects, one for the domain's age when this process has not asked yet, and one
        more for a site that lives under another spelling only.
        """
        response = self._fetch(way, context)
        judge(response)
        # Read first: a page that only stands in place of the target says nothing about its domain either.
        graph = page_graph(response, way, response.received_at)
        domain = domain_of(response.url)
        if domain is None:
            return graph
        return with_domain(graph, domain, self._ages.registration_of(domain, response.received_at, context))

    def _fetch(self, way: Route, context: FetchContext) -> Response:
        """Canonical URLs say https and leave out `www.`, which a few sites do not answer to."""
        request = Request(
            source=SOURCE,
            url=way.url,
            headers={"Accept": _ACCEPTED},
            retry=SITE,
            redirects=Redirects.ANYWHERE,
            large_body=LargeBody.CUT,
        )
        try:
            return self._http.fetch(request, context.budget, context.calls.add)
        except (TargetGone, FetchFailed) as exc:
            spelling = other_spelling(way.url, exc)
            if spelling is None:
                raise
            try:
                return self._http.fetch(
                    replace(request, url=spelling, retry=ONCE), context.budget, context.calls.add
                )
            except (TargetGone, FetchFailed):
                # The canonical spelling decides what is said about the site.
                raise exc from None


def other_spelling(url: str, error: ConvergeError) -> str | None:
    """Where else the site may live, given how asking `url` failed; None when there is no such place."""
    scheme, _, rest = url.partition("://")
    if isinstance(error, TargetGone) and error.reason == "dns_nxdomain" and not rest.startswith("www."):
        return f"{scheme}://www.{rest}"
    is_unreachable = isinstance(error, FetchFailed) and error.reason in ("tls_failed", "connection_failed")
    return f"http://{rest}" if is_unreachable and scheme == "https" else None


def judge(response: Response) -> None:
    """Pass a page of the site itself.

    Raises `TargetGone`, `TargetBlocked` or `FetchFailed` for anything else.
    """
    status = response.status
    if response.headers.get("cf-mitigated", "").lower() == "challenge":
        raise TargetBlocked("the site wants a person", reason="challenge")
    if status == 429:
        raise rate_limited(response)
    if status == 530 and _ORIGIN_NAME_UNKNOWN.search(response.text()):
        raise TargetGone("the site's own name does not resolve", reason="origin_nxdomain")
    if status >= 500:
        raise http_error(response)
    if status in (404, 410):
        raise TargetGone("the site has no such page", reason=_reason_of_missing(response))
    if status in (401, 402, 403, 451):
        is_challenge = _CHALLENGE_TITLE.search(_title_of(response)) is not None
        raise TargetBlocked(
            "the site does not let us in", reason="challenge" if is_challenge else f"http_{status}"
        )
    if not 200 <= status < 300:
        raise http_error(response)
    if not response.body.strip():
        raise FetchFailed("the site answered with nothing", reason="empty_body")


def _title_of(response: Response) -> str:
    return read_page(response.text(), response.url).window_title or ""


def _reason_of_missing(response: Response) -> str:
    text = response.text()
    return "hosting_not_found" if any(word in text for word in _HOSTING_TEXTS) else f"http_{response.status}"


def page_graph(response: Response, way: Route, observed_at: datetime) -> SocialObjectGraph:
    """The page as a content; what is no page (a picture, a file) has a type and no title.

    Raises `FetchFailed` for a page that only stands in place of the target.
    """
    place = _place_of(response, way)
    content = ContentDraft(
        platform=Platform.WEB,
        subtype=ContentSubtype.SITE,
        url=place.url,
        platform_key=place.url.partition("://")[2],
        data=_facts_of_answer(response),
    )
    media_type = _media_type(response)
    if response.is_html or media_type in ("", "application/xhtml+xml"):
        page = read_page(response.text(), response.url)
        _refuse_stand_in(page)
        content = replace(
            content,
            text_primary=page.title,
            text_body=page.description,
            links=_platform_links(page),
            data={**content.data, **_facts_of_page(page)},
        )
    return SocialObjectGraph(groups=(ObjectGroup(content=content),), observed_at=observed_at)


def domain_of(url: str) -> str | None:
    """The registrable domain of a URL's host; None for an address."""
    return registrable_domain(urlsplit(url).hostname or "")


def with_domain(graph: SocialObjectGraph, domain: str, registration: Registration) -> SocialObjectGraph:
    """The graph of a page, told its domain. A site counts as published when its domain was registered."""
    entry = graph.groups[0]
    if entry.content is None:
        return graph
    times = {"domain_expires_at": registration.expires_at, "domain_changed_at": registration.changed_at}
    known = {name: to_iso(moment) for name, moment in times.items() if moment is not None}
    content = replace(
        entry.content,
        published_at=registration.registered_at,
        data={**entry.content.data, "domain": domain, **known},
    )
    return replace(graph, groups=(replace(entry, content=content), *graph.groups[1:]))


def _place_of(response: Response, way: Route) -> Route:
    """The page that answered, unless it is the asked one: a URL may carry a `#/route` that is never sent."""
    final = route(response.url)
    return way if final.url == way.url.partition("#")[0] else final


def _media_type(response: Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def _facts_of_answer(response: Response) -> dict[str, JSONValue]:
    facts: dict[str, JSONValue] = {"http_status": response.status}
    if media_type := _media_type(response):
        facts["content_type"] = media_type
    if len(response.chain) > 1:
        facts["redirects"] = list(response.chain)
    if response.is_cut:
        facts["is_cut"] = True
    return facts


def _facts_of_page(page: PageFacts) -> dict[str, JSONValue]:
    named = {
        "image_url": page.image_url,
        "site_name": page.site_name,
        "organization": page.organization,
    }
    facts: dict[str, JSONValue] = {name: value for name, value in named.items() if value}
    if flags := flags_of(page):
        facts["flags"] = [*flags]
    return facts


def flags_of(page: PageFacts) -> tuple[str, ...]:
    """Reasons not to trust what the page says of itself: `default_title`, `no_text`, `parked`."""
    flags = []
    if page.window_title and _TOOL_TITLES.search(page.window_title):
        flags.append("default_title")
    if not page.has_visible_text:
        flags.append("no_text")
    if _FOR_SALE.search(f"{page.window_title or ''} {page.description or ''}"):
        flags.append("parked")
    return tuple(flags)


def _refuse_stand_in(page: PageFacts) -> None:
    title = page.window_title or ""
    if _CHALLENGE_TITLE.search(title):
        raise FetchFailed("the site shows a check for people", reason="challenge_page")
    if _ERROR_TITLE.search(title):
        raise FetchFailed("the site shows an error page as if it were the page", reason="error_page")
    if page.has_password_field and _LOGIN_TITLE.search(title):
        raise FetchFailed("the site shows its login", reason="login_wall")


def _platform_links(page: PageFacts) -> tuple[str, ...]:
    """The page's links to known platforms, in canonical form."""
    canonical = (normalize(link).url for link in dict.fromkeys(page.links))
    return unique(url for url in canonical if url and route(url).platform is not Platform.WEB)
