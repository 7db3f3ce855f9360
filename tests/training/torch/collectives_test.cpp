// Collectives of libtorch's tensors.
#include "tests/training/torch/torch_rank_test.hpp"

namespace hymn::test {
namespace {

namespace ht = hymn::torch;

/// Ways to lie: in rows, by columns, with gaps, a slice, of nothing, one number.
std::vector<at::Tensor> some_layouts(int rank, int step) {
  const at::Tensor base = some_input(rank, step, {4, 6, 5, 3});
  return {base,
          base.contiguous(at::MemoryFormat::ChannelsLast),
          base.transpose(0, 2),
          base.slice(1, 0, 6, 2),
          base.select(3, 1),
          base[0][0][0].slice(0, 0, 0),
          base[0][0][0][0].clone()};
}

at::Tensor sum_over_ranks(World& world, std::size_t layout) {
  at::Tensor sum;
  for (int rank = 0; rank < world.size(); ++rank) {
    const at::Tensor each = some_layouts(rank, 0)[layout];
    sum = rank == 0 ? each.clone() : sum + each;
  }
  return sum;
}

RANK_TEST(TorchCollectives, ReduceTensorsHoweverTheyLie) {
  const std::size_t layouts = some_layouts(0, 0).size();
  for (std::size_t i = 0; i < layouts; ++i) {
    const at::Tensor tensor = some_layouts(world.rank(), 0)[i];
    ht::all_reduce(tensor, world.group());
    expect_close(tensor, sum_over_ranks(world, i), "all_reduce of layout " + std::to_string(i));
    expect_same_on_all_ranks(world, tensor, "all_reduce");

    const int root = world.size() - 1;
    const at::Tensor reduced = some_layouts(world.rank(), 0)[i];
    const at::Tensor before = reduced.clone();
    ht::reduce(reduced, root, world.group());
    expect_close(reduced, world.rank() == root ? sum_over_ranks(world, i) : before, "reduce");

    const at::Tensor sent = some_layouts(world.rank(), 0)[i];
    ht::broadcast(sent, root, world.group());
    EXPECT_TRUE(at::equal(sent, some_layouts(root, 0)[i]));
  }
}

RANK_TEST(TorchCollectives, test_channels_last_contig) {
  const at::Tensor tensor =
      at::full({2, 16, 12, 18}, 1.0 + world.rank()).contiguous(at::MemoryFormat::ChannelsLast);
  ht::broadcast(tensor, 0, world.group());
  EXPECT_TRUE(at::equal(tensor, at::ones({2, 16, 12, 18})));
  EXPECT_TRUE(tensor.is_contiguous(at::MemoryFormat::ChannelsLast));
}

RANK_TEST(TorchCollectives, MoveBlocks) {
  const int ranks = world.size();
  // Rows that do not lie one after the other.
  const at::Tensor mine = some_input(world.rank(), 1, {3, 4 * ranks}).t();
  at::Tensor all = at::zeros({ranks, 4 * ranks, 3});
  ht::all_gather(all, mine, world.group());
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_TRUE(at::equal(all[rank], some_input(rank, 1, {3, 4 * ranks}).t()));

  const at::Tensor part = at::zeros({4, 3});
  ht::reduce_scatter(part, mine, world.group());
  at::Tensor sum = at::zeros({4 * ranks, 3});
  for (int rank = 0; rank < ranks; ++rank) sum += all[rank];
  expect_close(part, sum.slice(0, 4 * world.rank(), 4 * world.rank() + 4), "reduce_scatter");

  const at::Tensor turned = at::zeros({ranks, 4, 3});
  ht::all_to_all(turned, mine, world.group());
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_TRUE(
        at::equal(turned[rank], all[rank].slice(0, 4 * world.rank(), 4 * world.rank() + 4)));
}

RANK_TEST(TorchCollectives, TakeEveryType) {
  for (const at::ScalarType type :
       {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16, at::kFloat,
        at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
    const at::Tensor tensor = at::full({5}, world.rank() + 1, type);
    ht::all_reduce(tensor, world.group());
    const int sum = world.size() * (world.size() + 1) / 2;
    EXPECT_TRUE(at::equal(tensor, at::full({5}, sum, type))) << c10::toString(type);
  }
  const at::Tensor any = at::full({2}, world.rank() > 0, at::kBool);
  ht::all_reduce(any, world.group(), hymnMax);
  EXPECT_EQ(any.all().item<bool>(), world.size() > 1);
}

RANK_TEST(TorchCollectives, SeveralAreInFlight) {
  std::vector<at::Tensor> tensors;
  std::vector<ht::Work> works;
  for (int i = 0; i < 5; ++i) {
    tensors.push_back(some_layouts(world.rank(), 0)[3]);
    works.push_back(ht::all_reduce_async(tensors.back(), world.group()));
  }
  for (ht::Work& each : works) each.wait();
  for (const at::Tensor& each : tensors) expect_close(each, sum_over_ranks(world, 3), "in flight");
  // Dropped: waited for, so that its copy stays until then.
  (void)ht::all_reduce_async(tensors[0], world.group());
}

template <class Call>
void expect_error(hymnResult_t code, const char* words, Call call) {
  try {
    call();
    ADD_FAILURE() << "it was not refused: " << words;
  } catch (const ht::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

// What a tensor is, and not what lies in its memory.
RANK_TEST(TorchCollectives, ConjugatesAreResolved) {
  const at::Tensor number = at::full({3}, c10::complex<double>(1, world.rank() + 1));
  at::Tensor all = at::zeros({world.size(), 3}, at::kComplexFloat);
  ht::all_gather(all, number.conj(), world.group());
  for (int rank = 0; rank < world.size(); ++rank)
    EXPECT_TRUE(at::equal(all[rank], at::full({3}, c10::complex<double>(1, -rank - 1))));
  const at::Tensor turned = at::full({2}, c10::complex<double>(0, 1));
  ht::all_reduce(turned.conj(), world.group());
  EXPECT_TRUE(at::equal(turned, at::full({2}, c10::complex<double>(0, world.size()))));
}

RANK_TEST(TorchCollectives, AWorkMayBeAssigned) {
  at::Tensor kept = at::ones({5});
  ht::Work work = ht::all_reduce_async(some_layouts(world.rank(), 0)[3], world.group());
  work = ht::all_reduce_async(kept, world.group());
  work.wait();
  EXPECT_TRUE(at::equal(kept, at::full({5}, world.size(), at::kFloat)));
}

RANK_TEST(TorchCollectives, WrongTensorsAreRefused) {
  const ht::Group group = world.group();
  expect_error(hymnUsageError, "undefined", [&] { ht::all_reduce({}, group); });
  expect_error(hymnUnsupportedError, "Sparse",
               [&] { ht::all_reduce(at::eye(3).to_sparse(), group); });
  expect_error(hymnUnsupportedError, "memory of the host",
               [&] { ht::all_reduce(at::empty({3}, at::Device("meta")), group); });
  expect_error(hymnUnsupportedError, "QInt8", [&] {
    ht::all_reduce(at::quantize_per_tensor(at::ones({3}), 1.0, 0, at::kQInt8), group);
  });
  expect_error(hymnUsageError, "times the other",
               [&] { ht::all_gather(at::zeros({3 * world.size() + 1}), at::zeros({3}), group); });
  expect_error(hymnUsageError, "is of", [&] {
    ht::all_gather(at::zeros({3 * world.size()}), at::zeros({3}, at::kLong), group);
  });
  expect_error(hymnUsageError, "all_to_all", [&] {
    ht::all_to_all(at::zeros({world.size()}), at::zeros({1 + world.size()}), group);
  });
  expect_error(hymnUsageError, "root",
               [&] { ht::broadcast(at::zeros({1}), world.size() + 3, group); });
  expect_error(hymnUsageError, "NULL", [&] { ht::all_reduce(at::zeros({1}), hymnGroup_t{}); });
}

RANK_TEST(TorchCollectives, AGroupSaysWhoIsInIt) {
  const ht::Group group = world.group();
  EXPECT_EQ(group.rank(), world.rank());
  EXPECT_EQ(group.size(), world.size());
  group.barrier();
  const int last = world.size() - 1;
  const hymn::ProcessGroup alone = world.new_group({last});
  if (world.rank() == last) {
    EXPECT_EQ(ht::Group(alone).global_rank(0), last);
  }
}

// One type of error for both ways to call, whose text names what the program has called.
RANK_TEST(TorchCollectives, ErrorsAreHymns) {
  try {
    ht::broadcast(at::zeros({1}), world.size() + 3, world.group());
    ADD_FAILURE() << "there is no such root";
  } catch (const hymn::Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(text.find("broadcast"), std::string::npos) << text;
    EXPECT_EQ(text.find("hymnI"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace hymn::test
