import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folder, kv } from './terminal.ts';

test('kv export --onnx writes a folder as the hub has them and says what is in it', async () => {
  const cwd = folder(),
    { code, stdout, stderr } = await kv(['export', '--onnx', 'out', '--weights', 'q4'], { cwd });
  expect([code, stderr]).toEqual([0, '']);
  const files = stdout
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => line.trim());
  expect(files).toEqual(expect.arrayContaining(['onnx/model_q4.onnx', 'config.json', 'tokenizer.json']));
  for (const file of files) expect(existsSync(join(cwd, 'out', file)), file).toBe(true);
  expect(JSON.parse(readFileSync(join(cwd, 'out/config.json'), 'utf8'))).toMatchObject({ model_type: 'llama' });
});

test('what it cannot write is one sentence', async () => {
  const cwd = folder();
  for (const [args, sentence] of [
    [['--onnx', 'out', '--weights', 'q5'], "--weights: must be 'f32' or 'q4', got 'q5'"],
    [['--onnx', 'out', '--model', 'nowhere'], 'org/name/file.gguf; there is no "nowhere"'],
    [[], "required option '--onnx <folder>' not specified"],
  ] as const) {
    const { code, stderr } = await kv(['export', ...args], { cwd });
    expect(code).toBe(2);
    expect(stderr).toContain(sentence);
  }
});
