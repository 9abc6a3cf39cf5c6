/** Labels as versions before the declarations printed them, which files still hold, and what they mean today. */
export const FORMER: readonly (readonly [former: string, label: string])[] = [
  ['snapkv(window=64,kernel=5) ∘ caote ∘ pyramidal(beta=20) ∘ topK', 'snapkv ∘ caote ∘ pyramidal ∘ topK'],
  [
    'weighted(0.5*recency,0.3*structure(anchors=regex),-0.1*frequency,1*sponsorship(reach=6,strength=15,decay=0.9,anchors=regex)) ∘ mandatory(sinks=1,recent=2) ∘ protectedPartition(slots=4,by=sponsorship(reach=6,strength=15,decay=0.9,anchors=regex)) ∘ topK',
    'weighted(0.5*recency,0.3*structure,-0.1*frequency,1*sponsorship) ∘ mandatory(sinks=1,recent=2) ∘ protectedPartition(sponsorship) ∘ topK',
  ],
  ['view(budget=128,rows=query,of=dots ∘ topK)', 'view(dots ∘ topK,budget=128)'],
  ['h2o(recent=0.5) ∘ reduceHeads(kind=mean) ∘ topK', 'h2o ∘ reduceHeads ∘ topK'],
];
