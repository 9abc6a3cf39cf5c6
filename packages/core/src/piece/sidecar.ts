import { KvError } from '../tensor/errors.ts';
import type { Signal } from './signals.ts';

/** A sidecar file: calibrated numbers stored next to a model, and how to read them. */
export interface Sidecar<N extends string, Row> {
  readonly as: N;
  readonly piece: string;
  readonly file: string;
  /** What it has a row of for each layer. */
  readonly of: string;
  /** Command that makes it. */
  readonly make: string;
  /** @throws KvError for bytes that are not such a file. */
  read(file: Uint8Array): readonly Row[];
}

/**
 * Returns a signal that reads a sidecar file, which is stored next to the model and has a row for each layer; it is
 * read once.
 *
 * @throws KvError if the file is missing, or is of a model with fewer layers.
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
      if (!file) throw new KvError(piece, `expected ${name} next to the model, got none: make it with '${make}'`);
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
