// @ts-nocheck: AssemblyScript, not TypeScript
// Top-k inside a view. Rebuild: `node packages/cpu/scripts/build-kernel.mjs`.

import { above, all, border, ordered } from "../../../cpu/kernel/largest";
import { budgetOf, countOf, fail, firstForced, lastForced, listOf, scoresOf, slotsOf, strideOf } from "../../../cpu/kernel/view";

export function choose(view: usize, own: usize, row: usize, scratch: usize): void {
  const n = slotsOf(view), list = listOf(view, row), from = min<usize>(firstForced(view), n), to = max<usize>(from, n - min<usize>(lastForced(view), n));
  const taken = from + n - to, room = budgetOf(view) > taken ? min<usize>(budgetOf(view) - taken, to - from) : 0;
  const keys = scratch, copy = keys + 4 * strideOf(view), counts = copy + 4 * strideOf(view);
  if (!ordered(scoresOf(view, row), n, keys)) fail(view, row);
  let end = all(0, from, list);
  if (room == to - from) end = all(from, to, end);
  else if (room > 0) {
    memory.copy(copy, keys + 4 * from, 4 * (to - from));
    const least = border(copy, to - from, room, counts, counts + 8192);
    end = above(keys, from, to, least, load<u32>(counts + 8192), end);
  }
  end = all(to, n, end);
  store<u32>(countOf(view, row), <u32>((end - list) >> 2));
}
