// @ts-nocheck: AssemblyScript, not TypeScript
// Top-k inside a view. Rebuild: `node packages/cpu/scripts/build-kernel.mjs`.

import { above, all, border, finite } from "../../../cpu/kernel/largest";
import { budgetOf, countOf, fail, kvHeadOf, listOf, openFrom, openTo, scoresOf, slotsOf, strideOf } from "../../../cpu/kernel/view";

export function choose(view: usize, own: usize, row: usize, scratch: usize): void {
  const g = kvHeadOf(view, row), n = slotsOf(view, g), list = listOf(view, row), from = openFrom(view, g), to = openTo(view, g, from);
  const taken = from + n - to, room = budgetOf(view) > taken ? min<usize>(budgetOf(view) - taken, to - from) : 0;
  const scores = scoresOf(view, row), left = scratch + 4 * strideOf(view);
  if (!finite(scores, n)) return fail(view, row);
  let end = all(0, from, list);
  if (room == to - from) end = all(from, to, end);
  else if (room > 0) {
    const least = border(scores + 4 * from, to - from, room, scratch, left);
    end = above(scores, from, to, least, load<u32>(left), end);
  }
  end = all(to, n, end);
  store<u32>(countOf(view, row), <u32>((end - list) >> 2));
}
