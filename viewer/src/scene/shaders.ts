// GLSL ES 3.00. One vertex stage places a vertex (skinned, or unpacked from 16 bits) for all that draws it: surface, wireframe, read-back.

/** Texels per row of the matrix texture; texel 3 j + r holds row r of joint j's 3x4 matrix. */
export const MATRIX_WIDTH = 1536;
/** Texels per row of the read-back target: vertex v lies at (v % width, v / width). */
export const READ_WIDTH = 1024;

const BAKED = `
vec3 placed(out vec3 turned) {
  turned = normal;
  return boxMin + position * boxSize;
}`;

/** Rows of the blended matrix. Stored normals are multiplied by it, as three.js and most engines do; others are of the posed surface already. */
function skinned(quads: number): string {
  const groups = Array.from({ length: quads }, (_, i) => i);
  return `
${groups.map((i) => `in vec4 joints${i};\nin vec4 weights${i};`).join("\n")}
uniform sampler2D matrices;
uniform highp int storedNormals;
vec4 rowOf(int joint, int row) {
  int texel = 3 * joint + row;
  return texelFetch(matrices, ivec2(texel % ${MATRIX_WIDTH}, texel / ${MATRIX_WIDTH}), 0);
}
void add(float joint, float weight, inout vec4 x, inout vec4 y, inout vec4 z) {
  if (weight == 0.0) return;
  int j = int(joint);
  x += weight * rowOf(j, 0);
  y += weight * rowOf(j, 1);
  z += weight * rowOf(j, 2);
}
vec3 placed(out vec3 turned) {
  vec4 x = vec4(0.0), y = vec4(0.0), z = vec4(0.0);
${groups.flatMap((i) => ["x", "y", "z", "w"].map((c) => `  add(joints${i}.${c}, weights${i}.${c}, x, y, z);`)).join("\n")}
  turned = storedNormals == 1 ? normalize(vec3(dot(x.xyz, normal), dot(y.xyz, normal), dot(z.xyz, normal))) : normal;
  vec4 rest = vec4(position, 1.0);
  return vec3(dot(x, rest), dot(y, rest), dot(z, rest));
}`;
}

/** `quads`: groups of four influences; 0 for baked positions. */
export function vertexShader(quads: number, readback: boolean): string {
  const readPosition = `
  vec2 size = vec2(${READ_WIDTH}.0, readRows);
  vec2 texel = vec2(gl_VertexID % ${READ_WIDTH}, gl_VertexID / ${READ_WIDTH}) + 0.5;
  gl_Position = vec4(texel / size * 2.0 - 1.0, 0.0, 1.0);
  gl_PointSize = 1.0;`;
  return `precision highp float;
precision highp sampler2D;
in vec3 position;
in vec3 normal;
in vec3 other;
in vec3 otherNormal;
in float value;
in vec3 tint;
uniform mat4 viewMatrix;
uniform mat4 projectionMatrix;
uniform vec3 boxMin;
uniform vec3 boxSize;
uniform vec3 otherMin;
uniform vec3 otherSize;
uniform int frameError;
uniform float readRows;
uniform float pointSize;
out vec3 vView;
out vec3 vNormal;
out vec3 vPlace;
out float vValue;
out vec3 vTint;
${quads > 0 ? skinned(quads) : BAKED}
void main() {
  vec3 turned;
  vec3 place = placed(turned);
  vec4 seen = viewMatrix * vec4(place, 1.0);
  vPlace = place;
  vView = seen.xyz;
  vNormal = mat3(viewMatrix) * turned;
  vValue = frameError == 1 ? distance(place, otherMin + other * otherSize) : value;
  // The angle to the original's normal in degrees; the chord keeps small angles exact.
  if (frameError == 2) vValue = degrees(2.0 * asin(min(0.5 * distance(turned, otherNormal), 1.0)));
  vTint = tint;${readback ? readPosition : "\n  gl_Position = projectionMatrix * seen;\n  gl_PointSize = pointSize;"}
}`;
}

export const READ_FRAGMENT = `precision highp float;
in vec3 vPlace;
in float vValue;
out vec4 color;
void main() { color = vec4(vPlace, vValue); }`;

/** Linear to sRGB, at the end of every fragment stage. */
const ENCODE = `
vec3 encode(vec3 c) {
  return mix(12.92 * c, 1.055 * pow(max(c, 0.0), vec3(1.0 / 2.4)) - 0.055, step(0.0031308, c));
}`;

/** mode 0: one colour; 1: heat map of vValue; 2: vTint. Contours at each quarter of the map tell levels without colour. */
export const SURFACE_FRAGMENT = `precision highp float;
precision highp sampler2D;
in vec3 vView;
in vec3 vNormal;
in float vValue;
in vec3 vTint;
uniform int mode;
uniform int contours;
uniform int facets;
uniform highp int storedNormals;
uniform int cloud;
uniform float top;
uniform float ghost;
uniform vec3 base;
uniform vec3 ink;
uniform sampler2D ramp;
out vec4 color;
${ENCODE}
vec3 albedo() {
  if (mode == 2) return vTint;
  if (mode == 0) return base;
  float t = top > 0.0 ? clamp(vValue / top, 0.0, 1.0) : 0.0;
  return texture(ramp, vec2((t * 255.0 + 0.5) / 256.0, 0.5)).rgb;
}
float contour() {
  float level = top > 0.0 ? vValue / top * 4.0 : 0.0;
  float width = fwidth(level);
  float near = abs(fract(level - 0.5) - 0.5) / max(width, 1e-6);
  float line = 1.0 - smoothstep(0.35, 1.0, near);
  return level < 0.5 || level > 4.5 || width > 0.7 ? 0.0 : line;
}
void main() {
  if (cloud == 1) {
    if (length(gl_PointCoord - 0.5) > 0.5) discard;
    color = vec4(encode(mode == 0 ? mix(ink, base, 0.35) : albedo()), 1.0);
    return;
  }
  vec3 n = facets == 1 ? normalize(cross(dFdx(vView), dFdy(vView))) : normalize(vNormal);
  vec3 toEye = normalize(-vView);
  if (facets == 0 && !gl_FrontFacing) n = -n;
  // An engine lights what a stored normal says, also where it points away from the eye.
  if (dot(n, toEye) < 0.0 && (storedNormals == 0 || facets == 1)) n = normalize(n - 2.0 * dot(n, toEye) * toEye);
  float key = max(dot(n, normalize(vec3(-0.45, 0.7, 0.6))), 0.0);
  float fill = 0.5 + 0.5 * dot(n, normalize(vec3(0.7, -0.1, 0.4)));
  float sky = 0.5 + 0.5 * n.y;
  float edge = 1.0 - max(dot(n, toEye), 0.0);
  vec3 surface = albedo();
  // Data colours are lit flatter than clay, so that the legend still reads.
  float light = mode == 0 ? 0.42 * sky + 0.14 * fill + 0.60 * key : 0.55 + 0.16 * sky + 0.34 * key;
  vec3 lit = surface * light + vec3(0.05) * pow(edge, 3.0);
  if (mode == 1 && contours == 1) lit = mix(lit, lit.g + lit.r > 0.9 ? vec3(0.0) : vec3(1.0), 0.38 * contour());
  float alpha = ghost > 0.0 ? mix(0.10, 0.75, pow(edge, 1.6)) * ghost : 1.0;
  color = vec4(encode(lit) * alpha, alpha);
}`;

export const LINE_FRAGMENT = `precision highp float;
uniform vec3 base;
uniform float opacity;
out vec4 color;
${ENCODE}
void main() { color = vec4(encode(base) * opacity, opacity); }`;

/** Bones and joints: few of them, placed on the CPU. Points are discs with a rim. */
export const BONE_VERTEX = `precision highp float;
in vec3 position;
in vec4 tint;
uniform mat4 viewMatrix;
uniform mat4 projectionMatrix;
uniform float pointSize;
out vec3 vView;
out vec4 vTint;
void main() {
  vec4 seen = viewMatrix * vec4(position, 1.0);
  vView = seen.xyz;
  vTint = tint;
  gl_Position = projectionMatrix * seen;
  gl_PointSize = pointSize * (tint.a > 0.9 ? 1.5 : 1.0);
}`;

export const BONE_FRAGMENT = `precision highp float;
in vec3 vView;
in vec4 vTint;
uniform int shape;
uniform vec3 rim;
uniform float opacity;
out vec4 color;
${ENCODE}
void main() {
  vec3 c = vTint.rgb;
  float alpha = opacity;
  if (shape == 1) {
    float r = length(gl_PointCoord - 0.5) * 2.0;
    alpha *= 1.0 - smoothstep(0.86, 1.0, r);
    c = mix(c, rim, smoothstep(0.52, 0.66, r));
  } else if (shape == 0) {
    vec3 n = normalize(cross(dFdx(vView), dFdy(vView)));
    c *= 0.45 + 0.65 * abs(n.z) + 0.25 * max(n.y, 0.0);
  }
  color = vec4(encode(c) * alpha, alpha);
}`;

/** A floor whose lines fade out around the model. */
export const FLOOR_VERTEX = `precision highp float;
in vec3 position;
uniform mat4 viewMatrix;
uniform mat4 projectionMatrix;
uniform vec3 centre;
uniform vec3 across;
uniform vec3 along;
uniform float radius;
out vec2 vAt;
void main() {
  vAt = position.xy;
  vec3 place = centre + radius * (position.x * across + position.y * along);
  gl_Position = projectionMatrix * viewMatrix * vec4(place, 1.0);
}`;

export const FLOOR_FRAGMENT = `precision highp float;
in vec2 vAt;
uniform vec3 ink;
uniform vec2 shift;
uniform float cells;
uniform float strength;
out vec4 color;
${ENCODE}
void main() {
  vec2 at = vAt * cells + shift;
  vec2 width = fwidth(at);
  vec2 near = abs(fract(at - 0.5) - 0.5) / width;
  float line = 1.0 - min(min(near.x, near.y), 1.0);
  float fade = 1.0 - smoothstep(0.15, 1.0, length(vAt));
  float soft = 1.0 - smoothstep(0.15, 0.5, max(width.x, width.y));
  float alpha = strength * (0.9 * line * soft * fade + 0.35 * (1.0 - smoothstep(0.0, 0.55, length(vAt))));
  color = vec4(encode(ink) * alpha, alpha);
}`;
