import fc from 'fast-check';

/** Numbers at the limits of what a field holds. */
export const edge: fc.Arbitrary<bigint> = fc.oneof(
  fc.bigInt({ min: 0n, max: 70n }),
  fc.constantFrom(
    ...[8, 16, 24, 31, 32, 40, 52, 53, 62, 63, 64].flatMap((bits) => [
      2n ** BigInt(bits) - 1n,
      BigInt.asUintN(64, 2n ** BigInt(bits)),
      2n ** BigInt(bits - 1) + 1n,
    ]),
  ),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
);

type Edit = (bytes: Uint8Array) => Uint8Array;

const place = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

function changed(bytes: Uint8Array, change: (copy: Uint8Array, view: DataView) => void): Uint8Array {
  const copy = Uint8Array.from(bytes);
  change(copy, new DataView(copy.buffer));
  return copy;
}

/** Replaces `skip` bytes at `at` with `between`. */
function spliced(bytes: Uint8Array, at: number, skip: number, between: Uint8Array): Uint8Array {
  const out = new Uint8Array(bytes.length - Math.min(skip, bytes.length - at) + between.length);
  out.set(bytes.subarray(0, at));
  out.set(between, at);
  out.set(bytes.subarray(Math.min(bytes.length, at + skip)), at + between.length);
  return out;
}

const edits: fc.Arbitrary<Edit> = fc.oneof(
  fc.tuple(place, fc.nat(255)).map(
    ([at, byte]): Edit =>
      (bytes) =>
        changed(bytes, (copy) => void (copy[Math.floor(at * copy.length)] = byte)),
  ),
  fc.tuple(place, fc.nat(7)).map(
    ([at, bit]): Edit =>
      (bytes) =>
        changed(bytes, (copy) => void (copy[Math.floor(at * copy.length)] ^= 1 << bit)),
  ),
  // A digit of a number in JSON.
  fc.tuple(place, fc.nat(9)).map(
    ([at, digit]): Edit =>
      (bytes) =>
        changed(bytes, (copy) => {
          const digits = [...copy.keys()].filter((i) => copy[i] >= 48 && copy[i] <= 57);
          if (digits.length > 0) copy[digits[Math.floor(at * digits.length)]] = 48 + digit;
        }),
  ),
  // A count, a length or an offset, aligned or not.
  fc.tuple(place, edge, fc.constantFrom(4, 8)).map(
    ([at, value, size]): Edit =>
      (bytes) =>
        bytes.length < size
          ? bytes
          : changed(bytes, (_, view) => {
              const from = Math.floor(at * (bytes.length - size + 1));
              if (size === 8) view.setBigUint64(from, value, true);
              else view.setUint32(from, Number(BigInt.asUintN(32, value)), true);
            }),
  ),
  place.map(
    (at): Edit =>
      (bytes) =>
        bytes.subarray(0, Math.floor(at * bytes.length)),
  ),
  fc.tuple(place, fc.uint8Array({ maxLength: 8 })).map(
    ([at, more]): Edit =>
      (bytes) =>
        spliced(bytes, Math.floor(at * bytes.length), 0, more),
  ),
  fc.tuple(place, fc.nat(16)).map(
    ([at, count]): Edit =>
      (bytes) =>
        spliced(bytes, Math.floor(at * bytes.length), count, new Uint8Array(0)),
  ),
  // A piece of the file moved elsewhere.
  fc.tuple(place, place, fc.nat(64)).map(
    ([from, to, count]): Edit =>
      (bytes) => {
        const start = Math.floor(from * bytes.length);
        return spliced(bytes, Math.floor(to * bytes.length), 0, bytes.subarray(start, start + count));
      },
  ),
);

/**
 * Returns the bytes, half the time after one to three edits: bit flips, digits, counts, cuts, pieces
 * added, removed or moved.
 */
export function corrupt(bytes: fc.Arbitrary<Uint8Array>): fc.Arbitrary<Uint8Array> {
  return fc
    .tuple(bytes, fc.oneof(fc.constant([]), fc.array(edits, { minLength: 1, maxLength: 3 })))
    .map(([file, list]) => list.reduce((at, edit) => edit(at), file));
}

/** JSON values of types that a field does not expect. */
const strange: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    '',
    'a',
    '__proto__',
    [],
    {},
    [[]],
    -1,
    0,
    0.5,
    1e308,
    -0,
    2 ** 31,
    2 ** 32,
    2 ** 53,
    2 ** 53 + 2,
    2 ** 62,
  ),
  fc.jsonValue({ maxDepth: 2 }),
  fc.integer(),
  fc.nat(10),
);

/** Changes a JSON value: up to two parts, found by walking down, are replaced, removed, duplicated or renamed. */
export const bending: fc.Arbitrary<(value: unknown) => unknown> = fc
  .array(
    fc.record({
      path: fc.array(place, { maxLength: 5 }),
      how: fc.constantFrom('replace', 'leave out', 'double', 'rename'),
      by: strange,
    }),
    { maxLength: 2 },
  )
  .map((steps) => (value) => steps.reduce<unknown>((at, { path, how, by }) => walk(at, path, how, by), value));

/** Returns a JSON value after such a change. */
export function bent(value: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc.tuple(value, bending).map(([from, bend]) => bend(from));
}

function walk(value: unknown, [head, ...rest]: readonly number[], how: string, by: unknown): unknown {
  if (head === undefined || typeof value !== 'object' || value === null) return by;
  const entries = Object.entries(value);
  if (entries.length === 0) return by;
  const at = Math.floor(head * entries.length);
  const [name, inner] = entries[at];
  if (rest.length > 0 && typeof inner === 'object' && inner !== null) entries[at] = [name, walk(inner, rest, how, by)];
  else if (how === 'replace') entries[at] = [name, by];
  else if (how === 'leave out') entries.splice(at, 1);
  else if (how === 'double') entries.push([`${name}2`, inner]);
  else entries[at] = [typeof by === 'string' ? by : JSON.stringify(by), inner];
  return Array.isArray(value) ? entries.map(([, x]) => x) : Object.fromEntries(entries);
}

export const jsonBytes = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
