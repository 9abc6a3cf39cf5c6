/**
 * Finds what documents get wrong about the sources: exports and options without a docstring, and names in documents that
 * no source has.
 */
import { posix } from 'node:path';
import ts from 'typescript';
import { onTrial, published } from './manifests.mjs';
import { isDocument, isExported, isSource } from './names.mjs';
import { tracked } from './tracked.mjs';

/** Returns the sources of packages and apps, parsed, by path. */
export const parsed = () =>
  new Map(
    tracked((path) => isSource(path) && !onTrial(path)).map(({ path, text }) => [
      path,
      ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true),
    ]),
  );

const hasDoc = (node) => ts.getJSDocCommentsAndTags(node).some(ts.isJSDoc);
const hasDefault = (node) => ts.getJSDocTags(node).some(({ tagName }) => tagName.text === 'defaultValue');
const namesOf = (node) =>
  ts.isVariableStatement(node) ? node.declarationList.declarations.map(({ name }) => name.text) : [node.name?.text];

/** Returns the declarations that a file exports, `[name, node]`, its own and those that it passes on. */
function exportsOf(sources, path) {
  const file = sources.get(path);
  if (!file) throw new Error(`no source ${path}`);
  return file.statements.flatMap((node) => {
    if (isExported(node)) return namesOf(node).map((name) => [name, node]);
    if (!ts.isExportDeclaration(node) || !node.moduleSpecifier?.text.startsWith('.')) return []; // of another package
    const clause = node.exportClause,
      all = exportsOf(sources, posix.join(posix.dirname(path), node.moduleSpecifier.text));
    if (!clause || ts.isNamespaceExport(clause)) return all;
    const wanted = new Set(clause.elements.map(({ propertyName, name }) => (propertyName ?? name).text));
    return all.filter(([name]) => wanted.has(name));
  });
}

/** Whether an optional field has no default to state: a callback, or a signal that aborts. */
const isCallback = ({ type }) =>
  type !== undefined &&
  (ts.isUnionTypeNode(type) ? type.types : [type]).some(
    (one) =>
      ts.isFunctionTypeNode(one) ||
      (ts.isParenthesizedTypeNode(one) && ts.isFunctionTypeNode(one.type)) ||
      one.getText() === 'AbortSignal',
  );

function faultsOf(name, node) {
  if (!ts.isInterfaceDeclaration(node) || !name.endsWith('Options')) return [];
  return node.members.flatMap((member) => {
    const field = `${name}.${member.name?.getText()}`;
    if (!hasDoc(member)) return [`${field} has no docstring`];
    const optional = member.questionToken && ts.isPropertySignature(member) && !isCallback(member);
    return optional && !hasDefault(member) ? [`${field} may be left out and has no @defaultValue`] : [];
  });
}

/** Returns one sentence for each export of a published package, and each field of its options, that has no docstring. */
export function undocumented(sources = parsed(), packages = published()) {
  const entries = packages.flatMap(({ folder, manifest }) =>
    Object.values(manifest.exports ?? {}).flatMap((entry) =>
      entry['@kv/source'] && !onTrial(folder) ? [posix.join(folder, entry['@kv/source'])] : [],
    ),
  );
  const faults = entries.flatMap((entry) => {
    const all = exportsOf(sources, entry),
      documented = new Set(all.filter(([, node]) => hasDoc(node)).map(([name]) => name)); // one overload is enough
    return all.flatMap(([name, node]) => {
      const at = `${node.getSourceFile().fileName}: `;
      return [...(documented.has(name) ? [] : [`${name} has no docstring`]), ...faultsOf(name, node)].map(
        (fault) => at + fault,
      );
    });
  });
  return [...new Set(faults)].sort();
}

/** Names of other libraries, and of fields of their logs, that documents mention; kvpress' presses end in Press. */
const FOREIGN =
  /Press$|^(ExpectedAttentionStats|GroupQueryAttention|LlamaChatSession|TextStreamer|contextShift|downloadFileToCacheDir|reqId|snapshotDownload)$/;
/** A name as programs write it, with a capital inside, that is no part of a path, an address or an escape. */
const NAME = /(?<![\w.\-/@\\])(?:[a-z]+[A-Z]|[A-Z][a-z]+[A-Z])\w*(?![\w/])/g;

/** Returns one sentence for each name in backticks in a document that no source of a package or an app has. */
export function unknownNames(sources = parsed(), documents = tracked((path) => isDocument(path) && isCurrent(path))) {
  const known = new Set();
  const collect = (node) => {
    if (ts.isIdentifier(node)) known.add(node.text);
    ts.forEachChild(node, collect);
  };
  sources.forEach(collect);
  return documents.flatMap(({ path, text }) =>
    [...text.replace(/^```[^]*?^```/gm, '').matchAll(/`([^`\n]+)`/g)]
      .flatMap(([, code]) => code.match(NAME) ?? [])
      .filter((name) => !known.has(name) && !FOREIGN.test(name))
      .map((name) => `${path} names ${name}, which no source has`),
  );
}
/** Documents of what is; studies and results describe what was when they were run. */
const isCurrent = (path) => /^(docs|packages|apps)\/|^[A-Z]+[.]md$/.test(path) && !onTrial(path);
