import { hide, id, positions } from '@kv/core';
import type { Piece } from '@kv/core';
import { compile } from '@kv/core/engine';
import { parseConfig } from '@kv/checkpoints';
import { slotBytes } from '@kv/engine';
import type { CacheForm } from '@kv/engine';
import { planGpu } from '@kv/gpu';
import { expect, test } from 'vitest';
import { shapeCosts } from '../src/index.ts';

const [layers, G, d] = [2, 2, 8],
  config = parseConfig(
    {
      model_type: 'llama',
      hidden_act: 'silu',
      num_hidden_layers: layers,
      hidden_size: 32,
      intermediate_size: 64,
      num_attention_heads: 4,
      num_key_value_heads: G,
      vocab_size: 99,
      max_position_embeddings: 4096,
      rms_norm_eps: 1e-5,
    },
    'small',
  );
const n = 200,
  slots = n + 2;
/** Bytes that the second token after n tokens moves. */
async function bytes(policy: Piece, form?: CacheForm): Promise<number> {
  const costs = await shapeCosts(planGpu(), config, form);
  const { bytes: moved } = await costs.token(compile(policy), n);
  costs.destroy();
  return moved;
}

test('a token reads keys, values and positions of the slots that bounds of views leave it, and no others', async () => {
  const recent = hide('recent', { source: 'this test', says: 'The last 20.', during: 'both' }, () => ({
    sinks: 4,
    lower: (t) => t - 19,
  }));
  const pair = 8; // of positions, uploaded
  expect((await bytes(id)) - (await bytes(recent()))).toBe(layers * (G * (slots - 24) * 4 * (2 * d + 1) - pair));
});

test('a token reads keys and values of as many slots as its view chooses', async () => {
  const marked = hide(
    'marked',
    { source: 'this test', says: 'The last 8.', needs: [positions], during: 'decode' },
    (cell) => ({ mask: cell.ops.lastSlots(cell.positions, 8) }),
  )();
  const chooses = { loops: [], budget: 8, dense: 0 },
    chosen = { ...marked, atoms: marked.atoms.map((atom) => ({ ...atom, chooses })) } as typeof marked;
  const shown = 2 * 8 + 1; // of two query heads, and its own
  expect((await bytes(marked)) - (await bytes(chosen))).toBe(layers * G * (slots - shown) * 4 * 2 * d);
});

test('a token reads slots, and writes its own, in the bytes of their stored form', async () => {
  for (const form of ['f16', 'q8'] as const)
    expect((await bytes(id)) - (await bytes(id, form))).toBe(
      layers * G * (slots + 1) * (slotBytes('f32', d) - slotBytes(form, d)),
    );
});

test('a token reads the weights of its own experts alone, a prompt those of all that its rows may choose', async () => {
  const hidden = 32,
    width = 16;
  /** Bytes moved by a prompt and by the token after it, for a number of experts and a number of them for each token. */
  const moved = async (experts: number, active: number): Promise<number[]> => {
    const costs = await shapeCosts(
      planGpu(),
      parseConfig(
        {
          model_type: 'qwen3_moe',
          ...{ hidden_act: 'silu', num_hidden_layers: layers, hidden_size: hidden, intermediate_size: 64 },
          ...{ num_attention_heads: 4, num_key_value_heads: G, head_dim: d, vocab_size: 99 },
          ...{ num_experts: experts, num_experts_per_tok: active, moe_intermediate_size: width, norm_topk_prob: true },
          ...{ max_position_embeddings: 4096, rms_norm_eps: 1e-6 },
        },
        'small',
      ),
    );
    const found = [(await costs.prefill(n)).bytes, (await costs.token(compile(id), n)).bytes];
    costs.destroy();
    return found;
  };
  const one = 2 * 3 * width * hidden, // bytes of an expert's matrices
    scored = (rows: number): number => 2 * hidden + 2 * 4 * rows, // of one more of the router's rows, and its scores
    [[prompt, token], [morePrompt, moreToken], [, moreActive]] = [
      await moved(8, 2),
      await moved(16, 2),
      await moved(8, 3),
    ];
  expect(moreToken - token).toBe(layers * 8 * scored(1));
  const most = (experts: number): number => Math.floor((2 * n + experts * 63) / 64), // tiles that there may be
    tiles = 3 * 3 * 4 * (most(16) - most(8)); // written once, read twice
  expect(morePrompt - prompt).toBe(layers * (8 * (one + scored(n)) + tiles));
  // numbers of one more expert of a row: its number, its share, and what its matrices give and take
  const rows = 4 * (1 + 2 + 1 + 1) + 4 * (2 * width + 2 * width + width + width + hidden + hidden);
  expect(moreActive - token).toBe(layers * (one + rows));
});
