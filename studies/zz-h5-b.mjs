import { createRequire } from 'node:module';
import { loadModel, Sequence } from '@kv/models';
import { onnxEngine } from '../packages/engine-onnx/dist/index.js';
const ort = createRequire('/work/main/bench/package.json')('onnxruntime-node');
const folder='/work/main/packages/model-testing/fixtures/'+(process.argv[2]??'granite_swa');
const a = await loadModel(folder), b = await loadModel(folder, { engine: onnxEngine(ort,{threads:1}) });
const ids=[3,9,20,33,4,17,8,25,40,12,5,6];
for (const m of [a,b]) {
  const s = new Sequence(m);
  await s.prefill(ids);
  const l0 = Array.from((await s.logits())[0]).slice(0,4);
  const out=[l0];
  for (const t of [7,11,30]) { await s.step(t); out.push(Array.from((await s.logits())[0]).slice(0,4)); }
  console.log(m.engine, JSON.stringify(out.map(r=>r.map(x=>+x.toFixed(4)))));
}
