// Keeps the parts of a page fresh that say where they come from:
//   <div data-live="/console/..." data-every="2">
// Without this script such pages load themselves anew, or are loaded by hand.
"use strict";

(() => {
  const news = document.getElementById("news");
  let wasSaid = new Map();

  const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

  const seen = () => new Promise((done) => {
    if (!document.hidden) return done();
    document.addEventListener("visibilitychange", function look() {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      done();
    });
  });

  // What changed is said once, to those who listen to the page; never the first sight of it.
  const say = (part) => {
    const words = part.querySelector("[data-news]")?.dataset.news;
    if (words === undefined) return;
    if (wasSaid.has(part) && wasSaid.get(part) !== words) news.textContent = words;
    wasSaid.set(part, words);
  };

  const isBeingRead = (part) => {
    const marked = window.getSelection();
    return marked && !marked.isCollapsed && part.contains(marked.anchorNode);
  };

  // Put in what is new, and leave the reader where they were: focus, and how far tables are scrolled.
  const replace = (part, html) => {
    const held = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const scrolled = [...part.querySelectorAll(".wide")].map((each) => each.scrollLeft);
    part.innerHTML = html;
    part.querySelectorAll(".wide").forEach((each, number) => { each.scrollLeft = scrolled[number] || 0; });
    if (held) [...part.querySelectorAll("a[href]")].find((each) => each.getAttribute("href") === held)?.focus();
  };

  const follow = async (part) => {
    let last = "";
    say(part);
    for (;;) {
      // What is not known yet is asked for sooner than what grows old.
      await pause(Number(part.querySelector("[data-again]")?.dataset.again ?? part.dataset.every));
      await seen();
      let answer, html;
      try {
        answer = await fetch(part.dataset.live, { headers: { "X-Console-Fragment": "1" }, cache: "no-store" });
        html = await answer.text();
      } catch {
        part.classList.add("stale");
        continue;
      }
      if (answer.status === 401) return location.reload();
      part.classList.toggle("stale", !answer.ok && answer.status !== 503);
      if (html === last || isBeingRead(part)) continue;
      last = html;
      replace(part, html);
      say(part);
      if (part.querySelector("[data-final]")) {
        document.querySelectorAll("[data-while-running]").forEach((each) => each.remove());
        return;
      }
    }
  };

  document.querySelectorAll("[data-live]").forEach(follow);
})();
