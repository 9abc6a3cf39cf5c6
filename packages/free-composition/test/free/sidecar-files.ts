import { commonHeads } from '@kv/engine';
import { mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { loadModel } from '@kv/models';
import type { HostModel, LoadOptions } from '@kv/models';
import { BUDGET_CURVE_FILE, HEAD_SCORES_FILE } from '@kv/allocators-fixed';
import { QUERY_STATISTICS_FILE, queryStatisticsFile } from '@kv/scorers-expected-attention';
import { GATE_FILE, gateFile } from '@kv/scorers-gate';
import { Q_FILTERS_FILE, qFiltersFile } from '@kv/scorers-keys';
import { DETECTOR_FILE, detectorFile } from '@kv/scorers-sponsorship';
import { PRE_ROPE_FILE, preRopeFile } from '@kv/scorers-triattention';

interface Heads {
  readonly layers: number;
  readonly queryHeads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Channels of the hidden states; a scene has one. */
  readonly hidden?: number;
}
/** Returns made-up statistics as the sidecar files of a model, by name. */
export function sidecarFiles({
  layers,
  queryHeads,
  kvHeads,
  headDim,
  hidden = 1,
}: Heads): ReadonlyMap<string, Uint8Array> {
  const half = Math.floor(headDim / 2),
    each = <T>(row: (layer: number) => T): T[] => Array.from({ length: layers }, (_, l) => row(l)),
    sines = (count: number, l: number) => Float32Array.from({ length: count }, (_, i) => Math.sin(i + l));
  return new Map([
    [
      PRE_ROPE_FILE,
      preRopeFile(
        {
          tokens: 1,
          rows: each((l) => ({
            mean: sines(queryHeads * headDim, l),
            size: new Float32Array(queryHeads * half).fill(2),
            half,
          })),
        },
        { queryHeads, headDim },
      ),
    ],
    [
      QUERY_STATISTICS_FILE,
      queryStatisticsFile(
        each((l) => ({
          queryHeads,
          headDim,
          mean: sines(queryHeads * headDim, l),
          covariance: Float32Array.from({ length: queryHeads * headDim ** 2 }, (_, i) =>
            Number((i % headDim ** 2) % (headDim + 1) === 0),
          ),
        })),
      ),
    ],
    [
      HEAD_SCORES_FILE,
      new TextEncoder().encode(
        each((l) => Array.from({ length: kvHeads }, (_, g) => ((l * 7 + g * 3) % 5) / 5).join('\t')).join('\n'),
      ),
    ],
    [
      GATE_FILE,
      gateFile(
        each((l) => ({
          width: hidden,
          kvHeads,
          output: { weight: sines(kvHeads * hidden, l), bias: sines(kvHeads, l + 1) },
        })),
      ),
    ],
    [DETECTOR_FILE, detectorFile({ width: hidden, first: sines(hidden * hidden, 0), second: sines(hidden, 1) })],
    [BUDGET_CURVE_FILE, evenCurve(layers, kvHeads)],
    [Q_FILTERS_FILE, qFiltersFile(each((l) => ({ kvHeads, headDim, filters: sines(kvHeads * headDim, l) })))],
  ]);
}

/** Loads a folder's model from a copy that has all these files; the copy is removed after the test. */
export async function withFiles(
  folder: string,
  options?: LoadOptions,
): Promise<{ readonly path: string; readonly model: HostModel }> {
  const path = mkdtempSync(join(tmpdir(), 'kv-free-'));
  onTestFinished(() => {
    rmSync(path, { recursive: true });
  });
  for (const file of readdirSync(folder)) symlinkSync(join(folder, file), join(path, file));
  const model = await loadModel(path, options);
  for (const [name, file] of sidecarFiles({ ...model.config, ...commonHeads(model.config) }))
    writeFileSync(join(path, name), file);
  return { path, model };
}

/** Returns a budget curve that drops the requested share from every head, as an .npy file of f32. */
function evenCurve(layers: number, kvHeads: number): Uint8Array {
  const header = `{'descr': '<f4', 'fortran_order': False, 'shape': (99, ${layers}, ${kvHeads}), }`
      .padEnd(117)
      .concat('\n'),
    file = new Uint8Array(128 + 4 * 99 * layers * kvHeads),
    view = new DataView(file.buffer);
  file.set([0x93, ...new TextEncoder().encode('NUMPY'), 1, 0, 118, 0]);
  file.set(new TextEncoder().encode(header), 10);
  for (let i = 0; i < 99 * layers * kvHeads; i++)
    view.setFloat32(128 + 4 * i, (Math.floor(i / (layers * kvHeads)) + 1) / 100, true);
  return file;
}
