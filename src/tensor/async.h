// async.h: evaluations on a thread of their own.
#pragma once

namespace veery::tensor {

/// Waits until all jobs of async_eval() are done. Threads that call it see what the jobs computed.
void wait_for_jobs();

}  // namespace veery::tensor
