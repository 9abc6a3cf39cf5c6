import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, resolve } from 'node:path';

export const root = resolve(import.meta.dirname, '../../..');

/**
 * Modules of the workspace: the package's folder, the source, and where its bytes go, from the root; whether it is the
 * loop of a view, over an engine's memory.
 */
export function kernels() {
  const own = {
      folder: 'packages/cpu',
      source: 'packages/cpu/kernel/kernel.ts',
      target: 'packages/cpu/src/kernel-bytes.ts',
    },
    folders = (path) =>
      readdirSync(join(root, path), { withFileTypes: true })
        .filter((entry) => entry.isDirectory() && entry.name !== 'node_modules')
        .map(({ name }) => `${path}/${name}`);
  const pieces = folders('packages')
    .flatMap(folders)
    .filter((folder) => /^packages\/[^/]+\/[^/]+$/.test(folder) && existsSync(join(root, folder, 'package.json')))
    .flatMap((folder) =>
      ['kernel', 'loop'].flatMap((kind) =>
        (existsSync(join(root, folder, kind)) ? readdirSync(join(root, folder, kind)) : []).map((file) => ({
          folder,
          source: `${folder}/${kind}/${file}`,
          target: `${folder}/src/${file.replace(/\.ts$/, kind === 'kernel' ? '-bytes.ts' : '-loop.ts')}`,
          ...(kind === 'loop' && { loop: true }),
        })),
      ),
    );
  return [own, ...pieces];
}

/** SHA-256 of a source and of what it imports, in the order of their paths. */
export function sourceHash(source) {
  const texts = new Map(),
    read = (path) => {
      if (texts.has(path)) return;
      const text = readFileSync(join(root, path), 'utf8');
      texts.set(path, text);
      for (const [, from] of text.matchAll(/ from "(\.[^"]*)"/g)) read(normalize(join(dirname(path), `${from}.ts`)));
    };
  read(source);
  const hash = createHash('sha256');
  for (const path of [...texts.keys()].sort()) hash.update(texts.get(path));
  return hash.digest('hex');
}
