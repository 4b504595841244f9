"""What is known about a host by its name alone: its platform, its registrable domain, or why it is refused.

Pure apart from reading the bundled public suffix list once, on first use. Answers are kept in a bounded
cache, because a batch of links has few distinct hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from publicsuffixlist import PublicSuffixList

from workers.social_recording.routing import github, instagram, reddit, telegram, tiktok, x, youtube
from workers.social_recording.routing.addresses import address_of, is_inside_address, is_inside_name
from workers.social_recording.routing.patterns import Site
from workers.social_recording.routing.rejection import Rejection

HOST_CACHE_SIZE = 16_384
# Limits of the DNS (RFC 1035 section 2.3.4).
_NAME_MAX = 253
_LABEL_MAX = 63

SITES: tuple[Site, ...] = (
    *x.SITES,
    *tiktok.SITES,
    *instagram.SITES,
    *youtube.SITES,
    *reddit.SITES,
    *github.SITES,
    *telegram.SITES,
)
_SITE_BY_HOST: Mapping[str, Site] = {host: site for site in SITES for host in site.hosts}


@dataclass(frozen=True, kw_only=True, slots=True)
class HostFacts:
    """`name` is the host as the web's canonical URL writes it; `site` is set for known platforms."""

    name: str
    site: Site | None = None
    refusal: Rejection | None = None
    leads_inside: bool = False


@lru_cache(maxsize=HOST_CACHE_SIZE)
def facts_of(host: str) -> HostFacts:
    """Judge a host as WHATWG writes it: lower-case, punycode, an IPv6 address in brackets."""
    address = address_of(host)
    if address is not None:
        inside = is_inside_address(address)
        return HostFacts(name=host, leads_inside=inside, refusal=None if inside else Rejection.IP_ADDRESS)
    name = host.removesuffix(".")
    if not _is_well_formed(name):
        return HostFacts(name=host, refusal=Rejection.BAD_HOST)
    if is_inside_name(name):
        return HostFacts(name=name, leads_inside=True)
    site = _site_of(name)
    if site is not None:
        return HostFacts(name=name, site=site)
    if not _has_known_suffix(name):
        return HostFacts(name=name, refusal=Rejection.NO_PUBLIC_SUFFIX)
    return HostFacts(name=_without_www(name))


def registrable_domain(host: str) -> str | None:
    """The part of a host that somebody registered (`shop.foo.co.uk` -> `foo.co.uk`), or None.

    Suffixes under which anybody gets a name for free count as suffixes: `a.github.io` stays whole.
    """
    return _suffixes().privatesuffix(host.lower().rstrip("."))


def is_below_hosting_suffix(domain: str) -> bool:
    """Whether a registrable domain is a name that a hosting service gave (`a.github.io`), no registration."""
    return _official_suffixes().privatesuffix(domain) != domain


def _is_well_formed(name: str) -> bool:
    return 0 < len(name) <= _NAME_MAX and all(0 < len(label) <= _LABEL_MAX for label in name.split("."))


def _site_of(name: str) -> Site | None:
    """The platform's site, for its own hosts and those with an allowed label in front of them."""
    while name.startswith("www."):
        name = name[4:]
    exact = _SITE_BY_HOST.get(name)
    if exact is not None:
        return exact
    label, _, rest = name.partition(".")
    site = _SITE_BY_HOST.get(rest)
    return site if site is not None and site.allows_prefix(label) else None


def _has_known_suffix(name: str) -> bool:
    """Whether a registered name, or a hosting service under its own suffix (`vercel.app`), is here."""
    return _suffixes().privatesuffix(name) is not None or _official_suffixes().privatesuffix(name) is not None


def _without_www(name: str) -> str:
    """Drop `www.` unless what remains would be a bare suffix (`www.gov.uk`)."""
    while name.startswith("www.") and _suffixes().privatesuffix(name[4:]) is not None:
        name = name[4:]
    return name


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList(accept_unknown=False)


@cache
def _official_suffixes() -> PublicSuffixList:
    return PublicSuffixList(accept_unknown=False, only_icann=True)
