export { twoStageScores } from './two-stage-scores.ts';
export { outputShare } from './output-share.ts';
