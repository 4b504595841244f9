"""GitHub's REST API as far as the recordings go: repositories, users, gists.

Owns the personalisation of the recorded answers to the name asked for. Never answers two ids for one name:
ids come from the lower-cased name, so that the `owner` inside a repository and both user routes agree.

Reserved names choose an answer. An owner, a login, a repository or a gist id that is called like a case of
`data/github/errors.json`, with `-` for `_` (`repo-dmca`, `user-missing`, `secondary-rate-limit`, ...), gets
that case's answer. `repo-renamed` leads to `/repositories/{id}` of the same owner's `renamed`. A call without
User-Agent gets `no-user-agent`, as from GitHub. A repository whose name ends in `-fork`, and each for which
`is_fork` says so (about one in eight), is a fork of the same name's repository at `upstream-{owner}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from devstack.sandbox.http_server import Request
from devstack.sandbox.samples import Answer, derive, error_answers, json_answer, payload_of, text_of, to_json

API = "https://api.github.com"
RENAMED = "repo-renamed"
ID_BELOW = 900_000_000
CACHED_ANSWERS = 8192
LIMIT_HEADERS = {
    "x-github-media-type": "github.v3; format=json",
    "x-ratelimit-limit": "5000",
    "x-ratelimit-remaining": "4990",
    "x-ratelimit-used": "10",
    "x-ratelimit-reset": "1893456000",
    "x-ratelimit-resource": "core",
}

REPO, REPO_OWNER = text_of("github/repo.json"), "Ledgerlib"
FORK, FORK_OWNER, FORK_PARENT_OWNER = text_of("github/repo_fork.json"), "willamber", "Ledgerlib"
USER, USER_LOGIN = text_of("github/user.json"), "orbittida"
GIST = payload_of("github/gist.json")
ERRORS = error_answers("github/errors.json")
NOT_FOUND = ERRORS["repo-missing-or-private"]

# Names have letters, digits and `.`, `-`, `_` only, so they may be put into JSON text as they are.
REPO_ROUTE = re.compile(r"/repos/([\w.-]+)/([\w.-]+)", re.ASCII)
REPO_ID_ROUTE = re.compile(r"/repositories/(\d+)", re.ASCII)
USER_ROUTE = re.compile(r"/users/([\w.-]+)", re.ASCII)
USER_ID_ROUTE = re.compile(r"/user/(\d+)", re.ASCII)
GIST_ROUTE = re.compile(r"/gists/([\w-]+)", re.ASCII)


class GitHub:
    """Answers the five routes; remembers the names it has seen, for the routes by id and their spelling."""

    def __init__(self) -> None:
        self._repo_names: dict[int, tuple[str, str]] = {}
        self._logins: dict[int, str] = {}
        self._routes: tuple[tuple[re.Pattern[str], Callable[..., Answer]], ...] = (
            (REPO_ROUTE, self._repo),
            (REPO_ID_ROUTE, self._repo_by_id),
            (USER_ROUTE, self._user),
            (USER_ID_ROUTE, self._user_by_id),
            (GIST_ROUTE, lambda gist_id, _: ERRORS.get(gist_id.lower()) or _gist(gist_id)),
        )

    def answer(self, request: Request, path: str) -> Answer:
        """Answer a GET of `path`, which starts after the base URL."""
        if request.method not in {"GET", "HEAD"}:
            return json_answer({"message": "Method Not Allowed"}, status=405)
        if "user-agent" not in request.headers:
            return ERRORS["no-user-agent"]
        base = request.path.removesuffix(path)
        origin = f"http://{request.headers.get('host', '')}{base}"
        path = unquote(path)
        for route, respond in self._routes:
            if match := route.fullmatch(path):
                return respond(*match.groups(), origin)
        return NOT_FOUND

    def _repo(self, owner: str, name: str, origin: str) -> Answer:
        if name.lower() == RENAMED:
            return self._renamed(owner, origin)
        if error := ERRORS.get(owner.lower()) or ERRORS.get(name.lower()):
            return error
        owner, name = self._spelling(owner, name)
        parent_owner, _ = self._spelling(f"upstream-{owner}", name)
        return _fork(owner, parent_owner, name) if is_fork(owner, name) else _repo(owner, name)

    def _renamed(self, owner: str, origin: str) -> Answer:
        target = repo_id(*self._spelling(owner, "renamed"))
        url = f"{origin}/repositories/{target}"
        recorded = ERRORS[RENAMED]
        body = {**json.loads(recorded.body), "url": url}
        return Answer(
            status=recorded.status, headers={**recorded.headers, "location": url}, body=to_json(body)
        )

    def _repo_by_id(self, number: str, origin: str) -> Answer:
        names = self._repo_names.get(int(number))
        return self._repo(*names, origin) if names else NOT_FOUND

    def _user_by_id(self, number: str, origin: str) -> Answer:
        login = self._logins.get(int(number))
        return self._user(login, origin) if login else NOT_FOUND

    def _user(self, login: str, _: str) -> Answer:
        if error := ERRORS.get(login.lower()):
            return error
        return _user(self._logins.setdefault(user_id(login), login))

    def _spelling(self, owner: str, name: str) -> tuple[str, str]:
        """The spelling of a repository's name that was used first; it counts from then on."""
        login = self._logins.setdefault(user_id(owner), owner)
        return self._repo_names.setdefault(repo_id(owner, name), (login, name))


def user_id(login: str) -> int:
    """The id of a login, whatever its case."""
    return 1 + derive("github user", login.lower(), below=ID_BELOW)


def repo_id(owner: str, name: str) -> int:
    """The id of a repository, whatever the case of its name."""
    return 1 + derive("github repo", owner.lower(), name.lower(), below=ID_BELOW)


def is_fork(owner: str, name: str) -> bool:
    """Whether a repository is a fork; see the module docstring."""
    if owner.lower().startswith("upstream-"):
        return False
    return name.lower().endswith("-fork") or derive("fork", owner.lower(), name.lower(), below=8) == 0


def _renamed_text(text: str, owners: Mapping[str, str], name: str) -> dict[str, Any]:
    """The recording with other owners and repository name; `owners` maps recorded names to ours."""
    for recorded, ours in owners.items():
        text = text.replace(f"{recorded}/Ledgerlib", f"{ours}/{name}")
        text = text.replace(f"/users/{recorded}", f"/users/{ours}").replace(f'"{recorded}"', f'"{ours}"')
        text = text.replace(f"github.com/{recorded}", f"github.com/{ours}")
    payload: dict[str, Any] = json.loads(text)
    return payload


def _personalise(repo: dict[str, Any], owner: str, name: str) -> None:
    repo["id"], repo["name"], repo["full_name"] = repo_id(owner, name), name, f"{owner}/{name}"
    repo["owner"]["id"], repo["owner"]["login"] = user_id(owner), owner
    repo["owner"]["type"] = _user_type(owner)
    repo["description"] = f"{name} by {owner}: {repo['description']}"
    stars = derive("stars", repo["full_name"].lower(), below=20_000)
    repo["stargazers_count"] = repo["watchers_count"] = repo["watchers"] = stars
    repo["forks_count"] = repo["forks"] = stars // 7


def _user_type(login: str) -> str:
    return "Organization" if derive("type", login.lower(), below=4) == 0 else "User"


def _ok(payload: dict[str, Any]) -> Answer:
    answer = json_answer(payload, headers=LIMIT_HEADERS)
    etag = f'W/"{derive(answer.body.decode(), below=1 << 63):016x}"'
    return Answer(headers={**answer.headers, "etag": etag}, body=answer.body)


@lru_cache(CACHED_ANSWERS)
def _repo(owner: str, name: str) -> Answer:
    repo = _renamed_text(REPO, {REPO_OWNER: owner}, name)
    _personalise(repo, owner, name)
    if repo["owner"]["type"] == "Organization":
        repo["organization"] = repo["owner"]
    else:
        del repo["organization"]
    repo["network_count"] = repo["forks_count"]
    return _ok(repo)


@lru_cache(CACHED_ANSWERS)
def _fork(owner: str, parent_owner: str, name: str) -> Answer:
    repo = _renamed_text(FORK, {FORK_OWNER: owner, FORK_PARENT_OWNER: parent_owner}, name)
    _personalise(repo, owner, name)
    for origin in ("parent", "source"):
        _personalise(repo[origin], parent_owner, name)
    return _ok(repo)


@lru_cache(CACHED_ANSWERS)
def _user(login: str) -> Answer:
    user = json.loads(USER.replace(USER_LOGIN, login))
    user["id"], user["type"] = user_id(login), _user_type(login)
    user["name"] = f"{login} ({user['type']})"
    user["followers"] = derive("followers", login.lower(), below=5000)
    return _ok(user)


@lru_cache(CACHED_ANSWERS)
def _gist(gist_id: str) -> Answer:
    owner = f"gister-{derive('gist owner', gist_id, below=50)}"
    gist = json.loads(json.dumps(GIST).replace(GIST["id"], gist_id).replace(GIST["owner"]["login"], owner))
    gist["owner"]["id"] = user_id(owner)
    gist["comments"] = derive("comments", gist_id, below=30)
    return _ok(gist)
