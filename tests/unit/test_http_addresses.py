"""Which addresses and spellings of hosts are refused before and while connecting."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from workers.errors import FetchFailed, UnsafeAddress
from workers.http.addresses import Origin, check_address, check_host_literally, is_public


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",  # noqa: S104 - the address itself is the subject
        "10.0.0.5",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.31.255.255",
        "192.0.0.8",
        "192.168.1.1",
        "198.18.0.1",
        "203.0.113.9",
        "224.0.0.251",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:10.0.0.5",
        "::ffff:169.254.169.254",
        "64:ff9b::a00:5",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:a00:5::1",
        "2002:7f00:1::",
        "3fff::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ],
)
def test_an_address_that_is_inside_special_or_carries_one_inside_is_not_public(address: str) -> None:
    assert not is_public(ip_address(address))
    with pytest.raises(UnsafeAddress):
        check_address(address)


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "100.63.255.255",
        "100.128.0.1",
        "172.32.0.1",
        "192.167.255.255",
        "198.20.0.1",
        "223.255.255.255",
        "::ffff:1.1.1.1",
        "64:ff9b::101:101",
        "2002:101:101::1",
        "2606:4700:4700::1111",
        "2a00:1450:4001::1",
    ],
)
def test_a_public_address_passes(address: str) -> None:
    assert is_public(ip_address(address))
    check_address(address)


def test_an_address_with_a_zone_is_refused() -> None:
    with pytest.raises(UnsafeAddress):
        check_address("fe80::1%eth0")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://017700000001/",
        "http://127.1/",
        "http://0/",
        "http://%31%32%37.0.0.1/",
        "http://127%2e0%2e0%2e1/",
        "http://127\u30020\u30020\u30021/",
        "http://[::]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::10.0.0.5]/",
        "http://loc\talhost/",
        "http://127.0.0.1./",
        "http://\uff11\uff12\uff17.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.5]/",
        "http://[::ffff:a00:5]/",
        "http://[0:0:0:0:0:0:0:1]/",
        "http://169.254.169.254/latest/",
        "http://localhost/",
        "http://LOCALHOST/",
        "http://localhost./",
        "http://api.localhost/",
        "http://printer.local/",
        "http://metadata.google.internal/",
        "http://router.home.arpa/",
        "http://user:pass@10.0.0.5/",
    ],
)
def test_every_spelling_of_an_inside_host_is_refused_without_a_name_server(url: str) -> None:
    with pytest.raises(UnsafeAddress):
        check_host_literally(Origin.of(url))


def test_the_host_is_the_one_that_a_browser_would_ask() -> None:
    # A backslash is a slash there, so what follows it is a path and no host.
    assert Origin.of("http://good.example.com\\@10.0.0.5:80/").host == "good.example.com"
    assert Origin.of("http://good.example.com@10.0.0.5/").host == "10.0.0.5"


@pytest.mark.parametrize(
    "url", ["http://example.com:6379/", "https://example.com:8443/", "http://example.com:22/"]
)
def test_a_port_that_is_no_web_port_is_refused(url: str) -> None:
    with pytest.raises(UnsafeAddress, match="port"):
        check_host_literally(Origin.of(url))


@pytest.mark.parametrize(
    "url", ["ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "data:,x"]
)
def test_a_scheme_that_is_not_http_is_refused(url: str) -> None:
    with pytest.raises(UnsafeAddress, match="only http and https"):
        Origin.of(url)


@pytest.mark.parametrize("url", ["", "example.com", "http://", "http://exa mple.com/", "http://[::1/"])
def test_what_is_no_url_is_a_failed_fetch(url: str) -> None:
    with pytest.raises(FetchFailed) as caught:
        Origin.of(url)
    assert caught.value.reason == "bad_url"


def test_an_origin_is_scheme_host_and_port_and_nothing_else() -> None:
    assert Origin.of("HTTPS://Example.COM/a?b") == Origin(scheme="https", host="example.com", port=443)
    assert Origin.of("http://example.com:443/") != Origin.of("https://example.com/")
    assert Origin.of("http://[2606:4700::1]/").host == "2606:4700::1"
