// Screenshots beside small pictures kept. Browsers draw edges differently, so the mean difference counts, over all and over blocks.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { basename } from "node:path";

const MEAN = 0.01; // of full scale, over the picture
const BLOCK = 0.05; // of full scale, over any block
const FITTED_BLOCK = 0.12; // where a fit is shown: what it finds changes a little with every improvement and processor
const BLOCKS = 8; // per side

export async function comparePicture(page, file, [width, height], update) {
  await page.mouse.move(0, 0);
  await page.waitForTimeout(100);
  const shot = await page.screenshot();
  const small = await page.evaluate(shrink, { png: shot.toString("base64"), width, height });
  if (update) {
    writeFileSync(file, Buffer.from(small.png, "base64"));
    return "picture written";
  }
  if (!existsSync(file)) throw new Error(`no reference picture ${basename(file)}: --update writes it`);
  const kept = await page.evaluate(shrink, { png: readFileSync(file).toString("base64"), width, height });
  const { mean, worst } = difference(small.pixels, kept.pixels, width, height);
  const most = basename(file).startsWith("synthetic-") ? BLOCK : FITTED_BLOCK;
  if (mean > MEAN || worst > most) throw new Error(`differs by ${mean.toFixed(4)} in the mean, ${worst.toFixed(3)} in the worst block`);
  return `differs by ${mean.toFixed(4)}, by ${worst.toFixed(3)} in the worst block`;
}

/** In the page: decodes a PNG, draws it smaller, returns pixels and PNG. */
async function shrink({ png, width, height }) {
  const bytes = Uint8Array.from(atob(png), (c) => c.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const canvas = new OffscreenCanvas(width, height);
  const pen = canvas.getContext("2d");
  pen.imageSmoothingQuality = "high";
  pen.drawImage(image, 0, 0, width, height);
  const seen = pen.getImageData(0, 0, width, height);
  seen.data.forEach((value, i) => (seen.data[i] = i % 4 === 3 ? value : Math.min(255, 8 * Math.round(value / 8)))); // coarser, so that PNG packs it well
  pen.putImageData(seen, 0, 0);
  const pixels = [...seen.data];
  const out = new Uint8Array(await (await canvas.convertToBlob({ type: "image/png" })).arrayBuffer());
  return { pixels, png: btoa(out.reduce((text, byte) => text + String.fromCharCode(byte), "")) };
}

function difference(a, b, width, height) {
  const blocks = new Float64Array(BLOCKS * BLOCKS);
  const counts = new Float64Array(BLOCKS * BLOCKS);
  let sum = 0;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const i = 4 * (y * width + x);
      const d = (Math.abs(a[i] - b[i]) + Math.abs(a[i + 1] - b[i + 1]) + Math.abs(a[i + 2] - b[i + 2])) / (3 * 255);
      const block = Math.floor((y * BLOCKS) / height) * BLOCKS + Math.floor((x * BLOCKS) / width);
      blocks[block] += d;
      counts[block]++;
      sum += d;
    }
  }
  return { mean: sum / (width * height), worst: Math.max(...blocks.map((d, i) => d / counts[i])) };
}
