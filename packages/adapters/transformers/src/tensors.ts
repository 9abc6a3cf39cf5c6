import { Tensor } from '@huggingface/transformers';

type Numbers = Float32Array | Uint16Array | Float64Array;

/** Returns a cache entry `[1, G, n, d]` on the host, copied if it is on a device. */
export async function onHost(tensor: Tensor): Promise<Tensor> {
  if (tensor.location === 'cpu') return tensor;
  const { ort_tensor: ort, type, dims } = tensor,
    data = await (ort as unknown as { getData(release: boolean): Promise<Numbers> }).getData(false);
  return new Tensor(type, data, dims);
}

/** Returns the numbers as f32, without a copy if they are f32 already. */
export const floats = (tensor: Tensor): Float32Array =>
  (tensor.type === 'float32' ? tensor : tensor.to('float32')).data as Float32Array;

/** Gathers slots of every head to `[1, G, kept, d]`; every head keeps equally many. */
export function gatherSlots(tensor: Tensor, slots: readonly Uint32Array[]): Tensor {
  const [, heads, n, d] = tensor.dims,
    from = tensor.data as Numbers,
    kept = slots[0].length,
    out = new (from.constructor as new (length: number) => Numbers)(heads * kept * d);
  for (let g = 0; g < heads; g++)
    for (let i = 0; i < kept; i++) {
      const at = (g * n + slots[g][i]) * d;
      out.set(from.subarray(at, at + d), (g * kept + i) * d);
    }
  return new Tensor(tensor.type, out, [1, heads, kept, d]);
}
