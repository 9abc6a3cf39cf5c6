import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { bin } from './built.ts';
import { startHub } from './hub.ts';
import { folder } from './terminal.ts';
import { writeTinyModel } from '@kv/model-testing';

/** Runs the built `kv`; `interruptAt` sends Ctrl-C once stderr or the results hold it. */
function kv(
  args: readonly string[],
  cwd: string,
  interrupt?: () => boolean,
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [bin, ...args], { cwd, env: { ...process.env, ...env } });
    let stdout = '',
      stderr = '';
    const timer =
      interrupt &&
      setInterval(() => {
        if (interrupt()) {
          clearInterval(timer);
          child.kill('SIGINT');
        }
      }, 20);
    child.stdout.on('data', (text: Buffer) => {
      stdout += text.toString();
    });
    child.stderr.on('data', (text: Buffer) => {
      stderr += text.toString();
    });
    child.on('close', (code) => {
      clearInterval(timer);
      resolve({ code, stdout, stderr });
    });
  });
}

/** A server in a process of its own, once it listens; `ended` is its exit code. */
async function serving(args: readonly string[]) {
  const child = spawn(process.execPath, [bin, 'serve', '--port', '0', '--device', 'cpu', ...args], { cwd: folder() }),
    ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  let stdout = '';
  const listening = new Promise<Readonly<Record<string, unknown>>>((resolve) =>
    child.stdout.on('data', (text: Buffer) => {
      stdout += text.toString();
      const line = stdout.split('\n').find((each) => each.includes('"listening"'));
      if (line !== undefined) resolve(JSON.parse(line) as Record<string, unknown>);
    }),
  );
  const said = await listening,
    ask = (body: object): Promise<Response> =>
      fetch(`${String(said.address)}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ prompt: 'The river was wide and the boys', temperature: 0, ...body }),
      });
  return { child, ended, said, ask };
}

/** The command as it is installed. */
describe('the built kv', () => {
  it.each(['SIGTERM', 'SIGHUP'] as const)(
    'serves in a process that says what its weights weigh, and ends %s with 0 once its answers are through',
    async (signal) => {
      const { child, ended, said, ask } = await serving(['--memory', '64MB', '--grace', '30']);
      expect(said.weights).toBeGreaterThan(100_000);
      expect(said.memory).toMatchObject({ limit: 64_000_000 });
      const { address } = said,
        text = async (path: string): Promise<string> => (await fetch(`${String(address)}${path}`)).text();
      expect(await text('/metrics')).toContain('kv_memory_bytes{kind="limit"} 64000000');
      const echoed = (await (await ask({ max_tokens: 1, echo: true, logprobs: 0 })).json()) as { kv: object };
      expect(echoed.kv).toMatchObject({ prompt_scored_under: 'full cache' });
      // the answer has begun when its head is here
      const answer = await ask({ max_tokens: 300, stream: true });
      child.kill(signal);
      expect((await answer.text()).trim().split('\n').at(-1)).toBe('data: [DONE]');
      expect(await ended).toBe(0);
    },
    60_000,
  );
  it('serves on where no one reads its log any more, as of kv serve | head -1', async () => {
    const { child, ended, ask } = await serving([]);
    child.stdout.destroy();
    for (let i = 0; i < 3; i++) expect((await ask({ max_tokens: 1 })).status).toBe(200);
    child.kill('SIGTERM');
    expect(await ended).toBe(0);
  }, 60_000);
  it('cuts answers at the limit of --grace, and still ends SIGTERM with 0', async () => {
    const { child, ended, ask } = await serving(['--grace', '0']);
    const answer = await ask({ max_tokens: 900, stream: true });
    child.kill('SIGTERM');
    expect(await answer.text()).toContain('the server is closing');
    expect(await ended).toBe(0);
  }, 60_000);
  it('measures needles in two threads, stops at Ctrl-C and continues', async () => {
    const cwd = folder();
    writeTinyModel(join(cwd, 'tiny'));
    const args = [
      'needle',
      '--model',
      'tiny',
      '--policies',
      'streaming',
      '--budgets',
      '50%',
      '--depths',
      '0.5',
      '--prompts',
      '60',
      '--tokens',
      '220',
      '--workers',
      '2',
    ];
    const lines = (): number => {
      const file =
        existsSync(join(cwd, '.kv')) && readdirSync(join(cwd, '.kv')).find((name) => name.endsWith('.jsonl'));
      return file ? readFileSync(join(cwd, '.kv', file), 'utf8').split('\n').length - 1 : 0;
    };
    const first = await kv(args, cwd, () => lines() > 6);
    expect([first.code, first.stdout]).toEqual([130, '']);
    expect(first.stderr).toMatch(
      /stopped after \d+ of 60 jobs, which are in \.kv\/needle-\w+\.jsonl; the same command continues/,
    );
    const kept = lines();
    expect(kept).toBeGreaterThan(6);
    const second = await kv(args, cwd);
    expect(second.code, second.stderr).toBe(0);
    expect(second.stderr).toContain(`${kept - 1} of 60 jobs are done`);
    expect(second.stdout).toMatch(/streaming +50% +0 % +0-6 %/);
    const report = /report: (.*)/.exec(second.stdout)![1];
    expect(readFileSync(join(cwd, report), 'utf8')).toContain('Which policy still finds the needle?');
    const third = await kv(args, cwd);
    expect(third.stderr).toContain('all results are in');
    expect(lines()).toBe(61);
  }, 120_000);
  it('gives its threads the folder of a model that it downloads', async () => {
    const cwd = folder(),
      hub = await startHub(writeTinyModel(join(folder(), 'tiny')), 1);
    const env = {
      HF_HOME: folder(),
      HF_HUB_CACHE: '',
      HUGGINGFACE_HUB_CACHE: '',
      HF_ENDPOINT: hub.url,
      HF_TOKEN: '',
      HUGGING_FACE_HUB_TOKEN: '',
      HF_HUB_OFFLINE: '',
      TRANSFORMERS_OFFLINE: '',
    };
    const { code, stdout, stderr } = await kv(
      [
        'needle',
        '--model',
        'org/tiny',
        '--policies',
        'streaming',
        '--budgets',
        '50%',
        '--depths',
        '0.5',
        '--prompts',
        '2',
        '--tokens',
        '220',
        '--workers',
        '2',
      ],
      cwd,
      undefined,
      env,
    ).finally(() => hub.close());
    expect(code, stderr).toBe(0);
    expect(stderr).toContain('model: org/tiny is in the Hugging Face cache');
    expect(stdout).toMatch(/streaming +50%/);
  }, 120_000);
  it('says one sentence and exits with 2 for a bad input', async () => {
    const { code, stdout, stderr } = await kv(['needle', '--budgets', '0%'], folder());
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toBe(
      "--budgets: must be a whole number of slots of at least 1, a share above 0% and up to 100% such as '25%' or '25% of f16' (f32, f16, q8, k8v4 or q4), or bytes such as '64MiB' (B, KiB, MiB or GiB), got '0%'\n",
    );
  });
});
