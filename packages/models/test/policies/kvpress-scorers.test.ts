import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { registry, scoreTransform } from '@kv/core';
import { readCpu } from '@kv/cpu';
import type { Policy } from '@kv/core';
import { generate } from '../../src/index.ts';
import type { HostModel } from '../../src/index.ts';
import { Q_FILTERS_FILE, readQFilters } from '@kv/scorers-keys';
import { catalogue, parsePolicy, policy as policyOf } from '@kv/policies';
import { calibrated } from './calibrated.ts';
import { goldenFolder, goldenOf } from './goldens.ts';

/**
 * Output of tools/reference-models/presses.py: positions as bits of a hexadecimal number, scores of layer 1 in parts of
 * 100,000 of the row's largest, null where forced.
 */
interface Press {
  readonly kept: Readonly<Record<string, readonly (readonly string[])[]>>;
  readonly scores?: readonly { readonly largest: number; readonly parts: readonly (number | null)[] }[];
}
interface Reference {
  readonly question: number;
  readonly kinds: Readonly<
    Record<
      string,
      {
        readonly filters: readonly (readonly (readonly number[])[])[];
        readonly presses: Readonly<Record<string, Press>>;
      }
    >
  >;
}
const reference = JSON.parse(
  readFileSync(new URL('fixtures/kvpress-scorers.json', import.meta.url), 'utf8'),
) as Reference;
const kinds = Object.keys(reference.kinds),
  LENGTH = 240,
  LAYER = 1;

const here: Readonly<Record<string, string>> = {
  cap: 'capkv(tau=5)',
  expectedAttentionStats: 'expectedAttentionStats',
  qfilter: 'qfilter',
  finch: `finch(question=${reference.question})`,
  entropyGate_snapkv: 'entropyChunkkv(size=10,low=4,window=20,kernel=5)',
  entropyGate_keydiff: 'keydiff ∘ entropyGate(size=7,low=3) ∘ topK',
  kvcompose: 'kvcompose',
  kvcompose_unstructured: 'rereadingAttention ∘ modelWide ∘ topK',
  chunk_keydiff: 'eachChunk(keydiff,size=48) ∘ chunks(size=48) ∘ quota',
  chunk_cur: 'eachChunk(cur(window=12),size=60) ∘ chunks(size=60) ∘ quota',
  kvzip: 'kvzip ∘ modelWide ∘ topK',
  kvzip_plus: 'kvzip(plus=true) ∘ modelWide ∘ topK',
  kvzip_plus_layerwise: 'kvzip(plus=true) ∘ adaKV(safeguard=0) ∘ topK',
};
/** Number of rows of a press whose boundary lies between two equal scores. */
const TIES: Readonly<Record<string, number>> = { chunk_cur: 1 };
const models = new Map<string, { readonly model: HostModel; readonly ids: readonly number[] }>();
beforeAll(async () => {
  const made = await Promise.all(
    kinds.map(async (kind) => {
      const { ids } = goldenOf(kind),
        { model, remove } = await calibrated(goldenFolder(kind), ids);
      models.set(kind, { model, ids });
      return remove;
    }),
  );
  return () => {
    for (const remove of made) remove();
  };
});

const positions = (bits: string): number[] => {
  const all = BigInt(`0x${bits}`);
  return Array.from({ length: LENGTH }, (_, p) => p).filter((p) => (all >> BigInt(p)) & 1n);
};
/** Returns the scores that a policy selects by in one layer, on the rows that they have. */
async function scoresOf(
  model: HostModel,
  ids: readonly number[],
  { label }: Policy,
  layer: number,
): Promise<readonly (readonly number[])[]> {
  const rows: number[][] = [];
  const spy = scoreTransform('spy', {}, ({ at, scores }) => {
    const {
      data,
      shape: [count = 0, n = 0],
    } = readCpu(scores);
    if (at.layer === layer)
      rows.push(...Array.from({ length: count }, (_, r) => Array.from(data.slice(r * n, (r + 1) * n))));
    return scores;
  });
  const scoring = label
    .split(' ∘ ')
    .filter((part) => !/^(?:topK|modelWide|compositeTokens|rerotate|quota|adaKV\(.*\)|chunks\(.*\))$/.test(part))
    .join(' ∘ ');
  await generate(model, {
    ids,
    policy: parsePolicy(`${scoring} ∘ spy ∘ topK`, registry({ test: { spy } }, catalogue)),
    budget: 100,
    maxNewTokens: 0,
  });
  return rows;
}
/** Returns whether the slots in only one of two sets are within 1e-5 of the row's largest score. */
function tied(scores: readonly number[], ours: readonly number[], theirs: readonly number[]): boolean {
  const odd = [...ours.filter((p) => !theirs.includes(p)), ...theirs.filter((p) => !ours.includes(p))].map(
    (p) => scores[p],
  );
  return Math.max(...odd) - Math.min(...odd) < 1e-5 * Math.max(...scores.map(Math.abs));
}

test('every press that was run has a policy here', () => {
  for (const kind of kinds) expect(Object.keys(reference.kinds[kind].presses).sort()).toEqual(Object.keys(here).sort());
});
describe.each(kinds.flatMap((kind) => Object.keys(here).map((name) => [kind, name] as const)))(
  '%s: %s of kvpress',
  (kind, name) => {
    const press = reference.kinds[kind].presses[name],
      policy = parsePolicy(here[name]);
    test.each(Object.keys(press.kept))('%s evicted: the same sets, but for ties', async (ratio) => {
      const { model, ids } = models.get(kind)!,
        { kept } = (
          await generate(model, { ids, policy, budget: Math.floor(LENGTH * (1 - Number(ratio))), maxNewTokens: 0 })
        ).report;
      let ties = 0;
      for (const [l, heads] of press.kept[ratio].entries())
        for (const [g, bits] of heads.entries()) {
          const theirs = positions(bits),
            ours = kept[l][g];
          if (JSON.stringify(ours) === JSON.stringify(theirs)) continue;
          const rows = await scoresOf(model, ids, policy, l);
          expect(
            tied(rows[Math.floor((g * rows.length) / heads.length)], ours, theirs),
            `layer ${l}, head ${g}: ${ours} against ${theirs}`,
          ).toBe(true);
          ties++;
        }
      expect(ties).toBeLessThanOrEqual(TIES[name] ?? 0);
    });
    if (press.scores !== undefined)
      test('scores of layer 1 within 1e-4 of the largest of their row', async () => {
        const { model, ids } = models.get(kind)!,
          ours = await scoresOf(model, ids, policy, LAYER);
        for (const [g, { largest, parts }] of press.scores!.entries()) {
          const group = ours.length / press.scores!.length,
            mean = (p: number): number =>
              ours.slice(g * group, (g + 1) * group).reduce((sum, row) => sum + row[p], 0) / group;
          parts.forEach((part, p) => {
            if (part !== null)
              expect(Math.abs(mean(p) - (part / 1e5) * largest), `head ${g}, position ${p}`).toBeLessThan(
                1e-4 * largest,
              );
          });
        }
      });
  },
);
test.each(kinds)("%s: Finch after a delimiter keeps what it keeps by the question's length", async (kind) => {
  const { model, ids } = models.get(kind)!,
    asked = reference.question,
    delimiter = model.tokenizer.decode(ids.slice(-asked - 6, -asked)),
    keptBy = async (options: object) =>
      (await generate(model, { ids, policy: policyOf('finch', options), budget: 120, maxNewTokens: 0 })).report.kept;
  expect(await keptBy({ question: 64, delimiter })).toEqual(await keptBy({ question: asked }));
});
test.each(kinds)('%s: calibrated filters are those of a singular value decomposition', async (kind) => {
  const ours = readQFilters((await models.get(kind)!.model.sidecar(Q_FILTERS_FILE))!);
  reference.kinds[kind].filters.forEach((heads, l) =>
    heads.flat().forEach((x, i) => expect(Math.abs(ours[l].filters[i] - x)).toBeLessThan(1e-4)),
  );
});
