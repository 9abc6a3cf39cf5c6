import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { deserialize, serialize } from 'node:v8';
import { cpuRuntime, loadModel } from '@kv/models';
import { confidence, DETECTOR_FILE, detectorFile, regex, semantic } from '@kv/scorers-sponsorship';
import type { Detector } from '@kv/scorers-sponsorship';
import { random, sentencesOf } from '@kv/tasks';
import { gather } from './detector/gather.ts';
import type { Gathered } from './detector/gather.ts';
import { measure, shareOf } from './detector/measure.ts';
import type { Finds } from './detector/measure.ts';
import { train } from './detector/mlp.ts';

const {
  positionals: [name = ''],
  values: { texts = '', book = '', out, states = '', seed, ...counts },
} = parseArgs({
  allowPositionals: true,
  options: {
    texts: { type: 'string' },
    book: { type: 'string' },
    out: { type: 'string' },
    states: { type: 'string' },
    seed: { type: 'string', default: '1' },
    times: { type: 'string', default: '30' },
    units: { type: 'string', default: '64' },
    epochs: { type: 'string', default: '8' },
  },
});
const [times, units, epochs] = [counts.times, counts.units, counts.epochs].map(Number) as [number, number, number],
  started = performance.now();
const say = (what: string): void => {
  console.error(`${((performance.now() - started) / 1000).toFixed(0)} s: ${what}`);
};

/** Returns the sentences of a text that are short enough to be mixed with lines. */
const short = (file: string): readonly string[] =>
  sentencesOf(readFileSync(file, 'utf8')).filter(({ length }) => length < 200);
const books = readdirSync(texts)
  .filter((file) => file.endsWith('.txt') && !book.endsWith(file))
  .sort();
const gathered = existsSync(states)
  ? (deserialize(readFileSync(states)) as Gathered)
  : await gather(await loadModel(name, { runtime: cpuRuntime({ exact: true }) }), {
      seed,
      times,
      sentences: books.flatMap((file) => short(`${texts}/${file}`)),
      held: short(book),
      say,
    });
if (states !== '' && !existsSync(states)) writeFileSync(states, serialize(gathered));
const { examples, tokens, sets, prose, unfinished } = gathered,
  { width, labels } = examples,
  anchors = labels.reduce((a, b) => a + b, 0);
say(`${labels.length} hidden states of ${tokens} tokens, ${anchors} of them anchors`);
const { first, second } = train(examples, {
  units,
  epochs,
  batch: 64,
  rate: 2e-3,
  decay: 0.02,
  random: random(`weights ${seed}`),
  onEpoch: (epoch, loss) => {
    say(`epoch ${epoch + 1}: loss ${loss.toFixed(4)}`);
  },
});
const weights = { width, first: Float32Array.from(first), second: Float32Array.from(second) };

const foundBy = ({ run }: Detector, seen: Parameters<Finds>[0]): ReadonlySet<number> =>
  new Set(run(seen).map((one) => (typeof one === 'number' ? one : one.position)));
const finders: Readonly<Record<string, Finds>> = {
  learned: ({ states: rows }) =>
    new Set(
      Array.from(confidence(weights, rows).entries())
        .filter(([, f]) => f > 0.5)
        .map(([i]) => i),
    ),
  regex: (seen) => foundBy(regex(), seen),
  semantic: (seen) => foundBy(semantic(), seen),
};
const byFinder = <T>(of: (finds: Finds) => T): Readonly<Record<string, T>> =>
  Object.fromEntries(Object.entries(finders).map(([finder, finds]) => [finder, of(finds)]));
const proseTokens = prose.reduce((n, { ids }) => n + ids.length, 0);
console.log(
  JSON.stringify(
    {
      model: name.split('/').at(-1),
      width,
      units,
      seed,
      times,
      epochs,
      books,
      tokens,
      states: labels.length,
      anchors,
      ...Object.fromEntries(
        Object.entries(sets).map(([set, documents]) => [
          set,
          byFinder((finds) => measure(documents, prose, 500, finds)),
        ]),
      ),
      'found in 1,000 tokens of prose': byFinder(
        (finds) => Math.round((10_000 * prose.reduce((n, seen) => n + finds(seen).size, 0)) / proseTokens) / 10,
      ),
      'signs without a value': byFinder((finds) =>
        shareOf(unfinished.filter((seen) => finds(seen).has(seen.ids.length - 1)).length, unfinished.length),
      ),
    },
    null,
    1,
  ),
);
const beside = /\.gguf$/i.test(name) ? `${name}.` : `${name.replace(/\/+$/, '')}/`,
  file = detectorFile(weights, {
    model: name.split('/').at(-1) ?? '',
    fingerprint: gathered.fingerprint,
    seed,
    tokens: String(tokens),
  });
writeFileSync(out ?? beside + DETECTOR_FILE, file);
say(`${out ?? beside + DETECTOR_FILE}: ${file.length} bytes`);
