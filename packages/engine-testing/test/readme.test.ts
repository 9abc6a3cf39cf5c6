import * as checkpoints from '@kv/checkpoints';
import * as engine from '@kv/engine';
import { blocksOf, runBlock } from '@kv/model-testing/readme';
import { expect, test } from 'vitest';

test("the lines of the engine's README pass tokens through a decoder", async () => {
  const [block] = blocksOf(new URL('../../engine/README.md', import.meta.url)),
    { logits, config } = await runBlock(block, { '@kv/checkpoints': checkpoints, '@kv/engine': engine }, [
      'logits',
      'config',
    ]);
  expect(logits).toHaveLength((config as checkpoints.ModelConfig).vocab);
});
