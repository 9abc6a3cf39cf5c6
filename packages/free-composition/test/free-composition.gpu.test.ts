import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, expect, test } from 'vitest';
import { compile } from '@kv/core';
import { openGpu } from '@kv/gpu';
import type { Gpu } from '@kv/gpu';
import { covering } from './free/cover.ts';
import { decide } from './free/laws.ts';
import type { Decision } from './free/laws.ts';
import { eventOf, labelOf } from './free/rows.ts';
import { comparableSceneOf } from './free/scenes.ts';
import { shaken, shakenScene } from './free/tie.ts';

const SWIFTSHADER = '/usr/lib/chromium/vk_swiftshader_icd.json'; // of Debian's package chromium
/** A device, or undefined where there is none; with KV_REQUIRE_GPU=1 that is a failure. */
async function device(): Promise<Gpu | undefined> {
  if (!process.env['VK_ICD_FILENAMES'] && existsSync(SWIFTSHADER)) process.env['VK_ICD_FILENAMES'] = SWIFTSHADER;
  process.env['XDG_RUNTIME_DIR'] ??= tmpdir();
  try { return await openGpu(); } catch (error) {
    if (process.env['KV_REQUIRE_GPU'] === '1') throw error;
    console.log(`GPU tests are skipped: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}
const gpu = await device();
afterAll(() => {
  gpu?.destroy();
  if (gpu) expect(gpu.ledger).toMatchObject({ live: 0, allocated: 0, buffers: 0 });
});

const setsOf = ({ layers, visible }: Decision): readonly string[] => (visible ?? layers.map((l) => l.kept)).flatMap((rows, l) => rows.map((set, r) => `layer ${l}, row ${r}: ${set.join(' ')}`));
const TRIES = 40;

test.skipIf(!gpu)('any two choices that types admit keep on the device what they keep on the CPU', async () => {
  const { rows, sets: pairs } = covering(2), wrong: string[] = [], count = { sets: 0, ties: 0, tied: 0 };
  for (const [i, row] of rows.entries()) {
    const layers = compile(eventOf(row)).reach === 'model' ? 2 : 1; // the device's time goes by dispatches, and one layer says as much
    const scene = comparableSceneOf(i, layers), here = setsOf(await decide(row, scene)), there = setsOf(await gpu!.scope((scope) => decide(row, scene, scope)));
    const odd = there.filter((set, at) => set !== here[at]), near = new Set<string>();
    for (let seed = 1; seed <= TRIES && odd.some((set) => !near.has(set)); seed++) for (const set of setsOf(await decide(row, shakenScene(scene, seed), undefined, shaken(seed)))) near.add(set);
    const off = odd.filter((set) => !near.has(set));
    if (off.length > 0) wrong.push(`${labelOf(row)}, scene ${i}: the device keeps ${off.join('; ')}, the CPU ${off.map((set) => here[there.indexOf(set)]).join('; ')}`);
    count.sets += here.length;
    count.ties += odd.length;
    count.tied += Number(odd.length > 0);
  }
  console.log(`${gpu!.name}: ${rows.length} compositions, which hold each of the ${pairs} pairs of choices that types admit; ${count.sets} sets, ${count.ties} of them (in ${count.tied} compositions) different by a tie`);
  expect(wrong).toEqual([]);
}, 600_000);
