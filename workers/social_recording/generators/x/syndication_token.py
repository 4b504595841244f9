"""The token that X's syndication endpoint wants beside a post's id. Pure.

The page that embeds posts computes `((Number(id) / 1e15) * Math.PI).toString(36)` and removes zeros and the
dot. So this has to give what a browser gives, digit by digit: the shortest text in base 36 that is nearer to
the number than to its neighbours, with the last digit rounded.
"""

from __future__ import annotations

import math

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_RADIX = 36


def token_for(post_id: str) -> str:
    """The token for a post's id, e.g. `6dq1a2xwd93` for `20`."""
    return to_base36(float(int(post_id)) / 1e15 * math.pi).replace("0", "").replace(".", "")


def to_base36(value: float) -> str:
    """`value`, positive and below 2**53, in base 36 as browsers write it."""
    whole = math.floor(value)
    digits, carry = _fraction_digits(value - whole, _half_step(value))
    text = _whole_digits(whole + carry)
    return f"{text}.{digits}" if digits else text


def _half_step(value: float) -> float:
    """Half the distance to the next number: what lies within it is the same number."""
    return max(0.5 * (math.nextafter(value, math.inf) - value), math.nextafter(0.0, math.inf))


def _fraction_digits(fraction: float, delta: float) -> tuple[str, int]:
    """The digits behind the dot, and 1 when rounding them carried over into the whole part."""
    digits: list[int] = []
    while fraction >= delta:
        fraction *= _RADIX
        delta *= _RADIX
        digit = int(fraction)
        digits.append(digit)
        fraction -= digit
        is_upper_half = fraction > 0.5 or (fraction == 0.5 and digit % 2 == 1)
        if is_upper_half and fraction + delta > 1:
            return _rounded_up(digits)
    return "".join(_DIGITS[digit] for digit in digits), 0


def _rounded_up(digits: list[int]) -> tuple[str, int]:
    while digits and digits[-1] == _RADIX - 1:
        digits.pop()
    if not digits:
        return "", 1
    digits[-1] += 1
    return "".join(_DIGITS[digit] for digit in digits), 0


def _whole_digits(whole: int) -> str:
    text = ""
    while whole or not text:
        whole, digit = divmod(whole, _RADIX)
        text = _DIGITS[digit] + text
    return text
