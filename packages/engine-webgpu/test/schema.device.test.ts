import { generate } from '@kv/models';
import { expect } from 'vitest';
import { gpuTests } from './device.ts';
import { both } from './sequences.ts';

const gpuTest = await gpuTests(),
  CODES = ['XK7M', '9P2Q', 'Z4'];

gpuTest('answers fit a schema on the device too: greedy as on the host, and drawn there', (gpu) =>
  both(gpu, 'embedded', async (host, device) => {
    const asked = {
      prompt: 'The code is: XK7M9P2Q. The code is:',
      schema: { enum: CODES },
      maxNewTokens: 30,
    };
    const greedy = await generate(device, asked),
      drawn = await generate(device, { ...asked, temperature: 1.5, seed: 3 });
    expect(greedy.tokens).toEqual((await generate(host, asked)).tokens);
    for (const { text, report } of [greedy, drawn])
      expect([CODES, 'eos']).toEqual([expect.arrayContaining([JSON.parse(text)]), report.finish]);
  }),
);
