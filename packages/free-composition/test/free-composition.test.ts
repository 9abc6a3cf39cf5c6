import { readFileSync } from 'node:fs';
import { inTurn } from '@kv/model-testing/in-turn';
import { expect, test } from 'vitest';
import { KvError } from '@kv/core';
import { covering, rowsOfTurn } from './free/cover.ts';
import { decide, judge } from './free/laws.ts';
import { admits, count, everyEvent, labelOf, places, policyOf, product } from './free/rows.ts';
import type { Row } from './free/rows.ts';
import { sceneOf } from './free/scenes.ts';

/** KV_FULL=1 runs every event that types admit in addition to a covering array; KV_PART=0/8 every eighth of them. */
const FULL = process.env['KV_FULL'] === '1',
  [PART = 0, PARTS = 1] = (process.env['KV_PART'] ?? '0/1').split('/').map(Number);
const said = (n: number): string => n.toLocaleString('en');

/** Composes and runs a row twice, and checks the laws on its decisions. */
async function check(row: Row, i: number): Promise<void> {
  const scene = sceneOf(i);
  try {
    const first = await decide(row, scene);
    judge(row, scene, first);
    expect(await decide(row, scene)).toEqual(first);
  } catch (error) {
    throw new Error(`${labelOf(row)}, scene ${i}: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
}

test('choices that types admit run together: size, forced, sorted, finite, the same again', async () => {
  const { rows, sets } = covering(3),
    turn = rowsOfTurn(rows, 48);
  for (const [i, row] of turn) await check(row, i);
  console.log(
    `${said(count())} compositions are admitted by types, ${said(count('selector'))} of them differ up to the selector; ran ${said(turn.length)} of the ${said(rows.length)} that hold each of the ${said(sets)} triples of choices that types admit`,
  );
  expect(rows.length).toBeGreaterThan(count('transform') / places.length);
}, 600_000);

test('what does not compose says why, and counting agrees with composing', () => {
  const sentences = new Map<string, number>();
  for (const kinds of inTurn(
    [
      ['transform', 'unit'],
      ['unit', 'unit transform', 'view'],
      ['score allocator', 'unit', 'view'],
      ['demotion', 'view'],
    ],
    4,
  )) {
    let composed = 0;
    for (const row of product(kinds)) {
      const error = refusal(row);
      if (admits(row) !== (error === undefined))
        expect.fail(
          `${labelOf(row)}: types ${admits(row) ? 'admit' : 'refuse'} it, but ${String(error ?? 'it composes')}`,
        );
      if (error === undefined) {
        composed++;
        continue;
      }
      const sentence = String(error).replace(/'[^']*'/g, "'…'");
      if (
        !KvError.is(error) ||
        !/^KvError: (compose: '…' needs .*, but '…' before it leaves .*|view: '…' (reaches over the whole model|needs .*, a pass of its own|demotes slots), expected .*)$/.test(
          sentence,
        )
      )
        throw error;
      sentences.set(sentence, (sentences.get(sentence) ?? 0) + 1);
    }
    expect(composed).toBe(count(['scorer', 'selector', ...kinds]));
  }
  const all = places.reduce((n, { choices }) => n * choices.length, 1);
  console.log(
    [
      `${said(all - count())} of ${said(all)} orders do not compose; of those tried:`,
      ...[...sentences].map(([text, n]) => `  ${said(n)} x ${text}`),
    ].join('\n'),
  );
  expect(sentences.size).toBeGreaterThan(0);
});
function refusal(row: Row): unknown {
  try {
    policyOf(row);
    return undefined;
  } catch (error) {
    return error;
  }
}

test('the README says how many there are', () => {
  const readme = readFileSync(new URL('../../policies/README.md', import.meta.url), 'utf8');
  expect(/([\d,]+) compositions/.exec(readme)?.[1], 'the number in README.md').toBe(said(count()));
});

test.skipIf(!FULL)(
  'every scorer x transform x allocator x selector that types admit',
  () => every(product(KINDS), count(['scorer', 'selector', ...KINDS])),
  8 * 3600_000,
);
test.skipIf(!FULL)('every event that types admit', () => every(everyEvent(), count('selector')), 8 * 3600_000);
const KINDS = ['transform', 'allocator', 'score allocator'];

async function every(rows: Iterable<Row>, expected: number): Promise<void> {
  let at = 0,
    ran = 0;
  for (const row of rows) {
    if (!admits(row) || at++ % PARTS !== PART) continue;
    await check(row, at);
    if (++ran % 10_000 === 0) console.log(`${said(ran)} of ${said(Math.ceil((expected - PART) / PARTS))}`);
  }
  expect(at).toBe(expected);
  console.log(`ran ${said(ran)} of ${said(at)}`);
}
