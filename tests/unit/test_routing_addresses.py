"""URLs that lead inside our own network are seen by their text, whatever the spelling."""

from __future__ import annotations

import pytest

from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform
from workers.social_recording.routing import leads_inside, normalize, route


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://169.254.169.254/latest/", "https://169.254.169.254/latest"),
        ("http://localhost:6379/", "http://localhost:6379/"),
        ("http://[::1]/", "https://[::1]/"),
        ("http://[::1]:6379/", "http://[::1]:6379/"),
        ("http://2130706433/", "https://127.0.0.1/"),
        ("http://0x7f.1/", "https://127.0.0.1/"),
        ("http://0177.0.0.1/", "https://127.0.0.1/"),
        ("http://127.1", "https://127.0.0.1/"),
        ("http://\uff11\uff12\uff17.\uff10.\uff10.\uff11/", "https://127.0.0.1/"),
        ("http://127.0.0.1./", "https://127.0.0.1/"),
        ("http://%6c%6fcalhost/", "https://localhost/"),
        ("http://localhost./", "https://localhost/"),
        ("http://10.0.0.5/", "https://10.0.0.5/"),
        ("http://100.64.0.1/", "https://100.64.0.1/"),
        ("http://0.0.0.0/", "https://0.0.0.0/"),
        ("http://224.0.0.1/", "https://224.0.0.1/"),
        ("http://255.255.255.255/", "https://255.255.255.255/"),
        ("http://[::ffff:10.0.0.1]/", "https://[::ffff:a00:1]/"),
        ("http://[64:ff9b::7f00:1]/", "https://[64:ff9b::7f00:1]/"),
        ("http://[2002:7f00:1::]/", "https://[2002:7f00:1::]/"),
        ("http://[fe80::1]/", "https://[fe80::1]/"),
        ("http://[fd00::1]/", "https://[fd00::1]/"),
        ("http://[::]/", "https://[::]/"),
        ("http://db.internal/x", "https://db.internal/x"),
        ("http://printer.local/", "https://printer.local/"),
        ("http://metadata.google.internal/", "https://metadata.google.internal/"),
    ],
)
def test_an_inside_url_comes_through_in_canonical_form_and_is_recognised(text: str, url: str) -> None:
    assert normalize(text).url == url
    assert normalize(url).url == url
    assert leads_inside(text)
    assert leads_inside(url)
    where = route(url)
    assert (where.platform, where.object, where.subtype) == (
        Platform.WEB,
        ObjectKind.CONTENTS,
        ContentSubtype.SITE,
    )
    assert where.url == url


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/",
        "https://localhost.example.com/",
        "https://internal.com/",
        "http://8.8.8.8/",
        "http://[2606:4700:4700::1111]/",
        "not a url",
        "",
    ],
)
def test_a_public_url_does_not_lead_inside(url: str) -> None:
    assert not leads_inside(url)
