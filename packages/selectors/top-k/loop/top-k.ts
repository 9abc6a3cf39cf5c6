// @ts-nocheck: AssemblyScript, not TypeScript
// Top-k inside a view. Rebuild: `node packages/cpu/scripts/build-kernel.mjs`.

import { above, all, border, finite } from "../../../cpu/kernel/largest";
import { budgetOf, countOf, fail, firstForced, kvHeadOf, lastForced, lengthOf, listOf, scoresOf, slotsBelow, slotsOf, strideOf } from "../../../cpu/kernel/view";

export function choose(view: usize, own: usize, row: usize, scratch: usize): void {
  const g = kvHeadOf(view, row), n = slotsOf(view, g), list = listOf(view, row), length = lengthOf(view);
  const from = slotsBelow(view, g, firstForced(view)), to = max<usize>(from, slotsBelow(view, g, length - min<usize>(lastForced(view), length)));
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
