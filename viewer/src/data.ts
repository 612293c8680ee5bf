// Reads the two script elements that the Rust side puts into the page, and unpacks the blob.
import type { Buf, Report } from "./types";

type Typed = Uint8Array | Uint16Array | Uint32Array | Float32Array;

/** The unpacked blob; every buffer of the report is a view into it. */
export class Blobs {
  constructor(private readonly bytes: ArrayBuffer) {}

  u8(buf: Buf): Uint8Array {
    return this.view(buf, "u8", Uint8Array);
  }

  u16(buf: Buf): Uint16Array {
    return this.view(buf, "u16", Uint16Array);
  }

  u32(buf: Buf): Uint32Array {
    return this.view(buf, "u32", Uint32Array);
  }

  f32(buf: Buf): Float32Array {
    return this.view(buf, "f32", Float32Array);
  }

  private view<T extends Typed>(buf: Buf, type: Buf["type"], Make: new (b: ArrayBuffer, o: number, n: number) => T): T {
    if (buf.type !== type) throw new Error(`a buffer of ${buf.type} stands where ${type} is expected`);
    return new Make(this.bytes, buf.offset, buf.length);
  }
}

export interface Loaded {
  report: Report;
  blobs: Blobs;
  /** Characters of the whole page, which is its size on disk up to a few accents. */
  fileBytes: number;
}

const FORMAT = 1;
/** Base64 characters per step, a multiple of 4: keeps the intermediate strings of a 50 MB blob small. */
const STEP = 1 << 20;

export async function load(): Promise<Loaded | null> {
  const json = document.getElementById("bonesmith-report");
  if (!json) return null;
  const report = JSON.parse(json.textContent ?? "") as Report;
  if (report.format !== FORMAT) throw new Error(`this page reads report format ${FORMAT}; the data have format ${report.format}`);
  const fileBytes = pageSize();
  const blobs = new Blobs(await unpack(document.getElementById("bonesmith-data"), report));
  return { report, blobs, fileBytes };
}

function pageSize(): number {
  const parts = [...document.querySelectorAll("script, style")];
  return parts.reduce((sum, part) => sum + (part.textContent?.length ?? 0), 4096);
}

async function unpack(element: HTMLElement | null, report: Report): Promise<ArrayBuffer> {
  if (!element || !report.blob) return new ArrayBuffer(0);
  const bytes = await decoded(element, report.blob.encoding);
  if (bytes.byteLength !== report.blob.bytes) {
    throw new Error(`the data have ${bytes.byteLength} bytes, the report says ${report.blob.bytes}: was the file cut off?`);
  }
  return bytes;
}

async function decoded(element: HTMLElement, encoding: "gzip" | "none"): Promise<ArrayBuffer> {
  try {
    const packed = fromBase64((element.textContent ?? "").trim());
    element.textContent = ""; // Base64 of a long sequence is tens of megabytes.
    return encoding === "gzip" ? await gunzip(packed) : packed.buffer;
  } catch (error) {
    throw new Error("the data cannot be unpacked: was the file cut off?", { cause: error });
  }
}

function gunzip(packed: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/** Newer browsers have a decoder of their own. */
type WithBase64 = { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> };

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as WithBase64).fromBase64;
  if (native) return native.call(Uint8Array, text);
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const bytes = new Uint8Array((text.length / 4) * 3 - padding);
  let at = 0;
  for (let start = 0; start < text.length; start += STEP) {
    const piece = atob(text.slice(start, start + STEP));
    for (let i = 0; i < piece.length; i++) bytes[at++] = piece.charCodeAt(i);
  }
  return bytes;
}
