"""The tokens that the sandbox's tracker knows.

Owns their making: the same tokens on every machine, from a list of links as people really enter them. Never
takes a token's address from anywhere: it is derived from the token's number, 32 bytes in base58 as on Solana.

`default_tokens()` makes 280 tokens, whose last transfer lies in January 2026 (`[2026-01-01, 2026-02-01)`, one
about every 2.6 hours, in an order that has nothing to do with their numbers):

==============================  ======  ================================================================
group                           tokens  how to tell
==============================  ======  ================================================================
at or above the floor              230  `investorCount` 3..60
below the floor of 3 investors      30  `investorCount` 2
hidden by the tracker's list        20  `investorCount` 1, or `totalUsedInDollar` at most 1000 (half each)
listed, but not by address           6  the last 6 of the first group: in `TokenSet.missing`
==============================  ======  ================================================================

Each token has one to four links. Slots are filled with what the list has for them, in turn; on top of it:

- every 3rd token's `website` is one of 60 GitHub repositories, so most of these are shared by two tokens;
- every 3rd token (another third) has as `twitter` a post `x.com/{handle}/status/{id}`, out of 70;
- every 3rd token (the last third) has as `website` a plain site out of 80;
- every 20th token's `telegram` slot holds a link whose source answers with an error, in turn from
  `TROUBLED_LINKS`, whatever that slot is meant for: people do that, too.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import blake2b
from typing import TypedDict

from devstack.sandbox.samples import DATA, derive, pick

BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
LISTED_COUNT = 230
BELOW_FLOOR_COUNT = 30
HIDDEN_COUNT = 20
MISSING_COUNT = 6
REPOSITORY_COUNT = 60
POST_COUNT = 70
SITE_COUNT = 80
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = 31
X_EPOCH_MS = 1_288_834_974_657

SLOTS = ("website", "twitter", "telegram", "tiktok")
SLOT_SOURCES: Mapping[str, frozenset[str]] = {
    "website": frozenset(
        {"website", "websites", "url", "any", "link", "github", "youtube", "blog", "medium"}
    ),
    "twitter": frozenset({"twitter", "x", "social"}),
    "telegram": frozenset({"telegram", "chat", "discord", "description"}),
    "tiktok": frozenset({"tiktok", "instagram", "reddit"}),
}
TROUBLED_LINKS = (
    "https://github.com/harborworks/repo-missing-or-private",
    "https://github.com/harborworks/repo-dmca",
    "https://github.com/harborworks/repo-disabled-tos",
    "https://github.com/harborworks/repo-renamed",
    "https://x.com/nightharbor/status/1000000000000000001",
    "https://x.com/nightharbor/status/1000000000000000003",
    "https://x.com/nightharbor/status/1000000000000000006",
    "https://x.com/nightharbor/status/1000000000000000009",
    "https://site-gone-nightharbor.com/",
    "https://site-challenge-nightharbor.com/",
    "https://site-down-nightharbor.com/",
    "https://site-origin-down-nightharbor.com/",
)
SYLLABLES = ("lu", "mo", "ka", "ri", "ve", "no", "sha", "tor", "bel", "ni", "quo", "zen", "pa", "dri", "fen")


class Token(TypedDict):
    """What `by-addresses` answers for one token: exactly these 18 fields."""

    tokenAddress: str
    tokenSymbol: str
    tokenName: str
    decimals: int
    totalSupply: str
    creatorAddress: str
    firstTransferAt: str
    lastTransferAt: str
    investorCount: int
    totalUsedInDollar: float
    alphaScore: float
    athMarketCap: float
    rugScore: int
    imageUrl: str | None
    website: str | None
    twitter: str | None
    telegram: str | None
    tiktok: str | None


FIELDS = tuple(Token.__annotations__)


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenSet:
    """All tokens, and the addresses that the list shows but `by-addresses` does not know."""

    tokens: Sequence[Token]
    missing: frozenset[str] = field(default_factory=frozenset)


def base58(data: bytes) -> str:
    """Base58 with Bitcoin's alphabet, as Solana writes addresses."""
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = BASE58[digit] + text
    return BASE58[0] * (len(data) - len(data.lstrip(b"\0"))) + text


def address_of(*words: str) -> str:
    """An address of 32 bytes that depends on the words alone."""
    return base58(blake2b("\0".join(words).encode(), digest_size=32).digest())


def make_token(
    number: int,
    *,
    last_transfer_at: datetime,
    investors: int = 5,
    used_in_dollar: float = 25_000.0,
    links: Mapping[str, str | None] | None = None,
) -> Token:
    """One token; `links` fills slots, the others stay null. For tests as well."""
    seed = str(number)
    name = _word("token", seed, parts=3)
    return Token(
        tokenAddress=address_of("mint", seed),
        tokenSymbol=name[:5].upper(),
        tokenName=f"{name.capitalize()} {_word('second', seed, parts=2).capitalize()}",
        decimals=(6, 9)[derive("decimals", seed, below=2)],
        totalSupply=str(10 ** (15 + derive("supply", seed, below=4))),
        # A creator has several tokens.
        creatorAddress=address_of("creator", str(number // 3)),
        firstTransferAt=_iso(last_transfer_at - timedelta(hours=1 + derive("age", seed, below=2000))),
        lastTransferAt=_iso(last_transfer_at),
        investorCount=investors,
        totalUsedInDollar=used_in_dollar,
        alphaScore=derive("alpha", seed, below=1000) / 10,
        athMarketCap=float(50_000 + derive("cap", seed, below=9_000_000)),
        rugScore=derive("rug", seed, below=101),
        imageUrl=f"https://images.example.org/{seed}.png" if number % 7 else None,
        website=(links or {}).get("website"),
        twitter=(links or {}).get("twitter"),
        telegram=(links or {}).get("telegram"),
        tiktok=(links or {}).get("tiktok"),
    )


@cache
def default_tokens() -> TokenSet:
    """The tokens that the sandbox starts with; see the module docstring for the numbers."""
    found = _links_by_slot()
    count = LISTED_COUNT + BELOW_FLOOR_COUNT + HIDDEN_COUNT
    step = timedelta(days=DAYS) / count
    # 97 shares no factor with the count, so every place in time is taken exactly once.
    tokens = [
        make_token(
            number,
            last_transfer_at=FIRST_DAY + step * (number * 97 % count),
            investors=_investors(number),
            used_in_dollar=_used_in_dollar(number),
            links=_links(number, found),
        )
        for number in range(count)
    ]
    listed = tokens[LISTED_COUNT - MISSING_COUNT : LISTED_COUNT]
    return TokenSet(tokens=tokens, missing=frozenset(token["tokenAddress"] for token in listed))


def _investors(number: int) -> int:
    if number < LISTED_COUNT:
        return 3 + derive("investors", str(number), below=58)
    if number < LISTED_COUNT + BELOW_FLOOR_COUNT:
        return 2
    # The hidden half: the odd ones for want of investors, the even ones for want of money.
    return 1 if number % 2 else 10


def _used_in_dollar(number: int) -> float:
    poor = number >= LISTED_COUNT + BELOW_FLOOR_COUNT and number % 2 == 0
    return float(
        derive("used", str(number), below=1001) if poor else 1001 + derive("used", str(number), below=10**6)
    )


def _links(number: int, found: Mapping[str, Sequence[str]]) -> dict[str, str | None]:
    links: dict[str, str | None] = {}
    for place, slot in enumerate(SLOTS):
        filled = slot == "website" or derive("filled", slot, str(number), below=10) < 5 - place
        links[slot] = found[slot][number % len(found[slot])] if filled else None
    turn, nth = number % 3, number // 3
    if turn == 0:
        links["website"] = _repository(nth % REPOSITORY_COUNT)
    elif turn == 1:
        links["twitter"] = _post(nth % POST_COUNT)
    else:
        links["website"] = _site(nth % SITE_COUNT)
    if number % 20 == 0:
        links["telegram"] = TROUBLED_LINKS[number // 20 % len(TROUBLED_LINKS)]
    return links


def _repository(nth: int) -> str:
    owner = _word("owner", str(nth // 2), parts=3)
    return f"https://github.com/{owner}/{_word('repository', str(nth), parts=3)}"


def _post(nth: int) -> str:
    moment = datetime(2025, 12, 1, tzinfo=UTC) + timedelta(hours=7 * nth)
    snowflake = (int(moment.timestamp() * 1000) - X_EPOCH_MS) << 22 | derive("post", str(nth), below=1 << 22)
    return f"https://x.com/{_word('handle', str(nth), parts=4)}/status/{snowflake}"


def _site(nth: int) -> str:
    ending = pick(("com", "xyz", "io", "fun", "net"), "ending", str(nth))
    return f"https://{_word('site', str(nth), parts=4)}.{ending}/"


def _word(*words: str, parts: int) -> str:
    return "".join(pick(SYLLABLES, *words, str(part)) for part in range(parts))


def _links_by_slot() -> dict[str, list[str]]:
    with (DATA / "token_urls_sample.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return {
        slot: [row["url"] for row in rows if row["slot"] in sources] for slot, sources in SLOT_SOURCES.items()
    }


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
