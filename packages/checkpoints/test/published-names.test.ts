/** Tensors under the names of published files, which are not always those of transformers' modules. */
import { expect, test } from 'vitest';
import { fixture } from '@kv/model-testing/fixture';
import { openCheckpoint, type Checkpoint } from '../src/load/load.ts';
import { openAltered, tensorsOf } from './altered-folder.ts';
import { denseWeights } from './dense-weights.ts';

async function numbers({ weights, config, close }: Checkpoint) {
  const layers = config.mixers.map(async ({ kind }, layer) => [
    denseWeights(await (kind === 'attention' ? weights.project(layer) : weights.convolution!(layer))),
    denseWeights(await weights.finish(layer)),
  ]);
  const all = [await Promise.all(layers), denseWeights({ embed: await weights.embed(), head: await weights.head() })];
  await close();
  return all;
}

const within = (outer: string) => (config: Readonly<Record<string, unknown>>) => ({
  model_type: outer,
  text_config: config,
});
const unseen = { dtype: 'F32', shape: [1], bytes: new Uint8Array(4) } as const,
  images = (...names: string[]) => Object.fromEntries(names.map((name) => [name, unseen]));
const mlx = (name: string): string =>
  name.replace(/^model\.language_model\./, 'language_model.model.').replace(/^model\.(?!layers|embed_tokens|norm)/, '');

test.each<
  [
    string,
    string,
    (name: string) => string,
    Record<string, typeof unseen>,
    ((config: Readonly<Record<string, unknown>>) => object)?,
  ]
>([
  [
    'gates of LFM3, as transformers saves them',
    'lfm3',
    (name) => name.replace('self_attn.g_proj', 'self_attn.gate_proj'),
    {},
  ],
  [
    'what embeds images in Gemma 4 12B',
    'gemma4-unshared',
    (name) => name,
    images('model.vision_embedder.patch_dense.weight', 'model.embed_vision.embedding_projection.weight'),
  ],
  [
    'Gemma 4, as MLX has it',
    'gemma4',
    mlx,
    images('embed_vision.a.weight', 'embed_audio.a.weight', 'audio_tower.a.weight', 'vision_tower.a.weight'),
  ],
  [
    'Gemma 3 with images, as published',
    'gemma3',
    (name) => name.replace(/^model\./, 'language_model.model.'),
    images('vision_tower.vision_model.a.weight', 'multi_modal_projector.mm_input_projection_weight'),
    within('gemma3'),
  ],
  [
    'Gemma 3 with images, as transformers 5 saves it',
    'gemma3',
    (name) => name.replace(/^model\./, 'model.language_model.'),
    images('model.vision_tower.vision_model.a.weight', 'model.multi_modal_projector.mm_soft_emb_norm.weight'),
    within('gemma3'),
  ],
])('%s', async (_, name, rename, more, change) => {
  const tensors = await tensorsOf(name),
    renamed = Object.fromEntries(Object.entries(tensors).map(([tensor, value]) => [rename(tensor), value]));
  const read = await openAltered(name, { ...renamed, ...more }, change),
    plain = await openCheckpoint(fixture(name));
  expect(read.config).toEqual(plain.config);
  expect(await numbers(read)).toEqual(await numbers(plain));
});
