"""What is known about a host by its name alone: its platform, its registrable domain, or why it is refused.

Pure apart from reading the bundled public suffix list once, on first use. Answers are kept in a bounded
cache, because a batch of links has few distinct hosts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from publicsuffixlist import PublicSuffixList

from workers.social_recording.routing import github, instagram, reddit, telegram, tiktok, x, youtube
from workers.social_recording.routing.addresses import address_of, is_inside_address, is_inside_name
from workers.social_recording.routing.patterns import Site
from workers.social_recording.routing.places import Places
from workers.social_recording.routing.rejection import Rejection

HOST_CACHE_SIZE = 16_384
# Limits of the DNS (RFC 1035 section 2.3.4).
_NAME_MAX = 253
_LABEL_MAX = 63
# What every parser leaves as it is: no address, and no more labels than a name in a text may have.
_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9_-]*\.){1,10}[a-z]{2,63}")

SITES: tuple[Site, ...] = (
    *x.SITES,
    *tiktok.SITES,
    *instagram.SITES,
    *youtube.SITES,
    *reddit.SITES,
    *github.SITES,
    *telegram.SITES,
)
_PLACES: Mapping[str, Places] = {
    host: places for site, places in ((site, Places(site)) for site in SITES) for host in site.hosts
}


@dataclass(frozen=True, kw_only=True, slots=True)
class HostFacts:
    """`name` is the host as the web's canonical URL writes it; `places` is set for known platforms.

    `is_plain`: an accepted public name that stays as it is whoever parses or repairs it.
    """

    name: str
    places: Places | None = None
    refusal: Rejection | None = None
    leads_inside: bool = False
    is_plain: bool = False


@lru_cache(maxsize=HOST_CACHE_SIZE)
def facts_of(host: str) -> HostFacts:
    """Judge a host as WHATWG writes it (punycode, an IPv6 address in brackets), in any letter case."""
    host = host.lower()
    address = address_of(host)
    if address is not None:
        inside = is_inside_address(address)
        return HostFacts(name=host, leads_inside=inside, refusal=None if inside else Rejection.IP_ADDRESS)
    name = host.removesuffix(".")
    if not _is_well_formed(name):
        return HostFacts(name=host, refusal=Rejection.BAD_HOST)
    if is_inside_name(name):
        return HostFacts(name=name, leads_inside=True)
    # Punycode is for the parser to judge.
    is_plain = "xn--" not in host and _PLAIN.fullmatch(host) is not None
    places = _places_of(name)
    if places is not None:
        return HostFacts(name=name, places=places, is_plain=is_plain)
    registrable = registrable_domain(name)
    # A hosting service lives under its own suffix (`vercel.app`).
    if registrable is None and _official_suffixes().privatesuffix(name) is None:
        return HostFacts(name=name, refusal=Rejection.NO_PUBLIC_SUFFIX)
    # `www.gov.uk` without it would be a bare suffix.
    while name.startswith("www.") and registrable not in (name, None):
        name = name[4:]
    return HostFacts(name=name, is_plain=is_plain)


def registrable_domain(host: str) -> str | None:
    """The part of a host that somebody registered (`shop.foo.co.uk` -> `foo.co.uk`), or None.

    Suffixes under which anybody gets a name for free count as suffixes: `a.github.io` stays whole.
    """
    return _suffixes().privatesuffix(host.lower().rstrip("."))


def is_below_hosting_suffix(domain: str) -> bool:
    """Whether a registrable domain is a name that a hosting service gave (`a.github.io`), no registration."""
    return _official_suffixes().privatesuffix(domain) != domain


def _is_well_formed(name: str) -> bool:
    labels = name.split(".")
    return len(name) <= _NAME_MAX and "" not in labels and max(map(len, labels)) <= _LABEL_MAX


def _places_of(name: str) -> Places | None:
    """The platform's places, for its own hosts and those with an allowed label in front of them."""
    while name.startswith("www."):
        name = name[4:]
    exact = _PLACES.get(name)
    if exact is not None:
        return exact
    label, _, rest = name.partition(".")
    places = _PLACES.get(rest)
    return places if places is not None and places.allows_prefix(label) else None


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList(accept_unknown=False)


@cache
def _official_suffixes() -> PublicSuffixList:
    return PublicSuffixList(accept_unknown=False, only_icann=True)
