"""The sandbox's Solana: valid transactions, histories that page as nodes do, and trouble on request."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from devstack.sandbox.http_server import DropConnection, HoldConnection, Request
from devstack.sandbox.samples import Answer
from devstack.sandbox.solana import CASES, RECORDED_ADDRESS, TROUBLES, Solana
from devstack.sandbox.solana_history import history_of, origin_of
from devstack.sandbox.solana_names import read_reserved, reserved_address, reserved_signature, spelled
from devstack.sandbox.solana_oddities import ERROR_WORDS, KIND_WORDS, ODDITIES
from devstack.sandbox.tokens import address_of
from tests.samples import sample_json
from tests.solana_samples import READABLE, result_of
from workers.base58 import is_public_key, is_signature
from workers.solana_backfill.canonical import canonical_transaction
from workers.solana_backfill.rejection import PayloadRejected, RejectReason

ADDRESS = address_of("some program")
UNKNOWN = reserved_signature("unknown")
VERSION_1 = {"encoding": "json", "maxSupportedTransactionVersion": 1, "commitment": "finalized"}


@pytest.fixture
def node() -> Solana:
    return Solana()


def post(node: Solana, method: str, *params: Any, call_id: Any = 7) -> Answer:
    body = json.dumps({"jsonrpc": "2.0", "id": call_id, "method": method, "params": list(params)}).encode()
    return node.answer(Request(method="POST", target="/solana?key=k", headers={}, body=body), "/")


def ask(node: Solana, method: str, *params: Any) -> dict[str, Any]:
    answer = post(node, method, *params)
    found: dict[str, Any] = json.loads(answer.body)
    assert (answer.status, found["jsonrpc"], found["id"]) == (200, "2.0", 7)
    return found


def transaction(node: Solana, signature: str, **options: Any) -> Any:
    return ask(node, "getTransaction", signature, {**VERSION_1, **options})["result"]


def page(node: Solana, address: str, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(node, "getSignaturesForAddress", address, options)["result"]
    return found


def walk(node: Solana, address: str, **options: Any) -> list[list[dict[str, Any]]]:
    """All pages until an empty one."""
    pages: list[list[dict[str, Any]]] = []
    bound: dict[str, Any] = {}
    while found := page(node, address, **options, **bound):
        pages.append(found)
        bound = {"before": found[-1]["signature"]}
        assert len(pages) < 2000
    return pages


def history(address: str) -> list[str]:
    """The signatures of an address, newest first."""
    found = history_of(address)
    return [found.signature(position) for position in reversed(range(len(found.places)))]


# --- transactions -------------------------------------------------------------------------------------


def test_every_made_up_transaction_is_valid_adds_up_and_names_its_address(node: Solana) -> None:
    seen: Counter[Any] = Counter()
    for address in (ADDRESS, address_of("another"), reserved_address("few")):
        for signature in history(address):
            found = canonical_transaction(transaction(node, signature), signature)
            assert found.is_balanced
            assert address in {account.pubkey for account in found.accounts}
            assert is_signature(signature)
            seen[found.version] += 1
            seen["failed" if found.error else "fine"] += 1
            seen["tokens"] += bool(found.token_balance_changes)
            seen["calls"] += bool(found.inner_instructions)
            assert sum(change.delta for change in found.token_balance_changes) == 0
    assert all(seen[word] > 10 for word in ("legacy", 0, 1, "failed", "fine", "tokens", "calls"))


def test_what_a_history_lists_is_what_the_transaction_says(node: Solana) -> None:
    listed = page(node, ADDRESS)
    assert len(listed) > 40
    for entry in listed:
        found = transaction(node, entry["signature"])
        told = {name: found[name] for name in ("slot", "blockTime", "transactionIndex")}
        assert told == {name: entry[name] for name in told}
        assert found["meta"]["err"] == entry["err"]
    assert any(newer["slot"] == older["slot"] for newer, older in pairwise(listed)), "several in a slot"
    places = [(entry["slot"], entry["transactionIndex"]) for entry in listed]
    assert places == sorted(places, reverse=True)


def test_recorded_transactions_and_the_recorded_page_are_told_as_they_were(node: Solana) -> None:
    for name in READABLE:
        result = result_of(name)
        assert transaction(node, result["transaction"]["signatures"][0]) == result
    recorded = sample_json("solana/gsfa_full_history_page.json")["result"]
    assert page(node, RECORDED_ADDRESS) == recorded
    assert page(node, RECORDED_ADDRESS, before=recorded[99]["signature"], limit=50) == recorded[100:150]
    for entry in recorded[::40]:
        found = canonical_transaction(transaction(node, entry["signature"]), entry["signature"])
        assert (found.slot, found.succeeded) == (entry["slot"], entry["err"] is None)


def test_the_version_ceiling_is_kept(node: Solana) -> None:
    newest = {version: reserved_signature(f"version_{version}") for version in (0, 1)}
    legacy = reserved_signature("failed")
    for version, ceiling, is_shown in ((0, 0, True), (1, 0, False), (1, 1, True), (0, None, False)):
        options = {"encoding": "json"} | (
            {} if ceiling is None else {"maxSupportedTransactionVersion": ceiling}
        )
        answer = ask(node, "getTransaction", newest[version], options)
        assert ("result" in answer) == is_shown
        if not is_shown:
            assert answer["error"]["code"] == -32015
            assert f"version ({version})" in answer["error"]["message"]
    assert "version" not in ask(node, "getTransaction", legacy, "json")["result"], (
        "the old form of the options"
    )
    assert transaction(node, legacy)["version"] == "legacy"


def test_a_signature_that_nobody_made_is_null(node: Solana) -> None:
    made = history(ADDRESS)[0]
    other = made[:-1] + ("2" if made[-1] != "2" else "3")
    assert origin_of(made) is not None
    for signature in (other, UNKNOWN, "1" * 64):
        assert ask(node, "getTransaction", signature, VERSION_1)["result"] is None


def test_another_process_tells_the_same() -> None:
    signature = history(ADDRESS)[3]
    assert transaction(Solana(), signature) == transaction(Solana(), signature)
    assert page(Solana(), ADDRESS) == page(Solana(), ADDRESS)


# --- oddities -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("base64", RejectReason.UNEXPECTED_ENCODING),
        ("parsed", RejectReason.UNEXPECTED_ENCODING),
        ("no_meta", RejectReason.META_UNAVAILABLE),
        ("another", RejectReason.SIGNATURE_MISMATCH),
        ("broken", RejectReason.MALFORMED_PAYLOAD),
    ],
)
def test_an_oddity_is_what_the_backfill_rejects(node: Solana, word: str, reason: RejectReason) -> None:
    signature = reserved_signature(word)
    with pytest.raises(PayloadRejected) as caught:
        canonical_transaction(transaction(node, signature), signature)
    assert caught.value.reason is reason


@pytest.mark.parametrize("word", [*KIND_WORDS, *ERROR_WORDS, "kept_none", "older_node", "differs"])
def test_every_other_word_makes_a_transaction_that_can_be_stored(node: Solana, word: str) -> None:
    signature = reserved_signature(word)
    found = canonical_transaction(transaction(node, signature), signature)
    assert found.succeeded == (word not in ERROR_WORDS)
    assert found.is_balanced == (word != "differs")


def test_an_older_node_tells_the_same_and_another_one_does_not(node: Solana) -> None:
    def hashes(word: str) -> tuple[str, str]:
        signature = reserved_signature(word, times=1)
        first, second = (canonical_transaction(transaction(node, signature), signature) for _ in range(2))
        return first.content_hash(), second.content_hash()

    older, newer = hashes("older_node")
    assert older == newer
    one, other = hashes("differs")
    assert one != other
    kept_none, kept = hashes("kept_none")
    assert kept_none == kept


def test_every_error_word_is_the_error_of_a_transaction(node: Solana) -> None:
    old, new, strange = (
        canonical_transaction(transaction(node, reserved_signature(word)), None).error
        for word in ("borsh_old", "borsh_new", "strange_error")
    )
    assert old == new
    assert strange is not None
    assert strange.kind == "ProgramWentAway"


def test_a_null_may_become_a_transaction(node: Solana) -> None:
    signature = reserved_signature("missing", times=2)
    results = [transaction(node, signature) for _ in range(3)]
    assert [result is None for result in results] == [True, True, False]
    assert transaction(node, reserved_signature("missing")) is None
    tardy = reserved_address("few", "tardy")
    first = [transaction(node, each) is None for each in history(tardy)]
    assert (first.count(True), len(first)) == (1, 8)
    assert all(transaction(node, each) for each in history(tardy))


# --- histories ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "limit", "lengths"),
    [
        (("few",), 1000, [8]),
        (("few",), 4, [4, 4]),
        (("none",), 1000, []),
        (("big",), 1000, [1000, 1000, 600]),
        (("few", "extra"), 4, [5, 3]),
        (("few", "twice"), 4, [4, 4, 4, 4, 4]),
        (("few", "twice"), 1, [1] * 8),
        (("uneven",), 1000, [1000, 1000, 400, 200]),
    ],
    ids=str,
)
def test_a_history_is_paged_as_its_words_say(
    node: Solana, words: tuple[str, ...], limit: int, lengths: list[int]
) -> None:
    address = reserved_address(*words)
    pages = walk(node, address, limit=limit)
    assert [len(found) for found in pages] == lengths
    listed = [entry["signature"] for found in pages for entry in found]
    assert list(dict.fromkeys(listed)) == history(address), "in order, and none is left out"
    is_repeating = {"twice", "uneven"} & set(words) and limit > 1
    assert (len(listed) > len(set(listed))) == bool(is_repeating)


def test_short_pages_are_no_end(node: Solana) -> None:
    address = reserved_address("big", "short")
    found = page(node, address, limit=1000)
    assert 0 < len(found) < 1000
    pages = walk(node, reserved_address("few", "short"), limit=1000)
    assert sum(map(len, pages)) == 8
    assert len(pages) > 1


def test_both_bounds_are_exclusive_and_may_be_of_another_address(node: Solana) -> None:
    listed = history(ADDRESS)
    between = page(node, ADDRESS, before=listed[2], until=listed[9])
    assert [entry["signature"] for entry in between] == listed[3:9]
    newest = page(node, ADDRESS, until=listed[9], limit=4)
    assert [entry["signature"] for entry in newest] == listed[:4], "the newest, not the nearest"
    other = history(address_of("another"))[0]
    slot = transaction(node, other)["slot"]
    assert all(entry["slot"] <= slot for entry in page(node, ADDRESS, before=other))
    assert page(node, ADDRESS, before=None, until=None, limit=None) == page(node, ADDRESS)


def test_an_unknown_bound_is_an_error_of_a_new_node_and_silence_of_an_old_one(node: Solana) -> None:
    for name in ("before", "until"):
        answer = ask(node, "getSignaturesForAddress", ADDRESS, {name: UNKNOWN})
        assert answer["error"] == {"code": -32020, "message": f"Transaction {UNKNOWN} not found"}
    old = reserved_address("few", "quiet")
    assert page(node, old, before=UNKNOWN) == []
    assert len(page(node, old, until=UNKNOWN)) == 8
    assert "transactionIndex" not in page(node, old)[0]


def test_a_page_that_vanished_comes_back(node: Solana) -> None:
    address = reserved_address("few", "vanished", times=1)
    assert [len(page(node, address)) for _ in range(2)] == [0, 8]


@pytest.mark.parametrize(
    ("params", "code", "message"),
    [
        ((ADDRESS, {"limit": 0}), -32602, "Invalid limit; max 1000"),
        ((ADDRESS, {"limit": 1001}), -32602, "Invalid limit; max 1000"),
        ((ADDRESS, {"commitment": "processed"}), -32602, "Method does not support commitment below"),
        (("nobody",), -32602, "Invalid param"),
        ((), -32602, "Invalid param"),
        ((ADDRESS, {"before": "x"}), -32602, "Invalid param"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(node: Solana, params: tuple[Any, ...], code: int, message: str) -> None:
    error = ask(node, "getSignaturesForAddress", *params)["error"]
    assert error["code"] == code
    assert error["message"].startswith(message)


# --- trouble ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("method", ["getTransaction", "getSignaturesForAddress"])
def test_every_recorded_refusal_can_be_asked_for(node: Solana, name: str, method: str) -> None:
    reserved = reserved_signature if method == "getTransaction" else reserved_address
    answer = post(node, method, reserved(name, times=1), VERSION_1)
    record = next(each for each in sample_json("solana/rpc_errors.json")["cases"] if each["name"] == name)
    body = json.loads(answer.body)
    assert answer.status == record["http_status"]
    assert {**body, "id": 0} == {**record["body"], "id": 0}
    assert body["id"] == (None if record["body"]["id"] is None else 7)
    again = ask(node, method, reserved(name, times=1), VERSION_1)
    assert again["result"], "only the first call was refused"


@pytest.mark.parametrize("name", sorted(set(TROUBLES) - {"hang", "drop", "null_error", "other_id"}))
def test_every_trouble_on_the_way_can_be_asked_for(node: Solana, name: str) -> None:
    answer = post(node, "getTransaction", reserved_signature(name), VERSION_1)
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the parser finds first
        json.loads(answer.body)
    if name.startswith("refused"):
        assert answer.status == 429
        assert ("retry-after" in answer.headers) == (name != "refused")


def test_a_call_may_hang_or_be_dropped(node: Solana) -> None:
    with pytest.raises(HoldConnection):
        post(node, "getTransaction", reserved_signature("hang"))
    with pytest.raises(DropConnection):
        post(node, "getSignaturesForAddress", reserved_address("drop"))


def test_a_success_may_have_a_null_error_or_the_id_of_another_call(node: Solana) -> None:
    answer = json.loads(post(node, "getTransaction", reserved_signature("null_error"), VERSION_1).body)
    assert (answer["error"], answer["id"]) == (None, 7)
    assert answer["result"]
    assert json.loads(post(node, "getTransaction", reserved_signature("other_id")).body)["id"] == "another"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[{}]", b'{"id": 1}', b"5"])
def test_what_is_no_call_is_a_parse_error(node: Solana, body: bytes) -> None:
    answer = node.answer(Request(method="POST", target="/solana", headers={}, body=body), "/")
    assert json.loads(answer.body)["error"]["code"] == -32700


def test_other_methods(node: Solana) -> None:
    assert ask(node, "getHealth")["result"] == "ok"
    assert ask(node, "getBlock", 5)["error"]["code"] == -32601
    assert node.answer(Request(method="GET", target="/solana", headers={}, body=b""), "/").status == 405
    refused = ask(node, "getTransaction", history(ADDRESS)[0], {"encoding": "base64"})
    assert refused["error"]["code"] == -32602


# --- names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", sorted({*CASES, *TROUBLES, *ODDITIES, *KIND_WORDS, *ERROR_WORDS, "unknown"}))
def test_every_word_fits_into_a_name(word: str) -> None:
    signature, address = reserved_signature(word, times=9), reserved_address(word)
    assert is_signature(signature)
    assert is_public_key(address)
    assert (read_reserved(signature).words, read_reserved(signature).times) == ((spelled(word),), 9)
    assert (read_reserved(address).words, read_reserved(address).times) == ((spelled(word),), None)
    assert reserved_signature(word, seed="a") != reserved_signature(word, seed="b")


def test_no_two_words_are_spelled_alike() -> None:
    words = [*CASES, *TROUBLES, *ODDITIES, *KIND_WORDS, *ERROR_WORDS]
    assert len(set(map(spelled, words))) == len(words)


@pytest.mark.parametrize("words", [("in finite",), ("häng",), ("ab",) * 30, ("1",), ("a",)])
def test_a_word_that_no_name_can_hold_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="reserved name"):
        reserved_address(*words)
