import { KvError, readTensorFile, sidecar, tensorFile, tensorNames } from '@kv/core';
import type { Signal } from '@kv/core';

/** An affine map W x + b. */
export interface Affine {
  /** `[outputs, inputs]` */
  readonly weight: Float32Array;
  /** `[outputs]` */
  readonly bias: Float32Array;
}

interface Sized {
  /** Channels D of the layer's input. */
  readonly width: number;
  /** KV heads G. */
  readonly kvHeads: number;
}

/** A gate that predicts the logarithm of importance (KVzap). */
export interface RegressionGate extends Sized {
  /** A map to U units, followed by GELU. @defaultValue the gate is linear */
  readonly hidden?: Affine | undefined;
  /** To the scores, `[G, D]`, or `[G, U]` after `hidden`. */
  readonly output: Affine;
}

/** A gate that sets a token's key against learned ones (Fast KVzip), with c channels and R queries a KV head. */
export interface CompetingGate extends Sized {
  /** To queries, `[G R c, D]`. */
  readonly query: Affine;
  /** To keys, `[G c, D]`. */
  readonly key: Float32Array;
  /** Gains of the norms of queries and of keys, `[c]`. */
  readonly gains: { readonly query: Float32Array; readonly key: Float32Array };
  /** Learned keys of each head, `[G, S, c]`. */
  readonly base: Float32Array;
  /** `[G, R]` */
  readonly bias: Float32Array;
}

/** The gate of one layer: from the layer's input to a score for each KV head. */
export type LayerGate = RegressionGate | CompetingGate;

/** Name of the file next to the model. */
export const GATE_FILE = 'gate.safetensors';

const MOST_LAYERS = 4096;

/**
 * Returns the gates of all layers that keep slots as a safetensors file, f32, with the names of the authors' files: for layer
 * l `layers.l.weight` and `.bias`; with a hidden map `layers.l.0` and `layers.l.2` of each; for a competing gate
 * `layers.l.q_proj.weight`, `.q_proj.bias`, `.k_proj.weight`, `.q_norm.weight`, `.k_norm.weight`, `.k_base` and `.b`.
 */
export function gateFile(layers: readonly LayerGate[], metadata: Readonly<Record<string, string>> = {}): Uint8Array {
  const put = (data: Float32Array, ...shape: number[]) => ({ shape, data });
  const tensors = layers.flatMap((gate, l) => {
    const { width: D, kvHeads: G } = gate,
      affine = (name: string, { weight, bias }: Affine) => [
        [`layers.${l}${name}.weight`, put(weight, bias.length, weight.length / bias.length)] as const,
        [`layers.${l}${name}.bias`, put(bias, bias.length)] as const,
      ];
    if ('output' in gate)
      return gate.hidden ? [...affine('.0', gate.hidden), ...affine('.2', gate.output)] : affine('', gate.output);
    const { query, key, gains, base, bias } = gate,
      c = gains.key.length;
    return [
      ...affine('.q_proj', query),
      [`layers.${l}.k_proj.weight`, put(key, G * c, D)] as const,
      [`layers.${l}.q_norm.weight`, put(gains.query, c)] as const,
      [`layers.${l}.k_norm.weight`, put(gains.key, c)] as const,
      [`layers.${l}.k_base`, put(base, G, 1, base.length / (G * c), c)] as const,
      [`layers.${l}.b`, put(bias, G, 1, bias.length / G)] as const,
    ];
  });
  return tensorFile({ metadata, tensors: Object.fromEntries(tensors) });
}

/**
 * Reads a file that `gateFile` writes, in f32, f16 or bf16: also KVzap's `model.safetensors` of the Hugging Face hub.
 *
 * @throws KvError for any other bytes
 */
export function readGate(file: Uint8Array): readonly LayerGate[] {
  const names = new Set(tensorNames(GATE_FILE, file)),
    form = FORMS.find(({ parts }) => parts.every((part) => names.has(`layers.0${part}`)));
  let count = 0;
  while (form && count < MOST_LAYERS && names.has(`layers.${count}${form.parts[0]}`)) count++;
  if (!form || count === MOST_LAYERS)
    throw new KvError(
      GATE_FILE,
      `expected the weights of a gate for each of 1 to ${MOST_LAYERS - 1} layers, such as layers.0.weight, got ${names.size} other tensors`,
    );
  const { tensors } = readTensorFile(
    GATE_FILE,
    file,
    Array.from({ length: count }, (_, l) => form.parts.map((part) => `layers.${l}${part}`)).flat(),
  );
  return Array.from({ length: count }, (_, l) =>
    form.read((part, ...shape) => {
      const name = `layers.${l}${part}`,
        { data, shape: got } = tensors[name];
      if (got.length !== shape.length || got.some((n, i) => n === 0 || (shape[i] ?? n) !== n))
        throw new KvError(
          GATE_FILE,
          `expected '${name}' as [${shape.map((n) => n ?? 'any').join(', ')}], got [${got.join(', ')}]`,
        );
      return { data, shape: got };
    }),
  );
}

/** Returns a tensor of the layer with this shape; undefined stands for any size but 0. */
type ReadPart = (
  part: string,
  ...shape: (number | undefined)[]
) => { readonly data: Float32Array; readonly shape: readonly number[] };
interface Form {
  readonly parts: readonly string[];
  read(part: ReadPart): LayerGate;
}

function affineOf(part: ReadPart, name: string, inputs?: number): Affine & { readonly inputs: number } {
  const { data: weight, shape } = part(`${name}.weight`, undefined, inputs),
    [outputs, width] = shape;
  return { weight, bias: part(`${name}.bias`, outputs).data, inputs: width };
}
const plain = ({ weight, bias }: Affine): Affine => ({ weight, bias });

/** The forms of gates, and the tensors that each has of a layer. */
const FORMS: readonly Form[] = [
  {
    parts: ['.weight', '.bias'],
    read(part) {
      const output = affineOf(part, '');
      return { width: output.inputs, kvHeads: output.bias.length, output: plain(output) };
    },
  },
  {
    parts: ['.0.weight', '.0.bias', '.2.weight', '.2.bias'],
    read(part) {
      const hidden = affineOf(part, '.0'),
        output = affineOf(part, '.2', hidden.bias.length);
      return { width: hidden.inputs, kvHeads: output.bias.length, hidden: plain(hidden), output: plain(output) };
    },
  },
  {
    parts: ['.q_proj.weight', '.q_proj.bias', '.k_proj.weight', '.q_norm.weight', '.k_norm.weight', '.k_base', '.b'],
    read(part) {
      const {
          data: base,
          shape: [G, , , c],
        } = part('.k_base', undefined, 1, undefined, undefined),
        {
          data: bias,
          shape: [, , R],
        } = part('.b', G, 1, undefined),
        {
          data: weight,
          shape: [, width],
        } = part('.q_proj.weight', G * R * c, undefined);
      return {
        width,
        kvHeads: G,
        query: { weight, bias: part('.q_proj.bias', G * R * c).data },
        key: part('.k_proj.weight', G * c, width).data,
        gains: { query: part('.q_norm.weight', c).data, key: part('.k_norm.weight', c).data },
        base,
        bias,
      };
    },
  },
];

/**
 * Signal: a layer's gate, from `gate.safetensors` next to the model.
 *
 * @throws KvError where the file is missing or belongs to another model.
 */
export const layerGate: Signal<'layerGate', LayerGate> = sidecar({
  as: 'layerGate',
  piece: 'gate',
  file: GATE_FILE,
  of: 'gates',
  make: 'kv gate --model MODEL --text FILES',
  read: readGate,
});
