import { execFileSync } from 'node:child_process';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { choiceReport } from '../src/choose/report/html.ts';
import { useLines } from '../src/choose/report/lines.ts';
import { frontierOf, lossPicture } from '../src/choose/report/picture.ts';

const point = fc.record({
    bytes: fc.integer({ min: 1, max: 10 ** 9 }),
    loss: fc.double({ min: -1, max: 1, noNaN: true }),
  }),
  points = fc.array(point, { minLength: 1, maxLength: 60 });

test('the frontier is what nothing beats: as few bytes and less loss, or fewer bytes and as little', () =>
  fc.assert(
    fc.property(points, (all) => {
      const best = frontierOf(all),
        beaten = (p: (typeof all)[number]): boolean =>
          all.some((q) => q.bytes <= p.bytes && q.loss <= p.loss && (q.bytes < p.bytes || q.loss < p.loss));
      expect(best.some(beaten)).toBe(false);
      for (const p of all)
        if (!beaten(p)) expect(best.some((q) => q.bytes === p.bytes && q.loss === p.loss)).toBe(true);
    }),
  ));

test('a picture fits its width, shows the choice once, and its marks stand where the numbers say', () =>
  fc.assert(
    fc.property(points, fc.nat(), fc.integer({ min: 30, max: 160 }), (all, at, width) => {
      const chosen = all[at % all.length],
        full = Math.max(...all.map(({ bytes }) => bytes)),
        lines = lossPicture(all, { chosen, full, width }).split('\n'),
        rows = lines.slice(1, -2).map((line) => line.slice(line.indexOf('|') + 1));
      for (const line of lines) expect(line.length).toBeLessThanOrEqual(width);
      const marks = rows.flatMap((row, y) => [...row].flatMap((mark, x) => (mark === ' ' ? [] : [{ mark, x, y }]))),
        here = marks.filter(({ mark }) => mark === '#');
      expect(here).toHaveLength(1);
      expect(marks.length).toBeLessThanOrEqual(all.length + 1);
      const [{ x, y } = { x: -1, y: -1 }] = here,
        [least, most] = [Math.min, Math.max].map((of) => of(0, ...all.map(({ loss }) => loss)));
      if (chosen!.loss === least) expect(y).toBe(rows.length - 1);
      if (chosen!.loss === most && most! > 0.01) expect(y).toBe(0);
      if (chosen!.bytes === full) expect(x).toBe(Math.max(...marks.map((one) => one.x)));
    }),
  ));

const POLICIES = [
  'snapkv(window=16,kernel=17,pooling=max) | caote | topK',
  'taFast',
  'streaming(sinks=4)',
  'finch(question=8,delimiter="it\'s | a \\"$HOME\\" `x`")',
  'knorm | topK | levels(q8=0.25,q4=0.75)',
];
test.each(POLICIES)('the lines give %s to a shell and to JavaScript as it is', async (policy) => {
  const name = "my model's.gguf",
    lines = useLines({ policy, budget: '25%', share: 0.25 }, name, 1000),
    line = (where: string): string => lines.find((one) => one.where === where)?.line ?? '';
  const words = execFileSync('sh', ['-c', `kv() { printf '%s\\0' "$@"; }; ${line('kv serve')}`], { encoding: 'utf8' });
  expect(words.split('\0').slice(0, -1)).toEqual(['serve', '--model', name, '--policy', policy, '--budget', '25%']);
  const called: unknown[] = [];
  await runInNewContext(`(async () => { ${line('generate')} })()`, {
    prompt: 'p',
    loadModel: async (of: string) => of,
    generate: async (...args: unknown[]) => called.push(...args),
  });
  expect(called).toEqual([name, { prompt: 'p', policy, budget: '25%' }]);
});

test('bytes are slots to engines that count no bytes, and what they cannot run is a reason', () => {
  const [, , transformers, llama] = useLines({ policy: 'streaming', budget: '64MiB', share: 0.25 }, 'm', 1000);
  expect([transformers?.line, llama?.line]).toEqual([
    "await withPolicy(loaded, { policy: 'streaming', budget: 250 })",
    "await retainTokens(sequence, { policy: policy('streaming'), budget: 250 })",
  ]);
  const [, , kept, none] = useLines({ policy: 'snapkv', budget: 512, share: 0.25 }, 'm', 1000);
  expect(kept?.line).toContain("policy: 'snapkv', budget: 512, source");
  expect(none).toMatchObject({ where: 'node-llama-cpp', why: expect.stringContaining('attention') });
});
