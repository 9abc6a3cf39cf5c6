import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { cpu } from '@kv/cpu';
import type { Gpu } from '@kv/gpu';
import { generate, loadModel, Sequence, slotScores } from '@kv/models';
import type { GenerateResult, GenerateOptions, HostModel, Model, Report } from '@kv/models';
import { expect, vi } from 'vitest';
import { gpuRuntime } from '../src/index.ts';
import type { RunningDeviceModel } from '../src/index.ts';
import { referenceEngine } from '@kv/engine';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
export const fixture = (path: string): string => here(`../../model-testing/fixtures/${path}`);
export const json = <T>(path: string): T => JSON.parse(readFileSync(path, 'utf8')) as T;

/** The same model twice, its caches on the host over plain loops and on the device, for as long as `run` takes. */
export async function both(
  gpu: Gpu,
  path: string,
  run: (host: HostModel, device: Model & RunningDeviceModel) => Promise<void>,
): Promise<void> {
  const host = await loadModel(path, { engine: referenceEngine() }),
    device = await loadModel(path, { runtime: gpuRuntime(gpu) });
  try {
    await run(host, device);
  } finally {
    for (const model of [host, device]) model.destroy();
  }
}

/**
 * Returns what a report says of the cache and its events on any engine: not times, and neither peak and mean nor how
 * often a window's statistic was computed, since the host computes it during attention and keeps it in addition to its
 * caches; nor how often it attended, since the host leaves out rows of the last layer that nothing reads; nor what views
 * show, which a device does not count.
 */
export const said = ({ times: _, bytes, cache, held, counts, ...report }: Report): object => ({
  ...report,
  bytes: { ...bytes, peak: 0, meanDecode: 0 },
  cache: { ...cache, peakBytes: 0 },
  held: { ...held, bytes: { ...held.bytes, peak: 0 } },
  counts: { ...counts, statistics: 0, fused: 0, shownSlots: 0, viewReads: 0 },
});

/** max |a - b| over max |b|. */
export function relative(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let [difference, size] = [0, 0];
  for (let i = 0; i < b.length; i++)
    [difference, size] = [Math.max(difference, Math.abs(a[i] - b[i])), Math.max(size, Math.abs(b[i]))];
  return difference / size;
}

const refuse = (what: string) => (): never => {
  throw new Error(`${what} ran on the host`);
};

/**
 * Generates on the device and expects that nothing on the host computes: neither the decoder's own arithmetic nor an
 * operation of the CPU backend. One submit per read, one read per token and per event.
 */
export async function onDevice(
  gpu: Gpu,
  model: Model & RunningDeviceModel,
  options: GenerateOptions,
  events: (counts: Readonly<Record<string, number>>) => number,
): Promise<
  GenerateResult & {
    readonly spent: { readonly dispatches: number; readonly submits: number; readonly readbacks: number };
  }
> {
  const { decoder } = model;
  const spies = [
    ...(Object.keys(cpu.ops) as (keyof typeof cpu.ops)[])
      .filter((name) => name !== 'from')
      .map((name) =>
        vi.spyOn(cpu.ops as unknown as Record<string, () => never>, name).mockImplementation(refuse(name)),
      ),
    vi.spyOn(decoder, 'embed').mockImplementation(refuse('embed')),
  ];
  try {
    const before = { ...gpu.counters },
      generated = await generate(model, options),
      { dispatches, submits, readbacks } = gpu.counters;
    const spent = {
      dispatches: dispatches - before.dispatches,
      submits: submits - before.submits,
      readbacks: readbacks - before.readbacks,
    };
    expect(spent.readbacks, 'read-backs').toBe(generated.tokens.length + events(generated.report.counts));
    expect(spent.submits, 'submits').toBe(spent.readbacks);
    return { ...generated, spent };
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}

/** Rows whose sets differ; each must be a tie: what differs scores the same within `tie` of the row's largest score. */
export function ties(
  ours: readonly (readonly (readonly number[])[])[],
  theirs: readonly (readonly (readonly number[])[])[],
  scores: (layer: number, head: number) => readonly number[] | undefined,
  tie = 1e-5,
): number {
  let count = 0;
  expect(ours.length).toBe(theirs.length);
  for (const [l, heads] of theirs.entries())
    for (const [g, want] of heads.entries()) {
      const got = ours[l][g],
        odd = [...got.filter((p) => !want.includes(p)), ...want.filter((p) => !got.includes(p))];
      if (odd.length === 0) continue;
      const row = scores(l, g),
        at = odd.map((p) => row?.[p] ?? NaN);
      expect(
        Math.max(...at) - Math.min(...at),
        `layer ${l}, head ${g} differs by more than a tie: ${got} against ${want}`,
      ).toBeLessThan(tie * Math.max(...(row ?? []).map(Math.abs)));
      count++;
    }
  return count;
}

/** Scores of a whole prompt on the host, `[layer][kvHead]`. */
export async function hostScores(
  model: Model,
  ids: readonly number[],
  policy: NonNullable<GenerateOptions['policy']>,
): Promise<number[][][]> {
  const sequence = new Sequence(model, cpu);
  await sequence.prefill(ids, { policies: [policy] });
  const scores: number[][][] = [];
  for (let l = 0; l < model.config.layers; l++)
    scores.push((await slotScores(sequence, policy, l)).map((row) => [...row]));
  sequence.destroy();
  return scores;
}
