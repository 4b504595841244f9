"""How an object is called on one line."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId

from workers.social_graph.object_card import LABEL_MAX, ObjectCard
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform, VenueSubtype

URL = "https://x.com/nightharbor"
SUBTYPES = {ObjectKind.CONTENTS: "tweet", ObjectKind.VENUES: "community", ObjectKind.ACCOUNTS: None}


def card(kind: ObjectKind, **fields: Any) -> ObjectCard:
    document = {"_id": ObjectId(), "platform": "x", "source_urls": [{"url": URL}, {"url": "https://b.org/"}]}
    if SUBTYPES[kind]:
        document["subtype"] = SUBTYPES[kind]
    return ObjectCard.from_document(kind, {**document, **fields})


@pytest.mark.parametrize(
    ("kind", "fields", "label"),
    [
        (ObjectKind.ACCOUNTS, {"handles": [{"value": "old"}, {"value": "now"}], "display_name": "N"}, "now"),
        (ObjectKind.ACCOUNTS, {"handles": [], "display_name": "Night Harbor"}, "Night Harbor"),
        (ObjectKind.ACCOUNTS, {}, URL),
        (ObjectKind.CONTENTS, {"text": {"primary": "gm\n\n  harbor\t!"}}, "gm harbor !"),
        (ObjectKind.CONTENTS, {"text": {"primary": " \n "}}, URL),
        (ObjectKind.CONTENTS, {"text": {}, "name": "no name of a content"}, URL),
        (ObjectKind.VENUES, {"name": "Harbor Talk"}, "Harbor Talk"),
        (ObjectKind.VENUES, {}, URL),
    ],
)
def test_an_object_is_called_by_its_handle_title_or_name_and_else_by_its_first_url(
    kind: ObjectKind, fields: dict[str, Any], label: str
) -> None:
    assert card(kind, **fields).label == label


def test_a_long_text_is_cut_between_visible_characters() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    found = card(ObjectKind.CONTENTS, text={"primary": "x" * (LABEL_MAX - 1) + family})
    assert found.label == "x" * (LABEL_MAX - 1)


def test_the_subtype_is_a_word_of_the_kind() -> None:
    assert card(ObjectKind.CONTENTS).subtype is ContentSubtype.TWEET
    assert card(ObjectKind.VENUES).subtype is VenueSubtype.COMMUNITY
    assert card(ObjectKind.ACCOUNTS).subtype is None


def test_a_card_is_told_with_the_key_of_its_platform() -> None:
    found = card(ObjectKind.ACCOUNTS, platform_key="44196397")
    assert found.platform is Platform.X
    assert found.to_json() == {
        "kind": "accounts",
        "id": str(found.id),
        "platform": "x",
        "subtype": None,
        "platformKey": "44196397",
        "label": URL,
    }
