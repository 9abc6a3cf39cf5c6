import { readFileSync } from 'node:fs';

/** Returns a README's JavaScript blocks, in order. */
export const blocksOf = (readme: URL): readonly string[] =>
  [...readFileSync(readme, 'utf8').matchAll(/^```js\n(.*?)^```/gms)].map(([, code = '']) => code);

type Run = (modules: Readonly<Record<string, unknown>>) => Promise<unknown>;
const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor as new (...names: string[]) => Run;

/** Runs a block with the given modules as its imports, and returns some of its constants. */
export async function runBlock<const N extends string>(
  code: string,
  modules: Readonly<Record<string, unknown>>,
  names: readonly N[],
): Promise<Record<N, unknown>> {
  const body = code.replace(/^import (\{.*?\}) from '(.*?)';$/gm, (_, taken: string, from: string) => {
    if (!(from in modules)) throw new Error(`expected a module that the test knows, got ${from}`);
    return `const ${taken} = modules[${JSON.stringify(from)}];`;
  });
  return (await new AsyncFunction('modules', `${body}\nreturn { ${names.join(', ')} };`)(modules)) as Record<
    N,
    unknown
  >;
}

/** Returns the packages that a README says to install. */
export const installedBy = (readme: URL): readonly string[] =>
  /^`npm i (.*?)`/m.exec(readFileSync(readme, 'utf8'))?.[1].split(' ') ?? [];
/** Returns the packages that its blocks import. */
export const importedBy = (readme: URL): readonly string[] => [
  ...new Set(blocksOf(readme).flatMap((code) => [...code.matchAll(/ from '(.*?)';$/gm)].map(([, from = '']) => from))),
];
