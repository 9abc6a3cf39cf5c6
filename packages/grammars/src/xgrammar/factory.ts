import { factoryBody } from '../../scripts/factory.mjs';
import type { XGrammarFactory } from './types.ts';

/**
 * Returns what makes instances of xgrammar, from source: its script in node_modules. The build puts a module with the
 * script itself in this one's place (scripts/write-factory.mjs), so that what is published needs no other file.
 */
export const factory = (): Promise<XGrammarFactory> => (made ??= read());
let made: Promise<XGrammarFactory> | undefined;

async function read(): Promise<XGrammarFactory> {
  const [{ readFile }, { createRequire }, { compileFunction }] = await Promise.all([
    import('node:fs/promises'),
    import('node:module'),
    import('node:vm'),
  ]);
  const file = createRequire(import.meta.url).resolve('@mlc-ai/web-xgrammar');
  return compileFunction(factoryBody(await readFile(file, 'utf8')), [
    'require',
    '__filename',
    'console',
  ]) as XGrammarFactory;
}
