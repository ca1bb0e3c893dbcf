// A click on the map, as fractions of the picture from left and top.
element.addEventListener("click", (event) => {
  const picture = event.target.closest(".cx-map")?.querySelector("img");
  if (!picture) return;
  const box = picture.getBoundingClientRect();
  trigger("point", { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height });
});
