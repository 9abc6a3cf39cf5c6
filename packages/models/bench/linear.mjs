// Which product behind `Linear`? Times each at the shapes of a small decoder, turn by turn in one process, and prints
// the ratio to this
// package's SIMD kernel (median of the turns, with the quartiles): above 1 is slower. The other engines are not
// dependencies:
//   ONNXRUNTIME_NODE_INSTALL=skip npm i --prefix /tmp/engines onnxruntime-node@1.30.0
//   pnpm --filter @kv/models build && node packages/models/bench/linear.mjs /tmp/engines
import { createRequire } from 'node:module';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { matrixOf, onnxEngine, referenceLinear, simdLinear } from '../dist/index.js';

const engines = createRequire(join(process.argv[2] ?? '/tmp/engines', 'package.json'));
const turns = Number(process.argv[3] ?? 15);
const shapes = [
  [256, 128],
  [128, 128],
  [512, 128],
  [128, 256],
  [1024, 128],
  [1536, 576],
];
const rowCounts = [1, 8, 64, 1024];

const onnx = onnxEngine(engines('onnxruntime-node'));
const onnxLinear = (weight) => {
  const [x, out] = [
    { id: 0, width: weight.inputs },
    { id: 1, width: weight.outputs },
  ];
  const runnable = onnx.prepare({
    name: 'product',
    inputs: [x],
    instructions: [{ op: 'linear', name: 'w', x, weight, out }],
    outputs: [out],
  });
  return {
    apply: async (rows, m) => (await (await runnable).run([rows], m))[0],
    destroy: async () => (await runnable).destroy(),
  };
};
const factories = {
  simd: simdLinear(),
  reference: referenceLinear,
  'onnxruntime-node': onnxLinear,
};

const quantile = (list, q) => list.toSorted((a, b) => a - b)[Math.floor(q * (list.length - 1))];
const time = async (product, x, rows, repeats) => {
  const start = performance.now();
  for (let i = 0; i < repeats; i++) await product.apply(x, rows);
  return (performance.now() - start) / repeats;
};

console.log(
  `${cpus()[0].model}, ${cpus().length} cores, Node ${process.version}, ${new Date().toISOString().slice(0, 10)}, ${turns} turns, one thread each\n`,
);
console.log(`| outputs x inputs | rows | simd GFLOP/s | ${Object.keys(factories).slice(1).join(' | ')} |`);
console.log(
  `| --- | --- | --- | ${Object.keys(factories)
    .slice(1)
    .map(() => '---')
    .join(' | ')} |`,
);
for (const [outputs, inputs] of shapes) {
  const weight = Float32Array.from({ length: outputs * inputs }, () => Math.random() - 0.5);
  const products = Object.values(factories).map((factory) => factory(matrixOf(weight, outputs, inputs)));
  for (const rows of rowCounts) {
    const x = Float32Array.from({ length: rows * inputs }, () => Math.random() - 0.5);
    const repeats = Math.max(1, Math.round(1e7 / (rows * outputs * inputs)));
    const times = products.map(() => []);
    for (const product of products) await time(product, x, rows, repeats);
    for (let turn = 0; turn < turns; turn++)
      for (const [i, product] of products.entries()) times[i].push(await time(product, x, rows, repeats));
    const cells = times.slice(1).map((list) => {
      const ratios = list.map((t, turn) => t / times[0][turn]);
      return `${quantile(ratios, 0.5).toPrecision(3)} (${quantile(ratios, 0.25).toPrecision(3)}-${quantile(ratios, 0.75).toPrecision(3)})`;
    });
    console.log(
      `| ${outputs} x ${inputs} | ${rows} | ${((2 * rows * outputs * inputs) / Math.min(...times[0]) / 1e6).toFixed(1)} | ${cells.join(' | ')} |`,
    );
  }
  for (const product of products) product.destroy?.();
}
process.exit(0);
