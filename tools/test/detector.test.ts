import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { random } from '@kv/tasks';
import { confidence, DETECTOR_FILE, readDetector } from '@kv/scorers-sponsorship';
import { expect, test } from 'vitest';
import { documents } from '../detector/documents.ts';
import { collector } from '../detector/examples.ts';
import { measure } from '../detector/measure.ts';
import { train } from '../detector/mlp.ts';
import { forms, services, withoutValue } from '../detector/patterns.ts';
import { tokensOf } from '../detector/states.ts';
import type { Seen } from '../detector/states.ts';
import { root } from '../lib/process.mjs';

test.each([
  ['model-embedded', 128],
  ['detector-smollm2', 576],
])('the detector in packages/%s is of a model with %d channels, and under 200 KB', (name, width) => {
  const file = readFileSync(join(root, 'packages', name, DETECTOR_FILE)),
    read = readDetector(file);
  expect([read.width, read.second.length]).toEqual([width, 64]);
  expect(file.length).toBeLessThan(200_000);
});

const matter = {
  sentences: ['A sentence.', 'Another one, longer.'],
  services: services.learned,
  lines: ({ learned }: (typeof forms)[number]) => learned,
};

test('62 patterns to learn from, none of them among the held-out ones; every anchor comes as often as asked, from a seed', () => {
  const [learned, heldOut] = (['learned', 'heldOut'] as const).map((set) =>
    forms.flatMap((form) => [...form[set].anchors, ...form[set].beside].map((line) => `${form.name} ${line}`)),
  );
  expect(forms.flatMap((form) => form.learned.anchors)).toHaveLength(62);
  expect(learned.filter((line) => heldOut.includes(line))).toEqual([]);
  expect(services.learned.filter((name) => services.heldOut.includes(name))).toEqual([]);
  for (const form of forms)
    for (const line of [
      ...form.learned.anchors,
      ...form.learned.beside,
      ...form.heldOut.anchors,
      ...form.heldOut.beside,
    ])
      expect(line.split('¦')).toHaveLength(2);
  expect(withoutValue.some((said) => said.includes('¦'))).toBe(false);
  const made = documents(forms, 3, matter, random(5)),
    anchors = made.flatMap(({ lines }) => lines.filter(({ kind }) => kind === 'anchor'));
  expect(made).toEqual(documents(forms, 3, matter, random(5)));
  expect(anchors).toHaveLength(3 * 62);
  for (const { text, lines } of made)
    for (const { pattern, start, sign, end } of lines) {
      expect(text.slice(start, end)).not.toMatch(/<[a-zA-Z]>|¦/);
      expect(text.slice(start, sign).at(-1)).toBe(pattern.split('¦')[0].at(-1));
    }
});

/** One token per character; a token's state is 1 at an anchor's sign, else 0. */
const seenOf = (text: string, lines: Seen['lines'], states = new Float32Array(text.length)): Seen => ({
  text,
  lines,
  ids: Array.from(text, () => 0),
  offsets: Array.from(text, (_, i) => [i, i + 1]),
  states,
});
const line = (kind: 'anchor' | 'beside', pattern: string, text: string, start: number): Seen['lines'][number] => ({
  kind,
  pattern,
  form: 'env',
  start,
  sign: start + pattern.indexOf('¦'),
  end: text.length,
});

test('the anchor is the token in which the sign ends, and what stands between it and the value belongs to it', () => {
  const text = 'x key= "ab"',
    seen = seenOf(text, [line('anchor', 'key=¦ "ab"', text, 2)]);
  expect(tokensOf(seen, seen.lines[0])).toEqual({ all: [2, 3, 4, 5, 6, 7, 8, 9, 10], sign: 5, until: 7 });
  const glued = {
    text,
    offsets: [
      [0, 2],
      [2, 5],
      [5, 9],
      [9, 11],
    ] as const,
  };
  expect(tokensOf(glued, seen.lines[0])).toEqual({ all: [1, 2, 3], sign: 2, until: 2 });
  const collect = collector(1, random(1));
  for (let i = 0; i < 200; i++) collect.add({ ...seen, states: Float32Array.from(text, (_, at) => at) });
  const { rows, labels } = collect.take();
  expect(new Set([...rows].filter((_, i) => labels[i]))).toEqual(new Set([5]));
  expect(labels.reduce((a, b) => a + b, 0)).toBe(200);
  expect([6, 7].some((at) => rows.includes(at))).toBe(false);
});

test('recall by anchors, precision by spans, by hand', () => {
  const text = 'a=1\nb=2',
    docs = [
      seenOf(text.slice(0, 3), [line('anchor', 'a=¦1', text.slice(0, 3), 0)]),
      seenOf(text, [line('beside', 'a=¦1', text.slice(0, 3), 0), line('anchor', 'b=¦2', text, 4)]),
    ];
  const prose = [seenOf('0123456789abcdef', [])],
    at =
      (...positions: readonly number[]) =>
      () =>
        new Set(positions),
    all = measure(docs, prose, 10, at(1));
  expect([all.recall, all.beside, all.prose].map(({ hits, of }) => [hits, of])).toEqual([
    [1, 2],
    [1, 1],
    [1, 2],
  ]);
  expect([all.precision.hits, all.precision.of, all.tokens.hits, all.tokens.of]).toEqual([1, 3, 1, 2]);
  expect([all.missed, all.mistaken]).toEqual([['b=¦2'], ['a=¦1']]);
  expect(measure(docs, prose, 10, at(5)).recall.hits).toBe(1);
});

/** Mean cross-entropy of σ(W2 GELU(W1 h)), in float64, of rows of two numbers. */
function lossOf(
  first: ArrayLike<number>,
  second: ArrayLike<number>,
  rows: ArrayLike<number>,
  labels: ArrayLike<number>,
): number {
  let sum = 0;
  for (let i = 0; i < labels.length; i++) {
    const z = Array.from(second).reduce((total, w, u) => {
      const x = first[2 * u] * rows[2 * i] + first[2 * u + 1] * rows[2 * i + 1];
      return total + (w * x) / (1 + Math.exp(-2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
    }, 0);
    sum -= Math.log(1 / (1 + Math.exp(labels[i] ? -z : z)));
  }
  return sum / labels.length;
}
const r = random(3),
  points = Array.from({ length: 400 }, () => [r.next() - 0.5, r.next() - 0.5] as const),
  labels = Uint8Array.from(points, ([x, y]) => (x * y > 0 ? 1 : 0)),
  rows = Float32Array.from(points.flatMap(([x, y]) => [37 * x, 37 * y]));
const trained = (
  options: { readonly epochs: number; readonly batch: number; readonly rate: number },
  onEpoch = (_: number, __: number): void => {},
) => train({ width: 2, rows, labels }, { units: 16, decay: 0, random: random(4), onEpoch, ...options });

test('an MLP learns what no line parts, whatever the scale of its rows; what it gives is what it was trained with', () => {
  const losses: number[] = [],
    { first, second } = trained({ epochs: 120, batch: 32, rate: 2e-2 }, (_, loss) => {
      losses.push(loss);
    });
  const f = confidence({ width: 2, first: Float32Array.from(first), second: Float32Array.from(second) }, rows);
  expect(losses.at(-1)).toBeLessThan(0.15);
  expect(Math.abs(lossOf(first, second, rows, labels) - losses.at(-1)!)).toBeLessThan(0.01);
  expect(Array.from(f).filter((x, i) => (x > 0.5 ? 1 : 0) === labels[i]).length / labels.length).toBeGreaterThan(0.95);
});
test('its first step goes against the numeric gradient, in every weight', () => {
  const before = trained({ epochs: 1, batch: 400, rate: 0 }),
    after = trained({ epochs: 1, batch: 400, rate: 1e-4 }),
    h = 1e-5;
  let seen = 0;
  for (const name of ['first', 'second'] as const)
    for (const w of before[name].keys()) {
      const loss = (by: number): number => {
        const moved = { ...before, [name]: before[name].map((x, i) => (i === w ? x + by : x)) };
        return lossOf(moved.first, moved.second, rows, labels);
      };
      const slope = (loss(h) - loss(-h)) / (2 * h);
      if (Math.abs(slope) < 1e-6) continue;
      seen++;
      expect(Math.sign(after[name][w] - before[name][w])).toBe(-Math.sign(slope));
    }
  expect(seen).toBeGreaterThan(40);
});
test('every channel counts, the last of an odd number too', () => {
  const wide = Float32Array.from(points.flatMap(([x, y], i) => [x, y, labels[i] - 0.5])),
    losses: number[] = [];
  train(
    { width: 3, rows: wide, labels },
    {
      units: 4,
      decay: 0,
      epochs: 30,
      batch: 32,
      rate: 2e-2,
      random: random(4),
      onEpoch: (_, loss) => {
        losses.push(loss);
      },
    },
  );
  expect(losses.at(-1)).toBeLessThan(0.1);
});
