// Shows a stretch of the timeline in words while it is pointed at; a click or a
// tap keeps the words until the next one, or Escape.
(function () {
  "use strict";
  var tip = document.getElementById("tip"), pinned = null;

  // The titles move into attributes, else the browser shows its own tip as well.
  document.querySelectorAll("[data-stretch]").forEach(function (el) {
    var title = el.querySelector("title");
    if (title) {
      el.setAttribute("data-words", title.textContent);
      title.remove();
    }
  });

  function show(el, x, y) {
    tip.textContent = el.getAttribute("data-words");
    tip.hidden = false;
    var w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - w - 8)) + "px";
    tip.style.top = (y + h + 24 > innerHeight ? Math.max(8, y - h - 12) : y + 16) + "px";
  }

  function release() {
    if (pinned) pinned.classList.remove("pinned");
    pinned = null;
    tip.hidden = true;
  }

  function stretch(event) {
    return event.target.closest ? event.target.closest("[data-words]") : null;
  }

  document.addEventListener("pointermove", function (event) {
    if (pinned) return;
    var el = stretch(event);
    if (el) show(el, event.clientX, event.clientY); else tip.hidden = true;
  });
  document.addEventListener("click", function (event) {
    var el = stretch(event), again = el && el === pinned;
    release();
    if (!el || again) return;
    pinned = el;
    el.classList.add("pinned");
    show(el, event.clientX, event.clientY);
  });
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape") release();
  });
  document.addEventListener("scroll", release, { passive: true });

  // Paper has no way to open what is folded.
  addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (el) { el.open = true; });
  });
})();
