// Execution plans of cuDNN's backend API, kept and executed again: see replay_test::again.
#include "interpose/cudnn/backend_shadow.h"
#include "tests/cudnn_graph.h"
#include "tests/unit/interpose/replay_support.h"

namespace replay_test {
namespace {

using namespace cudnn_graph;

const Numbers x_dims{2, 6, 9, 7}, w_dims{4, 3, 3, 2}, y_dims{2, 4, 6, 4};
constexpr std::size_t x_count = 2 * 6 * 9 * 7, w_count = 4 * 3 * 3 * 2, y_count = 2 * 4 * 6 * 4;

// Two groups, and padding, stride and dilation that differ from axis to axis.
Descriptor graph(const Direction& direction, float alpha, float beta) {
  const auto packed = [](std::int64_t uid, const Numbers& dims) {
    return tensor(uid, dims, packed_strides(dims));
  };
  return graph_of(operation(direction, packed('x', x_dims), packed('w', w_dims), packed('y', y_dims),
                            convolution({2, 1}, {2, 2}, {1, 2}), alpha, beta));
}

// By an engine with a workspace where there is one.
Descriptor plan_with_workspace(const Direction& direction, float alpha, float beta) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  for (const Descriptor& configuration : configurations(graph(direction, alpha, beta))) {
    plan = plan_of(configuration);
    if (workspace_of(plan) > 0) break;
  }
  return plan;
}

struct Execution {
  Dnn dnn;
  Descriptor plan;
  Execution(const Direction& direction, float alpha, float beta)
      : plan(plan_with_workspace(direction, alpha, beta)) {}
  cudnnStatus_t run(Memory& memory, void* x, void* w, void* y) const {
    const auto bytes = static_cast<std::size_t>(workspace_of(plan));
    EXPECT_GT(bytes, 0U);
    return cudnnBackendExecute(dnn, plan.raw(),
                               pack_of({'w', 'y', 'x'}, {w, y, x}, memory.bytes(bytes)).raw());
  }
};

TEST(ReplayBackend, AForwardConvolutionWhosePlanAndPackAreGone) {
  for (const float beta : {0.0F, 0.25F}) {
    Memory memory;
    again("cudnnBackendExecute", [&] {
      ASSERT_EQ(Execution(forward, 1, beta)
                    .run(memory, memory.floats(x_count), memory.floats(w_count), memory.floats(y_count)),
                CUDNN_STATUS_SUCCESS);
    });
  }
}

TEST(ReplayBackend, BackwardConvolutionsHaveNoRecipe) {
  for (const Direction* direction : {&backward_data, &backward_filter}) {
    Memory memory;
    never_again("cudnnBackendExecute", [&] {
      ASSERT_EQ(Execution(*direction, 1, 0)
                    .run(memory, memory.floats(x_count), memory.floats(w_count), memory.floats(y_count)),
                CUDNN_STATUS_SUCCESS);
    });
  }
}

// What the session is told of one execution.
KeptOp told(const Direction& direction, float beta) {
  Memory memory;
  ops().clear();
  EXPECT_EQ(Execution(direction, 1, beta)
                .run(memory, memory.floats(x_count), memory.floats(w_count), memory.floats(y_count)),
            CUDNN_STATUS_SUCCESS);
  KeptOp op = std::move(ops().back());
  ops().clear();
  return op;
}

pooch::Effect effect_on(const KeptOp& op, std::size_t count) {
  for (const pooch::Access& access : op.accesses)
    if (access.bytes == count * sizeof(float)) return access.effect;
  ADD_FAILURE() << "no operand of " << count << " floats";
  return pooch::Effect::scratch;
}

TEST(ReplayBackend, KindAndEffectsFollowFromTheOperation) {
  using pooch::Effect;
  const KeptOp plain = told(forward, 0), blended = told(forward, 2);
  EXPECT_EQ(plain.kind, pooch::OpKind::conv_forward);
  EXPECT_EQ(effect_on(plain, y_count), Effect::overwrite);
  EXPECT_EQ(effect_on(blended, y_count), Effect::read_write);
  EXPECT_EQ(effect_on(plain, x_count), Effect::read);
  EXPECT_EQ(plain.accesses.size(), 4U);
  EXPECT_EQ(plain.accesses.back().effect, Effect::scratch);
  const KeptOp data = told(backward_data, 0), filter = told(backward_filter, 0);
  EXPECT_EQ(data.kind, pooch::OpKind::conv_backward_data);
  EXPECT_EQ(effect_on(data, x_count), Effect::overwrite);
  EXPECT_EQ(effect_on(data, y_count), Effect::read);
  EXPECT_EQ(filter.kind, pooch::OpKind::conv_backward_filter);
  EXPECT_EQ(effect_on(filter, w_count), Effect::overwrite);
}

TEST(ReplayBackend, APlanOfAnUnknownGraphReadsAndWritesAllThatItsPackPointsInto) {
  Memory memory;
  float* const operands[] = {memory.floats(x_count), memory.floats(w_count), memory.floats(y_count)};
  const std::size_t sizes[] = {x_count, w_count, y_count};
  for (int i = 0; i < 3; ++i) own(operands[i], sizes[i] * sizeof(float));
  const auto configuration = std::move(configurations(graph(forward, 1, 0)).front());
  (void)pooch::interpose::shadow_destroyed(configuration.raw());
  const Descriptor plan = plan_of(configuration);
  ops().clear();
  const Dnn dnn;
  const Descriptor pack = pack_of({'x', 'w', 'y'}, {operands[0], operands[1] + 2, operands[2]}, nullptr);
  (void)cudnnBackendExecute(dnn, plan.raw(), pack.raw());
  ASSERT_EQ(ops().size(), 1U);
  const KeptOp& op = ops().back();
  EXPECT_EQ(op.kind, pooch::OpKind::bare_launch);
  EXPECT_FALSE(op.offered);
  ASSERT_EQ(op.accesses.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(op.accesses[i].effect, pooch::Effect::read_write);
    EXPECT_EQ(raw(op.accesses[i].address), reinterpret_cast<std::uintptr_t>(operands[i]));
    EXPECT_EQ(op.accesses[i].bytes, sizes[i] * sizeof(float));
  }
  ops().clear();
  forget_owned();
}

TEST(ReplayBackend, ADescriptorThatBecomesSomethingElseTakesItsRecipesAlong) {
  Memory memory;
  ops().clear();
  Execution execution(forward, 1, 0);
  ASSERT_EQ(execution.run(memory, memory.floats(x_count), memory.floats(w_count), memory.floats(y_count)),
            CUDNN_STATUS_SUCCESS);
  const KeptOp op = std::move(ops().back());
  ASSERT_NE(op.recipe, nullptr);
  std::vector<pooch::Address> places;
  for (const pooch::Access& access : op.accesses) places.push_back(access.address);
  EXPECT_TRUE(op.recipe->run(places, pooch::StreamHandle::legacy));
  ASSERT_EQ(cudnnBackendInitialize(execution.plan.raw()), CUDNN_STATUS_SUCCESS);
  EXPECT_FALSE(op.recipe->run(places, pooch::StreamHandle::legacy));
  ops().clear();
}

}  // namespace
}  // namespace replay_test
