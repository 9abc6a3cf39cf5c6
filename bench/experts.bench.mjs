/**
 * What follows a layer's attention, with routed experts against a dense feed-forward layer as wide as the active ones
 * together: random Q4_0 in the widths of LFM2-8B-A1B, 4 of 32 experts of 1,792 in one layer, and 8 dense layers of 7,168,
 * as many bytes, in turn. A token, and a block of 256; each ratio is of one pass of either, measured in turns.
 *
 *   npm run bench experts        or, once built:   node bench/experts.bench.mjs --turns 15 --threads 1
 */
import { onlyAttention } from '@kv/checkpoints';
import { cpuRuntime } from '@kv/models';
import { commandLine } from './lib/command-line.mjs';
import { spread } from './lib/spread.mjs';
import { table } from './lib/table.mjs';

const { turns, threads } = commandLine({ turns: 15, threads: 1 }),
  hidden = 2048,
  width = 1792,
  count = 32,
  active = 4,
  layers = count / active;
let seed = 1;
const next = () => (seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0);

/** Random Q4_0: a scale of 2^-7, then 16 bytes of nibbles. */
function matrix(outputs, inputs) {
  const words = new Uint32Array(Math.ceil((outputs * inputs * 18) / 32 / 4)).map(next),
    bytes = new Uint8Array(words.buffer, 0, (outputs * inputs * 18) / 32);
  for (let at = 0; at < bytes.length; at += 18) bytes.set([0x00, 0x20], at);
  return { outputs, inputs, parts: [{ type: 'Q4_0', rows: outputs, bytes }] };
}
const numbers = (n) => Float32Array.from({ length: n }, () => next() / 2 ** 31 - 1),
  ones = new Float32Array(hidden).fill(1),
  router = { outputs: count, inputs: hidden, parts: [] };

async function decoder(depth, feed, experts) {
  const config = {
    ...{ architecture: 'llama', layers: depth, mixers: onlyAttention(depth), queryHeads: 1, kvHeads: 1, headDim: 64 },
    ...{ hidden, ffn: active * width, vocab: 64, ropes: Array(depth).fill({ theta: 1e4, rotary: 64 }) },
    attention: { scale: 0.125, windows: Array(depth).fill(Infinity) },
    ...{ biases: { qkv: false, output: false, ffn: false }, activation: 'silu', normEps: 1e-5, embeddingScale: 1 },
    ...{ maxPositions: 4096, tied: true, eosIds: [], ...(experts && { experts }) },
  };
  const weights = {
    embed: async () => matrix(64, hidden),
    project: async () => ({ norm: ones, qkv: matrix(192, hidden) }),
    finish: async () => ({ output: matrix(hidden, 64), norm: ones, ...feed() }),
    norm: async () => ones,
  };
  return (await cpuRuntime({ threads }).start({ config, weights })).decoder;
}

const dense = await decoder(layers, () => ({
  gateUp: matrix(2 * active * width, hidden),
  down: matrix(hidden, active * width),
}));
const routing = { active, scores: 'softmax', normalised: true, scale: 1 },
  routed = await decoder(
    1,
    () => ({
      experts: {
        router: {
          ...router,
          parts: [{ type: 'F32', rows: count, bytes: new Uint8Array(numbers(count * hidden).buffer) }],
        },
        gateUp: matrix(count * 2 * width, hidden),
        down: matrix(count * hidden, width),
      },
    }),
    { count, width, layers: [true], routing, selectionBias: false, bias: false, activation: 'silu' },
  );

async function time(of, layer, m) {
  const [x, attended] = [numbers(m * hidden), numbers(m * 64)],
    started = performance.now();
  await of.finish(layer, x, attended);
  return performance.now() - started;
}

const lines = [['rows', 'dense, ms', 'experts, ms', 'experts / dense']];
for (const m of [1, 256]) {
  const [one, other] = [[], []];
  // a block's layer takes so long that it need not be out of the processor's caches
  const passes = m === 1 ? layers : 1;
  for (let turn = -1; turn < (m === 1 ? turns : Math.ceil(turns / 3)); turn++) {
    let [a, b] = [0, 0];
    // as many tokens of either; every layer is another in memory
    for (let l = 0; l < passes; l++) {
      a += await time(dense, l, m);
      b += await time(routed, 0, m);
    }
    if (turn < 0) continue;
    one.push(a / passes);
    other.push(b / passes);
  }
  lines.push([m, spread(one), spread(other), spread(one.map((t, i) => other[i] / t))]);
}
console.log(table(lines));
