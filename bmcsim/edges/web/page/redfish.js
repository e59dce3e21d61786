// A browser of the resources of one BMC: a tree of what is below each, and the JSON of one with its links.

class Browser {
  // read: URI -> a promise of the resource.
  constructor(read) {
    this.read = read;
    this.path = h("input", { "aria-label": "URI of a resource", spellcheck: "false", value: "/redfish/v1" });
    this.json = h("pre", { class: "json", tabindex: "0", "aria-label": "Resource" });
    this.tree = h("div", { class: "tree", "aria-label": "Resources", role: "group" });
    const form = h("form", { class: "line", onsubmit: (event) => { event.preventDefault(); this.open(this.path.value); } },
      this.path, h("button", { type: "submit" }, "Open"));
    this.element = h("div", { class: "browser" }, form, this.tree, this.json);
    const root = this.#node("/redfish/v1", "/redfish/v1");
    root.open = true;
    this.tree.append(root);
  }

  async open(uri) {
    this.path.value = uri;
    try {
      this.#show(await this.read(uri));
    } catch (error) {
      this.json.replaceChildren(String(error.message));
    }
  }

  #show(resource) {
    this.json.replaceChildren(...rendered(resource, "", (uri) => this.open(uri)));
    this.json.scrollTop = 0;
  }

  #node(uri, name) {
    const below = h("div", { class: "below" });
    const node = h("details", {}, h("summary", {}, name), below);
    node.addEventListener("toggle", async () => {
      if (!node.open) return;
      this.path.value = uri;
      try {
        const resource = await this.read(uri);
        this.#show(resource);
        const found = beneath(resource, uri);
        below.replaceChildren(...found.map((one) => this.#node(one, one.slice(uri.length + 1))));
        if (!found.length) below.replaceChildren(h("span", { class: "faint" }, "nothing below"));
      } catch (error) {
        below.replaceChildren(h("span", { class: "faint" }, String(error.message)));
      }
    });
    return node;
  }
}

// URIs that a resource links to and that are below its own, without those below one another.
function beneath(resource, uri) {
  const found = new Set();
  const collect = (value) => {
    if (value === null || typeof value !== "object") return;
    for (const [key, one] of Object.entries(value)) {
      if (key === "@odata.id" && typeof one === "string" && one.startsWith(`${uri}/`) && !one.includes("#")) found.add(one);
      else collect(one);
    }
  };
  collect(resource);
  return [...found].filter((one) => ![...found].some((other) => one.startsWith(`${other}/`)));
}

// JSON as nodes; what is a URI of a resource is a button.
function rendered(value, indent, open) {
  if (typeof value === "string" && value.startsWith("/redfish/v1"))
    return ['"', h("button", { type: "button", class: "link", onclick: () => open(value.split("#")[0]) }, value), '"'];
  if (value === null || typeof value !== "object") {
    const kind = typeof value === "string" ? "string" : "atom";
    return [h("span", { class: kind }, JSON.stringify(value))];
  }
  const list = Array.isArray(value), entries = Object.entries(value);
  if (!entries.length) return [list ? "[]" : "{}"];
  const within = `${indent}  `;
  const lines = entries.flatMap(([key, one], at) => [
    `${at ? "," : ""}\n${within}`,
    ...list ? [] : [h("span", { class: "key-name" }, JSON.stringify(key)), ": "],
    ...rendered(one, within, open),
  ]);
  return [list ? "[" : "{", ...lines, `\n${indent}${list ? "]" : "}"}`];
}
