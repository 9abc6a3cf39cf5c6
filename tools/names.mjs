/**
 * Counts names in the sources, for the table of a change: `node tools/names.mjs [REF]`; `--list` prints the names.
 */
import { census } from './lib/names.mjs';
import { tracked } from './lib/tracked.mjs';

const [ref] = process.argv.slice(2).filter((word) => !word.startsWith('--'));
const { exported, several, shared, participles, houseWords, casts } = census(ref);
const packages = tracked(
  (path) => /^(packages|apps)\/.*package[.]json$/.test(path) && !/templates|fixtures/.test(path),
  ref,
);
console.log(`${packages.length} packages and apps
${exported} exported names
${several.length} type names that several files declare
${shared.length} type names that several packages export
${participles.length} exported types and functions that are participles
${houseWords.length} words of the house in comments, literal texts and documents
${casts} casts`);
if (process.argv.includes('--list'))
  console.log(
    [
      ...shared.map(({ name, packages }) => `${name}: ${packages.join(', ')}`),
      ...participles.map(({ name, path }) => `${name}: ${path}`),
      ...houseWords.map(({ word, path }) => `${word}: ${path}`),
    ].join('\n'),
  );
