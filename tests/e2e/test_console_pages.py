"""The console's pages as a browser without JavaScript gets them: who may see them, and what they say."""

from __future__ import annotations

import json
import re
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from flask.testing import FlaskClient
from redis import Redis
from selectolax.lexbor import LexborHTMLParser as HTMLParser
from werkzeug.test import TestResponse

from app import create_app
from app.console.blueprint import POLICY
from app.console.sign_in import COOKIE_NAME, LIFETIME
from devstack.mongo import MongoServer
from devstack.sandbox.process import SOLANA_ENDPOINT
from devstack.valkey import ValkeyServer
from tests.conftest import make_settings
from tests.integration.funding_place import Channel, FundingPlace, emptied_engine
from tests.waiting import wait_until
from workers.celery_app import create_celery
from workers.clock import Clock, to_iso
from workers.funding.vocabulary import BlockReason
from workers.jobs.record import JobState
from workers.jobs.service import Job
from workers.mongo import MongoDatabase
from workers.services import JobAccess, open_job_access
from workers.settings import Settings
from workers.social_graph.token import Token, TokenRepository, TokenSocialURL
from workers.social_graph.token.survey import URLCount, URLSurvey
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.job_kinds import RETRY, RetryRequest

SECRET = "test-key"
ADDRESS = "So11111111111111111111111111111111111111112"
EVIL = "<script>alert(1)</script>\"'><img src=x>"
SITE = "https://own-site.com/"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages wait until everything is known: the machine may be busy with other tests."""
    monkeypatch.setattr("app.console.long_looks.WAIT_S", 20.0)


@pytest.fixture
def settings(redis: Redis, valkey: ValkeyServer, mongo: MongoServer, database: MongoDatabase) -> Settings:
    return make_settings(
        broker_url=valkey.url_of(0),
        result_backend_url=valkey.url_of(1),
        redis_url=valkey.url_of(2),
        mongo_url=mongo.url,
        mongo_database=database.name,
    )


class Visitor:
    """A browser: follows forms by what stands in them."""

    def __init__(self, client: FlaskClient, access: JobAccess) -> None:
        self.client = client
        self.access = access

    def get(self, path: str, **headers: str) -> TestResponse:
        return self.client.get(path, headers=headers)

    def post(self, path: str, *, page: str, **values: Any) -> TestResponse:
        """Send the form that stands on `page` with the token that it carries."""
        data = {"csrf_token": token_on(self.get(page)), **values}
        return self.client.post(path, data=data)

    def sign_in(self, key: str = SECRET, **values: str) -> TestResponse:
        return self.post("/console/sign-in", page="/console/sign-in", key=key, **values)


@contextmanager
def visitor_of(settings: Settings) -> Iterator[Visitor]:
    with closing(open_job_access(settings)) as access:
        yield Visitor(create_app(access).test_client(), access)


@pytest.fixture
def visitor(settings: Settings) -> Iterator[Visitor]:
    with visitor_of(settings) as visitor:
        yield visitor


@pytest.fixture
def operator(visitor: Visitor) -> Visitor:
    """Somebody who has signed in."""
    assert visitor.sign_in().status_code == 303
    return visitor


@pytest.fixture
def tokens(database: MongoDatabase, settings: Settings) -> TokenRepository:
    return TokenRepository(database, Clock())


def token_on(response: TestResponse) -> str:
    found = HTMLParser(response.text).css_first("input[name=csrf_token]")
    value = None if found is None else found.attributes["value"]
    assert value
    return value


def text_of(response: TestResponse, status: int = 200) -> str:
    """What a reader sees."""
    assert response.status_code == status, response.text
    main = HTMLParser(response.text).css_first("main")
    assert main is not None
    return " ".join(main.text(separator=" ").split())


def links_of(response: TestResponse) -> list[str]:
    hrefs = [node.attributes.get("href") for node in HTMLParser(response.text).css("main a")]
    return [href for href in hrefs if href]


def store_token(tokens: TokenRepository, *urls: TokenSocialURL, symbol: str | None = "HARBOR") -> None:
    tokens.insert(Token.of(address=ADDRESS, created_at=Clock().now(), symbol=symbol, social_urls=urls))


def failed(url: str = SITE, *, minutes_ago: int = 10, reason: str = "http_503") -> TokenSocialURL:
    at = Clock().now() - timedelta(minutes=minutes_ago)
    return TokenSocialURL(url=url, status=FetchStatus.ERROR, attempts=2, attempted_at=at, reason=reason)


def submit(access: JobAccess, **body: Any) -> Job:
    return access.jobs.submit(RETRY, RetryRequest(**body).with_defaults(access.settings))


def end(settings: Settings, job: Job, result: dict[str, Any]) -> None:
    """Let the job have run and left its result, as a worker would; Celery stores it by an old command."""
    with visitor_of(settings) as somebody:
        store = somebody.access.store
        assert store.begin(job.record.id, "test")
        store.report(job.record.id, done=2, total=2)
        store.finish(job.record.id, JobState.SUCCEEDED)
    celery = create_celery(lambda: settings, polls_only=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Call to deprecated setex", DeprecationWarning)
        celery.backend.store_result(job.record.id, result, "SUCCESS")
    celery.close()


def console_paths(visitor: Visitor) -> list[tuple[str, str]]:
    """Method and path of each route of the console."""
    values = {
        "job_id": str(uuid.uuid4()),
        "slug": "retry",
        "part": "jobs",
        "address": ADDRESS,
        "kind": "accounts",
        "object_id": "0" * 24,
        "place": "nowhere",
    }
    found = []
    for rule in visitor.client.application.url_map.iter_rules():
        if rule.endpoint.startswith("console.") and rule.endpoint != "console.static":
            path = re.sub(r"<(?:\w+:)?(\w+)>", lambda match: values[match[1]], rule.rule)
            found += [(method, path) for method in (rule.methods or set()) & {"GET", "POST"}]
    return found


def test_whoever_is_not_signed_in_sees_the_form_alone(visitor: Visitor) -> None:
    paths = console_paths(visitor)
    assert len(paths) > 15
    token = token_on(visitor.get("/console/sign-in"))
    for method, path in paths:
        if path == "/console/sign-in":
            continue
        response = visitor.client.open(path, method=method, data={"csrf_token": token})
        assert response.status_code == 303, (method, path)
        assert response.headers["Location"].startswith("/console/sign-in")


def test_every_page_is_there_for_those_who_signed_in(operator: Visitor, tokens: TokenRepository) -> None:
    store_token(tokens, failed())
    job = submit(operator.access)
    pages = [path for method, path in console_paths(operator) if method == "GET"]
    for path in (re.sub(r"/jobs/[0-9a-f-]{36}", f"/jobs/{job.record.id}", page) for page in pages):
        response = operator.get(path)
        unknown = path.endswith("nowhere") or "/objects/accounts/" in path or path == "/console/url"
        expected = 303 if path in ("/console/", "/console/sign-in") else 404 if unknown else 200
        assert response.status_code == expected, (path, response.text)


def test_the_console_lets_nobody_into_the_api(operator: Visitor) -> None:
    assert operator.get("/api/v1/jobs").status_code == 401
    assert operator.client.post("/api/v1/internal/social-recording/retry").status_code == 401


@pytest.mark.parametrize(
    "path", ["/console/../api/v1/jobs", "/console//jobs", "/CONSOLE/jobs", "/consolejobs"]
)
def test_odd_spellings_of_a_path_lead_nowhere(visitor: Visitor, path: str) -> None:
    assert visitor.get(path).status_code in (303, 401, 404)
    assert "Jobs" not in visitor.get(path).text


def test_a_wrong_key_is_told_and_lets_nobody_in(visitor: Visitor) -> None:
    response = visitor.sign_in("wrong")
    assert "not the key" in text_of(response, 403)
    assert "Sign out" not in response.text
    assert visitor.get("/console").status_code == 303
    assert visitor.sign_in("").status_code == 403


def test_an_address_that_fails_too_often_has_to_wait_even_with_the_key(visitor: Visitor) -> None:
    for _ in range(10):
        assert visitor.sign_in("wrong").status_code == 403
    response = visitor.sign_in(SECRET)
    assert response.status_code == 429
    assert response.headers["Retry-After"] == "60"


def test_the_cookie_is_for_the_console_alone_and_holds_no_key(visitor: Visitor) -> None:
    response = visitor.sign_in()
    [cookie] = [value for value in response.headers.getlist("Set-Cookie") if COOKIE_NAME in value]
    assert {"HttpOnly", "SameSite=Strict", "Path=/console"} <= {part.strip() for part in cookie.split(";")}
    assert "Secure" not in cookie
    assert SECRET not in response.text + str(response.headers)
    assert all(header[0] != "Set-Cookie" for header in visitor.get("/healthz").headers)


def test_the_cookie_of_a_tls_request_travels_over_tls_only(visitor: Visitor) -> None:
    client, base = visitor.client, "https://console.example"
    token = token_on(client.get("/console/sign-in", base_url=base))
    response = client.post("/console/sign-in", base_url=base, data={"csrf_token": token, "key": SECRET})
    assert response.status_code == 303
    assert "Secure" in response.headers["Set-Cookie"]


def test_a_session_ends_after_eight_hours(operator: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    later = Clock().now() + LIFETIME
    assert operator.get("/console/objects").status_code == 200
    monkeypatch.setattr("app.console.sign_in._now_s", lambda: int(later.timestamp()) + 1)
    assert operator.get("/console/objects").status_code == 303


def test_a_new_key_ends_every_session(operator: Visitor, settings: Settings) -> None:
    cookie = operator.client.get_cookie(COOKIE_NAME, path="/console")
    assert cookie is not None
    for secret, status in (("other-key", 303), (SECRET, 200)):
        with visitor_of(make_settings(**{**settings.model_dump(), "app_secret_key": secret})) as other:
            other.client.set_cookie(COOKIE_NAME, cookie.value, path="/console")
            assert other.get("/console/objects").status_code == status


def test_a_forged_cookie_is_no_session(visitor: Visitor) -> None:
    visitor.client.set_cookie(
        COOKIE_NAME, "eyJzaWduZWRfaW5fYXQiOjk5OTk5OTk5OTl9.aaaaaa.bbbbbb", path="/console"
    )
    assert visitor.get("/console").status_code == 303


def test_signing_out_ends_the_session_of_the_browser(operator: Visitor) -> None:
    response = operator.post("/console/sign-out", page="/console/objects")
    assert response.headers["Location"] == "/console/sign-in"
    assert operator.get("/console").status_code == 303


def test_auth_disabled_opens_the_console_and_says_so(settings: Settings) -> None:
    with visitor_of(settings.model_copy(update={"auth_disabled": True})) as visitor:
        response = visitor.get("/console/objects")
        assert response.status_code == 200
        assert "AUTH_DISABLED" in response.text
        assert "Sign out" not in response.text
        assert visitor.client.post("/console/start/retry").status_code == 400, "the token is asked for anyway"


@pytest.mark.parametrize("path", ["/console/sign-in", "/console/sign-out", "/console/start/retry"])
def test_a_form_without_its_token_does_nothing(operator: Visitor, path: str) -> None:
    for data in ({"key": SECRET}, {"key": SECRET, "csrf_token": "forged"}):
        response = operator.client.post(path, data=data)
        assert response.status_code == 400
        assert "token" in text_of(response, 400)
    assert operator.get("/console/objects").status_code == 200, "still signed in"
    assert operator.access.jobs.list_jobs(kind=None, state=None, limit=5, before=None)[0] == []


def test_a_page_that_was_asked_for_comes_after_the_sign_in(visitor: Visitor) -> None:
    asked = visitor.get("/console/urls?status=error&platform=x")
    assert asked.headers["Location"] == "/console/sign-in?next=/console/urls?status%3Derror%26platform%3Dx"
    form = HTMLParser(visitor.get(asked.headers["Location"]).text)
    field = form.css_first("input[name=next]")
    assert field is not None
    target = str(field.attributes["value"])
    assert visitor.sign_in(next=target).headers["Location"] == "/console/urls?status=error&platform=x"


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example/console/",
        "/\\evil.example",
        "/console\\@evil.example",
        "/console/..//evil.example",
        "/console/../api/v1/docs",
        "javascript:alert(1)",
        "/consoleevil",
        "console/jobs",
        "/console/\r\nSet-Cookie: a=b",
        "/console//evil.example",
        "/%2f/evil.example",
        "https:/console/jobs",
    ],
)
def test_the_sign_in_leads_to_nothing_but_the_console(visitor: Visitor, target: str) -> None:
    page = visitor.get("/console/sign-in?" + urlencode({"next": target}))
    field = HTMLParser(page.text).css_first("input[name=next]")
    assert field is not None
    assert field.attributes["value"] == "/console"
    assert visitor.sign_in(next=target).headers["Location"] == "/console"


def test_every_answer_of_the_console_has_the_policy(visitor: Visitor) -> None:
    paths = ("/console/sign-in", "/console", "/console/static/console.css", "/console/nowhere")
    for path in paths:
        with visitor.get(path) as response:
            headers = response.headers
        assert headers["Content-Security-Policy"] == POLICY
        assert headers["X-Content-Type-Options"] == "nosniff"
    for part in ("default-src 'none'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
        assert part in POLICY
    assert "unsafe" not in POLICY
    assert visitor.get("/console/sign-in").headers["Cache-Control"] == "no-store"


def test_pages_hold_no_script_or_style_of_their_own(operator: Visitor, tokens: TokenRepository) -> None:
    store_token(tokens, failed())
    job = submit(operator.access)
    for path in ("/console", "/console/jobs", f"/console/jobs/{job.record.id}", f"/console/tokens/{ADDRESS}"):
        page = HTMLParser(operator.get(path).text)
        assert [node.text() for node in page.css("script")] == [""]
        assert page.css("style, [style], [onclick], [onload]") == []
        sources = [
            node.attributes.get(name) for name in ("src", "href") for node in page.css(f"head [{name}]")
        ]
        assert all(source is None or source.startswith("/console/static/") for source in sources)


@pytest.mark.parametrize(
    "path",
    [
        "/console",
        "/console/jobs",
        "/console/urls",
        "/console/tokens",
        "/console/start/backfill",
        "/console/fundings",
    ],
)
def test_pages_can_be_walked_through_by_those_who_do_not_see_them(
    operator: Visitor, tokens: TokenRepository, path: str
) -> None:
    store_token(tokens, failed())
    submit(operator.access)
    page = HTMLParser(operator.get(path).text)
    html = page.css_first("html")
    assert html is not None
    assert html.attributes["lang"] == "en"
    assert len(page.css("h1")) == 1
    assert len(page.css("main")) == len(page.css("header")) == len(page.css("footer")) == 1
    ids = [node.attributes["id"] for node in page.css("[id]")]
    assert len(ids) == len(set(ids))
    for field in page.css("input:not([type=hidden]):not([type=checkbox]), select, textarea"):
        assert page.css(f'label[for="{field.attributes["id"]}"]'), field.html
    for box in page.css("input[type=checkbox]"):
        assert box.parent is not None
        assert box.parent.tag == "label"
    for table in page.css("table"):
        assert table.css_first("caption") is not None
        assert table.css("th[scope]")
    for name in ("aria-describedby", "aria-labelledby"):
        for node in page.css(f"[{name}]"):
            assert set(str(node.attributes[name]).split()) <= set(ids), node.html
    for svg in page.css("svg"):
        assert svg.attributes.get("aria-hidden") == "true" or svg.css_first("title") is not None


def test_the_first_page_says_what_is_where_and_what_comes(operator: Visitor, tokens: TokenRepository) -> None:
    store_token(
        tokens,
        failed(SITE, minutes_ago=10),
        failed("https://t.me/harbor", minutes_ago=90, reason="timeout"),
        failed("https://x.com/harbor"),
        TokenSocialURL(url="https://other-site.com/", status=FetchStatus.OK, attempts=1),
    )
    submit(operator.access)
    response = operator.get("/console")
    page = HTMLParser(response.text)
    assert "redis ok" in text_of(response)
    assert "schedule off here" in text_of(response)
    due = [" ".join(node.text().split()) for node in page.css(".due li")]
    assert due == [
        "1 now",
        "1 within 1 h",
        "0 within 6 h",
        "0 within 24 h",
        "0 later",
        "1 not processable",
    ]
    links = links_of(response)
    assert "/console/urls?platform=tg&status=error" in links
    assert "/console/urls?status=error&platform=tg&reason=timeout" in links
    [first] = [node.text(strip=True) for node in page.css(".matrix tfoot a") if "ok" in str(node.attributes)]
    assert first == "1"


def test_the_first_page_says_that_urls_wait_for_paid_calls_and_leads_to_them(
    settings: Settings, tokens: TokenRepository
) -> None:
    store_token(
        tokens,
        TokenSocialURL(url="https://x.com/harbor", status=FetchStatus.SKIPPED_PAID),
        TokenSocialURL(url="https://x.com/harbor_two", status=FetchStatus.SKIPPED_PAID),
        failed("https://t.me/harbor", reason="timeout"),
    )
    for is_on in (False, True):
        with visitor_of(settings.model_copy(update={"social_record_enable_paid": is_on})) as visitor:
            visitor.sign_in()
            response = visitor.get("/console")
            page = HTMLParser(response.text)
            reasons = [" ".join(node.text().split()) for node in page.css(".reasons li")]
            assert reasons == ["2 needs a paid source X, skipped_paid", "1 timeout Telegram, error"]
            assert ("SOCIAL_RECORD_ENABLE_PAID" in text_of(response)) is not is_on
            down = page.css_first(".reasons a").attributes["href"]
            assert "https://x.com/harbor_two" in text_of(visitor.get(str(down)))


def test_what_takes_longer_than_a_page_is_said_to_be_under_way(
    operator: Visitor, tokens: TokenRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_token(tokens, failed())
    may_count, count = threading.Event(), URLSurvey.count

    def count_slowly(survey: URLSurvey, hosts: Sequence[str]) -> list[URLCount]:
        assert may_count.wait(30)
        return count(survey, hosts)

    monkeypatch.setattr(URLSurvey, "count", count_slowly)
    monkeypatch.setattr("app.console.long_looks.WAIT_S", 0.1)
    first = operator.get("/console")
    assert "They are being counted" in text_of(first)
    assert HTMLParser(first.text).css("[data-live] [data-again]")
    may_count.set()

    def counted() -> bool:
        return "http_503" in operator.get("/console/live/reasons").text

    wait_until(counted, "the counts are there", timeout_s=30)


def test_no_page_waits_for_a_list_that_takes_long(
    operator: Visitor, tokens: TokenRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_token(tokens, failed())
    may_end = threading.Event()
    list_waiting, newest_tokens = URLSurvey.list_waiting, URLSurvey.newest_tokens

    def held_back(look: Callable[..., Any]) -> Callable[..., Any]:
        def look_slowly(*args: Any, **how: Any) -> Any:
            assert may_end.wait(30)
            return look(*args, **how)

        return look_slowly

    monkeypatch.setattr(URLSurvey, "list_waiting", held_back(list_waiting))
    monkeypatch.setattr(URLSurvey, "newest_tokens", held_back(newest_tokens))
    monkeypatch.setattr("app.console.long_looks.WAIT_S", 0.1)
    pages = {"/console/urls?status=error": SITE, "/console/tokens": "HARBOR"}
    for path, words in pages.items():
        first = operator.get(path)
        assert "They are being looked for" in text_of(first)
        assert words not in text_of(first)
        assert "http-equiv" in first.text, "it comes by itself, also without JavaScript"
        [part] = HTMLParser(first.text).css("main [data-live]")
        assert str(part.attributes["data-live"]).startswith(path)
    may_end.set()
    for path, words in pages.items():

        def is_there(path: str = path, words: str = words) -> bool:
            part = operator.get(path, **{"X-Console-Fragment": "1"})
            return words in part.text and "data-final" in part.text and "<html" not in part.text

        wait_until(is_there, "the list is there", timeout_s=30)
        assert "http-equiv" not in operator.get(path).text


def test_a_url_is_followed_from_its_number_to_the_rule_that_decides(
    operator: Visitor, tokens: TokenRepository
) -> None:
    store_token(tokens, failed(SITE, minutes_ago=10))
    listed = operator.get("/console/urls?platform=web&status=error")
    words = text_of(listed)
    assert "http_503" in words
    assert "HARBOR" in words
    [down] = [link for link in links_of(listed) if link.startswith("/console/url?")]
    explained = text_of(operator.get(down))
    assert "resting" in explained
    assert "2 of 5" in explained
    assert re.search("in (49|50) min", explained)


def test_lists_of_urls_are_narrowed_and_paged(operator: Visitor, tokens: TokenRepository) -> None:
    urls = [failed(f"https://own-site-{number}.com/") for number in range(60)]
    store_token(tokens, *urls, failed("https://x.com/harbor"))
    seen: list[str] = []
    path: str | None = "/console/urls?status=error&platform=web"
    while path:
        response = operator.get(path)
        page = HTMLParser(response.text)
        seen += [node.text(strip=True) for node in page.css("td:first-child a")]
        following = page.css_first("a[rel=next]")
        path = following.attributes["href"] if following else None
    assert sorted(seen) == sorted(url.url for url in urls)
    assert len(seen) == 60
    nothing = operator.get("/console/urls?status=error&platform=x&reason=timeout")
    assert "No such URL" in text_of(nothing)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/console/urls?status=nonsense", 400),
        ("/console/urls?platform=nonsense", 400),
        ("/console/urls?after=nonsense", 400),
        ("/console/jobs?state=nonsense", 400),
        ("/console/jobs?kind=nonsense", 400),
        ("/console/jobs?before=nonsense", 400),
        ("/console/campaigns?before=-1", 400),
        ("/console/tokens?before=nonsense", 400),
        ("/console/jobs/nonsense", 404),
        ("/console/jobs/0b6f3a52-6d4e-4a60-9d0c-8a3f5f1f2c11", 404),
        ("/console/start/nonsense", 404),
        ("/console/tokens/nonsense", 404),
        (f"/console/tokens/{ADDRESS}", 404),
        ("/console/objects/nonsense/1", 404),
        ("/console/objects/accounts/nonsense", 400),
        ("/console/objects/accounts/0123456789abcdef01234567", 404),
        ("/console/url?token=a&url=b", 404),
        ("/console/find?q=nonsense", 404),
        ("/console/live/nonsense", 404),
        ("/console/nowhere/at/all", 404),
    ],
)
def test_what_is_not_there_or_not_understood_is_a_page_that_says_so(
    operator: Visitor, path: str, status: int
) -> None:
    response = operator.get(path)
    assert len(text_of(response, status)) > 20
    assert response.mimetype == "text/html"
    assert "Traceback" not in response.text


@pytest.mark.parametrize("path", ["/console/jobs", "/console/url", "/console/nowhere"])
def test_a_page_that_takes_no_form_says_so(operator: Visitor, path: str) -> None:
    assert "There is no page" in text_of(operator.post(path, page="/console/objects"), 404)
    assert "There is no page" in text_of(operator.get("/console/sign-out"), 404)


def test_names_of_strangers_are_text_wherever_they_stand(
    operator: Visitor, tokens: TokenRepository, settings: Settings
) -> None:
    url = f"https://own-site.com/{EVIL}"
    store_token(tokens, failed(url, reason=EVIL), symbol=EVIL)
    job = submit(operator.access)
    rows = [{"address": ADDRESS, "url": url, "outcome": EVIL, "status": "error", "reason": EVIL, EVIL: EVIL}]
    end(settings, job, {"data": rows, "meta": {"processed": 1, EVIL: EVIL, "skipped": EVIL}})
    paths = [
        "/console",
        "/console/jobs",
        f"/console/jobs/{job.record.id}",
        "/console/urls?" + urlencode({"status": "error", "reason": EVIL}),
        "/console/url?" + urlencode({"token": ADDRESS, "url": url}),
        "/console/tokens",
        f"/console/tokens/{ADDRESS}",
        "/console/find?" + urlencode({"q": EVIL}),
        "/console/start/retry?" + urlencode({"tokenAddresses": EVIL, "limit": EVIL}),
        "/console/" + EVIL,
    ]
    for path in paths:
        text = operator.get(path).text
        assert "<script>alert" not in text, path
        assert "<img" not in text, path
        assert HTMLParser(text).css("script:not([src]), img, [onerror]") == [], path


def test_a_link_to_the_outside_is_only_made_of_a_web_address(
    operator: Visitor, tokens: TokenRepository
) -> None:
    store_token(tokens, failed("javascript:alert(1)"), failed(SITE))
    for url, expected in (("javascript:alert(1)", []), (SITE, [SITE])):
        response = operator.get("/console/url?" + urlencode({"token": ADDRESS, "url": url}))
        assert response.status_code == 200
        outside = [link for link in links_of(response) if not link.startswith("/console/")]
        assert outside == expected


def test_no_page_shows_a_secret(operator: Visitor, tokens: TokenRepository, settings: Settings) -> None:
    store_token(tokens, failed())
    for _, path in console_paths(operator):
        text = operator.get(path).text
        for secret in (SECRET, "tracker-key", settings.redis_url, settings.mongo_url):
            assert secret not in text, path


def test_a_job_is_started_with_what_the_form_says(operator: Visitor) -> None:
    form = "/console/start/retry"
    response = operator.post(
        form, page=form, statuses=["error", "exhausted"], limit="7", minIntervalMinutes="0", what="start"
    )
    assert response.status_code == 303
    [job], _ = operator.access.jobs.list_jobs(kind=None, state=None, limit=5, before=None)
    assert response.headers["Location"] == f"/console/jobs/{job.record.id}"
    request = job.record.request
    assert (request["statuses"], request["limit"], request["minIntervalMinutes"]) == (
        ["error", "exhausted"],
        7,
        0,
    )
    assert request["dryRun"] is False
    assert "queued" in text_of(operator.get(response.headers["Location"]))


def test_a_dry_run_is_a_job_that_only_looks(operator: Visitor) -> None:
    form = "/console/start/reconcile"
    response = operator.post(
        form, page=form, startDate="2026-01-01T00:00", endDate="2026-01-02T00:00", what="look"
    )
    assert "dry run" in text_of(operator.get(response.headers["Location"]))
    [job], _ = operator.access.jobs.list_jobs(kind=None, state=None, limit=5, before=None)
    assert (job.record.request["dryRun"], job.record.request["startDate"]) == (True, "2026-01-01T00:00:00Z")


def test_one_page_sent_twice_is_one_job(operator: Visitor) -> None:
    page = HTMLParser(operator.get("/console/start/retry").text)
    values = {
        str(node.attributes["name"]): str(node.attributes["value"])
        for node in page.css("main input[type=hidden]")
    }
    first, second = (operator.client.post("/console/start/retry", data=values) for _ in range(2))
    assert first.headers["Location"] == second.headers["Location"]
    other = operator.client.post("/console/start/retry", data={**values, "limit": "3"})
    assert other.headers["Location"] != first.headers["Location"]


def test_what_is_not_acceptable_is_told_at_the_field_and_starts_nothing(operator: Visitor) -> None:
    form = "/console/start/reconcile"
    response = operator.post(
        form, page=form, startDate="2026-01-02T00:00", endDate="2026-01-01T00:00", limit="many"
    )
    page = HTMLParser(response.text)
    assert response.status_code == 400
    wrong = [node.attributes["name"] for node in page.css("[aria-invalid]")]
    assert wrong == ["endDate", "limit"]
    assert page.css_first("#field-limit").attributes["value"] == "many"
    assert "must be after startDate" in text_of(response, 400)
    assert operator.access.jobs.list_jobs(kind=None, state=None, limit=5, before=None)[0] == []


@pytest.mark.parametrize("slug", ["backfill", "funding"])
def test_a_kind_that_is_not_configured_says_so(operator: Visitor, slug: str) -> None:
    form = f"/console/start/{slug}"
    assert "is not set" in text_of(operator.get(form))
    values = {"mode": "program", "address": ADDRESS} if slug == "backfill" else {}
    response = operator.post(form, page=form, **values)
    assert "is not set" in text_of(response, 501)
    assert "is not set" in text_of(
        operator.get(f"/console/{'campaigns' if slug == 'backfill' else 'fundings'}")
    )


def test_an_ended_job_shows_its_counts_and_its_rows_with_links(operator: Visitor, settings: Settings) -> None:
    job = submit(operator.access)
    rows = [{"address": ADDRESS, "url": SITE, "outcome": "processed", "status": "ok", "reason": None}]
    end(settings, job, {"data": rows, "meta": {"processed": 1, "converged": 1, "elapsedMs": 1500}})
    response = operator.get(f"/console/jobs/{job.record.id}")
    words = text_of(response)
    assert "succeeded" in words
    assert "converged 1" in words
    assert "elapsed 1 s" in words or "elapsed 2 s" in words
    assert f"/console/tokens/{ADDRESS}" in links_of(response)
    assert "/console/url?" + urlencode({"token": ADDRESS, "url": SITE}, safe=":/") in links_of(response)
    assert "Cancel" not in words
    assert "http-equiv" not in response.text


def test_rows_of_a_large_result_are_paged(operator: Visitor, settings: Settings) -> None:
    job = submit(operator.access)
    rows = [{"signature": f"s{number}", "outcome": "persisted"} for number in range(450)]
    end(settings, job, {"data": rows, "meta": {"persisted": 450}})
    path: str | None = f"/console/jobs/{job.record.id}"
    seen: list[str] = []
    while path:
        page = HTMLParser(operator.get(path).text)
        seen += [node.text(strip=True) for node in page.css("tbody td:first-child")]
        following = page.css_first("a[rel=next]")
        path = following.attributes["href"] if following else None
    assert seen == [f"s{number}" for number in range(450)]


def test_a_running_job_is_looked_at_again_without_javascript_and_can_be_cancelled(operator: Visitor) -> None:
    job = submit(operator.access)
    page = f"/console/jobs/{job.record.id}"
    response = operator.get(page)
    assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in response.text
    cancelled = operator.post(f"{page}/cancel", page=page)
    assert cancelled.headers["Location"] == page
    assert "cancelled" in text_of(operator.get(page))
    again = operator.post(f"{page}/cancel", page="/console/objects")
    assert "has ended" in text_of(again, 409)


def test_jobs_are_filtered_and_paged(operator: Visitor, settings: Settings) -> None:
    jobs = [submit(operator.access) for _ in range(35)]
    end(settings, jobs[0], {"data": [], "meta": {"processed": 0, "remaining": 3}})
    seen: list[str] = []
    path: str | None = "/console/jobs?kind=social.retry"
    while path:
        response = operator.get(path)
        seen += [link.rpartition("/")[2] for link in links_of(response) if "/console/jobs/" in link]
        following = HTMLParser(response.text).css_first("a[rel=next]")
        path = following.attributes["href"] if following else None
    assert seen == [job.record.id for job in reversed(jobs)]
    ended = operator.get("/console/jobs?state=succeeded")
    assert f"/console/jobs/{jobs[0].record.id}" in links_of(ended)
    assert "3 remaining" in text_of(ended)
    assert "No such job" in text_of(operator.get("/console/jobs?kind=social.reconcile"))


def test_parts_of_pages_are_for_the_script_and_end_with_the_session(operator: Visitor) -> None:
    job = submit(operator.access)
    mark = {"X-Console-Fragment": "1"}
    part = operator.get(f"/console/jobs/{job.record.id}/live", **mark)
    assert "<html" not in part.text
    assert "queued" in part.text
    assert operator.get("/console/live/jobs", **mark).status_code == 200
    operator.client.delete_cookie(COOKIE_NAME, path="/console")
    assert operator.get("/console/live/jobs", **mark).status_code == 401


def test_flower_is_linked_where_it_is(settings: Settings) -> None:
    with visitor_of(settings.model_copy(update={"flower_url": "https://flower.example"})) as visitor:
        visitor.sign_in()
        assert 'href="https://flower.example"' in visitor.get("/console/objects").text
    with visitor_of(settings) as visitor:
        visitor.sign_in()
        assert "Flower" not in visitor.get("/console/objects").text


def test_a_mongodb_that_is_away_is_a_readable_page_and_takes_only_its_parts(settings: Settings) -> None:
    away = settings.model_copy(update={"mongo_url": "mongodb://127.0.0.1:9"})
    with visitor_of(away) as visitor:
        visitor.sign_in()
        submit(visitor.access)
        response = visitor.get("/console")
        words = text_of(response, 503)
        assert "mongodb not reachable" in words
        assert "Cannot be read now" in words
        assert "social.retry" in words, "jobs are in Redis"
        assert response.headers["Retry-After"]
        for path in ("/console/urls", "/console/tokens", f"/console/tokens/{ADDRESS}"):
            assert "A store does not answer" in text_of(visitor.get(path), 503)
        assert visitor.get("/console/jobs").status_code == 200


def test_a_redis_that_is_away_is_a_readable_page_and_takes_only_its_parts(
    settings: Settings, tokens: TokenRepository
) -> None:
    store_token(tokens, failed())
    nowhere = "redis://127.0.0.1:9/0"
    away = settings.model_copy(
        update={"redis_url": nowhere, "broker_url": nowhere, "result_backend_url": nowhere}
    )
    with visitor_of(away) as visitor:
        visitor.sign_in()
        response = visitor.get("/console")
        words = text_of(response, 503)
        assert "redis not reachable" in words
        assert "http_503" in words, "URLs are in MongoDB"
        assert "A store does not answer" in text_of(visitor.get("/console/jobs"), 503)
        form = "/console/start/retry"
        refused = visitor.post(form, page=form, limit="7")
        assert refused.status_code == 503
        assert 'value="7"' in refused.text, "what was typed is not lost"
        assert visitor.get(f"/console/tokens/{ADDRESS}").status_code == 200


@contextmanager
def funding_office(settings: Settings, funding_database: str) -> Iterator[tuple[Visitor, FundingPlace]]:
    """Somebody who has signed in where there are fundings."""
    with (
        visitor_of(settings.model_copy(update={"funding_database_url": funding_database})) as visitor,
        emptied_engine(funding_database) as engine,
        Redis.from_url(settings.redis_url) as counters,
    ):
        visitor.sign_in()
        yield visitor, FundingPlace(engine, counters, Channel(), clock=Clock())


def test_blocked_fundings_show_both_sides_and_lead_to_a_reconciliation(
    settings: Settings, funding_database: str
) -> None:
    with funding_office(settings, funding_database) as (visitor, place):
        assert "No funding is blocked" in text_of(visitor.get("/console/fundings"))
        block = {"reason": BlockReason.COUNTER_RECONCILIATION.value, "at": to_iso(Clock().now())}
        place.add_property(100, sold=99, auto_invest=4, counters=(97, 4), blocked=block, property_id="quay-1")
        place.add_property(100, sold=50)
        assert "1 blocked" in text_of(visitor.get("/console"))
        page = visitor.get("/console/fundings")
        [row] = HTMLParser(page.text).css("tbody tr")
        cells = [" ".join(cell.text().split()) for cell in row.css("th, td")]
        assert cells[:2] == ["quay-1", "counter-reconciliation"]
        assert cells[3:9] == ["100", "97", "99 ≠differs", "4", "4", "0"]
        [down] = [link for link in links_of(page) if "propertyIds" in link]
        form = HTMLParser(visitor.get(down).text)
        field = form.css_first("textarea[name=propertyIds]")
        assert field is not None
        assert field.text() == "quay-1"
        response = visitor.post(
            "/console/start/funding", page=down, propertyIds="quay-1\nquay-1", what="look"
        )
        [job], _ = visitor.access.jobs.list_jobs(kind=None, state=None, limit=5, before=None)
        assert response.headers["Location"].endswith(job.record.id)
        assert (job.record.kind, job.record.request["propertyIds"]) == ("funding.reconcile", ["quay-1"])
        assert job.record.request["dryRun"] is True


def test_a_property_that_is_not_there_is_told_at_its_field(settings: Settings, funding_database: str) -> None:
    with funding_office(settings, funding_database) as (visitor, _):
        form = "/console/start/funding"
        response = visitor.post(form, page=form, propertyIds="nowhere")
        assert "there is no property nowhere" in text_of(response, 404)
        assert "aria-invalid" in response.text


def test_many_blocked_fundings_are_paged(settings: Settings, funding_database: str) -> None:
    with funding_office(settings, funding_database) as (visitor, place):
        block = {"reason": BlockReason.COUNTER_RECONCILIATION.value, "at": to_iso(Clock().now())}
        names = [place.add_property(10, blocked=block, property_id=f"p-{number:03}") for number in range(55)]
        seen: list[str] = []
        path: str | None = "/console/fundings"
        while path:
            page = HTMLParser(visitor.get(path).text)
            seen += [node.text(strip=True) for node in page.css("tbody th")]
            following = page.css_first("a[rel=next]")
            path = following.attributes["href"] if following else None
        assert seen == names


def test_a_campaign_is_started_and_listed_with_what_it_found(settings: Settings) -> None:
    endpoint = {**SOLANA_ENDPOINT, "url": "https://rpc.example/?api-key=a-secret-of-rpc"}
    settings = make_settings(**{**settings.model_dump(), "solana_endpoints": json.dumps([endpoint])})
    with visitor_of(settings) as visitor:
        visitor.sign_in()
        form = "/console/start/backfill"
        refused = visitor.post(form, page=form, mode="program", address="nonsense", limit="0")
        page = HTMLParser(refused.text)
        assert [node.attributes["name"] for node in page.css("[aria-invalid]")] == ["address", "limit"]
        unknown = visitor.post(form, page=form, mode="program", address=ADDRESS, role="nobody")
        assert "no endpoint has the role nobody" in text_of(unknown, 404)
        started = visitor.post(form, page=form, mode="program", address=ADDRESS, limit="500")
        assert started.status_code == 303
        [job], _ = visitor.access.jobs.list_jobs(kind=None, state=None, limit=5, before=None)
        end(settings, job, {"data": [], "meta": {"persisted": 480, "missing": 20, "stoppedBy": "limit"}})
        words = text_of(visitor.get("/console/campaigns"))
        for part in ("program, before", "480 persisted", "20 missing", "limit", "succeeded"):
            assert part in words
        for path in ("/console/campaigns", form, started.headers["Location"], "/console"):
            assert "a-secret-of-rpc" not in visitor.get(path).text
