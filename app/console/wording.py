"""How values read: the words, signs and forms of time that the pages use. Reads the clock, nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from flask import Flask, url_for
from markupsafe import Markup

from app.console.blueprint import blueprint
from app.console.sign_in import is_signed_in
from app.process import this_process
from workers.clock import Clock, to_iso
from workers.jobs.record import JobState
from workers.social_graph.vocabulary import FetchStatus, LinkStatus, ObjectKind, Platform
from workers.social_recording.explain import Rule
from workers.social_recording.overview import DueIn

PLATFORMS: Mapping[Platform, str] = {
    Platform.X: "X",
    Platform.TIKTOK: "TikTok",
    Platform.INSTAGRAM: "Instagram",
    Platform.YOUTUBE: "YouTube",
    Platform.REDDIT: "Reddit",
    Platform.GITHUB: "GitHub",
    Platform.TELEGRAM: "Telegram",
    Platform.WEB: "Web",
}
DUE: Mapping[DueIn, str] = {
    DueIn.NOW: "now",
    DueIn.HOUR: "within 1 h",
    DueIn.SIX_HOURS: "within 6 h",
    DueIn.DAY: "within 24 h",
    DueIn.LATER: "later",
    DueIn.NEVER: "not processable",
}
RULES: Mapping[Rule, str] = {
    Rule.FINISHED: "finished",
    Rule.FINAL: "final",
    Rule.UNSUPPORTED: "no source",
    Rule.PAID_IS_OFF: "paid is off",
    Rule.OUT_OF_ATTEMPTS: "out of attempts",
    Rule.IN_WORK: "in work",
    Rule.RESTING: "resting",
    Rule.DUE: "due now",
}
SENTENCES: Mapping[Rule, str] = {
    Rule.FINISHED: "It is collected. What is ok is never fetched again.",
    Rule.FINAL: "Its status is final. Only a retry that names this status opens it again.",
    Rule.UNSUPPORTED: "There is no source for such a place yet. Until there is, it waits and costs nothing.",
    Rule.PAID_IS_OFF: "Only a source that costs money knows it, and SOCIAL_RECORD_ENABLE_PAID is off.",
    Rule.OUT_OF_ATTEMPTS: "Its last attempt never came to an end. The next retry makes it exhausted.",
    Rule.IN_WORK: "Its token is in work at this moment.",
    Rule.RESTING: "It was tried a short while ago and rests. The first retry after that takes it.",
    Rule.DUE: "The next retry takes it. The longest untried URL comes first.",
}
# Why a URL is not ok, where nobody was asked and so nobody gave a reason.
UNASKED: Mapping[FetchStatus, str] = {
    FetchStatus.SKIPPED_PAID: "needs a paid source",
    FetchStatus.UNSUPPORTED: "there is no source for it yet",
}
# A sign beside the word, so that nobody has to tell colours apart. Tones are classes of the style sheet.
_SIGNS: Mapping[str, tuple[str, str]] = {
    FetchStatus.OK: ("✓", "good"),
    FetchStatus.NOT_FOUND: ("∅", "calm"),
    FetchStatus.BLOCKED: ("⊘", "calm"),
    FetchStatus.INVALID: ("!", "bad"),
    FetchStatus.EXHAUSTED: ("✕", "bad"),
    FetchStatus.ERROR: ("↻", "warn"),
    FetchStatus.UNSUPPORTED: ("-", "calm"),
    FetchStatus.SKIPPED_PAID: ("$", "calm"),
    JobState.QUEUED: ("…", "calm"),
    JobState.RUNNING: ("▸", "live"),
    JobState.SUCCEEDED: ("✓", "good"),
    JobState.FAILED: ("✕", "bad"),
    JobState.CANCELLED: ("■", "calm"),
    JobState.LOST: ("?", "bad"),
    JobState.EXPIRED: ("⌛", "warn"),
    LinkStatus.DELETED: ("∅", "calm"),
    LinkStatus.UNAVAILABLE: ("⊘", "calm"),
    LinkStatus.UNRESOLVED: ("↻", "warn"),
    "recorded": ("✓", "good"),
    "processed": ("✓", "good"),
    "alreadySeen": ("✓", "good"),
    "planned": ("◌", "calm"),
    "lockedOut": ("⊘", "warn"),
    "unresolved": ("↻", "warn"),
    "synced": ("✓", "good"),
    "fixed": ("✓", "good"),
    "wouldFix": ("◌", "calm"),
    "persisted": ("✓", "good"),
    "alreadyPresent": ("✓", "good"),
    "missing": ("∅", "warn"),
}
_STEPS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]+")


def sign_of(word: object) -> tuple[str, str]:
    """A sign and a tone for the word of a status, a state or an outcome."""
    return _SIGNS.get(str(word), ("·", "calm"))


def span(length: timedelta | float) -> str:
    """A length of time in its two largest units."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    left, parts = round(seconds), []
    for size, unit in _STEPS:
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])


def ago(moment: datetime, now: datetime) -> str:
    """How far a time is from now, in its largest unit."""
    distance = (now - moment).total_seconds()
    if abs(distance) < 1:
        return "now"
    words = " ".join(span(abs(distance)).split()[:2])
    return f"{words} ago" if distance > 0 else f"in {words}"


def when(moment: datetime | None) -> Markup:
    """A time as a distance from now, with the exact one for those who point at it and for programs."""
    if moment is None:
        return Markup('<span class="none">never</span>')
    return Markup('<time datetime="{}" title="{:%Y-%m-%d %H:%M:%S} UTC">{}</time>').format(
        to_iso(moment), moment, ago(moment, Clock().now())
    )


def exactly(moment: datetime | None) -> Markup:
    """A time written out."""
    if moment is None:
        return Markup('<span class="none">never</span>')
    return Markup('<time datetime="{}">{:%Y-%m-%d %H:%M:%S} UTC</time>').format(to_iso(moment), moment)


def number(value: object) -> str:
    """A count with its thousands apart."""
    return f"{value:,}".replace(",", "\u202f") if isinstance(value, int) else str(value)


def plainly(value: object) -> str:
    """A value of a job's request, counts or rows; text of strangers without what steers a reader's eye."""
    if isinstance(value, bool):
        words = "yes" if value else "no"
    elif isinstance(value, int):
        words = number(value)
    elif isinstance(value, list) and not any(isinstance(each, list | dict) for each in value):
        words = ", ".join(map(plainly, value))
    elif isinstance(value, dict) and all(isinstance(each, int) for each in value.values()):
        words = ", ".join(f"{number(each)} {spoken(name)}" for name, each in value.items())
    elif isinstance(value, list | dict):
        words = json.dumps(value, ensure_ascii=False)
    else:
        words = "" if value is None else str(value)
    return _UNSEEN.sub(" ", words) or "none"


def tame(text: str) -> Markup:
    """Text of strangers: without signs that turn the direction of what follows, and kept apart from it."""
    return Markup("<bdi>{}</bdi>").format(_UNSEEN.sub(" ", text))


def spoken(name: str) -> str:
    """A camelCase name of the API as words."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower()
    return re.sub(r"\burl(s?)\b", r"URL\1", words)


def shortened(text: str, length: int = 12) -> str:
    """The two ends of an address or an id."""
    return text if len(text) <= length + 1 else f"{text[: length // 2]}…{text[-length // 2 :]}"


def register(app: Flask) -> None:
    """Make the words known to the templates."""
    app.jinja_env.filters |= {
        "exactly": exactly,
        "number": number,
        "plainly": plainly,
        "shortened": shortened,
        "sign": sign_of,
        "span": span,
        "spoken": spoken,
        "tame": tame,
        "when": when,
    }


@blueprint.context_processor
def _shared() -> dict[str, Any]:
    """What every page knows."""
    settings = this_process().access.settings
    may_see = is_signed_in()
    return {
        "DUE": DUE,
        "FetchStatus": FetchStatus,
        "JobState": JobState,
        "ObjectKind": ObjectKind,
        "PLATFORMS": PLATFORMS,
        "RULES": RULES,
        "SENTENCES": SENTENCES,
        "UNASKED": UNASKED,
        "flower_url": settings.flower_url,
        "is_signed_in": may_see,
        "is_open": settings.auth_disabled,
        "environment": settings.app_env.value,
        "may_sign_out": may_see and not settings.auth_disabled,
        "static": lambda name: url_for("console.static", filename=name),
        "now": Clock().now(),
    }
