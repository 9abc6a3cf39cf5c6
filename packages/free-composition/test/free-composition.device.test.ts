import { afterAll, expect, test } from 'vitest';
import { compile } from '@kv/core/engine';
import { openGpu } from '@kv/gpu';
import { sharedGpu, timeLimit } from '@kv/gpu-testing';
import { covering, rowsOfTurn } from './free/cover.ts';
import { decide } from './free/laws.ts';
import type { Decision } from './free/laws.ts';
import { eventOf, labelOf } from './free/rows.ts';
import { comparableSceneOf } from './free/scenes.ts';
import { shaken, shakenScene } from './free/tie.ts';

const gpu = await sharedGpu(openGpu);
afterAll(() => {
  gpu?.destroy();
  if (gpu) expect(gpu.ledger).toMatchObject({ live: 0, allocated: 0, buffers: 0 });
});

const setsOf = ({ layers, visible }: Decision): readonly string[] =>
  (visible ?? layers.map((l) => l.kept)).flatMap((rows, l) =>
    rows.map((set, r) => `layer ${l}, row ${r}: ${set.join(' ')}${atLevels(layers[l]?.levels?.[r])}`),
  );
const atLevels = (levels: readonly number[] | undefined): string => (levels ? ` at ${levels.join(' ')}` : '');
/**
 * Maximum tries of perturbed scores. Scores that tie exactly across layers leave many choices; only
 * differing sets cost tries.
 */
const TRIES = 400;

test.skipIf(!gpu)(
  'choices that types admit keep on the device what they keep on the CPU',
  async () => {
    const { rows, sets: pairs } = covering(2),
      turn = rowsOfTurn(rows, 24),
      wrong: string[] = [],
      count = { sets: 0, ties: 0, tied: 0 };
    for (const [i, row] of turn) {
      const layers = compile(eventOf(row)).reach === 'model' ? 2 : 1; // device time is dominated by dispatches, and one layer suffices
      const scene = comparableSceneOf(i, layers),
        here = setsOf(await decide(row, scene)),
        there = setsOf(await gpu!.scope((scope) => decide(row, scene, scope)));
      const odd = there.filter((set, at) => set !== here[at]),
        near = new Set<string>();
      for (let seed = 1; seed <= TRIES && odd.some((set) => !near.has(set)); seed++)
        for (const set of setsOf(await decide(row, shakenScene(scene, seed), undefined, shaken(seed)))) near.add(set);
      const off = odd.filter((set) => !near.has(set));
      if (off.length > 0)
        wrong.push(
          `${labelOf(row)}, scene ${i}: the device keeps ${off.join('; ')}, the CPU ${off.map((set) => here[there.indexOf(set)]).join('; ')}`,
        );
      count.sets += here.length;
      count.ties += odd.length;
      count.tied += Number(odd.length > 0);
    }
    console.log(
      `${gpu!.name}: ${turn.length} of the ${rows.length} compositions that hold each of the ${pairs} pairs of choices that types admit; ${count.sets} sets, ${count.ties} of them (in ${count.tied} compositions) different by a tie`,
    );
    expect(wrong).toEqual([]);
  },
  2 * timeLimit,
);
