import { openGpu } from '@kv/gpu';
import { gpuRuntime } from '@kv/engine-webgpu';
import { decode, Sequence } from '@kv/models';
import { policy } from '@kv/policies';
import { median } from '../lib/spread.mjs';
import { done } from './clock.mjs';
import { randomModel, sizesOf, weightBytes } from './shapes.mjs';

/** Tokens of a block of prefill, and the number of blocks after which to wait for the device and check the time. */
const BLOCK = 512,
  TOGETHER = 4;
/**
 * Policies that are run on a shape: the full cache, a window's scores, recency alone, running sums with an event every
 * 16 tokens, and views, which evict nothing.
 */
const POLICIES = {
  full: {},
  snapkv: { policy: () => policy('snapkv', { window: 32 }) },
  streaming: { policy: () => policy('streaming'), every: 16 },
  h2o: { policy: () => policy('h2o'), every: 16 },
  psaw: { policy: () => policy('psaw', { phi: 0.5 }), hides: true },
  quest: { policy: () => policy('quest', { slots: 512 }), hides: true },
  doubleSparsity: { policy: () => policy('doubleSparsity', { slots: 512 }), hides: true },
};
const VIEWS = Object.keys(POLICIES).filter((name) => POLICIES[name].hides);

/** Every case (shape, weight format, policy, budget), the most valuable first. */
export function casesOf({ names, types, budgets, f16 }) {
  const all = [];
  for (const shape of names)
    for (const type of types) {
      const plain = { shape, type, half: f16 };
      all.push({ ...plain, policy: 'full' }, ...budgets.map((budget) => ({ ...plain, policy: 'snapkv', budget })));
      if (type !== types[0]) continue;
      all.push(...VIEWS.map((policy) => ({ ...plain, policy })));
      all.push(...['streaming', 'h2o'].flatMap((policy) => budgets.map((budget) => ({ ...plain, policy, budget }))));
      if (f16) all.push({ ...plain, half: false, policy: 'full' });
    }
  return all.map((one) => ({
    ...one,
    name: `${one.shape} ${one.type}${one.half ? ' half' : ''} ${one.policy}${one.budget === undefined ? '' : ` ${one.budget}`}`,
  }));
}

/**
 * Returns the bytes that a case holds on the device: weights, f32 keys and values with a quarter of spare room, and the
 * activations between two layers of a block.
 */
export function bytesOf({ type, budget }, shape, length) {
  const { layers, G, H, d, D, ffn, vocab } = sizesOf(shape),
    slots = budget === undefined ? length : budget + BLOCK;
  return (
    weightBytes(shape, type).all +
    1.25 * layers * slots * G * 4 * (2 * d + 1) +
    4 * BLOCK * (3 * D + 3 * ffn + (H + 2 * G) * d * 2) +
    4 * vocab
  );
}

/**
 * Opens a model of random weights on a device of its own, so that one model's error does not affect the next; `end`
 * frees both.
 */
export async function openModel(shape, { type, half }) {
  const gpu = await openGpu();
  try {
    const started = performance.now(),
      before = gpu.ledger.live,
      model = await randomModel(shape, type, gpuRuntime(gpu, { half }));
    await done(gpu);
    return {
      gpu,
      model,
      loadMs: performance.now() - started,
      bytes: gpu.ledger.live - before,
      end: () => {
        model.destroy();
        gpu.destroy();
      },
    };
  } catch (error) {
    gpu.destroy();
    throw error;
  }
}

/**
 * Runs one case: prompt and answers in turns over one sequence, so that the prefill of 1K tokens is the beginning of
 * 8K. Returns for each length the milliseconds of prefill up to it, and of `tokens` decoded there. Stops once `seconds`
 * have passed, and says where.
 */
export async function runCase(
  { gpu, model },
  { type, policy: of, budget },
  shape,
  { lengths, tokens, seconds, block = BLOCK, inFlight },
) {
  const { policy: make, every, hides } = POLICIES[of],
    policy = make?.(),
    points = [],
    started = performance.now(),
    late = () => (performance.now() - started) / 1000 > seconds;
  const { layers, G, d } = sizesOf(shape),
    { step } = weightBytes(shape, type);
  let sequence = new Sequence(model),
    prefillMs = 0,
    prefillTokens = 0,
    stopped;
  try {
    if ((await fill(2 * block)) === undefined) await answer(2); // compiles every kernel
    sequence.destroy();
    [sequence, prefillMs, prefillTokens] = [new Sequence(model), 0, 0];
    for (const length of lengths) {
      stopped = await fill(length);
      if (stopped !== undefined) break;
      points.push({ length, prefillMs, prefillTokens, ...(await answer(tokens)) });
      if (late()) {
        if (length !== lengths.at(-1)) stopped = { seconds, tokens: sequence.progress.length };
        break;
      }
    }
  } finally {
    sequence.destroy();
  }
  return { points, ...(stopped && { stopped }) };

  /** Feeds ids up to `length` tokens. */
  async function fill(length) {
    for (let blocks = 0; sequence.progress.length < length; blocks++) {
      const before = performance.now(),
        ids = Array.from(
          { length: Math.min(block, length - sequence.progress.length) },
          (_, i) => (7919 * (sequence.progress.length + i)) % model.config.vocab,
        ),
        last = sequence.progress.length + ids.length === length;
      await sequence.prefill(ids, { ...(policy && { policy, budget }), rows: last ? 1 : 0 });
      const out = !last && late();
      if (last || out || blocks % TOGETHER === TOGETHER - 1) await done(gpu);
      prefillMs += performance.now() - before;
      prefillTokens += ids.length;
      if (out) return { seconds, tokens: sequence.progress.length, prefillMs };
    }
    return undefined;
  }

  /**
   * Decodes with four uncounted tokens before and after, so that the same number of steps is in flight at both ends.
   */
  async function answer(tokens) {
    const warm = 4,
      last = warm + tokens,
      at = [],
      counted = [];
    for await (const _ of decode(sequence, {
      maxNewTokens: last + 1 + warm,
      every,
      stopAtEos: false,
      ...(inFlight !== undefined && { inFlight }),
    })) {
      const { user, system } = process.cpuUsage();
      at.push(performance.now());
      counted.push({ ...gpu.counters, cpuMs: (user + system) / 1000 });
    }
    const gaps = Array.from({ length: tokens }, (_, i) => at[warm + i + 1] - at[warm + i]),
      per = (key) => (counted[last][key] - counted[warm][key]) / tokens;
    const slots =
        sequence
          .kept()
          .flat()
          .reduce((n, row) => n + row.length, 0) /
        (layers * G),
      cacheBytes = layers * G * slots * 4 * (2 * d + 1);
    return {
      decodeMs: (at[last] - at[warm]) / tokens,
      medianMs: median(gaps),
      cpuMs: per('cpuMs'),
      slots,
      trafficBytes: hides ? per('bytes') : step + cacheBytes,
      dispatches: per('dispatches'),
      submits: per('submits'),
      readbacks: per('readbacks'),
      boundBytes: per('bytes'),
      liveBytes: gpu.ledger.live,
    };
  }
}
