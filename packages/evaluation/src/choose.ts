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
export { candidatesOf, SHARES } from './choose/candidates.ts';
export type { CandidateOptions, Candidates } from './choose/candidates.ts';
export { drawnPolicies } from './choose/draw.ts';
export { choiceColumns, choiceLegend, shownRows } from './choose/report/columns.ts';
export type { ChoiceColumn } from './choose/report/columns.ts';
export { choiceReport } from './choose/report/html.ts';
export type { ChoiceReportFacts } from './choose/report/html.ts';
export { shellWord, useLines } from './choose/report/lines.ts';
export type { UseLine } from './choose/report/lines.ts';
export { lossPicture, pictureLegend } from './choose/report/picture.ts';
export { choiceSentences, isEarly, rowOf, wayText } from './choose/report/sentence.ts';
export { refusedBy, TARGETS } from './choose/targets.ts';
export type { Target } from './choose/targets.ts';
