import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { BatchBarrier, BatchSlot } from '@kv/engine';
import type { BatchGroup, Decoder, FeedOptions, Output } from '@kv/engine';
import type { DeviceRunnable } from '../engine.ts';
import { FEW_ROWS } from '../linear.ts';
import { encodeEmbedding, encodeSlots } from '../operations.ts';
import { carriedWidths, carry } from './carry.ts';
import type { DeviceState } from './device-state.ts';
import { finishRows } from './finish-rows.ts';
import { noOutput, outputAt } from './output.ts';
import { gateOutputs } from './output-gate.ts';
import { anglesOf, chunkOf, recordLayerInputs, type TokenChunk } from './token-chunk.ts';
import { attentionIn, devicePass } from './pass.ts';
import type { ViewChecks } from './hidden-slots.ts';

/** One sequence's token in a batch. */
interface BatchRequest {
  readonly caches: DeviceState;
  readonly id: number;
  readonly options: Omit<FeedOptions, 'evict'>;
  done(output: Output): void;
  fail(cause: unknown): void;
}

/** One sequence's membership in a batch of tokens. */
export class DeviceBatchSlot extends BatchSlot<BatchRequest> {
  /** Records a token through every layer once the others of the batch have been submitted. */
  pass(caches: DeviceState, id: number, options: BatchRequest['options']): Promise<Output> {
    return new Promise((done, fail) => this.barrier.submit({ caches, id, options, done, fail }));
  }
}

const groups = new WeakMap<Decoder<DeviceRunnable>, BatchGroup>();

/** The batch group of all sequences over this decoder. */
export function groupOf(decoder: Decoder<DeviceRunnable>): BatchGroup {
  const known = groups.get(decoder);
  if (known) return known;
  const group: BatchGroup = {
    key: decoder,
    open(count) {
      const barrier = new BatchBarrier<BatchRequest>(count, (requests) => void passAll(requests));
      return Array.from({ length: count }, () => new DeviceBatchSlot(barrier));
    },
  };
  groups.set(decoder, group);
  return group;
}

/** Passes at most `FEW_ROWS` at a time: those rows are computed by the kernel of a single row. */
async function passAll(requests: readonly BatchRequest[]): Promise<void> {
  for (let at = 0; at < requests.length; at += FEW_ROWS) {
    const some = requests.slice(at, at + FEW_ROWS);
    try {
      const [{ caches, id, options, done }] = some;
      if (some.length === 1) done(await devicePass(caches, [id], options));
      else await passTogether(some);
    } catch (cause) {
      for (const request of some) request.fail(cause);
    }
  }
}

/**
 * Records one token each of several sequences: products take the rows of all of them, and each attends over its own
 * cache, with its own views and sums. One that fails leaves the others.
 */
async function passTogether(requests: readonly BatchRequest[]): Promise<void> {
  const [{ caches: first }] = requests,
    { decoder, context } = first,
    { config } = context.model,
    m = requests.length,
    scope = first.open(),
    { commands } = scope,
    going = new Map(requests.map((request, r) => [request, r])),
    checks = requests.map((): ViewChecks[number][] => []);
  /** Runs a step for each member that has not failed; one that fails leaves the batch. */
  const each = async (run: (request: BatchRequest, r: number) => Promise<void> | void): Promise<void> => {
    for (const [request, r] of going)
      try {
        await run(request, r);
      } catch (cause) {
        going.delete(request);
        request.fail(cause);
      }
  };
  try {
    const ids = commands.upload(
        Uint32Array.from(requests, ({ id }) => id),
        [m],
      ),
      matrix = decoder.head.matrix(decoder.embedding!); // the device's programs give no rows back, so the decoder has it
    let { tensor: x } = encodeEmbedding(commands, ids, m, matrix, config.embeddingScale);
    const tokens = requests.map(({ id }) => id),
      layerInputs = await recordLayerInputs(decoder, commands, tokens, x);
    const parts = requests.map(
        ({ caches }): TokenChunk => chunkOf(caches, commands, Uint32Array.of(caches.context.progress.length), x),
      ),
      angles = anglesOf(
        requests.map(({ caches }, r) => [caches, parts[r].rotations]),
        commands,
      );
    for (const { caches, id } of requests) caches.context.progress.text.push(id);
    for (const [index, layer] of decoder.layers.entries()) {
      const all = layer.project.encode(commands, [x], m, angles(index)),
        { kind, at: l, reader } = first.kept.all[index],
        [queries, ...others] = all,
        keysValues = kind === 'slots' ? others.slice(0, 2) : [],
        gate = others.at(keysValues.length) as Tensor | undefined,
        width = kind === 'state' ? carriedWidths(layer).given : queries.shape[0] * queries.shape[2],
        attended = commands.make([1, m, width]);
      if (kind === 'state')
        await each(async ({ caches, options }, r) => {
          await caches.context.guard.between(options);
          const own = carry(caches, commands, index, all[0], 1, { first: r });
          encodeSlots(commands, { ...own, shape: [1, 1, width] }, attended, 1, 0, r);
          commands.free(own);
        });
      else
        await each(async ({ caches, options }, r) => {
          await caches.context.guard.between(options);
          const { cache, ring } = caches.layers[l],
            { positions, at, rotations } = parts[r],
            [q, ...added] = [queries, ...keysValues].map((heads) => rowOf(commands, heads, r)),
            [k, v] = added;
          if (kind === 'slots') {
            cache.grow(1);
            cache.append(k, v, positions, at, rotations);
          }
          ring?.push(q, at, rotations, reader);
          const own = attentionIn(caches, scope, index, { ...options, checks: checks[r] })(parts[r], q, true);
          encodeSlots(commands, { ...own, shape: [1, 1, width] }, attended, 1, 0, r);
          for (const spent of [q, ...added, own]) commands.free(spent);
        });
      const given = gateOutputs(commands, { ...attended, shape: [m, width] }, gate, queries),
        next = finishRows(decoder, commands, index, { x, m, layerInputs }, given);
      for (const spent of [queries, ...keysValues]) commands.free(spent);
      x = next;
      decoder.rows.qkv[index] += m;
    }
    let readers = [...going.keys()].filter(({ options }) => options.rows > 0).length;
    const release = (): void => {
      if (--readers === 0) scope.end();
    };
    const [logits] = readers > 0 ? (decoder.head.encode(commands, [x], m) as [Tensor]) : [];
    decoder.rows.head += readers;
    if (readers === 0) scope.end();
    for (const [{ caches, options, done }, r] of going) {
      const { counters, progress } = caches.context;
      counters.batchedPasses = (counters.batchedPasses ?? 0) + 1;
      if (options.rows === 0 || !logits) {
        done(noOutput);
        continue;
      }
      let released = false;
      done(
        outputAt(
          { caches, scope, checks: checks[r] },
          { ...logits, shape: [m, config.vocab] },
          { first: r, count: 1, step: progress.length },
          () => {
            if (!released) release();
            released = true;
          },
        ),
      );
    }
  } catch (cause) {
    scope.end();
    throw cause;
  }
}

/** Returns row r of heads `[heads, m, d]`: `[heads, 1, d]`. */
function rowOf(commands: Commands, heads: Tensor, r: number): Tensor {
  const [count, , d] = heads.shape,
    out = commands.make([count, 1, d]);
  encodeSlots(commands, heads, out, 1, r);
  return out;
}
