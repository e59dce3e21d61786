// One BMC: what it is, why clients fail at it, its sensors, logs, requests and resources, and what can be done to it.

const REFRESH = 5000;
const SENSOR_SPAN = 300_000;

const POWER = [
  ["On", "Power on"], ["GracefulShutdown", "Shut down"], ["ForceOff", "Force off"], ["GracefulRestart", "Restart"],
  ["ForceRestart", "Force restart"], ["PowerCycle", "Power cycle"], ["FullPowerCycle", "Mains power off and on"],
].map(([reset, name]) => ({ name, operation: { type: "power", reset } }));
const BMC = [
  { name: "Reset the BMC", operation: { type: "bmc_reset" } },
  { name: "Back to factory password", operation: { type: "set_password", factory: true } },
  { name: "Factory reset", operation: { type: "factory_reset", keep: "ResetAll" } },
];

// Buttons with menus of all operations. does: called with one of them.
function operations(presets, does) {
  const faults = [
    { name: "Clear all faults", operation: { type: "faults", clear: true } },
    ...presets.map(([preset, title]) => (
      { name: preset.replaceAll("_", " "), title, operation: { type: "faults", add: [preset] } })),
  ];
  return [menu("Power", POWER, does), menu("BMC", BMC, does), menu("Faults", faults, does)];
}

function menu(name, items, does) {
  const list = h("div", { popover: "auto", class: "menu", role: "menu", "aria-label": name });
  const button = h("button", { type: "button", class: "drops", "aria-haspopup": "menu", popoverTargetElement: list }, name);
  list.append(...items.map((item) => h("button", {
    type: "button", role: "menuitem", onclick: () => { list.hidePopover(); does(item); },
  }, item.name, item.title && h("small", {}, item.title))));
  // Not before: what comes into a document with this asks for the focus at once.
  list.addEventListener("beforetoggle", () => { list.firstElementChild.autofocus = true; });
  list.addEventListener("toggle", (event) => {
    if (event.newState !== "open") return;
    const at = button.getBoundingClientRect(), { offsetWidth: wide, offsetHeight: high } = list;
    const below = at.bottom + high + 8 < innerHeight;
    list.style.left = `${Math.max(8, Math.min(at.left, innerWidth - wide - 8))}px`;
    list.style.top = `${below ? at.bottom + 4 : Math.max(8, innerHeight - high - 8)}px`;
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const all = [...list.children];
    all[(all.indexOf(document.activeElement) + step + all.length) % all.length].focus();
    event.preventDefault();
  });
  return h("span", {}, button, list);
}

class Panel {
  // api: null where there is nothing but the status. opens: an id of another BMC; does: (item, id).
  constructor(element, api, presets, { opens, does, closed }) {
    Object.assign(this, { element, api, presets, opens, does, closed });
    this.id = null;
  }

  get isOpen() { return this.id !== null; }

  open(id, raw = null) {
    this.stop();
    this.id = id;
    this.tab = this.tab ?? "Overview";
    this.title = h("h2", { tabindex: "-1" }, id);
    this.chips = h("div", { class: "chips" });
    this.body = h("div", { class: "body", role: "tabpanel", tabindex: "0" });
    const close = h("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: () => this.close() }, "✕");
    this.element.replaceChildren(h("div", { class: "head" }, this.title, close), this.chips);
    this.element.setAttribute("aria-label", `BMC ${id}`);
    this.element.hidden = false;
    if (this.api) this.#full();
    else {
      this.body = h("div", { class: "body" }, h("pre", { class: "json", tabindex: "0", "aria-label": "Status" }, ...rendered(raw, "", () => {})));
      this.element.append(this.body);
    }
    this.title.focus({ preventScroll: true });
  }

  close() {
    if (!this.isOpen) return;
    this.stop();
    this.id = null;
    this.element.hidden = true;
    this.element.replaceChildren();
    this.closed();
  }

  stop() {
    clearInterval(this.timer);
    this.number = (this.number ?? 0) + 1;
  }

  #full() {
    this.element.append(h("div", { class: "actions", role: "group", "aria-label": "Do to this BMC" },
      ...operations(this.presets, (item) => this.does(item, this.id))));
    const tabs = { Overview: () => this.#overview(), Sensors: () => this.#sensors(), Log: () => this.#log(),
      Requests: () => this.#requests(), Redfish: () => this.#redfish() };
    const list = h("div", { role: "tablist", "aria-label": "About this BMC" });
    const show = (name, focus) => {
      this.stop();
      this.tab = name;
      for (const button of list.children) {
        const own = button.textContent === name;
        button.setAttribute("aria-selected", own);
        button.tabIndex = own ? 0 : -1;
        if (own && focus) button.focus();
      }
      this.body.setAttribute("aria-label", name);
      this.body.replaceChildren(h("p", { class: "faint" }, "Reading"));
      tabs[name]();
    };
    list.append(...Object.keys(tabs).map((name) => h("button", { type: "button", role: "tab", onclick: () => show(name) }, name)));
    list.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], names = Object.keys(tabs);
      if (step) show(names[(names.indexOf(this.tab) + step + names.length) % names.length], true);
    });
    this.element.append(list, this.body);
    show(this.tab);
  }

  // Say what the fleet knows of it.
  chip(fleet, i) {
    const look = lookOf(fleet, i), dot = h("i", { class: "key" });
    dot.style.background = `var(${look.color})`;
    this.chips.replaceChildren(h("span", { class: "pill" }, dot, look.name), h("span", { class: "pill" }, fleet.address[i] ?? "no address"),
      fleet.faults[i] ? h("span", { class: "pill bad" }, counted(fleet.faults[i], "fault rule")) : "");
  }

  // It has changed.
  changed() {
    if (this.tab === "Overview" && this.api) this.refresh?.();
  }

  // Fill the body with what `read` gives, now and then again, as long as this tab is there.
  #keep(read) {
    const { number } = this;
    let busy = false;
    this.refresh = async () => {
      if (busy || document.hidden || this.number !== number) return;
      busy = true;
      try {
        const nodes = await read();
        if (nodes && this.number === number) this.body.replaceChildren(...nodes);
      } catch (error) {
        if (this.number === number) this.body.replaceChildren(h("p", { class: "faint" }, String(error.message)));
      }
      busy = false;
    };
    this.refresh();
    this.timer = setInterval(this.refresh, REFRESH);
  }

  #url(rest = "") {
    return `/bmcs/${encodeURIComponent(this.id)}${rest}`;
  }

  #overview() {
    this.#keep(async () => {
      const [bmc, why] = await Promise.all([this.api.get(this.#url()), this.api.get(this.#url("/why"))]);
      const link = (id) => h("button", { type: "button", class: "link", onclick: () => this.opens(id) }, id);
      const links = (ids) => ids.flatMap((id, at) => [at ? ", " : "", link(id)]);
      const accounts = bmc.accounts.map((one) => `${one.user}: ${one.generation} password${one.locked ? ", locked" : ""}` +
        `${one.change_required ? ", to be changed first" : ""}`);
      const facts = [
        ["Hardware", `${bmc.title} (${bmc.hardware})`],
        ["State", bmc.state], ["Power", `${bmc.power}${bmc.boot_progress && bmc.boot_progress !== "None" ? `, ${bmc.boot_progress}` : ""}`],
        ["Address", bmc.address ?? "none"], ["MAC", bmc.mac], ["Serial number", bmc.serial],
        ["Accounts", accounts.join("; ")], ["Group", bmc.group],
        ["Rack", bmc.rack && `${bmc.rack}${bmc.position ? `, position ${bmc.position}` : ""}`],
        ["Host", bmc.parent && link(bmc.parent)],
        ["DPUs", bmc.children.length ? links(bmc.children) : null],
        ["Last contact", bmc.last_contact ? clockTime(bmc.last_contact) : "never"],
        ["Requests", `${bmc.requests.toLocaleString("en")}, ${counted(bmc.errors, "error")}`],
        ["Timers", bmc.timers.map((one) => `${one.name} ${one.seconds.toFixed(0)} s`).join(", ")],
        ["Faults", bmc.fault_rules.map((one) => one.rule.id).join(", ")],
        ["BMC firmware", bmc.firmware.bmc],
      ];
      return [
        h("h3", {}, "Why"), ...findings(why),
        h("h3", {}, "Facts"),
        h("dl", {}, ...facts.filter(([, value]) => value && value.length !== 0).flatMap(([name, value]) => [
          h("dt", {}, name), h("dd", {}, ...[value].flat())])),
      ];
    });
  }

  #sensors() {
    const charts = new Map();
    const groups = h("div", {});
    let chassis = null;
    this.#keep(async () => {
      chassis ??= await this.#withSensors();
      const sensors = (await Promise.all(chassis.map((uri) => this.#readings(uri)))).flat();
      const now = Date.now();
      for (const sensor of sensors) {
        const uri = sensor["@odata.id"];
        if (!charts.has(uri)) {
          const chart = this.#chart(sensor);
          charts.set(uri, chart);
          sectionOf(groups, sensor.ReadingType ?? "Other").append(chart.element);
        }
        charts.get(uri).add(now, [typeof sensor.Reading === "number" ? sensor.Reading : null]);
      }
      return charts.size ? [groups] : [h("p", { class: "faint" }, "It has no sensors.")];
    });
  }

  #chart(sensor) {
    const unit = { Cel: "°C", "%": "%", "RPM": "rpm", "{rev}/min": "rpm" }[sensor.ReadingUnits] ?? sensor.ReadingUnits ?? "";
    const value = sensor.Reading ?? 0, spread = Math.max(Math.abs(value) * 0.03, 0.5);
    return new Chart(sensor.Name ?? sensor.Id, [{ name: "", color: "--accent" }], (one) => `${short(one)} ${unit}`, SENSOR_SPAN,
      { height: 40, band: [value - spread, value + spread] });
  }

  async #withSensors() {
    const { Members: members } = await this.api.redfish(this.id, "/redfish/v1/Chassis");
    const all = await Promise.all(members.map((one) => this.api.redfish(this.id, one["@odata.id"])));
    return all.flatMap((one) => (one.Sensors ? [one.Sensors["@odata.id"]] : []));
  }

  // All sensors of a collection in one request, or one by one where the BMC does not expand.
  async #readings(uri) {
    const { Members: members } = await this.api.redfish(this.id, `${uri}?$expand=.($levels=1)`)
      .catch(() => this.api.redfish(this.id, uri));
    return Promise.all(members.map((one) => ("Name" in one ? one : this.api.redfish(this.id, one["@odata.id"]))));
  }

  #log() {
    let logs = null;
    this.#keep(async () => {
      logs ??= await this.#logs();
      const read = await Promise.all(logs.map((uri) => this.api.redfish(this.id, `${uri}/Entries`).catch(() => ({}))));
      const entries = read.flatMap((one, at) => (one.Members ?? []).map((entry) => ({ entry, log: logs[at].split("/").at(-1) })));
      entries.sort((a, b) => String(b.entry.Created ?? "").localeCompare(String(a.entry.Created ?? "")) || Number(b.entry.Id) - Number(a.entry.Id));
      return [table("Events", ["Time", "Log", "Severity", "Message"], entries.slice(0, 200).map(({ entry, log }) => [
        clockTime(entry.Created), log, entry.Severity ?? "", entry.Message ?? ""]))];
    });
  }

  async #logs() {
    const found = [];
    for (const name of ["Systems", "Managers", "Chassis"]) {
      const { Members: members } = await this.api.redfish(this.id, `/redfish/v1/${name}`).catch(() => ({ Members: [] }));
      for (const member of members) {
        const { LogServices: logs } = await this.api.redfish(this.id, member["@odata.id"]);
        if (logs) found.push(...(await this.api.redfish(this.id, logs["@odata.id"])).Members.map((one) => one["@odata.id"]));
      }
    }
    return found;
  }

  #requests() {
    this.#keep(async () => {
      const { recorded, items } = await this.api.get(this.#url("/requests"), { limit: 100 });
      const note = recorded ? "All requests are recorded." : "Requests that simply went well are counted only; these did not.";
      return [h("p", { class: "faint" }, note), table("Requests", ["Time", "Request", "Status", "Outcome", "Who"],
        items.reverse().map((one) => [clockTime(one.time), `${one.method} ${one.path}`, one.status || "none",
          one.outcome.replaceAll("_", " ") + (one.faults.length ? ` (${one.faults.join(", ")})` : ""),
          [one.user, one.credential, one.client].filter((part) => part).join(" ")]))];
    });
  }

  #redfish() {
    const { id } = this;
    this.body.replaceChildren(new Browser((uri) => this.api.redfish(id, uri)).element);
  }
}

function findings(why) {
  if (!why.findings.length) return [h("p", { class: "faint" }, "Nothing went wrong lately.")];
  return why.findings.map((one) => h("div", { class: one.standing ? "finding" : "finding over" },
    h("b", {}, one.name.replaceAll("_", " ")), one.code !== null && h("span", { class: "pill" }, `NICo ${one.code}`),
    !one.standing && h("span", { class: "pill" }, "over"), h("p", {}, one.text), h("p", { class: "faint" }, one.advice)));
}

function sectionOf(parent, name) {
  let section = [...parent.children].find((one) => one.dataset.name === name);
  if (!section) {
    section = h("section", { class: "sensors" }, h("h3", {}, name));
    section.dataset.name = name;
    parent.append(section);
  }
  return section;
}

function table(caption, heads, rows) {
  if (!rows.length) return h("p", { class: "faint" }, "None.");
  return h("table", {}, h("caption", { class: "hidden" }, caption),
    h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", {}, cell instanceof Node ? cell : String(cell)))))));
}

function clockTime(text) {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return text ?? "";
  const time = date.toLocaleTimeString("en-GB");
  return date.toDateString() === new Date().toDateString() ? time : `${date.toISOString().slice(0, 10)} ${time}`;
}
