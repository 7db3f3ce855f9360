// The embedding, whose rows lie on several workers: what a worker keeps, and how trainers reach it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <hymn/rpc.hpp>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "examples/parameter_worker/text.hpp"

namespace parameter_worker {

/// Which rows are in a shard: those that leave `part` when divided by `parts`.
struct ShardShape {
  std::uint32_t rows = 0;  ///< of the whole embedding
  std::uint32_t width = 0;
  std::uint32_t part = 0;
  std::uint32_t parts = 1;
  std::uint64_t seed = 0;
  std::uint32_t own_rows() const { return (rows + parts - 1 - part) / parts; }
  /// Numbers, and of each row the squares that Adagrad adds up.
  std::size_t bytes() const { return std::size_t{own_rows()} * (width + 1) * sizeof(float); }
};

inline double megabytes(std::size_t bytes) { return static_cast<double>(bytes) / 1e6; }

/// What a shard has done.
struct ShardReport {
  std::string worker;
  std::uint64_t rows = 0;
  std::uint64_t learnt = 0;  ///< of these
  std::uint64_t given = 0;   ///< rows that trainers have fetched
  std::uint64_t taken = 0;   ///< gradients of rows
  static auto object_fields(auto& self) {
    return std::tie(self.worker, self.rows, self.learnt, self.given, self.taken);
  }
};

/// Rows of the embedding on a worker, with its part of the optimizer. Calls come by several
/// threads. Rows are named by their number in the whole.
class Shard {
 public:
  explicit Shard(const ShardShape& shape);

  /// [rows x width]
  std::vector<float> rows(std::span<const RowId> rows);
  /// One step of Adagrad with gradients [rows x width].
  void step(std::span<const RowId> rows, std::span<const float> gradients, float rate);
  ShardReport report(const std::string& worker);

 private:
  std::span<float> row(RowId row);

  ShardShape shape_;
  std::vector<float> values_;
  std::vector<float> squares_;
  ShardReport done_{};
  // Behind a pointer, for what a call returns is moved to where it is kept.
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
};

using Shards = std::vector<hymn::rpc::RemoteRef<Shard>>;

/// A worker makes no shard that is larger. Before the agent is made.
void limit_worker_memory(std::size_t bytes);

/// What a worker says that is asked to make this shard; empty where it has made it, which is gone
/// afterwards.
std::string why_refused(hymn::rpc::Agent& agent, const ShardShape& shape,
                        const std::string& worker);

/// Makes a shard on each of these workers, and gives all trainers references to them who ask for
/// them (embedding_of). Throws ResourceError, to those who ask as well, where a worker refuses.
void make_embedding(hymn::rpc::Agent& agent, const ShardShape& whole,
                    const std::vector<std::string>& workers);

/// A trainer's way to the rows. Errors of calls are std::runtime_error: without a worker nobody can
/// go on.
class Embedding {
 public:
  /// What the trainer of that name makes, or has made.
  Embedding(hymn::rpc::Agent& agent, const std::string& maker, std::uint32_t width);

  /// [rows x width]
  std::vector<float> fetch(std::span<const RowId> rows);
  /// Returns when the workers have made the step.
  void step(std::span<const RowId> rows, std::span<const float> gradients, float rate);
  std::vector<ShardReport> report();

 private:
  /// What goes to a shard of a list of rows.
  struct Part {
    std::vector<RowId> rows;
    std::vector<std::size_t> places;  ///< of these in the list
  };
  std::vector<Part> divide(std::span<const RowId> rows) const;
  /// Of all shards at the same time.
  template <class Result, class Call>
  std::vector<Result> ask(const Call& call);

  hymn::rpc::Agent& agent_;
  std::uint32_t width_;
  Shards shards_;
};

}  // namespace parameter_worker
