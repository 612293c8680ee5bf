// Reads vertex positions back as the GPU places them: every vertex is drawn as one texel of a float target by the stage that draws the surface.
import * as THREE from "three";
import { READ_WIDTH } from "./shaders";
import { readRows, type Source } from "./source";

export class Readback {
  private readonly target: THREE.WebGLRenderTarget;
  private readonly scene = new THREE.Scene();
  private readonly camera = new THREE.PerspectiveCamera();
  private readonly texels: Float32Array;

  constructor(
    private readonly renderer: THREE.WebGLRenderer,
    private readonly vertices: number,
  ) {
    const rows = readRows(vertices);
    this.target = new THREE.WebGLRenderTarget(READ_WIDTH, rows, { type: THREE.FloatType, format: THREE.RGBAFormat, depthBuffer: false });
    this.texels = new Float32Array(4 * READ_WIDTH * rows);
  }

  /** Positions [N, 3] of `source` in `frame`; the source keeps the frame that it shows. */
  positions(source: Source, frame: number): Float32Array {
    const shown = source.frame;
    source.setFrame(frame);
    this.scene.clear();
    this.scene.add(source.points);
    this.renderer.setRenderTarget(this.target);
    this.renderer.setScissorTest(false);
    this.renderer.clear();
    this.renderer.render(this.scene, this.camera);
    this.renderer.readRenderTargetPixels(this.target, 0, 0, READ_WIDTH, this.target.height, this.texels);
    this.renderer.setRenderTarget(null);
    if (shown >= 0) source.setFrame(shown);
    const out = new Float32Array(3 * this.vertices);
    for (let v = 0; v < this.vertices; v++) out.set(this.texels.subarray(4 * v, 4 * v + 3), 3 * v);
    return out;
  }
}
