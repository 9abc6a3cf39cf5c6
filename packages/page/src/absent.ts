/** Takes the place of modules that only Node loads, `webgpu` and `@kv/engine-onnx`, and of `@kv/grammars`. */
export {};
