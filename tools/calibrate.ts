import { readFileSync, writeFileSync } from 'node:fs';
import { loadModel } from '@kv/models';
import { watchLayers } from '@kv/models/engine';
import { QUERY_STATISTICS_FILE, queryMoments, queryStatisticsFile } from '@kv/scorers-expected-attention';
import { Q_FILTERS_FILE, qFiltersFile, queryDirections } from '@kv/scorers-keys';
import { calibration, PRE_ROPE_FILE, preRopeFile } from '@kv/scorers-triattention';

const [name = '', text = '', most = '4096', folder] = process.argv.slice(2);
const model = await loadModel(name),
  {
    config: { layers, queryHeads, kvHeads, headDim },
    tokenizer,
  } = model;
const ids = tokenizer
  .encode(readFileSync(text, 'utf8'))
  .ids.slice(0, Math.min(Number(most), model.config.maxPositions));
const all = Array.from({ length: layers }, () => ({
  sizes: calibration(queryHeads, headDim),
  moments: queryMoments(queryHeads, headDim),
  directions: queryDirections(queryHeads, kvHeads, headDim),
}));
await watchLayers(model, ids, {
  queries: (layer, q, { rotary, cos, sin }) => {
    const { sizes, moments, directions } = all[layer],
      turned = { q, cos, sin, half: rotary / 2 };
    sizes.add(turned);
    moments.add(turned);
    directions.add(q);
  },
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
] as const) {
  writeFileSync(`${beside}${file}`, bytes);
  console.log(`${beside}${file}: ${bytes.length} bytes, queries of ${ids.length} tokens in ${layers} layers`);
}
