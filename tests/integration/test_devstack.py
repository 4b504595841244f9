"""The child processes, the stores and the stack, for real."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import requests
from pymongo import MongoClient
from redis import Redis

from devstack import folders, postgres
from devstack.folders import InUse
from devstack.mongo import MongoServer
from devstack.ports import LOOPBACK, free_port, is_free, is_listening, start_on_free_port
from devstack.postgres import PostgresServer
from devstack.processes import ManagedProcess, Owner, StartFailed, poll, run_to_end
from devstack.sandbox.process import SandboxServer
from devstack.server import Server, plain_environ
from devstack.stack import FLOWER_USER, STORES, Stack
from devstack.valkey import ValkeyServer

CHECKOUT = Path(__file__).resolve().parents[2]
GONE_WITHIN_S = 10.0


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def python(code: str, folder: Path, **options: object) -> ManagedProcess:
    settings: dict[str, object] = {
        "name": "child",
        "argv": [sys.executable, "-u", "-c", textwrap.dedent(code)],
        "env": plain_environ(),
        "cwd": folder,
        "log_file": folder / "child.log",
        "ready": lambda process: process.logged("ready\n"),
        "start_deadline_s": 20.0,
        "stop_wait_s": 5.0,
    }
    return ManagedProcess(**{**settings, **options})  # type: ignore[arg-type]


# --- processes ------------------------------------------------------------


def test_a_child_that_ends_before_it_is_ready_fails_the_start_at_once_and_shows_its_log(
    tmp_path: Path,
) -> None:
    child = python("import sys; print('no such table'); sys.exit(3)", tmp_path, start_deadline_s=600.0)

    with pytest.raises(StartFailed, match=r"(?s)status 3 .*no such table") as failure:
        child.start()

    assert failure.value.status == 3
    assert not child.running


def test_a_failed_start_shows_the_last_lines_of_this_run_only(tmp_path: Path) -> None:
    (tmp_path / "child.log").write_text("an older run\n")
    child = python("for n in range(100): print('line', n)", tmp_path)

    with pytest.raises(StartFailed) as failure:
        child.start()

    assert "line 99" in str(failure.value)
    assert "line 60\n" in str(failure.value)
    assert "line 59\n" not in str(failure.value)
    assert "an older run" not in str(failure.value)


def test_a_child_that_is_not_ready_in_time_is_killed_and_fails_the_start(tmp_path: Path) -> None:
    pids: list[int] = []

    def never(process: ManagedProcess) -> bool:
        pids.append(process.pid)
        return False

    child = python("import time; print('busy'); time.sleep(600)", tmp_path, ready=never, start_deadline_s=0.5)

    with pytest.raises(StartFailed, match=r"not ready after 0\.5 s"):
        child.start()

    assert not alive(pids[0])


def test_a_child_that_ignores_sigterm_is_killed_with_all_it_has_started(tmp_path: Path) -> None:
    code = """
        import signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        own = [sys.executable, "-c", "import time; time.sleep(600)"]
        print(subprocess.Popen(own).pid, subprocess.Popen(own, start_new_session=True).pid)
        print("ready")
        time.sleep(600)
    """
    child = python(code, tmp_path, stop_wait_s=0.2)
    child.start()
    family = [child.pid, *(int(word) for word in child.log_file.read_text().split()[:2])]
    assert all(alive(pid) for pid in family)

    child.stop()

    assert not any(alive(pid) for pid in family)


def test_what_a_child_leaves_behind_when_it_ends_in_good_order_is_killed(tmp_path: Path) -> None:
    code = """
        import signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid)
        print("ready")
        time.sleep(600)
    """
    child = python(code, tmp_path)
    child.start()
    orphan = int(child.log_file.read_text().split()[0])

    child.stop()

    assert not alive(orphan)


def test_stopping_twice_or_before_the_start_does_nothing(tmp_path: Path) -> None:
    child = python("import time; print('ready'); time.sleep(600)", tmp_path)
    child.stop()
    child.start()
    child.stop()
    child.stop()

    assert not child.running


def test_a_child_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    child = python("import time; print('ready'); time.sleep(600)", tmp_path)
    starter = threading.Thread(target=child.start)
    starter.start()
    starter.join()

    assert not poll(lambda: not child.running, 0.5)
    child.stop()


def test_children_die_when_the_parent_is_killed(tmp_path: Path) -> None:
    code = f"""
        import sys, time
        from pathlib import Path
        from devstack.processes import ManagedProcess
        from devstack.server import plain_environ
        child = ManagedProcess(
            name="child",
            argv=[sys.executable, "-u", "-c", "import time; print('ready'); time.sleep(600)"],
            env=plain_environ(), cwd=Path("."), log_file=Path({str(tmp_path / "grandchild.log")!r}),
            ready=lambda process: process.logged("ready"),
        )
        child.start()
        print("child", child.pid, "ready", flush=True)
        time.sleep(600)
    """
    parent = python(code, tmp_path, cwd=CHECKOUT)
    parent.start()
    child = int(parent.log_file.read_text().split()[1])
    assert alive(child)

    # The parent alone: `kill` would look for its children itself.
    os.kill(parent.pid, signal.SIGKILL)

    assert poll(lambda: not alive(child), GONE_WITHIN_S)
    parent.stop()


def test_a_program_that_does_not_exist_fails_the_start_and_is_named(tmp_path: Path) -> None:
    child = python("", tmp_path, argv=["/no/such/program"])

    with pytest.raises(StartFailed, match="/no/such/program"):
        child.start()


def test_a_child_that_cannot_even_be_spawned_fails_the_start(tmp_path: Path) -> None:
    child = python("", tmp_path, cwd=tmp_path / "missing")

    with pytest.raises(StartFailed, match="child cannot be started"):
        child.start()

    child.stop()


def test_a_command_that_fails_shows_its_log(tmp_path: Path) -> None:
    def run(code: str) -> None:
        run_to_end(
            [sys.executable, "-c", code],
            name="command",
            env=plain_environ(),
            cwd=tmp_path,
            log_file=tmp_path / "command.log",
            timeout_s=20.0,
        )

    run("print('fine')")
    with pytest.raises(StartFailed, match=r"(?s)command ended with status 1 .*ZeroDivisionError"):
        run("1 / 0")


# --- ports ------------------------------------------------------------


def test_a_port_in_use_is_not_free() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
        assert is_listening(port)


def test_a_start_whose_port_was_taken_in_between_is_tried_with_another(tmp_path: Path) -> None:
    tried: list[int] = []
    with socket.create_server((LOOPBACK, free_port())) as stranger:

        def build(port: int) -> ManagedProcess:
            tried.append(port)
            # The first choice is the stranger's port, as if he had come between choice and start.
            given = stranger.getsockname()[1] if len(tried) == 1 else port
            code = f"""
                import socket, time
                server = socket.create_server(("127.0.0.1", {given}))
                print("ready")
                time.sleep(600)
            """
            return python(code, tmp_path)

        port, process = start_on_free_port(build)
        assert tried == [tried[0], port]
        assert process.running
        process.stop()


def test_a_fixed_port_that_is_taken_fails_the_start(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, free_port())) as stranger:
        server = ValkeyServer(tmp_path / "valkey", port=stranger.getsockname()[1])
        with pytest.raises(StartFailed, match="Address already in use"):
            server.start()


# --- stores ------------------------------------------------------------


@pytest.fixture
def spaced(tmp_path: Path) -> Path:
    """A folder with a space in its path, which others may enter."""
    folder = tmp_path / "with a space"
    folder.mkdir()
    return folder


def write_valkey(server: Server) -> None:
    with Redis.from_url(server.url) as client:
        client.set("key", "value")


def read_valkey(server: Server) -> object:
    with Redis.from_url(server.url, decode_responses=True) as client:
        return client.get("key")


def write_mongo(server: Server) -> None:
    with MongoClient(server.url) as client:
        client["test"]["things"].insert_one({"_id": "key", "value": "value"})


def read_mongo(server: Server) -> object:
    with MongoClient(server.url) as client:
        found = client["test"]["things"].find_one({"_id": "key"})
        return found and found["value"]


def connect_postgres(server: Server) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(server.url.replace("+psycopg", ""), autocommit=True)


def write_postgres(server: Server) -> None:
    with connect_postgres(server) as connection:
        connection.execute("CREATE TABLE things (value text)")
        connection.execute("INSERT INTO things VALUES ('value')")


def read_postgres(server: Server) -> object:
    with connect_postgres(server) as connection:
        row = connection.execute("SELECT value FROM things").fetchone()
        return row and row[0]


Store = tuple[Callable[[Path], Server], Callable[[Server], None], Callable[[Server], object]]
KEPT_STORES: dict[str, Store] = {
    "valkey": (lambda folder: ValkeyServer(folder, keep=True), write_valkey, read_valkey),
    "mongo": (lambda folder: MongoServer(folder, keep=True), write_mongo, read_mongo),
    "postgres": (lambda folder: PostgresServer(folder, keep=True), write_postgres, read_postgres),
}


@pytest.fixture(params=KEPT_STORES)
def store(
    request: pytest.FixtureRequest, spaced: Path
) -> Iterator[tuple[Server, Callable[[Server], None], Callable[[Server], object]]]:
    build, write, read = KEPT_STORES[request.param]
    server = build(spaced / request.param)
    server.start()
    yield server, write, read
    server.stop()
    server.remove_data()


def test_a_store_keeps_its_port_and_data_over_a_restart_and_a_crash(
    store: tuple[Server, Callable[[Server], None], Callable[[Server], object]],
) -> None:
    server, write, read = store
    url, first_pid = server.url, server.pid
    write(server)

    server.restart()
    assert (server.url, read(server)) == (url, "value")
    assert server.pid != first_pid

    server.kill()
    assert not server.running
    server.restart()
    assert (server.url, read(server)) == (url, "value")


def test_a_stopped_store_leaves_neither_process_nor_port_behind(
    store: tuple[Server, Callable[[Server], None], Callable[[Server], object]],
) -> None:
    server, write, _ = store
    write(server)
    pid, port = server.pid, server.port

    server.stop()

    assert not alive(pid)
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)
    assert is_free(port)
    assert not is_listening(port)


def test_a_killed_postgres_leaves_no_backend_behind(spaced: Path) -> None:
    with PostgresServer(spaced / "postgres") as server, connect_postgres(server) as connection:
        backend = connection.info.backend_pid
        assert alive(backend)
        server.kill()
        assert not alive(backend)
    server.remove_data()


def test_two_postgres_servers_run_side_by_side_and_have_databases_of_their_own(spaced: Path) -> None:
    with PostgresServer(spaced / "one") as one, PostgresServer(spaced / "two") as two:
        one.create_database("extra")
        one.create_database("extra")
        names = []
        for server in (one, two):
            with connect_postgres(server) as connection:
                rows = connection.execute("SELECT datname FROM pg_database").fetchall()
                names.append({row[0] for row in rows})
        assert "extra" in names[0]
        assert "extra" not in names[1]
        one.drop_database("extra")
    for server in (one, two):
        server.remove_data()


@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_postgres_runs_wherever_its_data_are_and_changes_no_permissions(spaced: Path, mode: int) -> None:
    spaced.chmod(mode)
    above = {folder: folder.stat() for folder in [spaced, *spaced.parents]}
    with PostgresServer(spaced / "postgres") as server:
        owner = Path(f"/proc/{server.pid}").stat().st_uid
        assert owner != 0
        with connect_postgres(server) as connection:
            assert connection.execute("SELECT current_setting('listen_addresses')").fetchone() == (LOOPBACK,)
    server.remove_data()

    assert {folder: (s.st_mode, s.st_uid) for folder, s in above.items()} == {
        folder: (folder.stat().st_mode, folder.stat().st_uid) for folder in above
    }
    assert not (spaced / "postgres").exists()


def test_the_copy_of_the_programs_runs_as_a_user_who_cannot_reach_the_package(spaced: Path) -> None:
    owner = postgres.unprivileged() if os.geteuid() == 0 else Owner(os.geteuid(), os.getegid())
    private = spaced / "private"
    postgres.make_private(private, owner)
    programs = private / postgres.PACKAGE / postgres.PROGRAMS_IN_PACKAGE
    postgres.copy_programs(programs, owner)
    run_to_end(
        [str(programs / "postgres"), "--version"],
        name="postgres",
        env=plain_environ(),
        cwd=private,
        log_file=spaced / "version.log",
        timeout_s=20.0,
        owner=None,
    )
    assert "(PostgreSQL) 18" in (spaced / "version.log").read_text()
    assert all(path.lstat().st_uid == owner.uid for path in private.rglob("*"))


def test_a_private_folder_is_not_taken_from_somebody_else(spaced: Path) -> None:
    owner = Owner(os.geteuid(), os.getegid())
    (spaced / "open").mkdir(mode=0o755)
    (spaced / "link").symlink_to(spaced / "open")
    for name in ("open", "link"):
        with pytest.raises(StartFailed, match="not a private folder"):
            postgres.make_private(spaced / name, owner)


def test_valkey_refuses_writes_rather_than_evicting(spaced: Path) -> None:
    with ValkeyServer(spaced / "valkey") as server, Redis.from_url(server.url_of(2)) as client:
        assert client.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"
        assert client.config_get("bind")["bind"] == LOOPBACK


# --- stack ------------------------------------------------------------


def test_the_stack_starts_the_chosen_parts_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with Stack(root=tmp_path, parts=(*STORES, "sandbox")) as stack:
        pids = [process.pid for process in stack.processes.values()]
        ports = [stack.valkey.port, stack.mongo.port, stack.postgres.port, stack.sandbox.port]
        folder = stack.folder
        assert list(stack.processes) == ["valkey", "mongo", "postgres", "sandbox"]
        assert requests.get(f"{stack.sandbox_url}/_sandbox/ready", timeout=5).ok
        assert stack.environ["MONGO_URL"] == stack.mongo.url
        assert stack.environ["REDIS_URL"] == stack.valkey.url_of(2)
        assert stack.environ["TRACKER_BASE_URL"] == f"{stack.sandbox_url}/tracker"
        assert len(stack.api_key) > 20

    assert not any(alive(pid) for pid in pids)
    assert all(is_free(port) for port in ports)
    assert not folder.exists()


def test_a_stack_whose_last_part_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, free_port())) as stranger:
        stack = Stack(
            root=tmp_path,
            parts=("valkey", "sandbox", "api"),
            api_port=stranger.getsockname()[1],
            environ={"MONGO_URL": "mongodb://127.0.0.1:1", "MONGO_DATABASE": "no name!"},
        )
        with pytest.raises(StartFailed, match="api"):
            stack.start()

    assert stack.processes == {}
    assert not stack.valkey.running
    assert not stack.sandbox.running
    assert is_free(stack.sandbox.port)
    assert not list((tmp_path / ".devstack").glob("run-*"))


def test_overrides_win_over_what_the_stack_would_set(tmp_path: Path) -> None:
    with Stack(root=tmp_path, parts=("valkey",), environ={"REDIS_URL": "redis://elsewhere/1"}) as stack:
        assert stack.environ["REDIS_URL"] == "redis://elsewhere/1"
        assert stack.environ["BROKER_URL"] == stack.valkey.url
        assert "MONGO_URL" not in stack.environ


def test_kept_data_and_secrets_are_there_again_the_next_time(tmp_path: Path) -> None:
    with Stack(root=tmp_path, parts=("valkey",), keep_data=True) as stack:
        write_valkey(stack.valkey)
        key = stack.api_key

    with Stack(root=tmp_path, parts=("valkey",), keep_data=True) as stack:
        assert read_valkey(stack.valkey) == "value"
        assert stack.api_key == key


def test_a_second_stack_on_the_same_kept_data_is_refused_and_disturbs_nothing(tmp_path: Path) -> None:
    with Stack(root=tmp_path / "one", parts=("valkey",), keep_data=True) as first:
        with pytest.raises(InUse, match=rf"already up .*process {os.getpid()}"):
            Stack(root=tmp_path / "one", parts=("valkey",), keep_data=True).start()
        assert first.valkey.running
        # Another checkout, and a throw-away stack of the same one, are no competitors.
        with Stack(root=tmp_path / "two", parts=("valkey",), keep_data=True) as second:
            assert second.valkey.port != first.valkey.port
        with Stack(root=tmp_path / "one", parts=("valkey",)) as third:
            assert third.folder != first.folder


def test_what_a_killed_stack_has_left_is_removed_by_the_next(tmp_path: Path) -> None:
    code = f"""
        import time
        from pathlib import Path
        from devstack.stack import Stack
        stack = Stack(root=Path({str(tmp_path)!r}), parts=("valkey", "postgres"))
        stack.start()
        print(stack.valkey.pid, stack.postgres.pid, "ready", flush=True)
        time.sleep(600)
    """
    parent = python(code, tmp_path, cwd=CHECKOUT, start_deadline_s=60.0)
    parent.start()
    pids = [int(word) for word in parent.log_file.read_text().split()[:2]]
    os.kill(parent.pid, signal.SIGKILL)
    assert poll(lambda: not any(alive(pid) for pid in pids), GONE_WITHIN_S)
    parent.stop()
    assert len(list((tmp_path / ".devstack").glob("run-*"))) == 1

    with Stack(root=tmp_path, parts=("valkey",)) as stack:
        assert list((tmp_path / ".devstack").glob("run-*")) == [stack.folder]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_stop_the_stack_in_good_order(tmp_path: Path, number: int) -> None:
    code = f"""
        from pathlib import Path
        from devstack.stack import Stack
        with Stack(root=Path({str(tmp_path)!r}), parts=("valkey", "sandbox")) as stack:
            print(stack.valkey.pid, stack.sandbox.pid, "ready", flush=True)
            try:
                stack.wait()
            except KeyboardInterrupt:
                # The children have a session of their own, so the signal is ours alone.
                print("running", stack.valkey.running, stack.sandbox.running, flush=True)
        print("folders", list(Path({str(tmp_path / ".devstack")!r}).glob("run-*")), flush=True)
    """
    parent = python(code, tmp_path, cwd=CHECKOUT, start_deadline_s=60.0)
    parent.start()
    pids = [int(word) for word in parent.log_file.read_text().split()[:2]]
    try:
        os.killpg(parent.pid, number)
        assert poll(lambda: not parent.running, 30.0)
        assert parent.logged("running True True")
        assert parent.logged("folders []")
        assert not any(alive(pid) for pid in pids)
    finally:
        parent.stop()


def test_waiting_ends_with_the_name_of_a_process_that_has_died(tmp_path: Path) -> None:
    with Stack(root=tmp_path, parts=("valkey", "sandbox")) as stack:
        os.kill(stack.sandbox.pid, signal.SIGKILL)
        assert stack.wait() == "sandbox"


def test_everything_comes_up_and_a_killed_worker_can_be_replaced(tmp_path: Path) -> None:
    with Stack(root=tmp_path, worker_threads=2) as stack:
        pids = {name: process.pid for name, process in stack.processes.items()}
        assert set(pids) == {*STORES, "sandbox", "worker-1", "beat", "stream", "api", "flower"}
        assert requests.get(f"{stack.api_url}/healthz", timeout=10).ok
        dashboard = f"{stack.flower_url}/api/workers"
        assert requests.get(dashboard, timeout=10).status_code == 401
        login = (FLOWER_USER, stack.flower_password)
        assert requests.get(dashboard, auth=login, timeout=10).ok

        stack.processes["worker-1"].kill()
        assert not alive(pids["worker-1"])
        replacement = stack.start_worker()
        assert stack.processes["worker-2"] is replacement
        pids["worker-2"] = replacement.pid
        ready = f"{stack.api_url}/readyz"
        assert poll(lambda: requests.get(ready, timeout=10).status_code == 200, 30.0)

    assert not any(alive(pid) for pid in pids.values())


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="kafka"):
        Stack(root=tmp_path, parts=("valkey", "kafka"))


def test_a_folder_in_use_is_not_taken_for_abandoned(tmp_path: Path) -> None:
    ours = folders.open_fresh(tmp_path)
    assert folders.abandoned(tmp_path) == []
    ours.close()
    assert not ours.path.exists()


def test_the_sandbox_restarts_on_its_port(tmp_path: Path) -> None:
    with SandboxServer(tmp_path / "sandbox") as server:
        url = server.url
        assert (tmp_path / "sandbox" / "port").read_text() == f"{server.port}\n"
        server.kill()
        server.restart()
        assert server.url == url
        assert server.client.calls().total == 0


def test_the_sandbox_chooses_a_port_itself_when_it_is_given_none(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "devstack.sandbox", "--port", "0", "--data", str(tmp_path)]
    with subprocess.Popen(argv, cwd=CHECKOUT, env=plain_environ(), stdout=subprocess.PIPE) as child:
        try:
            assert poll((tmp_path / "port").exists, 20.0)
            port = int((tmp_path / "port").read_text())
            assert requests.get(f"http://{LOOPBACK}:{port}/_sandbox/ready", timeout=5).json() == {
                "pid": child.pid
            }
        finally:
            child.terminate()
        assert child.wait(timeout=10) == 0
