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
  write("like", chosen.dataset.like);
  write("unlike", chosen.dataset.unlike);
  trigger("sample", { name: chosen.dataset.sample, choice: ++choices });
});
for (const kind of ["dragover", "dragleave", "drop"])
  element.addEventListener(kind, (event) => {
    event.preventDefault();
    event.stopPropagation();
    zone()?.classList.toggle("over", kind === "dragover");
    if (kind === "drop") send(event.dataTransfer.files[0]);
  });
