// Reference pictures of one side of a question.
const send = async (files) => {
  const sent = [];
  for (const file of files) {
    try {
      sent.push({ path: (await upload(file)).path, name: file.name });
    } catch (error) {
      trigger("refused", { name: file.name, reason: String(error.message || error) });
      return;
    }
  }
  if (sent.length) trigger("dropped", { files: sent });
};
element.addEventListener("change", (event) => {
  if (event.target.type !== "file") return;
  event.stopPropagation();
  send([...event.target.files]);
  event.target.value = "";
});
element.addEventListener("click", (event) => {
  const remove = event.target.closest("[data-remove]");
  if (remove) trigger("removed", { index: Number(remove.dataset.remove) });
});
for (const kind of ["dragover", "dragleave", "drop"])
  element.addEventListener(kind, (event) => {
    event.preventDefault();
    event.stopPropagation();
    element.classList.toggle("over", kind === "dragover");
    if (kind === "drop") send([...event.dataTransfer.files]);
  });
