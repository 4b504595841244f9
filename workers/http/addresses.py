"""Which addresses belong to the public internet, and how a URL names its host. Pure.

An address is public only when no range for inside, special or future use holds it. IPv6 addresses that carry
an IPv4 address inside them are as public as the one they carry, because a gateway would deliver there.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import ada_url

from workers.errors import FetchFailed, UnsafeAddress

WEB_PORTS = frozenset({80, 443})
_DEFAULT_PORTS = {"http": 80, "https": 443}

# https://www.iana.org/assignments/iana-ipv4-special-registry and multicast; listed here rather than asked of
# `ipaddress`, whose idea of "global" changed between Python versions.
_INSIDE_V4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
# Only 2000::/3 is handed out for public use, see https://www.iana.org/assignments/ipv6-address-space. These
# parts of it are special: protocol assignments with Teredo, and the documentation ranges.
_PUBLIC_V6 = IPv6Network("2000::/3")
_INSIDE_V6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20"))
_MAPPED_V6 = IPv6Network("::ffff:0:0/96")
_NAT64_V6 = IPv6Network("64:ff9b::/96")
_6TO4_V6 = IPv6Network("2002::/16")
_LOCAL_NAMES = ("localhost", "local", "internal", "home.arpa")


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Scheme, host and port: what two URLs must share to be the same service."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Origin:
        """The origin of an absolute http or https URL.

        Raises `UnsafeAddress` for another scheme and `FetchFailed` (`bad_url`) for what is no URL.
        """
        parts = parse(url)
        scheme = parts.protocol.rstrip(":")
        port = int(parts.port) if parts.port else _DEFAULT_PORTS[scheme]
        return cls(scheme=scheme, host=parts.hostname.strip("[]"), port=port)


def parse(url: str, base: str | None = None) -> ada_url.URL:
    """Read a URL the way a browser does, so that we check the host that would really be asked.

    A relative `url` is seen from `base`.

    Raises `UnsafeAddress` for a scheme other than http and https, `FetchFailed` (`bad_url`) for no URL.
    """
    try:
        parts = ada_url.URL(url, base)
    except ValueError as exc:
        raise FetchFailed("the address is not a URL", reason="bad_url") from exc
    if parts.protocol not in ("http:", "https:"):
        raise UnsafeAddress(f"only http and https are asked, not {parts.protocol[:20]}")
    return parts


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether `address` belongs to the public internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _INSIDE_V4)
    if address in _MAPPED_V6 or address in _NAT64_V6:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    if address in _6TO4_V6:
        return is_public(IPv4Address(int(address) >> 80 & 0xFFFF_FFFF))
    return address in _PUBLIC_V6 and not any(address in network for network in _INSIDE_V6)


def check_address(text: str) -> None:
    """Raise `UnsafeAddress` unless the IP address `text` is public."""
    # A zone (fe80::1%eth0) only says which of our own links is meant.
    if "%" in text or not is_public(ip_address(text)):
        raise UnsafeAddress("the host is an address inside a network that is not public")


def check_host_literally(origin: Origin, ports: frozenset[int] = WEB_PORTS) -> None:
    """Refuse what can be refused without a name server: ports, inside IP literals, local names.

    Raises `UnsafeAddress`.
    """
    if origin.port not in ports:
        raise UnsafeAddress(f"port {origin.port} is not a port of the public web")
    try:
        ip_address(origin.host.partition("%")[0])
    except ValueError:
        name = origin.host.rstrip(".").lower()
        if any(name == local or name.endswith(f".{local}") for local in _LOCAL_NAMES):
            raise UnsafeAddress("the host is a local name") from None
    else:
        check_address(origin.host)
