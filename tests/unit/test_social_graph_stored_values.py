"""What is taken out of text, times and data before they are stored."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from bson import decode, encode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workers.errors import InvalidInput
from workers.social_graph.account import Account
from workers.social_graph.content import ContentText
from workers.social_graph.source_url import SourceURL
from workers.social_graph.stored_data import stored_data
from workers.social_graph.stored_text import TEXT_MAX, cut_text, stored_key, stored_list, stored_text
from workers.social_graph.stored_time import required_time, stored_time
from workers.social_graph.vocabulary import FetchStatus, Platform

AT = datetime(2026, 1, 15, tzinfo=UTC)
FAMILY = "👨\u200d👩\u200d👧"
FLAG = "🇺🇳"
WALLET = "0x" + "Ab" * 20


def account_with(bio: str) -> Account:
    return Account.of(
        platform=Platform.X,
        source_urls=[SourceURL.of("https://x.com/a", FetchStatus.OK, AT)],
        observed_at=AT,
        bio=bio,
    )


def test_a_full_bio_comes_back_equal_except_for_the_nul() -> None:
    bio = f"moon 🚀 {FLAG} {FAMILY} مرحبا \u202eabc\u202c \x00 {WALLET}"
    account = account_with(bio)
    assert account.bio == bio.replace("\x00", "")
    assert account.known_wallets == (WALLET.lower(),)


@pytest.mark.parametrize("last", ["🚀", FAMILY, FLAG, "👍🏽", "e\u0301", "🏴\U000e0067\U000e0062\U000e007f"])
def test_a_cut_ends_between_characters(last: str) -> None:
    for inside in range(len("title ") + 1, len("title ") + len(last)):
        assert cut_text(f"title {last} more", inside) == "title "
    assert cut_text(f"title {last} more", len("title ") + len(last)) == f"title {last}"


def test_a_cut_keeps_whole_flags() -> None:
    assert cut_text(FLAG * 3, 3) == FLAG
    assert cut_text(FLAG * 3, 4) == FLAG * 2


def test_a_title_longer_than_the_limit_is_cut_and_is_valid_json() -> None:
    title = "a" * (TEXT_MAX - 2) + FAMILY + "b"
    stored = ContentText.of(primary=title).primary
    assert stored == "a" * (TEXT_MAX - 2)
    assert json.loads(json.dumps(stored)) == stored


def test_a_letter_under_endless_accents_is_cut_at_the_limit() -> None:
    assert len(cut_text("a" + "\u0301" * 500, 200)) == 200


@given(st.text(), st.integers(1, 40))
def test_a_cut_is_a_beginning_within_the_limit_and_stays_when_cut_again(text: str, limit: int) -> None:
    cut = cut_text(text, limit)
    assert len(cut) <= limit
    assert text.startswith(cut)
    assert cut_text(cut, limit) == cut


def test_half_of_a_surrogate_pair_is_removed() -> None:
    assert stored_text("a\ud83db") == "ab"


# `characters()` has every code point, also those of which no text for the outside can be made.
@given(st.text(st.characters()), st.integers(1, 40))
def test_stored_text_can_be_written_down_anywhere_and_stays_when_stored_again(text: str, limit: int) -> None:
    stored = stored_text(text, limit)
    if stored is None:
        return
    assert 0 < len(stored) <= limit
    assert "\x00" not in stored
    assert decode(encode({"text": stored})) == {"text": stored}
    assert json.loads(json.dumps(stored, ensure_ascii=False).encode()) == stored
    assert stored_text(stored, limit) == stored


def test_texts_of_a_list_are_stored_once_in_order_and_without_blank_ones() -> None:
    assert stored_list([" a ", "b\x00", "", "\ud800", "a", "b"]) == ("a", "b")


@pytest.mark.parametrize("blank", [None, "", "  ", "\x00", "\u3000\t", "\udfff"])
def test_a_blank_key_is_no_key(blank: str | None) -> None:
    assert stored_key(blank) is None


def test_a_key_that_is_a_number_is_refused() -> None:
    with pytest.raises(InvalidInput) as caught:
        stored_key(732822797798539264)
    assert caught.value.field == "platform_key"


def test_a_time_without_a_zone_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput) as caught:
        stored_time(AT.replace(tzinfo=None), "published_at")
    assert caught.value.field == "published_at"


@pytest.mark.parametrize(
    "moment",
    [
        "2026-03-01T00:00:00Z",
        1772323200,
        AT.date(),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_what_is_no_time_in_utc_is_refused_by_name(moment: datetime) -> None:
    with pytest.raises(InvalidInput) as caught:
        stored_time(moment, "published_at")
    assert caught.value.field == "published_at"


def test_a_time_that_must_be_there_is_refused_when_it_is_not() -> None:
    assert stored_time(None, "observed_at") is None
    assert required_time(AT, "observed_at") == AT
    with pytest.raises(InvalidInput) as caught:
        required_time(None, "observed_at")
    assert caught.value.field == "observed_at"


def test_a_time_is_stored_in_utc_and_whole_milliseconds() -> None:
    seoul = datetime(2026, 3, 1, 9, 0, 0, 123456, tzinfo=timezone(timedelta(hours=9)))
    assert stored_time(seoul, "at") == datetime(2026, 3, 1, 0, 0, 0, 123000, tzinfo=UTC)


def test_data_that_a_document_cannot_hold_is_brought_into_a_form_that_it_can() -> None:
    stored = stored_data(
        {
            "a.b": 1,
            "$set": "x\x00",
            "big": 2**70,
            "nan": float("nan"),
            "list": ({"deep": True}, None, 1.5),
            "moment": AT,
        }
    )
    assert stored == {
        "a_b": 1,
        "set": "x",
        "big": str(2**70),
        "nan": None,
        "list": [{"deep": True}, None, 1.5],
        "moment": str(AT),
    }


def test_data_of_any_depth_and_any_number_of_digits_is_brought_into_a_form_that_it_can() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    stored = stored_data({"deep": deep, "digits": 10**5000, "below": {"text": "x" * (TEXT_MAX + 1)}})
    assert stored["digits"] is None
    assert stored["below"] == {"text": "x" * TEXT_MAX}
    assert decode(encode({"data": stored})) == {"data": stored}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=4), parts, max_size=3),
    max_leaves=12,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text(st.characters(), max_size=5), json_values, max_size=4))
def test_whatever_a_platform_says_can_be_stored_and_stays_when_stored_again(data: dict[str, object]) -> None:
    stored = stored_data(data)
    assert decode(encode({"data": stored})) == {"data": stored}
    assert stored_data(stored) == stored
    assert not any(name.startswith("$") or "." in name or "\x00" in name for name in stored)
