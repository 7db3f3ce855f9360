// Shapes alone, and what is wrong with a call: the same with elements and without.
#include "tests/functional/arrays.hpp"

namespace hymn::test {
namespace {

// Nobody is there to reduce with.
TEST(MetaCollectives, test_all_reduce) {
  const Array array = Array::meta({2, 3, 4}, DataType::float32);
  const Array sum = fc::all_reduce(array, "sum", fc::Where::ranks_alone({0}));
  EXPECT_TRUE(sum.is_meta());
  EXPECT_EQ(sum.shape(), array.shape());
}

TEST(MetaCollectives, HaveTheirShapes) {
  const fc::Where where = fc::Where::ranks_alone({0, 1, 2, 3}, "nobody");
  const Array array = Array::meta({4, 8}, DataType::bfloat16);
  EXPECT_EQ(fc::all_gather_tensor(array, 0, where).shape(), (Shape{16, 8}));
  EXPECT_EQ(fc::all_gather_tensor(array, -1, where).shape(), (Shape{4, 32}));
  EXPECT_EQ(fc::reduce_scatter_tensor(array, "avg", 0, where).shape(), (Shape{1, 8}));
  EXPECT_EQ(fc::reduce_scatter_tensor(array, "avg", 1, where).shape(), (Shape{4, 2}));
  EXPECT_EQ(fc::broadcast(array, 3, where).dtype(), DataType::bfloat16);
  const fc::Splits in = std::vector<std::int64_t>{0, 1, 2, 1};
  const fc::Splits out = std::vector<std::int64_t>{0, 5, 0, 1};
  EXPECT_EQ(fc::all_to_all_single(array, out, in, where).shape(), (Shape{6, 8}));
  EXPECT_EQ(fc::all_to_all_single(array, {}, {}, where).shape(), (Shape{4, 8}));
  EXPECT_EQ(fc::permute_tensor(array, {1, 2, 3, 0}, where).shape(), (Shape{4, 8}));
  EXPECT_EQ(fc::all_gather_into_tensor_coalesced(std::vector{array, array}, where)[1].shape(),
            (Shape{16, 8}));
  EXPECT_TRUE(fc::wait_tensor(fc::all_reduce(array, "max", where)).is_meta());
}

/// A call that is refused, of an array that may be meta.
struct Refused {
  std::function<void(const Array& array, const fc::Where& where)> call;
  ErrorKind kind;
  std::string operation;
  std::vector<std::string> words;
};

std::vector<Refused> refused_calls(const World& world) {
  const auto usage = ErrorKind::usage;
  const std::int64_t ranks = world.size();
  const auto splits = [](std::size_t count, std::int64_t each) {
    return fc::Splits(std::vector<std::int64_t>(count, each));
  };
  const auto size = static_cast<std::size_t>(ranks);
  std::vector<Refused> calls{
      {[](auto& a, auto& w) { (void)fc::all_reduce(a, "band", w); },
       ErrorKind::unsupported,
       "all_reduce",
       {"float32", "band"}},
      {[](auto& a, auto& w) { (void)fc::all_gather_tensor(a, 2, w); },
       usage,
       "all_gather_tensor",
       {"no dimension 2"}},
      {[](auto& a, auto& w) { (void)fc::broadcast(a, 1000, w); }, usage, "broadcast", {"1000"}},
      {[&](auto& a, auto& w) { (void)fc::all_to_all_single(a, {}, splits(size, 1), w); },
       usage,
       "all_to_all_single",
       {"only one side"}},
      {[=](auto& a, auto& w) {
         (void)fc::all_to_all_single(a, splits(size, 1), splits(size, 1), w);
       },
       usage,
       "all_to_all_single",
       {"add up to " + std::to_string(ranks), "[11, 3]"}},
      {[=](auto& a, auto& w) {
         (void)fc::all_to_all_single(a, splits(size + 1, 1), splits(size + 1, 1), w);
       },
       usage,
       "all_to_all_single",
       {"one for each rank"}},
      {[](auto& a, auto& w) { (void)fc::permute_tensor(a, {9}, w); },
       usage,
       "permute_tensor",
       {"[9]", "no permutation"}},
      {[](auto& a, auto& w) {
         const Array other =
             a.is_meta() ? Array::meta({2}, DataType::int8) : Array::zeros({2}, DataType::int8);
         (void)fc::all_reduce_coalesced(std::vector{a, other}, "sum", w);
       },
       usage,
       "all_reduce_coalesced",
       {"float32", "int8"}},
      {[](auto&, auto& w) { (void)fc::all_reduce_coalesced({}, "sum", w); },
       usage,
       "all_reduce_coalesced",
       {"0 arrays"}},
      {[](auto& a, auto& w) {
         (void)fc::reduce_scatter_tensor_coalesced(std::vector{a}, "sum", {}, w);
       },
       usage,
       "reduce_scatter_tensor_coalesced",
       {"0 dimensions for 1"}},
      {[](auto&, auto& w) { (void)fc::all_reduce(Array(), "sum", w); },
       usage,
       "all_reduce",
       {"empty"}},
  };
  fc::Splits own = splits(size, 0);
  (*own)[static_cast<std::size_t>(world.rank())] = 11;
  calls.push_back(
      {[=](auto& a, auto& w) { (void)fc::all_to_all_single(a, splits(size, 0), own, w); },
       usage,
       "all_to_all_single",
       {"gives itself 11, and takes 0"}});
  if (ranks > 1 && 11 % ranks != 0)
    calls.push_back({[](auto& a, auto& w) { (void)fc::reduce_scatter_tensor(a, "sum", 0, w); },
                     usage,
                     "reduce_scatter_tensor",
                     {"[11, 3]", "pad it"}});
  calls[3].call = [=](auto& a, auto& w) { (void)fc::all_to_all_single(a, {}, splits(size, 1), w); };
  return calls;
}

RANK_TEST(MetaCollectives, AreRefusedAsWithElements) {
  ProcessGroup& group = world.group();
  for (const Refused& refused : refused_calls(world))
    for (const bool is_meta : {false, true}) {
      const Array array = is_meta ? Array::meta({11, 3}, DataType::float32) : ones({11, 3});
      const std::string text =
          expect_error(refused.kind, [&] { refused.call(array, group); },
                       {refused.operation, "rank " + std::to_string(world.rank())});
      for (const std::string& word : refused.words)
        EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
    }
  expect_all<float>(fc::all_reduce(ones({2}), "sum", group), {2}, static_cast<float>(world.size()));
}

// What docs/dtypes.md refuses, and nothing else.
RANK_TEST(MetaCollectives, RefuseTheReductionsThatTheGroupRefuses) {
  ProcessGroup& group = world.group();
  for (const DataType dtype : all_data_types) {
    if (size_of(dtype) == 0) continue;
    for (const ReduceKind kind : all_reduce_kinds) {
      if (kind == ReduceKind::custom || kind == ReduceKind::opaque) continue;
      for (const double factor : {1.0, 0.5, -1.0, 200.0}) {
        if (factor != 1.0 && kind != ReduceKind::premul_sum) continue;
        const ReduceOp op =
            kind == ReduceKind::premul_sum ? ReduceOp::premul_sum(factor) : ReduceOp::of(kind);
        std::vector<std::byte> memory(2 * size_of(dtype));
        const BufferView view(memory.data(), 2, dtype);
        const bool is_refused =
            !error_text([&] { (void)group.prepare(Request::all_reduce(view, view, op)); }).empty();
        const bool is_refused_here =
            !error_text([&] { (void)fc::all_reduce(Array::meta({2}, dtype), op, group); }).empty();
        EXPECT_EQ(is_refused, is_refused_here)
            << to_string(dtype) << " " << to_string(kind) << " " << factor;
      }
    }
  }
}

TEST(MetaCollectives, RefuseWhatIsNoCall) {
  const fc::Where where = fc::Where::ranks_alone({0, 1});
  const Array array = Array::meta({4}, DataType::float32);
  expect_error(ErrorKind::usage, [&] { (void)fc::all_reduce(array, "plus", where); },
               {"'plus'", "product"});
  expect_error(ErrorKind::usage, [&] { (void)fc::all_reduce(ones({4}), "sum", where); },
               {"of no world", "meta"});
  expect_error(ErrorKind::usage,
               [&] { (void)fc::all_reduce_coalesced(std::vector{array, ones({4})}, "sum", where); },
               {"some of the arrays are meta"});
}

RANK_TEST(MetaCollectives, RefuseRanksOutside) {
  NEEDS_RANKS(2);
  const ProcessGroup first = world.new_group({0});
  const Array array = Array::meta({4}, DataType::float32);
  if (world.rank() == 0) {
    EXPECT_EQ(fc::all_reduce(array, "sum", first).shape(), (Shape{4}));
  } else {
    expect_error(ErrorKind::usage, [&] { (void)fc::all_reduce(array, "sum", first); },
                 {"not one of [0]"});
    expect_error(ErrorKind::usage,
                 [&] { (void)fc::all_reduce(array, "sum", {world, std::vector<int>{0}, "first"}); },
                 {"not one of [0]", "rank " + std::to_string(world.rank())});
  }
}

}  // namespace
}  // namespace hymn::test
