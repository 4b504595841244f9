"""Why a text gives no URL that we could store. The words are stable: they are shown and counted."""

from __future__ import annotations

from enum import StrEnum


class Rejection(StrEnum):
    """The reasons, in the order in which they are looked for."""

    EMPTY = "empty"
    TOO_LONG = "too_long"
    BAD_SCHEME = "bad_scheme"
    BARE_HANDLE = "bare_handle"
    EMAIL = "email"
    NOT_A_URL = "not_a_url"
    BAD_URL = "bad_url"
    HAS_CREDENTIALS = "has_credentials"
    BAD_HOST = "bad_host"
    IP_ADDRESS = "ip_address"
    NO_PUBLIC_SUFFIX = "no_public_suffix"
