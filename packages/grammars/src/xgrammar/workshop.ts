import type { CompileJob, GrammarCompiler, GrammarHandle, Workshop, XGrammarFactory } from './types.ts';

/**
 * Begins an instance of xgrammar that compiles. Its text is the program of a worker thread too, so that it refers to nothing
 * outside of it.
 */
export async function begin(make: XGrammarFactory, require: (name: string) => unknown): Promise<Workshop> {
  let said = '';
  const note = (...words: readonly unknown[]): void => {
    const line = /(?:\[FATAL\] [^ ]+: )?(.*)/.exec(words.join(' '))?.[1] ?? '';
    if (!line.startsWith('Aborted')) said = line;
  };
  const xgrammar = make(require, '/xgrammar.cjs', { log: note, warn: note, error: note }),
    compilers = new Map<string, GrammarCompiler>(),
    grammars = new Map<number, GrammarHandle>();
  const first = await xgrammar.Grammar.fromEBNF('root ::= "a"'), // starts the module
    { ptr: begins } = (first as unknown as GrammarHandle).handle.$$;
  first.dispose();
  return {
    begins,
    xgrammar: Object.assign(xgrammar, { said: () => said }),
    async compile({ is, text, key, vocabulary }: CompileJob) {
      if (vocabulary) {
        const { bytes, ends, stops } = vocabulary,
          tokens = Array.from(ends, (end, id) => bytes.subarray(ends[id - 1] ?? 0, end));
        // as text, bytes that are half a character could not be given
        const info = await xgrammar.TokenizerInfo.createTokenizerInfo(
          tokens as unknown as string[],
          'raw',
          false,
          tokens.length,
          [...stops],
        );
        compilers.set(key, await xgrammar.GrammarCompiler.createGrammarCompiler(info, false));
      }
      const compiler = compilers.get(key);
      if (!compiler) throw new Error('the vocabulary was not given');
      const made = (await (is === 'ebnf'
          ? compiler.compileGrammar(text)
          : compiler.compileStructuralTag(text))) as GrammarHandle,
        { ptr } = made.handle.$$;
      grammars.set(ptr, made);
      return ptr;
    },
    dispose(pointer) {
      grammars.get(pointer)?.dispose();
      grammars.delete(pointer);
    },
  };
}
