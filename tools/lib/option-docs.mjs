import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** The first line of declared options, and a line of one of them: what follows keeps its line, as maps have it. */
const BEGINS = /^export declare const (\w+): .*\{$/,
  OPTION = /^( {4})((?:readonly )?(\w+)\??: .*)$/;

/** What an editor shows of an option: what it means, and what applies without it. */
function docOf({ says, otherwise, default: value, required }) {
  const otherwiseText =
      otherwise ?? (['number', 'boolean', 'string'].includes(typeof value) ? `\`${value}\`` : undefined),
    without =
      required || otherwiseText === undefined || otherwiseText === '``' ? '' : ` @defaultValue ${otherwiseText}`;
  return `/** ${`${says}${without}`.replace(/\s+/g, ' ').replaceAll('*/', '* /')} */`;
}

/**
 * Writes what options mean into the declarations of a built package, where editors look for it: in TypeScript options are
 * declared as data, whose sentences are not in their types. Twice is once.
 * @param {string} folder of the package
 * @returns {Promise<number>} options that got their sentence
 */
export async function documentOptions(folder) {
  const dist = join(folder, 'dist');
  if (!existsSync(dist)) return 0;
  let count = 0;
  for (const name of readdirSync(dist, { recursive: true })) {
    const file = join(dist, name),
      script = file.replace(/\.d\.ts$/, '.js');
    if (!name.endsWith('.d.ts') || !existsSync(script)) continue;
    const text = readFileSync(file, 'utf8');
    if (!text.includes('Option<') && !text.includes('OptionForm;')) continue;
    const module = await import(pathToFileURL(script).href);
    let options;
    const lines = text.split('\n').map((line) => {
      const [, begun] = BEGINS.exec(line) ?? [];
      if (begun !== undefined) options = module[begun]?.description?.options ?? module[begun];
      else if (/^\S/.test(line)) options = undefined;
      const [, indent, rest, option] = (options && OPTION.exec(line)) || [],
        of = option === undefined ? undefined : options[option];
      if (typeof of?.says !== 'string' || of.form === undefined) return line;
      count++;
      return `${indent}${docOf(of)} ${rest}`;
    });
    writeFileSync(file, lines.join('\n'));
  }
  return count;
}
