"""What is asked and what came back: the two values that cross the border of the HTTP client."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import NoReturn

from requests.structures import CaseInsensitiveDict

from workers.errors import FetchFailed
from workers.http import charset
from workers.http.retry import FREE, PERMIT_WAIT_MAX_S, RetryPolicy, wait_hint_s

# A comment ends at its first end and nowhere else. Were that open, there would be more ways to read a page of
# comments than there is time, and no other thread of the process runs in the meantime.
_HTML_START = re.compile(
    rb"^(?:\xef\xbb\xbf)?\s*+(?:<!--(?>.*?-->)\s*+)*+<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)


class Destination(StrEnum):
    """Whose URL it is: a service that we configured, or a site that somebody else named."""

    SERVICE = "service"
    SITE = "site"


class Redirects(StrEnum):
    """How far a redirect is followed. Only GET ever follows one.

    With `NEVER` the redirect itself is the answer: its `location` says something about the target.
    """

    ANYWHERE = "anywhere"
    SAME_ORIGIN = "same_origin"
    NEVER = "never"


class LargeBody(StrEnum):
    """What happens to a body beyond the limit: an error, or its first part is the body."""

    FAIL = "fail"
    CUT = "cut"


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One thing to ask.

    `source` names the asked service in messages and limits. `headers` are sent to the first origin only. A
    body is either `json_body` or `form_body`. `body_max_bytes`, `timeout_s` (the whole call with its
    redirects) and `read_timeout_s` (a pause in the answer) override the client's own limits.
    `permit_wait_max_s` is how long a call may wait until the limits of its source allow it.
    """

    source: str
    url: str
    destination: Destination = Destination.SITE
    method: str = "GET"
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json_body: object = None
    form_body: Mapping[str, str] | None = None
    retry: RetryPolicy = FREE
    redirects: Redirects = Redirects.SAME_ORIGIN
    large_body: LargeBody = LargeBody.FAIL
    body_max_bytes: int | None = None
    timeout_s: float | None = None
    read_timeout_s: float | None = None
    permit_wait_max_s: float = PERMIT_WAIT_MAX_S


@dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """One answer.

    `url` is the one that answered, `chain` every URL asked on the way to it, itself the last. `body` is
    unpacked; `is_cut` says that there was more of it. `elapsed_s` is the time from the first byte sent.
    """

    source: str
    status: int
    headers: CaseInsensitiveDict[str]
    body: bytes
    url: str
    chain: tuple[str, ...]
    received_at: datetime
    elapsed_s: float = 0.0
    is_cut: bool = False

    @property
    def wait_hint_s(self) -> float | None:
        """The wait that the other side asks for, in seconds from `received_at`; None if it asks for none."""
        return wait_hint_s(self.headers, self.received_at)

    @property
    def is_html(self) -> bool:
        """Whether the body is a page, by its own start or else by its declared type."""
        if _HTML_START.match(self.body[:1024]):
            return True
        is_declared = "html" in self.headers.get("content-type", "").lower()
        return is_declared and self.body.lstrip()[:1] not in (b"{", b"[")

    def text(self) -> str:
        """The body as text; never fails."""
        return charset.decode(self.body, self.headers.get("content-type", ""))

    def json(self, *, exact_numbers: bool = False) -> object:
        """The body as JSON; with `exact_numbers`, fractions are `Decimal`.

        Raises `FetchFailed` with reason `unexpected_html` or `unexpected_shape`.
        """
        try:
            return json.loads(
                self.body, parse_float=Decimal if exact_numbers else float, parse_constant=_refuse_constant
            )
        except (ValueError, RecursionError) as exc:
            if self.is_html:
                raise FetchFailed(
                    f"{self.source} answered {self.status} with a page instead of data",
                    reason="unexpected_html",
                ) from exc
            raise FetchFailed(
                f"{self.source} answered {self.status} with a body that is no JSON", reason="unexpected_shape"
            ) from exc


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
