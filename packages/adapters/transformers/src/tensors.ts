import { Tensor } from '@huggingface/transformers';

type Numbers = Float32Array | Uint16Array | Float64Array;

/** A cache's entry `[1, G, n, d]` on the host; what lies on a device is copied. */
export async function onHost(tensor: Tensor): Promise<Tensor> {
  if (tensor.location === 'cpu') return tensor;
  const { ort_tensor: ort, type, dims } = tensor,
    data = await (ort as unknown as { getData(release: boolean): Promise<Numbers> }).getData(false);
  return new Tensor(type, data, dims);
}

/** Its numbers as f32, where they lie if they are. */
export const floats = (tensor: Tensor): Float32Array =>
  (tensor.type === 'float32' ? tensor : tensor.to('float32')).data as Float32Array;

/** Some slots of every head, `[1, G, kept, d]`; each head keeps as many. */
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
