// ../core/src/errors.ts
var KvError = class extends Error {
  name = "KvError";
  at;
  constructor(at, message) {
    super(`${at}: ${message}`);
    this.at = at;
  }
  /** Recognised by name, so that two copies of core in one process agree. */
  static is(value2) {
    return value2 instanceof Error && value2.name === "KvError";
  }
};

// ../core/src/tensor.ts
var sizeOf = (shape) => shape.reduce((a, b) => a * b, 1);
function rowMajor(shape) {
  const stride = new Array(shape.length).fill(1);
  for (let i = shape.length - 2; i >= 0; i--) stride[i] = stride[i + 1] * shape[i + 1];
  return stride;
}

// ../core/src/cpu/dense.ts
function cpuTensor(data, shape, lengths2, stride = rowMajor(shape), offset = 0) {
  return { shape, dtype: data instanceof Uint32Array ? "u32" : "f32", data, stride, offset, ...lengths2 && { lengths: lengths2 } };
}
var zeros = (shape, dtype = "f32", lengths2) => cpuTensor(dtype === "u32" ? new Uint32Array(sizeOf(shape)) : new Float32Array(sizeOf(shape)), shape, lengths2);
function fromHost(array, dtype, lengths2) {
  const { data, shape } = array;
  const stride = array.stride ?? rowMajor(shape), offset = array.offset ?? 0;
  const last = sizeOf(shape) === 0 ? -1 : offset + shape.reduce((at, size, i) => at + (size - 1) * stride[i], 0);
  if (shape.length < 1 || shape.length > 3 || !shape.every((s) => Number.isInteger(s) && s >= 0)) throw new KvError("ops.from", `shape must be 1 to 3 whole numbers, got [${shape}]`);
  if (last >= data.length) throw new KvError("ops.from", `shape [${shape}] needs ${last + 1} numbers, got ${data.length}`);
  const want = dtype ?? (data instanceof Uint32Array ? "u32" : "f32");
  const inPlace = want === "u32" ? data instanceof Uint32Array : data instanceof Float32Array;
  const typed = inPlace ? data : want === "u32" ? Uint32Array.from(data) : Float32Array.from(data);
  return cpuTensor(typed, shape, lengths2, stride, offset);
}
var isDense = (x2) => x2.offset === 0 && x2.data.length === sizeOf(x2.shape) && rowMajor(x2.shape).every((s, i) => s === x2.stride[i] || x2.shape[i] === 1);
function dense(x2) {
  if (isDense(x2)) return x2;
  const out = zeros(x2.shape, x2.dtype, x2.lengths);
  const [a, b, c2] = dims(x2), [sa, sb, sc] = strides(x2);
  for (let i = 0, at = 0; i < a; i++) for (let j = 0; j < b; j++) for (let k = 0; k < c2; k++) out.data[at++] = x2.data[x2.offset + i * sa + j * sb + k * sc];
  return out;
}
var dims = ({ shape }) => [shape[0] ?? 1, shape[1] ?? 1, shape[2] ?? 1];
var strides = ({ shape, stride }) => [0, 1, 2].map((i) => (shape[i] ?? 1) === 1 ? 0 : stride[i]);
function commonRows(at, ...tensors) {
  const rows = Math.max(...tensors.map((t) => t?.shape[0] ?? 1));
  for (const t of tensors) if (t && rows % Math.max(1, t.shape[0]) !== 0) throw new KvError(at, `${t.shape[0]} rows do not divide ${rows} rows: expected query heads to be a multiple of KV heads`);
  return rows;
}
var rowOf = (t, r, rows) => Math.floor(r * t.shape[0] / rows);
function validSlots(t, r, rows = t.shape[0]) {
  const { lengths: lengths2 } = t;
  return lengths2 ? lengths2.data[lengths2.offset + rowOf(lengths2, r, rows) * (lengths2.stride[0] ?? 1)] : t.shape[1] ?? 1;
}
function raggedAs(rows, ...tensors) {
  let best;
  for (const t of tensors) if (t?.lengths && (!best || t.lengths.shape[0] > best.shape[0])) best = t.lengths;
  if (!best || best.shape[0] === rows) return best;
  const from = best;
  return cpuTensor(Uint32Array.from({ length: rows }, (_, r) => from.data[from.offset + rowOf(from, r, rows)]), [rows]);
}

// ../core/src/cpu/elementwise.ts
var UNARY = { exp: Math.exp, log: Math.log, log1p: Math.log1p, sqrt: Math.sqrt, abs: Math.abs, floor: Math.floor };
var BINARY = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  max: (a, b) => a > b ? a : b,
  min: (a, b) => a < b ? a : b,
  less: (a, b) => a < b ? 1 : 0,
  atLeast: (a, b) => a >= b ? 1 : 0,
  equal: (a, b) => a === b ? 1 : 0
};
function elementwise(at, operands, f) {
  const tensors = operands.filter((x2) => typeof x2 !== "number");
  if (tensors.length === 0) throw new KvError(at, "expected at least one tensor, got numbers only");
  const rows = commonRows(at, ...tensors);
  const rank2 = Math.max(...tensors.map((t) => t.shape.length));
  const [slots, channels] = [1, 2].map((axis) => Math.max(...tensors.map((t) => dims(t)[axis])));
  const size = [rows, ...[slots, channels].map((n, i) => tensors.some((t) => dims(t)[i + 1] === 0) ? 0 : n)];
  for (const t of tensors) for (const axis of [1, 2]) if (dims(t)[axis] !== 1 && dims(t)[axis] !== size[axis]) throw new KvError(at, `shapes ${tensors.map((x2) => `[${x2.shape}]`).join(" and ")} do not broadcast`);
  const out = zeros(size.slice(0, rank2), "f32", raggedAs(rows, ...tensors)), { data } = out;
  const [a, b, c2] = [0, 1, 2].map((i) => source(operands[i] ?? 0));
  let to = 0;
  for (let r = 0; r < rows; r++) {
    const ar = a.row(r, rows), br = b.row(r, rows), cr = c2.row(r, rows);
    for (let j = 0; j < size[1]; j++) {
      let ai = ar + j * a.slot, bi = br + j * b.slot, ci = cr + j * c2.slot;
      for (let k = 0; k < size[2]; k++, ai += a.channel, bi += b.channel, ci += c2.channel) data[to++] = f(a.data[ai], b.data[bi], c2.data[ci]);
    }
  }
  return out;
}
function source(x2) {
  if (typeof x2 === "number") return { data: [x2], slot: 0, channel: 0, row: () => 0 };
  const { data, offset, stride } = x2, [, slot, channel] = strides(x2);
  return { data, slot, channel, row: (r, rows) => offset + rowOf(x2, r, rows) * stride[0] };
}

// ../core/src/cpu/reduce.ts
var LOWEST = -Math.fround(34028234663852886e22);
function fold(kind, count, get) {
  if (kind === "max" || kind === "min") {
    let best = kind === "max" ? LOWEST : -LOWEST;
    for (let i = 0; i < count; i++) {
      const x2 = get(i);
      if (Number.isNaN(x2) || (kind === "max" ? x2 > best : x2 < best)) best = x2;
    }
    return best;
  }
  let sum = 0;
  for (let i = 0; i < count; i++) sum += get(i);
  if (kind === "sum" || count === 0) return sum;
  if (kind === "mean") return sum / count;
  let square = 0;
  for (let i = 0; i < count; i++) square += (get(i) - sum / count) ** 2;
  return Math.sqrt(square / count);
}
function reduce(kind, x2, axis) {
  const [rows, slots, channels] = dims(x2), [sr, ss, sc] = strides(x2);
  const rank3 = x2.shape.length === 3;
  if (axis === "slots") {
    const out2 = zeros(rank3 ? [rows, 1, channels] : [rows, 1]);
    for (let r = 0; r < rows; r++) for (let c2 = 0; c2 < channels; c2++)
      out2.data[r * channels + c2] = fold(kind, validSlots(x2, r), (i) => x2.data[x2.offset + r * sr + i * ss + c2 * sc]);
    return out2;
  }
  if (axis === "rows") {
    const out2 = zeros([1, ...x2.shape.slice(1)], "f32", raggedAs(1, x2));
    for (let i = 0; i < slots; i++) for (let c2 = 0; c2 < channels; c2++)
      out2.data[i * channels + c2] = fold(kind, rows, (r) => x2.data[x2.offset + r * sr + i * ss + c2 * sc]);
    return out2;
  }
  if (!rank3) throw new KvError("ops.reduce", `channels exist in tensors of rank 3, got shape [${x2.shape}]`);
  const out = zeros([rows, slots], "f32", x2.lengths);
  for (let r = 0; r < rows; r++) for (let i = 0; i < slots; i++)
    out.data[r * slots + i] = fold(kind, channels, (c2) => x2.data[x2.offset + r * sr + i * ss + c2 * sc]);
  return out;
}
function groupRows(kind, x2, rows) {
  const [all, slots] = dims(x2), [sr, ss] = strides(x2);
  if (rows < 1 || all % rows !== 0) throw new KvError("ops.groupRows", `${all} rows cannot be grouped into ${rows}: expected a divisor`);
  const size = all / rows;
  const out = zeros([rows, slots], "f32", raggedAs(rows, x2));
  for (let r = 0; r < rows; r++) for (let i = 0; i < slots; i++)
    out.data[r * slots + i] = fold(kind, size, (j) => x2.data[x2.offset + (r * size + j) * sr + i * ss]);
  return out;
}
function normaliseRows(x2, softmax) {
  const [rows, slots] = dims(x2), [sr, ss] = strides(x2);
  const out = zeros(x2.shape, "f32", x2.lengths), weights = new Float64Array(slots);
  for (let r = 0; r < rows; r++) {
    const count = validSlots(x2, r), from = x2.offset + r * sr;
    let top = LOWEST, total = 0;
    if (softmax) for (let i = 0; i < count; i++) top = Math.max(top, x2.data[from + i * ss]);
    for (let i = 0; i < count; i++) {
      const v = x2.data[from + i * ss];
      weights[i] = softmax ? Math.exp(v - top) : v;
      total += weights[i];
    }
    for (let i = 0; i < count; i++) out.data[r * slots + i] = total === 0 ? 1 / count : weights[i] / total;
  }
  return out;
}
function matmul(a, b) {
  const rows = commonRows("ops.matmul", a, b), [, slots, channels] = dims(b);
  const [, sa] = strides(a), [, sb, sc] = strides(b);
  const out = zeros([rows, channels]);
  const sums = new Float64Array(channels);
  for (let r = 0; r < rows; r++) {
    const count = Math.min(validSlots(a, rowOf(a, r, rows)), validSlots(b, rowOf(b, r, rows)), slots);
    const fromA = a.offset + rowOf(a, r, rows) * a.stride[0], fromB = b.offset + rowOf(b, r, rows) * b.stride[0];
    sums.fill(0);
    for (let i = 0; i < count; i++) {
      const w = a.data[fromA + i * sa];
      for (let c2 = 0; c2 < channels; c2++) sums[c2] += w * b.data[fromB + i * sb + c2 * sc];
    }
    out.data.set(sums, r * channels);
  }
  return out;
}
function alongChannels(at, kind, b, a) {
  const rows = commonRows(at, a, b), [, slots, channels] = dims(b), [, sb, sc] = strides(b);
  if (a && (a.shape[1] ?? 1) !== channels) throw new KvError(at, `expected ${channels} channels, got shapes [${a.shape}] and [${b.shape}]`);
  const out = zeros([rows, slots], "f32", raggedAs(rows, b)), row = new Float64Array(channels), { data } = b;
  for (let r = 0; r < rows; r++) {
    if (a) for (let c2 = 0; c2 < channels; c2++) row[c2] = a.data[a.offset + rowOf(a, r, rows) * a.stride[0] + c2 * (a.stride[1] ?? 1)];
    const fromB = b.offset + rowOf(b, r, rows) * b.stride[0];
    for (let i = 0; i < slots; i++) {
      const start = fromB + i * sb;
      let s = 0;
      if (kind === "dot") for (let c2 = 0; c2 < channels; c2++) s += row[c2] * data[start + c2 * sc];
      else if (kind === "l1") for (let c2 = 0; c2 < channels; c2++) s += Math.abs(data[start + c2 * sc]);
      else for (let c2 = 0; c2 < channels; c2++) {
        const x2 = row[c2] - data[start + c2 * sc];
        s += x2 * x2;
      }
      out.data[r * slots + i] = kind === "distance" || kind === "l2" ? Math.sqrt(s) : s;
    }
  }
  return out;
}

// ../core/src/cpu/slots.ts
function pool(x2, { kernel, kind, except = 0 }) {
  if (!Number.isInteger(kernel) || kernel < 1 || kernel % 2 === 0) throw new KvError("ops.pool", `kernel must be an odd whole number, got ${kernel}`);
  const [rows, slots] = dims(x2), half = (kernel - 1) / 2, from = dense(x2), out = zeros(x2.shape, "f32", x2.lengths);
  for (let r = 0; r < rows; r++) {
    const count = validSlots(x2, r), end = Math.max(0, count - except), at = r * slots;
    for (let i = end; i < count; i++) out.data[at + i] = from.data[at + i];
    for (let i = 0; i < end; i++) {
      let sum = 0, top = LOWEST;
      for (let j = Math.max(0, i - half); j <= Math.min(end - 1, i + half); j++) {
        const v = from.data[at + j];
        sum += v;
        if (v > top) top = v;
      }
      out.data[at + i] = kind === "max" ? top : sum / kernel;
    }
  }
  return out;
}
function rank(x2, over) {
  const [rows, slots] = dims(x2), from = dense(x2), out = zeros(x2.shape, "f32", x2.lengths);
  const entries = over === "all" ? [[]] : Array.from({ length: rows }, () => []);
  for (let r = 0; r < rows; r++) for (let i = 0; i < validSlots(x2, r); i++) entries[over === "all" ? 0 : r].push(r * slots + i);
  for (const list of entries) {
    list.sort((a, b) => from.data[b] - from.data[a] || a % slots - b % slots || a - b);
    list.forEach((at, place) => {
      out.data[at] = place;
    });
  }
  return out;
}
function lastSlots(like, w) {
  const [rows, slots] = dims(like), out = zeros([rows, slots], "f32", like.lengths);
  for (let r = 0; r < rows; r++) {
    const n = validSlots(like, r);
    out.data.fill(1, r * slots + Math.max(0, n - w), r * slots + n);
  }
  return out;
}
function take(table, index) {
  const rows = commonRows("ops.take", table, index), [, size, channels] = dims(table), [, slots] = dims(index);
  const [, st, sc] = strides(table), [, si] = strides(index), wide = table.shape.length === 3;
  const out = zeros(wide ? [rows, slots, channels] : [rows, slots], table.dtype, raggedAs(rows, index));
  for (let r = 0; r < rows; r++) {
    const fromT = table.offset + rowOf(table, r, rows) * table.stride[0], fromI = index.offset + rowOf(index, r, rows) * index.stride[0];
    for (let i = 0; i < validSlots(index, rowOf(index, r, rows)); i++) {
      const at = index.data[fromI + i * si];
      if (at >= size) throw new KvError("ops.take", `index ${at} at row ${r}, slot ${i} must be below ${size}`);
      for (let c2 = 0; c2 < channels; c2++) out.data[(r * slots + i) * channels + c2] = table.data[fromT + at * st + c2 * sc];
    }
  }
  return out;
}
function groupSlots(kind, x2, groups, count) {
  const rows = commonRows("ops.groupSlots", x2, groups), out = zeros([rows, count]), [, sx] = strides(x2), [, sg] = strides(groups);
  const sizes2 = new Float64Array(count), sums = new Float64Array(count);
  for (let r = 0; r < rows; r++) {
    const fromX = x2.offset + rowOf(x2, r, rows) * x2.stride[0], fromG = groups.offset + rowOf(groups, r, rows) * groups.stride[0];
    sizes2.fill(0);
    sums.fill(kind === "max" ? LOWEST : 0);
    const n = Math.min(validSlots(x2, rowOf(x2, r, rows)), validSlots(groups, rowOf(groups, r, rows)));
    for (let i = 0; i < n; i++) {
      const g = groups.data[fromG + i * sg], v = x2.data[fromX + i * sx];
      if (g >= count) throw new KvError("ops.groupSlots", `group ${g} of slot ${i} must be below ${count}`);
      sizes2[g]++;
      sums[g] = kind === "max" ? Math.max(sums[g], v) : sums[g] + v;
    }
    for (let g = 0; g < count; g++) out.data[r * count + g] = sizes2[g] === 0 ? 0 : kind === "mean" ? sums[g] / sizes2[g] : sums[g];
  }
  return out;
}
function select(scores, budgets, { forced, banned, active }) {
  const rows = commonRows("ops.select", scores, budgets, forced, banned), [, slots] = dims(scores), [, ss] = strides(scores);
  const counts = cpuTensor(new Uint32Array(rows), [rows]), out = zeros([rows, slots], "u32", counts);
  const at = (t, r, i) => t.data[t.offset + rowOf(t, r, rows) * t.stride[0] + i * strides(t)[1]];
  const ragged = raggedAs(rows, scores, forced, banned);
  for (let r = 0; r < rows; r++) {
    if (active && at(active, r, 0) === 0) continue;
    const n = ragged ? ragged.data[r] : slots, from = scores.offset + rowOf(scores, r, rows) * scores.stride[0];
    const open = [], kept = [];
    for (let i = 0; i < n; i++) if (forced && at(forced, r, i) !== 0) kept.push(i);
    else if (!banned || at(banned, r, i) === 0) open.push(i);
    const room = Math.max(0, Math.min(Math.floor(at(budgets, r, 0)) - kept.length, open.length));
    if (room === open.length) kept.push(...open);
    else if (room > 0) {
      const sorted = Float32Array.from(open, (i) => scores.data[from + i * ss]).sort(), border = sorted[open.length - room];
      let ties = room - open.reduce((c2, i) => c2 + (scores.data[from + i * ss] > border ? 1 : 0), 0);
      for (const i of open) {
        const s = scores.data[from + i * ss];
        if (s > border || s === border && ties-- > 0) kept.push(i);
      }
    }
    kept.sort((a, b) => a - b);
    out.data.set(kept, r * slots);
    counts.data[r] = kept.length;
  }
  return out;
}
function mark(kept, like) {
  const rows = commonRows("ops.mark", kept, like), [, slots] = dims(like), out = zeros([rows, slots], "f32", raggedAs(rows, like));
  for (let r = 0; r < rows; r++) {
    const row = rowOf(kept, r, rows);
    for (let i = 0; i < validSlots(kept, row); i++) out.data[r * slots + kept.data[kept.offset + row * kept.stride[0] + i * (kept.stride[1] ?? 1)]] = 1;
  }
  return out;
}
function firstBad(x2, atLeast) {
  const [rows, slots] = dims(x2), [sr, ss] = strides(x2), out = zeros([1], "u32");
  for (let r = 0; r < rows; r++) for (let i = 0; i < validSlots(x2, r); i++) {
    const v = x2.data[x2.offset + r * sr + i * ss];
    if (!Number.isFinite(v) || v < atLeast) {
      out.data[0] = 1 + r * slots + i;
      return out;
    }
  }
  return out;
}

// ../core/src/cpu/cpu.ts
var c = (x2) => {
  if (!("data" in x2)) throw new KvError("cpu", "a tensor of another backend came in, expected one made by these operations");
  return x2;
};
var maybe = (x2) => x2 ? c(x2) : void 0;
var ODDS_FLOOR = 2 ** -24;
var cpuOps = {
  from: (array, dtype, lengths2) => fromHost(array, dtype, maybe(lengths2)),
  fill: (like, value2) => {
    const out = zeros(like.shape, "f32", maybe(like.lengths));
    out.data.fill(value2);
    return out;
  },
  map: (kind, x2) => elementwise(`ops.${kind}`, [x2], UNARY[kind]),
  zip: (kind, a, b) => elementwise(`ops.${kind}`, [a, b], BINARY[kind]),
  add: (a, b) => elementwise("ops.add", [a, b], BINARY.add),
  sub: (a, b) => elementwise("ops.sub", [a, b], BINARY.sub),
  mul: (a, b) => elementwise("ops.mul", [a, b], BINARY.mul),
  div: (a, b) => elementwise("ops.div", [a, b], BINARY.div),
  max: (a, b) => elementwise("ops.max", [a, b], BINARY.max),
  min: (a, b) => elementwise("ops.min", [a, b], BINARY.min),
  exp: (x2) => elementwise("ops.exp", [x2], UNARY.exp),
  log: (x2) => elementwise("ops.log", [x2], UNARY.log),
  less: (a, b) => elementwise("ops.less", [a, b], BINARY.less),
  atLeast: (a, b) => elementwise("ops.atLeast", [a, b], BINARY.atLeast),
  where: (mask, a, b) => elementwise("ops.where", [mask, a, b], (m, x2, y) => m !== 0 ? x2 : y),
  reduce: (kind, x2, axis) => reduce(kind, c(x2), axis),
  groupRows: (kind, x2, rows) => groupRows(kind, c(x2), rows),
  simplex: (x2) => normaliseRows(c(x2), false),
  softmax: (x2) => normaliseRows(c(x2), true),
  odds: (h) => elementwise("ops.odds", [h], (x2) => x2 / Math.max(1 - x2, ODDS_FLOOR)),
  matmul: (a, b) => matmul(c(a), c(b)),
  dot: (q, k) => alongChannels("ops.dot", "dot", c(k), c(q)),
  distance: (o, v) => alongChannels("ops.distance", "distance", c(v), c(o)),
  norm: (x2, p = 2) => alongChannels("ops.norm", p === 1 ? "l1" : "l2", c(x2)),
  scale: (x2, by) => elementwise("ops.scale", [x2, by], BINARY.mul),
  pool: (x2, options) => pool(c(x2), options),
  rank: (x2, over) => rank(c(x2), over),
  lastSlots: (like, w) => lastSlots(c(like), w),
  take: (table, index) => take(c(table), c(index)),
  groupSlots: (kind, x2, groups, count) => groupSlots(kind, c(x2), c(groups), count),
  select: (scores, budgets, masks = {}) => select(c(scores), c(budgets), { forced: maybe(masks.forced), banned: maybe(masks.banned), active: maybe(masks.active) }),
  mark: (kept, like) => mark(c(kept), c(like)),
  firstBad: (x2, atLeast = LOWEST) => firstBad(c(x2), atLeast),
  reshape: (x2, shape) => {
    if (sizeOf(shape) !== sizeOf(x2.shape)) throw new KvError("ops.reshape", `[${x2.shape}] has ${sizeOf(x2.shape)} elements, [${shape}] ${sizeOf(shape)}`);
    return cpuTensor(dense(c(x2)).data, shape);
  },
  kernel(kernel, inputs, params = {}) {
    const shapes = {}, host = {};
    for (const name of Object.keys(kernel.inputs)) {
      const x2 = inputs[name];
      if (!x2) throw new KvError(kernel.id, `expected the input '${name}', got ${Object.keys(inputs).join(", ") || "none"}`);
      shapes[name] = x2.shape;
      host[name] = { data: dense(c(x2)).data, shape: x2.shape };
    }
    const shape = kernel.output.shape(shapes, params);
    const like = kernel.ragged === void 0 ? void 0 : c(inputs[kernel.ragged]);
    const [rows, slots] = like ? dims(like) : [shape[0] ?? 1, shape[1] ?? 1];
    const lengths2 = like?.lengths ? dense(like.lengths).data : new Uint32Array(rows).fill(slots);
    const out = zeros(shape, kernel.output.dtype, like?.lengths && shape[0] === rows ? like.lengths : void 0);
    kernel.ref(host, params, out.data, lengths2);
    return out;
  }
};
var cpu = {
  name: "cpu",
  ops: cpuOps,
  read: async (tensors) => tensors.map((t) => readCpu(t))
};
function readCpu(t) {
  const x2 = dense(c(t));
  return { data: x2.data, shape: x2.shape, lengths: x2.lengths && dense(x2.lengths).data };
}

// src/grid.ts
function grid(groups, limit) {
  const y = Math.ceil(groups / limit);
  return [Math.ceil(groups / y), y];
}

// src/recorder.ts
var UNIFORM_BYTES = 256;
var BATCH = 256;
function recorder(device, pool3, pipelines) {
  const counters = { dispatches: 0, submits: 0, readbacks: 0 };
  const values = new Uint32Array(BATCH * UNIFORM_BYTES / 4);
  let uniform;
  let encoder, pass;
  let batch = 0, used = 0;
  const uniformGroup = () => {
    if (!uniform) {
      const memory = pool3().take(values.byteLength, "uniform");
      uniform = { memory, group: device.createBindGroup({ layout: pipelines.uniform, entries: [{ binding: 0, resource: { buffer: memory.buffer, size: UNIFORM_BYTES } }] }) };
    }
    return uniform;
  };
  const self = {
    counters,
    dispatch({ pipeline, layout }, memories, scalars2, groups) {
      if (used === BATCH) self.submit();
      const { group } = uniformGroup();
      values.set(scalars2, used * UNIFORM_BYTES / 4);
      encoder ??= device.createCommandEncoder();
      pass ??= encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, device.createBindGroup({ layout, entries: memories.map(({ buffer }, binding) => ({ binding, resource: { buffer } })) }));
      pass.setBindGroup(1, group, [used * UNIFORM_BYTES]);
      pass.dispatchWorkgroups(...grid(groups, device.limits.maxComputeWorkgroupsPerDimension));
      for (const { use } of memories) use.batch = batch;
      used++;
      counters.dispatches++;
    },
    copy(from, to, offset, bytes) {
      encoder ??= device.createCommandEncoder();
      pass?.end();
      pass = void 0;
      encoder.copyBufferToBuffer(from.buffer, 0, to.buffer, offset, bytes);
      from.use.batch = to.use.batch = batch;
    },
    write(to, data) {
      if (to.use.batch === batch) self.submit();
      device.queue.writeBuffer(to.buffer, 0, data);
    },
    submit() {
      if (!encoder) return;
      pass?.end();
      if (used > 0) device.queue.writeBuffer(uniformGroup().memory.buffer, 0, values, 0, used * UNIFORM_BYTES / 4);
      device.queue.submit([encoder.finish()]);
      encoder = pass = void 0;
      used = 0;
      batch++;
      counters.submits++;
    }
  };
  return self;
}

// src/shader.ts
var THREADS = 256;
var VIEW = ["rows", "row_step", "slot_step", "channel_step", "slots", "lengths"];
var scalars = ({ inputs, params = {} }) => ["count", "rows", "slots", "channels", ...Object.keys(inputs).flatMap((x2) => VIEW.map((v) => `${x2}_${v}`)), ...Object.keys(params)];
var stored = (element, actual) => element === "number" ? actual : element === "bits" ? "u32" : element;
function view(name, element, ragged) {
  const type = element === "number" ? "f32" : element === "bits" ? "u32" : element;
  return `
fn ${name}_base(row: u32) -> u32 { return row * params.${name}_rows / params.rows * params.${name}_row_step; }
fn ${name}_get(at: u32) -> ${type} { return ${type}(${name}[at]); }
fn ${name}_at(row: u32, slot: u32, channel: u32) -> ${type} { return ${name}_get(${name}_base(row) + slot * params.${name}_slot_step + channel * params.${name}_channel_step); }${ragged ? `
fn ${name}_valid(row: u32) -> u32 { if (params.${name}_lengths == 0u) { return params.${name}_slots; } return ${name}_lengths[row * params.${name}_lengths / params.rows]; }` : ""}`;
}
function shader(def, actual) {
  const { inputs, ragged = [], outputs, params = {}, per } = def;
  const arrays = [
    ...Object.entries(inputs).map(([x2, e]) => [x2, stored(e, actual[x2] ?? "f32"), "read"]),
    ...ragged.map((x2) => [`${x2}_lengths`, "u32", "read"]),
    ...Object.entries(outputs).map(([x2, e]) => [x2, e, "read_write"])
  ];
  const start = per === "element" ? `let index = at * ${THREADS}u + lane; if (index < params.count) { run(index); }` : "if (at < params.count) { run(at, lane); }";
  const code = (
    /* wgsl */
    `
struct Params { ${scalars(def).map((s) => `${s}: ${params[s] ?? "u32"}`).join(", ")} }
@group(1) @binding(0) var<uniform> params: Params;
${arrays.map(([name, type, access], i) => `@group(0) @binding(${i}) var<storage, ${access}> ${name}: array<${type}>;`).join("\n")}
${Object.entries(inputs).map(([x2, e]) => view(x2, e, ragged.includes(x2))).join("")}
${def.source}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) here: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let at = here.y * groups.x + here.x;
  ${start}
}`
  );
  return { id: def.id, code, writes: arrays.map(([, , access]) => access === "read_write") };
}

// src/tensor.ts
function sizes({ shape: [rows = 1, slots = 1, channels = 1] }) {
  return [rows, slots, channels];
}
function sharedRows(at, ...tensors) {
  const counts = tensors.filter((t) => t !== void 0).map((t) => t.shape[0] ?? 1);
  const rows = Math.max(1, ...counts);
  const odd = counts.find((n) => n > 0 && rows % n !== 0);
  if (odd !== void 0) throw new KvError(at, `${odd} rows do not divide ${rows} rows: expected query heads to be a multiple of KV heads`);
  return counts.includes(0) ? 0 : rows;
}

// src/encode.ts
var number = new DataView(new ArrayBuffer(4));
function bits(value2, type) {
  if (type === "u32") number.setUint32(0, value2);
  else number.setFloat32(0, value2);
  return number.getUint32(0);
}
function steps(x2) {
  const [rows, slots, channels] = sizes(x2);
  return [rows === 1 ? 0 : slots * channels, slots === 1 ? 0 : channels, channels === 1 ? 0 : 1];
}
var view2 = (x2) => x2 ? [sizes(x2)[0], ...steps(x2), sizes(x2)[1], x2.lengths?.shape[0] ?? 0] : [0, 0, 0, 0, 0, 0];
function recording(pool3, pipelines, recorder2, owned) {
  let blank;
  const nothing = () => {
    if (!blank?.alive) owned.add(blank = pool3.take(4));
    return blank;
  };
  const self = {
    make(shape, dtype = "f32", lengths2) {
      const memory = pool3.take(4 * shape.reduce((a, b) => a * b, 1));
      owned.add(memory);
      return { shape, dtype, memory, ...lengths2 && { lengths: lengths2 } };
    },
    upload(data, shape, lengths2) {
      const tensor = self.make(shape, data instanceof Uint32Array ? "u32" : "f32", lengths2);
      if (data.length > 0) recorder2.write(tensor.memory, data);
      return tensor;
    },
    own(x2) {
      const memory = x2.memory;
      if (memory?.pool !== pool3) throw new KvError("gpu", "a tensor of another backend came in, expected one made by these operations");
      if (!memory.alive) throw new KvError("gpu", "a tensor came in whose scope has ended, expected one that is still held: keep() it before the scope ends");
      return x2;
    },
    run(def, { space, inputs = {}, outputs, params = {}, count = space[0] * space[1] * space[2] }) {
      if (count === 0) return;
      const names = Object.keys(def.inputs);
      const types = Object.fromEntries(names.map((x2) => [x2, inputs[x2]?.dtype ?? "f32"]));
      const pipeline = pipelines.get(`${def.id}|${names.map((x2) => def.inputs[x2] === "number" ? types[x2] : "").join()}`, () => shader(def, types));
      const extra = Object.entries(def.params ?? {}).map(([name, type]) => bits(params[name], type));
      const values = [count, ...space, ...names.flatMap((x2) => view2(inputs[x2])), ...extra];
      if (values.length * 4 > UNIFORM_BYTES || values.length !== scalars(def).length) throw new KvError(def.id, `has ${values.length} scalars, expected at most ${UNIFORM_BYTES / 4}`);
      const memories = [
        ...names.map((x2) => inputs[x2]?.memory ?? nothing()),
        ...(def.ragged ?? []).map((x2) => inputs[x2]?.lengths?.memory ?? nothing()),
        ...Object.keys(def.outputs).map((x2) => outputs[x2].memory)
      ];
      recorder2.dispatch(pipeline, memories, Uint32Array.from(values), def.per === "element" ? Math.ceil(count / 256) : count);
    },
    runRaw(key, make, tensors, uniform, count) {
      if (count > 0) recorder2.dispatch(pipelines.get(key, make), tensors.map((t) => t.memory), uniform, Math.ceil(count / 256));
    }
  };
  return self;
}

// src/kernels/fold.wgsl.ts
var LOWEST2 = "-0x1.fffffep+127f";
var IS_NAN = (
  /* wgsl */
  `fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }`
);
var JOIN = {
  sum: ["0.0", "a + b"],
  max: [LOWEST2, "select(a, b, is_nan(b) || b > a)"],
  min: [`-(${LOWEST2})`, "select(a, b, is_nan(b) || b < a)"]
};
var joins = (kind) => {
  const [first, join] = JOIN[kind === "max" || kind === "min" ? kind : "sum"];
  return (
    /* wgsl */
    `
${IS_NAN}
fn first() -> f32 { return ${first}; }
fn join(a: f32, b: f32) -> f32 { return ${join}; }`
  );
};
var finish = (kind, again) => {
  if (kind !== "mean" && kind !== "std") return "result = all;";
  const mean = (
    /* wgsl */
    `if (size > 0u) { let rough = all / f32(size); let mean = rough + ${again("x - rough")} / f32(size); result = mean;`
  );
  return `result = all; ${mean} ${kind === "std" ? `result = sqrt(${again("(x - mean) * (x - mean)")} / f32(size));` : ""} }`;
};
var foldThread = (kind) => {
  const folds = [];
  const again = (f) => {
    folds.push(
      /* wgsl */
      `fn fold${folds.length}(from_: u32, size: u32, rough: f32, mean: f32) -> f32 {
  var sum = 0.0;
  for (var start = 0u; start < size; start += 32u) {
    var part = 0.0;
    for (var i = start; i < min(start + 32u, size); i++) { let x = x_get(from_ + i * params.step); part += ${f}; }
    sum += part;
  }
  return sum;
}`
    );
    return `fold${folds.length - 1}(from_, size, rough, ${folds.length > 1 ? "mean" : "0.0"})`;
  };
  const end = finish(kind, again);
  return {
    id: `fold-thread:${kind}`,
    inputs: { x: "number" },
    ragged: ["x"],
    outputs: { output: "f32" },
    params: { size: "u32", step: "u32", factor: "u32", valid: "u32" },
    per: "element",
    source: (
      /* wgsl */
      `
${joins(kind)}
${folds.join("\n")}
fn run(index: u32) {
  let row = index / (params.channels * params.slots);
  var size = params.size;
  if (params.valid == 1u) { size = x_valid(row); }
  let from_ = row * params.factor * params.x_row_step + index / params.channels % params.slots * params.x_slot_step + index % params.channels * params.x_channel_step;
  var all = first();
  for (var start = 0u; start < size; start += 32u) {
    var part = first();
    for (var i = start; i < min(start + 32u, size); i++) { part = join(part, x_get(from_ + i * params.step)); }
    all = join(all, part);
  }
  var result = 0.0;
  ${end}
  output[index] = result;
}`
    )
  };
};
var tree = (name, join) => (
  /* wgsl */
  `
var<workgroup> ${name}_lanes: array<f32, ${THREADS}>;
fn ${name}_16(first: u32, step: u32) -> f32 {
  var a = ${name}_lanes[first];
  for (var i = 1u; i < 16u; i++) { let b = ${name}_lanes[first + i * step]; a = ${join}; }
  return a;
}
fn ${name}(lane: u32, mine: f32) -> f32 {
  workgroupBarrier();
  ${name}_lanes[lane] = mine;
  workgroupBarrier();
  if (lane % 16u == 0u) { ${name}_lanes[lane] = ${name}_16(lane, 1u); }
  workgroupBarrier();
  return ${name}_16(0u, 16u);
}`
);
var TREE = { sum: "a + b", max: JOIN.max[1] };
var foldSlots = (kind) => {
  const folds = [];
  const again = (f) => {
    folds.push(
      /* wgsl */
      `fn fold${folds.length}(lane: u32, from_: u32, size: u32, rough: f32, mean: f32) -> f32 {
  var sum = 0.0;
  for (var i = lane; i < size; i += ${THREADS}u) { let x = x_get(from_ + i * params.x_slot_step); sum += ${f}; }
  return total(lane, sum);
}`
    );
    return `fold${folds.length - 1}(lane, from_, size, rough, ${folds.length > 1 ? "mean" : "0.0"})`;
  };
  const end = finish(kind, again);
  return {
    id: `fold-slots:${kind}`,
    inputs: { x: "number" },
    ragged: ["x"],
    outputs: { output: "f32" },
    per: "group",
    source: (
      /* wgsl */
      `
${joins(kind)}
${tree("total", JOIN[kind === "max" || kind === "min" ? kind : "sum"][1])}
${folds.join("\n")}
fn run(group: u32, lane: u32) {
  let size = x_valid(group);
  let from_ = x_base(group);
  var all = first();
  for (var i = lane; i < size; i += ${THREADS}u) { all = join(all, x_get(from_ + i * params.x_slot_step)); }
  all = total(lane, all);
  var result = 0.0;
  ${end}
  if (lane == 0u) { output[group] = result; }
}`
    )
  };
};

// src/kernels/elementwise.wgsl.ts
var NAMES = ["a", "b", "c"];
function elementwise2(id, operands, expression, functions = "") {
  const named = operands.map((kind, i) => [NAMES[i], kind]);
  const of = (kind, value2) => Object.fromEntries(named.filter(([, k]) => k === kind).map(([n]) => [kind === "tensor" ? n : `${n}_number`, value2]));
  return {
    id: `${id}:${operands.join("-")}`,
    inputs: of("tensor", "number"),
    outputs: { output: "f32" },
    params: of("number", "f32"),
    per: "element",
    source: (
      /* wgsl */
      `
${functions}
fn run(index: u32) {
  let channel = index % params.channels;
  let slot = index / params.channels % params.slots;
  let row = index / (params.channels * params.slots);
${named.map(([n, kind]) => `  let ${n}_ = ${kind === "tensor" ? `${n}_at(row, slot, channel)` : `params.${n}_number`};`).join("\n")}
  output[index] = ${expression};
}`
    )
  };
}
var BINARY2 = {
  add: "a_ + b_",
  sub: "a_ - b_",
  mul: "a_ * b_",
  div: "a_ / b_",
  max: "select(b_, a_, a_ > b_)",
  min: "select(b_, a_, a_ < b_)",
  less: "select(0.0, 1.0, a_ < b_)",
  atLeast: "select(0.0, 1.0, a_ >= b_)",
  equal: "select(0.0, 1.0, a_ == b_)"
};
var UNARY2 = { exp: "exp(a_)", log: "logarithm(a_)", log1p: "logarithm1(a_)", sqrt: "root(a_)", abs: "abs(a_)", floor: "floor(a_)" };
var WHERE = "select(c_, b_, a_ != 0.0)";
var ODDS = "a_ / max(1.0 - a_, 0x1p-24f)";
var FUNCTIONS = (() => {
  const edge = (
    /* wgsl */
    `
// infinities and NaN by their bits, which no constant expression may hold
fn word(bits: u32) -> f32 { return bitcast<f32>(bits | (params.count & 0u)); }
${IS_NAN}`
  );
  const log = (
    /* wgsl */
    `${edge}
fn logarithm(x: f32) -> f32 {
  if (is_nan(x) || x < 0.0) { return word(0x7fc00000u); }
  if (x == 0.0) { return word(0xff800000u); }
  return log(x);
}`
  );
  const log1p = (
    /* wgsl */
    `${log}
fn logarithm1(x: f32) -> f32 {
  if (!(abs(x) < 0.5)) { return logarithm(1.0 + x); }
  let s = x / (2.0 + x); // log(1 + x) = 2 atanh(s), |s| <= 1/3
  let z = s * s;
  let tail = z * (1.0 / 3.0 + z * (0.2 + z * (1.0 / 7.0 + z * (1.0 / 9.0 + z * (1.0 / 11.0 + z * (1.0 / 13.0 + z * (1.0 / 15.0 + z / 17.0)))))));
  return 2.0 * s + 2.0 * s * tail;
}`
  );
  const sqrt = (
    /* wgsl */
    `${edge}
fn root(x: f32) -> f32 { if (x < 0.0) { return word(0x7fc00000u); } return sqrt(x); }`
  );
  return { log, log1p, sqrt };
})();

// src/threshold.ts
var value = new Float32Array(1);
var word = new Uint32Array(value.buffer);
function up(c2) {
  value[0] = c2;
  if (Number.isNaN(c2) || value[0] >= c2) return value[0];
  if (value[0] > 0) word[0]++;
  else if (word[0] === 2147483648 || word[0] === 0) word[0] = 1;
  else word[0]--;
  return value[0];
}
var down = (c2) => -up(-c2);
var aboveSubnormals = (x2) => x2 > 0 && x2 < 2 ** -126 ? 2 ** -126 : x2 < 0 && x2 > -(2 ** -126) ? 0 : x2;
var belowSubnormals = (x2) => -aboveSubnormals(-x2);
var isF32 = (c2) => Object.is(Math.fround(c2), c2);

// src/kernels/lengths.wgsl.ts
var lengths = {
  id: "lengths",
  inputs: { x: "bits" },
  ragged: ["x"],
  outputs: { output: "u32" },
  per: "element",
  source: (
    /* wgsl */
    `
fn run(index: u32) { output[index] = x_valid(index); }`
  )
};

// src/ops/ragged.ts
function lengthsFor(g, x2, rows) {
  const own = x2.lengths && g.own(x2.lengths);
  if (own?.shape[0] === rows) return own;
  const output = g.make([rows], "u32");
  g.run(lengths, { space: [rows, 1, 1], inputs: { x: x2 }, outputs: { output } });
  return output;
}
function raggedAs2(g, rows, ...tensors) {
  let best;
  for (const t of tensors) if (t?.lengths && (!best || t.lengths.shape[0] > best.lengths.shape[0])) best = t;
  return best && lengthsFor(g, best, rows);
}

// src/ops/elementwise.ts
var NAMES2 = ["a", "b", "c"];
function elementwiseOps(g) {
  const run = (at, operands, expression, functions) => {
    const own = operands.map((x2) => typeof x2 === "number" ? x2 : g.own(x2));
    const tensors = own.filter((x2) => typeof x2 !== "number");
    if (tensors.length === 0) throw new KvError(at, "expected at least one tensor, got numbers only");
    const rows = sharedRows(at, ...tensors);
    const space = [rows, ...[1, 2].map((axis) => Math.max(...tensors.map((t) => sizes(t)[axis])))];
    for (const t of tensors) for (const axis of [1, 2]) if (sizes(t)[axis] !== 1 && sizes(t)[axis] !== space[axis]) throw new KvError(at, `shapes ${tensors.map((x2) => `[${x2.shape}]`).join(" and ")} do not broadcast`);
    const output = g.make(space.slice(0, Math.max(...tensors.map((t) => t.shape.length))), "f32", raggedAs2(g, rows, ...tensors));
    const named = (keep, suffix) => Object.fromEntries(own.flatMap((x2, i) => keep(x2) ? [[`${NAMES2[i]}${suffix}`, x2]] : []));
    g.run(elementwise2(at, own.map((x2) => typeof x2 === "number" ? "number" : "tensor"), expression, functions), {
      space,
      outputs: { output },
      inputs: named((x2) => typeof x2 !== "number", ""),
      params: named((x2) => typeof x2 === "number", "_number")
    });
    return output;
  };
  const zip = (kind, a, b) => run(`ops.${kind}`, compared(kind, a, b), BINARY2[kind]);
  const map = (kind, x2) => run(`ops.${kind}`, [x2], UNARY2[kind], FUNCTIONS[kind]);
  return {
    map,
    zip,
    add: (a, b) => zip("add", a, b),
    sub: (a, b) => zip("sub", a, b),
    mul: (a, b) => zip("mul", a, b),
    div: (a, b) => zip("div", a, b),
    max: (a, b) => zip("max", a, b),
    min: (a, b) => zip("min", a, b),
    less: (a, b) => zip("less", a, b),
    atLeast: (a, b) => zip("atLeast", a, b),
    exp: (x2) => map("exp", x2),
    log: (x2) => map("log", x2),
    where: (mask, a, b) => run("ops.where", [mask, a, b], WHERE),
    odds: (h) => run("ops.odds", [h], ODDS),
    scale: (x2, by) => run("ops.scale", [x2, by], BINARY2.mul),
    fill: (like, value2) => fill(g, like.shape, value2, like.lengths && g.own(like.lengths))
  };
}
function fill(g, shape, value2, lengths2) {
  const output = g.make(shape, "f32", lengths2);
  g.run(elementwise2("ops.fill", ["number"], "a_"), { space: sizes(output), outputs: { output }, params: { a_number: value2 } });
  return output;
}
function compared(kind, a, b) {
  if (kind === "less" || kind === "atLeast") return [typeof a === "number" ? belowSubnormals(down(a)) : a, typeof b === "number" ? aboveSubnormals(up(b)) : b];
  if (kind !== "equal") return [a, b];
  const never = (x2) => typeof x2 === "number" && !isF32(x2) ? NaN : x2;
  return [never(a), never(b)];
}

// src/ops/kernel.ts
var kernelOp = (g, mul) => ({
  kernel(kernel, given, params = {}) {
    const names = Object.keys(kernel.inputs);
    const inputs = names.map((name) => {
      const x2 = given[name], want = kernel.inputs[name];
      if (!x2) throw new KvError(kernel.id, `expected the input '${name}', got ${Object.keys(given).join(", ") || "none"}`);
      if (want === "u32" && x2.dtype !== "u32") throw new KvError(kernel.id, `expected the input '${name}' as u32, got ${x2.dtype}`);
      return g.own(want === x2.dtype ? x2 : mul(x2, 1));
    });
    for (const name of Object.keys(kernel.params)) if (params[name] === void 0) throw new KvError(kernel.id, `expected the parameter '${name}', got ${Object.keys(params).join(", ") || "none"}`);
    const shape = kernel.output.shape(Object.fromEntries(names.map((name, i) => [name, inputs[i].shape])), params);
    const like = kernel.ragged === void 0 ? void 0 : inputs[names.indexOf(kernel.ragged)];
    const lengths2 = like && lengthsFor(g, like, sizes(like)[0]);
    const output = g.make(shape, kernel.output.dtype, like?.lengths && shape[0] === sizes(like)[0] ? lengths2 : void 0);
    const uniform = [
      kernel.per === "row" ? shape[0] ?? 1 : sizeOf(shape),
      ...inputs.flatMap((x2) => sizes(x2)),
      ...Object.entries(kernel.params).map(([name, type]) => bits(params[name], type))
    ];
    if (uniform.length > UNIFORM_BYTES / 4) throw new KvError(kernel.id, `has ${uniform.length} scalars, expected at most ${UNIFORM_BYTES / 4}`);
    g.runRaw(`piece:${kernel.id}:${kernel.wgsl}`, () => kernelShader(kernel), [...inputs, ...lengths2 ? [lengths2] : [], output], Uint32Array.from(uniform), sizeOf(shape) === 0 ? 0 : uniform[0]);
    return output;
  }
});
function kernelShader({ id, inputs, params, output, ragged, wgsl }) {
  const names = Object.keys(inputs), scalars2 = Object.entries(params);
  const arrays = [
    ...names.map((name) => [name, inputs[name], "read"]),
    ...ragged === void 0 ? [] : [[`${ragged}_lengths`, "u32", "read"]],
    ["output", output.dtype, "read_write"]
  ];
  const code = (
    /* wgsl */
    `
struct Host { count: u32, ${names.flatMap((name) => ["x", "y", "z"].map((axis) => `${name}_${axis}: u32, `)).join("")}${scalars2.map(([name, type]) => `${name}: ${type}, `).join("")} }
@group(1) @binding(0) var<uniform> host: Host;
${arrays.map(([name, type, access], i) => `@group(0) @binding(${i}) var<storage, ${access}> ${name}: array<${type}>;`).join("\n")}
${names.map((name) => `var<private> ${name}_shape: vec3<u32>;`).join("\n")}
${scalars2.length > 0 ? `struct Params { ${scalars2.map(([name, type]) => `${name}: ${type}`).join(", ")} }
var<private> params: Params;` : ""}
${wgsl}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) here: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let index = (here.y * groups.x + here.x) * ${THREADS}u + lane;
  if (index >= host.count) { return; }
  ${names.map((name) => `${name}_shape = vec3<u32>(host.${name}_x, host.${name}_y, host.${name}_z);`).join("\n  ")}
  ${scalars2.length > 0 ? `params = Params(${scalars2.map(([name]) => `host.${name}`).join(", ")});` : ""}
  run(index);
}`
  );
  return { id, code, writes: arrays.map(([, , access]) => access === "read_write") };
}

// src/kernels/first-bad.wgsl.ts
var ORDERED = (
  /* wgsl */
  `
fn ordered(bits: u32) -> u32 {
  if ((bits << 1u) == 0u) { return 0x80000000u; }
  return select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u);
}`
);
var firstBad2 = {
  id: "first-bad",
  inputs: { x: "bits" },
  ragged: ["x"],
  outputs: { output: "u32" },
  params: { lowest: "u32" },
  per: "group",
  source: (
    /* wgsl */
    `
${ORDERED}
var<workgroup> found: atomic<u32>;
fn run(group: u32, lane: u32) {
  if (lane == 0u) { atomicStore(&found, 0xffffffffu); }
  workgroupBarrier();
  let size = x_valid(group);
  for (var i = lane; i < size; i += ${THREADS}u) {
    let bits = x_at(group, i, 0u);
    if ((bits & 0x7f800000u) == 0x7f800000u || ordered(bits) < params.lowest) { atomicMin(&found, 1u + group * params.slots + i); break; }
  }
  workgroupBarrier();
  if (lane == 0u) { output[group] = atomicLoad(&found); }
}`
  )
};
var firstOf = {
  id: "first-of",
  inputs: { rows: "u32" },
  outputs: { output: "u32" },
  params: { size: "u32" },
  per: "element",
  source: (
    /* wgsl */
    `
fn run(index: u32) {
  var found = 0u;
  for (var i = 0u; i < params.size && found == 0u; i++) { let x = rows[i]; if (x != 0xffffffffu) { found = x; } }
  output[index] = found;
}`
  )
};

// src/kernels/rank.wgsl.ts
var LOCAL = { least: 512, most: 2048 };
var PAIRS = (
  /* wgsl */
  `
fn after(ka: u32, pa: u32, kb: u32, pb: u32) -> bool { return ka > kb || (ka == kb && pa > pb); }`
);
var rankPairs = {
  id: "rank-pairs",
  inputs: { x: "number" },
  ragged: ["x"],
  outputs: { keys: "u32", places: "u32" },
  params: { size: "u32", joint: "u32" },
  per: "element",
  source: (
    /* wgsl */
    `
${ORDERED}
fn run(index: u32) {
  let within = index % params.size;
  let row = select(index / params.size, within % params.rows, params.joint == 1u);
  let slot = select(within, within / params.rows, params.joint == 1u);
  var key = 0xffffffffu;
  if (slot < params.slots && slot < x_valid(row)) { key = min(~ordered(bitcast<u32>(x_at(row, slot, 0u))), 0xfffffffeu); }
  keys[index] = key;
  places[index] = within;
}`
  )
};
var rankStep = {
  id: "rank-step",
  inputs: {},
  outputs: { keys: "u32", places: "u32" },
  params: { size: "u32", block: "u32", gap: "u32" },
  per: "element",
  source: (
    /* wgsl */
    `
${PAIRS}
fn run(index: u32) {
  let a = index / params.gap * (2u * params.gap) + index % params.gap;
  let b = a + params.gap;
  let ka = keys[a]; let kb = keys[b]; let pa = places[a]; let pb = places[b];
  if (after(ka, pa, kb, pb) == (((a % params.size) & params.block) == 0u)) { keys[a] = kb; keys[b] = ka; places[a] = pb; places[b] = pa; }
}`
  )
};
var rankLocal = (near) => ({
  id: `rank-local:${near}`,
  inputs: {},
  outputs: { keys: "u32", places: "u32" },
  params: { size: "u32", first: "u32", last: "u32" },
  per: "group",
  source: (
    /* wgsl */
    `
${PAIRS}
var<workgroup> near_keys: array<u32, ${near}>;
var<workgroup> near_places: array<u32, ${near}>;
fn run(group: u32, lane: u32) {
  let from_ = group * ${near}u;
  for (var i = lane; i < ${near}u; i += ${THREADS}u) { near_keys[i] = keys[from_ + i]; near_places[i] = places[from_ + i]; }
  for (var block = params.first; block <= params.last; block *= 2u) {
    for (var gap = min(block / 2u, ${near / 2}u); gap > 0u; gap /= 2u) {
      workgroupBarrier();
      for (var i = lane; i < ${near / 2}u; i += ${THREADS}u) {
        let a = i / gap * (2u * gap) + i % gap;
        let b = a + gap;
        let ka = near_keys[a]; let kb = near_keys[b]; let pa = near_places[a]; let pb = near_places[b];
        if (after(ka, pa, kb, pb) == ((((from_ + a) % params.size) & block) == 0u)) { near_keys[a] = kb; near_keys[b] = ka; near_places[a] = pb; near_places[b] = pa; }
      }
    }
  }
  workgroupBarrier();
  for (var i = lane; i < ${near}u; i += ${THREADS}u) { keys[from_ + i] = near_keys[i]; places[from_ + i] = near_places[i]; }
}`
  )
});
var rankPlaces = {
  id: "rank-places",
  inputs: { keys: "u32", places: "u32" },
  outputs: { output: "f32" },
  params: { size: "u32", joint: "u32" },
  per: "element",
  source: (
    /* wgsl */
    `
fn run(index: u32) {
  let within = places[index];
  let row = select(index / params.size, within % params.rows, params.joint == 1u);
  let slot = select(within, within / params.rows, params.joint == 1u);
  if (slot < params.slots) { output[row * params.slots + slot] = select(f32(index % params.size), 0.0, keys[index] == 0xffffffffu); }
}`
  )
};

// src/ops/rank.ts
var rankOp = (g) => ({
  rank(tensor, over) {
    const x2 = g.own(tensor), [rows, slots] = sizes(x2), output = g.make(x2.shape, "f32", x2.lengths);
    const joint = over === "all" ? 1 : 0, segments = joint === 1 ? 1 : rows, entries = joint === 1 ? rows * slots : slots;
    if (rows * slots === 0) return output;
    const size = Math.max(LOCAL.least, 2 ** Math.ceil(Math.log2(entries))), near = Math.min(size, LOCAL.most), all = segments * size;
    const keys = g.make([all], "u32"), places = g.make([all], "u32"), outputs = { keys, places };
    const space = [rows, slots, 1];
    const local = (first, last) => g.run(rankLocal(near), { space, count: all / near, outputs, params: { size, first, last } });
    g.run(rankPairs, { space, count: all, inputs: { x: x2 }, outputs, params: { size, joint } });
    local(2, near);
    for (let block = 2 * near; block <= size; block *= 2) {
      for (let gap = block / 2; gap >= near; gap /= 2) g.run(rankStep, { space, count: all / 2, outputs, params: { size, block, gap } });
      local(block, block);
    }
    g.run(rankPlaces, { space, count: all, inputs: { keys, places }, outputs: { output }, params: { size, joint } });
    return output;
  }
});

// src/kernels/along-channels.wgsl.ts
var KINDS = {
  dot: ["a_get(from_a + c * params.a_slot_step) * y", "sum"],
  distance: ["(a_get(from_a + c * params.a_slot_step) - y) * (a_get(from_a + c * params.a_slot_step) - y)", "sqrt(sum)"],
  norm1: ["abs(y)", "sum"],
  norm2: ["y * y", "sqrt(sum)"]
};
var alongChannels2 = (kind) => ({
  id: `along-channels:${kind}`,
  inputs: { ...kind === "dot" || kind === "distance" ? { a: "number" } : {}, b: "number" },
  outputs: { output: "f32" },
  params: { size: "u32" },
  per: "element",
  source: (
    /* wgsl */
    `
fn run(index: u32) {
  let row = index / params.slots;
  let from_b = b_base(row) + index % params.slots * params.b_slot_step;
  ${kind === "dot" || kind === "distance" ? "let from_a = a_base(row);" : ""}
  var sum = 0.0;
  for (var c = 0u; c < params.size; c++) { let y = b_get(from_b + c * params.b_channel_step); sum += ${KINDS[kind][0]}; }
  output[index] = ${KINDS[kind][1]};
}`
  )
});

// src/kernels/matmul.wgsl.ts
var matmul2 = {
  id: "matmul",
  inputs: { a: "number", b: "number" },
  ragged: ["a", "b"],
  outputs: { output: "f32" },
  params: { limit: "u32" },
  per: "group",
  source: (
    /* wgsl */
    `
var<workgroup> parts: array<f32, 256>;
fn run(group: u32, lane: u32) {
  let tiles = (params.channels + 63u) / 64u;
  let row = group / tiles;
  let channel = group % tiles * 64u + lane % 64u;
  let size = min(min(a_valid(row), b_valid(row)), params.limit);
  var sum = 0.0;
  if (channel < params.channels) {
    let from_a = a_base(row);
    let from_b = b_base(row) + channel * params.b_channel_step;
    for (var start = lane / 64u * 32u; start < size; start += 128u) {
      var part = 0.0;
      for (var i = start; i < min(start + 32u, size); i++) { part += a_get(from_a + i * params.a_slot_step) * b_get(from_b + i * params.b_slot_step); }
      sum += part;
    }
  }
  parts[lane] = sum;
  workgroupBarrier();
  if (lane < 64u && channel < params.channels) {
    output[row * params.channels + channel] = (parts[lane] + parts[lane + 64u]) + (parts[lane + 128u] + parts[lane + 192u]);
  }
}`
  )
};

// src/kernels/normalise-rows.wgsl.ts
var normaliseRows2 = (softmax) => ({
  id: softmax ? "softmax" : "simplex",
  inputs: { x: "number" },
  ragged: ["x"],
  outputs: { output: "f32" },
  per: "group",
  source: (
    /* wgsl */
    `
${IS_NAN}
${tree("total", TREE.sum)}
${softmax ? tree("largest", TREE.max) : ""}
fn run(group: u32, lane: u32) {
  let size = x_valid(group);
  let from_ = x_base(group);
  ${softmax ? (
      /* wgsl */
      `var top = ${LOWEST2};
  for (var i = lane; i < size; i += ${THREADS}u) { let b = x_get(from_ + i * params.x_slot_step); let a = top; top = ${TREE.max}; }
  top = largest(lane, top);`
    ) : ""}
  var mine = 0.0;
  for (var i = lane; i < size; i += ${THREADS}u) { let x = x_get(from_ + i * params.x_slot_step); mine += ${softmax ? "exp(x - top)" : "x"}; }
  let mass = total(lane, mine);
  for (var i = lane; i < params.slots; i += ${THREADS}u) {
    var share = 0.0;
    if (i < size) {
      let x = x_get(from_ + i * params.x_slot_step);
      if (mass == 0.0) { share = 1.0 / f32(size); } else { share = ${softmax ? "exp(x - top)" : "x"} / mass; }
    }
    output[group * params.slots + i] = share;
  }
}`
  )
});

// src/ops/reduce.ts
function reduceOps(g) {
  const folded = (kind, x2, output, params) => {
    g.run(foldThread(kind), { space: sizes(output), inputs: { x: x2 }, outputs: { output }, params: { valid: 0, ...params } });
    return output;
  };
  const normalised = (softmax, tensor) => {
    const x2 = g.own(tensor), output = g.make(x2.shape, "f32", x2.lengths);
    g.run(normaliseRows2(softmax), { space: sizes(x2), count: sizes(x2)[0], inputs: { x: x2 }, outputs: { output } });
    return output;
  };
  const vectors = (at, kind, of, vectors2) => {
    const a = of && g.own(of), b = g.own(vectors2), [, slots, size] = sizes(b);
    if (a && (a.shape[1] ?? 1) !== size) throw new KvError(at, `expected ${size} channels, got shapes [${a.shape}] and [${b.shape}]`);
    const rows = sharedRows(at, a, b), output = g.make([rows, slots], "f32", raggedAs2(g, rows, b));
    g.run(alongChannels2(kind), { space: sizes(output), inputs: a ? { a, b } : { b }, outputs: { output }, params: { size } });
    return output;
  };
  return {
    reduce(kind, tensor, axis) {
      const x2 = g.own(tensor), [rows, slots, channels] = sizes(x2), wide = x2.shape.length === 3;
      if (axis === "rows") return folded(kind, x2, g.make([1, ...x2.shape.slice(1)], "f32", raggedAs2(g, 1, x2)), { size: rows, step: rows === 1 ? 0 : slots * channels, factor: 0 });
      if (axis === "channels") {
        if (!wide) throw new KvError("ops.reduce", `channels exist in tensors of rank 3, got shape [${x2.shape}]`);
        return folded(kind, x2, g.make([rows, slots], "f32", x2.lengths), { size: channels, step: 1, factor: 1 });
      }
      if (wide) return folded(kind, x2, g.make([rows, 1, channels]), { size: slots, step: slots === 1 ? 0 : channels, factor: 1, valid: 1 });
      const output = g.make([rows, 1]);
      g.run(foldSlots(kind), { space: [rows, 1, 1], inputs: { x: x2 }, outputs: { output } });
      return output;
    },
    groupRows(kind, tensor, rows) {
      const x2 = g.own(tensor), [all, slots] = sizes(x2);
      if (rows < 1 || all % rows !== 0) throw new KvError("ops.groupRows", `${all} rows cannot be grouped into ${rows}: expected a divisor`);
      return folded(kind, x2, g.make([rows, slots], "f32", raggedAs2(g, rows, x2)), { size: all / rows, step: all === 1 ? 0 : slots, factor: all / rows });
    },
    simplex: (x2) => normalised(false, x2),
    softmax: (x2) => normalised(true, x2),
    matmul(left, right) {
      const a = g.own(left), b = g.own(right), rows = sharedRows("ops.matmul", a, b), [, limit, channels] = sizes(b);
      const output = g.make([rows, channels]);
      g.run(matmul2, { space: [rows, 1, channels], count: rows * Math.ceil(channels / 64), inputs: { a, b }, outputs: { output }, params: { limit } });
      return output;
    },
    dot: (q, k) => vectors("ops.dot", "dot", q, k),
    distance: (o, v) => vectors("ops.distance", "distance", o, v),
    norm: (x2, p = 2) => vectors("ops.norm", p === 1 ? "norm1" : "norm2", void 0, x2)
  };
}

// src/kernels/group-slots.wgsl.ts
var groupSlots2 = (kind) => ({
  id: `group-slots:${kind}`,
  inputs: { x: "number", groups: "u32" },
  ragged: ["x", "groups"],
  outputs: { output: "f32" },
  params: { groups_count: "u32" },
  per: "group",
  source: (
    /* wgsl */
    `
var<workgroup> tile_groups: array<u32, ${THREADS}>;
var<workgroup> tile_values: array<f32, ${THREADS}>;
var<workgroup> hits: atomic<u32>;
var<workgroup> wanted: u32;
fn run(group: u32, lane: u32) {
  let tiles = (params.groups_count + ${THREADS - 1}u) / ${THREADS}u;
  let row = group / tiles;
  let first = group % tiles * ${THREADS}u;
  let mine = first + lane;
  let size = min(x_valid(row), groups_valid(row));
  let from_x = x_base(row);
  let from_g = groups_base(row);
  var holds = 0u;
  var all = ${kind === "max" ? LOWEST2 : "0.0"};
  for (var start = 0u; start < size; start += ${THREADS}u) {
    if (lane == 0u) { atomicStore(&hits, 0u); }
    workgroupBarrier();
    let slot = start + lane;
    var g = 0xffffffffu;
    if (slot < size) {
      g = groups[from_g + slot * params.groups_slot_step];
      tile_values[lane] = x_get(from_x + slot * params.x_slot_step);
      if (g >= first && g - first < ${THREADS}u) { atomicAdd(&hits, 1u); }
    }
    tile_groups[lane] = g;
    workgroupBarrier();
    if (lane == 0u) { wanted = atomicLoad(&hits); }
    if (workgroupUniformLoad(&wanted) > 0u) {
      for (var i = 0u; i < ${THREADS}u; i++) {
        if (tile_groups[i] == mine) { holds++; ${kind === "max" ? "all = max(all, tile_values[i]);" : "all += tile_values[i];"} }
      }
    }
    workgroupBarrier();
  }
  if (mine < params.groups_count) {
    var result = 0.0;
    if (holds > 0u) { result = ${kind === "mean" ? "all / f32(holds)" : "all"}; }
    output[row * params.groups_count + mine] = result;
  }
}`
  )
});

// src/kernels/last-slots.wgsl.ts
var lastSlots2 = {
  id: "last-slots",
  inputs: { like: "bits" },
  ragged: ["like"],
  outputs: { output: "f32" },
  params: { window: "u32" },
  per: "element",
  source: (
    /* wgsl */
    `
fn run(index: u32) {
  let slot = index % params.slots;
  let size = like_valid(index / params.slots);
  output[index] = select(0.0, 1.0, slot < size && slot + params.window >= size);
}`
  )
};

// src/kernels/mark.wgsl.ts
var mark2 = {
  id: "mark",
  inputs: { kept: "u32" },
  ragged: ["kept"],
  outputs: { output: "f32" },
  params: { size: "u32" },
  per: "element",
  source: (
    /* wgsl */
    `
fn run(index: u32) {
  let row = index / params.slots;
  let slot = index % params.slots;
  if (slot >= kept_valid(row)) { return; }
  let place = kept_at(row, slot, 0u);
  if (place < params.size) { output[row * params.size + place] = 1.0; }
}`
  )
};

// src/kernels/pool.wgsl.ts
var pool2 = (kind) => ({
  id: `pool:${kind}`,
  inputs: { x: "number" },
  ragged: ["x"],
  outputs: { output: "f32" },
  params: { half: "u32", except: "u32" },
  per: "element",
  source: (
    /* wgsl */
    `
fn run(index: u32) {
  let row = index / params.slots;
  let slot = index % params.slots;
  let size = x_valid(row);
  let end = size - min(size, params.except);
  var result = 0.0;
  if (slot >= end && slot < size) { result = x_at(row, slot, 0u); }
  if (slot < end) {
    let from_ = x_base(row);
    var all = ${kind === "max" ? LOWEST2 : "0.0"};
    for (var i = slot - min(slot, params.half); i < min(end, slot + params.half + 1u); i++) {
      let x = x_get(from_ + i * params.x_slot_step);
      ${kind === "max" ? "all = select(all, x, x > all);" : "all += x;"}
    }
    result = ${kind === "max" ? "all" : "all / f32(2u * params.half + 1u)"};
  }
  output[index] = result;
}`
  )
});

// src/kernels/select.wgsl.ts
var select2 = {
  id: "select",
  inputs: { scores: "bits", budgets: "number", forced: "number", banned: "number", enabled: "number" },
  ragged: ["scores"],
  outputs: { kept: "u32", counts: "u32" },
  per: "group",
  source: (
    /* wgsl */
    `
${ORDERED}
var<workgroup> bins: array<atomic<u32>, ${THREADS}>;
var<workgroup> scan: array<u32, ${THREADS}>;
var<workgroup> digit: u32;
var<workgroup> left: u32;

// 2 forced, 1 open, 0 out
fn state(row: u32, slot: u32) -> u32 {
  if (params.forced_rows > 0u && forced_at(row, slot, 0u) != 0.0) { return 2u; }
  if (params.banned_rows > 0u && banned_at(row, slot, 0u) != 0.0) { return 0u; }
  return 1u;
}
fn key(row: u32, slot: u32) -> u32 { return ordered(scores_at(row, slot, 0u)); }

// inclusive prefix sums of one number a thread: within sixteens by one thread each, then what stands before
fn prefix(lane: u32, mine: u32) -> u32 {
  workgroupBarrier();
  scan[lane] = mine;
  workgroupBarrier();
  if (lane % 16u == 0u) { for (var i = 1u; i < 16u; i++) { scan[lane + i] += scan[lane + i - 1u]; } }
  workgroupBarrier();
  var sum = scan[lane];
  for (var i = 15u; i < lane - lane % 16u; i += 16u) { sum += scan[i]; }
  return sum;
}
// the sum of all, after prefix
fn total() -> u32 {
  var sum = 0u;
  for (var i = 15u; i < ${THREADS}u; i += 16u) { sum += scan[i]; }
  return sum;
}

fn run(row: u32, lane: u32) {
  var size = scores_valid(row);
  if (params.enabled_rows > 0u && enabled_at(row, 0u, 0u) == 0.0) { size = 0u; }
  var forced_here = 0u;
  var open_here = 0u;
  for (var i = lane; i < size; i += ${THREADS}u) {
    let s = state(row, i);
    if (s == 2u) { forced_here++; } else { open_here += s; }
  }
  prefix(lane, forced_here);
  let musts = total();
  prefix(lane, open_here);
  let open = total();
  let budget = budgets_at(row, 0u, 0u);
  if (lane == 0u) {
    var most = 0u;
    if (budget >= 1.0) { most = u32(min(budget, 2147483648.0)); }
    left = min(most - min(most, musts), open);
  }
  let room = workgroupUniformLoad(&left); // uniform in the compiler's eyes too

  // border: the smallest kept key; ties: how many that have it are kept
  var border = 0u;
  var ties = room;
  if (room > 0u) {
    for (var shift = 24i; shift >= 0i; shift -= 8i) {
      atomicStore(&bins[lane], 0u);
      workgroupBarrier();
      for (var i = lane; i < size; i += ${THREADS}u) {
        let k = key(row, i);
        let above = select(k >> u32(shift + 8i), 0u, shift == 24i);
        let want = select(border >> u32(shift + 8i), 0u, shift == 24i);
        if (above == want && state(row, i) == 1u) { atomicAdd(&bins[(k >> u32(shift)) & 255u], 1u); }
      }
      workgroupBarrier();
      // bins from the highest: the one where the sum reaches what is left
      let bin = ${THREADS - 1}u - lane;
      let here = atomicLoad(&bins[bin]);
      let upto = prefix(lane, here);
      if (upto >= ties && upto - here < ties) { digit = bin; left = ties - (upto - here); }
      border |= workgroupUniformLoad(&digit) << u32(shift);
      ties = workgroupUniformLoad(&left);
    }
  }

  var written = 0u; // forced and above the border
  var equal = 0u; // at the border
  for (var start = 0u; start < size; start += ${THREADS}u) {
    let slot = start + lane;
    var mine = 0u; // 1: kept anyway; 65536: at the border
    if (slot < size) {
      let s = state(row, slot);
      if (s == 2u) { mine = 1u; }
      if (s == 1u && room > 0u) {
        let k = key(row, slot);
        if (k > border) { mine = 1u; } else if (k == border) { mine = 65536u; }
      }
    }
    let before = prefix(lane, mine) - mine;
    let equal_before = equal + (before >> 16u);
    if (mine == 1u || (mine == 65536u && equal_before < ties)) {
      kept[row * params.slots + written + (before & 65535u) + min(equal_before, ties)] = slot;
    }
    let all = total();
    written += all & 65535u;
    equal += all >> 16u;
  }
  let count = written + min(equal, ties);
  for (var i = count + lane; i < params.slots; i += ${THREADS}u) { kept[row * params.slots + i] = 0u; }
  if (lane == 0u) { counts[row] = count; }
}`
  )
};

// src/kernels/take.wgsl.ts
var take2 = {
  id: "take",
  inputs: { table: "bits", index: "u32" },
  ragged: ["index"],
  outputs: { output: "u32" },
  params: { size: "u32", bad: "u32" },
  per: "element",
  source: (
    /* wgsl */
    `
fn run(at: u32) {
  let slot = at / params.channels % params.slots;
  let row = at / (params.channels * params.slots);
  var result = 0u;
  if (slot < index_valid(row)) {
    let place = index_at(row, slot, 0u);
    if (place < params.size) { result = table_at(row, place, at % params.channels); } else { result = params.bad; }
  }
  output[at] = result;
}`
  )
};

// src/ops/slots.ts
function slotOps(g) {
  return {
    pool(tensor, { kernel, kind, except = 0 }) {
      if (!Number.isInteger(kernel) || kernel < 1 || kernel % 2 === 0) throw new KvError("ops.pool", `kernel must be an odd whole number, got ${kernel}`);
      const x2 = g.own(tensor), output = g.make(x2.shape, "f32", x2.lengths);
      g.run(pool2(kind), { space: sizes(x2), inputs: { x: x2 }, outputs: { output }, params: { half: (kernel - 1) / 2, except } });
      return output;
    },
    lastSlots(tensor, window) {
      const like = g.own(tensor), [rows, slots] = sizes(like), output = g.make([rows, slots], "f32", like.lengths);
      g.run(lastSlots2, { space: sizes(output), inputs: { like }, outputs: { output }, params: { window: Math.max(0, window) } });
      return output;
    },
    take(from, places) {
      const table = g.own(from), index = g.own(places), rows = sharedRows("ops.take", table, index);
      const [, size, channels] = sizes(table), [, slots] = sizes(index);
      const output = g.make(table.shape.length === 3 ? [rows, slots, channels] : [rows, slots], table.dtype, raggedAs2(g, rows, index));
      g.run(take2, { space: sizes(output), inputs: { table, index }, outputs: { output }, params: { size, bad: table.dtype === "u32" ? 4294967295 : 2143289344 } });
      return output;
    },
    groupSlots(kind, values, of, count) {
      const x2 = g.own(values), groups = g.own(of), rows = sharedRows("ops.groupSlots", x2, groups), output = g.make([rows, count]);
      g.run(groupSlots2(kind), { space: [rows, sizes(groups)[1], 1], count: rows * Math.ceil(count / 256), inputs: { x: x2, groups }, outputs: { output }, params: { groups_count: count } });
      return output;
    },
    select(of, slotsToKeep, masks = {}) {
      const own = (x2) => x2 ? g.own(x2) : void 0;
      const scores = g.own(of), budgets = g.own(slotsToKeep), forced = own(masks.forced), banned = own(masks.banned), enabled = own(masks.active);
      const rows = sharedRows("ops.select", scores, budgets, forced, banned), [, slots] = sizes(scores);
      const lengths2 = raggedAs2(g, rows, scores, forced, banned);
      const counts = g.make([rows], "u32"), kept = g.make([rows, slots], "u32", counts);
      g.run(select2, {
        space: [rows, slots, 1],
        count: rows,
        outputs: { kept, counts },
        inputs: { scores: lengths2 ? { ...scores, lengths: lengths2 } : scores, budgets, forced, banned, enabled }
      });
      return kept;
    },
    mark(slots, tensor) {
      const kept = g.own(slots), like = g.own(tensor), rows = sharedRows("ops.mark", kept, like), [, size] = sizes(like);
      const output = fill(g, [rows, size], 0, raggedAs2(g, rows, like));
      g.run(mark2, { space: [rows, sizes(kept)[1], 1], inputs: { kept }, outputs: { output }, params: { size } });
      return output;
    },
    firstBad(tensor, atLeast = LOWEST) {
      const x2 = g.own(tensor), [rows] = sizes(x2), found = g.make([rows], "u32"), output = g.make([1], "u32");
      g.run(firstBad2, { space: sizes(x2), count: rows, inputs: { x: x2 }, outputs: { output: found }, params: { lowest: ordered(up(atLeast)) } });
      g.run(firstOf, { space: [1, 1, 1], inputs: { rows: found }, outputs: { output }, params: { size: rows } });
      return output;
    }
  };
}
function ordered(x2) {
  const word2 = x2 === 0 ? 0 : bits(x2, "f32");
  return (word2 >>> 31 === 1 ? ~word2 : word2 | 2147483648) >>> 0;
}

// src/gpu-ops.ts
function gpuOps(g) {
  const elementwise3 = elementwiseOps(g);
  return {
    ...elementwise3,
    ...reduceOps(g),
    ...slotOps(g),
    ...rankOp(g),
    ...kernelOp(g, elementwise3.mul),
    from(array, dtype, lengths2) {
      const { data, shape } = readCpu(cpu.ops.from(array, dtype));
      return g.upload(data, shape, lengths2 && g.own(lengths2));
    },
    reshape(x2, shape) {
      if (sizeOf(shape) !== sizeOf(x2.shape)) throw new KvError("ops.reshape", `[${x2.shape}] has ${sizeOf(x2.shape)} elements, [${shape}] ${sizeOf(shape)}`);
      const { memory, dtype } = g.own(x2);
      return { shape, dtype, memory };
    }
  };
}

// src/memory.ts
var USAGE = { storage: 128 | 8 | 4, uniform: 64 | 8, read: 1 | 8 };
function sizeClass(bytes) {
  const power = 2 ** Math.ceil(Math.log2(Math.max(256, bytes)));
  const step = power > 65536 ? power / 16 : power;
  return Math.ceil(bytes / step) * step || step;
}
function bufferPool(device, idleBytes, beforeDestroy) {
  const idle = [];
  const all = /* @__PURE__ */ new Set();
  const ledger = { live: 0, allocated: 0, peak: 0, buffers: 0 };
  let waiting = 0;
  const drop = (memory) => {
    memory.buffer.destroy();
    all.delete(memory.buffer);
    ledger.allocated -= memory.bytes;
    ledger.buffers--;
  };
  const pool3 = {
    ledger,
    take(wanted, kind = "storage") {
      const bytes = sizeClass(wanted);
      const found = idle.findLastIndex((m) => m.bytes === bytes && m.kind === kind);
      ledger.live += bytes;
      if (found >= 0) {
        const [memory] = idle.splice(found, 1);
        waiting -= bytes;
        return { ...memory, alive: true };
      }
      const buffer = device.createBuffer({ size: bytes, usage: USAGE[kind] });
      all.add(buffer);
      ledger.allocated += bytes;
      ledger.buffers++;
      ledger.peak = Math.max(ledger.peak, ledger.allocated);
      return { buffer, bytes, kind, pool: pool3, alive: true, use: { batch: -1 } };
    },
    give(memory) {
      if (!memory.alive) return;
      memory.alive = false;
      ledger.live -= memory.bytes;
      idle.push(memory);
      waiting += memory.bytes;
      if (waiting > idleBytes) beforeDestroy();
      while (waiting > idleBytes) {
        const oldest = idle.shift();
        waiting -= oldest.bytes;
        drop(oldest);
      }
    },
    destroy() {
      for (const buffer of all) buffer.destroy();
      all.clear();
      idle.length = 0;
      Object.assign(ledger, { live: 0, allocated: 0, buffers: 0 });
    }
  };
  return pool3;
}

// src/pipelines.ts
var COMPUTE = 4;
function pipelineCache(device, uniformBytes) {
  const uniform = device.createBindGroupLayout({ entries: [{ binding: 0, visibility: COMPUTE, buffer: { type: "uniform", hasDynamicOffset: true, minBindingSize: uniformBytes } }] });
  const cache = /* @__PURE__ */ new Map();
  let pending = [];
  const build = ({ id, code, writes }) => {
    const most = device.limits.maxStorageBuffersPerShaderStage;
    if (writes.length > most) throw new KvError(id, `binds ${writes.length} buffers, expected at most ${most}`);
    const module = device.createShaderModule({ label: id, code });
    pending.push({ id, info: module.getCompilationInfo() });
    const layout = device.createBindGroupLayout({
      label: id,
      entries: writes.map((write, binding) => ({ binding, visibility: COMPUTE, buffer: { type: write ? "storage" : "read-only-storage" } }))
    });
    const pipeline = device.createComputePipeline({ label: id, layout: device.createPipelineLayout({ bindGroupLayouts: [layout, uniform] }), compute: { module, entryPoint: "main" } });
    return { pipeline, layout };
  };
  return {
    uniform,
    get(key, make) {
      let found = cache.get(key);
      if (!found) cache.set(key, found = build(make()));
      return found;
    },
    async compiled() {
      const now = pending;
      pending = [];
      for (const { id, info } of now) {
        const error = (await info).messages.find((m) => m.type === "error");
        if (error) throw new KvError(id, `its WGSL does not compile, line ${error.lineNum}: ${error.message}`);
      }
    }
  };
}

// src/reader.ts
async function read(tensors, own, { pool: pool3, pipelines, recorder: recorder2, fault }) {
  const places = /* @__PURE__ */ new Map();
  let end = 0;
  const place = (x2) => {
    const bytes = 4 * sizeOf(x2.shape);
    if (places.has(x2.memory)) return;
    places.set(x2.memory, [end, bytes]);
    end += bytes;
  };
  const all = tensors.map(own);
  for (const x2 of all) for (const y of [x2, ...x2.lengths ? [own(x2.lengths)] : []]) place(y);
  const staging = pool3.take(end, "read");
  try {
    for (const [memory, [offset, bytes]] of places) if (bytes > 0) recorder2.copy(memory, staging, offset, bytes);
    recorder2.submit();
    recorder2.counters.readbacks++;
    await pipelines.compiled();
    await mapped(staging.buffer, fault);
    const copy = staging.buffer.getMappedRange().slice(0);
    staging.buffer.unmap();
    if (fault.error) throw fault.error;
    const numbers = ({ memory, dtype, shape }) => new (dtype === "u32" ? Uint32Array : Float32Array)(copy, places.get(memory)[0], sizeOf(shape));
    return all.map((x2) => ({ data: numbers(x2), shape: x2.shape, lengths: x2.lengths && numbers(x2.lengths) }));
  } finally {
    pool3.give(staging);
  }
}
async function mapped(buffer, fault) {
  try {
    await buffer.mapAsync(
      1
      /* GPUMapMode.READ */
    );
  } catch (cause) {
    await new Promise((resolve) => setTimeout(resolve, 0));
    throw fault.error ?? new KvError("gpu", `reading back failed: ${cause instanceof Error ? cause.message : String(cause)}`);
  }
}

// src/gpu.ts
function createGpu({ name, device, owned, instance, idleBytes }) {
  const fault = { error: void 0 };
  const onError = ({ error }) => {
    fault.error ??= new KvError("gpu", error.message);
  };
  device.addEventListener("uncapturederror", onError);
  let destroyed = false;
  void device.lost.then(({ message }) => {
    if (!destroyed) fault.error ??= new KvError("gpu", `the device was lost (${message}): open another one; what was on it is gone`);
  });
  const pipelines = pipelineCache(device, UNIFORM_BYTES);
  const record = recorder(device, () => pool3, pipelines);
  const pool3 = bufferPool(device, idleBytes, () => record.submit());
  const shared = { pool: pool3, pipelines, recorder: record, fault };
  const open = () => {
    const memories = /* @__PURE__ */ new Set();
    const g = recording(pool3, pipelines, record, memories);
    const end = () => {
      for (const memory of memories) pool3.give(memory);
      memories.clear();
    };
    return { memories, end, backend: { name, ops: gpuOps(g), read: (tensors) => read(tensors, g.own, shared) } };
  };
  const root = open();
  return {
    ...root.backend,
    device,
    instance,
    ledger: pool3.ledger,
    counters: record.counters,
    async scope(run) {
      const { backend, memories, end } = open();
      const keep = (tensor) => {
        const { memory } = tensor;
        if (memory && memories.delete(memory)) root.memories.add(memory);
        if (tensor.lengths) keep(tensor.lengths);
      };
      try {
        return await run({ ...backend, keep });
      } finally {
        end();
      }
    },
    release: root.end,
    destroy() {
      if (destroyed) return;
      destroyed = true;
      root.end();
      device.removeEventListener("uncapturederror", onError);
      pool3.destroy();
      device.queue.submit([]);
      if (owned) device.destroy();
      fault.error ??= new KvError("gpu", "the backend was destroyed, expected one that is open");
    }
  };
}

// src/open.ts
var MISSING = "no WebGPU adapter was found: install a Vulkan driver for the GPU, or SwiftShader (it comes with Chromium) and point VK_ICD_FILENAMES to its vk_swiftshader_icd.json";
async function openGpu({ instance, adapter, device, idleBytes = 2 ** 28 } = {}) {
  if (device) return createGpu({ name: nameOf(device.adapterInfo), device, owned: false, instance, idleBytes });
  const gpu2 = instance ?? (adapter ? void 0 : await findInstance());
  const found = adapter ?? await gpu2.requestAdapter({ powerPreference: "high-performance" });
  if (!found) throw new KvError("gpu", MISSING);
  const { maxBufferSize, maxStorageBufferBindingSize } = found.limits;
  const opened = await found.requestDevice({ requiredLimits: { maxBufferSize, maxStorageBufferBindingSize } });
  return createGpu({ name: nameOf(found.info), device: opened, owned: true, instance: gpu2, idleBytes });
}
var nameOf = ({ description, vendor, architecture }) => description || [vendor, architecture].filter(Boolean).join(" ") || "webgpu";
async function findInstance() {
  const here = globalThis.navigator?.gpu;
  if (here) return here;
  try {
    const { create } = await import("webgpu");
    return create([]);
  } catch (cause) {
    throw new KvError("gpu", `there is no navigator.gpu, and the npm package 'webgpu' did not load (${cause instanceof Error ? cause.message.split("\n")[0] : String(cause)}): install it, or open this in a browser with WebGPU`);
  }
}

// prof.tmp.ts
var gpu = await openGpu();
var time = async (name, f, reps = 5) => {
  for (let i = 0; i < reps; i++) {
    const t = performance.now();
    const c2 = process.cpuUsage();
    await gpu.scope(({ ops, read: read2 }) => read2([f(ops)]));
    const d = process.cpuUsage(c2);
    console.log(name, (performance.now() - t).toFixed(1), "cpu", ((d.user + d.system) / 1e3).toFixed(0));
  }
};
var x = (ops, r, n) => ops.from({ data: Float32Array.from({ length: r * n }, Math.random), shape: [r, n] });
await time("rank 3x512", (ops) => ops.rank(x(ops, 3, 512), "row"));
await time("rank 3x700", (ops) => ops.rank(x(ops, 3, 700), "row"));
await time("rank 1x131072", (ops) => ops.rank(x(ops, 1, 131072), "row"), 2);
await time("select 3x700", (ops) => ops.select(x(ops, 3, 700), ops.from({ data: [100], shape: [1, 1] })));
await time("softmax 3x700", (ops) => ops.softmax(x(ops, 3, 700)));
await time("add 3x700", (ops) => ops.add(x(ops, 3, 700), 1));
await time("firstBad 3x700", (ops) => ops.firstBad(x(ops, 3, 700)));
gpu.destroy();
