/**
 * Counts the tokens of TypeScript's scanner in the sources of packages, apps, tools and bench, comments, tests and
 * templates left out, and how many of them are trailing commas of lists that the formatter broke over lines.
 *
 *     node tools/tokens.mjs        of the files that git tracks, as they are in the working tree
 *     node tools/tokens.mjs REF    of those of a commit
 */
import ts from 'typescript';
import { showUsage } from './lib/process.mjs';
import { tracked } from './lib/tracked.mjs';

showUsage(import.meta.filename);

const counted = (path) =>
  /^(packages|apps|tools|bench)\/.*[.](ts|mjs)$/.test(path) &&
  !/\/test\/|[.]test[.]|[.]d[.]ts$|templates|oracle/.test(path);
const { CommaToken, EndOfFileToken } = ts.SyntaxKind;

function count(path, text) {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest);
  let tokens = 0,
    commas = 0,
    last;
  const visit = (node) => {
    if (ts.isJSDoc(node) || node.kind === EndOfFileToken) return;
    const inside = node.getChildren(file);
    if (inside.length > 0) return inside.forEach(visit);
    if (node.getWidth(file) === 0) return; // an empty list
    if (last === CommaToken && /^[)\]}]$/.test(node.getText(file))) commas++;
    last = node.kind;
    tokens++;
  };
  visit(file);
  return { tokens, commas };
}

const sums = new Map();
let files = 0,
  commas = 0;
for (const { path, text } of tracked(counted, process.argv[2])) {
  const one = count(path, text);
  const folder = path.split('/').slice(0, 2).join('/');
  sums.set(folder, (sums.get(folder) ?? 0) + one.tokens);
  files++;
  commas += one.commas;
}
for (const [folder, tokens] of sums) console.log(`${String(tokens).padStart(8)} ${folder}`);
const all = [...sums.values()].reduce((a, b) => a + b, 0);
console.log(
  `${String(all).padStart(8)} tokens in ${files} files, ${all - commas} without the trailing commas that the formatter adds`,
);
