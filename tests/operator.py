"""An operator in front of a running stack: posts jobs, follows them, looks into the stores."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import requests
from pymongo import MongoClient
from redis import Redis

from devstack.sandbox.client import Calls, SandboxClient
from devstack.sandbox.tokens import Token, make_token
from devstack.stack import Stack
from tests.waiting import wait_until

# Numbers of tokens are handed out once per test process, so tests that share a stack share no token.
_numbers = itertools.count(10_000)
ENDED = ("succeeded", "failed", "cancelled", "lost", "expired")
DAY = datetime(2026, 1, 10, tzinfo=UTC)


class Operator:
    """See the module docstring."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.sandbox = SandboxClient(stack.sandbox_url)
        self.session = requests.Session()
        self.session.headers["x-api-key"] = stack.api_key
        self.client: MongoClient[dict[str, Any]] = MongoClient(stack.mongo.url, tz_aware=True)
        self.database = self.client["converge"]
        self.redis = Redis.from_url(stack.environ["REDIS_URL"])

    def close(self) -> None:
        """Close what this holds open; the stack goes on."""
        self.session.close()
        self.client.close()
        self.redis.close()

    def set_tokens(
        self, slots: Iterable[Mapping[str, str | None]], *, missing: int = 0, investors: int = 5
    ) -> list[Token]:
        """Make new tokens with these links the only ones that the tracker knows.

        The first `missing` are listed and unknown by address.
        """
        tokens = [new_token(links, investors=investors) for links in slots]
        unknown = [token["tokenAddress"] for token in tokens[:missing]]
        self.sandbox.reset()
        self.sandbox.set_tokens(tokens, missing=unknown)
        return tokens

    def post(self, kind: str, body: Mapping[str, Any] | None = None, **headers: str) -> requests.Response:
        """Ask for a job of social recording; a reconcile covers the day of the tokens by default."""
        if kind == "reconcile":
            body = {
                "startDate": DAY.isoformat(),
                "endDate": (DAY + timedelta(days=1)).isoformat(),
                **(body or {}),
            }
        url = f"{self.stack.api_url}/api/v1/internal/social-recording/{kind}"
        return self.session.post(url, json=body, headers=headers, timeout=70)

    def start(self, kind: str, body: Mapping[str, Any] | None = None) -> str:
        """Ask for a job and return its id."""
        response = self.post(kind, body)
        assert response.status_code == 202, response.text
        return str(response.json()["id"])

    def job(self, job_id: str) -> dict[str, Any]:
        """The job as it is now."""
        found: dict[str, Any] = self.session.get(
            f"{self.stack.api_url}/api/v1/jobs/{job_id}", timeout=10
        ).json()
        return found

    def ended(self, job_id: str, *, timeout_s: float = 60) -> dict[str, Any]:
        """The job when it has ended."""

        def look() -> dict[str, Any] | None:
            found = self.job(job_id)
            return found if found["state"] in ENDED else None

        found = wait_until(look, f"the job {job_id} ends", timeout_s=timeout_s)
        assert found is not None
        return found

    def run(
        self, kind: str, body: Mapping[str, Any] | None = None, *, timeout_s: float = 60
    ) -> dict[str, Any]:
        """Ask for a job and return it when it has succeeded."""
        job = self.ended(self.start(kind, body), timeout_s=timeout_s)
        assert job["state"] == "succeeded", job
        return job

    def meta(self, kind: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run a job and return its `meta`."""
        found: dict[str, Any] = self.run(kind, body)["result"]["meta"]
        return found

    def documents(self, tokens: Sequence[Token]) -> dict[str, dict[str, Any]]:
        """The documents of these tokens, by address."""
        addresses = [token["tokenAddress"] for token in tokens]
        return {row["address"]: row for row in self.database.tokens.find({"address": {"$in": addresses}})}

    def url_of(self, token: Token) -> dict[str, Any]:
        """The one URL of a token that has one."""
        [element] = self.documents([token])[token["tokenAddress"]]["social_urls"]
        found: dict[str, Any] = element
        return found

    def calls(self) -> Calls:
        """What the outside world was asked since the tokens were set."""
        return self.sandbox.calls()


def new_token(links: Mapping[str, str | None], *, investors: int = 5, at: datetime = DAY) -> Token:
    """A token that no other test has."""
    return make_token(next(_numbers), last_transfer_at=at, investors=investors, links=links)


def site(number: int) -> str:
    """A plain web site."""
    return f"https://plain-site-{number}-{next(_numbers)}.com/"


def sites(count: int) -> list[dict[str, str | None]]:
    """The links of `count` tokens with a web site each."""
    return [{"website": site(number)} for number in range(count)]
