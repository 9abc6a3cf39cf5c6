// One process of event.bench.mjs: a policy's first event, as a first command pays it, then later ones, beside the full
// cache in turn where `paired`. Prints one line of JSON.
import { fileURLToPath } from 'node:url';
import { defaultLinear, linearEngine, loadModel, pickEngine, Sequence } from '@kv/models';
import { policies } from '@kv/policies';
import { heldOutBook } from '@kv/tasks';

const { model: path, engine, name, tokens, budget, rounds, paired, clock } = JSON.parse(process.argv[2]);
/** Milliseconds of the processor, on all threads, less what asking took. */
let asked = 0,
  cost = 0;
const processor = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000 - cost * asked++;
};
const before = processor();
for (let i = 0; i < 2000; i++) processor();
cost = (processor() - before) / 2001;
asked = 0;
// what a sequence measures itself by: time that a neighbour takes is not the event's
if (clock === 'processor') Object.defineProperty(performance, 'now', { value: processor });

const from = fileURLToPath(new URL('..', import.meta.url));
const model = await loadModel(path, {
  engine: engine === 'wasm' ? linearEngine(defaultLinear()) : await pickEngine({ exact: engine === 'exact', from }),
});
const ids = model.tokenizer.encode(await heldOutBook()).ids.slice(0, tokens),
  make = (policy) => policies[policy].make();

/** Reads one prompt. */
async function prefill(policy) {
  const sequence = new Sequence(model),
    before = processor();
  await sequence.prefill(ids, { policy, budget });
  const {
      times: { prefill, score, settle, compact },
      counts: { providerPasses },
    } = sequence,
    read = { prefill, score, settle, compact, processor: processor() - before };
  const { peak } = sequence.ledger;
  sequence.destroy();
  return { ...read, passes: providerPasses, peak };
}

const first = await prefill(make(name)),
  later = [];
if (paired) await prefill(make('full'));
for (let round = 0; round < rounds; round++)
  later.push({ ...(paired && { full: await prefill(make('full')) }), own: await prefill(make(name)) });
console.log(JSON.stringify({ engine: model.decoder.engine, tokens: ids.length, first, later }));
