import { KvError } from '../tensor/errors.ts';
import type { Signal } from './signals.ts';

/** A sidecar file: calibrated numbers beside a model, and the piece that reads them. */
export interface Sidecar<N extends string, Row> {
  readonly as: N;
  readonly piece: string;
  readonly file: string;
  /** What its rows are: one for each layer. */
  readonly of: string;
  /** How a person makes it. */
  readonly make: string;
  /** @throws KvError for bytes that are no such file. */
  read(file: Uint8Array): readonly Row[];
}

/**
 * A signal that reads a sidecar file, a file beside the model with a row for each layer; it is read once.
 *
 * @throws KvError where the file is missing, or is of a model with fewer layers.
 */
export function sidecar<const N extends string, Row>({
  as,
  piece,
  file: name,
  of,
  make,
  read,
}: Sidecar<N, Row>): Signal<N, Row> {
  const known = new WeakMap<Uint8Array, readonly Row[]>();
  return {
    id: as,
    as,
    cost: 'artifact',
    provide: async (engine, layer) => {
      const file = await engine.artifact(name);
      if (!file) throw new KvError(piece, `expected ${name} beside the model, got none: make it with '${make}'`);
      const rows = known.get(file) ?? read(file),
        row = rows[layer];
      known.set(file, rows);
      if (row === undefined)
        throw new KvError(
          name,
          `expected ${of} of layer ${layer}, got ${rows.length} layers: they are of another model`,
        );
      return row;
    },
  };
}
