import { compile } from '@kv/core/engine';
import type { Backend } from '@kv/core';
import type { Scene } from '@kv/laws';
import { event, visible } from './play.ts';
import type { Decided } from './play.ts';
import { VIEW_BUDGET, eventOf, leastSlots, isView, labelOf, piecesOf, policyOf } from './rows.ts';
import type { Row } from './rows.ts';

/** Fails with the composition, the violated law, and the sizes of the cache. */
const claim = (holds: boolean, row: Row, scene: Scene, what: () => string): void => {
  if (!holds) throw new Error(`${labelOf(row)}: ${what()}, on ${JSON.stringify(scene.spec)}`);
};
const shown = (x: unknown): string => JSON.stringify(x);
const sum = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0);

/** Returns the slots that a head must be given: all that its pieces force, and some to choose from. */
const roomFor = (row: Row, scene: Scene): number => {
  const { slots, budget } = scene.spec;
  return Math.max(budget, leastSlots(row, slots, budget), leastSlots(row, slots, slots));
};

export interface Decision {
  readonly layers: readonly Decided[];
  readonly visible?: Awaited<ReturnType<typeof visible>>;
}
/** Returns a row's decisions on a scene: the kept slots of every layer, and for a view what is visible. */
export async function decide(
  row: Row,
  scene: Scene,
  backend?: Backend,
  between?: Parameters<typeof policyOf>[1],
): Promise<Decision> {
  const policy = policyOf(row, between);
  return isView(row)
    ? { layers: [], visible: await visible(policy, scene, backend) }
    : { layers: await event(policy, scene, roomFor(row, scene), backend) };
}

/** Checks the laws on a decision. @throws Broken */
export function judge(row: Row, scene: Scene, { layers, visible: seen }: Decision): void {
  const has = (name: string): boolean => piecesOf(row).some((p) => p.name === name);
  const whole =
    // may leave less than a unit unused
    (has('wholeUnits') || has('branchDissolution')) && compile(eventOf(row)).steps.some((s) => s.kind === 'unit');
  for (const { kept, forced, banned, budgets, lengths } of layers)
    kept.forEach((set, g) => {
      claim(
        set.every((i, at) => Number.isInteger(i) && i >= 0 && i < lengths[g] && (at === 0 || i > set[at - 1])),
        row,
        scene,
        () => `kept slots must ascend below ${lengths[g]}, got ${shown(set)}`,
      );
      claim(set.length <= budgets[g], row, scene, () => `${set.length} slots kept with a budget of ${budgets[g]}`);
      claim(
        Number.isInteger(budgets[g]) && budgets[g] <= lengths[g],
        row,
        scene,
        () => `a head of ${lengths[g]} slots has a budget of ${budgets[g]}`,
      );
      claim(
        forced[g].every((i) => set.includes(i)),
        row,
        scene,
        () => `forced are ${shown(forced[g])}, kept ${shown(set)}`,
      );
      claim(
        banned[g].every((i) => !set.includes(i)),
        row,
        scene,
        () => `banned are ${shown(banned[g])}, kept ${shown(set)}`,
      );
      const want = Math.min(budgets[g], lengths[g] - banned[g].length);
      claim(whole || set.length === want, row, scene, () => `expected ${want} slots, kept ${shown(set)}`);
    });
  const spent = sum(layers.flatMap((l) => l.budgets)),
    planned = sum(layers.flatMap((l) => l.planned));
  const asked = scene.spec.layers * scene.spec.kvHeads * roomFor(row, scene);
  claim(planned <= asked, row, scene, () => `planned are ${planned} slots`);
  // a piece that determines the size replaces the requested one; a curve uses the requested size, not the planned one
  const least = has('atLeast') ? 2 * scene.spec.layers * scene.spec.kvHeads : 0; // its slots in every head
  claim(
    spent <= (has('lukv') ? asked : planned) + least || compile(eventOf(row)).choosesBudget,
    row,
    scene,
    () => `budgets of ${planned} became ${spent}`,
  );
  // adds neighbours and its own window; determines the size
  if (has('cis') || compile(eventOf(row)).choosesBudget) return;
  for (const rows of seen ?? []) {
    const most = rows.length * Math.max(VIEW_BUDGET, compile(eventOf(row)).minSlots(scene.spec.slots, VIEW_BUDGET)),
      all = sum(rows.map((set) => set.length));
    claim(all <= most, row, scene, () => `${all} slots visible in ${rows.length} rows, the budget is ${most}`);
  }
}
