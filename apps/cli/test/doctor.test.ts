import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeTinyModel } from '@kv/model-testing';
import { expect, it } from 'vitest';
import { folder, kv } from './terminal.ts';

interface Engine {
  readonly flag: string;
  readonly engine: string;
  readonly prefill?: number;
  readonly decode?: number;
}

it('kv doctor says what is here, and how fast every engine that is here runs', async () => {
  const cwd = folder(),
    model = writeTinyModel(join(cwd, 'tiny')),
    own = join(cwd, '.kv/models');
  writeTinyModel(join(own, 'checkpoint'));
  writeFileSync(join(own, 'one.gguf'), 'GGUF');
  writeFileSync(join(own, 'one.gguf.detector.safetensors'), '');
  const { code, stdout } = await kv(['doctor', '--model', model, '--json'], { cwd });
  const found = JSON.parse(stdout) as {
    engines: Engine[];
    packages: Record<string, string>;
    machine: object;
    here: object[];
  };
  expect(code).toBe(0);
  expect(found.engines.map(({ flag }) => flag)).toEqual([
    '--engine fast',
    '--engine f32',
    '--engine onnx',
    '--device webgpu',
  ]);
  for (const { engine, prefill, decode } of found.engines.slice(0, 2)) {
    expect(engine).toMatch(/wasm/);
    expect([prefill, decode].every((rate) => rate !== undefined && rate > 0)).toBe(true);
  }
  expect(found.engines[2].engine).toContain('onnxruntime-node');
  expect(found.packages).toMatchObject({ '@kv/scorers-attention': expect.stringMatching(/^\d+\./) as string });
  expect(found.machine).toMatchObject({ node: process.version });

  expect(found.here).toEqual([
    { name: '.kv/models/checkpoint', bytes: expect.any(Number) as number },
    { name: '.kv/models/one.gguf', bytes: 4 },
  ]);

  const told = await kv(['doctor', '--model', model], { cwd, columns: 80 });
  expect(told.code).toBe(0);
  for (const part of [
    'Engines',
    '--engine fast',
    'Adapter',
    'Models',
    'Models in .kv/models',
    '.kv/models/one.gguf',
    'Packages',
    'onnxruntime-node',
  ])
    expect(told.stdout).toContain(part);
});
