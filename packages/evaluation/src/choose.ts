/** `choose`: which policy for a model and prompts. For Node and for pages. */

export type { Candidate, Outcome, Reference } from './choose/candidate.ts';
export type { Choice, ChoiceGoal, ChoiceRow } from './choose/choice.ts';
export { choose } from './choose/choose.ts';
export type { ChooseOptions, ChoiceProgress } from './choose/choose.ts';
export { readPrompts } from './choose/prompts.ts';
export type { ChoicePrompt, PromptModel, ReadPromptsOptions } from './choose/prompts.ts';
export type { ChoiceState } from './choose/results.ts';
export type { ChoiceJob, ChoiceResult, ChoiceWork } from './choose/run-text.ts';
export { splitPrompts } from './choose/split.ts';
export type { ChoiceSplit } from './choose/split.ts';
