import { moduleOf, pairedModuleOf, type FastModule, type InstructionSet } from '@kv/engine-wasm';

const forms: readonly InstructionSet[] = [0, 1, 2];
const named = async (name: string, fast: Promise<FastModule | undefined>) => ({ name, fast: await fast });

/** Every module that this process supports, by name. */
export const modules: readonly (readonly [name: string, fast: FastModule])[] = (
  await Promise.all(
    forms.flatMap((form) => [
      named(`form ${form}`, moduleOf(form)),
      named(`form ${form}, vectors in pairs`, pairedModuleOf(form)),
    ]),
  )
).flatMap(({ name, fast }) => (fast ? [[name, fast] as const] : []));
