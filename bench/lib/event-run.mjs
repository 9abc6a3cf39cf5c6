// One process of event.bench.mjs: a policy's first event, cold, then later ones; with `paired`, in turns with the full
// cache. Prints one line of JSON.
import { fileURLToPath } from 'node:url';
import { WASI } from 'node:wasi';
import { cpuRuntime, loadModel, onnxRuntime, Sequence } from '@kv/models';
import { policy } from '@kv/policies';
import { heldOutBook } from '@kv/tasks';

const { model: path, engine, name, tokens, budget, rounds, paired, clock } = JSON.parse(process.argv[2]);
/**
 * Returns the milliseconds that this thread was on a processor, which leaves out other work on the machine. Node has
 * such a clock only in WASI.
 */
function threadClock() {
  const bytes = Buffer.from('AGFzbQEAAAAFAwEAAQcKAQZtZW1vcnkCAA==', 'base64'), // a module with only a memory
    wasi = new WASI({ version: 'preview1' }),
    instance = new WebAssembly.Instance(new WebAssembly.Module(bytes), {}),
    nanoseconds = new BigUint64Array(instance.exports.memory.buffer, 0, 1),
    THREAD_CPUTIME = 3;
  wasi.initialize(instance);
  return () => {
    wasi.wasiImport.clock_time_get(THREAD_CPUTIME, 0n, 0);
    return Number(nanoseconds[0]) / 1e6;
  };
}
// the clock that a sequence uses
if (clock === 'thread') Object.defineProperty(performance, 'now', { value: threadClock() });

const from = fileURLToPath(new URL('..', import.meta.url));
const model = await loadModel(path, {
  runtime: engine === 'onnx' ? await onnxRuntime({ from }) : cpuRuntime({ from, exact: engine === 'f32' }),
});
const ids = model.tokenizer.encode(await heldOutBook()).ids.slice(0, tokens);

/** Reads one prompt. */
async function prefill(under) {
  const sequence = new Sequence(model);
  await sequence.prefill(ids, { policy: under, budget });
  const {
      times: { prefill, score, settle, compact },
      counts: { providerPasses },
    } = sequence.stats,
    { peak } = sequence.memory.ledger;
  sequence.destroy();
  return { prefill, score, settle, compact, passes: providerPasses, peak };
}

const first = await prefill(policy(name)),
  later = [];
if (paired) await prefill(policy('full'));
for (let round = 0; round < rounds; round++)
  later.push({ ...(paired && { full: await prefill(policy('full')) }), own: await prefill(policy(name)) });
console.log(JSON.stringify({ engine: model.engine, tokens: ids.length, first, later }));
