/** Changes to inputs, as libFuzzer makes them: bytes, numbers, words of the grammar, parts of other inputs. */

const EDGES = [
  0,
  1,
  7,
  8,
  15,
  16,
  31,
  32,
  63,
  64,
  100,
  127,
  128,
  255,
  256,
  4096,
  32767,
  65535,
  65536,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 32 - 1,
];

/** Returns a random generator; the same seed gives the same run. */
export function chance(seed) {
  let state = seed >>> 0 || 1;
  const next = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  return { below: (n) => Math.floor(next() * n), of: (list) => list[Math.floor(next() * list.length)] };
}

const splice = (bytes, from, to, insert) => {
  const out = new Uint8Array(from + insert.length + bytes.length - to);
  out.set(bytes.subarray(0, from));
  out.set(insert, from);
  out.set(bytes.subarray(to), from + insert.length);
  return out;
};

const integer = (value, size) => {
  const out = new Uint8Array(size);
  const view = new DataView(out.buffer);
  if (size === 1) out[0] = value;
  else if (size === 2) view.setUint16(0, value, true);
  else if (size === 4) view.setUint32(0, value, true);
  else view.setBigUint64(0, BigInt.asUintN(64, BigInt(Math.trunc(value))), true);
  return out;
};

/** Applies one of many small changes; `words` come from the grammar, `seen` from comparisons in the code. */
function change(bytes, { rnd, words, seen, others }) {
  const at = rnd.below(bytes.length + 1),
    end = Math.min(bytes.length, at + 1 + rnd.below(1 + rnd.below(32)));
  const text = (list) => new TextEncoder().encode(String(rnd.of(list) ?? ''));
  switch (rnd.below(12)) {
    case 0: {
      const out = bytes.slice();
      if (at < out.length) out[at] ^= 1 << rnd.below(8);
      return out;
    }
    case 1: {
      const out = bytes.slice();
      if (at < out.length) out[at] = rnd.below(256);
      return out;
    }
    case 2:
      return splice(bytes, at, end, new Uint8Array(0));
    case 3:
      return splice(bytes, at, at, bytes.subarray(at, end));
    case 4: {
      const number = integer(rnd.of(EDGES) * (rnd.below(4) === 0 ? -1 : 1), rnd.of([1, 2, 4, 8]));
      return splice(bytes, at, Math.min(bytes.length, at + number.length), number);
    }
    case 5:
      return splice(bytes, at, at, text(words));
    case 6:
      return splice(bytes, at, end, text(words));
    case 7:
      return seen.length > 0 ? splice(bytes, at, rnd.below(2) === 0 ? at : end, text(seen)) : bytes;
    case 8: {
      const other = rnd.of(others),
        from = rnd.below(other.length + 1);
      return splice(bytes, at, end, other.subarray(from, from + 1 + rnd.below(64)));
    }
    case 9: {
      // Replace a number in digits.
      const digits = /\d+/g;
      const written = Buffer.from(bytes).toString('latin1');
      digits.lastIndex = at;
      const found = digits.exec(written);
      return found
        ? splice(bytes, found.index, found.index + found[0].length, text(EDGES.concat(-1, 0.5, 1e99)))
        : bytes;
    }
    case 10: {
      const other = rnd.of(others);
      return splice(bytes.subarray(0, at), at, at, other.subarray(rnd.below(other.length + 1)));
    }
    default:
      return splice(bytes, at, at, new Uint8Array(1 + rnd.below(16)).fill(bytes[rnd.below(bytes.length)] ?? 0));
  }
}

export function mutate(bytes, options) {
  let out = bytes;
  for (let i = 1 + options.rnd.below(1 + options.rnd.below(6)); i > 0; i--) out = change(out, options);
  return out.length > options.most ? out.slice(0, options.most) : out;
}
