// The points of a data set: a click, or Enter, explains one or adds it to a group; dragging adds all within a box.
const slug = element.closest("[id$='-chart']").id.replace(/-chart$/, "");
const chart = element.querySelector("svg");
const points = [...element.querySelectorAll("circle")];
const says = element.querySelector(".cx-says");
const box = (name) => document.querySelector(`#${slug}-${name} textarea, #${slug}-${name} input`);
const use = () => element.querySelector(".cx-uses input:checked").value;
const lines = (name) => box(name).value.split("\n").filter((line) => line.trim());
const write = (name, values) => {
  box(name).value = values.join("\n");
  box(name).dispatchEvent(new Event("input", { bubbles: true }));
};
const mark = () => {
  const chosen = { input: lines("input"), like: lines("like"), unlike: lines("unlike") };
  for (const point of points)
    for (const name in chosen) point.classList.toggle(name, chosen[name].includes(point.dataset.name));
};
const choose = (some, toggle) => {
  if (!some.length) return;
  const name = use(), names = some.map((point) => point.dataset.name);
  if (name === "input") {
    write("input", names.slice(0, 1));
    setTimeout(() => trigger("asked", {}), 150); // Gradio takes over what is written a moment later
  } else {
    const other = name === "like" ? "unlike" : "like", had = lines(name);
    write("input", []);
    if (box("question")) write("question", []);
    write(other, lines(other).filter((line) => !names.includes(line)));
    write(name, toggle && had.includes(names[0]) ? had.filter((line) => line !== names[0]) : [...new Set([...had, ...names])]);
    says.textContent = `Like these: ${lines("like").length}; rather than these: ${lines("unlike").length}.`;
  }
  mark();
};
const at = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
const middle = (point) => [point.cx.baseVal.value, point.cy.baseVal.value];
let from = null, frame = null;
chart.addEventListener("pointerdown", (event) => { from = at(event); });
chart.addEventListener("pointermove", (event) => {
  if (!from || use() === "input" || event.pointerType === "touch") return;
  if (!frame) chart.append((frame = document.createElementNS(chart.namespaceURI, "rect")));
  const to = at(event);
  frame.setAttribute("x", Math.min(from.x, to.x)); frame.setAttribute("y", Math.min(from.y, to.y));
  frame.setAttribute("width", Math.abs(to.x - from.x)); frame.setAttribute("height", Math.abs(to.y - from.y));
});
document.addEventListener("pointerup", (event) => {
  if (frame) {
    const to = at(event), within = (value, one, two) => value >= Math.min(one, two) && value <= Math.max(one, two);
    choose(points.filter((point) => within(middle(point)[0], from.x, to.x) && within(middle(point)[1], from.y, to.y)), false);
    frame.remove();
  } else if (from && event.target.dataset?.name !== undefined && points.includes(event.target)) choose([event.target], true);
  from = frame = null;
});
const tell = (event) => { if (points.includes(event.target)) says.textContent = event.target.getAttribute("aria-label"); };
chart.addEventListener("pointerover", tell);
chart.addEventListener("focusin", tell);
chart.addEventListener("keydown", (event) => {
  if (!points.includes(event.target)) return;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    return choose([event.target], true);
  }
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!step) return;
  event.preventDefault();
  const [x, y] = middle(event.target);
  let best = null, least = Infinity;
  for (const point of points) { // the nearest one in this direction
    const [u, v] = middle(point), along = (u - x) * step[0] + (v - y) * step[1];
    const aside = Math.abs((u - x) * step[1]) + Math.abs((v - y) * step[0]);
    if (point !== event.target && along > 0 && along + 2 * aside < least) [best, least] = [point, along + 2 * aside];
  }
  if (!best) return;
  points.forEach((point) => point.setAttribute("tabindex", point === best ? 0 : -1));
  best.focus();
});
element.querySelector(".cx-clear").addEventListener("click", () => {
  for (const name of ["input", "like", "unlike"]) write(name, []);
  mark();
});
