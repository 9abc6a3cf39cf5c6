import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { root } from './process.mjs';
import { tracked } from './tracked.mjs';

const START =
  /^(?:[A-Z_]+=\S+ )*(?:npm|npx|node|kv|git|cd|echo|printf|source|python3?|venv\/bin\/\w+|pip|pnpm|tar|curl|bash|\.ci\/\w+)(?= |$)/;
const SHELLS = ['sh', 'bash', 'console'];

/** Documents for readers: no records of what was run, no changelogs, no templates of other packages. */
const isDocument = (path) =>
  path.endsWith('.md') &&
  !/(^|\/)(CHANGELOG|results[^/]*|plan[^/]*)\.md$|^\.changeset|^\.github|\/templates\/|\/results\/|\/test\//.test(path);

/**
 * Returns the commands that a Markdown text shows, as `{ text, line, isBlock }`: lines of shell blocks and of indented
 * blocks without their comments, and inline code that begins with a program.
 */
function commandsIn(markdown) {
  const found = [];
  let fence, whole;
  for (const [at, source] of markdown.split('\n').entries()) {
    const [, mark] = /^\s*```(\w*)/.exec(source) ?? [];
    if (mark !== undefined) {
      fence = fence === undefined ? mark : undefined;
      continue;
    }
    const inShell = SHELLS.includes(fence),
      isBlock =
        inShell || ((fence === '' || (fence === undefined && /^ {4}\S/.test(source))) && START.test(source.trim()));
    if (isBlock) {
      const text = source.trim().replace(/^\$ |(?:^|\s+)#\s.*$/g, '');
      const line = whole ?? { text: '', line: at + 1, isBlock: true };
      line.text = `${line.text} ${text.replace(/\s*\\$/, '')}`.trim();
      whole = inShell && text.endsWith('\\') ? line : undefined;
      if (whole === undefined && line.text !== '') found.push(line);
    } else if (fence === undefined)
      for (const [, text] of source.matchAll(/`([^`]+)`/g))
        if (START.test(text) && text.includes(' ')) found.push({ text, line: at + 1, isBlock: false });
  }
  return found;
}

/** Returns every command of the documents once, with the places that show it, `FILE:LINE`. */
export function documentedCommands() {
  const all = new Map();
  for (const { path, text: markdown } of tracked(isDocument))
    for (const { text, line, isBlock } of commandsIn(markdown)) {
      const one = all.get(text) ?? { text, isBlock, folder: dirname(path), at: [] };
      one.isBlock ||= isBlock;
      one.at.push(`${path}:${line}`);
      all.set(text, one);
    }
  return [...all.values()];
}

/** Splits a command line into the simple commands that it is made of, each a list of words. */
export function simpleCommands(text) {
  const commands = [[]];
  const unquoted = (word) => word.replace(/'([^']*)'|"([^"]*)"/g, (_, single, double) => single ?? double);
  for (const [word] of text.matchAll(/&&|\|\||[|;<>()]+|(?:'[^']*'|"[^"]*"|[^\s|;<>()&])+/g))
    if (/^[&|;<>()]+$/.test(word)) commands.push([]);
    else commands.at(-1).push(unquoted(word));
  return commands
    .map((words) =>
      words.slice(
        Math.max(
          0,
          words.findIndex((word) => !/^[A-Z_]+=/.test(word)),
        ),
      ),
    )
    .filter((words) => words.length > 0);
}

/** Tells whether a word stands for another one: `MODEL`, `FILE.mjs`, `[NAME]`, `…`. */
const isName = (word) => /[…[\]{]|^(?:[\w@/.-]*[-/])?[A-Z][A-Z_]*(?:\.\w+)?$|^\.{3}$/.test(word);
const flagsOf = (words) => words.flatMap((word) => /^\[?(--?[a-z][\w-]*)/i.exec(word)?.[1] ?? []);
const isFlag = (word) => /^\[?-/.test(word);

/**
 * Returns what a simple command names and must be there: `{ script }` of package.json, `{ package }` of npm, `{ files }`
 * of which one exists, and `{ flags, of }` or `{ flags, helpOf }`, which a program's sources or help have.
 * @param {readonly string[]} words
 * @param {string} folder the document's
 * @returns {{ script?: string, package?: string, files?: string[], flags?: string[], of?: string[], helpOf?: string }[]}
 */
export function namedBy([program, ...args], folder) {
  const words = args.filter((word) => !isFlag(word) && !isName(word)),
    [first = ''] = words,
    flags = flagsOf(args),
    near = (file) => [file, `${folder}/${file}`],
    programOf = (files) => [{ files }, { flags, of: files }];
  if (program === 'kv' && first === 'help') return namedBy(['kv', ...args.slice(1)], folder);
  if (program === 'kv') return [{ flags, helpOf: ['kv', ...words.slice(0, first === 'protocol' ? 2 : 1)].join(' ') }];
  if (program === 'npx' && (first === 'kv' || first === '@kv/cli'))
    return namedBy(['kv', ...args.slice(args.indexOf(first) + 1)], folder);
  if (program === 'npx')
    return first.startsWith('node@')
      ? []
      : [`node_modules/.bin/${first}`, ...words.slice(1).filter((word) => word.includes('/'))].map((file) => ({
          files: near(file),
        }));
  if (program === 'npm' && ['run', 'start', 'test'].includes(first)) return namedByScript(args, folder);
  if (program === 'npm')
    return (first === 'create' ? words.slice(1, 2).map((name) => name.replace('@kv/', '@kv/create-')) : words.slice(1))
      .filter((name) => !name.startsWith('.'))
      .map((name) => ({ package: name.replace(/(.)@.*$/, '$1') }));
  if (first === 'mine.mjs') return [];
  if (program === 'node')
    return /^tools\/[\w-]+\.mjs$/.test(first) ? [{ flags, helpOf: `node ${first}` }] : programOf(near(first));
  if (program === 'bash') return programOf([`bench/${words[1]}`]);
  if (/python3?$/.test(program) && first.endsWith('.py')) return programOf(near(first));
  if (program.endsWith('pip') && flags.includes('-r')) return [{ files: near(words[1]) }];
  return program.startsWith('.ci/') || program.startsWith('tools/') ? [{ files: [program] }] : [];
}

/** The same of `npm run NAME -- ARGS`. */
function namedByScript(args, folder) {
  const name = args[0] === 'run' ? args.slice(1).find((word) => word !== '-s') : args[0],
    rest = args.slice(args.includes('--') ? args.indexOf('--') + 1 : args.length),
    flags = flagsOf(rest),
    [what] = rest.filter((word) => !isFlag(word) && !isName(word)),
    script = { script: name };
  if (name === 'kv') return [script, ...namedBy(['kv', ...rest], folder)];
  if (what === undefined || what.endsWith('mine.mjs'))
    return flags.length === 0 ? [script] : [script, { flags, helpOf: `npm run -s ${name} --` }];
  if (name === 'study' && what === 'papers') return [script, { flags, helpOf: `npm run -s study -- ${what}` }];
  const files = {
    study: [`studies/${what}.mjs`, `studies/${what}/run.mjs`],
    bench: [`bench/${what}`],
    example: [what],
  };
  return files[name] === undefined ? [script] : [script, { files: files[name] }, { flags, of: files[name] }];
}

/** Returns a program's text with that of the files which it imports by relative paths. */
export function sourceOf(file, seen = new Set()) {
  const path = join(root, file);
  if (seen.has(file) || !existsSync(path) || !statSync(path).isFile()) return '';
  seen.add(file);
  const text = readFileSync(path, 'utf8'),
    imported = [...text.matchAll(/(?:from |import\()'(\.[^']+)'/g)].map(([, to]) => join(dirname(file), to));
  return [text, ...imported.map((one) => sourceOf(one, seen))].join('\n');
}

/** Tells whether a program's sources or its help have a flag: by its name, or as a key of its options. */
export function hasFlag(text, flag) {
  const name = flag.replace(/^-+/, '');
  return new RegExp(`(?<![\\w-])-{1,2}${name}(?![\\w-])|['"]${name}['"]|^\\s*${name}: \\{`, 'm').test(text);
}
