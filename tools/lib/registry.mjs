import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { runServer } from 'verdaccio';
import { root } from './process.mjs';

const exec = promisify(execFile);
/** Returns the exact version of a package in the workspace. */
export const versionOf = (name) =>
  new RegExp(`^ {2}'?${name}'?: (.*)$`, 'm').exec(readFileSync(join(root, 'pnpm-workspace.yaml'), 'utf8'))?.[1];

const own = ([name]) => !/^npm_/i.test(name);

/**
 * Starts a registry on the loopback interface that stores packages in a folder. With `others`, packages not published
 * here come from the registry that this machine's npm uses.
 * @param {string} folder
 */
export async function startRegistry(folder, { others = false } = {}) {
  const environment = Object.fromEntries(Object.entries(process.env).filter(own)),
    env = {
      ...environment,
      npm_config_cache: join(folder, 'cache'),
      npm_config_audit: 'false',
      npm_config_fund: 'false',
    },
    { registry: upstream, cafile } = others
      ? JSON.parse((await exec('npm', ['config', 'list', '--json'], { env: environment })).stdout)
      : {},
    // npm's certificate authorities, for proxies that sign for registries
    ca = cafile ? { ca: readFileSync(cafile, 'utf8') } : {},
    anyone = { access: '$all', publish: '$all' };
  const server = await runServer({
    self_path: folder,
    storage: join(folder, 'storage'),
    // every request brings the password; at the default of 10 rounds, checking it is most of what the registry does
    auth: { htpasswd: { file: join(folder, 'htpasswd'), rounds: 4 } },
    // by default, after two failed requests (a busy machine), nothing is requested for five minutes
    uplinks:
      upstream === undefined
        ? {}
        : { upstream: { url: upstream, maxage: '1h', timeout: '2m', max_fails: 1000, ...ca } },
    packages: {
      '@kv/*': anyone,
      '@me/*': anyone,
      'kv-*': anyone,
      '**': { ...anyone, ...(upstream !== undefined && { proxy: 'upstream' }) },
    },
    log: { type: 'stdout', format: 'pretty', level: 'fatal' },
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address(),
    address = `http://127.0.0.1:${port}`;
  // as after `npm login`
  const login = await fetch(`${address}/-/user/org.couchdb.user:anyone`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'anyone', password: 'anyone' }),
  });
  const { token } = await login.json(),
    settings = `registry=${address}/\n//127.0.0.1:${port}/:_authToken=${token}\n`;
  /** Makes npm in this folder use the registry. */
  const use = (path) => writeFileSync(join(path, '.npmrc'), settings);
  use(folder);
  return {
    /** Environment for npm: its own cache, and nothing of the npm that runs this. */
    env,
    address,
    settings,
    use,
    /** Sends what `npm publish TARBALL` sends, without starting npm each time. */
    async publish(tarball) {
      const { stdout } = await exec('tar', ['-xzOf', tarball, 'package/package.json']),
        manifest = JSON.parse(stdout),
        { name, version } = manifest,
        data = readFileSync(tarball),
        file = `${name}-${version}.tgz`,
        digest = (algorithm) => createHash(algorithm).update(data);
      const dist = {
        shasum: digest('sha1').digest('hex'),
        integrity: `sha512-${digest('sha512').digest('base64')}`,
        tarball: `${address}/${name}/-/${file}`,
      };
      const response = await fetch(`${address}/${name.replace('/', '%2f')}`, {
        method: 'PUT',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
        body: JSON.stringify({
          _id: name,
          name,
          'dist-tags': { latest: version },
          versions: { [version]: { ...manifest, _id: `${name}@${version}`, dist } },
          _attachments: {
            [file]: { content_type: 'application/octet-stream', data: data.toString('base64'), length: data.length },
          },
        }),
      });
      if (!response.ok) throw new Error(`${name} was not published: ${response.status} ${await response.text()}`);
    },
    stop: () =>
      new Promise((closed) => {
        server.close(() => closed());
        // clients and the upstream registry keep theirs open
        server.closeAllConnections();
      }),
  };
}
