// Where the page has its data from: the control API and its stream of events, or the status on the Redfish port.

const API = "/api/v1";
const SILENCE = 12_000;

class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

class Api {
  #token = sessionStorage.getItem("bmcsim-token") ?? "";

  // askToken: gives the token that a person typed, null for none.
  constructor(askToken) {
    this.askToken = askToken;
  }

  async get(path, query = {}) {
    return this.#send("GET", path + (Object.keys(query).length ? `?${new URLSearchParams(query)}` : ""));
  }

  async post(path, body) {
    return this.#send("POST", path, body);
  }

  async delete(path) {
    return this.#send("DELETE", path, {});
  }

  redfish(id, path) {
    return this.get(`/bmcs/${encodeURIComponent(id)}/redfish`, { path });
  }

  async #send(method, path, body) {
    const headers = {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (this.#token) headers.Authorization = `Bearer ${this.#token}`;
    const response = await fetch(API + path, { method, headers, body: body && JSON.stringify(body), cache: "no-store" });
    if (response.status === 401) {
      const given = await this.askToken(this.#token !== "");
      if (given === null) throw new Refused(401, "A token is needed");
      this.#token = given.token;
      if (given.keep) sessionStorage.setItem("bmcsim-token", given.token);
      return this.#send(method, path, body);
    }
    const answer = response.status === 204 ? null : await response.json();
    if (!response.ok) throw new Refused(response.status, answer.detail ?? response.statusText);
    return answer;
  }
}

// Server-sent events. told: event -> what is called with its data; `connected` is called with whether it is.
class Stream {
  constructor(told) {
    this.told = told;
    this.open();
    setInterval(() => {
      if (this.events.readyState === EventSource.CLOSED || performance.now() - this.last > SILENCE) this.reopen();
    }, 3000);
  }

  open() {
    this.last = performance.now();
    this.events = new EventSource(`${API}/events?topics=fleet,rates,job`);
    this.events.onopen = () => this.told.connected(true);
    this.events.onerror = () => this.told.connected(false);
    for (const name of ["fleet", "delta", "rates", "job"])
      this.events.addEventListener(name, (event) => {
        this.last = performance.now();
        this.told[name](JSON.parse(event.data));
      });
  }

  reopen() {
    this.told.connected(false);
    this.events.close();
    this.open();
  }
}

// Asks for the status now and then, and tells it as the stream would.
class Poll {
  #etag = "";
  #before = null;

  constructor(told) {
    this.told = told;
    this.details = [];
    this.run();
  }

  async run() {
    try {
      const headers = this.#etag ? { "If-None-Match": this.#etag } : {};
      const response = await fetch("/machines/status", { headers, cache: "no-store" });
      if (response.status === 200) {
        this.#etag = response.headers.get("ETag") ?? "";
        this.#tell(await response.json());
      } else if (response.status !== 304) throw new Error(response.statusText);
      this.told.connected(true);
    } catch {
      this.told.connected(false);
    }
    setTimeout(() => this.run(), 5000);
  }

  #tell(status) {
    const all = status.machines.flatMap((one) => [[one, null], ...one.dpus.map((dpu) => [dpu, one])]);
    const now = told(all);
    this.details = all.map(([one]) => one);
    const before = this.#before;
    this.#before = now;
    if (!before || now.columns.id.length !== before.columns.id.length ||
      now.columns.id.some((id, i) => id !== before.columns.id[i])) {
      this.told.fleet(now);
      return;
    }
    const { status: states, address, faults, errors } = now.columns;
    const i = states.flatMap((one, at) =>
      (one !== before.columns.status[at] || address[at] !== before.columns.address[at] ? [at] : []));
    const some = (column) => i.map((at) => column[at]);
    if (i.length)
      this.told.delta({ i, status: some(states), address: some(address), faults: some(faults), errors: some(errors) });
  }
}

// Devices as /machines/status has them -> the columns of the stream.
function told(devices) {
  const tables = { kind: ["host", "dpu", "switch", "power_shelf"], state: ["up", "unpowered", "no_lease"],
    power: ["On", "Off", "PoweringOn", "PoweringOff"], credentials: ["unknown"], group: [], rack: [], hardware: [] };
  const columns = { id: [], mac: [], serial: [], kind: [], group: [], rack: [], position: [], hardware: [], parent: [],
    status: [], address: [], faults: [], errors: [] };
  const place = (table, word) => {
    if (!table.includes(word)) table.push(word);
    return table.indexOf(word);
  };
  let hostAt = -1;
  for (const [device, host] of devices) {
    const ip = device.bmc.ip ?? null;
    const state = ip === null ? 2 : device.mat_state === "BmcInit" ? 1 : 0;
    columns.id.push(device.mat_id);
    columns.mac.push("");
    columns.serial.push(device.machine_id ?? "");
    columns.kind.push(place(tables.kind, device.device_kind === "machine" ? "host" : device.device_kind));
    columns.group.push(place(tables.group, (host ?? device).hardware_type ?? "dpu"));
    columns.rack.push(-1);
    columns.position.push(0);
    columns.hardware.push(place(tables.hardware, device.hardware_type ?? "dpu"));
    if (host === null) hostAt = columns.id.length - 1;
    columns.parent.push(host === null ? -1 : hostAt);
    columns.status.push(state | place(tables.power, device.power_state) << 3);
    columns.address.push(ip);
    columns.faults.push(0);
    columns.errors.push(0);
  }
  return { tables, columns };
}
