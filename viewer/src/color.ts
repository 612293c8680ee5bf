// Colours are computed in OKLCH (Ottosson 2020), where equal steps of lightness look equal: the heat map rises evenly from dark to light,
// so that it also reads in grey, and the bones' palette keeps its contrast.

export type Rgb = [number, number, number];

/** OKLCH (hue in degrees) to linear sRGB; may leave the gamut. */
function linearOf(l: number, c: number, hue: number): Rgb {
  const h = (hue * Math.PI) / 180;
  const a = c * Math.cos(h);
  const b = c * Math.sin(h);
  const u = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const v = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const w = (l - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * u - 3.3077115913 * v + 0.2309699292 * w,
    -1.2684380046 * u + 2.6097574011 * v - 0.3413193965 * w,
    -0.0041960863 * u - 0.7034186147 * v + 1.707614701 * w,
  ];
}

/** Linear sRGB in the gamut: chroma gives way, lightness and hue stay. */
export function oklch(l: number, c: number, hue: number): Rgb {
  let rgb = linearOf(l, c, hue);
  for (let chroma = c; chroma > 0 && rgb.some((x) => x < -1e-4 || x > 1.0001); ) {
    chroma -= 0.004;
    rgb = linearOf(l, Math.max(chroma, 0), hue);
  }
  return rgb.map((x) => Math.min(Math.max(x, 0), 1)) as Rgb;
}

export function toSrgb(x: number): number {
  return x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055;
}

export function toLinear(x: number): number {
  return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
}

export function css(rgb: Rgb): string {
  return `rgb(${rgb.map((x) => Math.round(toSrgb(x) * 255)).join(" ")})`;
}

/** `#rrggbb` to linear sRGB. */
export function fromHex(hex: string): Rgb {
  return [1, 3, 5].map((i) => toLinear(parseInt(hex.slice(i, i + 2), 16) / 255)) as Rgb;
}

/** Chroma and hue at even steps of the heat map; lightness rises evenly beside them: indigo, plum, red, amber, straw. */
const HEAT: [chroma: number, hue: number][] = [
  [0.1, 283],
  [0.15, 312],
  [0.185, 362],
  [0.165, 408],
  [0.115, 459],
];
const HEAT_LIGHTNESS = [0.3, 0.93];

/** The heat map at t in 0..1. */
export function heat(t: number): Rgb {
  const x = Math.min(Math.max(t, 0), 1) * (HEAT.length - 1);
  const i = Math.min(Math.floor(x), HEAT.length - 2);
  const s = x - i;
  const [c0, h0] = HEAT[i];
  const [c1, h1] = HEAT[i + 1];
  const l = HEAT_LIGHTNESS[0] + (HEAT_LIGHTNESS[1] - HEAT_LIGHTNESS[0]) * Math.min(Math.max(t, 0), 1);
  return oklch(l, c0 + (c1 - c0) * s, h0 + (h1 - h0) * s);
}

export function heatGradient(direction: string): string {
  const stops = Array.from({ length: 17 }, (_, i) => css(heat(i / 16)));
  return `linear-gradient(${direction}, ${stops.join(", ")})`;
}

/** Categorical colours in OKLCH: twelve hues on three levels of lightness, which tell them apart without hue too. */
const PALETTE: [number, number, number][] = [0, 1, 2].flatMap((level) =>
  Array.from({ length: 12 }, (_, i): [number, number, number] => [[0.7, 0.54, 0.84][level], [0.13, 0.13, 0.095][level], i * 30 + 15 + level * 10]),
);

function distance(a: number, b: number): number {
  const [l1, c1, h1] = PALETTE[a];
  const [l2, c2, h2] = PALETTE[b];
  const r = Math.PI / 180;
  return Math.hypot(1.4 * (l1 - l2), c1 * Math.cos(h1 * r) - c2 * Math.cos(h2 * r), c1 * Math.sin(h1 * r) - c2 * Math.sin(h2 * r));
}

/**
 * A colour for each of `count` bones such that bones that share vertices differ most. `pairs` holds shared weight by key `a * count + b`.
 * Greedy: bone after bone takes the colour farthest from its coloured neighbours, then the one used least.
 */
export function boneColors(count: number, pairs: Map<number, number>): Rgb[] {
  const neighbours: number[][] = Array.from({ length: count }, () => []);
  for (const key of pairs.keys()) {
    const a = Math.floor(key / count);
    const b = key % count;
    if (a !== b) {
      neighbours[a].push(b);
      neighbours[b].push(a);
    }
  }
  const taken: number[] = Array.from({ length: count }, () => -1);
  const used = PALETTE.map(() => 0);
  for (let bone = 0; bone < count; bone++) {
    const near = neighbours[bone].map((n) => taken[n]).filter((c) => c >= 0);
    let best = 0;
    let bestScore = -Infinity;
    for (let c = 0; c < PALETTE.length; c++) {
      const apart = near.reduce((least, n) => Math.min(least, distance(c, n)), 0.3);
      const score = apart - 0.1 * used[c] - (c >= 12 ? 0.02 : 0);
      if (score > bestScore) {
        best = c;
        bestScore = score;
      }
    }
    taken[bone] = best;
    used[best]++;
  }
  return taken.map((c) => oklch(...PALETTE[c]));
}
