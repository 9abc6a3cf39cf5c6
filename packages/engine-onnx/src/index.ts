export { onnxEngine } from './engine.ts';
export type { OnnxEngineOptions } from './engine.ts';
export { decoderGraph } from './export/decoder-graph.ts';
export { EXPORT, exportOnnx } from './export/export.ts';
export type { ExportForm, ExportOptions } from './export/export.ts';
export { installedOnnx } from './installed.ts';
export type { Onnx, OnnxSession, OnnxTensor } from './runtime.ts';
