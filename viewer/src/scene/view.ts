// The 3D part: one WebGL canvas, cut into panes. Draws only when something changed.
import * as THREE from "three";
import { fromHex, heat, toSrgb, type Rgb } from "../color";
import { heatTop, SHADING_TOP, type Content } from "../content";
import { mix } from "../mix";
import type { State, Store } from "../state";
import { Floor } from "./floor";
import { aim, startPose, type Extent, type Pose } from "./orbit";
import { paint } from "./paint";
import { panes, type Pane } from "./panes";
import { pickPoint, pickVertex } from "./pick";
import { Readback } from "./readback";
import { Skeleton } from "./skeleton";
import { Source, type Shared } from "./source";

/** Colours of the stage per theme, sRGB. Original and models have the same, so that only shading differs. */
const THEMES: Record<State["theme"], { stage: string; clay: string; model: string; ghost: string; ink: string; rim: string }> = {
  light: { stage: "#e9e5db", clay: "#d0c9b9", model: "#d0c9b9", ghost: "#8c3a14", ink: "#2a2723", rim: "#fffdf8" },
  dark: { stage: "#1b1c1e", clay: "#b0a898", model: "#b0a898", ghost: "#ff9a66", ink: "#f2ede2", rim: "#141516" },
};

export interface PanePlace {
  pane: Pane;
  camera: THREE.PerspectiveCamera;
}

export class View {
  readonly sources = new Map<number, Source>();
  readonly skeletons = new Map<number, Skeleton>();
  readonly extent: Extent;
  readonly zUp: boolean;
  /** True when the model travels farther than it is large. */
  readonly travels: boolean;
  places: PanePlace[] = [];
  poses: Pose[] = [startPose()];
  onDraw: (() => void) | null = null;
  private readonly renderer: THREE.WebGLRenderer;
  private readonly scene = new THREE.Scene();
  private readonly shared: Shared;
  private readonly rim: THREE.IUniform<THREE.Vector3> = { value: new THREE.Vector3() };
  private readonly ratio: THREE.IUniform<number> = { value: 1 };
  private readonly floor: Floor;
  private readonly readback: Readback;
  private readonly home = new THREE.Vector3();
  private readonly middle = new THREE.Vector3();
  private readonly ghosts = new Map<number, THREE.Material>();
  private readonly cache = new Map<number, { frame: number; positions: Float32Array }>();
  private queued = false;

  constructor(
    readonly canvas: HTMLCanvasElement,
    private readonly content: Content,
    private readonly store: Store,
  ) {
    this.renderer = new THREE.WebGLRenderer({ canvas, antialias: true, preserveDrawingBuffer: true });
    this.renderer.outputColorSpace = THREE.LinearSRGBColorSpace; // the shaders encode themselves
    this.renderer.autoClear = false;
    this.zUp = content.report.up === "z";
    this.shared = {
      ramp: { value: rampTexture() },
      top: { value: 1 },
      contours: { value: 1 },
      facets: { value: 0 },
      ink: { value: new THREE.Vector3() },
      pointSize: { value: 4 },
    };
    const original = content.original ? new Source("original", content, null, content.original, null, this.shared) : null;
    if (original) this.sources.set(-1, original);
    content.models.forEach((model, i) => {
      this.sources.set(i, new Source(model.name, content, model, model.baked, original, this.shared));
      if (model.bones.length > 0 || model.virtualHeads) this.skeletons.set(i, new Skeleton(model, this.rim, this.ratio));
    });
    this.readback = new Readback(this.renderer, content.vertices);
    const size = this.measure();
    this.extent = size.extent;
    this.travels = size.travels;
    this.floor = new Floor(size.floor, this.extent.radius, this.zUp, this.shared.ink);
    this.subscribe();
    canvas.addEventListener("webglcontextrestored", () => this.requestDraw());
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.resize();
  }

  /** Radius, middle and vertices from sampled frames as the GPU places them. */
  private measure(): { extent: Extent; floor: number; travels: boolean } {
    const source = this.sources.get(-1) ?? this.sources.get(0)!;
    const whole = new THREE.Box3();
    const half = new THREE.Vector3();
    let path = 0;
    const samples = Math.min(this.content.frames, 9);
    const shots = Array.from({ length: samples }, (_, s) => {
      const frame = Math.round((s * (this.content.frames - 1)) / Math.max(samples - 1, 1));
      const positions = this.readback.positions(source, frame);
      const box = new THREE.Box3().setFromArray(positions);
      half.max(box.getSize(new THREE.Vector3()).divideScalar(2));
      whole.union(box);
      return { positions, centre: box.getCenter(new THREE.Vector3()), mean: source.centre(frame, new THREE.Vector3()) };
    });
    for (const { centre } of shots) path = Math.max(path, centre.distanceTo(shots[0].centre));
    whole.getCenter(this.home);
    const travels = !this.content.shapes && path > 0.5 * half.length();
    const step = Math.max(1, Math.floor(this.content.vertices / 1000));
    const offsets: number[] = [];
    for (const { positions, mean } of shots) {
      // A camera that follows has the mean in its middle, at the same height always.
      const middle = travels ? mean.clone().setComponent(this.upAxis, this.home.getComponent(this.upAxis)) : this.home;
      for (let v = 0; 3 * v < positions.length; v += step) for (let c = 0; c < 3; c++) offsets.push(positions[3 * v + c] - middle.getComponent(c));
    }
    const all = whole.getSize(new THREE.Vector3()).divideScalar(2);
    if (!travels) half.copy(all);
    else half.setComponent(this.upAxis, all.getComponent(this.upAxis));
    return { extent: { offsets: Float32Array.from(offsets), radius: half.length() || 1 }, floor: this.zUp ? whole.min.z : whole.min.y, travels };
  }

  private get upAxis(): number {
    return this.zUp ? 2 : 1;
  }

  private subscribe(): void {
    this.store.on(["color", "errorKind", "errorTop", "bone", "model"], (state) => {
      for (const source of this.sources.values()) paint(source, state);
      for (const [i, skeleton] of this.skeletons) skeleton.paint(i === state.model ? state.bone : null);
      const fixed = { weights: 1, shading: SHADING_TOP }[state.color as string];
      const top = fixed ?? heatTop(this.content.models, state.errorKind, state.errorTop);
      this.shared.top.value = top;
    });
    if (this.content.shapes) this.store.on(["weights"], (state) => this.setMix(state.weights));
    this.store.on(["theme"], (state) => this.setTheme(state.theme));
    this.store.on([], (state, changed) => {
      this.shared.contours.value = state.contours ? 1 : 0;
      this.shared.facets.value = state.facets ? 1 : 0;
      if (changed.has("sync")) this.poses = [this.poses[0]];
      this.requestDraw();
    });
  }

  private setMix(weights: readonly number[]): void {
    mix(this.content, weights);
    for (const source of this.sources.values()) source.refresh();
    for (const skeleton of this.skeletons.values()) skeleton.refresh();
    this.cache.clear();
  }

  private setTheme(name: State["theme"]): void {
    const theme = THEMES[name];
    this.renderer.setClearColor(new THREE.Color().setRGB(...(fromHex(theme.stage).map(toSrgb) as Rgb), THREE.LinearSRGBColorSpace), 1);
    this.shared.ink.value.set(...fromHex(theme.ink));
    this.rim.value.set(...fromHex(theme.rim));
    for (const [i, source] of this.sources) {
      source.uniforms["base"].value.set(...fromHex(i < 0 ? theme.clay : theme.model));
      this.ghosts.get(i)?.dispose();
      const ghost = (source.surface.material as THREE.RawShaderMaterial).clone();
      const tint = new THREE.Vector3(...fromHex(theme.ghost));
      ghost.uniforms = { ...source.uniforms, mode: { value: 0 }, ghost: { value: 1 }, base: { value: tint } };
      ghost.transparent = true;
      ghost.depthWrite = false;
      ghost.side = THREE.FrontSide;
      this.ghosts.set(i, ghost);
    }
  }

  requestDraw(): void {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => this.draw());
  }

  private resize(): void {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (width === 0 || height === 0) return;
    this.ratio.value = Math.min(window.devicePixelRatio || 1, 2);
    this.shared.pointSize.value = 4 * this.ratio.value;
    this.renderer.setPixelRatio(this.ratio.value);
    this.renderer.setSize(width, height, false);
    this.draw();
  }

  pose(index: number): Pose {
    if (this.store.get().sync) return this.poses[0];
    const { shift, ...rest } = this.poses[0];
    return (this.poses[index] ??= { ...rest, shift: shift.clone() });
  }

  draw(): void {
    this.queued = false;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (width === 0 || height === 0) return;
    const state = this.store.get();
    for (const source of this.sources.values()) source.setFrame(state.frame);
    for (const skeleton of this.skeletons.values()) skeleton.setFrame(state.frame);
    this.setNormals(state);
    this.middle.copy(this.home);
    if (state.follow) {
      (this.sources.get(-1) ?? this.sources.get(state.model))?.centre(state.frame, this.middle);
      this.middle.setComponent(this.upAxis, this.home.getComponent(this.upAxis)); // jumps stay jumps
    }
    this.floor.moveTo(this.middle);
    this.renderer.setScissorTest(false);
    this.renderer.clear();
    this.renderer.setScissorTest(true);
    this.places = panes(state, this.content.models.length, this.sources.has(-1), width / height).map((pane) => {
      const camera = new THREE.PerspectiveCamera();
      aim(camera, this.pose(pane.camera), this.middle, this.extent, (pane.rect.width * width) / (pane.rect.height * height), this.zUp);
      this.drawPane(pane, camera, width, height);
      return { pane, camera };
    });
    this.onDraw?.();
  }

  /** The map of shading errors is about stored normals, whatever the switch says. */
  private setNormals(state: Readonly<State>): void {
    for (const source of this.sources.values()) {
      const stored = state.normals === "skinned" || state.color === "shading";
      if (stored && source.hasStoredNormals) source.useStoredNormals();
      else source.useNormalsOf(() => this.readback.positions(source, state.frame));
    }
  }

  private drawPane({ rect, clip, sources }: Pane, camera: THREE.Camera, width: number, height: number): void {
    const state = this.store.get();
    const solid = sources[sources.length - 1];
    this.scene.clear();
    this.scene.add(this.floor.object);
    const source = this.sources.get(solid)!;
    this.scene.add(source.surface);
    if (state.wireframe) this.scene.add(source.wire);
    const skeleton = this.skeletons.get(solid);
    if (skeleton && state.bones) this.scene.add(skeleton.bones.object, skeleton.links.object, skeleton.joints.object);
    if (skeleton?.virtual && state.virtual) this.scene.add(skeleton.virtual.object);
    const ghost = sources.length > 1 ? this.sources.get(sources[0]) : undefined;
    let plain: THREE.Material | THREE.Material[] | undefined;
    if (ghost) {
      plain = ghost.surface.material;
      ghost.surface.material = this.ghosts.get(sources[0])!;
      this.scene.add(ghost.surface);
    }
    const box = (r: typeof rect): [number, number, number, number] => [r.x * width, (1 - r.y - r.height) * height, r.width * width, r.height * height];
    this.renderer.setViewport(...box(rect));
    this.renderer.setScissor(...box(clip));
    this.renderer.render(this.scene, camera);
    if (ghost && plain) ghost.surface.material = plain;
  }

  /** The pane under a point given in fractions of the canvas, y down. */
  paneAt(x: number, y: number): PanePlace | null {
    const inside = ({ pane: { clip } }: PanePlace): boolean =>
      x >= clip.x && x <= clip.x + clip.width && y >= clip.y && y <= clip.y + clip.height;
    return this.places.find(inside) ?? null;
  }

  /** Vertex under a point in fractions of the canvas, with the source it belongs to. */
  vertexAt(x: number, y: number): { source: number; vertex: number } | null {
    const place = this.paneAt(x, y);
    if (!place) return null;
    const { rect, sources } = place.pane;
    const source = sources[sources.length - 1];
    const ndc = new THREE.Vector2(((x - rect.x) / rect.width) * 2 - 1, 1 - ((y - rect.y) / rect.height) * 2);
    const caster = new THREE.Raycaster();
    caster.setFromCamera(ndc, place.camera);
    const { triangles } = this.content;
    const shown = this.shownPositions(source);
    const hit = triangles.length > 0 ? pickVertex(caster.ray, shown, triangles) : pickPoint(caster.ray, shown);
    return hit ? { source, vertex: hit.vertex } : null;
  }

  private shownPositions(source: number): Float32Array {
    const frame = this.store.get().frame;
    const cached = this.cache.get(source);
    if (cached?.frame === frame) return cached.positions;
    const positions = this.positions(source, frame);
    this.cache.set(source, { frame, positions });
    return positions;
  }

  /** As the GPU places them; source -1 is the original. */
  positions(source: number, frame: number): Float32Array {
    const found = this.sources.get(source);
    if (!found) throw new Error(`no source ${source}`);
    return this.readback.positions(found, frame);
  }

  /** Point in the model to pixels of the canvas in the given pane; null behind the camera. */
  project({ pane: { rect }, camera }: PanePlace, p: THREE.Vector3): [number, number] | null {
    const seen = p.clone().project(camera);
    if (seen.z > 1) return null;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    return [(rect.x + ((seen.x + 1) / 2) * rect.width) * width, (rect.y + ((1 - seen.y) / 2) * rect.height) * height];
  }
}

/** The heat map as linear floats: bytes would show steps in its dark end. */
function rampTexture(): THREE.DataTexture {
  const data = new Float32Array(4 * 256);
  for (let i = 0; i < 256; i++) data.set([...heat(i / 255), 1], 4 * i);
  const texture = new THREE.DataTexture(data, 256, 1, THREE.RGBAFormat, THREE.FloatType);
  texture.needsUpdate = true;
  return texture;
}
