/** Replaces the built `src/xgrammar/factory.ts`, which loads xgrammar from node_modules, with xgrammar itself. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { factoryBody } from './factory.mjs';

const umd = readFileSync(createRequire(import.meta.url).resolve('@mlc-ai/web-xgrammar'), 'utf8'),
  file = new URL('../dist/xgrammar/factory.js', import.meta.url);
writeFileSync(
  file,
  `/*! xgrammar 0.1.27 (@mlc-ai/web-xgrammar), changed by scripts/factory.mjs. Copyright (c) 2024 by XGrammar Contributors. Licensed under the Apache License, Version 2.0: see third-party/LICENSE and third-party/NOTICE of @kv/grammars. */
export const factory = async () => (require, __filename, console) => {\n${factoryBody(umd)}};\n`,
);
rmSync(new URL('factory.js.map', file), { force: true });
