#include "schedule/batch.h"

namespace veery {

void Batch::clear() {
  parts.clear();
  jobs.clear();
  chain.clear();
  made.clear();
  prefills = chained = planned = false;
  steps = 1;
  seconds = 0;
}

int32_t Batch::add(Job& job, int32_t most) {
  parts.push_back(job.part(most));
  parts.back().mask = job.mask();
  jobs.push_back(&job);
  made.push_back(0);
  prefills = prefills || job.prompting();
  return static_cast<int32_t>(parts.back().ids.size());
}

int32_t Batch::rows() const {
  if (chained) return static_cast<int32_t>(parts.size());
  size_t rows = 0;
  for (const RunPart& part : parts) rows += part.ids.size();
  return static_cast<int32_t>(rows);
}

}  // namespace veery
