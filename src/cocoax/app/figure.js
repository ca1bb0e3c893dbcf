// The place whose value is read out: a click on the map or the arrow keys, as fractions of the picture from left and top.
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const map = () => element.querySelector(".cx-map");
const said = document.createElement("p"); // outlives the figure, which is replaced: only then do screen readers notice
said.className = "cx-said";
said.setAttribute("aria-live", "polite");
element.after(said);
let wanted = null; // where the visitor is
let shown = null; // what the server was last asked about; null when its answer is there
let since = 0; // when that was
let walking = false; // whether the map has the focus
const ask = () => {
  if (!wanted || (shown && Date.now() - since < 2000)) return; // one at a time, since answers may overtake each other
  shown = wanted;
  since = Date.now();
  trigger("point", { x: wanted[0], y: wanted[1] });
};
element.addEventListener("click", (event) => {
  const picture = event.target.closest(".cx-map")?.querySelector("img");
  if (!picture) return;
  const box = picture.getBoundingClientRect();
  const places = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  wanted = places.map((place) => Math.min(1, Math.max(0, place)));
  ask();
});
element.addEventListener("keydown", (event) => {
  const step = STEPS[event.key];
  if (!step || !event.target.classList.contains("cx-map")) return;
  event.preventDefault();
  const cells = Number(map().dataset.cells);
  const pin = map().querySelector(".cx-pin");
  const from = wanted ?? (pin ? [Number(pin.dataset.x), Number(pin.dataset.y)] : null);
  const inside = (place) => Math.min(1 - 0.5 / cells, Math.max(0.5 / cells, place));
  wanted = from ? from.map((place, axis) => inside(place + step[axis] / cells)) : [0.5, 0.5];
  ask();
});
element.addEventListener("focusin", (event) => (walking = event.target.classList.contains("cx-map")));
element.addEventListener("focusout", (event) => setTimeout(() => event.target.isConnected && (walking = false)));
new MutationObserver(() => {
  const pin = element.querySelector(".cx-pin");
  if (shown && pin && Number(pin.dataset.x) === shown[0] && Number(pin.dataset.y) === shown[1]) {
    const behind = wanted !== shown;
    if (!behind) wanted = null;
    shown = null;
    setTimeout(ask); // not while Gradio writes the page
    if (!behind) said.textContent = element.querySelector(".cx-reading").innerText;
  }
  if (walking && document.activeElement === document.body) map()?.focus({ preventScroll: true });
}).observe(element, { attributes: true, childList: true, subtree: true });
