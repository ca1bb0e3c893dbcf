// Point at a feature of one input to see what it meets in the other; Tab, arrow keys, Enter and Escape do it too.
(function (id) {
  const root = document.getElementById(id);
  const data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
  const says = root.querySelector(".says"), rather = root.querySelector(".rather input"), sides = ["a", "b"];
  const features = sides.map(s => Array.from(root.querySelectorAll(".f[data-side='" + s + "']")));
  const biggest = list => list.reduce((most, v) => Math.max(most, Math.abs(v)), 0) || 1;
  const value = (i, j) => data.values[i][j], limit = biggest(data.values.map(biggest));
  const columns = data.names[1].map((_, j) => data.values.map(row => row[j]));
  const along = (side, at) => (side ? columns : data.values)[at];
  const total = side => data.names[side].map((_, at) => along(side, at).reduce((sum, v) => sum + v, 0));
  const totals = sides.map((_, side) => total(side));
  let kept = null;
  const number = v => (v < 0 ? "\u2212" : "+") + Math.abs(v).toPrecision(3);
  function paint(side, values, most) {
    features[side].forEach(f => {
      const v = values[f.dataset.at], share = Math.min(1, Math.abs(v) / most);
      f.style.background = "rgba(" + (v > 0 ? "178, 24, 43" : "33, 102, 172") + ", " + (0.75 * share).toFixed(3) + ")";
    });
  }
  const none = side => data.names[side].map(() => 0);
  const mark = (side, at) => features[side].forEach(f => f.classList.toggle("on", +f.dataset.at === at));
  function rest() {
    sides.forEach((_, side) => { paint(side, totals[side], biggest(totals[side])); mark(side, -1); });
    says.textContent = "Each part with all of the other side. Point at one, or choose it with Tab and the arrow keys.";
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
    const other = 1 - side, met = facing(side, at), values = met.map(([v, _]) => v);
    paint(other, met.map(([v, e]) => Math.abs(v) < 2 * e ? 0 : v), biggest(values));
    paint(side, none(side), 1); mark(side, at); mark(other, -1);
    const order = values.map((_, k) => k).sort((k, l) => values[l] - values[k]).slice(0, 3);
    const name = data.names[side][at] + (rather.checked ? " rather than the others" : "");
    says.textContent = name + " with " + order.map(k => data.names[other][k] + " " + number(values[k])
      + (data.errors === null ? "" : " \u00b1 " + met[k][1].toPrecision(2))).join("; ");
  }
  function pair(i, j) {
    sides.forEach((_, side) => {
      const at = side ? j : i;
      paint(side, none(side).map((_, k) => k === at ? value(i, j) : 0), limit); mark(side, at);
    });
    says.textContent = data.names[0][i] + " with " + data.names[1][j] + " " + number(value(i, j));
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
  root.querySelectorAll("button[data-i]").forEach(b => {
    const both = () => pair(+b.dataset.i, +b.dataset.j);
    b.addEventListener("mouseenter", both); b.addEventListener("focus", both);
    b.addEventListener("mouseleave", again); b.addEventListener("blur", again);
  });
  rest();
})
