import { createRequire } from 'node:module';

/** The folder that has ONNX Runtime: no package, whose users install without its 288 MB. */
export const ortFolder: URL = new URL('../../../bench/', import.meta.url);

/** ONNX Runtime itself, an `Onnx` of @kv/engine-onnx. */
export const ort: any = createRequire(new URL('package.json', ortFolder))('onnxruntime-node');
