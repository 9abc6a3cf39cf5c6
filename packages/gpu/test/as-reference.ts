import type { Kernel } from '@kv/core';
import { kernelLaws } from '@kv/laws';
import type { KernelInputs, KernelSize } from '@kv/laws';
import type { Gpu } from '../src/index.ts';
import { share } from './differential.ts';

/**
 * Expects a kernel on the device to be its reference.
 * @param made gives inputs by name, of which the kernel takes its own, and parameters
 */
export async function asReference(gpu: Gpu, kernel: Kernel, made: (size: KernelSize) => KernelInputs): Promise<void> {
  const make = (size: KernelSize): KernelInputs => {
    const { inputs, ...rest } = made(size);
    return { ...rest, inputs: Object.fromEntries(Object.keys(kernel.inputs).map((name) => [name, inputs[name]])) };
  };
  for (const law of Object.values(kernelLaws(kernel, { backend: gpu, runs: share(8), tolerance: 1e-4, make })))
    await law();
}
