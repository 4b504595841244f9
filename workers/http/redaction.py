"""Takes secrets out of text before a person or a store sees it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from urllib.parse import quote

MARK = "***"
_TELLING_NAMES = (
    "access_token|api[_-]?key|apikey|auth|client_secret|credential|key|pass|password|passwd|pwd|"
    "refresh_token|secret|sig|signature|token"
)
_QUERY_VALUE = re.compile(rf"(?i)([?&;](?:{_TELLING_NAMES}|[\w-]*(?:_key|_token|-key|-token))=)[^&#;\s\"')]*")
_USER_INFO = re.compile(r"(?i)(https?://)[^/\s?#@]*@")
_BOT_PATH = re.compile(r"/bot\d+:[\w-]+")


class Redactor:
    """Hides the configured secrets, whatever looks like a key in a query, user-info, and bot tokens."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spellings = {spelling for secret in secrets if secret for spelling in _spellings_of(secret)}
        # The longest first, or a secret that starts with another one would leave its end behind.
        self._spellings = sorted(spellings, key=len, reverse=True)

    def redact(self, text: str) -> str:
        """Return `text` without its secrets."""
        for spelling in self._spellings:
            text = text.replace(spelling, MARK)
        text = _USER_INFO.sub(rf"\1{MARK}@", text)
        text = _BOT_PATH.sub(f"/bot{MARK}", text)
        return _QUERY_VALUE.sub(rf"\1{MARK}", text)

    def is_clean(self, text: str) -> bool:
        """Whether `text` holds nothing that `redact` would hide."""
        return self.redact(text) == text


def _spellings_of(secret: str) -> Iterable[str]:
    """How a secret looks in a URL, in JSON, and in the messages of libraries, which quote it."""
    yield secret
    yield quote(secret, safe="")
    yield json.dumps(secret)[1:-1]
    for quoted in (repr(secret), ascii(secret)):
        yield quoted[1:-1]
    for encoding in ("utf-8", "latin-1"):
        yield repr(secret.encode(encoding, "backslashreplace"))[2:-1]
