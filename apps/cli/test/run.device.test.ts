import { existsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { folder, kv } from './terminal.ts';
import { writeTinyModel } from '@kv/model-testing';
import { inTurn } from '@kv/model-testing/in-turn';

const PACKAGES = fileURLToPath(new URL('../../../packages/engine-webgpu', import.meta.url)),
  SWIFTSHADER = '/usr/lib/chromium/vk_swiftshader_icd.json'; // of Debian's package chromium
if (!process.env['VK_ICD_FILENAMES'] && existsSync(SWIFTSHADER)) process.env['VK_ICD_FILENAMES'] = SWIFTSHADER;
process.env['XDG_RUNTIME_DIR'] ??= tmpdir();
const icd = process.env['VK_ICD_FILENAMES'],
  adapter = icd !== undefined || process.env['KV_REQUIRE_GPU'] === '1';

let cwd: string, model: string;
beforeAll(() => {
  cwd = folder();
  model = writeTinyModel(join(cwd, 'tiny'));
});
afterEach(() => {
  delete process.env['KV_GPU_MODELS'];
  if (icd !== undefined) process.env['VK_ICD_FILENAMES'] = icd;
});
const TEXT = 'It was a bright cold day in April, and the clocks were striking thirteen.';
// the CPU stores 8 bits unless told otherwise, where it multiplies stored weights
const run = (...args: string[]): ReturnType<typeof kv> =>
  kv(
    [
      'run',
      '--model',
      model,
      '--cache',
      'f32',
      '--prompt',
      TEXT,
      '--policy',
      'snapkv(window=8,kernel=5)',
      '--budget',
      '25%',
      '--max-new-tokens',
      '4',
      '--json',
      ...args,
    ],
    { cwd },
  );
interface Said {
  readonly engine: string;
  readonly tokens: number[];
  readonly kept: number[][][];
}

describe('--device', () => {
  it('is one of three words, and not webgpu with --engine', async () => {
    expect((await run('--device', 'cuda')).stderr.trim()).toBe(
      "--device: must be 'webgpu' or 'cpu' or 'auto', got 'cuda'",
    );
    expect((await run('--device', 'webgpu', '--engine', 'f32')).stderr.trim()).toBe(
      '--engine: expected none with --device webgpu, since it says what multiplies on the CPU, got f32',
    );
  });
  it('webgpu is refused where only the CPU will do', async () => {
    const refused = async (...args: string[]): Promise<string> =>
      (await run('--device', 'webgpu', ...args)).stderr.trim();
    expect(await refused('--certify')).toBe(
      '--device: expected cpu or auto, since --certify looks at attention and scores, which stay on a GPU, got webgpu',
    );
    expect(await refused('--policy', 'taFast(anchors=learned)')).toMatch(
      /^--device: expected cpu or auto, since '.*' reads hidden states, which stay on a GPU, got webgpu$/,
    );
  });
  it('webgpu says in one sentence what is not installed', async () => {
    process.env['KV_GPU_MODELS'] = cwd; // they are next to kv in a clone that has all
    const { code, stdout, stderr } = await run('--device', 'webgpu');
    expect([code, stdout, stderr.trim()]).toEqual([
      2,
      '',
      `--device webgpu: expected @kv/engine-webgpu to be installed (npm install @kv/engine-webgpu webgpu), it was not found from ${cwd}`,
    ]);
  });
  it('auto is the CPU where nothing is installed', async () => {
    process.env['KV_GPU_MODELS'] = cwd;
    expect((JSON.parse((await run()).stdout) as Said).engine).not.toContain('webgpu');
  });
  describe.skipIf(!adapter)('with the GPU packages', () => {
    it('webgpu says and keeps what the CPU does, and names the adapter; auto takes no software adapter', async () => {
      process.env['KV_GPU_MODELS'] = PACKAGES;
      const [gpu, cpu, auto] = [await run('--device', 'webgpu'), await run('--device', 'cpu'), await run()];
      expect([gpu.code, gpu.stderr, cpu.stderr, auto.stderr]).toEqual([0, '', '', '']);
      const [onGpu, onCpu, chosen] = [gpu, cpu, auto].map(({ stdout }) => JSON.parse(stdout) as Said) as [
        Said,
        Said,
        Said,
      ];
      expect([onGpu.tokens, onGpu.kept]).toEqual([onCpu.tokens, onCpu.kept]);
      expect(onGpu.engine).toMatch(/^webgpu, ./);
      expect([onCpu.engine, chosen.engine]).not.toContain(onGpu.engine);
      expect(chosen.engine).toBe(onCpu.engine);
    });
    const turn = inTurn(['document', 'chat'], 2);
    it.runIf(turn.includes('document'))(
      'webgpu saves the cache of a document, read in blocks, in a file that the CPU goes on with',
      async () => {
        process.env['KV_GPU_MODELS'] = PACKAGES;
        writeFileSync(join(cwd, 'document.txt'), TEXT.repeat(3));
        const about = (device: string, ...args: string[]): ReturnType<typeof kv> =>
          kv(
            [
              'run',
              '--device',
              device,
              '--model',
              model,
              '--cache',
              'f32',
              '--question',
              ' What?',
              '--policy',
              'streaming(sinks=2)',
              '--every',
              '2',
              '--max-new-tokens',
              '3',
              '--json',
              ...args,
            ],
            { cwd },
          );
        const given = ['--document', 'document.txt', '--budget', '12', '--block', '10', '--save-cache'],
          [first, other] = [await about('webgpu', ...given, 'gpu.kv'), await about('cpu', ...given, 'cpu.kv')],
          again = await about('cpu', '--load-cache', 'gpu.kv', '--budget', '12');
        expect([first.stderr, other.stderr, again.stderr]).toEqual(['', '', '']);
        const [onGpu, onCpu, loaded] = [first, other, again].map(
          ({ stdout }) => JSON.parse(stdout) as { readonly answers: object; readonly kept: object },
        );
        expect(onGpu).toEqual(onCpu);
        expect(loaded.kept).toEqual(onGpu.kept);
      },
    );
    it.runIf(turn.includes('chat'))('webgpu talks past an eviction as the CPU does', async () => {
      process.env['KV_GPU_MODELS'] = PACKAGES;
      const talk = (device: string): ReturnType<typeof kv> =>
        kv(
          [
            'chat',
            '--device',
            device,
            '--model',
            model,
            '--cache',
            'f32',
            '--policy',
            'streamingRerotated',
            '--budget',
            '16',
            '--every',
            '3',
            '--max-new-tokens',
            '7',
            '--save',
            `${device}.kv`,
          ],
          { cwd, lines: ['one two three four five', 'six'] },
        );
      const [gpu, cpu] = [await talk('webgpu'), await talk('cpu')];
      expect([gpu.code, gpu.stdout]).toEqual([cpu.code, cpu.stdout]);
      expect(gpu.engine).toMatch(/^webgpu, ./);
    });
    it('webgpu without an adapter is one sentence, auto the CPU', async () => {
      Object.assign(process.env, { KV_GPU_MODELS: PACKAGES, VK_ICD_FILENAMES: join(cwd, 'none.json') });
      const { code, stderr } = await run('--device', 'webgpu');
      expect([code, stderr.trim().split('\n')]).toEqual([
        2,
        [expect.stringMatching(/^gpu: no WebGPU adapter was found: install a Vulkan driver/)],
      ]);
      expect((JSON.parse((await run()).stdout) as Said).engine).not.toContain('webgpu');
    });
  });
});
