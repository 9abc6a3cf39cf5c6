/** The inputs that are kept: few and small, with the coverage of all fuzzing so far. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import names from './names.mjs';
import { tracer } from './tracer.mjs';

const committed = join(import.meta.dirname, 'corpus');
/** Inputs of one target that are committed. */
const MOST = 40;

const filesOf = (folder) =>
  existsSync(folder)
    ? readdirSync(folder)
        .sort()
        .map((file) => [file, new Uint8Array(readFileSync(join(folder, file)))])
    : [];

/** Returns the committed inputs of a target, by name. */
export const corpusOf = (target) => filesOf(join(committed, target));

/** Chooses the inputs to commit from the findings: those that add the most coverage first, small ones before large. */
export async function minimised(script, places, work, chosen) {
  const counters = new Uint8Array(places);
  globalThis.Fuzzer = tracer((place) => void (counters[place] = 1));
  const { targets, verdictOf } = await import(pathToFileURL(script));
  for (const name of chosen.length > 0 ? chosen : names) {
    const all = [];
    for (const [file, bytes] of filesOf(join(work, name))) {
      counters.fill(0);
      const verdict = await verdictOf(targets[name], bytes).catch(() => undefined);
      if (verdict !== undefined)
        all.push({ file, bytes, went: [...counters.keys()].filter((place) => counters[place] === 1) });
    }
    const been = new Set();
    const kept = [];
    while (kept.length < MOST) {
      let best;
      for (const input of all) {
        const adds = input.went.filter((place) => !been.has(place)).length;
        const worth = adds / (64 + input.bytes.length);
        if (adds > 0 && worth > (best?.worth ?? 0)) best = { input, worth };
      }
      if (best === undefined) break;
      kept.push(best.input);
      for (const place of best.input.went) been.add(place);
    }
    rmSync(join(committed, name), { recursive: true, force: true });
    mkdirSync(join(committed, name), { recursive: true });
    for (const { file, bytes } of kept) writeFileSync(join(committed, name, file), bytes);
    console.log(
      `${name}: ${kept.length} of ${all.length} inputs, ${kept.reduce((sum, { bytes }) => sum + bytes.length, 0)} bytes`,
    );
  }
}
