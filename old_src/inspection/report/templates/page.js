// Interactive parts of the report: theme, map and inspector. Text of the user is set as text, never as markup.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const find = (id) => document.getElementById(id);
  const make = (tag, kind, text) => {
    const element = document.createElement(tag);
    if (kind) element.className = kind;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  // ------------------------------------------------------------------ light and dark
  const toggle = find("theme");
  const prefers = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefers.matches);
  const repaint = [];
  const themed = () => {
    toggle.textContent = isDark() ? "Light" : "Dark";
    toggle.setAttribute("aria-label", isDark() ? "Switch to light colours" : "Switch to dark colours");
    toggle.setAttribute("aria-pressed", String(isDark()));
    repaint.forEach((paint) => paint());
  };
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    themed();
  });
  prefers.addEventListener("change", themed);

  // ------------------------------------------------------------------ numbers
  const written = (value) => {
    if (value === 0) return "0";
    const size = Math.abs(value);
    const text = size >= 1000 ? Math.round(size).toLocaleString("en").replace(/^(\d),(?=\d{3}$)/, "$1") : String(Number(size.toPrecision(3)));
    return (value < 0 ? "-" : "") + text;
  };
  // Parts of one sum are written with the same decimals.
  const decimals = (values) => {
    const largest = Math.max(...values.map(Math.abs), 1e-12);
    return Math.min(8, Math.max(0, 2 - Math.floor(Math.log10(largest))));
  };
  // Numbers rounded so that they add up to their rounded sum: the largest remainders go up.
  const roundedToSum = (values, digits) => {
    const unit = 10 ** digits, units = values.map((value) => value * unit), low = units.map(Math.floor);
    const up = Math.round(units.reduce((a, b) => a + b, 0)) - low.reduce((a, b) => a + b, 0);
    const order = units.map((_, index) => index).sort((a, b) => units[b] - low[b] - (units[a] - low[a]));
    order.slice(0, up).forEach((index) => { low[index] += 1; });
    return low.map((value) => value / unit);
  };
  const fixed = (value, digits) => (value < 0 ? "-" : "") + (Math.abs(value) >= 10000 ? written(Math.abs(value)) : Math.abs(value).toFixed(digits));
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

  // ------------------------------------------------------------------ the map
  const map = data.map;
  let selected = null; // a node that is explained
  let showOnMap = () => {};
  const inspected = typeof data.inspector === "string" ? [] : data.inspector.groups.flatMap(([, nodes]) => nodes);

  if (map) {
    find("map-panel").hidden = false;
    const canvas = find("canvas"), context = canvas.getContext("2d"), choice = find("layer");
    const xy = new Uint16Array(bytes(map.xy).buffer);
    const edges = new Uint16Array(bytes(map.edges).buffer);
    const shown = map.nodes ? new Uint32Array(bytes(map.nodes).buffer) : null;
    const indexOf = new Map();
    if (shown) shown.forEach((node, index) => indexOf.set(node, index));
    const indexOfNode = (node) => (shown ? indexOf.get(node) : node);
    const layers = map.layers.map((layer) => ({ ...layer, values: bytes(layer.values) }));
    layers.forEach((layer, index) => choice.add(new Option(layer.name, index)));
    const view = { scale: 1, x: 0, y: 0 };
    const diverging = [[19, 104, 148], [104, 171, 199], [190, 196, 196], [226, 152, 88], [186, 74, 14]];
    const rising = [[178, 186, 190], [226, 152, 88], [186, 74, 14]];
    const sequential = [[54, 42, 110], [44, 96, 141], [34, 146, 138], [112, 193, 96], [240, 220, 70]];
    const several = [[31, 119, 150], [212, 110, 30], [122, 160, 60], [170, 80, 130], [90, 100, 200], [200, 160, 30], [90, 150, 140], [140, 140, 140]];
    const roleColours = [[31, 119, 150], [212, 110, 30], [150, 158, 164]];
    const stopsOf = (layer) => ({ diverging, rising, sequential })[layer.scale];
    const mixed = (stops, share) => {
      const at = share * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2), part = at - low;
      return stops[low].map((c, i) => Math.round(c + part * (stops[low + 1][i] - c)));
    };
    const css = (colour) => `rgb(${colour.join(",")})`;
    const colourOf = (layer, value) => {
      if (layer.scale === "classes") return (layer.name === "Use of labels" ? roleColours : several)[value % 8];
      return mixed(stopsOf(layer), value / 254);
    };
    // Where a node stands on the canvas, in its own pixels.
    const frame = () => {
      const pad = 14, width = canvas.clientWidth - 2 * pad, height = canvas.clientHeight - 2 * pad;
      const size = Math.min(width / (map.breadth || 1e-9), height / (map.aspect || 1e-9)) / 65535 * view.scale;
      const left = pad + (width - size * 65535 * map.breadth) / 2 + view.x, top = pad + (height - size * 65535 * map.aspect) / 2 + view.y;
      return { size, left, bottom: top + size * 65535 * map.aspect };
    };
    const draw = () => {
      const ratio = window.devicePixelRatio || 1;
      canvas.width = Math.round(canvas.clientWidth * ratio);
      canvas.height = Math.round(canvas.clientHeight * ratio);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      const { size, left, bottom } = frame(), style = getComputedStyle(root), layer = layers[Number(choice.value)];
      const px = (index) => left + size * xy[2 * index], py = (index) => bottom - size * xy[2 * index + 1];
      if (edges.length) {
        context.beginPath();
        for (let e = 0; e < edges.length; e += 2) {
          context.moveTo(px(edges[e]), py(edges[e]));
          context.lineTo(px(edges[e + 1]), py(edges[e + 1]));
        }
        context.strokeStyle = style.getPropertyValue("--faint");
        context.globalAlpha = view.scale > 3 ? 0.8 : 0.35;
        context.lineWidth = 0.6;
        context.stroke();
      }
      context.globalAlpha = 1;
      const dense = Math.sqrt((canvas.clientWidth * canvas.clientHeight) / map.n) / 5;
      const small = Math.max(0.8, Math.min(4, dense * Math.sqrt(view.scale)));
      const sparse = layer.values.reduce((count, value) => count + (value !== 255), 0) < map.n / 2;
      const large = sparse ? Math.max(2.2, small * 1.6) : Math.max(1.1, small * 1.2);
      context.fillStyle = style.getPropertyValue("--faint");
      for (let index = 0; index < map.n; index++) {
        if (layer.values[index] === 255) context.fillRect(px(index) - small / 2, py(index) - small / 2, small, small);
      }
      const byColour = new Map();
      for (let index = 0; index < map.n; index++) {
        const value = layer.values[index];
        if (value === 255) continue;
        if (!byColour.has(value)) byColour.set(value, []);
        byColour.get(value).push(index);
      }
      // Extreme values last, so that nothing covers them.
      const rank = ([value]) => (layer.scale === "diverging" ? Math.abs(value - 127) : value);
      for (const [value, indices] of [...byColour].sort((a, b) => rank(a) - rank(b))) {
        context.fillStyle = css(colourOf(layer, value));
        context.beginPath();
        for (const index of indices) {
          context.moveTo(px(index) + large, py(index));
          context.arc(px(index), py(index), large, 0, 7);
        }
        context.fill();
      }
      if (selected !== null && indexOfNode(selected) !== undefined) {
        const index = indexOfNode(selected);
        context.strokeStyle = style.getPropertyValue("--ink");
        context.lineWidth = 1.2;
        context.beginPath();
        for (const other of inspected.find((entry) => entry.node === selected).linked.map(indexOfNode)) {
          if (other === undefined) continue;
          context.moveTo(px(index), py(index));
          context.lineTo(px(other), py(other));
        }
        context.stroke();
        context.lineWidth = 2.5;
        context.beginPath();
        context.arc(px(index), py(index), 9, 0, 7);
        context.stroke();
      }
    };
    const explainScale = () => {
      const layer = layers[Number(choice.value)], scale = find("scale");
      scale.replaceChildren();
      if (layer.scale === "classes") {
        layer.ends.forEach((name, value) => {
          const swatch = make("span", "swatch"), dot = make("i");
          dot.style.background = css(colourOf(layer, value));
          swatch.append(dot, name);
          scale.append(swatch);
        });
      } else {
        const ramp = make("div", "ramp"), ends = make("div", "ends");
        const stops = stopsOf(layer).map(css);
        ramp.style.background = `linear-gradient(90deg, ${stops.join(",")})`;
        ends.append(make("span", "", layer.ends[0]), make("span", "", layer.ends[1]));
        scale.append(ramp, ends);
      }
      find("map-note").textContent = layer.note + (map.hidden_edges ? ` ${map.hidden_edges.toLocaleString("en")} edges are not drawn.` : "");
      canvas.setAttribute("aria-label", `Map of ${map.n.toLocaleString("en")} nodes coloured by: ${layer.name}`);
      draw();
    };
    const zoomed = (factor) => {
      const next = Math.min(60, Math.max(1, view.scale * factor)), change = next / view.scale;
      view.scale = next;
      view.x *= change;
      view.y *= change;
      if (next === 1) view.x = view.y = 0;
      canvas.style.touchAction = next > 1 ? "none" : "pan-y";
      draw();
    };
    choice.addEventListener("change", explainScale);
    find("zoom-in").addEventListener("click", () => zoomed(1.6));
    find("zoom-out").addEventListener("click", () => zoomed(1 / 1.6));
    find("zoom-all").addEventListener("click", () => zoomed(0));
    find("zoom-node").addEventListener("click", () => {
      const index = indexOfNode(selected);
      if (selected === null || index === undefined) return;
      Object.assign(view, { scale: 14, x: 0, y: 0 });
      const { size, left, bottom } = frame();
      view.x = canvas.clientWidth / 2 - (left + size * xy[2 * index]);
      view.y = canvas.clientHeight / 2 - (bottom - size * xy[2 * index + 1]);
      zoomed(1);
    });
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }[event.key];
      if (step && view.scale > 1) { view.x += step[0]; view.y += step[1]; draw(); }
      else if (event.key === "+" || event.key === "=") zoomed(1.6);
      else if (event.key === "-") zoomed(1 / 1.6);
      else return;
      event.preventDefault();
    });
    let grabbed = null, dragged = false;
    canvas.addEventListener("pointerdown", (event) => { grabbed = [event.clientX, event.clientY]; dragged = false; });
    canvas.addEventListener("pointermove", (event) => {
      if (!grabbed || !event.buttons) return;
      const by = [event.clientX - grabbed[0], event.clientY - grabbed[1]];
      if (Math.hypot(...by) < 4 && !dragged) return;
      dragged = true;
      if (view.scale === 1) return;
      view.x += by[0];
      view.y += by[1];
      grabbed = [event.clientX, event.clientY];
      draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      grabbed = null;
      if (dragged || !inspected.length) return;
      const box = canvas.getBoundingClientRect(), { size, left, bottom } = frame();
      const distance = (node) => {
        const index = indexOfNode(node);
        if (index === undefined) return Infinity;
        return Math.hypot(left + size * xy[2 * index] - (event.clientX - box.left), bottom - size * xy[2 * index + 1] - (event.clientY - box.top));
      };
      inspect(inspected.reduce((best, entry) => (distance(entry.node) < distance(best.node) ? entry : best)));
    });
    repaint.push(draw);
    new ResizeObserver(draw).observe(canvas);
    showOnMap = draw;
    explainScale();
  }

  // ------------------------------------------------------------------ the inspector
  const listed = find("node");
  const ROLES = ["known to this prediction", "validation, not used here", "unknown"];

  const barOf = (value, largest) => {
    const box = make("span", "signed"), inner = make("i", value < 0 ? "down" : "up");
    const share = largest ? (50 * Math.abs(value)) / largest : 0;
    inner.style.left = `${value < 0 ? 50 - share : 50}%`;
    inner.style.width = `${share}%`;
    box.append(inner);
    return box;
  };
  // Rows are [name, detail, value, kind]; the bars are of the plain ones, "start" and "total" have none.
  const sumTable = (caption, rows) => {
    const table = make("table", "sum");
    table.append(make("caption", "hidden", caption));
    const body = table.createTBody(), parts = rows.filter((row) => !row[3]).map((row) => row[2]);
    const largest = Math.max(...parts.map(Math.abs), 0), digits = decimals(parts);
    const terms = rows.filter((row) => row[3] !== "total"), rounded = roundedToSum(terms.map((row) => row[2]), digits);
    const total = rounded.reduce((a, b) => a + b, 0);
    for (const [index, [name, detail, exact, kind]] of rows.entries()) {
      const value = kind === "total" ? total : rounded[index];
      const row = body.insertRow(), head = make("th", "", name);
      row.className = kind;
      head.scope = "row";
      if (detail) head.append(" ", make("small", "", detail));
      row.append(head, make("td", "", (value > 0 && !kind ? "+" : "") + fixed(value, digits)));
      const mark = row.insertCell();
      mark.className = "mark";
      if (!kind) mark.append(barOf(exact, largest));
    }
    return table;
  };
  const partTable = (caption, [parts, others, rest], detail, noun) => {
    const rows = parts.map(([name, value, extra]) => [name, extra ? detail + extra : "", value, ""]);
    if (others) rows.push([`${others.toLocaleString("en")} more ${noun}${others === 1 ? "" : "s"}`, "", rest, ""]);
    return sumTable(caption, rows);
  };
  const inspect = (entry) => {
    selected = entry.node;
    listed.value = String(entry.node);
    const panel = find("explained"), facts = make("dl", "facts");
    const fact = (name, value) => {
      const box = make("div");
      box.append(make("dt", "", name), make("dd", "", value));
      facts.append(box);
    };
    fact("Node", entry.name);
    fact("Predicted", entry.prediction);
    if (entry.truth !== null) fact("True", entry.truth);
    if (entry.error) fact(entry.role === 0 ? "Residual out of fold" : "Residual", entry.error);
    fact("Neighbours", entry.n_neighbors.toLocaleString("en"));
    fact("Use of the label", ROLES[entry.role]);
    const rows = [["Base, the same for all nodes", "", entry.base, "start"]];
    if (entry.offset) rows.push(["Offset or exposure", "", entry.offset, "start"]);
    rows.push(["Own columns", "", entry.totals[0], ""]);
    rows.push(["Columns of neighbours", "", entry.totals[1], ""]);
    rows.push(["Known labels of other nodes", "", entry.totals[2], ""]);
    if (entry.own_label) rows.push(["Own label", "", entry.own_label, ""]);
    rows.push([entry.explained === undefined ? "Score" : `Score for ${entry.explained}`, data.inspector.scale, entry.score, "total"]);
    const first = make("div");
    first.append(facts, sumTable("Contributions to the score", rows));
    const parts = [first];
    const section = (title, part, detail, noun) => {
      if (!part[0].length) return;
      const box = make("div");
      box.append(make("h3", "", title), partTable(title, part, detail, noun));
      parts.push(box);
    };
    section("Own columns", entry.own, "= ", "column");
    section("Columns of neighbours", entry.around, "", "contribution");
    section("Known labels of other nodes", entry.labels, "labelled ", "label");
    panel.replaceChildren(...parts);
    find("status").textContent = `${entry.name}: predicted ${entry.prediction}${entry.truth === null ? "" : `, true ${entry.truth}`}`;
    showOnMap();
  };
  if (inspected.length) {
    find("inspector-panel").hidden = false;
    for (const [name, nodes] of data.inspector.groups) {
      const group = document.createElement("optgroup");
      group.label = name;
      for (const entry of nodes) {
        const after = entry.error ? `, residual ${entry.error}` : "";
        group.append(new Option(`${entry.name}: ${entry.prediction}${after}`, String(entry.node)));
      }
      listed.append(group);
    }
    const step = (by) => {
      const at = inspected.findIndex((entry) => entry.node === selected);
      inspect(inspected[(at + by + inspected.length) % inspected.length]);
    };
    listed.addEventListener("change", () => inspect(inspected.find((entry) => String(entry.node) === listed.value)));
    const search = find("search"), byName = new Map(inspected.map((entry) => [entry.name, entry]));
    find("names").append(...inspected.map((entry) => new Option("", entry.name)));
    search.addEventListener("change", () => {
      const text = search.value.trim(), entry = byName.get(text) || byName.get(`row ${text}`);
      search.setCustomValidity(!text || entry ? "" : "This node is not explained here: write_report(nodes=...) adds nodes.");
      search.reportValidity();
      if (entry) inspect(entry);
    });
    find("previous").addEventListener("click", () => step(-1));
    find("next").addEventListener("click", () => step(1));
    inspect(inspected[0]);
  } else {
    const missing = find("inspector-missing");
    missing.hidden = false;
    missing.textContent = typeof data.inspector === "string" ? data.inspector : "There are no nodes to explain.";
  }
  themed();
})();
