// Gradio gives each radio button a name of its own, so that the arrow keys do not lead from one to the next.
document.addEventListener("focusin", ({ target }) => {
  const group = target.type === "radio" && target.closest("fieldset");
  if (group) for (const button of group.querySelectorAll("input[type=radio]")) button.name = group.id;
});
