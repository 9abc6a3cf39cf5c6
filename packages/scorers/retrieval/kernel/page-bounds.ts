// @ts-nocheck: AssemblyScript, not TypeScript
// The loop of Quest's page bounds. Rebuild: `node packages/cpu/scripts/build-kernel.mjs`.


export { base } from "../../../cpu/kernel/kernel";
export { extents } from "../../../cpu/kernel/extents";
