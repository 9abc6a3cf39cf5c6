import { slotBytes, commonHeads } from '@kv/engine';
import { loadModel } from '@kv/models';
import type { CacheUsage } from '@kv/models';
import { describe, expect, it } from 'vitest';
import { fixture } from '@kv/model-testing/fixture';
import { folder, kv } from './terminal.ts';

/** The used part of what `--json` prints. */
interface Printed {
  readonly engines: readonly {
    readonly name: string;
    readonly engine: string;
    readonly speed: readonly { readonly tokens: number; readonly turns: readonly Record<string, number>[] }[];
    readonly events: readonly { readonly policy: string; readonly turns: readonly Record<string, number>[] }[];
    readonly cache: CacheUsage;
  }[];
  readonly skipped: readonly { readonly name: string; readonly why: string }[];
}
const short = ['--tokens', '80,64', '--decode', '2', '--policies', 'knorm', '--policy', 'snapkv(window=8)'];

describe('kv bench', () => {
  it('measures every engine that is here, and names those that are not', async () => {
    const { code, stdout } = await kv(['bench', 'embedded', ...short, '--turns', '2', '--json'], { cwd: folder() });
    expect(code).toBe(0);
    const { engines, skipped } = JSON.parse(stdout) as Printed;
    expect([...engines, ...skipped].map(({ name }) => name).toSorted()).toEqual([
      'f32',
      'fast',
      'onnx',
      'peer',
      'webgpu',
    ]);
    expect(skipped.find(({ name }) => name === 'peer')?.why).toContain('node-llama-cpp');
    expect(new Set(engines.map(({ engine }) => engine)).size).toBe(engines.length);
    const model = await loadModel('embedded'),
      { layers } = model.config,
      { kvHeads, headDim } = commonHeads(model.config);
    model.destroy();
    for (const { speed, events, cache } of engines) {
      expect(speed.map(({ tokens, turns }) => [tokens, turns.length])).toEqual([
        [64, 2],
        [80, 2],
      ]);
      expect(events.map(({ turns }) => turns.length)).toEqual([2, 2]);
      for (const number of [...speed, ...events].flatMap(({ turns }) => turns.flatMap((turn) => Object.values(turn))))
        expect(number).toBeGreaterThan(0);
      // the longest prompt and both steps after it
      expect(cache.peakBytes).toBe((80 + 2) * cache.bytesPerToken);
      expect(cache.bytesPerToken).toBe(layers * kvHeads * slotBytes(cache.form, headDim));
    }
  });
  it('prints tables of what it was asked for', async () => {
    const { code, stdout } = await kv(['bench', 'embedded', ...short, '--turns', '1', '--engines', 'fast']);
    expect(code).toBe(0);
    expect(stdout.replaceAll('\n', ' ')).toContain('median (least-most) of 1 turns');
    expect(stdout).toMatch(/^fast +64 +\d+ +\d+\.\d$/m);
    expect(stdout).toMatch(/^fast +knorm.* \d+\.\d\d +\d+\.\d$/m);
    expect(stdout).toMatch(/^fast is \S/m);
    expect(stdout).not.toMatch(/^f32 /m);
    expect(stdout).toMatch(/^fast +(f32|q8) +\d+,\d+ +[\d.]+ [KM]iB/m);
    expect(stdout).not.toContain('and states');
    const states = await kv([
      'bench',
      fixture('qwen3_5'),
      ...short,
      '--tokens',
      '64',
      '--turns',
      '1',
      '--engines',
      'fast',
    ]);
    expect(states.stdout).toMatch(/^fast +q8 +240 +19\.2 KiB +23\.6 KiB/m);
  });
  it.each([
    [['--tokens', '64,5000'], '--tokens: expected lengths of at most '],
    [['--tokens', '3'], '--tokens: must be a whole number of tokens of at least 64, got 3'],
    [['--turns', '0'], '--turns: must be a positive whole number of times, got 0'],
    [['--engines', 'fast,slow'], "--engines: must be 'fast' or 'f32' or 'onnx' or 'webgpu' or 'peer', got 'slow'"],
    [['--policies', 'nothing-like-it'], 'nothing-like-it'],
    [['--peer', '.'], '--peer: expected a folder with node-llama-cpp'],
    [['--text', 'missing.txt'], 'missing.txt: cannot be read'],
  ])('%j is one sentence', async (args, says) => {
    const { code, stderr } = await kv(['bench', 'embedded', ...args], { cwd: folder() });
    expect(code).toBe(2);
    expect(stderr).toContain(says);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });
  it('needs a model', async () => {
    const { code, stderr } = await kv(['bench']);
    expect([code, stderr.trim().split('\n').length]).toEqual([2, 1]);
    expect(stderr).toContain('model');
  });
});
