// Import of files that are dropped, chosen or pasted: a few at a time, with progress and a summary.

const PICTURE = /\.(apng|avif|bmp|gif|heic|heif|jfif|jp2|jpe|jpeg|jpg|pbm|pgm|png|pnm|ppm|tif|tiff|webp)$/i;
const FILES = 16, BYTES = 16e6;  // in one request
const COUNTS = { learned: "learned", known_before: "learned before", recognized: "recognized", unknown: "unknown", refused: "refused" };

export function importPage(form) {
  const input = form.querySelector("#import-files");
  if (input.disabled) return;
  let busy = false;
  const take = async files => {
    if (busy || !files.length) return;
    busy = input.disabled = true;
    await importAll(form, [...files]);
    busy = input.disabled = false;
    input.value = "";
  };
  input.addEventListener("change", () => take(input.files));
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("dragover", event => { event.preventDefault(); form.classList.add("over"); });
  form.addEventListener("dragleave", () => form.classList.remove("over"));
  form.addEventListener("drop", event => {
    event.preventDefault();
    form.classList.remove("over");
    take(event.dataTransfer.files);
  });
  const pasted = form.querySelector("#import-lines");
  form.querySelector("#import-pasted")?.addEventListener("click", async () => {
    await take([new File([pasted.value], "pasted.txt", { type: "text/plain" })]);
    pasted.value = "";
  });
}

async function importAll(form, files) {
  const total = { done: 0, refusals: [] };
  for (const name of Object.keys(COUNTS)) total[name] = 0;
  form.querySelector("#import-progress").hidden = false;
  form.querySelector("#import-next").hidden = true;
  const bar = form.querySelector("#import-bar");
  const batches = inBatches(files), bytes = files.reduce((sum, file) => sum + file.size, 0) || 1;
  bar.max = 1;
  let sent = 0;
  say(form, total, false);
  for (const batch of batches) {
    const size = batch.reduce((sum, file) => sum + file.size, 0);
    const last = await importBatch(batch, now => {
      bar.value = (sent + size * (now.total ? now.done / now.total : 0)) / bytes;
      say(form, added(total, now), false);
    });
    Object.assign(total, added(total, last));
    sent += size;
    bar.value = sent / bytes;
    say(form, total, false);
  }
  bar.value = 1;
  say(form, total, true);
  document.body.dispatchEvent(new Event("progress"));
}

/** Put pictures together, a few in a request; other files each have their own. */
function inBatches(files) {
  const batches = [];
  let size = Infinity;
  for (const file of files) {
    const current = batches.at(-1);
    if (PICTURE.test(file.name) && current?.length < FILES && size + file.size <= BYTES) {
      current.push(file);
      size += file.size;
    } else {
      batches.push([file]);
      size = PICTURE.test(file.name) ? file.size : Infinity;
    }
  }
  return batches;
}

/** Send some files and report what the server says while it reads them; return its last line. */
async function importBatch(files, report) {
  const body = new FormData();
  for (const file of files) body.append("files", file, file.name);
  const failed = reason => ({ refused: files.length, done: files.length, refusals: files.map(({ name }) => ({ name, reason })) });
  try {
    const response = await fetch("/v1/import", { method: "POST", body });
    if (!response.ok) return failed((await response.json()).detail);
    let last = null;
    for await (const line of linesOf(response)) report(last = JSON.parse(line));
    return last?.finished ? last : failed("The server ended before it was done. Send it again.");
  } catch {
    return failed("No connection, or the file cannot be read. Send it again.");
  }
}

async function* linesOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (rest + part.value).split("\n");
    rest = lines.pop();
    yield* lines;
  }
}

function added(total, more) {
  const sum = { done: total.done + (more.done ?? 0), refusals: [...total.refusals, ...(more.refusals ?? [])] };
  for (const name of Object.keys(COUNTS)) sum[name] = total[name] + (more[name] ?? 0);
  return sum;
}

function say(form, total, finished) {
  const counts = Object.entries(COUNTS).filter(([name]) => total[name]).map(([name, words]) => `${total[name].toLocaleString("en")} ${words}`);
  form.querySelector("#import-summary").textContent = `${finished ? "Done" : "Reading"}${counts.length ? `: ${counts.join(", ")}` : ""}${finished ? "." : " …"}`;
  form.querySelector("#import-refusals").replaceChildren(...total.refusals.map(({ name, reason }) => {
    const item = document.createElement("li");
    item.textContent = `${name}: ${reason}`;
    return item;
  }));
  form.querySelector("#import-next").hidden = !(finished && total.unknown);
}
