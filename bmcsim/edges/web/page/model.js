// What is known of the fleet, in columns as the server tells it; and the words by which some of it is meant.

const PRESENT = ["group", "rack", "hardware", "kind"];

class Fleet {
  constructor() {
    this.load({ tables: { kind: [], state: [], power: [], credentials: [], group: [], rack: [], hardware: [] },
      columns: { id: [], mac: [], serial: [], kind: [], group: [], rack: [], position: [], hardware: [], parent: [],
        status: [], address: [], faults: [], errors: [] } });
  }

  load({ tables, columns }) {
    this.tables = tables;
    this.columns = columns;
    this.size = columns.id.length;
    this.status = Uint16Array.from(columns.status);
    this.faults = Uint16Array.from(columns.faults);
    this.errors = Uint32Array.from(columns.errors);
    this.address = columns.address;
    this.texts = columns.id.map((_, i) => this.textOf(i));
    this.places = new Map(columns.id.map((id, i) => [id, i]));
  }

  // New values of some BMCs; the places of those that are there.
  apply(delta) {
    const places = [];
    delta.i.forEach((i, at) => {
      if (i >= this.size) return;
      this.status[i] = delta.status[at];
      this.faults[i] = delta.faults[at];
      this.errors[i] = delta.errors[at];
      if (this.address[i] !== delta.address[at]) {
        this.address[i] = delta.address[at];
        this.texts[i] = this.textOf(i);
      }
      places.push(i);
    });
    return places;
  }

  // What a free text is looked for in.
  textOf(i) {
    const { id, mac, serial } = this.columns;
    return `${id[i]}\n${this.address[i] ?? ""}\n${mac[i]}\n${mac[i].replaceAll(":", "")}\n${serial[i]}`.toLowerCase();
  }

  id(i) { return this.columns.id[i]; }
  state(i) { return this.tables.state[this.status[i] & 7]; }
  power(i) { return this.tables.power[this.status[i] >> 3 & 7]; }
  credentials(i) { return this.tables.credentials[this.status[i] >> 6]; }
  word(name, i) { return this.tables[name][this.columns[name][i]] ?? ""; }

  describe(i) {
    const where = this.word("rack", i) || this.word("group", i);
    const faults = this.faults[i] ? `, ${counted(this.faults[i], "fault rule")}` : "";
    const errors = this.errors[i] ? `, ${counted(this.errors[i], "error")}` : "";
    return `${this.id(i)}, ${this.word("kind", i).replace("_", " ")} in ${where}, ${lookOf(this, i).name},` +
      ` ${this.address[i] ?? "no address"}, ${this.credentials(i)} password${faults}${errors}`;
  }
}

function counted(count, what) {
  return `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
}

// What cells are coloured by: `items` are the colours with their names and the filter that means them, `of` gives the
// place of a BMC's in them.

const STATES = [
  { name: "On", words: "state:up power:On", color: "--on" },
  { name: "Powering on", words: "state:up power:PoweringOn", color: "--rising" },
  { name: "Powering off", words: "state:up power:PoweringOff", color: "--falling" },
  { name: "Off", words: "state:up power:Off", color: "--off" },
  { name: "BMC resets", words: "state:resetting", color: "--resetting" },
  { name: "No mains power", words: "state:unpowered", color: "--unpowered" },
  { name: "No address", words: "state:no_lease", color: "--homeless" },
  { name: "Starting", words: "state:starting", color: "--starting" },
];
const POWER_LOOKS = { On: 0, PoweringOn: 1, PoweringOff: 2, Off: 3 };
const STATE_LOOKS = { resetting: 4, unpowered: 5, no_lease: 6, starting: 7 };

const VIEWS = {
  state: {
    name: "state",
    items: () => STATES,
    of: (fleet, i) => STATE_LOOKS[fleet.state(i)] ?? POWER_LOOKS[fleet.power(i)],
  },
  credentials: {
    name: "password",
    items: (fleet) => fleet.tables.credentials.map((word, at) => (
      { name: `${word} password`, words: `credentials:${word}`, color: ["--off", "--on", "--rising"][at] })),
    of: (fleet, i) => fleet.status[i] >> 6,
  },
  hardware: {
    name: "hardware",
    items: (fleet) => fleet.tables.hardware.map((word, at) => (
      { name: word, words: `hardware:${quoted(word)}`, color: `--hue-${at % 8}` })),
    of: (fleet, i) => fleet.columns.hardware[i],
  },
};

function lookOf(fleet, i) {
  return STATES[VIEWS.state.of(fleet, i)];
}

function quoted(word) {
  return /[\s,"]/.test(word) || word === "" ? `"${word.replaceAll('"', "")}"` : word;
}

// The language of selections: word:value,value and free text, as in the API and the command line.

const SELECTION = ["ids", "group", "rack", "hardware", "kind", "state", "power", "address", "q"];
const OF_PAGE = ["credentials", "faults", "errors"];
const TOKEN = /([A-Za-z_]+):((?:"[^"]*"|[^\s"])*)|"([^"]*)"|(\S+)/g;

class Filter {
  // Throws an Error that says what would be right.
  constructor(text) {
    this.words = new Map();
    this.free = [];
    for (const [all, name, values, exact, free] of text.matchAll(TOKEN)) {
      if (name === undefined) this.free.push((exact ?? free).toLowerCase());
      else if (/^[0-9a-f]{2}:([0-9a-f]{1,2}(:|$))/i.test(all)) this.free.push(all.toLowerCase());
      else if (![...SELECTION, ...OF_PAGE].includes(name))
        throw new Error(`There is no word ${name}; there are ${[...SELECTION, ...OF_PAGE].join(", ")}`);
      else {
        const given = [...values.matchAll(/"([^"]*)"|([^,"]+)/g)].map((one) => one[1] ?? one[2]);
        if (name === "q") this.free.push(...given.map((one) => one.toLowerCase()));
        else this.words.set(name, [...this.words.get(name) ?? [], ...given]);
      }
    }
    this.free = this.free.filter((one) => one);
    this.networks = (this.words.get("address") ?? []).map(network);
  }

  get empty() {
    return !this.free.length && !this.words.size;
  }

  // A function that tells whether the BMC at a place is meant.
  test(fleet) {
    const tests = [];
    for (const [name, values] of this.words) {
      const wanted = new Set(values);
      if (PRESENT.includes(name)) {
        const numbers = new Set(fleet.tables[name].flatMap((word, at) => (wanted.has(word) ? [at] : [])));
        tests.push((i) => numbers.has(fleet.columns[name][i]));
      } else if (name === "ids")
        tests.push((i) => wanted.has(fleet.id(i)) || wanted.has(fleet.address[i]) ||
          wanted.has(fleet.columns.mac[i]) || wanted.has(fleet.columns.serial[i]));
      else if (name === "address")
        tests.push((i) => fleet.address[i] !== null && inside(fleet.address[i], this.networks));
      else if (name === "faults" || name === "errors") {
        const some = !wanted.has("no");
        tests.push((i) => fleet[name][i] > 0 === some);
      } else tests.push((i) => wanted.has(fleet[name](i)));
    }
    for (const one of this.free) tests.push((i) => fleet.texts[i].includes(one));
    return (i) => tests.every((test) => test(i));
  }

  // The same for the API. What it has no words for is told by the ids of `places`.
  selection(fleet, places) {
    if (this.free.length > 1 || OF_PAGE.some((name) => this.words.has(name)))
      return { ids: places.map((i) => fleet.id(i)) };
    return { ...Object.fromEntries(this.words), ...this.free.length ? { q: this.free[0] } : {} };
  }
}

function number(address) {
  return address.split(".").reduce((all, part) => all * 256 + Number(part), 0);
}

function network(text) {
  const match = /^(\d{1,3}(?:\.\d{1,3}){3})(?:\/(\d{1,2}))?$/.exec(text);
  if (!match || Number(match[2] ?? 32) > 32) throw new Error(`address:${text} is no address and no network such as 10.0.0.0/8`);
  const size = 2 ** (32 - Number(match[2] ?? 32));
  const first = Math.floor(number(match[1]) / size) * size;
  return [first, first + size];
}

function inside(address, networks) {
  const at = number(address);
  return networks.some(([first, end]) => at >= first && at < end);
}
