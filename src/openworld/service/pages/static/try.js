// Try it: draw, drop or paste something and see what the model says.

const SIDE = 28;

export function tryPage() {
  const canvas = document.getElementById("letter");
  if (canvas) drawing(canvas);
  const drop = document.getElementById("drop");
  if (drop) dropping(drop);
  return {};
}

/** Send what is in a form, and return a part of the page with the answer, or with what is wrong. */
async function ask(form, extra, name = "") {
  const body = new FormData(form);
  for (const [key, value] of Object.entries(extra)) body.set(key, value);
  const part = document.createElement("div");
  const response = await fetch(form.getAttribute("action"), { method: "POST", body }).catch(() => null);
  if (!response) part.textContent = `${name}No connection. Try again in a moment.`;
  else if (response.headers.get("content-type").startsWith("text/html")) part.innerHTML = await response.text();
  else part.textContent = name + (await response.json()).detail;
  if (!part.firstElementChild) part.className = "warning";
  part.querySelector("form.teach")?.addEventListener("submit", async event => {
    event.preventDefault();
    event.stopPropagation();
    const { value } = event.target.elements.label;
    part.replaceWith(await ask(form, { ...extra, label: value }, name));
    document.body.dispatchEvent(new CustomEvent("progress"));
  });
  return part;
}

/** Show the answers, one after the other as they come. */
async function answer(form, samples) {
  const place = document.getElementById("answer");
  place.replaceChildren();
  for (const [i, { name, ...extra }] of samples.entries()) {
    const note = document.createElement("p");
    note.textContent = samples.length > 1 ? `Recognizing ${i + 1} of ${samples.length} …` : "Recognizing …";
    place.append(note);
    note.replaceWith(await ask(form, extra, name));
  }
}

document.addEventListener("submit", event => {
  if (!event.target.matches("#try form[action]")) return;
  event.preventDefault();
  const form = event.target, canvas = form.querySelector("#letter"), files = form.querySelector("#file")?.files;
  if (files) answer(form, [...files].map(file => ({ file, name: `${file.name}: ` })));
  else answer(form, [canvas ? { pixels: pixelsOf(canvas).join() } : {}]);
});

function drawing(canvas) {
  const context = canvas.getContext("2d", { willReadFrequently: true });
  Object.assign(context, { lineWidth: 15, lineCap: "round", lineJoin: "round", strokeStyle: "#fff" });
  let at = null;
  const place = event => {
    const scale = canvas.width / canvas.getBoundingClientRect().width;
    return [event.offsetX * scale, event.offsetY * scale];
  };
  canvas.addEventListener("pointerdown", event => {
    canvas.setPointerCapture(event.pointerId);
    at = place(event);
  });
  canvas.addEventListener("pointermove", event => {
    if (!at) return;
    const to = place(event);
    context.beginPath();
    context.moveTo(...at);
    context.lineTo(...to);
    context.stroke();
    at = to;
  });
  canvas.addEventListener("pointerup", () => {
    at = null;
    canvas.closest("form").requestSubmit();
  });
  document.getElementById("wipe").addEventListener("click", () => {
    context.clearRect(0, 0, canvas.width, canvas.height);
    document.getElementById("answer").replaceChildren();
  });
  const file = document.getElementById("letter-file");
  const show = async picture => {
    inkOf(await createImageBitmap(picture), context);
    canvas.closest("form").requestSubmit();
  };
  file.addEventListener("change", () => file.files.length && show(file.files[0]));
  canvas.addEventListener("dragover", event => event.preventDefault());
  canvas.addEventListener("drop", event => {
    event.preventDefault();
    if (event.dataTransfer.files.length) show(event.dataTransfer.files[0]);
  });
  const letter = document.getElementById("typed");
  letter.addEventListener("input", () => {
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.fillStyle = "#fff";
    context.font = `${17 / SIDE * canvas.width}px "DejaVu Sans", Verdana, sans-serif`;
    context.textAlign = "center";
    context.fillText([...letter.value].at(-1) ?? "", canvas.width / 2, 162 / 224 * canvas.height);
    if (letter.value) canvas.closest("form").requestSubmit();
  });
}

/** Draw a picture as ink: the difference from its paper, which has the brightness of its corner. */
function inkOf(bitmap, context) {
  const { width, height } = context.canvas, scale = Math.min(width / bitmap.width, height / bitmap.height);
  const [w, h] = [bitmap.width * scale, bitmap.height * scale];
  context.clearRect(0, 0, width, height);
  context.drawImage(bitmap, (width - w) / 2, (height - h) / 2, w, h);
  const image = context.getImageData(0, 0, width, height), { data } = image;
  const brightness = i => ((data[i] + data[i + 1] + data[i + 2]) / 3) * (data[i + 3] / 255);
  const paper = brightness(4 * (Math.ceil((height - h) / 2) * width + Math.ceil((width - w) / 2)));
  for (let i = 0; i < data.length; i += 4) {
    const ink = data[i + 3] ? Math.abs(brightness(i) - paper) : 0;
    data.set([255, 255, 255, ink], i);
  }
  context.putImageData(image, 0, 0);
}

/** Return the picture as 28 x 28 amounts of ink, from 0 to 255: the mean of each block. */
function pixelsOf(canvas) {
  const { width, height } = canvas, block = width / SIDE;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  return Array.from({ length: SIDE * SIDE }, (_, i) => {
    const left = (i % SIDE) * block, top = Math.floor(i / SIDE) * block;
    let ink = 0;
    for (let y = top; y < top + block; y++) for (let x = left; x < left + block; x++) ink += data[4 * (y * width + x) + 3];
    return Math.round(ink / block ** 2);
  });
}

function dropping(drop) {
  const file = drop.querySelector("input[type=file]");
  file.addEventListener("change", () => file.files.length && drop.requestSubmit());
  drop.addEventListener("dragover", event => { event.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", event => {
    event.preventDefault();
    drop.classList.remove("over");
    file.files = event.dataTransfer.files;
    drop.requestSubmit();
  });
}
