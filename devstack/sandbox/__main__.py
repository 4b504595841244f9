"""Runs the sandbox: `python -m devstack.sandbox --port 0 --data DIR`.

Owns the process: arguments, the port file, the end. The port is printed and written to `DIR/port`; the server
answers as soon as that file is there. Never listens on anything but the loopback interface.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from devstack.sandbox.http_server import listen
from devstack.sandbox.world import World

HOST = "127.0.0.1"
TRACKER_KEY = "sandbox-tracker-key"


def main(argv: Sequence[str]) -> None:
    """Parse the arguments and serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(
        prog="devstack.sandbox", description="The outside world, on this machine."
    )
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--data", type=Path, required=True, help="the folder for the port file")
    parser.add_argument("--tracker-key", default=TRACKER_KEY, help="what X-API-Key has to be")
    parser.add_argument("--latency-ms", type=int, default=0, help="the latency of every call without a rule")
    options = parser.parse_args(argv)
    world = World(tracker_key=options.tracker_key, latency_ms=options.latency_ms)
    asyncio.run(_serve(world, options.port, options.data))


async def _serve(world: World, port: int, folder: Path) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = await listen(world.handle, host=HOST, port=port)
    chosen = server.sockets[0].getsockname()[1]
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / "port.unfinished"
    unfinished.write_text(f"{chosen}\n")
    unfinished.rename(folder / "port")
    sys.stdout.write(f"sandbox on http://{HOST}:{chosen}\n")
    sys.stdout.flush()
    await stop.wait()
    server.close()


if __name__ == "__main__":
    main(sys.argv[1:])
