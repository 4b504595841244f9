"""A real browser without a window, for tests of pages; and what can be asked of a page in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# A container has neither a graphics card nor, as root, a sandbox; and nothing here may look for the internet.
FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PHONE_WIDTH = 360

# Every text with too little contrast to what is behind it, by WCAG 2.2, 1.4.3: 4.5 to 1, large text 3 to 1.
_FAINT_TEXT = """
() => {
  const channels = (text) => {
    const numbers = text.match(/-?[\\d.]+(e-?\\d+)?/g).map(Number);
    const scale = text.startsWith("color(") ? 255 : 1;
    const [r, g, b] = numbers.slice(0, 3).map((each) => each * scale);
    return [r, g, b, numbers.length > 3 ? numbers[3] : 1];
  };
  const over = ([r, g, b, a], below) => [...[r, g, b].map((each, n) => each * a + below[n] * (1 - a)), 1];
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((each) => {
      const c = each / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (node) => {
    const layers = [];
    for (let each = node; each; each = each.parentElement) {
      layers.push(channels(getComputedStyle(each).backgroundColor));
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement, style = getComputedStyle(node);
    const isSeen = node.checkVisibility() && !node.closest(".unseen, :disabled, svg, script");
    if (!text.data.trim() || !isSeen) continue;
    const ground = behind(node), ink = over(channels(style.color), ground);
    const [light, dark] = [luminance(ink), luminance(ground)].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const ratio = (light + 0.05) / (dark + 0.05);
    if (ratio < (isLarge ? 3 : 4.5)) faint.push(`${text.data.trim()}: ${ratio.toFixed(2)}`);
  }
  return faint;
}
"""
_WIDTHS = "() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
_NAMED_ROLES = frozenset(
    (
        "button",
        "checkbox",
        "combobox",
        "img",
        "link",
        "listbox",
        "progressbar",
        "searchbox",
        "spinbutton",
        "textbox",
    )
)


@contextmanager
def started_browser() -> Iterator[Browser]:
    """The browser of this machine; the test is skipped where there is none."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(
            f"no browser is installed; on Debian: apt-get install chromium ({', '.join(NAMES)} tried)"
        )
    flags = [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else FLAGS
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


@dataclass
class Complaints:
    """What the browser says against a page: what the policy refused, errors in scripts, lost files."""

    lines: list[str] = field(default_factory=list)

    def listen(self, page: Page) -> None:
        """Note what is said from now on."""
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.lines.append(str(error)))

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.lines.append(message.text)


def faint_text(page: Page) -> list[str]:
    """Texts of the page that are hard to read."""
    found: list[str] = page.evaluate(_FAINT_TEXT)
    return found


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    content, window = page.evaluate(_WIDTHS)
    return int(content - window)


def nameless(page: Page) -> list[str]:
    """Controls and pictures of the page that have no name for those who listen to it."""
    session = page.context.new_cdp_session(page)
    try:
        nodes: list[dict[str, Any]] = session.send("Accessibility.getFullAXTree")["nodes"]
    finally:
        session.detach()
    return [
        str(node["role"]["value"])
        for node in nodes
        if not node.get("ignored")
        and node.get("role", {}).get("value") in _NAMED_ROLES
        and not str(node.get("name", {}).get("value", "")).strip()
    ]


__all__ = [
    "PHONE_WIDTH",
    "Complaints",
    "Error",
    "faint_text",
    "nameless",
    "overflow",
    "started_browser",
]
