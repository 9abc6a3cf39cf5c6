import { isDense, strides } from '@kv/core/engine';
import type { Operand } from '@kv/core';
import type { HostTensor } from '@kv/core/engine';
import { rowAt } from './dense.ts';
import type { Elements, ElementwiseKind } from './elementwise.ts';
import type { CpuKernel, KernelOperand, Operand4 } from './kernel.ts';
import type { Vectors } from './vectors.ts';

/** In the order of the kernel's cases. */
const KINDS: readonly ElementwiseKind[] = [
  'add',
  'sub',
  'mul',
  'div',
  'max',
  'min',
  'less',
  'atLeast',
  'equal',
  'exp',
  'sqrt',
  'abs',
  'floor',
  'log',
  'log1p',
  'odds',
];
/** Operations whose f32 result may differ from the f64 result rounded to f32. */
const IN_F64: readonly ElementwiseKind[] = ['exp', 'log', 'log1p', 'odds'];
/** Types of the kernel's operands. */
const F32 = 0,
  U32 = 1,
  NUMBER = 2;
/** Numbers of an operand that are read at a time. */
const BLOCK = 32_768;

/** The part of an operand that one row of the result reads: `lines` of `width` numbers. */
interface Slab {
  readonly x: Operand;
  readonly type: number;
  readonly at: number;
  /** Strides in the tensor, 0 along broadcast axes. */
  readonly line: number;
  readonly step: number;
  readonly width: number;
}

/** Runs elementwise operations with the kernel. */
export const simdElementwise =
  (k: CpuKernel): Vectors['elementwise'] =>
  (kind, elements) => {
    const run = runOf(elements),
      { out, operands } = elements,
      { rows, outer, inner } = run,
      size = outer === 1 ? 1 : Math.max(1, Math.floor(BLOCK / Math.max(1, inner))),
      room = 4 * size * inner,
      [pa = 0, pb = 0, pc = 0, found = 0] = k.place(room, room, room, room),
      a = slabOf(operands[0], pa, run),
      b = slabOf(operands[1] ?? 0, pb, run),
      c = slabOf(operands[2] ?? 0, pc, run),
      compute = computing(k, kind, a, b, c, found);
    for (let r = 0; r < rows; r++)
      for (let first = 0; first < outer; first += size) {
        const n = Math.min(size, outer - first);
        bring(k, a, r, rows, first, n);
        bring(k, b, r, rows, first, n);
        bring(k, c, r, rows, first, n);
        compute(n, inner);
        out.data.set(k.f32().subarray(found / 4, found / 4 + n * inner), (r * outer + first) * inner);
      }
    return out;
  };

/** How a result is computed: rows of `outer` lines of `inner` numbers, or, `flat`, all numbers as one line. */
interface Run {
  readonly rows: number;
  readonly outer: number;
  readonly inner: number;
  readonly flat: boolean;
}

/** Returns a flat run if every operand is a number, or dense and of the result's shape, as in most calls. */
function runOf({ out, rows, outer, inner, operands }: Elements): Run {
  const size = out.data.length;
  let flat = size <= BLOCK;
  for (const x of operands)
    flat &&= typeof x === 'number' || ((x as HostTensor).data.length === size && isDense(x as HostTensor));
  return flat ? { rows: 1, outer: 1, inner: size, flat } : { rows, outer, inner, flat };
}

function slabOf(x: Operand, at: number, { outer, inner, flat }: Run): Slab {
  if (typeof x === 'number') return { x, type: NUMBER, at, line: 0, step: 0, width: 1 };
  const t = x as HostTensor,
    type = t.data instanceof Uint32Array ? U32 : F32;
  if (flat) return { x, type, at, line: 0, step: 1, width: inner };
  const [, slot, channel] = strides(t),
    step = outer === 1 && channel === 0 ? slot : channel;
  return { x, type, at, line: outer === 1 ? 0 : slot, step, width: step === 0 ? 1 : inner };
}

/** Copies the operand's part for lines [first, first + n) of row r. */
function bring(
  k: CpuKernel,
  { x, type, at, line, step, width }: Slab,
  r: number,
  rows: number,
  first: number,
  n: number,
): void {
  if (typeof x === 'number') {
    k.f32()[at / 4] = x; // for functions that only read f32
    return;
  }
  const t = x as HostTensor,
    { data } = t,
    memory = type === U32 ? k.u32() : k.f32(),
    to = at / 4;
  if (width === data.length) {
    memory.set(data, to);
    return;
  }
  const from = rowAt(t, r, rows) + first * line,
    lines = line === 0 ? 1 : n;
  if ((width === 1 || step === 1) && (lines === 1 || line === width))
    memory.set(data.subarray(from, from + lines * width), to);
  else
    for (let j = 0; j < lines; j++)
      if (step === 1) memory.set(data.subarray(from + j * line, from + j * line + width), to + j * width);
      else for (let i = 0; i < width; i++) memory[to + j * width + i] = data[from + j * line + i * step];
}

/** Returns the kernel's function for these operands, over the given numbers of lines and of numbers per line. */
function computing(
  k: CpuKernel,
  kind: ElementwiseKind,
  a: Slab,
  b: Slab,
  c: Slab,
  found: number,
): (n: number, inner: number) => void {
  const index = KINDS.indexOf(kind);
  if (!IN_F64.includes(kind) && inF32(a) && inF32(b) && inF32(c)) {
    const [p, q, r] = [operand4(a), operand4(b), operand4(c)] as const;
    return kind === 'where'
      ? (n, inner) => k.choose4(n, inner, ...p, ...q, ...r, found)
      : (n, inner) => k.zip4(index, n, inner, ...p, ...q, found);
  }
  const [p, q, r] = [operand(a), operand(b), operand(c)] as const;
  return kind === 'where'
    ? (n, inner) => k.choose(n, inner, ...p, ...q, ...r, found)
    : (n, inner) => k.zip(index, n, inner, ...p, ...q, found);
}

/** Whether f32 holds the operand exactly; then an operation on two of them rounds in f32 as it would in f64. */
const inF32 = ({ x, type }: Slab): boolean => type === F32 || (type === NUMBER && Math.fround(x as number) === x);
const operand4 = ({ at, line, step, width }: Slab): Operand4 => [at, line === 0 ? 0 : 4 * width, step === 0 ? 0 : 1];
const operand = ({ x, type, at, line, step, width }: Slab): KernelOperand => [
  type,
  at,
  line === 0 ? 0 : 4 * width,
  step === 0 ? 0 : 1,
  typeof x === 'number' ? x : 0,
];
