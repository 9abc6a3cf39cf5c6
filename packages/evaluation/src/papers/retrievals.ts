import { saveCache } from '@kv/models';
import type { Sequence } from '@kv/models';
import type { Numbers } from './types.ts';

/**
 * Pieces that share sets between queries count their retrievals in a state of this name, f32 [query heads, 1] a layer.
 */
const COUNTED = /^state\.\w+\.retrievals$/;

type Tensors = Readonly<Record<string, { readonly data_offsets: readonly [number, number] }>>;
interface Header {
  readonly __metadata__: { readonly kv: string };
}
interface Manifest {
  readonly layers: readonly { readonly states: readonly { readonly id: string }[] }[];
}

/**
 * Retrieval ratio of a policy that shares, from the states that a saved cache holds, and what it read a token: keys
 * where it retrieved, keys and values of what it saw,
 * at most `seen` with neighbours of its strongest third. Nothing for others.
 */
export async function retrievalsOf(
  sequence: Sequence,
  seen: number | undefined,
  steps: number,
  slots: number,
): Promise<Numbers> {
  if (seen === undefined || sequence.policy.hooks('view').length === 0) return {};
  const bytes = await saveCache(sequence),
    size = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const {
    __metadata__: { kv },
    ...tensors
  } = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + size))) as Header;
  const { layers, queryHeads } = sequence.model.config;
  const counts = (JSON.parse(kv) as Manifest).layers.flatMap(({ states }, l) =>
    states.flatMap(({ id }, i) => {
      if (!COUNTED.test(id)) return [];
      const [from, to] = (tensors as unknown as Tensors)[`layers.${l}.states.${i}`].data_offsets;
      return [...new Float32Array(bytes.slice(8 + size + from, 8 + size + to).buffer)];
    }),
  );
  if (counts.length === 0) return {};
  const retrievals = counts.reduce((a, b) => a + b, 0) / (layers * queryHeads * steps);
  return { retrievals, keyBytes: (retrievals * slots + 2 * (seen + 2 * Math.floor(seen / 3))) / (2 * slots) };
}
