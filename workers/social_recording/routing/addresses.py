"""Whether a URL leads inside our own network, as far as its text tells. Pure: no name is looked up.

This is the first of two guards. It marks URLs that can be refused without any connection; the outbound
client checks the address that a name resolves to when it connects.
"""

from __future__ import annotations

import ipaddress

import ada_url

INSIDE_NAMES = frozenset({"localhost", "localdomain", "local", "internal", "intranet", "home.arpa"})
_BELOW_INSIDE_NAMES = tuple(f".{each}" for each in INSIDE_NAMES)
# Addresses that carry an IPv4 address in their last 32 bits, which a gateway would open.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Names end in a letter: https://url.spec.whatwg.org/#ends-in-a-number-checker
_ADDRESS_ENDS = (*"0123456789", "]")

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def leads_inside(url: str) -> bool:
    """Whether the URL's host is an address outside the public Internet or a name of a local network.

    Any spelling that a browser would open counts: numbers, octal, hexadecimal, IPv4 inside IPv6. Text that
    is no URL leads nowhere, so it does not lead inside.
    """
    try:
        host = ada_url.URL(url).hostname
    except ValueError:
        return False
    return is_inside_host(host)


def is_inside_host(host: str) -> bool:
    """The same for a host as WHATWG writes it: lower-case, an IPv6 address in brackets."""
    address = address_of(host)
    return is_inside_name(host) if address is None else is_inside_address(address)


def is_inside_name(host: str) -> bool:
    """Whether a name is resolved by the machine or the local network, never by the public DNS."""
    name = host.rstrip(".")
    return name in INSIDE_NAMES or name.endswith(_BELOW_INSIDE_NAMES)


def address_of(host: str) -> IPAddress | None:
    """The address that the host is, or None for a name."""
    if not host.endswith(_ADDRESS_ENDS):
        return None
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def is_inside_address(address: IPAddress) -> bool:
    """Whether an address is private, loopback, link-local, shared, reserved, multicast or unspecified."""
    if isinstance(address, ipaddress.IPv6Address):
        embedded = address.ipv4_mapped or address.sixtofour
        if embedded is None and address in _NAT64:
            embedded = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if embedded is not None:
            return is_inside_address(embedded)
        if address.is_site_local or address.teredo is not None:
            return True
    return not address.is_global or address.is_multicast or address.is_reserved
