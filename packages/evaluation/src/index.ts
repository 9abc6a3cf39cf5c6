export { runExperiment } from './jobs/experiment.ts';
export type { Experiment, RunOptions, Work } from './jobs/experiment.ts';
export type { Runner } from './jobs/pool.ts';
export { here } from './jobs/run.ts';
export { serve, threads } from './jobs/thread.ts';
export { timed } from './jobs/timed.ts';
export { checkWritable, writeWhole } from './jobs/whole-file.ts';
export { bytesText, modeTitles, needleColumns, needleLegend } from './needle/columns.ts';
export { needleConclusion } from './needle/conclusion.ts';
export { needleReport } from './needle/report/report.ts';
export type { Answer, Example, NeedleResult } from './needle/results.ts';
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
export { cellQueue, checkCellJob, elsewhere } from './cells/job.ts';
export type { CellJob } from './cells/job.ts';
export { cellExperiment, cellsOf } from './cells/experiment.ts';
export type { CellOptions } from './cells/experiment.ts';
export { rebudget } from './cells/rebudget.ts';
export type { Rebudgeted } from './cells/rebudget.ts';
export type { Evidence } from './cells/evidence.ts';
export type { CellWork } from './cells/run-cell.ts';
export { cellId, generatingOf } from './cells/types.ts';
export type { Cell, CellResult, GeneratingOptions, Tasks } from './cells/types.ts';
export { readProblems } from './files/problems.ts';
export { openLedger } from './protocol/ledger.ts';
export type { Ledger } from './protocol/ledger.ts';
export { readProtocol, seedNote, tuningIds } from './protocol/plan.ts';
export type { ProtocolPlan, Protocolled } from './protocol/plan.ts';
export { isDev, readIds, splitIds } from './protocol/split.ts';
export type { Split } from './protocol/split.ts';
export { chosenLambda, confirmCells, decide, tiedLambdas } from './protocol/statistics.ts';
export type { ArmSummary, ConfirmCell, Decision, Role, Sampled } from './protocol/statistics.ts';
export { branch, confirm, probe, TASK } from './protocol/steps.ts';
export type { AskedModel, Chosen, Confirmed, ConfirmOutcome, ProbeOutcome } from './protocol/outcomes.ts';
export type { Bed } from './protocol/steps.ts';
export { pLegend } from './p-legend.ts';
export { screeningLegend, standing, VERDICT } from './standing.ts';
export { comparedLegend } from './report/compared.ts';
export { contrastText, sweepContrasts } from './sweep/contrasts.ts';
export type { SweepContrast } from './sweep/contrasts.ts';
export { sweepCost, sweepModel } from './sweep/run.ts';
export type { SweepCost, SweepRow } from './sweep/run.ts';
export { branchGate, branchMeanings, protocolExample, protocolFields } from './protocol/help.ts';
export { sweepExample, sweepFields } from './sweep/help.ts';
export { checkPolicies, confirmNote, modelOf, readSweep, sweepTasks } from './sweep/sweep.ts';
export type { Sweep } from './sweep/sweep.ts';
export { sweepReport } from './report/report.ts';
export type { ReportFacts } from './report/report.ts';
export { answersParquet, shownSweep, sweepCsv, sweepJson, sweepParquet } from './sweep/write.ts';
export type { SweepOutcome } from './sweep/write.ts';
export { readKvpress } from './kvpress/read.ts';
export type { OtherRow } from './kvpress/read.ts';
export { kvpressFiles } from './kvpress/write.ts';
export type { ResultFile } from './kvpress/write.ts';
