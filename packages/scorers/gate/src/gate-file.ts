import { KvError, readTensorFile, sidecar, tensorFile } from '@kv/core';
import type { Signal } from '@kv/core';

/** An affine map W x + b. */
export interface Affine {
  /** `[outputs, inputs]` */
  readonly weight: Float32Array;
  /** `[outputs]` */
  readonly bias: Float32Array;
}

/** The gate of one layer: from the layer's input to a score for each KV head. */
export interface LayerGate {
  /** Channels D of the layer's input. */
  readonly width: number;
  /** KV heads G. */
  readonly kvHeads: number;
  /** A map with GELU behind it, to U units. @defaultValue the gate is linear */
  readonly hidden?: Affine | undefined;
  /** To the scores, `[G, D]`, or `[G, U]` behind `hidden`. */
  readonly output: Affine;
}

/** Name of the file next to the model. */
export const GATE_FILE = 'gate.safetensors';

const MOST_LAYERS = 4096;

/**
 * Returns the gates of all layers that keep slots as a safetensors file: for layer l `l.output.weight`, `l.output.bias` and,
 * where it has a hidden map, `l.hidden.weight`, `l.hidden.bias`, f32; the metadata says `layers` and `kind`.
 */
export function gateFile(layers: readonly LayerGate[], metadata: Readonly<Record<string, string>> = {}): Uint8Array {
  const tensors = layers.flatMap(({ width, kvHeads, hidden, output }, l) => {
    const units = hidden?.bias.length,
      put = (name: string, { weight, bias }: Affine, inputs: number) => [
        [`${l}.${name}.weight`, { shape: [bias.length, inputs], data: weight }] as const,
        [`${l}.${name}.bias`, { shape: [bias.length], data: bias }] as const,
      ];
    if (output.bias.length !== kvHeads)
      throw new KvError('gateFile', `expected ${kvHeads} outputs in layer ${l}, got ${output.bias.length}`);
    return [...(hidden ? put('hidden', hidden, width) : []), ...put('output', output, units ?? width)];
  });
  return tensorFile({
    metadata: {
      ...metadata,
      layers: String(layers.length),
      kind: layers.some(({ hidden }) => hidden) ? 'mlp' : 'linear',
    },
    tensors: Object.fromEntries(tensors),
  });
}

/**
 * Reads a file that `gateFile` writes, also in f16 and bf16.
 *
 * @throws KvError for any other bytes.
 */
export function readGate(file: Uint8Array): readonly LayerGate[] {
  const { metadata } = readTensorFile(GATE_FILE, file, []),
    count = Number(metadata['layers']),
    mlp = metadata['kind'] === 'mlp';
  if (!(Number.isInteger(count) && count >= 1 && count <= MOST_LAYERS) || !(mlp || metadata['kind'] === 'linear'))
    throw new KvError(
      GATE_FILE,
      `expected 'layers' from 1 to ${MOST_LAYERS} and 'kind' linear or mlp in its metadata, got ${metadata['layers'] ?? 'none'} and ${metadata['kind'] ?? 'none'}`,
    );
  const parts = mlp ? ['hidden', 'output'] : ['output'],
    { tensors } = readTensorFile(
      GATE_FILE,
      file,
      Array.from({ length: count }, (_, l) =>
        parts.flatMap((part) => [`${l}.${part}.weight`, `${l}.${part}.bias`]),
      ).flat(),
    );
  const affine = (name: string, inputs?: number): Affine & { readonly inputs: number } => {
    const { weight, bias } = { weight: tensors[`${name}.weight`], bias: tensors[`${name}.bias`] },
      [outputs = 0, width = 0, ...more] = weight.shape;
    if (more.length > 0 || outputs * width === 0 || bias.shape.join() !== `${outputs}` || (inputs ?? width) !== width)
      throw new KvError(
        GATE_FILE,
        `expected '${name}' as weights [outputs, ${inputs ?? 'inputs'}] and a bias [outputs], got [${weight.shape.join(', ')}] and [${bias.shape.join(', ')}]`,
      );
    return { weight: weight.data, bias: bias.data, inputs: width };
  };
  return Array.from({ length: count }, (_, l) => {
    const hidden = mlp ? affine(`${l}.hidden`) : undefined,
      output = affine(`${l}.output`, hidden?.bias.length),
      plain = ({ weight, bias }: Affine): Affine => ({ weight, bias });
    return {
      width: (hidden ?? output).inputs,
      kvHeads: output.bias.length,
      ...(hidden && { hidden: plain(hidden) }),
      output: plain(output),
    };
  });
}

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
