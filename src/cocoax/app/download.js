(file) => {
  if (!file || !file.data) return;
  const link = document.createElement("a");
  link.href = file.data;
  link.download = file.name;
  document.body.append(link);
  link.click();
  link.remove();
}
