"""Faults on request: rules that make the sandbox slow, wrong or silent.

Owns the rules and which one a call meets: the first that matches and has uses left. Never counts a use for a
call that another rule took.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from devstack.sandbox.samples import JSON_TYPE, Answer, to_json


class Fault(BaseModel):
    """One rule, for calls whose `METHOD url body` the regular expression `route` is found in.

    The url is the one that `/_sandbox/calls` shows; the body lets a rule name a token's address. After
    `latency_ms` comes, whichever is given first here: `hang` (no answer, the connection stays open), `drop`
    (the connection is closed), the answer made of `status`, `headers` and `body`, or the usual answer.
    `times` is the number of calls the rule is for; null means all.
    """

    model_config = ConfigDict(extra="forbid")

    route: str
    latency_ms: int | None = Field(default=None, ge=0)
    status: int | None = Field(default=None, ge=200, le=599)
    headers: dict[str, str] = Field(default_factory=dict)
    body: Any = None
    hang: bool = False
    drop: bool = False
    times: int | None = Field(default=None, ge=1)

    @field_validator("route")
    @classmethod
    def _is_a_pattern(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as exc:
            raise ValueError(f"not a regular expression: {exc}") from exc
        return value

    @property
    def answer(self) -> Answer | None:
        """The answer to give instead of the usual one; None when the rule names none."""
        if self.status is None and self.body is None:
            return None
        status = self.status or 200
        if self.body is None or isinstance(self.body, str):
            headers = {"content-type": "text/plain; charset=utf-8", **_lower(self.headers)}
            return Answer(status=status, headers=headers, body=(self.body or "").encode())
        headers = {"content-type": JSON_TYPE, **_lower(self.headers)}
        return Answer(status=status, headers=headers, body=to_json(self.body))


RULES = TypeAdapter(list[Fault])


class Faults:
    """The rules in force."""

    def __init__(self) -> None:
        self._rules: list[tuple[re.Pattern[str], Fault]] = []

    def set(self, rules: Sequence[Fault]) -> None:
        """Replace all rules; uses are counted anew."""
        self._rules = [(re.compile(rule.route), rule.model_copy()) for rule in rules]

    def take(self, call: str) -> Fault | None:
        """The rule for `call`, which uses it up once; None when the call meets no fault."""
        for place, (pattern, rule) in enumerate(self._rules):
            if pattern.search(call):
                if rule.times is not None:
                    rule.times -= 1
                    if not rule.times:
                        del self._rules[place]
                return rule
        return None


def _lower(headers: dict[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
