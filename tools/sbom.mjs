/**
 * `npm run sbom [FOLDER]`: writes a bill of materials for each published package, CycloneDX 1.6 as JSON, into FOLDER
 * (default .kv/sbom): its dependencies, with the versions and checksums of pnpm-lock.yaml.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { published } from './lib/manifests.mjs';
import { root, run, showUsage } from './lib/process.mjs';

/** SHA-512 of every `name@version` of the lock file, in hex. */
export function checksums(lock) {
  const found = /^ {2}'?((?:@[^@/\s]+\/)?[^@/\s]+@[^:'(\s]+)'?:\n {4}resolution: \{integrity: sha512-([^,}\s]+)/gm;
  return new Map(Array.from(lock.matchAll(found), ([, key, sum]) => [key, Buffer.from(sum, 'base64').toString('hex')]));
}

const purl = (name, version) => `pkg:npm/${name.replace('@', '%40')}@${version}`;

/** Makes one package's bill from its `pnpm list --json`. */
export function billOf({ name, version, dependencies = {} }, sums, time) {
  const components = new Map();
  const needs = new Map();
  const walk = (ref, tree) => {
    needs.set(ref, new Set());
    for (const [alias, { from = alias, version: found, dependencies: inner = {} }] of Object.entries(tree)) {
      const own = found.startsWith('link:') ? '0.0.0' : found;
      const id = purl(from, own);
      needs.get(ref).add(id);
      if (components.has(id)) continue;
      const sum = sums.get(`${from}@${own}`);
      components.set(id, {
        type: 'library',
        'bom-ref': id,
        name: from,
        version: own,
        purl: id,
        ...(sum && { hashes: [{ alg: 'SHA-512', content: sum }] }),
      });
      walk(id, inner);
    }
  };
  const subject = purl(name, version);
  walk(subject, dependencies);
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { timestamp: time, component: { type: 'library', 'bom-ref': subject, name, version, purl: subject } },
    components: [...components.values()],
    dependencies: Array.from(needs, ([ref, on]) => ({ ref, dependsOn: [...on] })),
  };
}

if (process.argv[1] === import.meta.filename) {
  showUsage(import.meta.filename);
  const folder = resolve(process.argv[2] ?? join(root, '.kv/sbom'));
  const sums = checksums(readFileSync(join(root, 'pnpm-lock.yaml'), 'utf8'));
  mkdirSync(folder, { recursive: true });
  for (const { folder: of, manifest } of published()) {
    const { code, output } = await run('pnpm', ['--dir', of, 'list', '--prod', '--depth', 'Infinity', '--json']);
    if (code !== 0) throw new Error(output);
    const [listed] = JSON.parse(output.slice(output.indexOf('[')));
    const bill = billOf({ ...listed, ...manifest, dependencies: listed.dependencies }, sums, new Date().toISOString());
    writeFileSync(
      join(folder, `${manifest.name.replace(/[@/]+/g, '-').slice(1)}.cdx.json`),
      `${JSON.stringify(bill, undefined, 1)}\n`,
    );
  }
  console.log(`sbom: ${published().length} bills in ${folder}`);
}
