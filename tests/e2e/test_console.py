"""An operator's work in a real browser, on a running stack: sign in, start, watch, stop, find out why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from devstack.stack import Stack
from tests.e2e.browser import PHONE_WIDTH, Complaints, faint_text, nameless, overflow, started_browser
from tests.operator import DAY, Operator, site, sites
from tests.waiting import wait_until

# The machine may be busy with other tests.
PATIENCE_MS = 30_000
DAY_IN_FORM = f"{DAY:%Y-%m-%dT%H:%M}"
NEXT_DAY_IN_FORM = f"{DAY:%Y-%m}-{DAY.day + 1:02}T00:00"
SLOW = {"route": "^GET https://plain-site", "latency_ms": 700}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with started_browser() as browser:
        yield browser


class Console:
    """The console in one window of the browser."""

    def __init__(self, page: Page, stack: Stack) -> None:
        self.page = page
        self.stack = stack
        self.complaints = Complaints()
        self.complaints.listen(page)

    def open(self, path: str) -> None:
        self.page.goto(f"{self.stack.api_url}{path}")

    def sign_in(self, path: str = "/console") -> None:
        """Come as somebody who does not know the sign-in page, and end where one wanted to go."""
        self.open(path)
        self.page.get_by_label("API key").fill(self.stack.api_key)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page).to_have_url(f"{self.stack.api_url}{path}")

    def start_reconcile(self, *, button: str = "Start") -> None:
        self.page.get_by_role("link", name="Jobs", exact=True).click()
        self.page.get_by_role("link", name="Reconcile tokens").click()
        self.page.get_by_label("From, UTC").fill(DAY_IN_FORM)
        self.page.get_by_label("To, UTC").fill(NEXT_DAY_IN_FORM)
        self.page.get_by_label("Tokens at most").fill("100")
        self.page.get_by_role("button", name=button, exact=True).click()
        expect(self.page.get_by_role("heading", level=1)).to_contain_text("social.reconcile")

    @property
    def job_id(self) -> str:
        return self.page.url.rpartition("/")[2]

    def state(self) -> str:
        return self.page.locator(".state .chip").inner_text()

    def done(self) -> int:
        """How far the page says that the job has come."""
        text = self.page.locator(".state").inner_text()
        found = re.search(r"([0-9]+) of [0-9]+", text)
        return int(found[1]) if found else 0


@contextmanager
def window(browser: Browser, stack: Stack, **how: Any) -> Iterator[Console]:
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **how})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    yield Console(page, stack)
    context.close()


@pytest.fixture
def console(browser: Browser, stack: Stack, operator: Operator) -> Iterator[Console]:
    """Somebody who has signed in; whatever the browser complains about fails the test."""
    with window(browser, stack) as console:
        console.sign_in()
        yield console
        assert console.complaints.lines == []


def test_a_job_is_started_and_watched_to_its_end_without_loading_the_page_again(
    console: Console, operator: Operator
) -> None:
    # Several times as many as the workers take up at once.
    operator.set_tokens(sites(100))
    operator.sandbox.set_faults(SLOW)
    console.start_reconcile()
    console.page.evaluate("window.isTheSamePage = true")
    seen = {console.done()}

    def is_over() -> bool:
        seen.add(console.done())
        return "succeeded" in console.state()

    wait_until(is_over, "the page shows the end of the job", timeout_s=60)
    assert len(seen) > 2, f"the progress moved: {sorted(seen)}"
    assert console.done() == 100
    page = console.page
    assert page.evaluate("window.isTheSamePage") is True
    expect(page.get_by_role("status")).to_have_text("the job has ended: succeeded")
    expect(page.get_by_role("button", name="Cancel this job")).to_have_count(0)
    expect(page.get_by_role("heading", name="Counts")).to_be_visible()
    expect(page.locator("dt", has_text=re.compile("^recorded$")).locator("+ dd")).to_have_text("100")
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_role("listitem").filter(has_text=console_short(operator)).first).to_be_visible()


def console_short(operator: Operator) -> str:
    """How the overview names the newest job."""
    newest = operator.session.get(f"{operator.stack.api_url}/api/v1/jobs?limit=1", timeout=10).json()
    return str(newest["data"][0]["id"])[:8]


def test_a_running_job_is_on_the_first_page_and_can_be_stopped(console: Console, operator: Operator) -> None:
    operator.set_tokens(sites(100))
    operator.sandbox.set_faults({**SLOW, "latency_ms": 1500})
    console.start_reconcile()
    job_id, page = console.job_id, console.page
    page.get_by_role("link", name="Overview").click()
    line = page.get_by_role("list", name="Jobs that run or wait").get_by_role("listitem")
    expect(line.filter(has_text=job_id[:8])).to_contain_text("running")
    line.get_by_role("link", name=job_id[:8]).click()
    page.get_by_role("button", name="Cancel this job").click()
    expect(page.locator(".state .chip")).to_contain_text("cancelled")
    job = operator.ended(job_id)
    assert job["state"] == "cancelled"
    assert job["result"]["meta"]["remaining"] > 0


def test_a_dry_run_shows_what_would_be_done_and_does_nothing(console: Console, operator: Operator) -> None:
    tokens = operator.set_tokens(sites(3))
    console.start_reconcile(button="Look only (dry run)")
    page = console.page
    expect(page.locator(".state .chip")).to_contain_text("succeeded")
    expect(page.get_by_role("row").filter(has_text="planned")).to_have_count(3)
    assert operator.documents(tokens) == {}


def test_a_number_of_the_overview_leads_down_to_the_reason_of_one_url(
    console: Console, operator: Operator
) -> None:
    url = site(1)
    [token] = operator.set_tokens([{"website": url}])
    operator.sandbox.set_faults({"route": f"^GET {url}", "status": 503, "body": "over capacity"})
    operator.run("reconcile")
    page = console.page

    def number_of_errors() -> bool:
        console.open("/console")
        return page.get_by_role("link", name=re.compile("^[0-9]+ error on Web$")).count() == 1

    wait_until(number_of_errors, "the counts know the new URL", timeout_s=60)
    page.get_by_role("link", name=re.compile("^[0-9]+ error on Web$")).click()
    expect(page.get_by_label("Status", exact=True)).to_have_value("error")
    expect(page.get_by_label("Platform", exact=True)).to_have_value("web")
    row = page.get_by_role("row").filter(has_text=url)
    expect(row).to_contain_text("http_503")
    row.get_by_role("link", name=url).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Why this URL has not converged yet")
    expect(page.get_by_role("heading", level=2)).to_contain_text("resting")
    expect(page.locator("dt", has_text="next try").locator("+ dd")).to_contain_text("min")
    operator.sandbox.clear_faults()
    page.get_by_role("link", name="Retry what this token has of error").click()
    expect(page.get_by_label("Only these tokens")).to_have_value(token["tokenAddress"])
    expect(page.get_by_label("error", exact=True)).to_be_checked()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".state .chip")).to_contain_text("succeeded")
    page.get_by_role("link", name=url).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Why this URL is finished")
    page.get_by_role("link", name="Show the object that it leads to").click()
    expect(page.get_by_role("heading", name="Tokens that lead here")).to_be_visible()
    page.get_by_role("searchbox", name="Token address or URL").fill(token["tokenAddress"])
    page.keyboard.press("Enter")
    expect(page.get_by_text(token["tokenAddress"], exact=True)).to_be_visible()


def test_a_key_that_was_changed_ends_the_visit_and_asks_for_the_new_one(
    console: Console, operator: Operator
) -> None:
    """The script sees that the session has ended and shows the way in."""
    operator.set_tokens(sites(40))
    operator.sandbox.set_faults({**SLOW, "latency_ms": 1500})
    console.start_reconcile()
    job_id = console.job_id
    console.page.context.clear_cookies()
    expect(console.page.get_by_label("API key")).to_be_visible()
    operator.session.post(f"{operator.stack.api_url}/api/v1/jobs/{job_id}/cancel", timeout=10)
    operator.ended(job_id)
    # The browser itself notes the refused request.
    [line] = console.complaints.lines
    assert "401" in line
    console.complaints.lines.clear()


PAGES = (
    "/console",
    "/console/jobs",
    "/console/jobs/{job}",
    "/console/urls?status=ok",
    "/console/url?{url}",
    "/console/tokens",
    "/console/tokens/{token}",
    "/console/objects",
    "/console/objects/{object}",
    "/console/campaigns",
    "/console/fundings",
    "/console/start/retry",
    "/console/start/reconcile",
    "/console/start/backfill",
    "/console/find?q=nothing",
)


@pytest.fixture(scope="module")
def places(stack: Stack) -> list[str]:
    """The pages with something on them."""
    operator = Operator(stack)
    [token] = operator.set_tokens(
        [{"website": site(1), "twitter": "https://x.com/i/status/2000000000000000001"}]
    )
    operator.sandbox.set_faults({"route": "x/tweet-result", "status": 503, "body": "over capacity"})
    job = operator.run("reconcile")
    operator.sandbox.clear_faults()
    address = token["tokenAddress"]
    link = operator.database.token_links.find_one({"token_address": address})
    assert link is not None
    values = {
        "job": job["id"],
        "url": f"token={address}&url={link['entry_url']}",
        "token": address,
        "object": f"{link['object']}/{link['object_id']}",
    }
    operator.close()
    return [path.format(**values) for path in PAGES]


def test_what_is_hard_to_read_nameless_or_too_wide_is_noticed(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content(
        "<body style='background: #fff'><p style='color: #999'>faint</p><p style='color: #000'>clear</p>"
        "<button></button><button>named</button><div style='width: 3000px'>wide</div>"
    )
    assert [line.partition(":")[0] for line in faint_text(page)] == ["faint"]
    assert nameless(page) == ["button"]
    assert overflow(page) > 0
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_can_be_read_and_walked_through(
    browser: Browser, stack: Stack, places: list[str], scheme: str
) -> None:
    with window(browser, stack, color_scheme=scheme) as console:
        console.sign_in()
        for path in places:
            console.open(path)
            assert faint_text(console.page) == [], path
            assert nameless(console.page) == [], path
            assert overflow(console.page) <= 0, path
        missing = [line for line in console.complaints.lines if "404" not in line]
        assert missing == []


def test_a_phone_shows_every_page_without_scrolling_sideways(
    browser: Browser, stack: Stack, places: list[str]
) -> None:
    size = {"width": PHONE_WIDTH, "height": 740}
    with window(browser, stack, viewport=size, has_touch=True, is_mobile=True) as console:
        console.sign_in()
        for path in places:
            console.open(path)
            assert overflow(console.page) <= 0, path


def test_the_keyboard_alone_leads_past_the_menu_and_shows_where_it_is(console: Console) -> None:
    page = console.page
    console.open("/console/jobs")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    expect(page.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    first = page.locator("main a, main button, main select").first
    expect(first).to_be_focused()
    assert first.evaluate("node => getComputedStyle(node).outlineStyle") == "solid"


def test_focus_and_marked_text_outlive_the_refreshing_of_a_part(console: Console, operator: Operator) -> None:
    operator.set_tokens(sites(100))
    operator.sandbox.set_faults({**SLOW, "latency_ms": 1500})
    console.start_reconcile()
    job_id, page = console.job_id, console.page
    page.get_by_role("link", name="Overview").click()
    link = page.get_by_role("list", name="Jobs that run or wait").get_by_role("link", name=job_id[:8])
    link.focus()
    before = link.element_handle()
    wait_until(
        lambda: not page.evaluate("node => node.isConnected", before), "the part is refreshed", timeout_s=30
    )
    expect(link).to_be_focused()
    operator.session.post(f"{operator.stack.api_url}/api/v1/jobs/{job_id}/cancel", timeout=10)
    operator.ended(job_id)


def test_everything_reads_and_works_without_javascript(
    browser: Browser, stack: Stack, operator: Operator
) -> None:
    operator.set_tokens(sites(20))
    with window(browser, stack, java_script_enabled=False) as console:
        console.sign_in("/console/jobs")
        console.start_reconcile()
        # The page loads itself anew until the job has ended.
        expect(console.page.locator(".state .chip")).to_contain_text("succeeded", timeout=60_000)
        expect(console.page.locator("dt", has_text=re.compile("^recorded$")).locator("+ dd")).to_have_text(
            "20"
        )
        console.open("/console")
        expect(console.page.locator(".matrix tfoot td").last).not_to_have_text("0")
        console.page.get_by_text("The same as a table").first.click()
        expect(console.page.get_by_role("region", name=re.compile("as a table")).first).to_be_visible()
        console.page.get_by_role("button", name="Sign out").click()
        expect(console.page.get_by_label("API key")).to_be_visible()
