// The former way to declare pieces, until every package has left it.
export {
  allocator,
  label,
  modelAllocator,
  modelScorer,
  modelSelector,
  modelTransform,
  modelUnitTransform,
  normaliser,
  scoreAllocator,
  scorer,
  selector,
  shaper,
  transform,
  unit,
  unitTransform,
  weigher,
  weightTransform,
} from './old/author.ts';
export type { Allocation, Common, Head, Options, ScoreResult, Selection, Spec, UnitResult } from './old/author.ts';
export { allocatorBy } from './old/combine.ts';
export { freeze, hide, onCompact, onStep, wrapSelect } from './old/hooks.ts';
