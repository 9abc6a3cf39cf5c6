import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import fc from 'fast-check';
import { encodeAccumulate, encodeAttention, encodeColumns } from '../src/index.ts';
import type { Attended, AttentionOptions, DeviceAttention } from '../src/index.ts';
import { attendHead, type HeadAttended } from './attention.oracle.ts';
import { everywhere, gpuTests, near, twice, ulp } from './device.ts';
import { numbers, random } from './numbers.ts';

const gpuTest = await gpuTests();

const shapes = fc.record({
  seed: fc.nat(), m: fc.constantFrom(1, 2, 5, 15, 16, 17, 33), kvHeads: fc.constantFrom(1, 2), group: fc.constantFrom(1, 2, 3), headDim: fc.constantFrom(12, 80),
  slots: fc.constantFrom(1, 31, 32, 33, 65, 150), spare: fc.constantFrom(0, 7), softcap: fc.constantFrom(undefined, 2), window: fc.constantFrom(undefined, 1, 20),
  views: fc.constantFrom(0, 1, 2), mask: fc.constantFrom('none', 'one', 'kv', 'query'),
});
type Shape = typeof shapes extends fc.Arbitrary<infer S> ? S : never;

/** A cache of ragged heads with gaps in its positions, queries at its end, what they may see; on the host and on the device. */
function scene({ seed, m, kvHeads: G, group, headDim: d, slots, spare, softcap, window, views, mask }: Shape): { readonly heads: HeadAttended[]; readonly values: number[]; readonly H: number; readonly on: (commands: Commands) => DeviceAttention } {
  const next = random(seed), H = G * group, capacity = slots + spare, scale = 0.7 / Math.sqrt(d);
  const lengths = Uint32Array.from({ length: G }, (_, g) => (g === 0 ? slots : Math.floor(next() * (slots + 1))));
  const positions = new Uint32Array(G * capacity).fill(0xffff_ffff);
  for (let g = 0; g < G; g++) for (let j = 0, p = 0; j < lengths[g]!; j++) positions[g * capacity + j] = p += j === 0 ? Math.floor(next() * 3) : 1 + Math.floor(next() * 2);
  const end = positions[slots - 1]!, queryPositions = Uint32Array.from({ length: m }, (_, i) => Math.max(i, end - Math.floor(m / 2) + i)); // some before, some after the last slot
  const data = (salt: number, size: number): Float32Array => numbers(seed + salt, size).map((x) => x / 4);
  const q = data(1, H * m * d), keys = data(2, G * capacity * d), values = data(3, G * capacity * d);
  const bounds = Array.from({ length: m * views }, () => { const from = Math.floor(next() * (end + 1)); return [from, from + Math.floor(next() * end)] as const; });
  const maskRows = { none: 0, one: 1, kv: G, query: H }[mask]!, hidden = Uint32Array.from({ length: maskRows * (slots + 2) }, () => (next() < 0.3 ? 0 : next() < 0.5 ? 1 : 0x3f80_0000));
  const row = (all: Float32Array, at: number): number[] => [...all.subarray(at * d, (at + 1) * d)];
  const heads = Array.from({ length: H }, (_, h) => {
    const g = Math.floor(h / group), list = Array.from({ length: lengths[g]! }, (_, j) => g * capacity + j);
    return attendHead({
      queries: Array.from({ length: m }, (_, r) => row(q, h * m + r)), queryPositions: [...queryPositions], keys: list.map((at) => row(keys, at)), values: list.map((at) => row(values, at)),
      positions: list.map((at) => positions[at]!), scale, softcap,
      visible: (own, j) => {
        const p = positions[g * capacity + j]!, r = queryPositions.indexOf(own);
        if (window !== undefined && own - p >= window) return false;
        if (bounds.slice(r * views, (r + 1) * views).some(([from, below]) => p >= from && p < below)) return false;
        return maskRows === 0 || hidden[(maskRows === 1 ? 0 : maskRows === G ? g : h) * (slots + 2) + j] !== 0;
      },
    });
  });
  const rows = Uint32Array.from([...queryPositions].flatMap((p, r) => [p, ...bounds.slice(r * views, (r + 1) * views).flat()]));
  const on = (commands: Commands): DeviceAttention => ({
    m, heads: H, kvHeads: G, headDim: d, capacity, slots, views, scale, ...(softcap !== undefined && { softcap }), ...(window !== undefined && { window }),
    q: commands.upload(q, [H, m, d]), keys: commands.upload(keys, [G, capacity, d]), values: commands.upload(values, [G, capacity, d]),
    positions: commands.upload(positions, [G, capacity]), lengths: commands.upload(lengths, [G]), rows: commands.upload(rows, [m, 1 + 2 * views]),
    ...(maskRows > 0 && { mask: commands.upload(hidden, [maskRows, slots + 2]) }),
  });
  return { heads, values: [...values].map(Math.abs), H, on };
}

/**
 * How far a probability may be off, as a share of it: a score by its sum of d products (and a soft cap), and so the difference of two; exp by 3 + 2 |x| ULP, |x| up to the
 * spread and again where a maximum moves or parts are joined; sums over n slots; a division.
 */
const share = ({ scoreError, spread }: HeadAttended, r: number, slots: number): number => (2 * scoreError[r]! + 4 * (3 + 2 * spread[r]!) + slots + 16) * 2 ** -24;

function check(got: ArrayLike<number>, { heads, H }: ReturnType<typeof scene>, { m, headDim: d, slots }: Shape, { lseAt, last }: Pick<Attended, 'lseAt' | 'last'>): void {
  const [mixed, lse]: [number[], number[]] = [[], []], [slack, lseSlack]: [number[], number[]] = [[], []], largest = 4;
  for (let r = 0; r < m; r++) for (let h = 0; h < H; h++) for (let c = 0; c < d; c++) { mixed.push(heads[h]!.mixed[r]![c]!); slack.push(largest * share(heads[h]!, r, slots) * heads[h]!.probabilities[r]!.reduce((a, b) => a + b, 0)); }
  near(Float32Array.from(got).subarray(0, mixed.length), mixed, (at, y) => slack[at]! + ulp(y), 'attended');
  for (let h = 0; h < H; h++) for (let r = m - last; r < m; r++) { lse.push(heads[h]!.lse[r] ?? -3.4028234663852886e38); lseSlack.push(share(heads[h]!, r, slots) + 2 ** -21); }
  near(Float32Array.from(got).subarray(lseAt, lseAt + lse.length), lse, (at, y) => lseSlack[at]! + 4 * ulp(y), 'log-sum-exp');
}

gpuTest('attention, whole and split, with log-sum-exp of the last queries', (gpu) => everywhere(fc.tuple(shapes, fc.constantFrom<AttentionOptions>({}, { last: 1 }, { splits: 1 }, { splits: 1, last: 1 }, { splits: 3 }, { splits: 2, scores: true })), async ([shape, options]) => {
  const s = scene(shape);
  let attended: Attended | undefined;
  const [got] = await twice(gpu, (commands) => [(attended = encodeAttention(commands, s.on(commands), options)).out]);
  check(got!, s, shape, attended!);
}, 11));

const summed = (s: ReturnType<typeof scene>, { m, slots }: Shape, last: number, of: 'sum' | 'max'): { readonly want: number[]; readonly slack: number[] } => {
  const [want, slack]: [number[], number[]] = [[], []];
  for (const head of s.heads) for (let j = 0; j < slots; j++) {
    const received = head.probabilities.slice(m - last).map((p) => p[j] ?? 0);
    want.push(of === 'sum' ? received.reduce((a, b) => a + b, 0) : Math.max(0, ...received));
    slack.push(received.reduce((a, p, i) => a + p * (2 * share(head, m - last + i, slots) + (last + 8) * 2 ** -24), 0));
  }
  return { want, slack };
};

gpuTest('column sums and maxima of a window, and joined with what is there', (gpu) => everywhere(fc.tuple(shapes, fc.constantFrom<'sum' | 'max'>('sum', 'max'), fc.constantFrom(1, 3, 100), fc.boolean()), async ([shape, of, window, join]) => {
  const s = scene(shape), last = Math.min(window, shape.m), stride = shape.slots + 3, before = numbers(shape.seed, s.H * stride).map(Math.abs);
  const [got] = await twice(gpu, (commands) => {
    const inputs = s.on(commands), columns = commands.upload(before, [s.H, stride]);
    encodeColumns(commands, inputs, encodeAttention(commands, inputs, { last, splits: 1 }), columns, { of, join });
    return [columns];
  });
  const { want, slack } = summed(s, shape, last, of), both = Array.from(before), error = new Float64Array(before.length);
  want.forEach((w, i) => {
    const at = Math.floor(i / shape.slots) * stride + (i % shape.slots), old = before[at]!;
    both[at] = !join ? w : of === 'sum' ? old + w : Math.max(old, w);
    error[at] = slack[i]! + ulp(both[at]!);
  });
  near(got!, both, (at) => error[at]!, 'columns');
}, 10));

gpuTest('running sums of decoded queries, of query heads and of KV heads', (gpu) => everywhere(fc.tuple(shapes, fc.constantFrom(1, 2), fc.boolean(), fc.constantFrom(1, 2)), async ([given, m, folded, splits]) => {
  const shape = { ...given, m }, s = scene(shape), rows = folded ? shape.kvHeads : s.H, stride = shape.slots + 3, before = numbers(shape.seed, rows * stride).map(Math.abs);
  const [got] = await twice(gpu, (commands) => {
    const inputs = s.on(commands), sums: Tensor = commands.upload(before, [rows, stride]), { scores, ...attended } = encodeAttention(commands, inputs, { scores: true, splits });
    encodeAccumulate(commands, inputs, { ...attended, scores: scores! }, sums);
    return [sums];
  });
  const { want, slack } = summed(s, shape, m, 'sum'), fold = s.H / rows, both = Array.from(before), error = new Float64Array(before.length);
  want.forEach((w, i) => {
    const at = Math.floor(i / shape.slots / fold) * stride + (i % shape.slots);
    both[at] = both[at]! + w;
    error[at] = error[at]! + slack[i]! + 2 * ulp(8);
  });
  near(got!, both, (at) => error[at]!, 'sums');
}, 8));
