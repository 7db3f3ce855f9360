// Datatypes and reductions of MPI's own, passed through hymn.
#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "tests/mpi/check.hpp"

namespace hymn::test {
namespace {

constexpr int gap = -77;

std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

/// An MPI datatype that ends with its scope.
class Datatype {
 public:
  static Datatype contiguous(int count, MPI_Datatype element) {
    Datatype made;
    MPI_Type_contiguous(count, element, &made.type_);
    MPI_Type_commit(&made.type_);
    return made;
  }
  /// The first two of every four ints.
  static Datatype pairs_with_gaps() {
    Datatype made;
    MPI_Datatype pair = MPI_DATATYPE_NULL;
    MPI_Type_vector(1, 2, 4, MPI_INT, &pair);
    MPI_Type_create_resized(pair, 0, 4 * sizeof(int), &made.type_);
    MPI_Type_commit(&made.type_);
    MPI_Type_free(&pair);
    return made;
  }
  ~Datatype() {
    if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
  }
  Datatype(Datatype&& other) noexcept : type_(other.type_) { other.type_ = MPI_DATATYPE_NULL; }
  Datatype& operator=(Datatype&&) = delete;
  MPI_Datatype get() const { return type_; }

 private:
  Datatype() = default;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// `count` pairs with the gaps of pairs_with_gaps() between and behind them.
std::vector<int> pairs(std::size_t count, int first) {
  std::vector<int> values(4 * count, gap);
  for (std::size_t i = 0; i < count; ++i) {
    values[4 * i] = first + static_cast<int>(2 * i);
    values[4 * i + 1] = first + static_cast<int>(2 * i) + 1;
  }
  return values;
}

void check_contiguous(ProcessGroup& group) {
  const Datatype triple = Datatype::contiguous(3, MPI_FLOAT);
  const OpaqueType type = opaque_type(triple.get());
  CHECK(type.element_bytes == 3 * sizeof(float));
  CHECK(type.library == "mpi");
  const auto view = [&type](std::vector<float>& values) {
    return buffer_of(values.data(), values.size() / 3, type);
  };
  const std::size_t ranks = as_size(group.size());
  std::vector<float> mine(6);
  std::iota(mine.begin(), mine.end(), 6.0f * static_cast<float>(group.rank()));
  std::vector<float> all(6 * ranks);
  std::iota(all.begin(), all.end(), 0.0f);
  std::vector<float> got(all.size(), -1.0f);
  group.all_gather(view(mine), view(got));
  CHECK(got == all);
  got.assign(all.size(), -1.0f);
  group.gather(view(mine), view(got), 0);
  CHECK(group.rank() != 0 || got == all);
  std::vector<float> share(6, -1.0f);
  group.scatter(view(all), view(share), 0);
  CHECK(share == mine);
  std::vector<float> to_all(6 * ranks, static_cast<float>(group.rank()));
  group.all_to_all(view(to_all), view(got));
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == static_cast<float>(i / 6));
  std::vector<float> word = group.rank() == 0 ? all : got;
  group.broadcast_async(view(word), 0).wait();
  CHECK(word == all);
}

/// Gaps are nobody's business: they stay as they are on every rank.
void check_gaps(ProcessGroup& group) {
  const Datatype spread = Datatype::pairs_with_gaps();
  const OpaqueType type = opaque_type(spread.get());
  CHECK(type.element_bytes == 4 * sizeof(int));
  const auto view = [&type](std::vector<int>& values) {
    return buffer_of(values.data(), values.size() / 4, type);
  };
  std::vector<int> word = pairs(5, group.rank() == 0 ? 100 : 200);
  for (std::size_t i = 2; i < word.size(); i += 4) word[i] = group.rank();
  group.broadcast(view(word), 0);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(word[4 * i] == 100 + static_cast<int>(2 * i));
    CHECK(word[4 * i + 1] == 101 + static_cast<int>(2 * i));
    CHECK(word[4 * i + 2] == group.rank());
    CHECK(word[4 * i + 3] == gap);
  }
  std::vector<int> mine = pairs(2, 4 * group.rank());
  for (std::size_t i = 2; i < mine.size(); i += 4) mine[i] = 12345;
  std::vector<int> all(8 * as_size(group.size()), gap);
  group.all_gather(view(mine), view(all));
  CHECK(all == pairs(2 * as_size(group.size()), 0));
}

void check_messages(ProcessGroup& group) {
  if (group.size() < 2 || group.rank() > 1) return;
  const Datatype spread = Datatype::pairs_with_gaps();
  const OpaqueType type = opaque_type(spread.get());
  if (group.rank() == 0) {
    const std::vector<int> sent = pairs(3, 7);
    group.send(buffer_of(sent.data(), 3, type), 1, 4);
    return;
  }
  std::vector<int> received(4 * 5, gap);
  const RecvStatus status = group.recv(buffer_of(received.data(), 5, type), 0, 4);
  CHECK(status.count == 3);  // elements of the type, not what they are made of
  CHECK(status.source == 0);
  std::vector<int> expected = pairs(3, 7);
  expected.resize(received.size(), gap);
  CHECK(received == expected);
}

/// What is received comes into the gaps of what is sent.
void check_interleaved(ProcessGroup& group) {
  if (group.size() < 2) return;
  const Datatype spread = Datatype::pairs_with_gaps();
  const OpaqueType type = opaque_type(spread.get());
  const int next = (group.rank() + 1) % group.size();
  const int previous = (group.rank() + group.size() - 1) % group.size();
  std::vector<int> values = pairs(3, 10 * group.rank());
  const RecvStatus status =
      group.sendrecv(buffer_of(static_cast<const void*>(values.data()), 3, type), next, 4,
                     buffer_of(values.data() + 2, 3, type), previous, 4);
  CHECK(status.count == 3);
  std::vector<int> expected = pairs(3, 10 * group.rank());
  const std::vector<int> come = pairs(3, 10 * previous);
  for (std::size_t i = 0; i < come.size(); i += 4)
    for (std::size_t j = 0; j < 2; ++j) expected[i + 2 + j] = come[i + j];
  CHECK(values == expected);
}

/// Products of 2x2 matrices: the order of the ranks matters.
using Matrix = std::array<std::int64_t, 4>;

Matrix times(const Matrix& a, const Matrix& b) {
  return {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
          a[2] * b[1] + a[3] * b[3]};
}

void multiply(void* left, void* right, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const Matrix*>(left);
  auto* b = static_cast<Matrix*>(right);
  for (int i = 0; i < *count; ++i) b[i] = times(a[i], b[i]);
}

Matrix matrix_of(int rank, std::size_t i) { return {1, rank + 1, static_cast<std::int64_t>(i), 1}; }

void check_reductions(ProcessGroup& group) {
  const Datatype four = Datatype::contiguous(4, MPI_INT64_T);
  const OpaqueType type = opaque_type(four.get());
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(multiply, 0, &op);
  constexpr std::size_t count = 50;
  std::vector<Matrix> mine(count);
  std::vector<Matrix> expected(count);
  for (std::size_t i = 0; i < count; ++i) {
    mine[i] = matrix_of(group.rank(), i);
    expected[i] = matrix_of(0, i);
    for (int rank = 1; rank < group.size(); ++rank)
      expected[i] = times(expected[i], matrix_of(rank, i));
  }
  std::vector<Matrix> result(count);
  const ConstBufferView in = buffer_of(static_cast<const void*>(mine.data()), count, type);
  const BufferView out = buffer_of(result.data(), count, type);
  group.all_reduce(in, out, opaque_op(op));
  CHECK(result == expected);
  result.assign(count, {});
  group.all_reduce(in, out, opaque_op(op), {.timeout = Timeout::none()});
  CHECK(result == expected);
  result.assign(count, {});
  group.all_reduce_async(in, out, opaque_op(op)).wait();
  CHECK(result == expected);
  result.assign(count, {});
  group.reduce(in, out, group.size() - 1, opaque_op(op));
  CHECK(result == (group.rank() == group.size() - 1 ? expected : std::vector<Matrix>(count)));
  result = mine;
  group.all_reduce(out, opaque_op(op));
  CHECK(result == expected);
  std::vector<Matrix> blocks;
  for (int rank = 0; rank < group.size(); ++rank)
    blocks.insert(blocks.end(), mine.begin(), mine.end());
  group.reduce_scatter(buffer_of(static_cast<const void*>(blocks.data()), blocks.size(), type), out,
                       opaque_op(op));
  CHECK(result == expected);
  MPI_Op_free(&op);
}

/// In place on some ranks and not on others, which bring their elements to where MPI takes them.
void check_mixed_places(ProcessGroup& group) {
  const bool in_place = group.rank() % 2 == 0;
  const Datatype spread = Datatype::pairs_with_gaps();
  const OpaqueType pair = opaque_type(spread.get());
  const std::vector<int> mine = pairs(2, 4 * group.rank());
  const std::vector<int> expected = pairs(2 * as_size(group.size()), 0);
  for (const bool blocking : {true, false}) {
    std::vector<int> all(8 * as_size(group.size()), gap);
    int* const own = all.data() + 8 * group.rank();
    if (in_place) std::copy(mine.begin(), mine.end(), own);
    const ConstBufferView from = buffer_of(in_place ? own : mine.data(), 2, pair);
    const BufferView to = buffer_of(all.data(), all.size() / 4, pair);
    if (blocking)
      group.all_gather(from, to, {.timeout = Timeout::none()});
    else
      group.all_gather_async(from, to).wait();
    CHECK(all == expected);
  }
}

void keep_larger_digit(void* left, void* right, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const std::int32_t*>(left);
  auto* b = static_cast<std::int32_t*>(right);
  for (int i = 0; i < *count; ++i) b[i] = a[i] % 10 > b[i] % 10 ? a[i] : b[i];
}

/// A reduction of the user's, on a type that hymn knows.
void check_own_operation(ProcessGroup& group) {
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(keep_larger_digit, 1, &op);
  std::vector<std::int32_t> values(100, 100 - 10 * group.rank() + group.rank());
  group.all_reduce(values, opaque_op(op));
  const int last = group.size() - 1;
  CHECK(values == std::vector<std::int32_t>(100, 100 - 10 * last + last));
  group.all_reduce(values, opaque_op(MPI_SUM));
  CHECK(values[0] == (100 - 9 * last) * group.size());
  MPI_Op_free(&op);
}

/// Paths that are not MPI's refuse before anything is sent.
void check_refusals(World& world) {
  std::vector<int> everybody(as_size(world.size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  const Datatype four = Datatype::contiguous(4, MPI_INT64_T);
  const OpaqueType type = opaque_type(four.get());
  std::vector<Matrix> values(3);
  const BufferView view = buffer_of(values.data(), 3, type);
  ProcessGroup exchange = world.new_group(everybody, {.path = "exchange"});
  CHECK_THROWS(UnsupportedError, exchange.broadcast(view, 0), "unknown MPI type", "exchange");
  exchange.barrier();
  ProcessGroup messages = world.new_group(everybody, {.path = "mpi_p2p"});
  std::vector<std::int32_t> numbers(3);
  CHECK_THROWS(UnsupportedError, messages.all_reduce(numbers, opaque_op(MPI_SUM)), "mpi_p2p");
  messages.barrier();
  // MPI has no sum of a type that it knows nothing of.
  CHECK_THROWS(UnsupportedError, world.group().all_reduce(view),
               "an MPI type needs an MPI operation");
  world.group().barrier();
}

void run() {
  World world;
  std::vector<int> everybody(as_size(world.size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  ProcessGroup messages = world.new_group(everybody, {.path = "mpi_p2p"});
  for (ProcessGroup* group : {&world.group(), &messages}) {
    check_contiguous(*group);
    check_gaps(*group);
    check_mixed_places(*group);
    check_messages(*group);
    check_interleaved(*group);
  }
  check_reductions(world.group());
  check_own_operation(world.group());
  check_refusals(world);
}

}  // namespace
}  // namespace hymn::test

int main() {
  MPI_Init(nullptr, nullptr);
  hymn::test::run();
  MPI_Finalize();
  return 0;
}
