"""A Solana node's JSON-RPC: `getTransaction` and `getSignaturesForAddress` over recorded and made-up chains.

Owns the answers' envelope, the parameters' checks and the bounds of pages. Never invents an error: refusals
are the recorded ones of `data/solana/rpc_errors.json`, with the id of the request.

- Recorded transactions are told by their signatures, the recorded page by its address; any other address has
  a made-up history (`solana_history`), whose transactions can be asked for (`solana_transactions`).
- A reserved address or signature (`solana_names`) gets what its words say: the name of a recorded case, one
  of `TROUBLES`, one of `solana_oddities.ODDITIES` for a transaction, `vanished` for a page that is empty and
  should not be, or a shape of a history. With a digit, all but shapes hold for the first so many calls with
  that name. The signature `unknown` is no anchor and null.
- A transaction above the client's `maxSupportedTransactionVersion` is refused as nodes do it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

from devstack.sandbox.http_server import DropConnection, HoldConnection, Request
from devstack.sandbox.samples import JSON_TYPE, Answer, derive, json_answer, payload_of
from devstack.sandbox.solana_history import (
    PAGE_MAX,
    History,
    Place,
    RecordedHistory,
    history_of,
    origin_of,
)
from devstack.sandbox.solana_names import read_reserved, spelled, unbase58
from devstack.sandbox.solana_oddities import ODDITIES, kind_of
from devstack.sandbox.solana_transactions import GENESIS_SLOT, Plan, result_of

RECORDED_ADDRESS = "7T8ckKtdc5DH7ACS5AnCny7rVXYJPEsaAbdBri1FhPxY"
RECORDED_TRANSACTIONS = (
    "tx_failed_custom_error_no_version",
    "tx_failed_string_error",
    "tx_legacy_logs_truncated",
    "tx_legacy_sol_transfer",
    "tx_legacy_spl_transfer",
    "tx_legacy_token2022_transfer",
    "tx_v0_lookup_tables_swap",
    "tx_v0_transaction_index",
)
CURRENT_SLOT = 480_000_000
RETRY_AFTER_S = 2
PLAIN, HTML = {"content-type": "text/plain"}, {"content-type": "text/html"}


class RPCError(Exception):
    """The answer is a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def _case(record: dict[str, Any]) -> Callable[[Any], Answer]:
    """A recorded refusal, for the id of a request."""
    has_id = record["body"].get("id") is not None
    # What the provider's manual shows beside this body.
    headers = {"retry-after": "1"} if record["name"] == "rate_limit_as_32005" else {}

    def answer(call_id: Any) -> Answer:
        body = {**record["body"], "id": call_id if has_id else None}
        return json_answer(body, status=record["http_status"], headers=headers)

    return answer


_ERRORS = payload_of("solana/rpc_errors.json")
CASES = {record["name"]: _case(record) for record in _ERRORS["cases"]}
_PAGE = _ERRORS["non_json"][0]


def _refusal(headers: Callable[[], dict[str, str]]) -> Callable[[Answer], Answer]:
    return lambda _: Answer(status=429, headers=PLAIN | headers(), body=b"Too many requests")


def _retry_date() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=RETRY_AFTER_S), usegmt=True)


def _raised(signal: type[Exception]) -> Callable[[Answer], Answer]:
    def never(_: Answer) -> Answer:
        raise signal

    return never


# What may come of a call on its way, made from the usual answer.
TROUBLES: dict[str, Callable[[Answer], Answer]] = {
    "hang": _raised(HoldConnection),
    "drop": _raised(DropConnection),
    "html": lambda _: Answer(status=_PAGE["http_status"], headers=HTML, body=_PAGE["body"].encode()),
    "html_200": lambda _: Answer(headers=HTML, body=_PAGE["body"].encode()),
    "empty_body": lambda _: Answer(headers={"content-type": JSON_TYPE}, body=b""),
    "truncated": lambda usual: Answer(headers=usual.headers, body=usual.body[: len(usual.body) * 2 // 3]),
    "other_id": lambda usual: json_answer({**json.loads(usual.body), "id": "another"}),
    "null_error": lambda usual: json_answer({**json.loads(usual.body), "error": None}),
    "refused": _refusal(dict),
    "refused_seconds": _refusal(lambda: {"retry-after": str(RETRY_AFTER_S)}),
    "refused_date": _refusal(lambda: {"retry-after": _retry_date()}),
}
_CASE_WORDS = {spelled(name): answer for name, answer in CASES.items()}
_TROUBLE_WORDS = {spelled(name): answer for name, answer in TROUBLES.items()}
_ODDITY_WORDS = {spelled(name): change for name, change in ODDITIES.items()}


class Solana:
    """One node. It remembers how often each reserved name and each tardy transaction was asked for."""

    def __init__(self) -> None:
        self._asked: Counter[tuple[str, str]] = Counter()
        self._recorded = _recorded_transactions()
        page = payload_of("solana/gsfa_full_history_page.json")["result"]
        self._recorded_history = RecordedHistory(RECORDED_ADDRESS, page)
        self._methods: dict[str, Callable[[list[Any]], Any]] = {
            "getTransaction": self._transaction,
            "getSignaturesForAddress": self._signatures,
            "getHealth": lambda _: "ok",
            "getSlot": lambda _: CURRENT_SLOT,
            "getVersion": lambda _: {"solana-core": "4.2.1", "feature-set": 1},
        }

    def answer(self, request: Request, path: str) -> Answer:
        """Answer a POST of one call; every path is the same."""
        del path
        if request.method != "POST":
            return Answer(
                status=405, headers=PLAIN, body=b"Used HTTP Method is not allowed. POST is required"
            )
        call = call_of(request.body)
        if call is None:
            return _error(None, RPCError(-32700, "Parse error"))
        method, params = call.get("method"), call.get("params") or []
        if method not in self._methods or not isinstance(params, list):
            return _error(call.get("id"), RPCError(-32601, "Method not found"))
        words = self._words(method, params)
        for word in words:
            if word in _CASE_WORDS:
                return _CASE_WORDS[word](call.get("id"))
        usual = self._usual(call.get("id"), method, params, words)
        for word in words:
            if word in _TROUBLE_WORDS:
                return _TROUBLE_WORDS[word](usual)
        return usual

    def _words(self, method: str, params: list[Any]) -> tuple[str, ...]:
        """The words of the name that is asked for, as far as they hold for this call."""
        name = params[0] if params and isinstance(params[0], str) else ""
        reserved = read_reserved(name)
        self._asked[method, name] += 1
        is_in_force = reserved.times is None or self._asked[method, name] <= reserved.times
        return reserved.words if is_in_force else ()

    def _usual(self, call_id: Any, method: str, params: list[Any], words: tuple[str, ...]) -> Answer:
        try:
            result = self._methods[method](params)
        except RPCError as exc:
            return _error(call_id, exc)
        if method == "getSignaturesForAddress" and "vanished" in words:
            result = []
        for word in words:
            if method == "getTransaction" and result is not None and word in _ODDITY_WORDS:
                result = _ODDITY_WORDS[word](result)
        return json_answer({"jsonrpc": "2.0", "result": result, "id": call_id})

    # --- getTransaction ---------------------------------------------------------------------------------

    def _transaction(self, params: list[Any]) -> dict[str, Any] | None:
        signature, options = _read_params(params, size=64)
        if options.get("encoding", "json") != "json":
            raise RPCError(-32602, "Invalid params: this node has the encoding json only")
        found = self._found(signature)
        if found is None:
            return None
        version, ceiling = found.get("version"), options.get("maxSupportedTransactionVersion")
        if isinstance(version, int) and (ceiling is None or version > ceiling):
            raise RPCError(-32015, _version_refusal(version))
        if ceiling is None:
            found = {name: value for name, value in found.items() if name != "version"}
        return found

    def _found(self, signature: str) -> dict[str, Any] | None:
        reserved = read_reserved(signature)
        if reserved.words:
            return None if "unknown" in reserved.words else result_of(_reserved_plan(signature))
        if signature in self._recorded:
            return self._recorded[signature]
        history, position = self._position(signature)
        if history is None:
            return None
        if history.is_tardy(position) and self._asked["getTransaction", signature] == 1:
            return None
        return result_of(history.plan(position))

    def _position(self, signature: str) -> tuple[History | None, int]:
        recorded = self._recorded_history.positions.get(signature)
        if recorded is not None:
            return self._recorded_history, recorded
        origin = origin_of(signature)
        if origin is None:
            return None, 0
        history = history_of(origin.address)
        return (history, origin.position) if origin.position < len(history.places) else (None, 0)

    # --- getSignaturesForAddress ------------------------------------------------------------------------

    def _signatures(self, params: list[Any]) -> list[dict[str, Any]]:
        address, options = _read_params(params, size=32)
        limit = options.get("limit")
        if limit is None:
            limit = PAGE_MAX
        if not isinstance(limit, int) or not 1 <= limit <= PAGE_MAX:
            raise RPCError(-32602, "Invalid limit; max 1000")
        history = self._recorded_history if address == RECORDED_ADDRESS else history_of(address)
        is_old_node = "quiet" in history.words
        bounds: dict[str, Place | None] = {}
        for name in ("before", "until"):
            signature = options.get(name)
            place = None if signature is None else self._place(signature)
            if signature is not None and place is None:
                if not is_old_node:
                    raise RPCError(-32020, f"Transaction {signature} not found")
                if name == "before":
                    return []
            bounds[name] = place
        positions = history.page(before=bounds["before"], until=bounds["until"], limit=limit)
        return [history.entry(position) for position in positions]

    def _place(self, signature: Any) -> Place | None:
        """Where a bound is in the chain; None when nobody knows it."""
        if not isinstance(signature, str) or unbase58(signature, 64) is None:
            raise RPCError(-32602, "Invalid param: Invalid")
        if signature in self._recorded:
            found = self._recorded[signature]
            return found["slot"], found.get("transactionIndex", 0)
        words = read_reserved(signature).words
        if words:
            plan = _reserved_plan(signature)
            return None if "unknown" in words else (plan.slot, plan.index)
        history, position = self._position(signature)
        return None if history is None else history.places[position]


def call_of(body: bytes) -> dict[str, Any] | None:
    """The one call of a request; None for a batch, which many providers refuse, and for what is no call."""
    try:
        call = json.loads(body)
    except ValueError:
        return None
    return call if isinstance(call, dict) and isinstance(call.get("method"), str) else None


def _recorded_transactions() -> dict[str, dict[str, Any]]:
    results = [payload_of(f"solana/{name}.json")["result"] for name in RECORDED_TRANSACTIONS]
    results.append(payload_of("solana/tx_same_in_three_encodings.json")["json"]["result"])
    results.append(payload_of("solana/tx_v1_failed_mainnet.json")["get_transaction_derived"]["result"])
    return {result["transaction"]["signatures"][0]: result for result in results}


def _reserved_plan(signature: str) -> Plan:
    kind, err = kind_of(read_reserved(signature).words)
    return Plan(
        signature=signature,
        slot=GENESIS_SLOT + derive("slot", signature, below=10**8),
        index=derive("index", signature, below=1000),
        kind=kind,
        about="".join(("1" * 31, "2")),
        err=err,
    )


def _read_params(params: list[Any], *, size: int) -> tuple[str, dict[str, Any]]:
    """The name of `size` bytes that is asked for, and the options."""
    name = params[0] if params else None
    if not isinstance(name, str) or unbase58(name, size) is None:
        raise RPCError(-32602, "Invalid param: Invalid")
    options = params[1] if len(params) > 1 and params[1] is not None else {}
    if not isinstance(options, dict):
        options = {"encoding": options}  # the old form of getTransaction
    if options.get("commitment", "finalized") not in ("finalized", "confirmed"):
        raise RPCError(-32602, "Method does not support commitment below `confirmed`")
    return name, options


def _version_refusal(version: int) -> str:
    return (
        f"Transaction version ({version}) is not supported by the requesting client. Please try the request"
        f' again with the following configuration parameter: "maxSupportedTransactionVersion": {version}'
    )


def _error(call_id: Any, error: RPCError) -> Answer:
    return json_answer(
        {"jsonrpc": "2.0", "error": {"code": error.code, "message": error.message}, "id": call_id}
    )
