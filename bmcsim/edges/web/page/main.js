// What is on the page, and how it hangs together.

const $ = (id) => document.getElementById(id);
const facts = JSON.parse($("facts").textContent);
const control = facts.mode === "control";
const TEN_MINUTES = 600_000;
const ROWS = 100;
const SMALL = 50;

const fleet = new Fleet();
let filter = new Filter("");
let test = () => true;
let matching = [];

const api = control ? new Api(askToken) : null;
const grid = new Grid($("grid"), $("tip"), { opens, picks, focused: (i) => say(fleet.describe(i)) });
const panel = new Panel($("panel"), api, facts.presets, {
  opens: (id) => fleet.places.has(id) && opens(fleet.places.get(id)),
  does: (item, id) => does(item, { ids: [id] }, 1, id),
  closed: () => {
    document.body.classList.remove("with-panel");
    grid.select(-1);
    if (!$("grid").hidden) $("grid").focus({ preventScroll: true });
  },
});

function say(text) {
  $("live").textContent = text;
}

// the fleet

function opens(i) {
  if (i < 0) return;
  document.body.classList.add("with-panel");
  grid.select(i);
  panel.open(fleet.id(i), source.details?.[i]);
  panel.chip(fleet, i);
}

function picks(words) {
  $("search").value = words;
  search();
}

function loaded(columns) {
  const open = panel.id;
  fleet.load(columns);
  grid.show(fleet);
  grid.select(open !== null ? fleet.places.get(open) ?? -1 : -1);
  if (open !== null && !fleet.places.has(open)) panel.close();
  const racks = fleet.tables.rack.length;
  $("summary").textContent = `${counted(fleet.size, "BMC")}${racks ? ` in ${counted(racks, "rack")}` : ""}`;
  $("grid").setAttribute("aria-label", `The fleet, ${counted(fleet.size, "BMC")}`);
  // A small fleet has room for both.
  const small = fleet.size <= SMALL;
  if (small || $("list-toggle").hidden) {
    $("list-toggle").hidden = small;
    $("list").hidden = !small;
  }
  search();
  performance.mark("fleet");
}

function changed(delta) {
  const places = fleet.apply(delta);
  for (const i of places) grid.matching[i] = test(i) ? 1 : 0;
  grid.changed(places);
  later(recount);
  const open = panel.id === null ? -1 : fleet.places.get(panel.id);
  if (places.includes(open)) {
    panel.chip(fleet, open);
    panel.changed();
  }
}

const waiting = new Set();

// Once in the next frame, however often it is asked for.
function later(what) {
  if (!waiting.size) requestAnimationFrame(() => {
    const all = [...waiting];
    waiting.clear();
    for (const one of all) one();
  });
  waiting.add(what);
}

function recount() {
  matching = [];
  for (let i = 0; i < fleet.size; i++) if (grid.matching[i]) matching.push(i);
  const all = fleet.size.toLocaleString("en");
  $("matches").textContent = filter.empty ? `All ${all}` : `${matching.length.toLocaleString("en")} of ${all}`;
  legend();
  list();
}

// search

function search() {
  const text = $("search").value;
  try {
    filter = new Filter(text);
    $("search-error").hidden = true;
  } catch (error) {
    $("search-error").textContent = error.message;
    $("search-error").hidden = false;
    return;
  }
  test = filter.test(fleet);
  grid.filter(test);
  page = 0;
  later(recount);
}

// Put words into the search in the place of others about the same, or take them out.
function toggle(words) {
  const names = words.split(" ").map((one) => one.split(":")[0]);
  const about = names.includes("state") ? ["state", "power"] : names;
  const tokens = [...$("search").value.matchAll(TOKEN)].map((one) => one[0]);
  const there = words.split(" ").every((one) => tokens.includes(one));
  const kept = tokens.filter((one) => !about.includes(one.split(":")[0]));
  $("search").value = [...kept, ...there ? [] : [words]].join(" ");
  search();
}

function legend() {
  const items = grid.items(), counts = new Array(items.length).fill(0);
  let faulty = 0;
  for (let i = 0; i < fleet.size; i++) {
    counts[grid.view.of(fleet, i)]++;
    if (fleet.faults[i]) faulty++;
  }
  const text = $("search").value;
  const all = [...items.map((item, at) => ({ ...item, count: counts[at] })),
    ...control ? [{ name: "With faults", words: "faults:yes", color: "--fault", count: faulty }] : []];
  const wanted = all.filter(({ count, words }) => count || text.includes(words));
  const buttons = [...$("legend").children];
  // The buttons stay as long as they mean the same, so that none loses the focus.
  if (buttons.map((one) => one.dataset.words).join("\n") !== wanted.map((one) => one.words).join("\n"))
    $("legend").replaceChildren(...wanted.map((item) => {
      const key = h("i", { class: "key" });
      key.style.background = `var(${item.color})`;
      const button = h("button", { type: "button", onclick: () => toggle(item.words) }, key, `${item.name} `, h("b", {}));
      button.dataset.words = item.words;
      return button;
    }));
  wanted.forEach(({ words, count }, at) => {
    const button = $("legend").children[at];
    button.lastChild.textContent = count.toLocaleString("en");
    button.setAttribute("aria-pressed", words.split(" ").every((one) => text.includes(one)));
  });
}

// the list

let page = 0;

function list() {
  const place = $("list");
  if (place.hidden) return;
  const pages = Math.max(1, Math.ceil(matching.length / ROWS));
  page = Math.min(page, pages - 1);
  const rows = matching.slice(page * ROWS, (page + 1) * ROWS).map((i) => {
    const key = h("i", { class: "key" }), look = lookOf(fleet, i);
    key.style.background = `var(${look.color})`;
    return [h("button", { type: "button", class: "link", onclick: () => opens(i) }, fleet.id(i)),
      h("span", {}, key, look.name), fleet.address[i] ?? "none", fleet.word("hardware", i),
      fleet.word("rack", i) || fleet.word("group", i), fleet.credentials(i), fleet.faults[i] || "", fleet.errors[i] || ""];
  });
  const turn = (step, name) => h("button", { type: "button", disabled: page + step < 0 || page + step >= pages,
    onclick: () => { page += step; list(); } }, name);
  const focus = place.contains(document.activeElement) ? document.activeElement.textContent : null;
  place.replaceChildren(...[
    h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "BMCs that match" },
      table("BMCs that match", ["BMC", "State", "Address", "Hardware", "Where", "Password", "Faults", "Errors"], rows)),
    pages > 1 && h("div", { class: "line" }, turn(-1, "Previous"), h("span", {}, `Page ${page + 1} of ${pages.toLocaleString("en")}`), turn(1, "Next"))].filter((one) => one));
  if (focus !== null) [...place.querySelectorAll("button")].find((one) => one.textContent === focus)?.focus({ preventScroll: true });
}

function showList(shown) {
  $("list").hidden = !shown;
  $("grid").hidden = shown;
  $("list-toggle").setAttribute("aria-pressed", shown);
  if (shown) list();
  else grid.layout();
}

// operations

async function does(item, selection, count, who) {
  const text = `${item.name}: ${who}?`;
  if (!await ask(text, item.title ?? (count > 1 ? "It is done to one after the other; you see how far it is." : ""), item.name)) return;
  const card = job(null, `${item.name}, ${who}`);
  try {
    const order = Object.keys(selection).length ? { selection } : { all: true };
    const started = await api.post("/operations", { ...order, operation: item.operation });
    card.follow(started.id);
  } catch (error) {
    card.end(`Refused: ${error.message}`, true);
  }
}

function bulk(item) {
  if (!matching.length) return say("No BMC matches");
  const who = filter.empty ? `all ${counted(fleet.size, "BMC")}` : counted(matching.length, "BMC");
  return does(item, filter.empty ? {} : filter.selection(fleet, matching), matching.length, who);
}

const cards = new Map();

// The card of a job; `title` is what it does.
function job(id, title) {
  const bar = h("progress", { max: 1, value: 0, "aria-label": title }), said = h("span", { class: "faint" }, "Asking");
  const cancels = h("button", { type: "button", class: "quiet", "aria-label": "Cancel", hidden: true }, "✕");
  const head = h("b", {}, title);
  const element = h("div", { class: "card job" }, head, cancels, bar, said);
  const card = {
    follow(given) {
      cards.set(given, card);
      cancels.hidden = false;
      cancels.onclick = () => api.delete(`/jobs/${given}`);
      const check = async () => {
        if (card.over) return;
        const now = await api.get(`/jobs/${given}`).catch(() => null);
        if (now && id !== null) head.textContent = `Job ${given}: ${now.operation.type.replaceAll("_", " ")}`;
        if (now) card.told(now);
        // The stream tells how far it is; this is for when it does not.
        setTimeout(check, 2000);
      };
      setTimeout(check, 300);
    },
    async told({ id: number, state, total, done, failed, skipped, progress, reasons }) {
      if (card.over) return;
      bar.value = progress;
      said.textContent = `${(done + failed + skipped).toLocaleString("en")} of ${total.toLocaleString("en")}`;
      if (state === "running") return;
      card.over = true;
      const why = reasons ?? (failed + skipped ? (await api.get(`/jobs/${number}`)).reasons : []);
      const parts = [`${done.toLocaleString("en")} done`, failed && `${failed} failed`, skipped && `${skipped} skipped`,
        state === "cancelled" && "cancelled"].filter((part) => part);
      card.end([parts.join(", "), ...why.slice(0, 3).map((one) => `${one.count} ${one.outcome}: ${one.reason}`)].join(". "), failed > 0);
    },
    end(text, bad) {
      card.over = true;
      said.textContent = text;
      element.classList.toggle("bad", bad);
      bar.hidden = true;
      cancels.hidden = false;
      cancels.setAttribute("aria-label", "Dismiss");
      cancels.onclick = () => element.remove();
      if (!bad) setTimeout(() => element.remove(), 8000);
      panel.refresh?.();
    },
  };
  $("jobs").append(element);
  if (id !== null) card.follow(id);
  return card;
}

function jobTold(event) {
  const card = cards.get(event.id) ?? (event.state === "running" ? job(event.id, `Job ${event.id}`) : null);
  card?.told(event);
}

// dialogs

function dialog(content) {
  const box = $("ask");
  box.replaceChildren(...content((value) => box.close(value)));
  box.setAttribute("aria-label", box.firstElementChild.textContent);
  box.returnValue = "";
  box.showModal();
  box.querySelector("input, .primary").focus();
  return new Promise((resolve) => box.addEventListener("close", () => resolve(box.returnValue), { once: true }));
}

async function ask(title, text, confirm) {
  return await dialog((close) => [h("h2", {}, title), text ? h("p", {}, text) : "", h("div", { class: "line end" },
    h("button", { type: "button", onclick: () => close("") }, "Cancel"),
    h("button", { type: "button", class: "primary", onclick: () => close("yes") }, confirm))]) === "yes";
}

// The token of the listener; null for none.
async function askToken(again) {
  const input = h("input", { type: "password", autocomplete: "off", "aria-label": "Token", required: true });
  const keep = h("input", { type: "checkbox" });
  const given = await dialog((close) => [h("h2", {}, "Changes need the token"),
    h("p", {}, again ? "This token was refused." : "It is in the file of --token-file, or was printed when bmcsim started."),
    h("form", { onsubmit: (event) => { event.preventDefault(); close("yes"); } }, input,
      h("label", { class: "line" }, keep, "Keep it until this tab is closed"),
      h("div", { class: "line end" }, h("button", { type: "button", onclick: () => close("") }, "Cancel"),
        h("button", { type: "submit", class: "primary" }, "Use it")))]);
  return given === "yes" && input.value ? { token: input.value.trim(), keep: keep.checked } : null;
}

// charts of requests

const charts = control ? [
  [new Chart("Requests/s", [{ name: "", color: "--accent", filled: true }], short, TEN_MINUTES), (one) => [one.requests]],
  [new Chart("Latency", [{ name: "p50", color: "--accent" }, { name: "p99", color: "--resetting" }], seconds, TEN_MINUTES),
    (one) => [one.p50, one.p99]],
  [new Chart("Errors/s", [{ name: "failed", color: "--fault" }, { name: "dropped", color: "--homeless" }], short, TEN_MINUTES),
    (one) => [one.errors, one.dropped]],
] : [];
$("rates").append(...charts.map(([chart]) => chart.element));

// what a person does

function connected(there) {
  $("connection").textContent = there ? "Live" : "Connection lost, trying again";
  $("connection").className = there ? "pill good" : "pill bad";
}

const view = $("view");
view.append(...(control ? Object.entries(VIEWS) : [["state", VIEWS.state], ["hardware", VIEWS.hardware]])
  .map(([value, { name }]) => h("option", { value }, name)));
view.addEventListener("change", () => {
  grid.view = VIEWS[view.value];
  grid.draw();
  recount();
});
$("search").addEventListener("input", search);
$("search").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" && event.key !== "ArrowDown") return;
  recount();
  if (matching.length) {
    grid.at = matching.reduce((first, i) => (grid.rank[i] < grid.rank[first] ? i : first));
    $("grid").focus();
  }
  event.preventDefault();
});
$("list-toggle").addEventListener("click", () => showList($("list").hidden));
if (control) $("bulk").append(...operations(facts.presets, bulk));
else $("bulk").remove();

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "/" && !typing && !$("ask").open) {
    $("search").focus();
    $("search").select();
    event.preventDefault();
  } else if (event.key === "Escape" && !event.defaultPrevented && !$("ask").open && !document.querySelector(":popover-open")) panel.close();
});

function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
  colors.forget();
  grid.draw();
  for (const [chart] of charts) chart.draw();
}

const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => theme());
$("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  localStorage.setItem("bmcsim-theme", next);
  theme(next);
});
theme(localStorage.getItem("bmcsim-theme"));

const hears = {
  connected,
  fleet: loaded,
  delta: changed,
  job: jobTold,
  rates: (one) => charts.forEach(([chart, values]) => chart.add(Date.parse(one.time), values(one))),
};
const source = control ? new Stream(hears) : new Poll(hears);
