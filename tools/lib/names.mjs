/**
 * Counts names in the sources: exported names by package, type names with several meanings, names that are bare
 * participles, words that only this project uses so in comments, literal texts and documents, and casts.
 */
import ts from 'typescript';
import { tracked } from './tracked.mjs';

/** Sources of packages and apps, without tests and templates. */
const isSource = (path) => /^(packages|apps)\/.*\/src\/.*[.]ts$/.test(path) && !/templates|[.]d[.]ts$/.test(path);
/** Tests of packages and apps. */
const isTest = (path) => /^(packages|apps)\/.*\/test\/.*[.]ts$/.test(path) && !/templates|[.]d[.]ts$/.test(path);
/**
 * Documents, without change logs, generated files, and plans and results, which say what was asked and came out in the
 * words of their day.
 */
const isDocument = (path) =>
  /[.]md$/.test(path) && !/CHANGELOG|^[.]changeset|\/results|\/plan|\/(?:claims|superseded)[.]md|templates/.test(path);

const packageOf = (path) => path.slice(0, path.indexOf('/src/'));
const isType = (node) =>
  ts.isInterfaceDeclaration(node) ||
  ts.isTypeAliasDeclaration(node) ||
  ts.isClassDeclaration(node) ||
  ts.isEnumDeclaration(node);
/** Whether a declaration is exported where it stands. */
export const isExported = (node) => node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) ?? false;

/** Returns the names declared at the top level of a source: `{ name, type, call, exported }`; `call` of a function. */
function declared(file) {
  return file.statements.flatMap((node) => {
    const exported = isExported(node);
    if (isType(node)) return [{ name: node.name.text, type: true, exported }];
    if (ts.isFunctionDeclaration(node)) return [{ name: node.name.text, type: false, call: true, exported }];
    if (!ts.isVariableStatement(node)) return [];
    return node.declarationList.declarations
      .filter(({ name }) => ts.isIdentifier(name))
      .map(({ name }) => ({ name: name.text, type: false, exported }));
  });
}

/** One-word participles: such a name says what was done, not what the thing is. */
const isParticiple = (name) =>
  (/^[A-Z]?[a-z]+ed$/.test(name) && !/^(embed|feed|need|red|seed|shed|speed)$/i.test(name)) || IRREGULAR.test(name);
const IRREGULAR =
  /^(begun|been|bound|bought|broken|built|came|caught|chosen|come|cut|done|drawn|fallen|fed|felt|found|frozen|given|gone|got|grown|heard|held|hidden|kept|known|laid|led|left|lent|lost|made|meant|met|paid|ran|read|said|seen|sent|set|shown|shut|slept|sold|spent|split|spoken|spoilt|stood|taken|taught|thought|thrown|told|torn|understood|woken|won|worn|written)$/i;

/** Words that only this project uses in this way, in comments, literal texts and documents. */
const HOUSE_WORDS = /\b(beside|behind|so many|nobody|whoever|anew|in the place of)\b/gi;

/** The prose of a document: what is not code. */
const prose = (text) => text.replace(/^```[^]*?^```/gm, '').replace(/`[^`\n]*`/g, '');
const comments = (text) => [...text.matchAll(/\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*$/gm)].map(([comment]) => comment);
/** Literal texts of a file, such as errors, help and names of tests; not what is imported. */
function literals(file) {
  const texts = [];
  const visit = (node) => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return;
    if (ts.isLiteralExpression(node) || ts.isTemplateLiteralToken(node)) texts.push(node.text);
    ts.forEachChild(node, visit);
  };
  visit(file);
  return texts;
}
const casts = (file) => {
  let count = 0;
  const visit = (node) => {
    if (ts.isAsExpression(node) && node.type.getText(file) !== 'const') count++;
    ts.forEachChild(node, visit);
  };
  visit(file);
  return count;
};

/** Counts the sources and documents of the working tree, or of the commit `ref`. */
export function census(ref) {
  const types = new Map(),
    all = [];
  const house = [],
    look = (path, text) => house.push(...(text.match(HOUSE_WORDS) ?? []).map((word) => ({ path, word })));
  let cast = 0;
  const parse = (path, text) => ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  for (const { path, text } of tracked(isTest, ref))
    for (const literal of literals(parse(path, text))) look(path, literal);
  for (const { path, text } of tracked(isSource, ref)) {
    const file = parse(path, text);
    for (const one of declared(file)) {
      all.push({ ...one, path });
      if (one.type) types.set(one.name, [...(types.get(one.name) ?? []), { ...one, path }]);
    }
    cast += casts(file);
    for (const words of [...comments(text), ...literals(file)]) look(path, words);
  }
  for (const { path, text } of tracked(isDocument, ref)) look(path, prose(text));
  const several = [...types].filter(([, places]) => places.length > 1);
  const exported = all.filter((one) => one.exported);
  return {
    exported: exported.length,
    several: several.map(([name]) => name),
    shared: several.flatMap(([name, places]) => {
      const packages = [...new Set(places.filter((one) => one.exported).map(({ path }) => packageOf(path)))];
      return packages.length > 1 ? [{ name, packages }] : [];
    }),
    participles: exported.filter(({ name, type, call }) => (type || call) && isParticiple(name)),
    houseWords: house,
    casts: cast,
  };
}

/**
 * Returns one sentence for each exported type name that two packages use, each type or function that is a participle,
 * and each word of `HOUSE_WORDS` in a comment, literal text or document.
 */
export function nameFaults({ shared, participles, houseWords } = census()) {
  return [
    ...houseWords.map(({ path, word }) => `${path} says '${word}': say what is meant`),
    ...shared.map(({ name, packages }) => `${name} is exported by ${packages.join(' and ')}: one name, one meaning`),
    ...participles.map(
      ({ name, path }) =>
        `${name} of ${path} is a participle: a type is named for what it is, a function for what it does`,
    ),
  ].sort();
}

export { isDocument, isSource };
