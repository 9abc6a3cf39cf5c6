import { KvError } from '@kv/core';
import { formNames } from '@kv/core/engine';
import type { CacheForm } from '@kv/engine';
import Type from 'typebox';
import { checkShape } from '../files/check-shape.ts';
import { mean } from '../numbers.ts';
import type { Candidate, Outcome, Reference } from './candidate.ts';
import type { ChoiceResult, ChoiceWork } from './run-text.ts';
import { documentMeans, promptsOf } from './statistics/losses.ts';
import type { LossKind } from './statistics/losses.ts';

const whole = Type.Integer({ minimum: 0, maximum: 2 ** 40 }),
  amount = Type.Number({ minimum: 0 }),
  share = Type.Number({ minimum: 0, maximum: 1 }),
  measured = { slots: amount, bytes: amount, ms: amount },
  closed = { additionalProperties: false };

/** What was found so far, as plain data: a stopped choice goes on from it. */
const StateShape = Type.Object(
  {
    format: Type.Literal(1),
    /** Digests of what the results are of, see `OF`. */
    of: Type.String({ maxLength: 200 }),
    form: Type.Optional(Type.Unsafe<CacheForm>(Type.Union(formNames.map((form) => Type.Literal(form))))),
    references: Type.Array(
      Type.Tuple([
        whole,
        Type.Object(
          { tokens: whole, right: Type.Optional(share), parsed: Type.Optional(Type.Boolean()), ...measured },
          closed,
        ),
      ]),
    ),
    outcomes: Type.Array(
      Type.Tuple([
        whole,
        whole,
        Type.Object(
          {
            ...{ kl: amount, same: Type.Boolean(), right: Type.Optional(share), held: Type.Optional(share) },
            ...{ ...measured, inferred: Type.Optional(Type.Literal(true)) },
          },
          closed,
        ),
      ]),
    ),
    refused: Type.Array(Type.Tuple([whole, Type.String({ maxLength: 2000 })])),
    /** Milliseconds, and what they were spent on. */
    time: Type.Object({ texts: whole, full: amount, cost: amount, candidates: amount }, closed),
  },
  closed,
);

/** What was found so far, as plain data. */
export interface ChoiceState {
  readonly format: 1;
  readonly of: string;
  readonly form?: CacheForm;
  readonly references: readonly (readonly [prompt: number, reference: Reference])[];
  readonly outcomes: readonly (readonly [prompt: number, candidate: number, outcome: Outcome])[];
  readonly refused: readonly (readonly [candidate: number, why: string])[];
  readonly time: { readonly texts: number; readonly full: number; readonly cost: number; readonly candidates: number };
}

/** What results are of. */
const OF = [
  ...['model', 'prompts', 'candidates (another budget, memory, loss, engine or seed asks others)'],
  ...['code', 'halves of the prompts (another seed splits otherwise)'],
];

/** The results of a choice, by candidate and prompt. */
export class Results {
  /** By prompt. */
  readonly references: (Reference | undefined)[];
  /** `[candidate][prompt]`. */
  readonly outcomes: (Outcome | undefined)[][];
  readonly refused = new Map<number, string>();
  readonly #candidates: readonly Candidate[];
  readonly #choosing: readonly number[];
  readonly #graded: boolean;
  #form: CacheForm | undefined;
  #time = { texts: 0, full: 0, cost: 0, candidates: 0 };

  /** @param choosing prompts that choose: what a loss is depends on these alone */
  constructor({ prompts, candidates }: Pick<ChoiceWork, 'prompts' | 'candidates'>, choosing: readonly number[]) {
    [this.#candidates, this.#choosing] = [candidates, choosing];
    this.#graded = prompts.every(({ answers }) => answers !== undefined);
    this.references = prompts.map(() => undefined);
    this.outcomes = candidates.map(() => prompts.map(() => undefined));
  }

  /** How caches are stored; undefined before the first result. */
  get form(): CacheForm | undefined {
    return this.#form;
  }
  /** Milliseconds of the full cache on a text, and of candidates per unit of their cost; 0 before a result. */
  get pace(): { readonly full: number; readonly perCost: number } {
    const { texts, full, cost, candidates } = this.#time;
    return { full: texts > 0 ? full / texts : 0, perCost: cost > 0 ? candidates / cost : 0 };
  }

  /** Whether it is known what all of these candidates do on all of these prompts. */
  has(prompts: readonly number[], candidates: readonly number[]): boolean {
    return candidates.every((i) => this.refused.has(i) || prompts.every((prompt) => this.outcomes[i][prompt]));
  }

  add({ form, references, outcomes, refused, ms }: ChoiceResult): void {
    this.#form = form;
    this.#put(references, outcomes, refused);
    const ran = outcomes.filter(([, , { inferred }]) => !inferred);
    this.#time.texts++;
    this.#time.full += ms.full;
    this.#time.candidates += ms.candidates;
    this.#time.cost += ran.reduce((sum, [, candidate]) => sum + this.#candidates[candidate].cost, 0);
  }

  /** What a loss is: of grades, where all prompts have answers and the full cache is right on some that choose. */
  get kind(): LossKind {
    const known = this.#choosing.flatMap((prompt) => this.references[prompt] ?? []);
    return this.#graded && known.some(({ right = 0 }) => right > 0) ? 'answers' : 'same';
  }
  /** Whether a loss will stay what it is: what leaves the race by another kind of loss never comes back. */
  get settled(): boolean {
    return !this.#graded || this.kind === 'answers';
  }

  /** Returns a candidate's loss on each of these prompts; undefined where it was not asked. */
  losses(candidate: number, prompts: readonly number[], kind = this.kind): readonly (number | undefined)[] {
    return prompts.map((prompt) => {
      const outcome = this.outcomes[candidate][prompt],
        reference = this.references[prompt];
      if (!outcome || !reference) return undefined;
      return kind === 'same' ? Number(!outcome.same) : (reference.right ?? 0) - (outcome.right ?? 0);
    });
  }

  /**
   * Returns a candidate's mean loss over the documents of which it was asked all of these prompts, and its mean
   * divergence; undefined if there is none.
   */
  meanLoss(
    candidate: number,
    prompts: readonly number[],
    clusters: readonly number[],
  ): { readonly loss: number; readonly kl: number } | undefined {
    const losses = documentMeans(this.losses(candidate, prompts), promptsOf(clusters)).filter(
        (one) => one !== undefined,
      ),
      measured = this.measured(candidate, prompts);
    return losses.length === 0
      ? undefined
      : { loss: mean(losses), kl: measured.length === 0 ? Infinity : mean(measured.map(({ kl }) => kl)) };
  }

  /** Returns what a candidate did on those of these prompts on which it was run. */
  measured(candidate: number, prompts: readonly number[]): readonly Outcome[] {
    return prompts.flatMap((prompt) => this.outcomes[candidate][prompt] ?? []).filter(({ inferred }) => !inferred);
  }

  /**
   * Returns the mean bytes of a candidate's cache, as its share of the full cache's on the prompts on which it was run;
   * undefined if there are none.
   */
  bytes(candidate: number): number | undefined {
    const both = this.references.flatMap((reference, prompt) => {
        const outcome = this.outcomes[candidate][prompt];
        return reference && outcome && !outcome.inferred ? [[outcome.bytes, reference.bytes] as const] : [];
      }),
      full = this.fullBytes;
    return both.length === 0 || full === 0
      ? undefined
      : (full * mean(both.map(([own]) => own))) / mean(both.map(([, whole]) => whole));
  }
  /** Mean bytes of the full cache over all prompts that it was asked; 0 before a result. */
  get fullBytes(): number {
    const known = this.references.flatMap((reference) => reference ?? []);
    return known.length === 0 ? 0 : mean(known.map(({ bytes }) => bytes));
  }

  /** Returns all of it as plain data. @param of digests of what it is of, see `restore` */
  state(of: string): ChoiceState {
    return {
      format: 1,
      of,
      ...(this.#form && { form: this.#form }),
      references: this.references.flatMap((reference, prompt) => (reference ? [[prompt, reference] as const] : [])),
      outcomes: this.outcomes.flatMap((some, candidate) =>
        some.flatMap((outcome, prompt) => (outcome ? [[prompt, candidate, outcome] as const] : [])),
      ),
      refused: [...this.refused],
      time: { ...this.#time },
    };
  }

  /**
   * Adds what a stopped choice found.
   * @param of digests of what `OF` names, with spaces between them
   * @throws KvError for a value of another form, or results of anything else
   */
  restore(state: unknown, of: string): void {
    checkShape(state, StateShape, 'state');
    const { references, outcomes, refused, form, time } = state as ChoiceState;
    const before = (state as ChoiceState).of.split(' '),
      others = OF.filter((_, i) => before[i] !== of.split(' ')[i]);
    if (others.length > 0)
      throw new KvError(
        'state',
        `expected results of this choice, got those of other ${others.join(' and ')}: name another file, or delete this one`,
      );
    const answered = new Set(references.map(([prompt]) => prompt)),
      isCandidate = (candidate: number): boolean => candidate < this.outcomes.length;
    if (
      references.some(([prompt]) => prompt >= this.references.length) ||
      outcomes.some(([prompt, candidate]) => !answered.has(prompt) || !isCandidate(candidate)) ||
      refused.some(([candidate]) => !isCandidate(candidate))
    )
      throw new KvError('state', 'expected results of prompts and candidates that there are, got others');
    this.#put(references, outcomes, refused);
    [this.#form, this.#time] = [form, { ...time }];
  }

  #put(
    references: ChoiceState['references'],
    outcomes: ChoiceState['outcomes'],
    refused: ChoiceState['refused'],
  ): void {
    for (const [prompt, reference] of references) this.references[prompt] = reference;
    for (const [prompt, candidate, outcome] of outcomes) this.outcomes[candidate][prompt] = outcome;
    for (const [candidate, why] of refused) this.refused.set(candidate, why);
  }
}
