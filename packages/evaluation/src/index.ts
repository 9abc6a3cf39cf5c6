export { runExperiment } from './jobs/experiment.ts';
export type { Experiment, RunOptions, Work } from './jobs/experiment.ts';
export type { Runner } from './jobs/pool.ts';
export { here } from './jobs/run.ts';
export { serve, threads } from './jobs/thread.ts';
export { checkWritable, writeWhole } from './jobs/whole-file.ts';
export { bytesText, modeTitles, needleColumns, needleLegend } from './needle/columns.ts';
export { needleReport } from './needle/report/report.ts';
export type { AloneResult, Answer, Example, NeedleResult, PromptResult } from './needle/results.ts';
export { needleDefaults } from './needle/settings.ts';
export type { Form, Mode, NeedleJob, NeedleOptions, NeedleSettings, Way } from './needle/settings.ts';
export type { Accuracy, NeedleRow } from './needle/summary.ts';
export { needleTable } from './needle/table.ts';
export type { NeedleTable } from './needle/table.ts';
export type { ByArm, PaperJob, PaperResult } from './papers/jobs.ts';
export { outcomeCells, rowText, studyMarkdown } from './papers/markdown.ts';
export type { Outcome } from './papers/outcome.ts';
export { planFor, planNames, planOf, planText, usualPlan } from './papers/plans.ts';
export type { PlanName } from './papers/plans.ts';
export { paperStudy, rowsOf } from './papers/study.ts';
export type { Study, StudyOptions } from './papers/study.ts';
export { paperNames } from './papers/types.ts';
export type {
  Arm,
  Contrast,
  Excused,
  Kind,
  Metric,
  Numbers,
  Paper,
  Plan,
  Planned,
  Row,
  Rule,
  Task,
} from './papers/types.ts';
export type { ArmMean, Measured, Verdict } from './papers/verdict.ts';
export type { Names, Naming } from './policies.ts';
export type { Bench, Subject } from './subject.ts';
