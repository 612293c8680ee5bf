// Decodes a glTF file with gltf-transform and meshoptimizer, and writes it without compression: node decode.mjs IN OUT
import { NodeIO } from '@gltf-transform/core';
import { ALL_EXTENSIONS } from '@gltf-transform/extensions';
import { MeshoptDecoder } from 'meshoptimizer';

await MeshoptDecoder.ready;
const io = new NodeIO().registerExtensions(ALL_EXTENSIONS).registerDependencies({ 'meshopt.decoder': MeshoptDecoder });
const document = await io.read(process.argv[2]);
for (const extension of document.getRoot().listExtensionsUsed()) {
  if (/meshopt/.test(extension.extensionName)) extension.dispose();
}
await io.write(process.argv[3], document);
