import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { compile } from '@kv/core/engine';
import { generate } from '@kv/models';
import { withFiles } from './free/sidecar-files.ts';
import { covering, rowsOfTurn } from './free/cover.ts';
import { leastSlots, isView, labelOf, policyOf } from './free/rows.ts';

const folder = fileURLToPath(new URL('../../model-testing/data/goldens/llama', import.meta.url));
const PROMPT = 12,
  NEW = 3;

test('any two choices that types admit generate together: blocks, decoding, hooks and providers by the engine', async () => {
  const ids = (JSON.parse(readFileSync(`${folder}/golden.json`, 'utf8')) as { readonly ids: number[] }).ids.slice(
      0,
      PROMPT,
    ),
    { model } = await withFiles(folder);
  const { rows } = covering(2),
    turn = rowsOfTurn(rows, 16),
    wrong: string[] = [];
  let evicted = 0;
  for (const [, row] of turn)
    try {
      const policy = policyOf(row),
        budget = Math.max(5, leastSlots(row, PROMPT, 5), leastSlots(row, PROMPT + NEW, PROMPT));
      const run = async () => generate(model, { ids, policy, budget, maxNewTokens: NEW, logits: 1 });
      const { report, tokens, logits } = await run(),
        again = await run();
      expect([again.tokens, again.report.kept]).toEqual([tokens, report.kept]);
      expect(tokens).toHaveLength(NEW);
      expect(logits!.every((l) => l.every(Number.isFinite))).toBe(true);
      report.kept.forEach((heads) =>
        heads.forEach((set) => expect(set).toEqual([...new Set(set)].sort((a, b) => a - b))),
      );
      if (isView(row) || report.counts['events'] === 0) continue; // the slots that its pieces force may be the whole prompt
      evicted++;
      const held = report.kept.flat().map((set) => set.length),
        shared = budget * held.length;
      if (!compile(policy).choosesBudget) expect(held.reduce((a, b) => a + b, 0)).toBeLessThanOrEqual(shared);
      report.kept.forEach((heads, l) =>
        heads.forEach((set, g) => expect(set.length).toBeLessThanOrEqual(report.budgets[l][g])),
      );
    } catch (error) {
      wrong.push(`${labelOf(row)}: ${error instanceof Error ? error.message : String(error)}`);
    }
  console.log(
    `${turn.length} of ${rows.length} compositions generated ${NEW} tokens twice, ${evicted} of them evicting`,
  );
  expect(wrong).toEqual([]);
}, 600_000);
