import { mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadModel } from '../../src/index.ts';
import { watchLayers, commonHeads } from '@kv/engine';
import type { HostModel } from '../../src/index.ts';
import { QUERY_STATISTICS_FILE, queryMoments, queryStatisticsFile } from '@kv/scorers-expected-attention';
import { GATE_FILE, gateFile } from '@kv/scorers-gate';
import { Q_FILTERS_FILE, qFiltersFile, queryDirections } from '@kv/scorers-keys';
import { calibration, PRE_ROPE_FILE, preRopeFile } from '@kv/scorers-triattention';

/** Makes a folder with a checkpoint, every file of statistics, calibrated on `ids`, and a gate that was not fitted. */
export async function calibrated(
  folder: string,
  ids: readonly number[],
): Promise<{ readonly model: HostModel; remove(): void }> {
  const calibratedFolder = mkdtempSync(join(tmpdir(), 'kv-calibrated-'));
  for (const file of readdirSync(folder)) symlinkSync(join(folder, file), join(calibratedFolder, file));
  const model = await loadModel(calibratedFolder),
    { layers, hidden } = model.config,
    { queryHeads, kvHeads, headDim } = commonHeads(model.config);
  const all = Array.from({ length: layers }, () => ({
    turned: calibration(queryHeads, headDim),
    moments: queryMoments(queryHeads, headDim),
    directions: queryDirections(queryHeads, kvHeads, headDim),
  }));
  await watchLayers(model, ids, {
    queries: (l, q, { rotary, cos, sin }) => {
      const each = all[l],
        turned = { q, cos, sin, half: rotary / 2 };
      each.turned.add(turned);
      each.moments.add(turned);
      each.directions.add(q);
    },
  });
  writeFileSync(
    join(calibratedFolder, PRE_ROPE_FILE),
    preRopeFile({ tokens: ids.length, rows: all.map((each) => each.turned.take()) }, { queryHeads, headDim }),
  );
  writeFileSync(
    join(calibratedFolder, QUERY_STATISTICS_FILE),
    queryStatisticsFile(all.map((each) => each.moments.take())),
  );
  writeFileSync(join(calibratedFolder, Q_FILTERS_FILE), qFiltersFile(all.map((each) => each.directions.take())));
  const waves = (n: number, of: number): Float32Array =>
    Float32Array.from({ length: n }, (_, i) => Math.sin(of * (i + 1)));
  writeFileSync(
    join(calibratedFolder, GATE_FILE),
    gateFile(
      all.map((_, l) => ({
        ...{ width: hidden, kvHeads },
        output: { weight: waves(kvHeads * hidden, l + 1), bias: waves(kvHeads, l + 1) },
      })),
    ),
  );
  return {
    model,
    remove: () => {
      rmSync(calibratedFolder, { recursive: true });
    },
  };
}
