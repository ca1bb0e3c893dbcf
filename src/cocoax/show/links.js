// Point at a feature of one input to see what it meets in the other; Tab, arrow keys, Enter and Escape do it too.
(function (id) {
  const root = document.getElementById(id);
  const data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
  const says = root.querySelector(".says"), rather = root.querySelector(".rather input"), sides = ["a", "b"];
  const features = sides.map(s => Array.from(root.querySelectorAll(".f[data-side='" + s + "']")));
  const biggest = list => list.reduce((most, v) => Math.max(most, Math.abs(v)), 0) || 1;
  const columns = data.names[1].map((_, j) => data.values.map(row => row[j]));
  const along = (side, at) => (side ? columns : data.values)[at];
  const total = side => data.names[side].map((_, at) => along(side, at).reduce((sum, v) => sum + v, 0));
  const totals = sides.map((_, side) => total(side));
  let kept = null, resting = true;
  const number = v => (v < 0 ? "\u2212" : "+") + Math.abs(v).toPrecision(3);
  function paint(side, values, most) {
    features[side].forEach(f => {
      const v = values[f.dataset.at], share = Math.min(1, Math.abs(v) / most);
      const colour = "rgba(" + (v > 0 ? "RED" : "BLUE") + ", " + (0.6 * share).toFixed(3) + ")";
      if (f instanceof SVGElement) f.style.fill = colour; else f.style.background = colour;
    });
  }
  const none = side => data.names[side].map(() => 0);
  const mark = (side, at) => features[side].forEach(f => f.classList.toggle("on", +f.dataset.at === at));
  const tip = "Point at a part, or choose it with Tab and the arrow keys, to see what it goes with.";
  function rest() {  // the findings: their regions in their colours, joined by lines as wide as their values
    sides.forEach((_, side) => {
      paint(side, data.wide[side] === null ? totals[side] : none(side), biggest(totals[side]));
      mark(side, -1);
    });
    outline(data.links);
    says.textContent = tip;
    resting = true;
  }
  function outline(links) {
    features.forEach(list => list.forEach(f => {
      const own = links.find(link => link[f.dataset.side].includes(+f.dataset.at));
      if (f instanceof SVGElement) {
        f.style.stroke = own ? own.colour : "none";
        if (own) f.style.fill = own.colour + "40";
      } else f.style.boxShadow = own ? "inset 0 -.18em " + own.colour : "none";
    }));
    join(links);
  }
  function middle(side, list) {  // of the first of some features, on the screen: inside of a region, at a word's edge
    const own = features[side].find(f => list.includes(+f.dataset.at)), box = root.querySelector(".lines").getBoundingClientRect();
    if (!own) return [0, 0];
    if (!own.dataset.middle) {
      const place = own.getClientRects()[0] || own.getBoundingClientRect();
      return [place.left + place.width / 2 - box.left, (side ? place.top : place.bottom) - box.top];
    }
    const frame = own.ownerSVGElement.getBoundingClientRect(), [x, y] = own.dataset.middle.split(" ").map(v => v / 1000);
    return [frame.left + x * frame.width - box.left, frame.top + y * frame.height - box.top];
  }
  function join(links) {
    const svg = root.querySelector(".lines");
    svg.replaceChildren();
    const pictured = features.every(list => list.length && list[0] instanceof SVGElement);
    const most = biggest(data.links.map(link => link.value));
    const add = (name, values, text) => {
      const made = document.createElementNS(svg.namespaceURI, name);
      Object.entries(values).forEach(([key, v]) => made.setAttribute(key, v));
      if (text !== undefined) made.textContent = text;
      svg.append(made);
    };
    const taken = [], free = ([x, y]) => {  // numbers do not stand on each other
      while (pictured && taken.some(([u, v]) => Math.abs(u - x) < 17 && Math.abs(v - y) < 17)) x += 19;
      taken.push([x, y]);
      return [x, y];
    };
    links.forEach(link => {
      const [x, y] = free(middle(0, link.a)), [u, v] = free(middle(1, link.b)), bend = Math.max(30, Math.abs(u - x) / 3);
      const curve = pictured && Math.abs(u - x) > Math.abs(v - y) ? `M${x} ${y}C${x + bend} ${y} ${u - bend} ${v} ${u} ${v}`
        : `M${x} ${y}C${x} ${(y + v) / 2} ${u} ${(y + v) / 2} ${u} ${v}`;
      const width = 1 + 5 * Math.abs(link.value) / most;
      add("path", { d: curve, fill: "none", stroke: link.colour, "stroke-width": width, opacity: .8, "stroke-linecap": "round" });
    });
    if (pictured) taken.forEach(([cx, cy], at) => {
      const link = links[at >> 1];
      add("circle", { cx, cy, r: 9, fill: link.colour, stroke: "#fff" });
      add("text", { x: cx, y: cy }, data.links.indexOf(link) + 1);
    });
  }
  const error = (side, at, k) => data.errors === null ? 0 : data.errors[+rather.checked][side][at][k];
  function facing(side, at) {  // what a part meets on the other side, with errors; minus the mean of the other parts
    const others = rather.checked ? data.names[side].map((_, o) => o).filter(o => o !== at) : [];
    const share = 1 / Math.max(1, others.length), sum = list => list.reduce((all, v) => all + v, 0);
    return data.names[1 - side].map((_, k) => [
      along(side, at)[k] - share * sum(others.map(o => along(side, o)[k])),
      error(side, at, k),
    ]);
  }
  function show(side, at) {
    resting = false;
    outline([]);
    const other = 1 - side, met = facing(side, at), values = met.map(([v, _]) => v);
    paint(other, met.map(([v, e]) => Math.abs(v) < 2 * e ? 0 : v), biggest(values));
    paint(side, none(side), 1); mark(side, at); mark(other, -1);
    const order = values.map((_, k) => k).sort((k, l) => values[l] - values[k]).slice(0, 3);
    const name = data.names[side][at] + (rather.checked ? " rather than the others" : "");
    says.textContent = name + " with " + order.map(k => data.names[other][k] + " " + number(values[k])
      + (data.errors === null ? "" : " \u00b1 " + met[k][1].toPrecision(2))).join("; ");
  }
  function finding(link) {
    resting = false;
    sides.forEach((name, side) => {
      paint(side, none(side).map((_, k) => link[name].includes(k) && !data.wide[side] ? link.value : 0), Math.abs(link.value) || 1);
      mark(side, -1);
    });
    outline([link]);
    says.textContent = link.label;
  }
  rather.addEventListener("change", () => again());
  const again = () => kept === null ? rest() : show(kept[0], kept[1]);
  features.forEach((list, side) => list.forEach((f, place) => {
    const at = +f.dataset.at, wide = data.wide[side];
    const keep = () => { kept = kept !== null && kept[0] === side && kept[1] === at ? null : [side, at]; again(); };
    f.addEventListener("mouseenter", () => show(side, at));
    f.addEventListener("mouseleave", again);
    f.addEventListener("focus", () => {
      list.forEach(g => { g.tabIndex = g === f ? 0 : -1; });
      show(side, at);
    });
    f.addEventListener("blur", again);
    f.addEventListener("click", keep);
    f.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: wide || 1, ArrowUp: -(wide || 1) }[event.key];
      if (step !== undefined && list[place + step]) { list[place + step].focus(); event.preventDefault(); }
      if (event.key === "Enter" || event.key === " ") { keep(); show(side, at); event.preventDefault(); }
      if (event.key === "Escape") { kept = null; rest(); }
    });
  }));
  root.querySelectorAll("button[data-link]").forEach(b => {
    const both = () => finding(data.links[+b.dataset.link]);
    b.addEventListener("mouseenter", both); b.addEventListener("focus", both); b.addEventListener("click", both);
    b.addEventListener("mouseleave", again); b.addEventListener("blur", again);
  });
  rest();
  if (window.ResizeObserver) new ResizeObserver(() => { if (resting) rest(); }).observe(root);  // what is said of a part may be taller
})