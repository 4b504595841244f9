"""Every route of the sandbox, the count of calls, and the admin's side.

Owns what is counted: each call outside `/_sandbox`, before any fault, by method and URL. For a relayed call
the URL is the site's; for a JSON-RPC call it is `/solana` and the called method; for `by-addresses` each
address is counted as well. Never counts or disturbs a call of the admin.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias
from urllib.parse import parse_qs

from devstack.sandbox import (
    detours,
    instagram,
    registries,
    syndication,
    telegram,
    tiktok,
    web,
    x_facts,
    x_oembed,
)
from devstack.sandbox.apify import Apify
from devstack.sandbox.faults import RULES, Faults
from devstack.sandbox.github import GitHub
from devstack.sandbox.http_server import DropConnection, HoldConnection, Request
from devstack.sandbox.reddit import Reddit
from devstack.sandbox.samples import Answer, json_answer
from devstack.sandbox.solana import Solana, call_of
from devstack.sandbox.tokens import default_tokens
from devstack.sandbox.tracker import BadTokens, Tracker, decode_tokens, encode_tokens
from devstack.sandbox.twitterapiio import TwitterAPIIO
from devstack.sandbox.x_api import XAPI
from devstack.sandbox.youtube import YouTube

ADMIN = "/_sandbox/"
TRACKER_LIST = "/tracker/api/v1/tokens"
TRACKER_BY_ADDRESSES = "/tracker/api/v1/tokens/by-addresses"
TWEET_RESULT = "/x/tweet-result"
RELAY = "/relay"
SOLANA = "/solana"
# Gets the request and its path below the service's folder.
Service: TypeAlias = Callable[[Request, str], Answer]
NO_CONTENT = Answer(status=204, headers={}, body=b"")


class World:
    """The outside world; `handle` is the server's handler."""

    def __init__(self, *, tracker_key: str, latency_ms: int = 0) -> None:
        self._latency_ms = latency_ms
        self._faults = Faults()
        self._tracker = Tracker(tracker_key)
        self._services = _services()
        self._calls: Counter[str] = Counter()
        self._addresses: Counter[str] = Counter()
        self._routes: dict[str, Callable[[Request], Answer]] = {
            RELAY: lambda request: _site(_relayed_url(request)),
            TWEET_RESULT: lambda request: syndication.answer(request.query),
            TRACKER_LIST: self._listed,
        }
        # Each takes the body and returns what to show, or raises ValueError for a body it cannot use.
        self._admin_routes: dict[tuple[str, str], Callable[[bytes], object]] = {
            ("GET", "ready"): lambda _: {"pid": os.getpid()},
            ("GET", "calls"): lambda _: self._shown_calls(),
            ("POST", "reset"): lambda _: self._reset(),
            ("PUT", "faults"): lambda body: self._faults.set(RULES.validate_json(body)),
            ("DELETE", "faults"): lambda _: self._faults.set([]),
            ("GET", "tokens"): lambda _: encode_tokens(self._tracker.tokens),
            ("PUT", "tokens"): self._set_tokens,
        }

    async def handle(self, request: Request) -> Answer:
        """Answer one request, after the latency and the faults that are asked for."""
        path = request.path
        if path.startswith(ADMIN):
            return self._admin(request, path.removeprefix(ADMIN))
        url = _called(request)
        call = f"{request.method} {url}"
        self._calls[call] += 1
        answer = self._answer(request, path)
        body = request.body.decode(errors="replace")
        fault = self._faults.take(f"{call} {body}" if body else call)
        latency_ms = self._latency_ms
        if fault is not None and fault.latency_ms is not None:
            latency_ms = fault.latency_ms
        if latency_ms:
            await asyncio.sleep(latency_ms / 1000)
        if fault is None:
            return answer
        if fault.hang:
            raise HoldConnection
        if fault.drop:
            raise DropConnection
        return fault.answer or answer

    def _answer(self, request: Request, path: str) -> Answer:
        if path == TRACKER_BY_ADDRESSES and request.method == "POST":
            return self._by_addresses(request)
        name, _, rest = path.removeprefix("/").partition("/")
        if service := self._services.get(name):
            return service(request, f"/{rest}")
        if request.method not in {"GET", "HEAD"}:
            return json_answer({"message": "Method Not Allowed"}, status=405)
        respond = self._routes.get(path)
        return respond(request) if respond else json_answer({"message": "Not Found"}, status=404)

    def _listed(self, request: Request) -> Answer:
        return self._locked(request) or self._tracker.listed(request.query)

    def _by_addresses(self, request: Request) -> Answer:
        answer, addresses = self._tracker.by_addresses(request.body)
        self._addresses.update(addresses)
        return self._locked(request) or answer

    def _locked(self, request: Request) -> Answer | None:
        if self._tracker.knows(request.headers.get("x-api-key")):
            return None
        return json_answer({"error": "Unauthorized", "message": "Invalid API key"}, status=401)

    def _admin(self, request: Request, name: str) -> Answer:
        respond = self._admin_routes.get((request.method, name))
        if respond is None:
            return json_answer({"message": "no such admin route"}, status=404)
        try:
            payload = respond(request.body)
        except (BadTokens, ValueError) as exc:
            return json_answer({"message": str(exc)}, status=400)
        return NO_CONTENT if payload is None else json_answer(payload)

    def _shown_calls(self) -> dict[str, object]:
        return {"total": self._calls.total(), "calls": dict(self._calls), "addresses": dict(self._addresses)}

    def _set_tokens(self, body: bytes) -> None:
        self._tracker.tokens = decode_tokens(json.loads(body))

    def _reset(self) -> None:
        self._calls.clear()
        self._addresses.clear()
        self._faults.set([])
        self._tracker.tokens = default_tokens()
        self._services = _services()


def _services() -> dict[str, Service]:
    """The services that have a folder of their own, as they are at the start."""
    people = x_facts.People()
    youtube = YouTube()
    reddit = Reddit()
    return {
        "github": GitHub().answer,
        "rdap": registries.listed,
        "x-oembed": x_oembed.answer,
        "x-api": XAPI(people).answer,
        "twitterapiio": TwitterAPIIO(people).answer,
        "solana": Solana().answer,
        "telegram": telegram.pages,
        "telegram-bot": telegram.bot,
        "apify": Apify().answer,
        "reddit": reddit.api,
        "reddit-login": reddit.site,
        "tiktok": tiktok.answer,
        "youtube": youtube.api,
        "youtube-site": youtube.site,
    }


def _site(url: str) -> Answer:
    if tiktok.is_short_link(url):
        return tiktok.short_link(url)
    if instagram.is_page(url):
        return instagram.page(url)
    if detours.is_detour(url):
        return detours.answer(url)
    return registries.answer(url) if registries.is_registry(url) else web.answer(url)


def _called(request: Request) -> str:
    """What is counted as called."""
    if request.path == RELAY:
        return _relayed_url(request)
    if f"{request.path}/".startswith(f"{SOLANA}/"):
        call = call_of(request.body)
        return f"{SOLANA} {call['method'] if call else 'no call'}"
    return request.target


def _relayed_url(request: Request) -> str:
    return parse_qs(request.query).get("url", [""])[0]
