import { createRequire } from 'node:module';
import type { Onnx } from '../src/index.ts';

/** The folder that has ONNX Runtime: not this package, whose users install without its 288 MB. */
export const ortFolder: URL = new URL('../../../bench/', import.meta.url);

export const ort = createRequire(new URL('package.json', ortFolder))('onnxruntime-node') as Onnx;
