import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { LayerCache } from '../src/cache/layer-cache.ts';
import { Ledger } from '../src/ledger.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** ArrayBuffer bytes of the process once what can be freed is freed. */
function processBytes(): number {
  collect();
  collect();
  return process.memoryUsage().arrayBuffers;
}

const within5 = (got: number, want: number): void => {
  expect(Math.abs(got - want)).toBeLessThanOrEqual(0.05 * want);
};

test('the ledger agrees with the process at 16,384 tokens: filled, forked, evicted to a quarter, destroyed', () => {
  const [layers, heads, d, n, block] = [8, 2, 32, 16_384, 512];
  const ledger = new Ledger();
  const start = processBytes();
  const caches = Array.from({ length: layers }, () => new LayerCache(heads, d, ledger));
  const part = new Float32Array(heads * block * d);
  for (let at = 0; at < n; at += block)
    for (const cache of caches)
      cache.append(
        part,
        part,
        Uint32Array.from({ length: block }, (_, i) => at + i),
      );
  const live = layers * heads * n * 4 * (2 * d + 1);
  expect(ledger.live).toBe(live);
  expect(ledger.allocated).toBeLessThanOrEqual(1.25 * live);
  within5(processBytes() - start, ledger.allocated);

  const own = new Ledger();
  const forks = caches.map((cache) => cache.fork(own));
  expect(own.allocated).toBe(live);
  within5(processBytes() - start, ledger.allocated + own.allocated);

  const quarter = Uint32Array.from({ length: n / 4 }, (_, i) => 4 * i);
  for (const cache of caches) cache.keep([quarter, quarter]);
  expect(ledger.allocated).toBe(live / 4);
  expect(ledger.live).toBe(live / 4);
  within5(processBytes() - start, ledger.allocated + own.allocated);

  for (const cache of [...caches, ...forks]) cache.destroy();
  expect([ledger.allocated, own.allocated]).toEqual([0, 0]);
  expect(processBytes() - start).toBeLessThan(0.05 * live);
});
