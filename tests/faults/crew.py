"""Workers that a test starts, each for the queues it needs, and what to look at when one of them has died."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from devstack import programs
from devstack.processes import ManagedProcess
from devstack.sandbox.tokens import Token
from devstack.stack import Stack
from tests.operator import Operator
from tests.waiting import wait_until
from workers.leases import KEY_PREFIX

_numbers = itertools.count(1)


class Crew:
    """The Celery workers of one test."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.environ, self.logs = stack.environ, stack.logs
        self.workers: list[ManagedProcess] = []

    def hire(
        self, queues: str = "jobs,records", *, threads: int = 8, app: str = "workers", **environ: str
    ) -> ManagedProcess:
        """Start a worker for these queues and wait until it is ready."""
        worker = programs.worker(
            f"crew-{next(_numbers)}",
            {**self._stack.environ, **environ},
            self._stack.logs,
            threads=threads,
        )
        argv = list(worker.argv)
        argv[argv.index("-Q") + 1] = queues
        argv[argv.index("-A") + 1] = app
        worker = replace(worker, argv=argv)
        worker.start()
        self.workers.append(worker)
        return worker

    def listen(self, **environ: str) -> ManagedProcess:
        """Start a consumer of the stream, without waiting for it to reach its broker."""
        consumer = programs.stream({**self.environ, **environ}, self.logs, name=f"stream-{next(_numbers)}")
        consumer = replace(consumer, ready=lambda process: process.logged("the stream"))
        consumer.start()
        self.workers.append(consumer)
        return consumer

    def holder_of(self, operator: Operator, token: Token) -> ManagedProcess:
        """The worker that holds the token's lease, as soon as one does: leases name the pid."""
        key = f"{KEY_PREFIX}social-record:{token['tokenAddress']}"
        owner = wait_until(lambda: operator.redis.get(key), "the token is in work")
        assert isinstance(owner, bytes)
        pid = int(owner.split(b":")[0])
        return next(worker for worker in self.workers if worker.running and worker.pid == pid)

    def dismiss(self) -> None:
        """End all of them at once."""
        for worker in self.workers:
            worker.kill()


def leases_of(operator: Operator) -> list[str]:
    """The leases that are held, without the presence of the workers."""
    keys = [key for key in operator.redis.keys(f"{KEY_PREFIX}*") if isinstance(key, bytes)]
    names = [key.decode().removeprefix(KEY_PREFIX) for key in keys]
    return sorted(name for name in names if not name.startswith("process:"))


def assert_given_back(operator: Operator) -> None:
    """No lease is left a moment after what needed it; one that had to run out would stay for longer."""
    wait_until(lambda: leases_of(operator) == [], "no lease is left", timeout_s=1)


def assert_recorded_once(operator: Operator, tokens: Sequence[Token]) -> None:
    """Each token has one document, each object one row, and each link of a token stands once."""
    addresses = [token["tokenAddress"] for token in tokens]
    rows = [row["address"] for row in operator.database.tokens.find({"address": {"$in": addresses}})]
    assert sorted(rows) == sorted(addresses)
    links = Counter(
        (link["token_address"], link["entry_url"], link["object_id"])
        for link in operator.database.token_links.find({"token_address": {"$in": addresses}})
    )
    assert set(links.values()) <= {1}
    entry_urls = {url for _, url, _ in links}
    for url in entry_urls:
        assert operator.database.contents.count_documents({"source_urls.url": url}) == 1
    for address, document in operator.documents(tokens).items():
        linked = {url for token, url, _ in links if token == address}
        done = {element["url"] for element in document["social_urls"] if element["status"] == "ok"}
        assert linked == done


def by_addresses(token: Token) -> str:
    """The rule's route for the tracker's answer about this token."""
    return f"by-addresses.*{token['tokenAddress']}"


def outcomes(job: dict[str, object]) -> dict[str, str]:
    """The outcome of each target of an ended reconcile job."""
    result = job["result"]
    assert isinstance(result, dict), job
    return {row["address"]: row["outcome"] for row in result["data"]}
