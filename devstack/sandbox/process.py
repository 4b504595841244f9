"""The sandbox as a child process.

Owns its command line and the base URLs that clients are configured with.
"""

from __future__ import annotations

import http.client
import json
import sys
from pathlib import Path

from devstack.folders import CHECKOUT
from devstack.ports import LOOPBACK
from devstack.processes import ManagedProcess
from devstack.sandbox.__main__ import TRACKER_KEY
from devstack.sandbox.client import SandboxClient
from devstack.server import Server

# Nothing here is slowed down, and every call still passes the limiter as it does outside.
SOURCE_LIMITS = "tracker=none,*=1000/second;100 at once"
# Any key will do; that there is one shows whether it stays out of logs and stores.
SOLANA_KEY = "sandbox-solana-key"
SOLANA_ENDPOINT = {
    "role": "history_backfill",
    "provider": "sandbox",
    "methods": ["getSignaturesForAddress", "getTransaction"],
    "requestsPerSecond": 500,
    "maxConcurrentRequests": 16,
    "pauseAfterRateLimitMs": 500,
}


class SandboxServer(Server):
    """The sandbox; `latency_ms` is the latency of every call for which no rule says otherwise."""

    name = "sandbox"

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int = 0,
        log_file: Path | None = None,
        tracker_key: str = TRACKER_KEY,
        latency_ms: int = 0,
    ) -> None:
        super().__init__(data_dir, port=port, log_file=log_file)
        self.tracker_key = tracker_key
        self.latency_ms = latency_ms

    @property
    def url(self) -> str:
        """The origin; the services are below it."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def client(self) -> SandboxClient:
        """A client of the admin's side."""
        return SandboxClient(self.url)

    def settings(self) -> dict[str, str]:
        """The settings that lead the workers here instead of into the world."""
        return {
            "TRACKER_BASE_URL": f"{self.url}/tracker",
            "TRACKER_API_KEY": self.tracker_key,
            "GITHUB_BASE_URL": f"{self.url}/github",
            "X_SYNDICATION_BASE_URL": f"{self.url}/x",
            "X_OEMBED_BASE_URL": f"{self.url}/x-oembed",
            "X_API_BASE_URL": f"{self.url}/x-api",
            "TWITTERAPIIO_BASE_URL": f"{self.url}/twitterapiio",
            "YOUTUBE_BASE_URL": f"{self.url}/youtube",
            "YOUTUBE_SITE_BASE_URL": f"{self.url}/youtube-site",
            "REDDIT_BASE_URL": f"{self.url}/reddit",
            "REDDIT_LOGIN_BASE_URL": f"{self.url}/reddit-login",
            "TELEGRAM_BASE_URL": f"{self.url}/telegram",
            "TELEGRAM_BOT_BASE_URL": f"{self.url}/telegram-bot",
            "TIKTOK_BASE_URL": f"{self.url}/tiktok",
            "APIFY_BASE_URL": f"{self.url}/apify",
            "RDAP_BOOTSTRAP_URL": f"{self.url}/rdap/dns.json",
            "SOLANA_ENDPOINTS": json.dumps(
                [{**SOLANA_ENDPOINT, "url": f"{self.url}/solana?api-key={SOLANA_KEY}"}]
            ),
            "HTTP_SITE_RELAY_URL": f"{self.url}/relay",
            "SOURCE_LIMITS": SOURCE_LIMITS,
        }

    def _build(self, port: int) -> ManagedProcess:
        argv = [sys.executable, "-m", "devstack.sandbox", "--port", str(port), "--data", str(self.data_dir)]
        argv += ["--tracker-key", self.tracker_key, "--latency-ms", str(self.latency_ms)]
        return ManagedProcess(
            name=self.name,
            argv=argv,
            env=self.environ(),
            cwd=CHECKOUT,
            log_file=self.log_file,
            ready=lambda process: _answers(port, process.pid),
        )


def _answers(port: int, pid: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=1)
    try:
        connection.request("GET", "/_sandbox/ready")
        return bool(json.loads(connection.getresponse().read())["pid"] == pid)
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return False
    finally:
        connection.close()
