"use strict";
(() => {
  let last = document.getElementById("charts").textContent;

  // Text comes from the server as HTML in which everything is escaped.
  async function follow() {
    const contact = document.getElementById("contact");
    try {
      const state = await (await fetch("state")).json();
      for (const [name, html] of Object.entries(state.parts)) {
        const place = document.getElementById(`part-${name}`);
        if (place.dataset.shown !== html) {
          place.innerHTML = html;
          place.dataset.shown = html;
        }
      }
      const charts = JSON.stringify(state.charts);
      if (charts !== last) {
        last = charts;
        for (const name of Object.keys(state.charts)) document.getElementById(`figure-${name}`).hidden = false;
        document.dispatchEvent(new CustomEvent("charts", { detail: state.charts }));
      }
      document.title = state.title;
      contact.textContent = "";
    } catch {
      contact.textContent = "The server does not answer any more.";
    }
    document.documentElement.dataset.follows = "yes";
    setTimeout(follow, 2000);
  }

  setTimeout(follow, 1000);
})();
