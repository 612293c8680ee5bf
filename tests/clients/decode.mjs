// Decodes a glTF file with gltf-transform and meshoptimizer, and writes it without compression: node decode.mjs IN OUT
import { readFileSync } from 'node:fs';
import { NodeIO } from '@gltf-transform/core';
import { ALL_EXTENSIONS } from '@gltf-transform/extensions';
import { MeshoptDecoder } from 'meshoptimizer';

await MeshoptDecoder.ready;
const io = new NodeIO().registerExtensions(ALL_EXTENSIONS).registerDependencies({ 'meshopt.decoder': MeshoptDecoder });
const source = await io.binaryToJSON(new Uint8Array(readFileSync(process.argv[2])));
// gltf-transform 4.5 has the older extension only; meshoptimizer's decoder has the streams of both.
const json = JSON.parse(JSON.stringify(source.json).replaceAll('KHR_meshopt_compression', 'EXT_meshopt_compression'));
const document = await io.readJSON({ json, resources: source.resources });
for (const extension of document.getRoot().listExtensionsUsed()) {
  if (/meshopt/.test(extension.extensionName)) extension.dispose();
}
await io.write(process.argv[3], document);
