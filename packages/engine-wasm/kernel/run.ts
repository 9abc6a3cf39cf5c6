// @ts-nocheck: AssemblyScript, not TypeScript
// Runs code: words that src/wasm/code.ts writes. All threads run the same code; an operation says whose part it is.

import { append, attendPiece, attendRows, attendToken, joinToken, packCache, tokenPieces } from "./attend";
import { convolveHead, deltaPiece, keepColumns, spacePiece } from "./delta";
import { XB } from "./forms";
import { attend, centre, errors, gram, mass, mix, norms, quadratic, tops } from "./host";
import { BF16 } from "./kinds";
import { SCRATCH, fewFloats, fewProduct, floatProduct, min2, pack, quantise, rowProduct, rowsProduct } from "./products";
import { add, convolve, copy, gate, gateRuns, norm, rope, scale, softcap } from "./rows";
import { addLoop, show } from "./show";
import { ME, barrier, claim, command, nextCommand, shareFrom, shareTo, word } from "./team";
import { META } from "./unpacked";

const BARRIER = 1, NORM = 2, QUANTISE = 3, PRODUCT = 4, GATED = 5, GATE = 6, ADD = 7, ROPE = 8, BEND = 9, APPEND = 10,
  TOKEN = 11, JOIN = 12, PACK = 13, ATTEND = 14, QUERIES = 15, TOKENS = 16, JOINS = 17, FOLD = 18, MIX = 19, GRAM = 20, QUADRATIC = 21, SHOW = 22, LOOP = 23, CONVOLVE = 24, DELTA = 25, CHANNELS = 26, SPACE = 27, GATE_RUNS = 28, PACK_ROWS = 29;

/** Added to the kind of a product whose activations stay f32. */
const EXACT: i32 = 256;
/** Added to the kind of a product of a few rows that each come out as by themselves. */
const FEW: i32 = 512;

/**
 * Words of a command: code and its end, what addresses are counted from, rows, caches, angles, position, packed keys, where the
 * last queries of each layer go and how many, where the weights' sums go, and their stride. Where each row has caches of its
 * own: bytes from a row's to the next row's, the last word of which is the row's position. What is summed of blocks, as
 * `attendRows` reads it. What each row's queries are multiplied by; 0 for nothing.
 */
let PC: usize = 0, STOP: usize = 0, PLACE: usize = 0, OWN: usize = 0, M: i32 = 0, CACHES: usize = 0, COS: usize = 0, SIN: usize = 0, POSITION: u32 = 0, PACKED: usize = 0,
  QUERIES_AT: usize = 0, WINDOW: usize = 0, SHARES: usize = 0, STRIDE: usize = 0, APART: usize = 0, SUMS: usize = 0, SCALES: usize = 0;
/** Rows of an operation that are this thread's. */
let FROM: usize = 0, TO: usize = 0;

// @ts-ignore: decorator
@inline
function w(i: usize): usize {
  return <usize>load<u32>(PC + 4 * i);
}

/** An address: as it is, or in the command's rows (1), or in what is this thread's own (2). */
function at(i: usize): usize {
  const x = w(i), base = x & 3;
  return (x & ~3) + (base == 1 ? PLACE : base == 2 ? OWN : 0);
}

// @ts-ignore: decorator
@inline
function real(i: usize): f32 {
  return reinterpret<f32>(load<u32>(PC + 4 * i));
}

/** Of a single row each thread has a share of the columns. */
const COLUMNS: usize = 2;

/** Whose rows: all of them for everybody (0), or a share (1). */
function rowsOf(mode: usize): void {
  FROM = mode == 0 ? 0 : shareFrom(M);
  TO = mode == 0 ? <usize>M : shareTo(M);
}

/** Bytes of what is every thread's own before what the code places there: scratch of products. */
export function ownBytes(): usize {
  return SCRATCH;
}

/** Panels [from, to) of one weight; `out` is that of its first panel. */
function panels(kind: i32, weight: usize, inputs: usize, q: usize, meta: usize, x: usize, ldx: usize, out: usize, ldo: usize, outputs: usize, bias: usize, from: usize, to: usize): void {
  const rows = <usize>M;
  if (kind & FEW) {
    const as = kind & 255;
    if (kind & EXACT || as <= BF16) fewFloats(as, weight, inputs, x, ldx, rows, out, ldo, outputs, bias, from, to, OWN);
    else fewProduct(as, weight, inputs / 32, q, meta, rows, out, ldo, outputs, bias, from, to, OWN);
  } else if (kind >= EXACT || kind <= BF16) floatProduct(kind & 255, weight, inputs, x, ldx, rows, out, ldo, outputs, bias, from, to, OWN);
  else if (rows == 1) rowProduct(kind, weight, inputs / 32, q, meta, out, outputs, bias, from, to, OWN);
  else rowsProduct(kind, weight, inputs / 32, q, meta, rows, out, ldo, outputs, bias, from, to, OWN);
}

function product(): void {
  const outputs = w(10), count = (outputs + 15) / 16, size = w(12), pieces = (count + size - 1) / size;
  for (let piece = claim(<i32>pieces); piece >= 0; piece = claim(<i32>pieces)) {
    const from = <usize>piece * size;
    panels(<i32>w(1), w(2), w(3), at(4), at(5), at(6), w(7), at(8), w(9), outputs, w(11), from, min2(from + size, count));
  }
}

/** Stored rows to panels. */
function packRows(): void {
  const rowBytes = w(3), rows = w(4), pieces = <i32>((rows + 15) / 16);
  for (let piece = claim(pieces); piece >= 0; piece = claim(pieces)) {
    const p = <usize>piece;
    pack(<i32>w(1), w(2) + 16 * p * rowBytes, rowBytes, min2(16, rows - 16 * p), w(5), w(6) + p * w(7));
  }
}

/** Rows whose mass or errors are summed together, the folds that do so, their softmax, and places; 1 and 2 are norms. */
const TOGETHER: usize = 32, MASS: usize = 3, ERRORS: usize = 4, ATTENTION: usize = 5, TOP: usize = 6;

/** What @kv/cpu's block-products.ts makes of rows of a product. */
function fold(): void {
  const x = w(2), ld = w(3), rows = w(4), out = w(6), pieces = (rows + TOGETHER - 1) / TOGETHER;
  for (let piece = claim(<i32>pieces); piece >= 0; piece = claim(<i32>pieces)) {
    const first = <usize>piece * TOGETHER, from = x + first * ld, count = <i32>min2(TOGETHER, rows - first);
    if (w(1) == MASS) mass(from, ld, count, <i32>w(5), out + <usize>piece * ld);
    else if (w(1) == ERRORS) errors(w(7) + first * ld, from, ld, count, <i32>w(5), w(8) + 4 * first * w(10), w(9), 16, <i32>w(10), OWN, out + <usize>piece * ld);
    else if (w(1) == ATTENTION) attend(from, ld, count, <i32>w(5), w(7) + 4 * first);
    else if (w(1) == TOP) tops(from, ld, count, <i32>w(5), out + 4 * first);
    else norms(from, count, <i32>(ld >> 2), <i32>w(1), out + 4 * first);
  }
}

/** Rows of `mix` that are claimed at a time. */
const MIXED: usize = 12;

/** Rows of weights times vectors, in f64. */
function mixtures(): void {
  const ldp = w(2), rows = w(3), d = w(6), pieces = (rows + MIXED - 1) / MIXED;
  for (let piece = claim(<i32>pieces); piece >= 0; piece = claim(<i32>pieces)) {
    const first = <usize>piece * MIXED, count = min2(MIXED, rows - first), acc = w(7) + 8 * first * d;
    memory.fill(acc, 0, 8 * count * d);
    mix(w(1) + first * ldp, ldp, <i32>count, w(4), <i32>w(5), <i32>d, acc);
  }
}

/** Vectors that a thread centres and looks at together, a multiple of those that `gram` sums in f32. */
const SOME: usize = 128;

/** So many vectors of d at x, to this thread's own, less the one at c. */
function centred(x: usize, count: usize, d: usize, c: usize): void {
  memory.copy(OWN, x, 4 * count * d);
  centre(OWN, <i32>count, <i32>d, c);
}

/** Rows of @kv/core's `gram`. */
function grams(): void {
  const heads = w(5), n = w(6), d = w(7), rows = w(8), work = OWN + 4 * SOME * d, acc = work + 128 * d;
  for (let r = claim(<i32>rows); r >= 0; r = claim(<i32>rows)) {
    const g = <usize>r * heads / rows, x = w(1) + 4 * g * n * d, shares = w(2) + 4 * (<usize>r * w(9) / rows) * n;
    const c = w(3) + 4 * (g * w(10) / heads) * d, count = <usize>load<u32>(w(11) + 4 * g);
    memory.fill(acc, 0, 8 * d * d);
    for (let first: usize = 0; first < count; first += SOME) {
      const some = min2(SOME, count - first);
      centred(x + 4 * first * d, some, d, c);
      gram(OWN, shares + 4 * first, <i32>some, <i32>d, work, acc);
    }
    const out = w(4) + 4 * <usize>r * d * d;
    for (let a: usize = 0; a < d; a++) for (let b: usize = 0; b <= a; b++) {
      const sum = <f32>load<f64>(acc + 8 * (a * d + b));
      store<f32>(out + 4 * (a * d + b), sum);
      store<f32>(out + 4 * (b * d + a), sum);
    }
  }
}

/** Some vectors of a head and every matrix of its group, as @kv/core's `quadratic`. */
function quadratics(): void {
  const heads = w(5), n = w(6), d = w(7), group = w(8), parts = (n + SOME - 1) / SOME, found = OWN + 4 * SOME * d;
  for (let piece = claim(<i32>(heads * parts)); piece >= 0; piece = claim(<i32>(heads * parts))) {
    const g = <usize>piece / parts, first = <usize>piece % parts * SOME, count = <usize>load<u32>(w(11) + 4 * g);
    if (first >= count) continue;
    const some = min2(SOME, count - first);
    centred(w(1) + 4 * (g * n + first) * d, some, d, w(3) + 4 * (g * w(10) / heads) * d);
    for (let r = g * group; r < (g + 1) * group; r++) {
      quadratic(OWN, <i32>((some + 3) & ~3), <i32>d, w(2) + 4 * r * d * d, found);
      memory.copy(w(4) + 4 * (r * n + first), found, 4 * some);
    }
  }
}

/** Gates go to the output, ups to rows of this thread's own, a panel at a time. */
function gated(): void {
  const outputs = w(13), count = (outputs + 15) / 16, size = w(14), pieces = (count + size - 1) / size;
  const out = at(11), ldo = w(12), ups = at(15), rows = <usize>M;
  for (let piece = claim(<i32>pieces); piece >= 0; piece = claim(<i32>pieces))
    for (let p = <usize>piece * size; p < min2((<usize>piece + 1) * size, count); p++) {
      const wide = min2(16, outputs - 16 * p), o = out + 64 * p;
      panels(<i32>w(2), w(3), w(6), at(7), at(8), at(9), w(10), out, ldo, outputs, w(16), p, p + 1);
      // one panel alone, so that its outputs start where the rows do
      panels(<i32>w(4), w(5) + p * w(18), w(6), at(7), at(8), at(9), w(10), ups, 64, wide, w(17) ? w(17) + 64 * p : 0, 0, 1);
      for (let r: usize = 0; r < rows; r++) gate(w(1), o + r * ldo, ups + 64 * r, o + r * ldo, wide);
    }
}

/** Numbers under a soft cap, or (1) times a factor; never in place, since threads may all compute the same ones. */
function bend(x: usize, out: usize, width: usize): void {
  if (w(8) == 0) softcap(x, out, width, real(6));
  else scale(x, out, width, real(6));
}

/** Where a layer's sums of weights go; 0 for nowhere. */
function sharesOf(layer: usize, heads: usize): usize {
  return SHARES ? SHARES + layer * (SUMS ? load<u32>(SUMS) : 1) * 4 * heads * STRIDE : 0;
}

/** A row's caches of a layer, and its position. */
function cacheOf(row: usize): usize {
  return CACHES + row * APART + w(1);
}
function positionOf(row: usize): u32 {
  return load<u32>(CACHES + (row + 1) * APART - 4);
}

/** Attention of rows that each are a token over caches of its own: pieces of all of them, as they are claimed. */
function tokens(): void {
  const heads = w(2), kvHeads = w(3), window = <u32>w(13), rows = <usize>M;
  let pieces: usize = 0;
  for (let r: usize = 0; r < rows; r++) pieces += tokenPieces(cacheOf(r), kvHeads, positionOf(r), window);
  let r: usize = 0, first: usize = 0, count = tokenPieces(cacheOf(0), kvHeads, positionOf(0), window);
  for (let claimed = claim(<i32>pieces); claimed >= 0; claimed = claim(<i32>pieces)) {
    const piece = <usize>claimed;
    if (piece < first) {
      r = 0;
      first = 0;
      count = tokenPieces(cacheOf(0), kvHeads, positionOf(0), window);
    }
    while (piece >= first + count) {
      first += count;
      count = tokenPieces(cacheOf(++r), kvHeads, positionOf(r), window);
    }
    attendPiece(piece - first, cacheOf(r), heads, kvHeads, w(4), at(5) + r * w(6), at(7) + r * w(8), at(9) + r * w(10),
      real(11), real(12), window, w(18), positionOf(r), at(14) + r * w(15), at(16), sharesOf(w(17) * rows + r, heads), STRIDE);
  }
}

function joins(): void {
  rowsOf(1);
  for (let r = FROM; r < TO; r++)
    joinToken(cacheOf(r), w(2), w(3), w(4), <u32>w(5), positionOf(r), at(6) + r * w(7), at(8) + r * w(9), sharesOf(w(10) * <usize>M + r, w(2)), STRIDE, true);
}

/** Short convolution of rows, one after the other, each with the state that its caches name; threads share the channels. */
function convolutions(): void {
  const from = shareFrom((<i32>w(6) + 3) >> 2) << 2, to = shareTo((<i32>w(6) + 3) >> 2) << 2;
  for (let r: usize = 0; r < <usize>M; r++)
    convolve(at(2) + r * w(3), at(4) + r * w(5), w(6), <usize>load<u32>(cacheOf(r)), w(7), w(8), w(9), from, to);
}

/** Channels after a memory's convolution, of rows one after the other or each with its own state; threads share the channels. */
function channels(): void {
  const all = w(6), from = shareFrom(<i32>all >> 2) << 2, to = shareTo(<i32>all >> 2) << 2;
  const rows: usize = APART ? 1 : <usize>M, c = 4 * from, width = to - from, length = w(8);
  if (width == 0) return;
  for (let r: usize = 0; r < <usize>M; r += rows) {
    const x = at(2) + r * w(3) + c, state = <usize>load<u32>(cacheOf(r)) + c;
    convolveHead(x, w(3), 0, rows, at(4) + r * w(5) + c, w(5), width, all, state, w(7) + c, length);
    keepColumns(x, w(3), rows, width, all, state, length);
  }
}

/** A state space of rows, one after the other or each with its own state: heads. */
function spaces(): void {
  const heads = w(8), rows: usize = APART ? 1 : <usize>M, pieces = <i32>(heads * (<usize>M / rows));
  for (let piece = claim(pieces); piece >= 0; piece = claim(pieces)) {
    const r = <usize>piece / heads;
    spacePiece(<usize>piece % heads, rows, at(2) + r * w(3), w(3), at(4) + r * w(5), w(5), at(6) + r * w(7), w(7), heads, w(9), w(10), w(11), <usize>load<u32>(cacheOf(r)) + w(12), w(13), real(14), real(15), at(16));
  }
}

/** A delta rule of rows, one after the other or each with its own state: key heads, with the value heads that read them. */
function deltas(): void {
  const keyHeads = w(6), rows = APART ? 1 : <usize>M, pieces = <i32>(keyHeads * (<usize>M / rows));
  for (let piece = claim(pieces); piece >= 0; piece = claim(pieces)) {
    const r = <usize>piece / keyHeads;
    deltaPiece(<usize>piece % keyHeads, rows, at(2) + r * w(3), w(3), at(4) + r * w(5), w(5), keyHeads, w(7), w(8), w(9), <usize>load<u32>(cacheOf(r)), w(10), w(11), w(12), real(13), w(14) != 0, at(15));
  }
}

/** Runs the code of the command. */
function run(): void {
  while (PC != STOP) {
    switch (load<u32>(PC)) {
      case BARRIER:
        barrier();
        PC += 4;
        break;
      case NORM:
        rowsOf(w(10));
        for (let r = FROM; r < TO; r++) norm(at(1) + r * w(2), at(3) + r * w(4), w(5), w(6), w(7), w(8), real(9));
        PC += 44;
        break;
      case QUANTISE:
        rowsOf(w(6));
        for (let r = FROM; r < TO; r++) {
          // several rows lie in fours
          const four = r & ~3, lane = r & 3, q = at(4) + four * w(3) * XB + 4 * lane, meta = at(5) + META * (four * (w(3) / 32) + lane);
          quantise(at(1) + r * w(2), w(3), q, meta, M == 1 ? 1 : 4);
        }
        PC += 28;
        break;
      case PRODUCT:
        product();
        PC += 52;
        break;
      case GATED:
        gated();
        PC += 76;
        break;
      case GATE:
        rowsOf(w(9));
        for (let r = FROM; r < TO; r++) gate(w(1), at(2) + r * w(3), at(4) + r * w(5), at(6) + r * w(7), w(8));
        PC += 40;
        break;
      case ADD:
        rowsOf(w(8));
        for (let r = FROM; r < TO; r++) add(at(1) + r * w(2), at(3) + r * w(4), at(5) + r * w(6), w(7));
        PC += 36;
        break;
      case ROPE:
        rowsOf(w(8));
        for (let r = FROM; r < TO; r++)
          rope(at(1) + r * w(2), at(3) + r * w(4), w(5), w(6), w(7), COS + r * w(7) * 2, SIN + r * w(7) * 2, w(9) && SCALES ? load<f32>(SCALES + 4 * r) : 1);
        PC += 40;
        break;
      case BEND:
        if (w(7) == COLUMNS) {
          const from = shareFrom((<i32>w(5) + 3) >> 2) << 2, to = shareTo((<i32>w(5) + 3) >> 2) << 2;
          bend(at(1) + 4 * from, at(3) + 4 * from, to - from);
          PC += 36;
          break;
        }
        rowsOf(w(7));
        for (let r = FROM; r < TO; r++) bend(at(1) + r * w(2), at(3) + r * w(4), w(5));
        PC += 36;
        break;
      case APPEND:
        rowsOf(1);
        append(CACHES + w(1), w(2), w(3), at(4), w(5), at(6), w(7), FROM, TO);
        PC += 32;
        break;
      case TOKEN:
        attendToken(CACHES + w(1), w(2), w(3), w(4), at(5), at(6), at(7), real(8), real(9), <u32>w(10), w(14), POSITION, at(11), at(12), sharesOf(w(13), w(2)), STRIDE);
        PC += 60;
        break;
      case JOIN:
        joinToken(CACHES + w(1), w(2), w(3), w(4), <u32>w(5), POSITION, at(6), at(7), sharesOf(w(8), w(2)), STRIDE, false);
        PC += 36;
        break;
      case PACK:
        packCache(<bool>w(1), CACHES + w(2), w(3), w(4), <usize>M, w(5) != 0, PACKED, at(6));
        PC += 28;
        break;
      case ATTEND:
        attendRows(<bool>w(14), CACHES + w(1), w(2), w(3), w(4), <usize>M, at(5), w(6), real(7), real(8), <u32>w(9), w(15), POSITION, PACKED, at(10), w(11), at(12), sharesOf(w(13), w(2)), STRIDE, SUMS);
        PC += 64;
        break;
      case TOKENS:
        tokens();
        PC += 76;
        break;
      case JOINS:
        joins();
        PC += 44;
        break;
      case FOLD:
        fold();
        PC += 44;
        break;
      case MIX:
        mixtures();
        PC += 32;
        break;
      case GRAM:
        grams();
        PC += 48;
        break;
      case QUADRATIC:
        quadratics();
        PC += 48;
        break;
      case SHOW:
        show(<usize>M, CACHES + w(1), APART, w(2), w(3), w(4), at(5), w(6), at(7), w(8), at(9), w(10));
        PC += 44;
        break;
      case LOOP:
        addLoop(w(1), w(2));
        PC += 12;
        break;
      case CONVOLVE:
        convolutions();
        PC += 40;
        break;
      case DELTA:
        deltas();
        PC += 64;
        break;
      case CHANNELS:
        channels();
        PC += 36;
        break;
      case SPACE:
        spaces();
        PC += 68;
        break;
      case GATE_RUNS:
        rowsOf(w(9));
        for (let r = FROM; r < TO; r++) gateRuns(at(1) + r * w(2), at(3) + r * w(4), at(5) + r * w(6), w(7), w(8));
        PC += 40;
        break;
      case PACK_ROWS:
        packRows();
        PC += 32;
        break;
      default: // QUERIES
        if (QUERIES_AT) {
          rowsOf(w(5));
          if (w(5) == 0 && ME > 0) TO = 0;
          const first = <usize>M > WINDOW ? <usize>M - WINDOW : 0, to = QUERIES_AT + w(4) * WINDOW * w(3) * 4;
          for (let r = max(FROM, first); r < TO; r++) copy(at(1) + r * w(2), to + (r - first) * w(3) * 4, w(3));
        }
        PC += 24;
    }
  }
}

/** Reads the words of the command and runs its code; all threads end together. */
function obey(): bool {
  PC = word(0);
  if (PC == 0) return false;
  STOP = word(1);
  PLACE = word(2);
  OWN = word(3) + <usize>ME * word(4);
  M = <i32>word(5);
  CACHES = word(6);
  COS = word(7);
  SIN = word(8);
  POSITION = <u32>word(9);
  PACKED = word(10);
  QUERIES_AT = word(11);
  WINDOW = word(12);
  SHARES = word(13);
  STRIDE = word(14);
  APART = word(15);
  SUMS = word(16);
  SCALES = word(17);
  run();
  barrier();
  return true;
}

/** Runs the command whose words are written, with all threads. */
export function call(): void {
  command();
  obey();
}

/** A thread other than the first: runs commands until one has no code. */
export function serve(): void {
  for (let last = nextCommand(0); obey(); ) last = nextCommand(last);
}
