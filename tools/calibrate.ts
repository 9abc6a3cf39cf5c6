import { readFileSync, writeFileSync } from 'node:fs';
import { loadModel, watchLayers } from '@kv/models';
import { calibration, PRE_ROPE_FILE, preRopeFile } from '@kv/scorers-triattention';

const [name = '', text = '', most = '4096', to] = process.argv.slice(2);
const model = await loadModel(name), { config: { layers, queryHeads, headDim }, tokenizer } = model;
const ids = tokenizer.encode(readFileSync(text, 'utf8')).ids.slice(0, Math.min(Number(most), model.config.maxPositions));
const all = Array.from({ length: layers }, () => calibration(queryHeads, headDim));
await watchLayers(model, ids, { queries: (layer, q, { rotary, cos, sin }) => all[layer]!.add({ q, cos, sin, half: rotary / 2 }) });
const file = preRopeFile({ tokens: ids.length, rows: all.map((each) => each.take()) }, { queryHeads, headDim });
const path = to ?? (/\.gguf$/i.test(name) ? `${name}.${PRE_ROPE_FILE}` : `${name.replace(/\/+$/, '')}/${PRE_ROPE_FILE}`);
writeFileSync(path, file);
console.log(`${path}: ${file.length} bytes, queries of ${ids.length} tokens in ${layers} layers`);
