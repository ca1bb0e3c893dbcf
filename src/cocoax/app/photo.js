// Sample photos and the drop zone. `element`, `trigger` and `upload` come from Gradio.
const zone = () => element.querySelector(".cx-drop");
const send = async (file) => {
  if (!file) return;
  zone()?.classList.add("busy");
  try {
    const { path } = await upload(file);
    element.querySelectorAll("[data-sample]").forEach((one) => one.classList.remove("chosen"));
    trigger("photo", { path, name: file.name });
  } catch (error) {
    trigger("refused", { name: file.name, reason: String(error.message || error) });
  } finally {
    zone()?.classList.remove("busy");
  }
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
  element.querySelectorAll("[data-sample]").forEach((one) => one.classList.toggle("chosen", one === chosen));
  trigger("sample", { name: chosen.dataset.sample });
});
element.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target === zone()) zone().querySelector("input").click();
});
for (const kind of ["dragover", "dragleave", "drop"])
  element.addEventListener(kind, (event) => {
    event.preventDefault();
    event.stopPropagation();
    zone()?.classList.toggle("over", kind === "dragover");
    if (kind === "drop") send(event.dataTransfer.files[0]);
  });
