/** Sums one number of each of 64 threads, always in the same order; every thread gets the sum. */
export const TOTAL: string = /* wgsl */ `
var<workgroup> lanes: array<f32, 64>;
fn total(lane: u32, mine: f32) -> f32 {
  workgroupBarrier();
  lanes[lane] = mine;
  workgroupBarrier();
  if (lane < 8u) {
    var sum = 0.0;
    for (var i = lane; i < 64u; i += 8u) { sum += lanes[i]; }
    lanes[lane] = sum;
  }
  workgroupBarrier();
  var sum = 0.0;
  for (var i = 0u; i < 8u; i++) { sum += lanes[i]; }
  return sum;
}`;
