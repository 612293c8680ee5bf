// The Khronos validator on every .glb and .gltf in the folders given: any error fails.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import validator from "gltf-validator";

const folders = process.argv.slice(2);
const files = folders.flatMap((folder) =>
  readdirSync(folder)
    .filter((name) => [".glb", ".gltf"].includes(extname(name)))
    .sort()
    .map((name) => join(folder, name)),
);
if (files.length === 0) {
  console.error(`no .glb or .gltf in ${folders.join(", ")}`);
  process.exit(2);
}

let failed = 0;
for (const file of files) {
  const report = await validator.validateBytes(new Uint8Array(readFileSync(file)), {
    uri: file,
    maxIssues: 0,
    externalResourceFunction: async (uri) => new Uint8Array(readFileSync(join(dirname(file), decodeURIComponent(uri)))),
  });
  const { numErrors, numWarnings, numInfos, messages } = report.issues;
  const passed = numErrors === 0;
  failed += passed ? 0 : 1;
  console.log(`${passed ? "ok  " : "FAIL"} ${file}: ${numErrors} errors, ${numWarnings} warnings, ${numInfos} infos`);
  for (const message of messages.filter((m) => m.severity <= 1).slice(0, 10)) {
    console.log(`     ${message.severity === 0 ? "error" : "warning"} ${message.code} ${message.pointer}: ${message.message}`);
  }
}
console.log(`${files.length - failed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
