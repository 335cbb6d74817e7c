// Execution plans of cuDNN's backend API: they are held while a recipe may execute them again.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "interpose/calls/extent.h"
#include "interpose/cudnn/backend_graph.h"
#include "interpose/cudnn/replay.h"

namespace pooch::interpose {

// A finalized plan. cuDNN keeps in it what it was made of; the program's descriptor goes with the last
// holder.
struct BackendPlan {
  BackendPlan(cudnnBackendDescriptor_t of, BackendGraph what, Extent needed);
  ~BackendPlan();
  BackendPlan(const BackendPlan&) = delete;
  BackendPlan& operator=(const BackendPlan&) = delete;

  const cudnnBackendDescriptor_t descriptor;
  const BackendGraph graph;
  const Extent workspace;
  const std::uint64_t serial;  // from 1; no two plans of the process have the same
  std::mutex mutex;    // held while it executes: not all engines allow for two threads. Innermost lock
  bool usable = true;  // until the program makes something else of its descriptor; by `mutex`
};

// An execution, to be made again: the plan, and what the variant pack said. Null where that cannot be.
std::unique_ptr<Replay> keep_execution(const Keeping& keeping, cudnnHandle_t handle,
                                       const std::shared_ptr<BackendPlan>& plan, const BackendShadow& pack);

}  // namespace pooch::interpose
