// Mouse, pen and fingers on the picture: drag turns, right or shift drag and two fingers move, wheel and pinch zoom, a click picks.
import * as THREE from "three";
import { influencesOf, type Content } from "../content";
import { pan, startPose, turn, zoom } from "../scene/orbit";
import type { View } from "../scene/view";
import type { Store } from "../state";

const CLICK = 4; // pixels that a click may move
const JOINT_REACH = 11; // pixels around a joint that count as the joint

export function pointer(view: View, content: Content, store: Store, hover: (x: number, y: number) => void, leave: () => void): void {
  const canvas = view.canvas;
  const down = new Map<number, { x: number; y: number }>();
  let moved = 0;
  const fraction = (event: PointerEvent | MouseEvent): [number, number] => {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (down.size === 1) moved = 0;
    leave();
  });
  canvas.addEventListener("pointermove", (event) => {
    const last = down.get(event.pointerId);
    if (!last) {
      if (event.pointerType === "mouse") hover(...fraction(event));
      return;
    }
    const place = view.paneAt(...fraction(event)) ?? view.places[0];
    if (!place) return;
    const pose = view.pose(place.pane.camera);
    const height = place.pane.rect.height * canvas.clientHeight;
    const dx = event.clientX - last.x;
    const dy = event.clientY - last.y;
    moved += Math.abs(dx) + Math.abs(dy);
    const others = [...down].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    if (others.length > 0) {
      const [other] = others;
      zoom(pose, Math.hypot(last.x - other.x, last.y - other.y) / Math.max(Math.hypot(event.clientX - other.x, event.clientY - other.y), 1));
      pan(pose, place.camera, dx / height / 2, dy / height / 2);
    } else if (event.buttons & 6 || event.shiftKey) pan(pose, place.camera, dx / height, dy / height);
    else turn(pose, -dx * 0.008, dy * 0.008);
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    view.requestDraw();
  });
  const up = (event: PointerEvent): void => {
    const clicked = down.delete(event.pointerId) && down.size === 0 && moved < CLICK && event.type === "pointerup" && event.button === 0;
    if (clicked) pickAt(view, content, store, ...fraction(event));
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("dblclick", () => {
    view.poses = [startPose()];
    view.requestDraw();
  });
  canvas.addEventListener(
    "wheel",
    (event) => {
      // The page scrolls past the picture; zooming needs it in focus or a modifier.
      if (!event.ctrlKey && document.activeElement !== canvas && !canvas.matches(":active")) return;
      event.preventDefault();
      const place = view.paneAt(...fraction(event));
      if (!place) return;
      zoom(view.pose(place.pane.camera), Math.exp(Math.min(Math.max(event.deltaY, -120), 120) * 0.0016));
      view.requestDraw();
    },
    { passive: false },
  );
}

/** A joint near the click wins over the surface behind it. */
function pickAt(view: View, content: Content, store: Store, x: number, y: number): void {
  const place = view.paneAt(x, y);
  if (!place) return;
  const source = place.pane.sources[place.pane.sources.length - 1];
  const joint = store.get().bones ? jointAt(view, store, source, x, y) : null;
  if (joint !== null) {
    store.set({ model: source, bone: joint });
    return;
  }
  const hit = view.vertexAt(x, y);
  if (!hit) {
    store.set({ vertex: null });
    return;
  }
  const model = hit.source >= 0 ? hit.source : store.get().model;
  const strongest = content.models[model] ? influencesOf(content.models[model], hit.vertex)[0]?.bone : undefined;
  store.set({ model, vertex: hit.vertex, ...(strongest === undefined ? {} : { bone: strongest }) });
}

function jointAt(view: View, store: Store, source: number, x: number, y: number): number | null {
  const skeleton = view.skeletons.get(source);
  const place = view.paneAt(x, y);
  if (!skeleton || !place) return null;
  const head = new THREE.Vector3();
  let best = JOINT_REACH;
  let found: number | null = null;
  for (let bone = 0; bone < skeleton.joints.position.count; bone++) {
    const at = view.project(place, skeleton.head(store.get().frame, bone, head));
    if (!at) continue;
    const distance = Math.hypot(at[0] - x * view.canvas.clientWidth, at[1] - y * view.canvas.clientHeight);
    if (distance < best) {
      best = distance;
      found = bone;
    }
  }
  return found;
}
