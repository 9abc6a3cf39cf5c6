import { createRequire } from 'node:module';

/** Folder that has ONNX Runtime installed; it is not a package, so that users do not install its 288 MB. */
export const ortFolder: URL = new URL('../../../bench/', import.meta.url);

/** ONNX Runtime, as an `Onnx` of @kv/engine-onnx. */
export const ort: any = createRequire(new URL('package.json', ortFolder))('onnxruntime-node');
