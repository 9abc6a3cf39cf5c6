import fc from 'fast-check';
import { cpu } from '@kv/cpu';
import { isInputSignal, runInputSignal, showValue } from '@kv/core/engine';
import type { AnySignal, Backend, InputSignal, LayerContext, Tensor } from '@kv/core';
import { agree, same } from './compare.ts';
import { claim, suite, TOLERANCE } from './law.ts';
import type { Claims, LawOptions, Suite } from './law.ts';
import { random } from './random.ts';

/** The tokens of one case. */
interface InputSpec {
  readonly kvHeads: number;
  /** Query heads per KV head. */
  readonly group: number;
  readonly tokens: number;
  readonly width: number;
  readonly seed: number;
}
/** Options of `inputSignalLaws`. */
export interface InputSignalOptions extends Omit<LawOptions, 'signals'> {
  /** Values of the files that the signal reads, for a layer of this many channels of input. */
  readonly files?: ((signal: AnySignal, at: LayerContext, width: number) => unknown) | undefined;
  /** The backend under test. @defaultValue the CPU */
  readonly backend?: Backend | undefined;
}

const specs: fc.Arbitrary<InputSpec> = fc.record({
  kvHeads: fc.integer({ min: 1, max: 3 }),
  group: fc.integer({ min: 1, max: 3 }),
  tokens: fc.integer({ min: 1, max: 40 }),
  width: fc.integer({ min: 1, max: 33 }),
  seed: fc.nat(0xffff),
});

interface Numbers {
  readonly rows: number;
  readonly slots: number;
  readonly data: Float32Array | Uint32Array;
  readonly valid: readonly number[];
}

/** Returns a context and inputs `[tokens, width]` with some zeros and some large numbers. */
function inputsOf({ kvHeads, group, tokens, width, seed }: InputSpec): { at: LayerContext; x: Float32Array } {
  const next = random(seed);
  return {
    at: {
      layer: 0,
      layers: 1,
      queryHeads: kvHeads * group,
      kvHeads,
      headDim: 1,
      step: 0,
      promptLength: tokens,
      length: tokens,
      slots: tokens,
      aligned: true,
      budget: tokens,
      selectRows: kvHeads,
    },
    x: Float32Array.from({ length: tokens * width }, () => {
      const size = next();
      return size < 0.1 ? 0 : (next() * 2 - 1) * (size > 0.95 ? 50 : 1);
    }),
  };
}

async function numbersOf(
  signal: InputSignal,
  { width }: InputSpec,
  at: LayerContext,
  x: Float32Array,
  { files, backend = cpu }: InputSignalOptions,
): Promise<Numbers> {
  const { ops } = backend,
    made: Tensor = runInputSignal(signal, {
      at,
      ops,
      input: ops.from({ data: x, shape: [1, x.length / width, width] }),
      read: (file) => files?.(file, at, width),
    }),
    [{ data, shape }] = await backend.read([made]),
    [rows = 0, slots = 0] = shape;
  return { rows, slots, data, valid: Array.from({ length: rows }, () => slots) };
}

/** Returns the numbers of parts, one after the other, as of one block. */
function joined(parts: readonly Numbers[]): Numbers {
  const [{ rows }] = parts,
    slots = parts.reduce((sum, part) => sum + part.slots, 0),
    data = new Float32Array(rows * slots);
  let at = 0;
  for (const part of parts) {
    for (let r = 0; r < rows; r++)
      for (let i = 0; i < part.slots; i++) data[r * slots + at + i] = part.data[r * part.slots + i];
    at += part.slots;
  }
  return { rows, slots, data, valid: Array.from({ length: rows }, () => slots) };
}

/** Claims about a signal of a layer's input, each a property of it alone. */
export const ofInput = {
  /** Every number is finite, one for each token in each of its rows. */
  finite: (signal, options = {}) =>
    fc.asyncProperty(specs, async (spec) => {
      const { at, x } = inputsOf(spec),
        { data } = await numbersOf(signal, spec, at, x, options);
      for (const value of Array.from(data))
        claim(Number.isFinite(value), () => `expected finite numbers, got ${value}`);
    }),
  /** A prompt in blocks gives what the whole prompt gives, to the bit: no token reads another. */
  blocks: (signal, options = {}) =>
    fc.asyncProperty(specs, fc.integer({ min: 1, max: 40 }), async (spec, size) => {
      const { at, x } = inputsOf(spec),
        parts: Numbers[] = [],
        step = size * spec.width;
      for (let from = 0; from < x.length; from += step)
        parts.push(await numbersOf(signal, spec, at, x.slice(from, from + step), options));
      const [cut, whole] = [joined(parts), await numbersOf(signal, spec, at, x, options)];
      claim(
        same(cut.data, whole.data),
        () => `expected ${whole.data.join(' ')} in blocks of ${size} tokens too, to the bit, got ${cut.data.join(' ')}`,
      );
    }),
  /** A backend gives what the CPU gives. */
  backend: (signal, options = {}) =>
    fc.asyncProperty(specs, async (spec) => {
      const { at, x } = inputsOf(spec),
        [got, want] = [
          await numbersOf(signal, spec, at, x, options),
          await numbersOf(signal, spec, at, x, { ...options, backend: cpu }),
        ];
      agree(`numbers on ${(options.backend ?? cpu).name}`, got, want, options.tolerance ?? TOLERANCE);
    }),
} satisfies Claims<InputSignal, InputSignalOptions>;

/**
 * Returns the laws of a signal of a layer's input. They are asynchronous: await each.
 * @throws Error for what is no such signal
 */
export function inputSignalLaws(signal: InputSignal, options: InputSignalOptions = {}): Suite {
  claim(isInputSignal(Object(signal)), () => `expected a signal made by inputSignal(), got ${showValue(signal)}`);
  // without another backend the CPU would be compared with itself
  return suite(ofInput, signal, options, { backend: options.backend === undefined }, ['files', 'backend']);
}
