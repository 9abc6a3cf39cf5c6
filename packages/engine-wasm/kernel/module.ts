// @ts-nocheck: AssemblyScript, not TypeScript
// The engine `fast` of @kv/models. Rebuild: `node scripts/build-kernel.mjs`. Pointers are byte offsets into the memory
// that all threads share; there is no allocator: the caller places everything.

export { eights, gather, mixRows, packScratch, packedBytes, partBytes, rowsScratch, tokenScratch } from "./attend";
export { memoryScratch } from "./delta";
export { extents } from "./extents";
export { setWide } from "./forms";
// of @kv/cpu's kernel: what scores keys and values where they lie
export { distances, dots, mix, norms } from "./host";
export { panelBytes } from "./kinds";
export { SCRATCH, fewFloats, fewProduct, floatProduct, pack, quantise, row, rowProduct, rowsProduct } from "./products";
export { call, ownBytes, serve } from "./run";
export { columns, packKeys, scoreOne, scorePacked, softmax } from "./scores";
export { viewKeys } from "./show";
export { sizes } from "./sizes";
export { decode, encode } from "./stored";
export { controlBytes, join, spin } from "./team";
