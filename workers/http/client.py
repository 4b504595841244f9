"""The one outbound HTTP client, for configured services and for URLs that strangers name.

It owns time limits, body limits, redirects, the address guard, repeats, and the translation of every failure
into our errors. It decides nothing about what an answer means. Nothing connects before the first call; each
thread has its own connections. Every call on the wire passes through `OutboundClient._send`, where it needs a
permit of the `SourceLimiter`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias
from urllib.parse import quote, urlencode

import requests
from requests.structures import CaseInsensitiveDict
from urllib3.exceptions import HTTPError

from workers.clock import Budget, Clock
from workers.errors import ConvergeError, FetchFailed, TargetGone, UnsafeAddress
from workers.http.addresses import WEB_PORTS, Origin, check_host_literally, parse
from workers.http.dialer import Connect, Dialer, Resolve, connect_by_system, resolve_by_system
from workers.http.failures import clean_cause, is_about_our_header, reason_of
from workers.http.limiter import SourceLimiter
from workers.http.messages import Destination, LargeBody, Redirects, Request, Response
from workers.http.redaction import Redactor
from workers.http.retry import HINT_WAITED_FOR_MAX_S, pause_s
from workers.http.slots import CallSlots
from workers.http.tally import CallTally
from workers.http.transport import DialedAdapter
from workers.settings import Settings
from workers.telemetry import Meter

log = logging.getLogger(__name__)

REDIRECTS_MAX = 5
_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_BLOCK_BYTES = 16_384
# What a redirect says beside its Location is read only to be able to use the connection again.
_REDIRECT_BODY_MAX_BYTES = 16_384
# No other coding, because only these are unpacked in bounded steps.
_ACCEPTED_CODINGS = "gzip, deflate"
# The others of https://www.iana.org/assignments/http-parameters#content-coding. What is no coding at all
# (`utf-8` is seen) changes nothing.
_FOREIGN_CODINGS = frozenset(
    {"aes128gcm", "br", "compress", "dcb", "dcz", "exi", "pack200-gzip", "x-compress", "zstd"}
)
# What an answer may weigh on the wire: headers, and a body of the allowed size in small blocks.
_WIRE_OVERHEAD_BYTES = 1_048_576
_WIRE_BYTES_PER_BODY_BYTE = 4
# Connections that a thread keeps warm. Each costs a file; of strangers' sites hardly one is asked again.
_SERVICES_WARM_MAX = 16
_SITES_WARM_MAX = 4
_HEADERS_FOR_ANY_ORIGIN = frozenset({"accept", "accept-language", "user-agent"})

OnCall: TypeAlias = Callable[[], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class _CallLimits:
    """The limits of every call that does not bring its own."""

    connect_timeout_s: float
    read_timeout_s: float
    total_timeout_s: float
    body_max_bytes: int

    @classmethod
    def of(cls, settings: Settings) -> _CallLimits:
        return cls(
            connect_timeout_s=settings.http_connect_timeout_ms / 1000,
            read_timeout_s=settings.http_read_timeout_ms / 1000,
            total_timeout_s=settings.http_total_timeout_ms / 1000,
            body_max_bytes=settings.http_body_max_bytes,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Hop:
    """One URL on the way, and how it is asked."""

    url: str
    wire_url: str
    is_trusted: bool
    is_first_origin: bool


@dataclass(kw_only=True, slots=True)
class _Call:
    """One try of a request with its redirects. `ends_at` is on the monotonic clock."""

    request: Request
    budget: Budget
    on_call: OnCall | None
    ends_at: float

    @property
    def left_s(self) -> float:
        """Seconds that the call may still take."""
        return min(self.ends_at - self.budget.clock.monotonic(), self.budget.remaining_s)

    def check(self) -> None:
        """Raise `FetchFailed` when there is no time left."""
        if self.left_s <= 0:
            raise FetchFailed(f"{self.request.source} took too long", reason="timeout")

    @contextmanager
    def waiting_for(self, admission: AbstractContextManager[None]) -> Iterator[None]:
        """Hold the admission. The wait for it is not the call's own time."""
        asked_at = self.budget.clock.monotonic()
        with admission:
            self.ends_at += self.budget.clock.monotonic() - asked_at
            yield


class OutboundClient:
    """Asks, within limits. One for a process; safe for any number of threads.

    The base URLs of the configured services are trusted: they may lie inside our network, but only for a
    request whose destination is a service. A stranger's URL that happens to name one is refused. With
    `HTTP_SITE_RELAY_URL` (sandboxes), every request to another origin goes to the relay instead. Without a
    `limiter` nothing is counted, which is for tests of single calls; without `slots` every thread may call.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        limiter: SourceLimiter | None = None,
        slots: CallSlots | None = None,
        meter: Meter | None = None,
        site_ports: frozenset[int] = WEB_PORTS,
        resolve: Resolve = resolve_by_system,
        connect: Connect = connect_by_system,
    ) -> None:
        self._clock = clock
        self._limiter = limiter
        self._slots = slots
        self._tally = CallTally(meter or Meter(clock), clock)
        self._user_agent = settings.http_user_agent
        self._limits = _CallLimits.of(settings)
        self._relay_url = settings.http_site_relay_url
        self._trusted = frozenset(Origin.of(url) for url in settings.service_urls)
        self._relay = frozenset({Origin.of(self._relay_url)} if self._relay_url else ())
        self._redactor = Redactor(settings.secrets)
        self._site_ports = site_ports
        self._resolve = resolve
        self._connect = connect
        self._local = threading.local()

    def fetch(self, request: Request, budget: Budget, on_call: OnCall | None = None) -> Response:
        """Ask, follow redirects, and repeat as the request's policy says; return the last answer.

        `on_call` is told right before each call on the wire. An answer of any status is returned, except one
        that asks for a longer wait than an attempt may spend. A wait for a slot or a permit takes of the
        budget, not of the call's own time; a call that gets none is not made, and `on_call` hears nothing
        of it.

        Raises `FetchFailed` (`rate_limited` also when there was no permit, `lock_unavailable` when nobody can
        tell), `TargetGone` (`dns_nxdomain`), `UnsafeAddress`, or `BudgetExceeded` when the time was used up
        before the first call or a stop ended a wait.
        """
        policy = request.retry
        tries_made = 0
        while True:
            budget.check()
            tries_made += 1
            is_last = tries_made >= policy.tries
            hint: float | None = None
            try:
                response = self._follow(request, budget, on_call)
            except FetchFailed as exc:
                if is_last or exc.reason not in policy.failures:
                    raise
                wait_s = policy.wait_s(tries_made)
                if wait_s > budget.remaining_s:
                    raise
            else:
                hint = response.wait_hint_s if policy.heeds_hints else None
                if not policy.repeats(response.status, tries_made, has_hint=hint is not None):
                    return response
                if hint is not None and hint > min(HINT_WAITED_FOR_MAX_S, budget.remaining_s):
                    raise _later(response, hint)
                wait_s = policy.wait_s(tries_made) if hint is None else hint
                if is_last or wait_s > budget.remaining_s:
                    return response
            budget.sleep(wait_s)

    def _follow(self, request: Request, budget: Budget, on_call: OnCall | None) -> Response:
        """Ask once, following redirects, all within one time limit."""
        total_s = request.timeout_s or self._limits.total_timeout_s
        call = _Call(
            request=request, budget=budget, on_call=on_call, ends_at=self._clock.monotonic() + total_s
        )
        try:
            return self._follow_hops(call)
        except UnsafeAddress as exc:
            if request.destination is Destination.SITE:
                raise
            # Where a service is or leads to says nothing about the target that it is asked about.
            raise FetchFailed(f"{request.source}: {exc}", reason="misconfigured") from exc

    def _follow_hops(self, call: _Call) -> Response:
        request = call.request
        url = self._canonical(_with_query(request))
        first = origin = Origin.of(url)
        chain: list[str] = []
        while True:
            if url in chain:
                raise FetchFailed(f"{request.source} redirects in a circle", reason="redirect_loop")
            if len(chain) > REDIRECTS_MAX:
                raise FetchFailed(f"{request.source} redirects too often", reason="too_many_redirects")
            chain.append(url)
            hop = self._plan(request, url, origin, first)
            response = self._exchange(call, hop)
            location = _location(request, response)
            if location is None:
                return replace(response, chain=tuple(chain))
            url = self._canonical(location, base=url)
            previous, origin = origin, Origin.of(url)
            if request.redirects is Redirects.SAME_ORIGIN and origin != previous:
                raise FetchFailed(f"{request.source} redirects to another origin", reason="redirect_refused")

    def _canonical(self, url: str, base: str | None = None) -> str:
        """The URL as a browser would ask for it, without fragment and user-info."""
        parts = parse(url, base)
        parts.hash = ""
        parts.username = ""
        parts.password = ""
        return str(parts.href)

    def _plan(self, request: Request, url: str, origin: Origin, first: Origin) -> _Hop:
        """Decide how one URL is asked; refuse what needs no connection to be refused."""
        # A redirect gains no trust: a service must not lead us to another one inside our network.
        is_trusted = (
            request.destination is Destination.SERVICE and origin in self._trusted and origin == first
        )
        wire_url = url
        if not is_trusted:
            check_host_literally(origin, self._site_ports)
            if self._relay_url is not None:
                wire_url = f"{self._relay_url}?url={quote(url, safe='')}"
        return _Hop(
            url=url,
            wire_url=wire_url,
            is_trusted=is_trusted or self._relay_url is not None,
            is_first_origin=origin == first,
        )

    def _exchange(self, call: _Call, hop: _Hop) -> Response:
        """One call on the wire, with every failure translated."""
        request = call.request
        try:
            return self._send(call, hop)
        except TargetGone as exc:
            if request.destination is Destination.SITE and hop.wire_url == hop.url:
                raise
            # A service that we configured exists; only our name server says otherwise.
            raise FetchFailed(f"{request.source}: {exc}", reason="dns_failed") from exc
        except (requests.RequestException, HTTPError, OSError, ValueError) as exc:
            failure = self._translated(request, hop, exc)
            cause = clean_cause(exc, self._redactor)
        # Raised out here, because an error keeps the one in whose handler it is raised, secrets and all.
        raise failure from cause

    def _send(self, call: _Call, hop: _Hop) -> Response:
        call.check()
        request = call.request
        adapter = self._adapter(is_trusted=hop.is_trusted)
        prepared = _prepared(request, hop.wire_url, self._headers(request, hop))
        # The slot first: who waits with a permit in hand would call later than its source was promised. And
        # what a call waits for its slot is not missing from the time for which the permit holds its place.
        with (
            call.waiting_for(self._slot(call)),
            call.waiting_for(self._tally.permit(request.source, self._permit(call, hop))),
        ):
            call.check()
            timeout = self._set_bounds(adapter, request, call.left_s)
            started_at = self._clock.monotonic()
            if call.on_call is not None:
                call.on_call()
            with (
                self._tally.call(request) as heard,
                closing(adapter.send(prepared, stream=True, timeout=timeout, proxies={})) as answer,
            ):
                heard.status = answer.status_code
                received_at = self._clock.now()
                self._heed(request, hop, answer, received_at)
                is_redirect = answer.status_code in _REDIRECT_STATUSES
                if not is_redirect:
                    _check_coding(request, answer)
                max_bytes = self._body_max_bytes(request, is_redirect=is_redirect)
                body, is_cut = _read_body(answer, request, max_bytes)
        return Response(
            source=request.source,
            status=answer.status_code,
            headers=CaseInsensitiveDict(answer.headers),
            body=body,
            url=hop.url,
            chain=(hop.url,),
            received_at=received_at,
            elapsed_s=self._clock.monotonic() - started_at,
            is_cut=is_cut,
        )

    def _slot(self, call: _Call) -> AbstractContextManager[None]:
        return nullcontext() if self._slots is None else self._slots.hold(call.budget)

    def _permit(self, call: _Call, hop: _Hop) -> AbstractContextManager[None]:
        """Wait for the right to ask, which is given back when the answer is read."""
        if self._limiter is None:
            return nullcontext()
        request = call.request
        return self._limiter.permit(
            request.source,
            hop.url,
            call.budget,
            open_s=call.left_s,
            wait_max_s=request.permit_wait_max_s,
        )

    def _heed(self, request: Request, hop: _Hop, answer: requests.Response, now: datetime) -> None:
        """Have all workers leave a source alone that asks for it; before the permit is given back."""
        if self._limiter is None:
            return
        is_service = request.destination is Destination.SERVICE
        wait_s = pause_s(answer.status_code, answer.headers, now, heeds_used_up=is_service)
        self._limiter.pause(request.source, hop.url, wait_s)

    def _set_bounds(self, adapter: DialedAdapter, request: Request, total_s: float) -> tuple[float, float]:
        limits = self._limits
        read_s = request.read_timeout_s or limits.read_timeout_s
        body_bytes = request.body_max_bytes or limits.body_max_bytes
        wire_bytes = _WIRE_OVERHEAD_BYTES + _WIRE_BYTES_PER_BODY_BYTE * body_bytes
        adapter.dialer.bounds.start(total_s, read_s, wire_bytes)
        return min(limits.connect_timeout_s, total_s), min(read_s, total_s)

    def _body_max_bytes(self, request: Request, *, is_redirect: bool) -> int:
        return (
            _REDIRECT_BODY_MAX_BYTES if is_redirect else request.body_max_bytes or self._limits.body_max_bytes
        )

    def _headers(self, request: Request, hop: _Hop) -> dict[str, str]:
        """Our own headers and the caller's; to another origin than the first, only those without a secret."""
        headers = {"User-Agent": self._user_agent, "Accept-Encoding": _ACCEPTED_CODINGS}
        given = request.headers.items()
        return headers | {
            name: value
            for name, value in given
            if hop.is_first_origin or name.lower() in _HEADERS_FOR_ANY_ORIGIN
        }

    def _adapter(self, *, is_trusted: bool) -> DialedAdapter:
        """This thread's connections; trusted calls have their own, so that no other uses their sockets."""
        name = "trusted" if is_trusted else "site"
        adapter: DialedAdapter | None = getattr(self._local, name, None)
        if adapter is None:
            dialer = Dialer(
                connect_timeout_s=self._limits.connect_timeout_s,
                trusted=self._trusted | self._relay if is_trusted else frozenset(),
                ports=self._site_ports,
                resolve=self._resolve,
                connect=self._connect,
            )
            adapter = DialedAdapter(dialer, hosts_max=_SERVICES_WARM_MAX if is_trusted else _SITES_WARM_MAX)
            setattr(self._local, name, adapter)
        return adapter

    def _translated(self, request: Request, hop: _Hop, error: Exception) -> ConvergeError:
        if is_about_our_header(error):
            # The text of such an error quotes the header, which may be a key of ours.
            log.error(
                "a header of a request cannot be sent",
                extra={"source": request.source, "error": type(error).__name__},
            )
            return FetchFailed(f"{request.source}: a header of ours cannot be sent", reason="misconfigured")
        reason, what = reason_of(error)
        where = self._redactor.redact(hop.url)
        return FetchFailed(f"{request.source}: {what} ({where})", reason=reason)


def _with_query(request: Request) -> str:
    if not request.query:
        return request.url
    separator = "&" if "?" in request.url else "?"
    return f"{request.url}{separator}{urlencode(request.query)}"


def _prepared(request: Request, wire_url: str, headers: dict[str, str]) -> requests.PreparedRequest:
    """What goes on the wire, without what a session adds: cookies, and whatever the environment says.

    The URL has been through a browser's parser; `requests` would take it apart once more.
    """
    prepared = requests.PreparedRequest()
    prepared.prepare_method(request.method)
    prepared.url = wire_url
    prepared.prepare_headers(headers)
    prepared.prepare_body(request.form_body, None, request.json_body)
    return prepared


def _location(request: Request, response: Response) -> str | None:
    """Where a redirect that is to be followed leads, as text; None for any other answer."""
    if request.redirects is Redirects.NEVER:
        return None
    if request.method != "GET" or response.status not in _REDIRECT_STATUSES:
        return None
    location = response.headers.get("location", "")
    # HTTP headers arrive as Latin-1, but those who write letters outside ASCII write UTF-8.
    with suppress(UnicodeError):
        location = location.encode("latin-1").decode("utf-8")
    return location.strip() or None


def _read_body(answer: requests.Response, request: Request, max_bytes: int) -> tuple[bytes, bool]:
    """Read the unpacked body up to the limit; return it and whether it was cut.

    Raises `FetchFailed` (`body_too_large`) when the request does not want a part.
    """
    may_cut = request.large_body is LargeBody.CUT or answer.status_code in _REDIRECT_STATUSES
    body = bytearray()
    for block in answer.iter_content(_BLOCK_BYTES):
        body += block
        if len(body) > max_bytes:
            if not may_cut:
                raise FetchFailed(
                    f"{request.source} sent more than {max_bytes} unpacked bytes", reason="body_too_large"
                )
            return bytes(body[:max_bytes]), True
    return bytes(body), False


def _check_coding(request: Request, answer: requests.Response) -> None:
    """Raise `FetchFailed` when the body is packed in a way that we did not offer to unpack."""
    codings = {each.strip().lower() for each in answer.headers.get("content-encoding", "").split(",")}
    if codings & _FOREIGN_CODINGS:
        raise FetchFailed(f"{request.source} packed the body as nobody asked for", reason="bad_encoding")


def _later(response: Response, hint_s: float) -> FetchFailed:
    reason = "rate_limited" if response.status in (403, 429) else f"http_{response.status}"
    return FetchFailed(
        f"{response.source} answered {response.status} and asks to come back in {hint_s:.0f} s",
        reason=reason,
        retry_in_s=hint_s,
    )
