// Point at a part of a map, a text or a sound, tap it, or walk with Tab and the arrow keys: its value stands below. Maps of
// the same regions answer together, so that several questions about one photo can be compared.
(() => {
  if (window.cocoaxValues) return;
  window.cocoaxValues = true;
  const PARTS = ".heat path, .cocoax-text span[title], .strip span";
  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const parts = view => [...view.querySelectorAll(PARTS)];
  const label = part => part.ariaLabel ?? part.textContent.trim() + ": " + part.title;
  const middle = part => {
    const box = part.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  const say = part => {
    const own = part.closest(".valued"), at = parts(own).indexOf(part), regions = own.dataset.regions;
    const views = regions ? document.querySelectorAll(".heat[data-regions='" + regions + "']") : [own];
    for (const view of views) {
      const all = parts(view);
      all.forEach((each, number) => each.classList.toggle("on", number === at));
      if (all[at]) view.querySelector(".says").textContent = label(all[at]);
    }
  };
  const found = event => event.target.closest?.(".valued") && event.target.closest(PARTS);
  for (const kind of ["pointerover", "click", "focusin"])
    document.addEventListener(kind, event => found(event) && say(found(event)));
  document.addEventListener("click", event => {  // another answer, or the figure as PNG
    const chosen = event.target.closest?.(".parts button"), wanted = event.target.closest?.("[data-png]");
    if (chosen) {
      const root = chosen.closest(".cocoax");
      for (const each of chosen.parentElement.children) each.setAttribute("aria-pressed", each === chosen);
      for (const each of root.querySelectorAll("section[data-part]"))
        each.classList.toggle("other", each.dataset.part !== chosen.dataset.part);
    }
    if (!wanted) return;
    const figure = new Image();
    figure.onload = () => {
      const canvas = document.createElement("canvas"), link = document.createElement("a");
      [canvas.width, canvas.height] = [2.5 * figure.width, 2.5 * figure.height];
      canvas.getContext("2d").drawImage(figure, 0, 0, canvas.width, canvas.height);
      [link.href, link.download] = [canvas.toDataURL("image/png"), wanted.dataset.png];
      link.click();
    };
    figure.src = wanted.parentElement.querySelector("a[download$='.svg']").href;
  });
  document.addEventListener("keydown", event => {
    const step = STEPS[event.key], from = step && found(event);
    if (!from) return;
    event.preventDefault();
    const [x, y] = middle(from), all = parts(from.closest(".valued"));
    let best = null, least = Infinity;
    for (const to of all) {  // the nearest one in this direction
      const [u, v] = middle(to), along = (u - x) * step[0] + (v - y) * step[1];
      const aside = Math.abs((u - x) * step[1]) + Math.abs((v - y) * step[0]);
      if (to !== from && along > 1 && along + 2 * aside < least) [best, least] = [to, along + 2 * aside];
    }
    if (!best) return;
    all.forEach(each => each.setAttribute("tabindex", each === best ? 0 : -1));
    best.focus();
  });
})();
