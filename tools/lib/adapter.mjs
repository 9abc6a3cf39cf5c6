import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fail, run } from './process.mjs';

/** The software adapter of Debian's package chromium (SwiftShader). */
const SWIFTSHADER = '/usr/lib/chromium/vk_swiftshader_icd.json';

/** Tells how to get an adapter for the tests. */
export const SETUP = 'KV_SETUP_GPU=1 npm run test:device';

/**
 * With KV_SETUP_GPU=1, installs a software WebGPU adapter if the machine has none (root on Debian); GPU tests without
 * an adapter then fail instead of being skipped.
 * @param {NodeJS.ProcessEnv} env the environment of the tests, which is changed
 */
export async function setUpAdapter(env) {
  if (env.KV_SETUP_GPU !== '1') return;
  const { output } = await run('ldconfig', ['-p']);
  if (!existsSync(SWIFTSHADER) || !output.includes('libvulkan.so.1')) {
    console.error('Installing a software WebGPU adapter (once): the Debian packages chromium and libvulkan1 ...');
    const apt = (...args) => run('apt-get', ['-o', 'Acquire::Retries=3', ...args]);
    const parts = ['chromium', 'libvulkan1'];
    env.DEBIAN_FRONTEND = 'noninteractive';
    for (const args of [
      ['update', '-qq'],
      ['install', '-y', '-qq', '--no-install-recommends', ...parts],
    ]) {
      const { code, output: said } = await apt(...args);
      if (code !== 0)
        fail(
          `${said}The software adapter could not be installed: KV_SETUP_GPU=1 needs root on Debian 12 with a reachable mirror.`,
        );
    }
  }
  env.VK_ICD_FILENAMES = SWIFTSHADER;
  if (env.XDG_RUNTIME_DIR === undefined) {
    const folder = (env.XDG_RUNTIME_DIR = mkdtempSync(join(tmpdir(), 'kv-run-')));
    process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  }
  env.KV_REQUIRE_GPU = '1';
}
