"""YouTube's generators over the wire, against the sandbox."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devstack.sandbox.client import SandboxClient
from devstack.sandbox.process import SandboxServer
from devstack.sandbox.youtube import author_of, channel_id
from tests.conftest import make_settings
from workers.clock import Budget, Clock
from workers.errors import ConvergeError, CreditExhausted, FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.social_recording.generators.generator import CallCounter, FetchContext
from workers.social_recording.generators.registry import Generators
from workers.social_recording.object_graph import SocialObjectGraph, check
from workers.social_recording.routing import route

VIDEO = "https://youtu.be/aFCO6Wid0VM"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    with SandboxServer(tmp_path_factory.mktemp("sandbox") / "data") as server:
        yield server


@pytest.fixture
def sandbox(server: SandboxServer) -> SandboxClient:
    server.client.reset()
    return server.client


def generate(
    server: SandboxServer, url: str, key: str | None = "k", budget_s: float = 20
) -> SocialObjectGraph:
    names = {name.lower(): value for name, value in server.settings().items()}
    settings, clock = make_settings(**names, youtube_api_key=key), Clock()
    way = route(url)
    generators = Generators(OutboundClient(settings, clock), settings)
    generator = generators.for_route(way, is_paid_enabled=False)
    assert generator is not None
    context = FetchContext(budget=Budget.of(clock, budget_s), calls=CallCounter())
    graph = generator.generate(way, context)
    check(graph, url)
    return graph


def test_a_video_and_its_channel_are_two_calls(server: SandboxServer, sandbox: SandboxClient) -> None:
    [group] = generate(server, VIDEO).groups
    assert group.content is not None
    assert group.account is not None
    assert group.content.platform_key == "aFCO6Wid0VM"
    handle = author_of("aFCO6Wid0VM")
    assert (group.account.platform_key, group.account.handle) == (channel_id(handle), handle)
    assert group.account.followers is not None
    calls = sandbox.calls()
    assert calls.total == 2
    assert not [call for call in calls.by_call if "key=" in call]


@pytest.mark.parametrize(
    "url",
    [
        "https://www.youtube.com/@MoonHarbor",
        "https://www.youtube.com/user/MoonHarbor",
        "https://www.youtube.com/c/MoonHarbor",
        "https://www.youtube.com/MoonHarbor",
        f"https://www.youtube.com/channel/{channel_id('moonharbor')}",
    ],
)
def test_every_form_of_a_channels_address_leads_to_one_channel(
    server: SandboxServer, sandbox: SandboxClient, url: str
) -> None:
    [group] = generate(server, url).groups
    assert group.account is not None
    assert group.account.platform_key == channel_id("moonharbor")
    assert sandbox.calls().total == (2 if "/c/" in route(url).url else 1)


def test_without_a_key_a_video_is_one_call(server: SandboxServer, sandbox: SandboxClient) -> None:
    [group] = generate(server, VIDEO, key=None).groups
    assert group.content is not None
    assert group.account is not None
    assert group.content.text_primary == "Video aFCO6Wid0VM"
    assert group.account.platform_key is None
    assert sandbox.calls().total == 1


@pytest.mark.parametrize(
    ("place", "error", "reason"),
    [
        ("watch?v=vid-missing", TargetGone, "http_404"),
        ("watch?v=vid-badname", TargetGone, "http_400"),
        ("watch?v=vid-private", TargetBlocked, "private"),
        ("watch?v=vid-unclear", FetchFailed, "weak_not_found"),
        ("watch?v=vid-quota-1", CreditExhausted, "credit_exhausted"),
        ("watch?v=vid-rate-01", FetchFailed, "rate_limited"),
        ("watch?v=vid-rate-02", FetchFailed, "rate_limited"),
        ("watch?v=vid-key-001", FetchFailed, "misconfigured"),
        ("watch?v=vid-key-002", FetchFailed, "misconfigured"),
        ("@channel-missing", TargetGone, "no_such_channel"),
        ("@channel-missing-old", TargetGone, "no_such_channel"),
        ("c/channel-missing", FetchFailed, "weak_not_found"),
    ],
)
def test_every_trouble_of_youtube_has_its_meaning_over_the_wire(
    server: SandboxServer, place: str, error: type[ConvergeError], reason: str
) -> None:
    with pytest.raises(error) as caught:
        generate(server, f"https://www.youtube.com/{place}")
    assert type(caught.value) is error
    assert getattr(caught.value, "reason", None) == reason


def test_a_video_that_must_not_be_embedded_is_there_all_the_same(server: SandboxServer) -> None:
    [group] = generate(server, "https://youtu.be/vid-noembed", key=None).groups
    assert group.content is not None
    assert group.content.data == {"forbids_embedding": True}
