/**
 * Milliseconds to compile a grammar, of the processor and by the clock, and of a mask while an answer of random allowed
 * tokens grows. The last rows lie at the limits of what is compiled.
 *
 *   npm run bench -- grammars.bench.mjs [MODEL.gguf]      without a file: the embedded model
 */
import { answerGrammar, loadModel } from '@kv/models';

const model = await loadModel(process.argv[2] ?? 'embedded'),
  { vocab, eosIds } = model.config,
  count = (n, make) => Object.fromEntries(Array.from({ length: n }, (_, i) => make(i))),
  person = {
    type: 'object',
    properties: {
      name: { type: 'string' },
      age: { type: 'integer', minimum: 0, maximum: 150 },
      email: { type: 'string', format: 'email' },
    },
    required: ['name', 'age'],
  };
const schemas = {
  'first (reads the vocabulary)': { const: 1 },
  'any object': { type: 'object' },
  person,
  'list of persons': { type: 'array', items: person, maxItems: 20 },
  'date and time': { type: 'string', format: 'date-time' },
  'enum of 100': { enum: Array.from({ length: 100 }, (_, i) => `value ${i}`) },
  '40 optional properties': { properties: count(40, (i) => [`property ${i}`, { type: 'string' }]) },
  'maxLength 50': { type: 'string', maxLength: 50 },
  'maxLength 120': { type: 'string', maxLength: 120 },
  'enum of 20,000': { enum: Array.from({ length: 20_000 }, (_, i) => i.toString(36)) },
  '130 optional properties': { properties: count(130, (i) => [`property ${i}`, {}]) },
  'pattern ^.{1,90}$': { type: 'string', pattern: '^.{1,90}$' },
};
console.log(`${model.name ?? ''} ${vocab} tokens, Node ${process.version}`);
console.log(`${'schema'.padEnd(30)} compile: processor   clock   mask: mean   worst   tokens`);
for (const [name, schema] of Object.entries(schemas)) {
  const before = process.cpuUsage(),
    begun = performance.now();
  let grammar;
  try {
    grammar = await answerGrammar(model, { kind: 'schema', schema });
  } catch (error) {
    console.log(`${name.padEnd(30)} ${error.message.slice(0, 90)}`);
    continue;
  }
  const clock = performance.now() - begun,
    { user, system } = process.cpuUsage(before),
    times = masks(grammar.begin());
  const cells = [(user + system) / 1000, clock, times.reduce((a, b) => a + b, 0) / times.length, Math.max(...times)];
  console.log(
    `${name.padEnd(30)} ${cells.map((ms, i) => ms.toFixed(i < 2 ? 0 : 3).padStart([18, 7, 12, 7][i])).join(' ')} ${String(times.length).padStart(8)}`,
  );
}
model.destroy();

/** Times masks of one answer of at most 200 tokens, drawn evenly from those allowed. */
function masks(constraint) {
  const times = [];
  let state = 1;
  while (times.length < 200) {
    const begun = performance.now(),
      mask = constraint.allowed();
    times.push(performance.now() - begun);
    const ids = [];
    for (let id = 0; id < vocab; id++) if ((mask[id >> 5] >> (id & 31)) & 1 && !eosIds.includes(id)) ids.push(id);
    if (ids.length === 0) break;
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    constraint.accept(ids[state % ids.length]);
  }
  constraint.destroy();
  return times;
}
