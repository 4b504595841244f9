"""GitHub: accounts, repositories and gists, from the REST API.

Login and repository names can be given up and taken by somebody else, so the numeric ids are the keys. The
owner inside a repository has no followers and no dates: the account costs a second call.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Annotated
from urllib.parse import quote

from pydantic import Field

from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.http.messages import Destination, Request, Response
from workers.settings import Settings
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, ParentRelation, Platform
from workers.social_recording.generators.foreign_json import (
    Foreign,
    Id,
    MaybeBool,
    MaybeCount,
    MaybeText,
    MaybeTexts,
    MaybeTime,
    Name,
    Text,
    present,
    read_as,
)
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.text_links import link_meant, links_in_prose, unique
from workers.social_recording.generators.verdicts import (
    http_error,
    misconfigured,
    rate_limited,
    unexpected_html,
)
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    JSONValue,
    Metrics,
    ObjectGroup,
    SocialObjectGraph,
)
from workers.social_recording.routing import Route, route

SOURCE = "github"
# https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api: without a hint, wait a minute.
_SECONDARY_LIMIT_WAIT_S = 60.0
_LIMIT_WORDS = re.compile(r"rate limit|abuse detection", re.IGNORECASE)


class _User(Foreign):
    id: Id
    login: Name
    type: MaybeText = None
    name: MaybeText = None
    bio: MaybeText = None
    blog: MaybeText = None
    twitter_username: MaybeText = None
    created_at: MaybeTime = None
    public_repos: MaybeCount = None
    public_gists: MaybeCount = None
    followers: MaybeCount = None
    following: MaybeCount = None


class _Repo(Foreign):
    id: Id
    full_name: Annotated[str, Field(pattern=r"^[0-9A-Za-z_.-]+/[0-9A-Za-z_.-]+$")]
    owner: _User
    fork: MaybeBool = None
    parent: _Repo | None = None
    source: _Repo | None = None
    description: MaybeText = None
    homepage: MaybeText = None
    language: MaybeText = None
    archived: MaybeBool = None
    topics: MaybeTexts = ()
    created_at: MaybeTime = None
    stargazers_count: MaybeCount = None
    forks_count: MaybeCount = None
    subscribers_count: MaybeCount = None
    open_issues_count: MaybeCount = None
    network_count: MaybeCount = None
    size: MaybeCount = None


class _GistFile(Foreign):
    filename: MaybeText = None
    language: MaybeText = None


class _Gist(Foreign):
    id: Id
    owner: _User | None = None
    description: MaybeText = None
    files: dict[Text, _GistFile]
    fork_of: _Gist | None = None
    created_at: MaybeTime = None
    comments: MaybeCount = None


class GitHubGenerator:
    """Asks the REST API; with a token 5,000 times an hour, without 60 times."""

    source = SOURCE
    is_paid = False

    def __init__(self, http: OutboundClient, settings: Settings) -> None:
        self._http = http
        self._base_url = settings.github_base_url
        self._headers = {
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        if settings.github_token is not None:
            self._headers["Authorization"] = f"Bearer {settings.github_token.get_secret_value()}"

    def supports(self, way: Route) -> bool:
        """Accounts, repositories and gists."""
        return way.platform is Platform.GITHUB and (
            way.object is ObjectKind.ACCOUNTS or way.subtype in (ContentSubtype.REPO, ContentSubtype.GIST)
        )

    def generate(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        """One call for an account, two for a content with its owner."""
        if way.object is ObjectKind.ACCOUNTS:
            response = self._ask(f"/users/{quote(way.key, safe='')}", context)
            return account_graph(judge(response), way, response.received_at)
        if way.subtype is ContentSubtype.GIST:
            response = self._ask(f"/gists/{quote(way.key, safe='')}", context)
            payload = judge(response)
            return gist_graph(payload, self._owner_of(payload, context), way, response.received_at)
        response = self._ask(f"/repos/{quote(way.key, safe='/')}", context)
        payload = judge(response)
        return repo_graph(payload, self._owner_of(payload, context), way, response.received_at)

    def _ask(self, path: str, context: FetchContext) -> Response:
        request = Request(
            source=SOURCE,
            destination=Destination.SERVICE,
            url=f"{self._base_url}{path}",
            headers=self._headers,
        )
        return self._http.fetch(request, context.budget, context.calls.add)

    def _owner_of(self, payload: object, context: FetchContext) -> object | None:
        """The whole account of the owner; None when there is none any more.

        The content itself has been seen by then, so a vanished or closed owner does not make it vanish.
        """
        login = owner_login(payload)
        if login is None:
            return None
        try:
            return judge(self._ask(f"/users/{quote(login, safe='')}", context))
        except (TargetGone, TargetBlocked):
            return None


def judge(response: Response) -> object:
    """The payload of a good answer.

    Raises `TargetGone`, `TargetBlocked` or `FetchFailed`; a 403 is four different things, so the text counts.
    """
    message = _message_of(response)
    status = response.status
    if _is_rate_limit(response, message):
        raise rate_limited(response, wait_s=_SECONDARY_LIMIT_WAIT_S)
    if status >= 500:
        raise http_error(response)
    if status == 403 and "user-agent" in response.text().lower():
        raise misconfigured(response)
    if response.is_html:
        raise unexpected_html(response)
    if status == 401:
        raise misconfigured(response)
    if status == 404 and message == "Not Found":
        raise TargetGone("github knows no such thing, or it is private", reason="http_404")
    if status == 451 or (status == 403 and "access blocked" in message.lower()):
        raise TargetBlocked("github has closed it", reason=_block_reason(response))
    if status != 200:
        raise http_error(response)
    return response.json()


def _is_rate_limit(response: Response, message: str) -> bool:
    if response.status == 429:
        return True
    is_used_up = response.headers.get("x-ratelimit-remaining") == "0"
    return response.status == 403 and (is_used_up or _LIMIT_WORDS.search(message) is not None)


def _fields_of(response: Response) -> dict[str, object]:
    try:
        payload = response.json()
    except FetchFailed:
        return {}
    return payload if isinstance(payload, dict) else {}


def _message_of(response: Response) -> str:
    return str(_fields_of(response).get("message", "")) if response.status != 200 else ""


def _block_reason(response: Response) -> str:
    block = _fields_of(response).get("block")
    reason = str(block.get("reason", "")) if isinstance(block, dict) else ""
    return f"blocked_{reason}" if re.fullmatch(r"[a-z_]{1,30}", reason) else f"http_{response.status}"


def owner_login(payload: object) -> str | None:
    """The login of a content's owner; None when it has none (anonymous gists)."""
    owner = payload.get("owner") if isinstance(payload, dict) else None
    login = owner.get("login") if isinstance(owner, dict) else None
    return login if isinstance(login, str) and login else None


def account_graph(payload: object, way: Route, observed_at: datetime) -> SocialObjectGraph:
    """A person or an organisation."""
    del way  # the answer says more than the URL: the login in its owner's spelling
    user = read_as(_User, payload, SOURCE)
    group = ObjectGroup(account=_account(user), metrics={ObjectKind.ACCOUNTS: _account_metrics(user)})
    return SocialObjectGraph(groups=(group,), observed_at=observed_at)


def repo_graph(payload: object, owner: object | None, way: Route, observed_at: datetime) -> SocialObjectGraph:
    """A repository with its owner, and the one it was forked from."""
    repo = read_as(_Repo, payload, SOURCE)
    entry = _group(_repo_content(repo), _repo_metrics(repo), _whole(repo.owner, owner))
    content = entry.content
    if content is not None and repo.full_name.lower() != way.key.lower():
        former = {**content.data, "former_name": way.key}
        entry = replace(entry, content=replace(content, data=former))
    if not repo.fork or repo.parent is None:
        return SocialObjectGraph(groups=(entry,), observed_at=observed_at)
    parent = repo.parent
    origin = _group(_repo_content(parent), _repo_metrics(parent), parent.owner)
    return _forked(entry, origin, observed_at)


def gist_graph(payload: object, owner: object | None, way: Route, observed_at: datetime) -> SocialObjectGraph:
    """A gist with its owner, if it has one, and the one it was forked from."""
    del way  # a gist has one name only, its id
    gist = read_as(_Gist, payload, SOURCE)
    whole = None if gist.owner is None else _whole(gist.owner, owner)
    entry = _group(_gist_content(gist), _gist_metrics(gist), whole)
    if gist.fork_of is None:
        return SocialObjectGraph(groups=(entry,), observed_at=observed_at)
    origin = _group(_gist_content(gist.fork_of), _gist_metrics(gist.fork_of), gist.fork_of.owner)
    return _forked(entry, origin, observed_at)


def _forked(entry: ObjectGroup, origin: ObjectGroup, observed_at: datetime) -> SocialObjectGraph:
    fork = replace(entry, parent_ref=1, parent_relation=ParentRelation.FORK)
    return SocialObjectGraph(groups=(fork, origin), observed_at=observed_at)


def _whole(embedded: _User, payload: object | None) -> _User:
    """The owner as its own call shows it, unless the login belongs to somebody else by now."""
    if payload is None:
        return embedded
    user = read_as(_User, payload, SOURCE)
    return user if user.id == embedded.id else embedded


def _group(content: ContentDraft, metrics: Metrics, owner: _User | None) -> ObjectGroup:
    by_kind = {ObjectKind.CONTENTS: metrics}
    if owner is not None:
        by_kind[ObjectKind.ACCOUNTS] = _account_metrics(owner)
    return ObjectGroup(
        content=content,
        account=None if owner is None else _account(owner),
        metrics={kind: values for kind, values in by_kind.items() if values},
    )


def _account(user: _User) -> AccountDraft:
    handle = (user.twitter_username or "").strip().lstrip("@")
    profile = link_meant(f"https://x.com/{handle}") if handle else None
    links = [link_meant(user.blog), profile, *links_in_prose(user.bio)]
    return AccountDraft(
        platform=Platform.GITHUB,
        url=route(f"https://github.com/{user.login}").url,
        platform_key=user.id,
        handle=user.login,
        display_name=user.name,
        bio=user.bio,
        links=unique(link for link in links if link),
        declared_handles=((Platform.X, handle),) if handle else (),
        account_created_at=user.created_at,
        followers=user.followers,
        data={"type": user.type} if user.type else {},
    )


def _account_metrics(user: _User) -> Metrics:
    return present(
        {
            "public_repos": user.public_repos,
            "public_gists": user.public_gists,
            "followers": user.followers,
            "following": user.following,
        }
    )


def _repo_content(repo: _Repo) -> ContentDraft:
    data: dict[str, JSONValue] = {"full_name": repo.full_name}
    if repo.language:
        data["language"] = repo.language
    if repo.archived is not None:
        data["archived"] = repo.archived
    if repo.source is not None:
        data["network_root"] = repo.source.full_name
    links = [link_meant(repo.homepage), *links_in_prose(repo.description)]
    return ContentDraft(
        platform=Platform.GITHUB,
        subtype=ContentSubtype.REPO,
        url=route(f"https://github.com/{repo.full_name}").url,
        platform_key=repo.id,
        published_at=repo.created_at,
        text_primary=repo.description or repo.full_name,
        links=unique(link for link in links if link),
        tags=repo.topics,
        data=data,
    )


def _repo_metrics(repo: _Repo) -> Metrics:
    return present(
        {
            "stargazers_count": repo.stargazers_count,
            "forks_count": repo.forks_count,
            "subscribers_count": repo.subscribers_count,
            "open_issues_count": repo.open_issues_count,
            "network_count": repo.network_count,
            "size": repo.size,
        }
    )


def _gist_content(gist: _Gist) -> ContentDraft:
    names = list(gist.files)
    return ContentDraft(
        platform=Platform.GITHUB,
        subtype=ContentSubtype.GIST,
        url=route(f"https://gist.github.com/{gist.id}").url,
        platform_key=gist.id,
        published_at=gist.created_at,
        text_primary=gist.description or (names[0] if names else None),
        links=links_in_prose(gist.description),
        data={"files": [*names]},
    )


def _gist_metrics(gist: _Gist) -> Metrics:
    return present({"comments": gist.comments})
