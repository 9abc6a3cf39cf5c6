import { mkdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { DownloadPlan, Progress } from '../src/index.ts';
import { below, bytes, cache, CHECKPOINT, COMMIT, fetchFrom, holds, quantised, sharded, single } from './model.ts';
import { startHub } from './server.ts';
import type { FakeHub } from './server.ts';

let hub: FakeHub, home: string;
beforeAll(async () => {
  hub = await startHub({
    'org/tiny': single(),
    'org/parts': sharded(),
    'org/tiny-GGUF': quantised(),
    'org/one-GGUF': { commit: COMMIT, files: { 'one.gguf': bytes(40, 7) } },
    'org/big': {
      commit: COMMIT,
      files: {
        'mmproj-big-00001-of-00002.gguf': bytes(5),
        'big-Q8_0-00002-of-00002.gguf': bytes(50, 9),
        'big-Q8_0-00001-of-00002.gguf': bytes(40, 8),
      },
    },
    'org/projected': {
      commit: COMMIT,
      files: {
        'p.Q8_0.gguf': bytes(50, 9),
        'p.mmproj-Q8_0.gguf': bytes(5),
        'p-mmproj-f16.gguf': bytes(6),
        'p_mmproj.gguf': bytes(7),
        'p.imatrix.gguf': bytes(8),
        'imatrix_p.gguf': bytes(9),
      },
    },
    'org/weighed': { commit: COMMIT, files: { 'w-imatrix-IQ4_XS.gguf': bytes(40, 7), 'w-imatrix.gguf': bytes(4) } },
    'org/cut': { commit: COMMIT, files: { 'cut-00001-of-00003.gguf': bytes(4), 'cut-00003-of-00003.gguf': bytes(5) } },
    'org/many': { commit: COMMIT, files: { 'many-00001-of-99999.gguf': bytes(4) } },
    'org/two': { commit: COMMIT, files: { 'two-00002-of-00002.gguf': bytes(4), 'two.gguf': bytes(5) } },
  });
});
afterAll(() => hub.close());
beforeEach(() => {
  home = cache();
  hub.seen.length = 0;
});

describe('a checkpoint', () => {
  it('comes into the cache of huggingface_hub: blobs by checksum, relative links, the ref; nothing else of the repository', async () => {
    const snapshot = await fetchFrom(hub, home);
    expect(snapshot).toBe(join(home, `hub/models--org--tiny/snapshots/${COMMIT}`));
    expect(holds(snapshot, hub.repos['org/tiny'], CHECKPOINT)).toBe(true);
    expect(readlinkSync(join(snapshot, 'config.json'))).toMatch(/^\.\.\/\.\.\/blobs\/[0-9a-f]{40}$/);
    expect(readFileSync(join(home, 'hub/models--org--tiny/refs/main'), 'utf8')).toBe(COMMIT);
    expect(below(join(home, 'hub/models--org--tiny'))).toHaveLength(CHECKPOINT.length * 2 + 1);
    expect(below(join(home, 'hub/.locks'))).toEqual([]);
  });
  it('that is there is used without a request, also what another tool put there', async () => {
    const { files } = single();
    for (const path of CHECKPOINT) {
      const file = join(home, `hub/models--org--tiny/snapshots/${COMMIT}`, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, files[path]);
    }
    mkdirSync(join(home, 'hub/models--org--tiny/refs'));
    writeFileSync(join(home, 'hub/models--org--tiny/refs/main'), COMMIT);
    expect(await fetchFrom(hub, home)).toBe(join(home, `hub/models--org--tiny/snapshots/${COMMIT}`));
    expect(hub.seen).toEqual([]);
  });
  it('of which a part is there is completed with the rest alone', async () => {
    const snapshot = await fetchFrom(hub, home),
      before = hub.seen.length;
    rmSync(join(snapshot, '../../blobs', below(join(snapshot, '../../blobs')).find((name) => name.length === 64)!));
    expect(await fetchFrom(hub, home)).toBe(snapshot);
    expect(
      hub.seen
        .slice(before)
        .filter(({ path }) => path.includes('resolve'))
        .map(({ path }) => path.split('/').at(-1)),
    ).toEqual(['model.safetensors']);
    expect(holds(snapshot, hub.repos['org/tiny'], CHECKPOINT)).toBe(true);
  });
  it('in parts comes with all of them', async () => {
    const snapshot = await fetchFrom(hub, home, 'org/parts');
    expect(holds(snapshot, hub.repos['org/parts'], Object.keys(sharded().files))).toBe(true);
    hub.seen.length = 0;
    expect(await fetchFrom(hub, home, 'org/parts', { offline: true })).toBe(snapshot);
    expect(hub.seen).toEqual([]);
  });
  it('of a tag or a commit', async () => {
    const snapshot = await fetchFrom(hub, home, 'org/tiny', { revision: 'v1' });
    expect(await fetchFrom(hub, home, 'org/tiny', { revision: 'refs/pr/1' })).toBe(snapshot);
    expect(await fetchFrom(hub, home, 'org/tiny', { revision: 'refs/pr/1', offline: true })).toBe(snapshot);
    expect(await fetchFrom(hub, home, 'org/tiny', { revision: COMMIT, offline: true })).toBe(snapshot);
    await expect(fetchFrom(hub, home, 'org/tiny', { offline: true })).rejects.toThrow(
      /^org\/tiny: expected the model in .*, since no network may be used, got only a part of it \(revision main\)$/,
    );
  });
  it('tells how far it is, up to the last byte', async () => {
    const seen: Progress[] = [];
    await fetchFrom(hub, home, 'org/tiny', { onProgress: (progress) => seen.push(progress) });
    const total = CHECKPOINT.reduce((sum, path) => sum + single().files[path].length, 0);
    expect(seen.at(-1)).toMatchObject({ file: 'model.safetensors', done: total, total, secondsLeft: 0 });
    expect(seen.at(-1)!.bytesPerSecond).toBeGreaterThan(0);
    expect(seen.map(({ done }) => done)).toEqual(seen.map(({ done }) => done).sort((a, b) => a - b));
  });
});

describe('the plan of a download', () => {
  const total = CHECKPOINT.reduce((sum, path) => sum + single().files[path].length, 0);
  it.each([
    [['en', 'license:apache-2.0'], 'apache-2.0'],
    [['license:a\u001b[31m', 7, null, 'license:mit'], 'mit'],
    ['license:mit', undefined],
    [undefined, undefined],
  ])('of tags %j: bytes and licence, before the first byte', async (tags, license) => {
    hub.repos['org/tagged'] = { ...single(), tags: tags as readonly unknown[] };
    const plans: DownloadPlan[] = [];
    await fetchFrom(hub, home, 'org/tagged', {
      onPlan(plan) {
        plans.push(plan);
        expect(hub.seen.filter(({ path }) => path.includes('/resolve/'))).toEqual([]);
      },
    });
    expect(plans).toEqual([{ repo: 'org/tagged', commit: COMMIT, license, total, here: 0 }]);
  });
  it('may be refused, and then nothing comes', async () => {
    const no = new Error('too large');
    await expect(
      fetchFrom(hub, home, 'org/tiny', {
        async onPlan() {
          await Promise.resolve();
          throw no;
        },
      }),
    ).rejects.toBe(no);
    expect(hub.seen.filter(({ path }) => path.includes('/resolve/'))).toEqual([]);
  });
});

describe('a .gguf file', () => {
  it.each([
    ['org/tiny-GGUF:q4_k_m', 'tiny-Q4_K_M.gguf'],
    ['org/tiny-GGUF/tiny-Q8_0.gguf', 'tiny-Q8_0.gguf'],
    ['org/tiny-GGUF:Q8_0', 'tiny-Q8_0.gguf'],
    ['org/tiny-GGUF:F16', 'f16/tiny.f16.gguf'],
    ['org/projected', 'p.Q8_0.gguf'],
    ['org/projected:Q8_0', 'p.Q8_0.gguf'],
    ['org/projected/p.mmproj-Q8_0.gguf', 'p.mmproj-Q8_0.gguf'],
    ['org/weighed', 'w-imatrix-IQ4_XS.gguf'],
  ])('%s', async (name, path) => {
    const file = await fetchFrom(hub, home, name),
      repo = /^org\/[^:/]+/.exec(name)![0];
    expect(file).toBe(join(home, `hub/models--${repo.replace('/', '--')}/snapshots/${COMMIT}`, path));
    expect(readFileSync(file)).toEqual(hub.repos[repo].files[path]);
    hub.seen.length = 0;
    expect(await fetchFrom(hub, home, name)).toBe(file);
    expect(hub.seen).toEqual([]);
  });
  it.each([
    [
      'org/tiny-GGUF',
      /^org\/tiny-GGUF: expected the name of one \.gguf file .*, got tiny-Q4_K_M\.gguf, tiny-Q8_0\.gguf, f16\/tiny\.f16\.gguf$/,
    ],
    ['org/projected:F16', /^org\/projected: expected a \.gguf file of type F16, got p\.Q8_0\.gguf$/],
    ['org/tiny-GGUF:Q4_K', /^org\/tiny-GGUF: expected a \.gguf file of type Q4_K, got tiny-Q4_K_M\.gguf, /],
    ['org/tiny-GGUF/other.gguf', /^org\/tiny-GGUF: expected other\.gguf, got tiny-Q4_K_M\.gguf, /],
    ['org/cut', /^org\/cut: expected all 3 parts of a model in the repository, got no cut-00002-of-00003\.gguf$/],
    ['org/cut/cut-00003-of-00003.gguf', /^org\/cut: expected all 3 parts .*, got no cut-00002-of-00003\.gguf$/],
    [
      'org/many',
      /^org\/many: expected all 99999 parts of a model in the repository, got no many-00002-of-99999\.gguf$/,
    ],
    ['org/two', /^org\/two: expected the name of one \.gguf file .*, got two-00001-of-00002\.gguf, two\.gguf$/],
  ])('%s is one sentence', async (name, sentence) => expect(fetchFrom(hub, home, name)).rejects.toThrow(sentence));
  it('that was fetched by its type is not what the repository alone means', async () => {
    await fetchFrom(hub, home, 'org/tiny-GGUF:Q8_0');
    await expect(fetchFrom(hub, home, 'org/tiny-GGUF')).rejects.toThrow('expected the name of one .gguf file');
  });
  it('that is the only one is found again by the repository alone, without a request', async () => {
    const file = await fetchFrom(hub, home, 'org/one-GGUF');
    expect(file).toMatch(/one\.gguf$/);
    hub.seen.length = 0;
    expect(await fetchFrom(hub, home, 'org/one-GGUF', { offline: true })).toBe(file);
    expect(hub.seen).toEqual([]);
  });
  it.each(['org/big', 'org/big:Q8_0', 'org/big/big-Q8_0-00001-of-00002.gguf', 'org/big/big-Q8_0-00002-of-00002.gguf'])(
    'in parts comes with all of them, in their order: %s',
    async (name) => {
      const plans: DownloadPlan[] = [],
        file = await fetchFrom(hub, home, name, { onPlan: (plan) => void plans.push(plan) }),
        parts = ['big-Q8_0-00001-of-00002.gguf', 'big-Q8_0-00002-of-00002.gguf'],
        snapshot = join(home, `hub/models--org--big/snapshots/${COMMIT}`);
      expect(file).toBe(join(snapshot, parts[0]));
      expect(below(snapshot)).toEqual(parts);
      expect(holds(snapshot, hub.repos['org/big'], parts)).toBe(true);
      expect(plans).toMatchObject([{ total: 90, here: 0 }]);
      hub.seen.length = 0;
      expect(await fetchFrom(hub, home, name, { offline: true })).toBe(file);
      expect(hub.seen).toEqual([]);
      rmSync(join(snapshot, parts[1]));
      await expect(fetchFrom(hub, home, name, { offline: true })).rejects.toThrow('only a part of it');
    },
  );
  it('of which a part is there, from another tool, is not a model', async () => {
    const file = join(home, `hub/models--org--big/snapshots/${COMMIT}`, 'big-Q8_0-00001-of-00002.gguf');
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, bytes(10));
    mkdirSync(join(home, 'hub/models--org--big/refs'));
    writeFileSync(join(home, 'hub/models--org--big/refs/main'), COMMIT);
    await expect(fetchFrom(hub, home, 'org/big:Q8_0', { offline: true })).rejects.toThrow('only a part of it');
  });
});

describe('the token', () => {
  const token = 'hf_secret';
  it('goes to the hub and never to the CDN, from every usual place', async () => {
    writeFileSync(join(home, 'token'), `${token}\n`);
    writeFileSync(join(home, 'mine'), token);
    for (const env of [
      { HF_TOKEN: token },
      { HUGGING_FACE_HUB_TOKEN: token },
      { HF_TOKEN_PATH: join(home, 'mine') },
      {},
    ]) {
      hub.seen.length = 0;
      await fetchFrom(hub, home, 'org/tiny', { env: { ...env, HF_HUB_CACHE: cache() } });
      const at = (on: string): Set<string | undefined> =>
        new Set(hub.seen.filter((request) => request.on === on).map(({ authorization }) => authorization));
      expect([...at('hub')]).toEqual([`Bearer ${token}`]);
      expect([...at('cdn')]).toEqual([undefined]);
    }
  });
  it('that cannot be sent is not shown', async () => {
    const error = (await fetchFrom(hub, home, 'org/tiny', { env: { HF_TOKEN: 'hf_sec\nret' } }).catch(
      (cause: Error) => cause,
    )) as Error;
    expect(error.message).toMatch(/^HF_TOKEN: expected a token of printable characters/);
    expect(error.message).not.toContain('sec');
  });
});

describe('without network', () => {
  it.each([
    [{ HF_HUB_OFFLINE: '1' }, {}],
    [{}, { offline: true }],
  ])('what is not there is one sentence, and no request (%j, %j)', async (env, options) => {
    await expect(fetchFrom(hub, home, 'org/tiny', { ...options, env })).rejects.toThrow(
      /^org\/tiny: expected the model in .*models--org--tiny, since no network may be used, got no such folder \(revision main\)$/,
    );
    expect(hub.seen).toEqual([]);
  });
  it('what is there is used', async () => {
    const snapshot = await fetchFrom(hub, home);
    expect(await fetchFrom(hub, home, 'org/tiny', { env: { HF_HUB_OFFLINE: 'yes' } })).toBe(snapshot);
  });
  it('a link whose blob is gone is not there', async () => {
    const snapshot = await fetchFrom(hub, home);
    rmSync(join(snapshot, '../../blobs', below(join(snapshot, '../../blobs')).find((name) => name.length === 64)!));
    await expect(fetchFrom(hub, home, 'org/tiny', { offline: true })).rejects.toThrow('only a part of it');
  });
});

describe('what the hub refuses is one sentence', () => {
  it.each([
    [
      'org/none',
      {},
      /^org\/none: expected a repository on http:.*, got none of this name \(for a private one set HF_TOKEN\)$/,
    ],
    ['org/none', { env: { HF_TOKEN: 'hf_x' } }, /^org\/none: .* got none of this name that the token may see$/],
    ['org/tiny', { revision: 'v9' }, /^org\/tiny: expected a branch, tag or commit of the repository, got 'v9'$/],
    [
      'org/gated',
      {},
      /^org\/gated: expected access to a gated repository, got no token: accept its terms at http:.*\/org\/gated and set HF_TOKEN$/,
    ],
    [
      'org/gated',
      { env: { HF_TOKEN: 'hf_x' } },
      /^org\/gated: expected access to a gated repository, got a token without it: accept its terms at /,
    ],
    [
      'org/old',
      {},
      /^org\/old: expected model\.safetensors, model\.safetensors\.index\.json or a \.gguf file, got only README\.md, pytorch_model\.bin$/,
    ],
    [
      'org/bare',
      {},
      /^org\/bare: expected tokenizer\.json next to model\.safetensors, got config\.json, model\.safetensors$/,
    ],
    ['org/empty', {}, /^org\/empty: .* got only no files$/],
  ])('%s %j', async (name, options, sentence) => {
    const { files } = single();
    Object.assign(hub.repos, {
      'org/gated': { ...single(), gated: 'hf_let_me_in' },
      'org/empty': { commit: COMMIT, files: {} },
      'org/old': {
        commit: COMMIT,
        files: { '.gitattributes': bytes(2), 'README.md': bytes(3), 'pytorch_model.bin': bytes(9) },
      },
      'org/bare': { commit: COMMIT, files: { 'config.json': files['config.json'], 'model.safetensors': bytes(9) } },
    });
    await expect(fetchFrom(hub, home, name, options)).rejects.toThrow(sentence);
    expect(below(home).filter((path) => /snapshots|refs|kv\.lock/.test(path))).toEqual([]);
  });
  it('but a gated repository opens with its token', async () => {
    hub.repos['org/gated'] = { ...single(), gated: 'hf_let_me_in' };
    expect(
      holds(await fetchFrom(hub, home, 'org/gated', { env: { HF_TOKEN: 'hf_let_me_in' } }), single(), CHECKPOINT),
    ).toBe(true);
  });
});
