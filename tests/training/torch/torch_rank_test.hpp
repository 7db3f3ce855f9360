// What tests with libtorch share: a module's gradients on all ranks, worked out without a wrapper.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "hymn/torch.hpp"
#include "tests/support/rank_test.hpp"

namespace hymn::test {

/// Numbers that differ from rank to rank, and from step to step, but not from run to run.
inline at::Tensor some_input(int rank, int step, at::IntArrayRef sizes) {
  at::Generator generator =
      at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 * step + rank + 1));
  return at::rand(sizes, generator);
}

/// The average over all ranks of what each of them has computed; an undefined tensor counts as
/// zeros of the shape of `like`.
inline at::Tensor average_of(World& world, const at::Tensor& mine, const at::Tensor& like) {
  at::Tensor sum = mine.defined() ? mine.detach().clone() : at::zeros_like(like);
  hymn::torch::all_reduce(sum, world.group());
  return sum / world.size();
}

inline void expect_close(const at::Tensor& a, const at::Tensor& b, const std::string& what,
                         double tolerance = 1e-5) {
  ASSERT_EQ(a.defined(), b.defined()) << what;
  if (!a.defined()) return;
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  EXPECT_TRUE(at::allclose(a, b, tolerance, tolerance)) << what << ":\n" << a << "\nand\n" << b;
}

/// All ranks have the same bits.
inline void expect_same_on_all_ranks(World& world, const at::Tensor& mine,
                                     const std::string& what) {
  at::Tensor first = mine.detach().clone();
  hymn::torch::broadcast(first, world.group().global_rank(0), world.group());
  EXPECT_TRUE(at::equal(first, mine)) << what << " on rank " << world.rank();
}

/// With these words in its text.
template <class Call>
void expect_refused(const char* words, Call call) {
  try {
    call();
    ADD_FAILURE() << "it was not refused: " << words;
  } catch (const hymn::torch::Error& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

}  // namespace hymn::test
