// The address bar holds what was asked, unless it is long: a link then shows the same.
window.cocoaxAddress = (asked) => {
  const said = new URLSearchParams(window.location.search);
  for (const name of [...said.keys()]) if (!name.startsWith("__")) said.delete(name); // Gradio's own stay
  for (const [name, text] of Object.entries(asked)) if (text) said.set(name, text);
  if (said.toString().length < 1800) window.history.replaceState(null, "", "?" + said);
};
