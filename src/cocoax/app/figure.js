// The figure is drawn again while a run goes on: the part of the map that has the focus keeps it, and its value stays.
let walking = null;
const parts = () => [...element.querySelectorAll(".heat path")];
element.addEventListener("focusin", (event) => {
  const at = parts().indexOf(event.target);
  walking = at < 0 ? null : at;
});
element.addEventListener("focusout", (event) => setTimeout(() => event.target.isConnected && (walking = null)));
new MutationObserver(() => {
  if (walking !== null && document.activeElement === document.body) parts()[walking]?.focus({ preventScroll: true });
}).observe(element, { childList: true, subtree: true });
