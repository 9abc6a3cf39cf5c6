import { count, KvError, number, whole } from '@kv/core';
import type { Backend, OptionValues } from '@kv/core';
import { expectObject, settleOwn, showValue } from '@kv/core/engine';
import { repeating } from '@kv/core/shared';
import { allSlotScores, expectModel, joinedHeads, watchLayers, Sequence } from '@kv/engine';
import type { HostModel } from '@kv/models';
import { policy } from '@kv/policies';
import { gateFile } from '@kv/scorers-gate';
import type { RegressionGate } from '@kv/scorers-gate';
import { partsOf } from '../grouped.ts';
import { sum } from '../numbers.ts';
import { NormalEquations } from './normal-equations.ts';
import { cutStretches } from './stretches.ts';
import type { NamedText, Stretch } from './stretches.ts';

/** Options of `fitGate`. */
export const FIT_GATE = {
  alpha: number(1, 'Weight of the squares of the gate, as in ridge regression; the bias is free.', { above: 0 }),
  shortest: count(750, 'tokens', 'Tokens of the shortest stretch that a text is cut into.', { least: 8 }),
  longest: count(1250, 'tokens', 'Tokens of the longest one: what attention gives a slot depends on the length.'),
  tokens: count(
    20_000,
    'tokens',
    'Most tokens of all texts together, evenly spread over them; each is read three times.',
  ),
  sinks: whole(4, 'positions', 'First positions of a stretch, which train nothing: attention rests on them.'),
  floor: number(-20, 'The least log importance: the logarithm of 0 is none.', { most: 0 }),
};

/** Options of `fitGate`, and what watches it. */
export interface FitGateOptions extends OptionValues<typeof FIT_GATE> {
  /** Aborts between two stretches. */
  readonly signal?: AbortSignal | undefined;
  /** Is called after each reading of a stretch. */
  readonly onRead?: ((done: number, of: number) => void) | undefined;
}

/** A gate that was fitted, and how well it predicts text that trained nothing. */
export interface FittedGate {
  readonly layers: readonly RegressionGate[];
  /** The file next to the model. */
  readonly file: Uint8Array;
  /** R² of the log importance of held-out tokens, `[layer][kvHead]`. */
  readonly r2: readonly (readonly number[])[];
  /** Tokens that trained, and that were held out. */
  readonly tokens: { readonly trained: number; readonly heldOut: number };
}

/** Bytes of the sums of layers that are fitted together; the texts are read again for others. */
const MOST_SUMS = 2 ** 30;

/**
 * Fits a linear gate of every layer to a model and to texts like those it will read: from a layer's input to the logarithm
 * of KVzip+'s importance, by ridge regression.
 *
 * @remarks KVzap, Jégou and Jeblick 2026, arXiv:2601.07891. Each stretch is read, repeated (the importance), and read once more
 * while the normal equations add up: O(n D²) products a layer besides the three readings, then O(D³) once. The sums take 8
 * D² bytes a layer.
 * @param model on the CPU
 * @param texts plain texts
 * @throws KvError for texts that are too short, and for a model whose context does not hold a stretch twice; the reason of an
 * abort
 */
export async function fitGate(
  model: HostModel,
  texts: readonly NamedText[],
  given: FitGateOptions = {},
): Promise<FittedGate> {
  expectModel('fitGate', model);
  if (!Array.isArray(texts)) throw new KvError('fitGate', `expected a list of { name, text }, got ${showValue(texts)}`);
  expectObject({ name: 'fitGate' }, 'options as an object', given);
  const { signal, onRead, ...settings } = given,
    options = settleOwn('fitGate', FIT_GATE, settings),
    { config, tokenizer, fingerprint } = model,
    heads = joinedHeads(config);
  if (heads.length === 0)
    throw new KvError('model', 'expected a model with attention, got one whose layers keep no slots');
  const stretches = cutStretches(
      texts.map(({ name, text }) => ({ name, ids: tokenizer.encode(text).ids })),
      expectLengths(options, model),
    ),
    held = stretches.filter(({ heldOut }) => heldOut),
    training = stretches.filter(({ heldOut }) => !heldOut),
    groups = layerGroups(heads.length, config.hidden);
  const readings = stretches.length * (1 + groups.length);
  let done = 0;
  const read = async <T>(run: Promise<T>): Promise<T> => {
    const result = await run;
    onRead?.(++done, readings);
    signal?.throwIfAborted();
    return result;
  };
  signal?.throwIfAborted();
  const targets = new Map<Stretch, Targets>(),
    { sinks } = options;
  for (const stretch of stretches)
    targets.set(stretch, await read(importance(model, stretch.ids, options.floor, signal)));
  const layers: RegressionGate[] = [],
    r2: (readonly number[])[] = [];
  for (const group of groups) {
    const backend = backendOf(model),
      sums = new Map(group.map((l) => [l, new NormalEquations(config.hidden, heads[l].kvHeads, backend)]));
    for (const stretch of training)
      await read(eachBlock(model, stretch, targets.get(stretch)!, sinks, async (l, x, y) => sums.get(l)?.add(x, y)));
    const gates = new Map(
      [...sums].map(([l, equations]) => [l, gateOf(config.hidden, equations.solve(options.alpha))]),
    );
    sums.clear();
    const errors = new Map([...gates].map(([l, gate]) => [l, new Residuals(gate)]));
    for (const stretch of held)
      await read(eachBlock(model, stretch, targets.get(stretch)!, sinks, async (l, x, y) => errors.get(l)?.add(x, y)));
    layers.push(...gates.values());
    r2.push(...[...errors.values()].map((of) => of.r2()));
  }
  const tokens = { trained: tokensOf(training), heldOut: tokensOf(held) };
  return {
    layers,
    r2,
    tokens,
    file: gateFile(layers, { fingerprint, trained: String(tokens.trained), target: 'kvzip(plus=true)' }),
  };
}

/** Log importance of the tokens of a stretch, `[layer][kvHead][token]`. */
type Targets = readonly (readonly Float32Array[])[];

/** Reads a stretch and repeats it. */
async function importance(
  model: HostModel,
  ids: readonly number[],
  floor: number,
  signal: AbortSignal | undefined,
): Promise<Targets> {
  const sequence = new Sequence(model, undefined, { cache: 'f32' }),
    least = Math.exp(floor);
  try {
    await sequence.prefill(ids, { signal });
    const scores = await allSlotScores(sequence, policy('kvzip(plus=true)'));
    return scores.map((heads) => heads.map((row) => row.map((x) => Math.log(Math.max(x, least)))));
  } finally {
    sequence.destroy();
  }
}

/** Calls a function with inputs `[m, D]` of each block of a stretch and their targets, in every layer, without the sinks. */
async function eachBlock(
  model: HostModel,
  { ids }: Stretch,
  targets: Targets,
  sinks: number,
  visit: (layer: number, x: Float32Array, y: readonly Float32Array[]) => Promise<void>,
): Promise<void> {
  const { hidden: D } = model.config,
    seen = targets.map(() => 0);
  await watchLayers(model, ids, {
    async input(layer, rows) {
      const from = seen[layer],
        end = from + rows.length / D,
        first = Math.min(end, Math.max(from, sinks));
      seen[layer] = end;
      if (first < end)
        await visit(
          layer,
          rows.subarray((first - from) * D),
          targets[layer].map((row) => row.subarray(first, end)),
        );
    },
  });
}

/** Squared errors of a gate, and squared distances of its targets from their mean. */
class Residuals {
  readonly #gate: RegressionGate;
  readonly #sums: Float64Array;
  #rows = 0;

  constructor(gate: RegressionGate) {
    this.#gate = gate;
    this.#sums = new Float64Array(3 * gate.kvHeads); // errors, targets, squares
  }

  add(x: Float32Array, y: readonly Float32Array[]): void {
    const {
      width: D,
      output: { weight, bias },
    } = this.#gate;
    for (const [g, row] of y.entries())
      for (let r = 0; r < row.length; r++) {
        let says = bias[g];
        for (let c = 0; c < D; c++) says += weight[g * D + c] * x[r * D + c];
        this.#sums[3 * g] += (row[r] - says) ** 2;
        this.#sums[3 * g + 1] += row[r];
        this.#sums[3 * g + 2] += row[r] ** 2;
      }
    this.#rows += x.length / D;
  }

  /** Returns 1 - Σ error² / Σ (y - mean y)² of each head; 0 where the targets are all the same. */
  r2(): readonly number[] {
    return Array.from({ length: this.#gate.kvHeads }, (_, g) => {
      const [error, sum, squares] = this.#sums.subarray(3 * g),
        spread = squares - sum ** 2 / Math.max(1, this.#rows);
      return spread > 0 ? 1 - error / spread : 0;
    });
  }
}

const gateOf = (width: number, output: RegressionGate['output']): RegressionGate => ({
  width,
  kvHeads: output.bias.length,
  output,
});
const tokensOf = (stretches: readonly Stretch[]): number => sum(stretches.map(({ ids }) => ids.length));

/** Returns the layers in groups whose sums fit together. */
const layerGroups = (layers: number, width: number): readonly (readonly number[])[] =>
  partsOf([...new Array(layers).keys()], Math.max(1, Math.floor(MOST_SUMS / (8 * width ** 2))));

/** Returns the backend of a model's sequences, which computes products as fast as the model's. */
function backendOf(model: HostModel): Backend {
  const memory = model.memory();
  try {
    return memory.caches.context.backend;
  } finally {
    memory.destroy();
  }
}

/** Checks the lengths of stretches. @throws KvError where one does not fit the context twice */
function expectLengths<T extends Readonly<Record<'shortest' | 'longest' | 'tokens' | 'sinks', number>>>(
  options: T,
  { config: { maxPositions: positions }, tokenizer }: HostModel,
): T {
  const { shortest, longest, tokens, sinks } = options,
    { length: instruction } = repeating({ encode: (text) => tokenizer.encode(text, { special: false }).ids, ids: [] }),
    most = Math.floor((positions - instruction) / 2);
  if (longest < shortest) throw new KvError('longest', `must be at least shortest, ${shortest}, got ${longest}`);
  if (shortest > most)
    throw new KvError(
      'shortest',
      `must be at most ${most}, as each stretch is read twice, with an instruction of ${instruction} tokens between, in the model's context of ${positions} tokens, got ${shortest}`,
    );
  if (sinks >= shortest)
    throw new KvError('sinks', `must be below shortest, ${shortest}, so that the other positions train, got ${sinks}`);
  if (tokens < 2 * shortest)
    throw new KvError(
      'tokens',
      `must be at least ${2 * shortest}, a stretch of \`shortest\` tokens that trains and one that is held out, got ${tokens}`,
    );
  return { ...options, longest: Math.min(longest, most, Math.floor(tokens / 2)) };
}
