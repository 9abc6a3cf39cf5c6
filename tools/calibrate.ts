import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { HEAD_SCORES_FILE, headScores, headScoresFile } from '@kv/allocators-fixed';
import { loadModel } from '@kv/models';
import { watchLayers, commonHeads } from '@kv/engine';
import { QUERY_STATISTICS_FILE, queryMoments, queryStatisticsFile } from '@kv/scorers-expected-attention';
import { Q_FILTERS_FILE, qFiltersFile, queryDirections } from '@kv/scorers-keys';
import { calibration, PRE_ROPE_FILE, preRopeFile } from '@kv/scorers-triattention';

const [name = '', text = '', most = '4096', folder] = process.argv.slice(2);
if (folder !== undefined) mkdirSync(folder, { recursive: true });
const model = await loadModel(name),
  {
    config,
    config: { layers },
    tokenizer,
  } = model,
  { queryHeads, kvHeads, headDim } = commonHeads(config, 'calibrate');
const ids = tokenizer
  .encode(readFileSync(text, 'utf8'))
  .ids.slice(0, Math.min(Number(most), model.config.maxPositions));
const all = Array.from({ length: layers }, () => ({
  sizes: calibration(queryHeads, headDim),
  moments: queryMoments(queryHeads, headDim),
  directions: queryDirections(queryHeads, kvHeads, headDim),
  means: { queries: queryMoments(queryHeads, headDim, 0), keys: queryMoments(kvHeads, headDim, 0) },
  angles: [] as { readonly cos: Float32Array; readonly sin: Float32Array; readonly half: number }[],
}));
/** Positions that head scores are computed over, as in kvpress. */
const FAR = 500;
await watchLayers(model, ids, {
  queries: (layer, q, { rotary, cos, sin }) => {
    const { sizes, moments, directions, means, angles } = all[layer],
      turned = { q, cos, sin, half: rotary / 2 };
    angles.push({ cos, sin, half: rotary / 2 });
    means.queries.add(turned);
    sizes.add(turned);
    moments.add(turned);
    directions.add(q);
  },
  // right after the queries of the same tokens
  keys: (layer, k) => all[layer].means.keys.add({ q: k, ...all[layer].angles.at(-1)! }),
});
/** Returns the first n rows of the concatenated parts. */
const rows = (parts: readonly Float32Array[], length: number): Float32Array =>
  Float32Array.from(parts.flatMap((part) => [...part]).slice(0, length));
const heads = all.map(({ means, angles }) => {
  const [{ half }] = angles,
    length = FAR * half;
  return headScores({
    queries: means.queries.take().mean,
    keys: means.keys.take().mean,
    headDim,
    cos: rows(
      angles.map(({ cos }) => cos),
      length,
    ),
    sin: rows(
      angles.map(({ sin }) => sin),
      length,
    ),
    half,
  });
});
const said = { tokens: String(ids.length), fingerprint: model.fingerprint },
  beside = folder === undefined && /\.gguf$/i.test(name) ? `${name}.` : `${(folder ?? name).replace(/\/+$/, '')}/`;
for (const [file, bytes] of [
  [
    PRE_ROPE_FILE,
    preRopeFile({ tokens: ids.length, rows: all.map(({ sizes }) => sizes.take()) }, { queryHeads, headDim }, said),
  ],
  [
    QUERY_STATISTICS_FILE,
    queryStatisticsFile(
      all.map(({ moments }) => moments.take()),
      said,
    ),
  ],
  [
    Q_FILTERS_FILE,
    qFiltersFile(
      all.map(({ directions }) => directions.take()),
      said,
    ),
  ],
  [HEAD_SCORES_FILE, headScoresFile(heads)],
] as const) {
  if (file === HEAD_SCORES_FILE && existsSync(`${beside}${file}`)) {
    console.log(`${beside}${file}: left as it is, since trained scores may lie there`);
    continue;
  }
  writeFileSync(`${beside}${file}`, bytes);
  console.log(`${beside}${file}: ${bytes.length} bytes, queries of ${ids.length} tokens in ${layers} layers`);
}
