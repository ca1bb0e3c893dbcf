// Sample photos and the drop zone. `element`, `trigger` and `upload` come from Gradio.
let choices = 0; // counted, since a large upload arrives after a photo that was chosen later
const zone = () => element.querySelector(".cx-drop");
const mark = (chosen) =>
  element.querySelectorAll("[data-sample]").forEach((sample) => sample.classList.toggle("chosen", sample === chosen));
const send = async (file) => {
  if (!file) return;
  const choice = ++choices;
  zone()?.classList.add("busy");
  try {
    const { path } = await upload(file);
    if (choice === choices) mark(null);
    trigger("photo", { path, name: file.name, choice });
  } catch (error) {
    trigger("refused", { name: file.name, reason: String(error.message || error) });
  } finally {
    zone()?.classList.remove("busy");
  }
};
// Written here and not by the server, so that the words are always those of the last click.
const write = (side, words) => {
  const box = document.querySelector(`#cx-${side}-0 input, #cx-${side}-0 textarea`);
  if (!box || words === undefined) return;
  box.value = words;
  box.dispatchEvent(new Event("input", { bubbles: true }));
};
element.addEventListener("change", (event) => {
  if (event.target.type !== "file") return;
  event.stopPropagation();
  const file = event.target.files[0];
  event.target.value = "";
  send(file);
});
element.addEventListener("click", (event) => {
  const chosen = event.target.closest("[data-sample]");
  if (!chosen) return;
  mark(chosen);
  const { sample, like, unlike } = chosen.dataset;
  write("like", like);
  write("unlike", unlike);
  window.cocoaxAddress({ view: "Photo", photo: sample, like, unlike });
  trigger("sample", { name: sample, like, unlike, choice: ++choices });
});
// The address of a link names a sample and a question, which takes the place of the sample's own until the next one.
const link = new URLSearchParams(window.location.search);
const named = link.get("view") === "Photo" && element.querySelector(`[data-sample="${CSS.escape(link.get("photo") ?? "")}"]`);
if (named) {
  const own = { ...named.dataset };
  for (const side of ["like", "unlike"]) if (own[side] !== undefined) named.dataset[side] = link.get(side) ?? "";
  setTimeout(() => {
    named.click();
    Object.assign(named.dataset, own);
  }, 500); // Gradio listens a moment after the page is shown
}
for (const kind of ["dragover", "dragleave", "drop"])
  element.addEventListener(kind, (event) => {
    event.preventDefault();
    event.stopPropagation();
    zone()?.classList.toggle("over", kind === "dragover");
    if (kind === "drop") send(event.dataTransfer.files[0]);
  });
