/**
 * `npm run audit`: asks the registry for known advisories about every version in pnpm-lock.yaml. Exits with 1 if one
 * affects a published package or its dependencies, and with 2 if the registry does not answer.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, showUsage } from './lib/process.mjs';

/** Every `name@version` under `packages:` of the lock file. */
export function locked(lock) {
  const versions = {};
  const section = lock.slice(lock.indexOf('\npackages:'), lock.indexOf('\nsnapshots:'));
  for (const [, name, version] of section.matchAll(/^ {2}'?((?:@[^@/\s]+\/)?[^@/\s]+)@([^:'(\s]+)'?:$/gm))
    (versions[name] ??= []).push(version);
  return versions;
}

/** Formats advisories as lines; `answer` is the registry's, by package name. */
export function lines(answer) {
  return Object.entries(answer).flatMap(([name, advisories]) =>
    advisories.map(
      ({ severity, title, url, vulnerable_versions: versions }) =>
        `${severity}: ${name} ${versions}: ${title} (${url})`,
    ),
  );
}

/** Asks the registry about these versions. @throws Error if it does not answer */
export async function ask(registry, versions, request = fetch) {
  const response = await request(new URL('-/npm/v1/security/advisories/bulk', registry), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(versions),
    signal: AbortSignal.timeout(60_000),
  });
  if (!response.ok) throw new Error(`HTTP status ${response.status}`);
  return response.json();
}

if (process.argv[1] === import.meta.filename) {
  showUsage(import.meta.filename);
  const versions = locked(readFileSync(join(root, 'pnpm-lock.yaml'), 'utf8'));
  const registry = execFileSync('npm', ['config', 'get', 'registry'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const count = Object.values(versions).flat().length;
  try {
    const found = lines(await ask(registry.trim(), versions));
    for (const line of found) console.log(line);
    console.log(`audit: ${found.length} advisories about ${count} versions`);
    process.exitCode = found.length > 0 ? 1 : 0;
  } catch (error) {
    console.log(`audit: the registry did not answer (${error.message}): nothing is known about ${count} versions`);
    process.exitCode = 2;
  }
}
