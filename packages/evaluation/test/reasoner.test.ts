import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadModel } from '@kv/models';
import { generateProblems } from '@kv/tasks';
import { expect, it } from 'vitest';
import { cellExperiment, here, readProtocol, readSweep, runExperiment, sweepTasks } from '../src/index.ts';
import { cellsOf } from '../src/cells/experiment.ts';
import { folder as temporary } from './folder.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url)),
  folder = `${root}packages/model-reasoner`;

it('works out chains with the full cache, and no chain with 64 slots', async () => {
  const model = await loadModel(folder),
    { encode } = model.tokenizer,
    problems = generateProblems('chain', { encode, sentences: [], tokens: 384, problems: 6, seed: 1 }),
    arms = [
      { policy: 'full', budgets: [1] },
      { policy: 'tova', budgets: [64] },
      // by the statistics stored next to the weights
      { policy: 'triattention', budgets: [64] },
    ],
    tasks = { chain: problems },
    cells = await cellsOf(
      arms,
      problems.map(({ id }) => ({ task: 'chain', id })),
      [0],
      undefined,
    ),
    policies = arms.map(({ policy }) => policy),
    results = (await runExperiment(
      await cellExperiment(model, { name: 'cells', tasks, generation: { every: 32 }, policies, cells }),
      { start: here({ model }), size: 1 },
    ))!; // nothing aborts it
  const right = (policy: string): number =>
    results.filter((cell) => cell.policy === policy).reduce((sum, { score }) => sum + score, 0);
  expect(right('full')).toBe(6);
  expect(right('tova')).toBe(0);
  expect(right('triattention')).toBe(0);
  for (const { policy, tokens } of results) if (policy === 'full') expect(tokens).toBeGreaterThan(200);
});
it("has its card's figures from the committed sweep", () => {
  const [head, ...rows] = readFileSync(`${root}studies/chains/card.csv`, 'utf8').trim().split('\r\n'),
    at = (name: string): number => head.split(',').indexOf(name),
    card = readFileSync(`${folder}/README.md`, 'utf8');
  for (const row of rows) {
    const cells = row.split(','),
      share = Number(cells[at('accuracy')]);
    expect(cells[at('samples')]).toBe('500');
    if (cells[at('policy')] === 'full') expect(share).toBeGreaterThanOrEqual(0.95);
    else expect(share).toBeLessThan(0.5);
    expect(card.replace(/ +/g, ' ')).toContain(
      `| \`${cells[at('policy')]}\` | ${cells[at('budget')] || 'all'} | ${(100 * share).toFixed(1)} % |`,
    );
  }
});

it.each(['alpha', 'alpha-snapkv', 'alpha-triattention'])(
  'has its chains as a plan of kv protocol, %s',
  async (name) => {
    const study = join(root, 'studies/chains'),
      { encode } = (await loadModel(folder)).tokenizer,
      [into, text] = [temporary(), readFileSync(join(study, `${name}.json`), 'utf8')],
      { tasks } = JSON.parse(text) as { tasks: string },
      seed = Number(/^problems-(\d)\.jsonl$/.exec(tasks)?.[1]),
      problems = generateProblems('chain', { encode, sentences: [], tokens: 384, problems: 500, seed });
    writeFileSync(join(into, 'plan.json'), text);
    writeFileSync(join(into, tasks), problems.map((problem) => JSON.stringify(problem)).join('\n'));
    const { plan, problems: read, dev, confirm } = readProtocol(join(into, 'plan.json'), 'plan.json');
    expect(dev.length + confirm.length).toBe(500);
    expect(dev.length).toBeGreaterThanOrEqual(150);
    const policies = [
      plan.base,
      ...plan.lambdas.map((lambda) => plan.candidate.replaceAll('{lambda}', String(lambda))),
    ];
    if (name === 'alpha') {
      const path = join(study, 'confirm.json'),
        sweep = readSweep(path, 's');
      expect([dev.length, confirm.length]).toEqual([201, 299]);
      expect(read).toEqual(Object.values(await sweepTasks(sweep, path, encode))[0]);
      for (const policy of policies) expect(sweep.policies).toContain(policy);
    }
    // a weight of 0 is the base
    expect(plan.candidate.replaceAll('{lambda}', '0')).toBe(plan.base);
  },
);
