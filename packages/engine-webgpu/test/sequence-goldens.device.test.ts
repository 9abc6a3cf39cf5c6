import { isDeepStrictEqual } from 'node:util';
import { inTurn } from '@kv/model-testing/in-turn';
import { policy as policyOf } from '@kv/policies';
import { expect } from 'vitest';
import { gpuTests } from './device.ts';
import { golden } from './goldens.ts';
import { both, hostScores, json, onDevice, relative, ties } from './sequences.ts';

/** KV_FULL=1 runs every golden policy at both ratios, of all three models. */
const FULL = process.env['KV_FULL'] === '1';
const gpuTest = await gpuTests();
interface Golden {
  readonly ids: number[];
  readonly policies: Readonly<
    Record<
      string,
      { readonly kept: number[][][]; readonly greedy16: number[]; readonly greedy16_last_logits_first32: number[] }
    >
  >;
}

const options: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  streaming: { sinks: 4 },
  snapkv: { window: 16, kernel: 5 },
  pyramidkv: { window: 16, kernel: 5 },
  chunkkv: { size: 10, window: 16, kernel: 5 },
  criticalkv: { window: 16, kernel: 5 },
  lagkv: { sinks: 4, lag: 32 },
};
const names = FULL
  ? [
      'streaming',
      'knorm',
      'snapkv',
      'tova',
      'meanAttention',
      'pyramidkv',
      'keydiff',
      'lagkv',
      'cur',
      'chunkkv',
      'criticalkv',
    ]
  : inTurn(['knorm', 'snapkv', 'criticalkv'], 3);
/** Names of the goldens that differ from ours. */
const goldenNames: Readonly<Record<string, string>> = { criticalkv: 'criticalkv_snapkv', meanAttention: 'observed' };
/** Whose scores say what ties: those of SnapKV under other budgets. */
const scorer: Readonly<Record<string, string>> = { pyramidkv: 'snapkv', chunkkv: 'snapkv' };

for (const kind of FULL ? ['llama', 'qwen2', 'qwen3'] : ['llama'])
  gpuTest(`goldens of ${kind}: kept sets, tokens and logits are kvpress'`, (gpu) =>
    both(gpu, golden(kind), async (host, device) => {
      const { ids, policies: wanted } = json<Golden>(`${golden(kind)}/golden.json`),
        lines: string[] = [];
      for (const name of names)
        for (const ratio of FULL ? [0.5, 0.75] : [0.5]) {
          const want = wanted[`${goldenNames[name] ?? name}_${ratio}`];
          if (kind === 'qwen2' && name === 'criticalkv') continue; // kvpress cannot read its configuration
          const policy = policyOf(name, options[name]),
            budget = Math.floor(240 * (1 - ratio));
          const got = await onDevice(
            gpu,
            device,
            { ids, policy, budget, maxNewTokens: 16, logits: 1 },
            ({ events = 0 }) => events + 1,
          ); // the last token is fed too
          const scores = isDeepStrictEqual(got.report.kept, want.kept)
            ? []
            : await hostScores(host, ids, policyOf(scorer[name] ?? name, options[scorer[name] ?? name]));
          const tied = ties(got.report.kept, want.kept, (l, g) => scores[l]?.[g]);
          lines.push(`${name}_${ratio}: ${want.kept.flat().length - tied} sets equal, ${tied} ties`);
          if (tied > 0) continue;
          expect(got.tokens, name).toEqual(want.greedy16);
          expect(relative(got.logits![0].subarray(0, 32), want.greedy16_last_logits_first32), name).toBeLessThan(1e-4);
        }
      console.log(`${kind} on ${gpu.name}: ${lines.join('; ')}`);
    }),
  );
