"""A node of the Solana RPC inside the test process: its history is data, its oddities are switched on by a
test.

It answers as the reference node does (https://solana.com/docs/rpc): newest first, bounds exclusive, an
unknown bound is an error. `NodeHTTP` stands where the outbound HTTP client stands, and notes when each
request started.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from requests.structures import CaseInsensitiveDict

from tests.solana_samples import small_result
from workers.base58 import encode
from workers.clock import Budget, Clock
from workers.errors import FetchFailed
from workers.http.messages import Request, Response
from workers.solana_endpoints import SolanaEndpoint

KEY = "k3y-of-the-endpoint-0123456789"
ENDPOINT = SolanaEndpoint(
    role="history_backfill",
    url=f"https://node.example/rpc/{KEY}?api-key={KEY}",
    provider="example",
    requests_per_second=1000,
    max_concurrent_requests=4,
    pause_after_rate_limit_ms=1000,
)
ADDRESS = encode(b"\x07" * 32)
LISTED, FETCHED = "getSignaturesForAddress", "getTransaction"


def signature(number: int | str) -> str:
    """The signature of a transaction that is told by its number."""
    return encode(hashlib.sha512(f"transaction {number}".encode()).digest())


def signatures(count: int, *, first: int = 1) -> list[str]:
    """So many signatures, newest first."""
    return [signature(number) for number in range(first, first + count)]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer on the wire."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None


def error(code: int, message: str, *, status: int = 200, **headers: str) -> Reply:
    """An answer with a JSON-RPC error; underscores of header names become hyphens."""
    body = {"jsonrpc": "2.0", "error": {"code": code, "message": message}}
    return Reply(
        status=status, headers={name.replace("_", "-"): text for name, text in headers.items()}, body=body
    )


RATE_LIMITED = error(429, "Too many requests for a specific RPC call", status=429)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request as it arrived, and when it started on the clock of the one who asked."""

    method: str
    subject: str
    options: Mapping[str, Any]
    at_s: float


class Node:
    """What one node knows of one address. Entries are `(signature, slot, err)`, newest first."""

    def __init__(self, history: Iterable[str] = (), *, newest_slot: int = 1_000_000) -> None:
        self.history: list[tuple[str, int, object]] = []
        self.bodies: dict[str, Any] = {}
        self.replies: dict[str, deque[Reply]] = defaultdict(deque)
        self.replies_of: dict[str, deque[Reply]] = defaultdict(deque)
        self.pages: deque[Sequence[str]] | None = None
        self.is_silent_about_bounds = False
        self.row_too_many = False
        self._guard = threading.Lock()
        for place, each in enumerate(history):
            self.add(each, newest_slot - place)

    def add(self, each: str, slot: int, err: object = None) -> None:
        """Add an older transaction than those that are there."""
        self.history.append((each, slot, err))

    def say(self, method: str, *replies: Reply) -> None:
        """Answer the next calls of the method so, whatever they ask for."""
        self.replies[method].extend(replies)

    def say_of(self, each: str, *replies: Reply) -> None:
        """Answer the next calls for this transaction so."""
        self.replies_of[each].extend(replies)

    def answer(self, call: Mapping[str, Any]) -> Reply:
        """Answer one call."""
        method, (subject, options) = call["method"], call["params"]
        with self._guard:
            for waiting in (self.replies_of[subject], self.replies[method]):
                if waiting:
                    return waiting.popleft()
        if method == FETCHED:
            return self._result(call, self._transaction(subject))
        return self._listed(call, options)

    def _transaction(self, subject: str) -> object:
        if subject in self.bodies:
            return self.bodies[subject]
        entry = next((each for each in self.history if each[0] == subject), None)
        return entry and small_result(signatures=[subject], slot=entry[1], err=entry[2])

    def _listed(self, call: Mapping[str, Any], options: Mapping[str, Any]) -> Reply:
        slots = {each: (slot, err) for each, slot, err in self.history}
        with self._guard:
            if self.pages is not None:
                page = self.pages.popleft() if self.pages else ()
                return self._result(call, [self._entry(each, *slots.get(each, (1, None))) for each in page])
        order = [each for each, _, _ in self.history]
        first, last = 0, len(order)
        for name in ("before", "until"):
            bound = options.get(name)
            if bound is None:
                continue
            if bound not in slots:
                if not self.is_silent_about_bounds:
                    reply = error(-32020, f"Transaction {bound} not found")
                    return self._result(call, None, reply)
                last = last if name == "until" else 0
            elif name == "before":
                first = order.index(bound) + 1
            else:
                last = order.index(bound)
        size = options["limit"]
        if self.row_too_many and last - first > size and last < len(order):
            size += 1
        found = order[first:last][:size]
        return self._result(call, [self._entry(each, *slots[each]) for each in found])

    def _entry(self, each: str, slot: int, err: object) -> dict[str, object]:
        return {
            "signature": each,
            "slot": slot,
            "err": err,
            "memo": None,
            "blockTime": 1_700_000_000,
            "confirmationStatus": "finalized",
        }

    def _result(self, call: Mapping[str, Any], result: object, reply: Reply | None = None) -> Reply:
        return reply or Reply(body={"jsonrpc": "2.0", "id": call["id"], "result": result})


class NodeHTTP:
    """Takes the place of the outbound HTTP client in front of nodes; `before_answer` may hold a call up."""

    def __init__(self, node: Node, clock: Clock) -> None:
        self.node = node
        self.asked: list[Asked] = []
        self.urls: set[str] = set()
        self.open = self.most_open = 0
        self.before_answer: Callable[[Mapping[str, Any]], None] = lambda _: None
        self.failures: deque[FetchFailed] = deque()
        self._clock = clock
        self._guard = threading.Lock()

    def fetch(self, request: Request, budget: Budget, on_call: Callable[[], None] = lambda: None) -> Response:
        """Answer one request as the client would."""
        on_call()
        assert isinstance(request.json_body, dict)
        call: dict[str, Any] = json.loads(json.dumps(request.json_body))
        subject, options = call["params"]
        with self._guard:
            self.urls.add(request.url)
            self.asked.append(
                Asked(method=call["method"], subject=subject, options=options, at_s=self._clock.monotonic())
            )
            self.open += 1
            self.most_open = max(self.most_open, self.open)
        try:
            self.before_answer(call)
            if self.failures:
                raise self.failures.popleft()
            reply = self.node.answer(call)
        finally:
            with self._guard:
                self.open -= 1
        body = reply.body
        if isinstance(body, dict):
            body = {"id": call["id"], **body}
        return Response(
            source=request.source,
            status=reply.status,
            headers=CaseInsensitiveDict(reply.headers),
            body=body if isinstance(body, bytes) else json.dumps(body).encode(),
            url=request.url,
            chain=(request.url,),
            received_at=self._clock.now(),
        )

    def of(self, method: str) -> list[Asked]:
        """The requests of one method, in the order in which they started."""
        return [each for each in self.asked if each.method == method]

    def fetched(self) -> list[str]:
        """The signatures that were asked for, in order."""
        return [each.subject for each in self.of(FETCHED)]
